//! Convolutions and matmuls with what is fused to them.

use super::*;
use crate::ir::{ConvAttrs, PointwiseMode as M, ReduceAttrs, ReduceMode};

const TYPES: [DType; 5] = [DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8];

fn matmul(a: &[i64], b: &[i64], dtype: DType, layouts: [Layout; 2]) {
    let mut g = Build::new();
    let (x, w) = (g.arg(a, dtype, layouts[0]), g.arg(b, dtype, layouts[1]));
    let y = g.op(Op::Matmul, &[x, w]);
    let plain = y;
    // GELU of a single negative number would measure the cancellation in the sum.
    let y = if dtype == DType::I8 { y } else { g.pw(M::Sigmoid, &[y]) };
    check(g.returns(&[y, plain]), 9, &format!("{a:?} by {b:?} {dtype} {layouts:?}"));
}

#[test]
fn matmuls_of_all_sizes_types_and_layouts() {
    for dtype in TYPES {
        for m in [1, 3, 7, 17, 33] {
            for n in [1, 3, 7, 17, 33, 70] {
                for k in [1, 3, 17, 33, 300] {
                    matmul(&[m, k], &[k, n], dtype, [Layout::Contiguous; 2]);
                }
            }
        }
        for left in LAYOUTS {
            for right in LAYOUTS {
                matmul(&[17, 33], &[33, 70], dtype, [left, right]);
                matmul(&[2, 3, 7, 9], &[2, 3, 9, 5], dtype, [left, right]);
            }
        }
    }
}

#[test]
fn batches_broadcast() {
    for (a, b) in [
        (&[5, 3, 4][..], &[4, 6][..]),
        (&[3, 4], &[5, 4, 6]),
        (&[5, 1, 3, 4], &[2, 4, 6]),
        (&[1, 3, 4], &[7, 4, 6]),
        (&[2, 1, 1, 4], &[1, 3, 4, 6]),
        (&[9, 100, 40], &[9, 40, 70]),
    ] {
        matmul(a, b, DType::F32, [Layout::Contiguous; 2]);
        matmul(a, b, DType::BF16, [Layout::Strided, Layout::Contiguous]);
    }
}

fn conv(x: &[i64], w: &[i64], attrs: ConvAttrs, dtype: DType, layouts: [Layout; 2]) {
    let mut g = Build::new();
    let (x, w) = (g.arg(x, dtype, layouts[0]), g.arg(w, dtype, layouts[1]));
    let y = g.op(Op::Conv(attrs), &[x, w]);
    let mut bias = vec![1; attrs.spatial + 1];
    bias[0] = g.0.value(y).dims[1];
    let z = if dtype == DType::I8 {
        y
    } else {
        let b = g.arg(&bias, dtype, Layout::Contiguous);
        let z = g.pw(M::Add, &[y, b]);
        g.pw(M::Relu, &[z])
    };
    let what = format!("{attrs:?} {dtype} {layouts:?}");
    check(g.returns(&[z]), 10, &what);
}

fn with(spatial: usize, stride: &[i64], dilation: &[i64], pre: &[i64], post: &[i64], groups: i64) -> ConvAttrs {
    ConvAttrs {
        spatial,
        stride: dims(stride),
        dilation: dims(dilation),
        pre_padding: dims(pre),
        post_padding: dims(post),
        groups,
    }
}

#[test]
fn convolutions_of_all_kinds_types_and_layouts() {
    for dtype in TYPES {
        for left in LAYOUTS {
            for right in [Layout::Contiguous, Layout::ChannelsLast, Layout::Strided] {
                let l = [left, right];
                conv(&[2, 3, 9, 7], &[5, 3, 3, 3], with(2, &[1, 1], &[1, 1], &[1, 1], &[1, 1], 1), dtype, l);
                conv(&[2, 3, 9, 7], &[5, 3, 3, 2], with(2, &[2, 1], &[1, 2], &[0, 2], &[3, 1], 1), dtype, l);
                conv(&[1, 40, 5, 6], &[9, 40, 3, 3], with(2, &[1, 1], &[1, 1], &[1, 1], &[1, 1], 1), dtype, l);
                conv(&[2, 40, 5, 6], &[70, 40, 1, 1], ConvAttrs::new(2), dtype, l);
                conv(&[2, 6, 9, 7], &[8, 3, 3, 3], with(2, &[1, 2], &[1, 1], &[1, 0], &[1, 1], 2), dtype, l);
                conv(&[2, 6, 9, 7], &[6, 1, 3, 3], with(2, &[1, 1], &[1, 1], &[1, 1], &[1, 1], 6), dtype, l);
                conv(&[2, 6, 9, 7], &[12, 1, 3, 3], with(2, &[2, 2], &[2, 1], &[1, 1], &[1, 1], 6), dtype, l);
                conv(&[2, 4, 17], &[5, 4, 5], with(1, &[3], &[2], &[4], &[0], 1), dtype, l);
                conv(
                    &[2, 3, 4, 5, 6],
                    &[4, 3, 3, 2, 3],
                    with(3, &[1, 1, 2], &[1, 1, 1], &[1, 0, 1], &[1, 1, 1], 1),
                    dtype,
                    l,
                );
                conv(
                    &[2, 3, 4, 5, 6],
                    &[3, 1, 2, 2, 2],
                    with(3, &[1, 2, 1], &[1, 1, 1], &[0, 0, 1], &[1, 0, 1], 3),
                    dtype,
                    l,
                );
            }
        }
    }
}

