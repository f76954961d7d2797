//! The body is ordinary Rust over `Expr`: control flow on what is no tensor, helpers, closures, macros, inlining, arrays and tuples.

#![allow(clippy::unwrap_used)]

use fused_graph::prelude::*;

fn x() -> Tensor {
    Tensor::from_slice(&[1.0_f32, -2.0, 3.0, -4.0], [2, 2], &Device::cpu()).unwrap()
}

fn values(t: fused_graph::Result<Tensor>) -> Vec<f32> {
    t.unwrap().to_vec().unwrap()
}

fn shifted(x: Expr, by: f64) -> Expr {
    x + by
}

#[fused_graph]
fn plain(x: &Tensor, steps: usize, how: &'static str) -> Tensor {
    let mut y = shifted(x, 1.0);
    for step in 0..steps {
        y = match how {
            "relu" => relu(y),
            _ if step % 2 == 0 => -y,
            _ => 2.0 * y,
        };
    }
    let apply = |v: Expr| sum(v, axes = [-1], keepdim = true);
    vec![apply(y)][0] / 2.0
}

#[test]
fn control_flow_helpers_closures_macros() {
    assert_eq!(values(plain(&x(), 1, "relu")), [1.0, 2.0]);
    assert_eq!(values(plain(&x(), 2, "other")), [-1.0, -1.0]);
    assert_eq!(plain::stats().plans_built, 2);
}

#[fused_graph]
fn inlines(x: &Tensor, alpha: f64) -> [Tensor; 2] {
    let y = plain::expr(alpha * x, 0, "");
    [y, y]
}

#[test]
fn expr_inlines_and_a_scalar_is_handed_over_at_launch() {
    for alpha in [1.0, 3.0] {
        let [a, b] = inlines(&x(), alpha).unwrap();
        let want = [(2.0 - alpha as f32) / 2.0, (2.0 - alpha as f32) / 2.0];
        assert_eq!((a.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap()), (want.to_vec(), want.to_vec()));
    }
    assert_eq!(inlines::stats().plans_built, 1);
}

#[fused_graph]
fn optional(x: &Tensor, b: Option<&Tensor>) -> Tensor {
    match b {
        Some(b) => x + b,
        None => matmul(x, x, bias = b),
    }
}

#[test]
fn presence_of_an_optional_tensor_is_part_of_the_plan() {
    assert_eq!(values(optional(&x(), Some(&x()))), [2.0, -4.0, 6.0, -8.0]);
    assert_eq!(values(optional(&x(), None)), [-5.0, 6.0, -9.0, 10.0]);
    assert_eq!(optional::stats().plans_built, 2);
}

#[test]
fn inside_a_function_it_sees_what_that_function_declares() {
    const SCALE: f64 = 10.0;
    fn local(x: Expr) -> Expr {
        SCALE * x
    }
    #[fused_graph]
    fn uses_locals(x: &Tensor) -> Tensor {
        local(x)
    }
    assert_eq!(values(uses_locals(&x())), [10.0, -20.0, 30.0, -40.0]);
}

macro_rules! activations {
    ($($name:ident = $op:path, |$v:ident| $body:block;)*) => {$(
        #[fused_graph]
        fn $name($v: &Tensor) -> Tensor {
            let y = $body;
            $op(y)
        }
    )*};
}

activations! {
    first = relu, |v| { sum(v, axes = [0]) };
    second = neg, |v| { v };
}

#[test]
fn from_macro_rules() {
    assert_eq!(values(first(&x())), [4.0, 0.0]);
    assert_eq!(values(second(&x())), [-1.0, 2.0, -3.0, 4.0]);
}
