//! Normalisations and softmax.

use super::*;
use crate::ir::{NormAttrs, NormMode, NormPart, SoftmaxAttrs};

const TYPES: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

fn norm(x: &[i64], n: usize, mode: NormMode, bias: bool, dtype: DType, parameters: DType, layout: Layout) {
    let mut g = Build::new();
    let shape = &x[x.len() - n..];
    let axes = (x.len() - n..x.len()).fold(0, |bits, a| bits | 1 << a);
    let attrs = NormAttrs { mode, axes, bias, part: NormPart::Y };
    let mut operands = vec![g.arg(x, dtype, layout), g.arg(shape, parameters, Layout::Contiguous)];
    if bias {
        operands.push(g.arg(shape, parameters, Layout::Contiguous));
    }
    operands.push(g.0.add_const(1e-3));
    let parts = [NormPart::InvStd, NormPart::Y, NormPart::Mean];
    let parts = parts.into_iter().filter(|p| mode == NormMode::Layer || *p != NormPart::Mean);
    let results: Vec<ValueId> = parts.map(|part| g.op(Op::Norm(NormAttrs { part, ..attrs }), &operands)).collect();
    check(g.returns(&results), 11, &format!("{mode:?} {x:?} over {n}, {dtype} and {parameters}, {layout:?}"));
}

#[test]
fn norms_of_all_shapes_types_and_layouts() {
    for mode in [NormMode::Layer, NormMode::Rms] {
        for dtype in TYPES {
            for layout in LAYOUTS {
                for (x, n) in [(&[2, 3, 5, 7][..], 1), (&[2, 3, 5, 7], 2), (&[4, 33], 1), (&[3, 70], 2), (&[1, 1], 1)] {
                    norm(x, n, mode, mode == NormMode::Layer, dtype, dtype, layout);
                }
            }
            norm(&[300, 257], 1, mode, false, dtype, DType::F32, Layout::Contiguous);
            norm(&[2, 9001], 1, mode, true, dtype, DType::F32, Layout::Contiguous);
        }
    }
}

fn channel_norm(x: &[i64], mode: NormMode, dtype: DType, layout: Layout) {
    let mut g = Build::new();
    let mut list = vec![1; x.len() - 1];
    let given = if mode == NormMode::Group { 2 } else { 1 };
    list[..given].copy_from_slice(&x[1..1 + given]);
    let parameter = |g: &mut Build| g.arg(&list, DType::F32, Layout::Contiguous);
    let operands = [g.arg(x, dtype, layout), parameter(&mut g), parameter(&mut g), g.0.add_const(1e-3)];
    let attrs = NormAttrs { mode, axes: mode.axes(x.len(), 0), bias: true, part: NormPart::Y };
    let parts = [NormPart::Y, NormPart::Mean, NormPart::InvStd];
    let results = parts.map(|part| g.op(Op::Norm(NormAttrs { part, ..attrs }), &operands));
    check(g.returns(&results), 13, &format!("{mode:?} {x:?} {dtype} {layout:?}"));
}

#[test]
fn norms_of_channels() {
    for dtype in TYPES {
        for layout in LAYOUTS {
            for x in [&[2, 3, 5, 7][..], &[3, 4, 9], &[2, 2, 3, 4, 5]] {
                for mode in [NormMode::Batch, NormMode::Instance, NormMode::Group] {
                    channel_norm(x, mode, dtype, layout);
                }
            }
            channel_norm(&[33, 6], NormMode::Batch, dtype, layout);
        }
    }
}

#[test]
fn results_of_one_norm_are_one_kernel() {
    let mut g = Build::new();
    let x = g.arg(&[4, 8], DType::F32, Layout::Contiguous);
    let (gamma, beta) = (g.arg(&[8], DType::F32, Layout::Contiguous), g.arg(&[8], DType::F32, Layout::Contiguous));
    let epsilon = g.0.add_const(1e-5);
    let attrs = NormAttrs { mode: NormMode::Layer, axes: 2, bias: true, part: NormPart::Y };
    let operands = [x, gamma, beta, epsilon];
    let y = g.op(Op::Norm(attrs), &operands);
    let mean = g.op(Op::Norm(NormAttrs { part: NormPart::Mean, ..attrs }), &operands);
    let again = g.op(Op::Norm(NormAttrs { part: NormPart::Mean, ..attrs }), &operands);
    let z = g.pw(PointwiseMode::Relu, &[y]);
    let graph = Arc::new(g.returns(&[z, mean, again]));
    let partition = crate::fuse::partition(&graph, &crate::fuse::RuleTarget::CPU);
    let text = partition.display(&graph).to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("kernel 1: layer_norm x, x, x, 0.00001 + mean -> layer_norm, mean#1"), "{text}");
    assert!(lines[1].starts_with("kernel 2: mean of layer_norm x, x, x, 0.00001 -> mean#2"), "{text}");
    assert!(text.contains("cut at layer_norm: R50"), "{text}");
}

#[test]
fn a_row_of_one_value_is_its_beta() {
    let mut g = Build::new();
    let x = g.arg(&[2, 5], DType::F32, Layout::Contiguous);
    let (gamma, beta) = (g.arg(&[5], DType::F32, Layout::Contiguous), g.arg(&[5], DType::F32, Layout::Contiguous));
    let epsilon = g.0.add_const(1e-5);
    let y = g.op(
        Op::Norm(NormAttrs { mode: NormMode::Layer, axes: 2, bias: true, part: NormPart::Y }),
        &[x, gamma, beta, epsilon],
    );
    let graph = Arc::new(g.returns(&[y]));
    let full = |dims: &[i64], v: f64| Tensor::full(Dims::new(dims).unwrap(), v, DType::F32, &Device::CPU).unwrap();
    let (results, _) = run(&graph, &[full(&[2, 5], 3.0), full(&[5], 2.0), full(&[5], 0.5)], &[]);
    assert_eq!(results[0].to_vec::<f32>().unwrap(), [0.5; 10]);
}

#[test]
fn softmax_along_every_axis() {
    for dtype in TYPES {
        for layout in LAYOUTS {
            for log in [false, true] {
                for (x, axis) in
                    [(&[2, 3, 5, 7][..], 1), (&[2, 3, 5, 7], 3), (&[4, 133], 0), (&[40, 1000], 1), (&[5], 0)]
                {
                    let mut g = Build::new();
                    let v = g.arg(x, dtype, layout);
                    let y = g.op(Op::Softmax(SoftmaxAttrs { axis, log }), &[v]);
                    check(g.returns(&[y]), 12, &format!("softmax {x:?} along {axis}, log {log}, {dtype} {layout:?}"));
                }
            }
        }
    }
}

/// Large values do not overflow; -∞ is a probability of 0; a row of -∞ alone and one with a NaN are NaN.
#[test]
fn softmax_at_the_edges() {
    let mut g = Build::new();
    let x = g.arg(&[4, 2], DType::F32, Layout::Contiguous);
    let y = g.op(Op::Softmax(SoftmaxAttrs { axis: 1, log: false }), &[x]);
    let graph = Arc::new(g.returns(&[y]));
    let inf = f32::INFINITY;
    let x = Tensor::from_vec(vec![1e4, 1e4, 0.0, -inf, -inf, -inf, f32::NAN, 0.0], [4, 2], &Device::CPU).unwrap();
    let got = run(&graph, &[x], &[]).0[0].to_vec::<f32>().unwrap();
    assert_eq!(got[..4], [0.5, 0.5, 1.0, 0.0]);
    assert!(got[4..].iter().all(|v| v.is_nan()), "{got:?}");
}