#[test]
fn convolutions_of_all_sizes() {
    for dtype in [DType::F32, DType::BF16] {
        for layout in [Layout::Contiguous, Layout::ChannelsLast] {
            for c in [1, 3, 7, 17, 33] {
                for k in [1, 3, 17, 33] {
                    for n in [3, 7, 17] {
                        conv(
                            &[1, c, n, n],
                            &[k, c, 3, 3],
                            with(2, &[1, 1], &[1, 1], &[1, 1], &[1, 1], 1),
                            dtype,
                            [layout; 2],
                        );
                    }
                }
            }
            conv(&[1, 300, 3, 3], &[5, 300, 3, 3], with(2, &[1, 1], &[1, 1], &[1, 1], &[1, 1], 1), dtype, [layout; 2]);
        }
    }
}

/// One kernel: scale, bias, residual, activation, the rounded copy in front of it, and three reductions of what comes out.
#[test]
fn a_whole_epilogue_is_one_kernel() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for layout in [Layout::Contiguous, Layout::ChannelsLast] {
            let mut g = Build::new();
            let x = g.arg(&[3, 33, 13, 11], dtype, layout);
            let w = g.arg(&[70, 33, 3, 3], dtype, layout);
            let (scale, bias) =
                (g.arg(&[70, 1, 1], DType::F32, Layout::Contiguous), g.arg(&[70, 1, 1], dtype, Layout::Strided));
            let residual = g.arg(&[3, 70, 13, 11], dtype, Layout::Strided);
            let alpha = g.0.add_scalar("alpha", crate::ir::ScalarType::F32);
            let y = g.op(Op::Conv(with(2, &[1, 1], &[1, 1], &[1, 1], &[1, 1], 1)), &[x, w]);
            let y = g.pw(M::Mul, &[alpha, y]);
            let y = g.pw(M::Mul, &[y, scale]);
            let y = g.pw(M::Add, &[y, bias]);
            let before = g.pw(M::Add, &[y, residual]);
            let z = g.pw(M::Gelu, &[before]);
            let reduce = |g: &mut Build, mode, axes| g.op(Op::Reduce(ReduceAttrs { mode, axes, keepdim: false }), &[z]);
            let amax = reduce(&mut g, ReduceMode::Amax, 15);
            let sums = reduce(&mut g, ReduceMode::Norm1, 13);
            let pooled = reduce(&mut g, ReduceMode::Max, 12);
            let graph = Arc::new(g.returns(&[z, before, amax, sums, pooled]));
            let mut rng = rng(11);
            let tensors: Vec<Tensor> = graph.inputs().map(|(_, v)| argument(v, &mut rng)).collect();
            assert_eq!(run(&graph, &tensors, &[0.5]).1.kernels.len(), 1);
            check_with((*graph).clone(), &tensors, &[0.5], &format!("{dtype} {layout:?}"));
        }
    }
}

#[test]
fn results_take_the_strides_that_are_set() {
    let mut g = Build::new();
    let (x, w) = (g.arg(&[40, 30], DType::F32, Layout::Contiguous), g.arg(&[30, 50], DType::F32, Layout::Contiguous));
    let y = g.op(Op::Matmul, &[x, w]);
    let z = g.pw(M::Relu, &[y]);
    g.0.set_strides(z, dims(&[1, 40]));
    check(g.returns(&[z, y]), 12, "transposed result");
}

#[test]
fn the_same_bits_every_time() {
    let mut g = Build::new();
    let (x, w) =
        (g.arg(&[200, 300], DType::F32, Layout::Contiguous), g.arg(&[300, 100], DType::F32, Layout::Contiguous));
    let y = g.op(Op::Matmul, &[x, w]);
    let s = g.op(Op::Reduce(ReduceAttrs { mode: ReduceMode::Sum, axes: 3, keepdim: false }), &[y]);
    let graph = Arc::new(g.returns(&[y, s]));
    let mut rng = rng(13);
    let tensors: Vec<Tensor> = graph.inputs().map(|(_, v)| argument(v, &mut rng)).collect();
    let bits = || run(&graph, &tensors, &[]).0.iter().map(|t| t.to_vec::<f32>().unwrap()).collect::<Vec<_>>();
    let first = bits();
    assert!((0..10).all(|_| bits() == first));
}
