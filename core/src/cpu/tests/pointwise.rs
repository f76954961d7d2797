//! Every pointwise mode, every reduction, every cast.

use super::*;
use crate::ir::{Arity, PointwiseClass, PointwiseMode as M, ReduceAttrs, ReduceMode, ViewOp};

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
const SIZES: [i64; 5] = [1, 3, 7, 17, 33];

/// The operand brought to where the mode is defined and well conditioned.
fn tame(b: &mut Build, mode: M, v: ValueId) -> ValueId {
    let c = |b: &mut Build, v: f64| b.0.add_const(v);
    match mode {
        M::Log | M::Sqrt | M::Rsqrt | M::Pow | M::Mod | M::Div | M::Reciprocal => {
            let (a, half) = (b.pw(M::Abs, &[v]), c(b, 0.5));
            b.pw(M::Add, &[a, half])
        }
        M::Tan => {
            let half = c(b, 0.5);
            b.pw(M::Mul, &[v, half])
        }
        _ => v,
    }
}

fn graph(mode: M, dtype: DType, layout: Layout, n: i64) -> Graph {
    let mut b = Build::new();
    let shape = [2, 3, n, n.min(7)];
    let class = mode.info().class;
    let dtype = if class == PointwiseClass::Logic { DType::Bool } else { dtype };
    let x = b.arg(&shape, dtype, layout);
    let x = tame(&mut b, mode, x);
    let y = match mode.info().arity {
        Arity::Unary => b.pw(mode, &[x]),
        Arity::Binary => {
            let y = b.arg(&shape, dtype, Layout::ChannelsLast);
            let y = tame(&mut b, mode, y);
            b.pw(mode, &[x, y])
        }
        Arity::Ternary => {
            let (c, y) = (b.arg(&shape, DType::Bool, layout), b.arg(&shape, dtype, Layout::Contiguous));
            b.pw(mode, &[c, x, y])
        }
    };
    b.returns(&[y])
}

#[test]
fn every_mode_agrees_with_the_oracle() {
    for info in M::TABLE {
        for dtype in FLOATS {
            for layout in LAYOUTS {
                for n in SIZES {
                    // The remainder jumps, so its operands stay whole numbers and halves.
                    if info.mode == M::Mod {
                        continue;
                    }
                    check(graph(info.mode, dtype, layout, n), 1, &format!("{} {dtype} {layout:?} {n}", info.name));
                }
            }
        }
    }
}

#[test]
fn modes_on_integers_truth_values_and_f64() {
    for info in M::TABLE {
        let types: &[DType] = match info.class {
            PointwiseClass::Float if info.mode != M::Relu => &[DType::F64],
            PointwiseClass::Logic => &[DType::Bool],
            _ => &[DType::F64, DType::I32, DType::I64, DType::I8],
        };
        for &dtype in types {
            let mut b = Build::new();
            let mut operands = Vec::new();
            if info.arity == Arity::Ternary {
                operands.push(b.arg(&[3, 17], DType::Bool, Layout::Strided));
            }
            let count = if info.arity == Arity::Unary { 1 } else { 2 };
            for i in 0..count {
                let v = b.arg(&[3, 17], dtype, [Layout::Strided, Layout::Contiguous][i]);
                operands.push(if dtype == DType::F64 { tame(&mut b, info.mode, v) } else { v });
            }
            let y = b.pw(info.mode, &operands);
            check(b.returns(&[y]), 2, &format!("{} {dtype}", info.name));
        }
    }
}

#[test]
fn remainder_of_floats() {
    let mut b = Build::new();
    let (x, y) = (b.arg(&[5, 7], DType::F32, Layout::Contiguous), b.arg(&[5, 7], DType::F32, Layout::Strided));
    let z = b.pw(M::Mod, &[x, y]);
    let graph = b.returns(&[z]);
    let mut values = (-9..90).map(|i| i as f64 * 0.25 + 0.125);
    let tensors: Vec<Tensor> = graph.inputs().map(|(_, v)| filled(v, || values.next().unwrap_or(0.625))).collect();
    check_with(graph, &tensors, &[], "fmod");
}

#[test]
fn casts_between_all_types() {
    for from in DType::ALL {
        for to in DType::ALL {
            let mut b = Build::new();
            let x = b.arg(&[3, 5], from, Layout::Strided);
            let y = b.op(Op::Cast(to), &[x]);
            let z = b.op(Op::Cast(DType::F64), &[y]);
            check(b.returns(&[y, z]), 3, &format!("{from} to {to}"));
        }
    }
}

#[test]
fn large_integers_keep_their_digits() {
    let mut b = Build::new();
    let x = b.arg(&[4], DType::I64, Layout::Contiguous);
    let one = b.0.add_const(1.0);
    let y = b.pw(M::Add, &[x, one]);
    let graph = Arc::new(b.returns(&[y]));
    let x = Tensor::from_slice(&[i64::MAX - 1, (1 << 53) + 1, -(1 << 60) - 3, 0], [4], &Device::CPU).unwrap();
    let (results, _) = run(&graph, &[x], &[]);
    assert_eq!(results[0].to_vec::<i64>().unwrap(), [i64::MAX, (1 << 53) + 2, -(1 << 60) - 2, 1]);
}

