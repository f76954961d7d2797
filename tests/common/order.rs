//! Case 22: the order of the operands of the source is kept, whichever of them is computed.

#![allow(clippy::eq_op, reason = "the same value on both sides is what is tested")]

use super::{tensor, values};
use fused_graph::prelude::*;

#[fused_graph]
fn both_ways(m: &Tensor, one: &Tensor, c: &Tensor) -> ([Tensor; 4], [Tensor; 4]) {
    let y = matmul(m, one);
    ([c - y, c / y, pow(c, y), select(gt(c, y), c, y)], [y - c, y / c, pow(y, c), select(gt(y, c), y, c)])
}

#[fused_graph]
fn conv_both_ways(x: &Tensor, one: &Tensor, c: &Tensor) -> [Tensor; 4] {
    let y = conv2d(x, one);
    [c - y, y - c, c / y, y / c]
}

#[fused_graph]
fn shapes_of_expressions(m: &Tensor, one: &Tensor) -> [Tensor; 8] {
    let y = matmul(m, one);
    let t = y + 1.0;
    let (a, b, c) = (y, y * 0.5, t);
    [y * y, y - y, t + t * 2.0, 1.0 - y, -y, a - (b - c), (a - b) - c, y.relu().sqrt()]
}

pub fn case_22_matmul(dev: &Device) {
    let t = |data: &[f32]| tensor(data, &[2, 2], DType::F32, dev);
    let (m, one) = (t(&[1., 2., 3., 4.]), t(&[1., 0., 0., 1.]));
    for c in [tensor(&[10.], &[1, 1], DType::F32, dev), t(&[10.; 4])] {
        let (left, right) = both_ways(&m, &one, &c).unwrap();
        near(&left[0], &[9., 8., 7., 6.]);
        near(&right[0], &[-9., -8., -7., -6.]);
        near(&left[1], &[10., 5., 10. / 3., 2.5]);
        near(&right[1], &[0.1, 0.2, 0.3, 0.4]);
        near(&left[2], &[10., 100., 1000., 10000.]);
        near(&right[2], &[1., 1024., 59049., 1048576.]);
        near(&left[3], &[10.; 4]);
        near(&right[3], &[10.; 4]);
    }
}

pub fn case_22_convolution(dev: &Device) {
    let x = tensor(&[1., 2., 3., 4.], &[1, 1, 2, 2], DType::F32, dev);
    let one = tensor(&[1.], &[1, 1, 1, 1], DType::F32, dev);
    let c = tensor(&[10.], &[1, 1, 1, 1], DType::F32, dev);
    let [cy, yc, c_y, y_c] = conv_both_ways(&x, &one, &c).unwrap();
    near(&cy, &[9., 8., 7., 6.]);
    near(&yc, &[-9., -8., -7., -6.]);
    near(&c_y, &[10., 5., 10. / 3., 2.5]);
    near(&y_c, &[0.1, 0.2, 0.3, 0.4]);
}

pub fn case_22_expressions(dev: &Device) {
    let m = [1.0f64, 2., 3., 4.];
    let t = |data: &[f32]| tensor(data, &[2, 2], DType::F32, dev);
    let out = shapes_of_expressions(&t(&[1., 2., 3., 4.]), &t(&[1., 0., 0., 1.])).unwrap();
    let rust: [fn(f64) -> f64; 8] = [
        |y| y * y,
        |y| y - y,
        |y| (y + 1.0) + (y + 1.0) * 2.0,
        |y| 1.0 - y,
        |y| -y,
        |y| y - (y * 0.5 - (y + 1.0)),
        |y| (y - y * 0.5) - (y + 1.0),
        |y| y.max(0.0).sqrt(),
    ];
    for (got, want) in out.iter().zip(rust) {
        near(got, &m.map(want));
    }
}

/// These are small whole numbers, exact in TF32 too, up to a division or power.
fn near(got: &Tensor, want: &[f64]) {
    let got = values(got);
    assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() <= 1e-5 * w.abs().max(1.0)), "{got:?}, not {want:?}");
}
