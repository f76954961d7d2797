// A value of the wrong type is an error at the value, not at the attribute: case 44.
use fused_graph::prelude::*;

#[fused_graph]
fn values(x: &Tensor, w: &Tensor) -> Tensor {
    let y = matmul(x, w, transpose_a = 1);
    let z = gelu(y, approximate = true);
    conv2d(z, w, bias = missing)
}

fn main() {}