#[test]
fn every_reduction_over_every_set_of_axes() {
    for mode in ReduceMode::ALL {
        for axes in 0..16u8 {
            for layout in LAYOUTS {
                for keepdim in [false, true] {
                    for dtype in [DType::F32, DType::BF16, DType::F64, DType::I32] {
                        let float = matches!(mode, ReduceMode::Mean | ReduceMode::Norm1 | ReduceMode::Norm2);
                        if dtype == DType::I32 && (float || mode == ReduceMode::Prod) {
                            continue;
                        }
                        let mut b = Build::new();
                        let shape: &[i64] = if mode == ReduceMode::Prod { &[2, 3, 2, 3] } else { &[2, 3, 5, 7] };
                        let x = b.arg(shape, dtype, layout);
                        // Sums near 0 would measure nothing but cancellation.
                        let x = if dtype == DType::I32 { x } else { b.pw(M::Exp, &[x]) };
                        let y = b.op(Op::Reduce(ReduceAttrs { mode, axes, keepdim }), &[x]);
                        check(b.returns(&[y, x]), 4, &format!("{mode} {axes:b} {layout:?} {keepdim} {dtype}"));
                    }
                }
            }
        }
    }
}

#[test]
fn long_reductions_keep_their_digits() {
    for mode in [ReduceMode::Sum, ReduceMode::Mean, ReduceMode::Norm2, ReduceMode::Amax] {
        for axes in [1, 2, 3] {
            let mut b = Build::new();
            let x = b.arg(&[700, 900], DType::F32, Layout::Contiguous);
            let x = b.pw(M::Exp, &[x]);
            let y = b.op(Op::Reduce(ReduceAttrs { mode, axes, keepdim: false }), &[x]);
            check(b.returns(&[y]), 5, &format!("{mode} {axes:b}"));
        }
    }
}

#[test]
fn nan_and_infinity() {
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 1e30, -1e30, 1e-40];
    for dtype in [DType::F32, DType::F64] {
        for info in M::TABLE.iter().filter(|i| matches!(i.class, PointwiseClass::Arithmetic | PointwiseClass::Float)) {
            // Periodic functions of 1e30 are a matter of taste; overflow of F32 is tested with the functions.
            if matches!(info.mode, M::Sin | M::Cos | M::Tan | M::Mod | M::Pow | M::AddSquare | M::Mul | M::GeluTanh) {
                continue;
            }
            let mut b = Build::new();
            let x = b.arg(&[10], dtype, Layout::Contiguous);
            let y = if info.arity == Arity::Unary {
                b.pw(info.mode, &[x])
            } else {
                let other = b.arg(&[10, 1], dtype, Layout::Contiguous);
                b.pw(info.mode, &[x, other])
            };
            let graph = b.returns(&[y]);
            let mut i = 0;
            let mut next = || {
                i += 1;
                special[(i + 6) % 10]
            };
            let tensors: Vec<Tensor> = graph.inputs().map(|(_, v)| filled(v, &mut next)).collect();
            check_with(graph, &tensors, &[], &format!("{} {dtype}", info.name));
        }
    }
    for mode in [ReduceMode::Max, ReduceMode::Min, ReduceMode::Amax, ReduceMode::Sum] {
        for at in [0, 20, 40] {
            for special in [f64::NAN, f64::NEG_INFINITY] {
                let mut b = Build::new();
                let x = b.arg(&[41], DType::F32, Layout::Contiguous);
                let y = b.op(Op::Reduce(ReduceAttrs { mode, axes: 1, keepdim: false }), &[x]);
                let graph = b.returns(&[y]);
                let mut i = 0;
                let mut next = || {
                    i += 1;
                    if i == at + 4 { special } else { i as f64 }
                };
                let tensors: Vec<Tensor> = graph.inputs().map(|(_, v)| filled(v, &mut next)).collect();
                check_with(graph, &tensors, &[], &format!("{mode} {at} {special}"));
            }
        }
    }
}

#[test]
fn scalars_literals_and_views() {
    let mut b = Build::new();
    let x = b.arg(&[2, 3, 4], DType::F16, Layout::Strided);
    let alpha = b.0.add_scalar("alpha", crate::ir::ScalarType::F32);
    let two = b.0.add_const(2.0);
    let twice = b.pw(M::Mul, &[alpha, two]);
    let y = b.pw(M::Mul, &[twice, x]);
    let turned = b.op(Op::View(ViewOp::Permute(dims(&[2, 0, 1]))), &[y]);
    let flat = b.op(Op::View(ViewOp::Reshape(dims(&[24]))), &[turned]);
    let seen = b.op(Op::View(ViewOp::Slice { axis: 2, start: 1, end: 4, step: 2 }), &[x]);
    let kept = b.pw(M::Relu, &[seen]);
    let sum = b.pw(M::Add, &[flat, twice]);
    check(b.returns(&[y, turned, flat, sum, twice, seen, kept]), 6, "views");
}

#[test]
fn coordinates() {
    for axis in 0..4 {
        let mut b = Build::new();
        let x = b.arg(&[2, 3, 5, 7], DType::F32, Layout::ChannelsLast);
        let i = b.op(Op::Pointwise(M::GenIndex, Params { axis, ..Params::DEFAULT }), &[x]);
        let f = b.op(Op::Cast(DType::F32), &[i]);
        let y = b.pw(M::Add, &[x, f]);
        check(b.returns(&[y, i]), 7, "gen_index");
    }
}

#[test]
fn parameters_of_activations() {
    let p = Params {
        lower_clip: -0.5,
        upper_clip: 0.75,
        slope: 0.1,
        elu_alpha: 1.5,
        softplus_beta: 2.0,
        swish_beta: 0.5,
        axis: 0,
    };
    for mode in [M::Relu, M::Elu, M::Softplus, M::Swish] {
        for dtype in [DType::F32, DType::F64] {
            let mut b = Build::new();
            let x = b.arg(&[300], dtype, Layout::Contiguous);
            let y = b.op(Op::Pointwise(mode, p), &[x]);
            check(b.returns(&[y]), 8, &format!("{mode} {dtype}"));
        }
    }
}
