// Case 2: one error for a type parameter that is not 'static, at the parameter.
use fused_graph::prelude::*;

trait Scale {
    const BY: f64;
}

#[fused_graph]
fn scaled<S: Scale>(x: &Tensor) -> Tensor {
    S::BY * x
}

fn main() {}
