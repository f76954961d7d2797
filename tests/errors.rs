//! Bad input: an error of the right kind whose text says what to do, never a panic. The texts are snapshots (`cargo insta review`).
#![allow(clippy::unwrap_used, clippy::expect_used)]

use fused_graph::prelude::*;
use fused_graph::{Error, ErrorKind};

#[fused_graph]
fn conv_bias_relu(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
    relu(conv2d(x, w, bias = b, padding = 1))
}

#[fused_graph]
fn linear(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
    let y = matmul(x, w);
    y + b
}

#[fused_graph]
fn negated(x: &Tensor) -> Tensor {
    -x
}

fn t(dims: &[i64]) -> Tensor {
    Tensor::zeros(dims, DType::F32, &Device::CPU).unwrap()
}

/// One line a case: name, kind, text without the path of the machine.
fn listing(cases: Vec<(&str, ErrorKind, Result<(), Error>)>) -> String {
    let mut out = String::new();
    for (name, kind, result) in cases {
        let error = result.expect_err(name);
        assert_eq!(error.kind(), kind, "{name}: {error}");
        out += &format!("{name}\n    {}\n", error.to_string().replace('\n', "\n    "));
    }
    out
}

#[fused_graph]
fn scaled_conv(x: &Tensor, w: &Tensor, s: &Tensor) -> Tensor {
    per_channel(s) - conv2d(x, w)
}

#[test]
fn shapes() {
    let per_channel = |s: &[i64]| scaled_conv(&t(&[1, 3, 8, 8]), &t(&[4, 3, 3, 3]), &t(s)).map(drop);
    let conv = |x: &[i64], w: &[i64], b: &[i64]| conv_bias_relu(&t(x), &t(w), &t(b)).map(drop);
    let mm = |x: &[i64], w: &[i64], b: &[i64]| linear(&t(x), &t(w), &t(b)).map(drop);
    assert!(per_channel(&[4]).is_ok() && per_channel(&[1]).is_ok() && per_channel(&[]).is_ok());
    insta::assert_snapshot!(listing(vec![
        ("data of rank 3", ErrorKind::Shape, conv(&[3, 8, 8], &[4, 3, 3, 3], &[4])),
        ("weights of rank 3", ErrorKind::Shape, conv(&[1, 3, 8, 8], &[4, 3, 9], &[4])),
        ("channels that do not fit", ErrorKind::Shape, conv(&[1, 5, 8, 8], &[4, 3, 3, 3], &[4])),
        ("a bias of the wrong length", ErrorKind::Shape, conv(&[1, 3, 8, 8], &[4, 3, 3, 3], &[5])),
        ("per channel, of the wrong length", ErrorKind::Shape, per_channel(&[3])),
        ("per channel, of rank 2", ErrorKind::Shape, per_channel(&[4, 1])),
        ("a filter larger than the data", ErrorKind::Shape, conv(&[1, 3, 2, 2], &[4, 3, 7, 7], &[4])),
        ("an empty batch", ErrorKind::Shape, conv(&[0, 3, 8, 8], &[4, 3, 3, 3], &[4])),
        ("inner extents that differ", ErrorKind::Shape, mm(&[4, 5], &[6, 7], &[7])),
        ("a transposed weight", ErrorKind::Shape, mm(&[4, 5], &[7, 5], &[7])),
        ("a vector", ErrorKind::Shape, mm(&[5], &[5, 7], &[7])),
        ("batches that do not broadcast", ErrorKind::Shape, mm(&[2, 4, 5], &[3, 5, 7], &[7])),
        ("a bias that does not broadcast", ErrorKind::Shape, mm(&[4, 5], &[5, 7], &[6])),
    ]));
}

#[test]
fn element_types() {
    let (x, w, b) = (t(&[4, 4]), t(&[4, 4]), t(&[4]));
    let to = |t: &Tensor, d: DType| t.to_dtype(d).unwrap();
    insta::assert_snapshot!(listing(vec![
        ("mixed operands of a core", ErrorKind::DType, linear(&to(&x, DType::F16), &w, &b).map(drop)),
        ("integers in a core", ErrorKind::DType, linear(&to(&x, DType::I32), &to(&w, DType::I32), &b).map(drop)),
        ("truth values as numbers", ErrorKind::DType, negated(&to(&b, DType::Bool)).map(drop)),
        ("reading another type", ErrorKind::DType, x.to_vec::<i32>().map(drop)),
    ]));
}

#[test]
fn tensors() {
    let cpu = Device::CPU;
    let x = t(&[2, 3, 4]);
    insta::assert_snapshot!(listing(vec![
        ("a slice of the wrong length", ErrorKind::Shape, Tensor::from_slice(&[1.0f32; 5], [2, 3], &cpu).map(drop)),
        ("a negative extent", ErrorKind::Shape, Tensor::zeros([2i64, -3], DType::F32, &cpu).map(drop)),
        (
            "more elements than an i64 counts",
            ErrorKind::Shape,
            Tensor::zeros([i64::MAX, 4], DType::F32, &cpu).map(drop)
        ),
        ("rank 9", ErrorKind::Shape, Tensor::zeros([1i64; 9], DType::F32, &cpu).map(drop)),
        ("an axis that is not there", ErrorKind::Argument, x.slice(3, 0..1).map(drop)),
        ("a range outside", ErrorKind::Argument, x.slice(1, 2..5).map(drop)),
        ("not a permutation", ErrorKind::Argument, x.permute([0, 0, 1]).map(drop)),
        ("another number of elements", ErrorKind::Shape, x.reshape([5, 5]).map(drop)),
        ("an extent that does not repeat", ErrorKind::Shape, x.expand([2, 5, 4]).map(drop)),
    ]));
}

#[test]
fn several_mistakes_are_reported_together() {
    #[fused_graph]
    fn two_mistakes(x: &Tensor, w: &Tensor) -> (Tensor, Tensor) {
        let first = matmul(x, w);
        let second = permute(x, [2, 1]);
        (relu(first), second)
    }
    insta::assert_snapshot!(listing(vec![("two", ErrorKind::Shape, two_mistakes(&t(&[4, 5]), &t(&[6, 7])).map(drop))]));
}

#[test]
fn a_function_without_tensors_and_odd_results() {
    #[fused_graph]
    fn scalar(_x: Option<&Tensor>, alpha: f32) -> Tensor {
        alpha * 2.0
    }
    #[fused_graph]
    fn integral(x: &Tensor) -> Tensor {
        x * 0.5
    }
    let ints = t(&[3]).to_dtype(DType::I32).unwrap();
    insta::assert_snapshot!(listing(vec![
        ("a scalar result", ErrorKind::Argument, scalar(None, 1.0).map(drop)),
        ("half an integer", ErrorKind::DType, integral(&ints).map(drop)),
    ]));
}
