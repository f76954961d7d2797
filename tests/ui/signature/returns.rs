use fused_graph::prelude::*;

#[fused_graph]
fn nothing(x: &Tensor) {
    relu(x);
}

#[fused_graph]
fn result(x: &Tensor) -> fused_graph::Result<(Tensor, Tensor)> {
    Ok((x, x))
}

#[fused_graph]
fn parts(x: &Tensor) -> (Tensor, Vec<Tensor>, [&'static str; 2], ()) {
    x
}

#[fused_graph]
fn opaque(x: &Tensor) -> impl Sized {
    x
}

#[fused_graph]
fn static_text(x: &Tensor) -> &'static str {
    "x"
}

fn main() {
    let x = Tensor::zeros([2], DType::F32, &Device::cpu()).unwrap();
    let _: Tensor = nothing(&x).unwrap();
    let (_, _) = result(&x).unwrap();
    let _ = (parts(&x), opaque(&x), static_text(&x));
}
