// Errors of the body are rustc's own, at the user's tokens.
use fused_graph::prelude::*;

#[fused_graph]
fn types(x: &Tensor, n: usize) -> (Tensor, Tensor) {
    let y: usize = relu(x);
    let z = no_such_operation(x) + unknown;
    let s = x + "text";
    x.missing();
    relu(n)
}

#[fused_graph]
fn borrowed(x: &Tensor) -> Tensor {
    let names = vec![String::new()];
    drop(names);
    drop(names);
    x
}

fn main() {
    let x = Tensor::zeros([2], DType::F32, &Device::cpu()).unwrap();
    let _ = types(&x, "n");
    let y: Tensor = borrowed(&x);
}
