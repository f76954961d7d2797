// Case 11: what an editor sees while the user types. The function is there for its callers in every state.
use fused_graph::prelude::*;

#[fused_graph]
fn field(x: &Tensor) -> Tensor {
    let y = x.
}

#[fused_graph]
fn value(x: &Tensor) -> Tensor {
    conv2d(x, x, padding = )
}

#[fused_graph]
fn empty(x: &Tensor) -> Tensor {}

#[fused_graph]
fn binding(x: &Tensor) -> Tensor {
    let y =
}

#[fused_graph]
fn condition(x: &Tensor) -> Tensor {
    if x
}

fn main() {
    let x = Tensor::zeros([2], DType::F32, &Device::cpu()).unwrap();
    let _ = (field(&x), value(&x), empty(&x), binding(&x), condition(&x));
    let _ = (field::plan(&x), value::stats(), empty::graph(&x));
}
