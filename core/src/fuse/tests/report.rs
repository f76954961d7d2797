//! What `explain` says of kernels.

use super::*;
use crate::fuse::report;

#[test]
fn a_kernel_reports_what_it_moves_and_computes() {
    let mut g = G::new();
    let (x, w, b) = (g.arg("x", &[4, 16, 32]), g.arg("w", &[32, 24]), g.arg("b", &[24]));
    let alpha = g.0.add_scalar("alpha", ScalarType::F32);
    let c = g.matmul(x, w);
    let s = g.pw(P::Mul, &[alpha, c]);
    let s = g.pw(P::Add, &[s, b]);
    let y = g.pw(P::Gelu, &[s]);
    g.name(y, "y");
    let m = g.amax(y);
    let graph = g.returns(&[y, m]);
    let r = report::kernel(&graph, &partition(&graph, &CPU).groups[0]);
    assert_eq!(r.operations, ["matmul x, w", "mul alpha", "add b", "gelu", "amax"]);
    assert_eq!(r.results, [(3, "y (result 1)".to_owned()), (4, "result 2".to_owned())]);
    assert_eq!(r.places, [""; 5]);
    let (x, w, b, y, amax) = (2 * 4 * 16 * 32, 2 * 32 * 24, 2 * 24, 2 * 4 * 16 * 24, 4);
    assert_eq!(r.bytes, x + w + b + y + amax);
    assert_eq!(r.unfused_bytes, (x + w + y) + (y + y) + (y + b + y) + (y + y) + (y + amax));
    assert_eq!(r.flops, 2 * 4 * 16 * 24 * 32);
    assert_eq!(
        report::arguments(&graph),
        [
            "x: bf16 [4, 16, 32], row-major",
            "w: bf16 [32, 24], row-major",
            "b: bf16 [24], row-major",
            "alpha: f32, by value"
        ]
    );
}

#[test]
fn grouped_convolutions_and_repeated_operands_count_what_is_touched() {
    let mut g = G::new();
    let (x, w, b) = (g.nhwc("x", &[8, 64, 14, 14]), g.nhwc("w", &[32, 16, 3, 3]), g.arg("b", &[32, 1, 1]));
    let c = g.conv(x, w);
    let wide = g.op(Op::View(ViewOp::Expand(Dims::new(&[8, 32, 14, 14]).unwrap())), &[b]);
    let y = g.pw(P::Add, &[c, wide]);
    let graph = g.returns(&[y]);
    let r = report::kernel(&graph, &partition(&graph, &CPU).groups[0]);
    assert_eq!(r.operations, ["conv2d x, w", "add b"]);
    let (x, w, b, y) = (2 * 8 * 64 * 196, 2 * 32 * 16 * 9, 2 * 32, 2 * 8 * 32 * 196);
    assert_eq!(r.bytes, x + w + b + y);
    assert_eq!(r.flops, 2 * (8 * 32 * 196) * (16 * 9));
    assert_eq!(report::arguments(&graph)[0], "x: bf16 [8, 64, 14, 14], channels-last");
}

#[test]
fn a_result_that_is_returned_as_a_view_is_a_result() {
    let mut g = G::new();
    let (x, w) = (g.arg("x", &[16, 32]), g.arg("w", &[32, 24]));
    let c = g.matmul(x, w);
    let t = g.op(Op::View(ViewOp::Permute(Dims::new(&[1, 0]).unwrap())), &[c]);
    let graph = g.returns(&[t]);
    let r = report::kernel(&graph, &partition(&graph, &CPU).groups[0]);
    assert_eq!(r.results, [(0, "result".to_owned())]);
}
