// Every mistake in named options, each at its own token, and nothing else: case 44.
use fused_graph::prelude::*;

#[fused_graph]
fn misspelt(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
    let y = conv2d(x, w, bais = b, paddng = 1, pad = 1, epilogue = 3);
    let s = softplus(y, beat = 2.0);
    relu(y + sum(s, axis = [1]))
}

#[fused_graph]
fn misplaced(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
    let y = conv2d(x, padding = 1, w);
    let z = conv2d(x, w, stride = 1, bias = b, stride = [2, 2]);
    let t = matmul(x, transpose_b = true);
    let u = matmul(x, w, b, transpose_b = true);
    let v = u.sum(axes = [1]);
    y + z + t + v
}

#[fused_graph]
fn not_an_operation(x: &Tensor, w: &Tensor) -> Tensor {
    let y = conv3(x, w, padding = 1);
    let z = relu(y, inplace = true);
    helper(z, factor = 2)
}

#[fused_graph]
fn no_operand(x: &Tensor) -> Tensor {
    max_pool2d(x, padding = 1)
}

fn conv3(x: Expr, w: Expr) -> Expr {
    conv2d(x, w)
}

fn helper(x: Expr) -> Expr {
    x
}

fn main() {
    let x = Tensor::zeros([1, 1, 4, 4], DType::F32, &Device::cpu()).unwrap();
    let _ = misspelt(&x, &x, &x);
    let _ = misplaced::explain(&x, &x, &x);
    let _ = not_an_operation::stats();
    let _ = no_operand(&x);
}
