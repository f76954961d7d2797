//! Element types, truth values, indices, and what no kernel can do.

use super::*;
use crate::fuse::check_supported;

fn conv_of(dtype: DType) -> (G, ValueId) {
    let mut g = G::new();
    let (dims, weights) = (Dims::new(&[8, 64, 28, 28]).unwrap(), Dims::new(&[32, 64, 3, 3]).unwrap());
    let x = g.0.add_input("x", dtype, dims, dims.channels_last_strides());
    let w = g.0.add_input("w", dtype, weights, weights.channels_last_strides());
    let c = g.conv(x, w);
    (g, c)
}

#[test]
fn an_integer_core_is_scaled_in_its_kernel() {
    let (mut g, c) = conv_of(DType::I8);
    let (s, b) = (g.arg_of("s", DType::F32, &[32, 1, 1]), g.arg_of("b", DType::F32, &[32, 1, 1]));
    let f = g.op(Op::Cast(DType::F32), &[c]);
    let f = g.pw(P::Mul, &[f, s]);
    let f = g.pw(P::Add, &[f, b]);
    let y = g.pw(P::Relu, &[f]);
    let q = g.op(Op::Cast(DType::I8), &[y]);
    let graph = g.returns(&[q]);
    for target in [CPU, A100, H200, B200] {
        expect(&graph, target, "kernel 1: conv2d x, w + cast to f32 + mul s + add b + relu + cast to i8 -> cast#2");
    }
}

#[test]
fn integers_are_reduced_apart() {
    let (mut g, c) = conv_of(DType::I8);
    let m = g.reduce(ReduceMode::Max, &[0, 2, 3], c);
    let graph = g.returns(&[m]);
    expect(&graph, CPU, "kernel 1: conv2d x, w + max -> max");
    expect(&graph, H200, "kernel 1: conv2d x, w -> conv2d\nkernel 2: max conv2d -> max\ncut at conv2d: R21");
}

#[test]
fn wide_integers_leave_the_kernel_of_a_core() {
    let (mut g, c) = conv_of(DType::I8);
    let wide = g.op(Op::Cast(DType::I64), &[c]);
    let more = g.pw(P::Add, &[wide, wide]);
    let graph = g.returns(&[more]);
    expect(&graph, CPU, "kernel 1: conv2d x, w + cast to i64 + add ., . -> add");
    expect(
        &graph,
        H200,
        "kernel 1: conv2d x, w + cast to i64 -> cast\nkernel 2: add cast, cast -> add\ncut at cast: R12",
    );
}

#[test]
fn truth_values_stay_inside() {
    let (mut g, c) = conv_of(DType::BF16);
    let zero = g.0.add_const(0.0);
    let positive = g.pw(P::CmpGt, &[c, zero]);
    let e = g.pw(P::Exp, &[c]);
    let y = g.pw(P::Select, &[positive, c, e]);
    let graph = g.returns(&[y, positive]);
    for target in [CPU, A100, H200, B200] {
        expect(&graph, target, "kernel 1: conv2d x, w + gt 0 + exp conv2d + select gt, conv2d, . -> gt, select");
    }
}

#[test]
fn indices_are_made_apart_on_a_gpu() {
    let (mut g, c) = conv_of(DType::BF16);
    let at = g.op(Op::Pointwise(P::GenIndex, Params { axis: 3, ..Params::DEFAULT }), &[c]);
    let five = g.0.add_const(5.0);
    let left = g.pw(P::CmpLt, &[at, five]);
    let zero = g.0.add_const(0.0);
    let y = g.pw(P::Select, &[left, c, zero]);
    let graph = g.returns(&[y]);
    expect(&graph, CPU, "kernel 1: conv2d x, w + gen_index + lt 5 + select ., conv2d, 0 -> select");
    expect(
        &graph,
        H200,
        "kernel 1: conv2d x, w -> conv2d
         kernel 2: gen_index conv2d + lt 5 + select ., conv2d, 0 -> select
         cut at conv2d: R11",
    );
}

#[test]
fn two_amax_and_the_result_before_the_activation() {
    let (mut g, c) = conv_of(DType::F16);
    let y = g.pw(P::Gelu, &[c]);
    let (before, after) = (g.amax(c), g.amax(y));
    let graph = g.returns(&[y, c, before, after]);
    for target in [CPU, A100, H200, B200] {
        expect(
            &graph,
            target,
            "kernel 1: conv2d x, w + gelu + amax conv2d + amax gelu -> conv2d, gelu, amax#1, amax#2",
        );
    }
}

#[test]
fn grouped_convolutions_take_an_epilogue_but_no_reduction() {
    let mut g = G::new();
    let (x, w) = (g.nhwc("x", &[8, 64, 28, 28]), g.nhwc("w", &[32, 16, 3, 3]));
    let c = g.conv(x, w);
    let y = g.pw(P::Gelu, &[c]);
    let m = g.amax(y);
    let graph = g.returns(&[y, m]);
    expect(&graph, H200, "kernel 1: conv2d x, w + gelu -> gelu\nkernel 2: amax gelu -> amax\ncut at gelu: R22");
}

#[test]
fn what_no_kernel_can_do_is_said_before_anything_is_built() {
    let (g, c) = conv_of(DType::F8E4M3);
    let graph = g.returns(&[c]);
    let error = check_supported(&graph, &A100).unwrap_err().to_string();
    assert!(error.starts_with("unsupported error: `conv2d` in `f`: "), "{error}");
    assert!(error.contains("tensor cores for 8-bit floats exist from sm_89 on (R40); operands: `x` f8e4m3"), "{error}");
    assert!(check_supported(&graph, &RuleTarget::gpu(89, 91900)).is_ok());
    assert!(check_supported(&graph, &CPU).is_ok());
    let (g, c) = conv_of(DType::F64);
    let graph = g.returns(&[c]);
    let error = check_supported(&graph, &H200).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Unsupported);
    assert!(error.message().contains("`cast` to F32"), "{error}");
    assert!(check_supported(&graph, &CPU).is_ok());
}
