//! What comes off a refused kernel, step by step.

use super::*;
use crate::fuse::{Refusal, recut};

/// The divisions that follow one another when the kernel of the core is refused each time.
fn steps(graph: &Graph, target: RuleTarget<'_>, refusal: &Refusal) -> Vec<String> {
    let mut p = partition(graph, &target);
    let mut texts = Vec::new();
    loop {
        check_sound(graph, &p);
        let kernels = p.display(graph).to_string();
        texts.push(kernels.lines().filter(|l| !l.starts_with("cut")).collect::<Vec<_>>().join(" | "));
        let refused = p.groups.iter().position(|g| g.core.is_some()).unwrap_or(0);
        match recut(graph, &p, refused, refusal) {
            Some(next) => p = next,
            None => return texts,
        }
    }
}

fn everything() -> Graph {
    let mut g = G::new();
    let (x, w, b) = (g.arg("x", &[4, 16, 32]), g.arg("w", &[32, 24]), g.arg("b", &[24]));
    let x = g.pw(P::Relu, &[x]);
    let c = g.matmul(x, w);
    let s = g.pw(P::Add, &[c, b]);
    let y = g.pw(P::Gelu, &[s]);
    g.name(y, "y");
    let m = g.amax(y);
    g.returns(&[y, m])
}

#[test]
fn prologue_then_reductions_then_the_end() {
    let expected = [
        "kernel 1: relu x + matmul ., w + add b + gelu + amax -> y, amax",
        "kernel 1: relu x -> relu | kernel 2: matmul relu, w + add b + gelu + amax -> y, amax",
        "kernel 1: relu x -> relu | kernel 2: matmul relu, w + add b + gelu -> y | kernel 3: amax y -> amax",
        "kernel 1: relu x -> relu | kernel 2: matmul relu, w + add b -> add | kernel 3: gelu add -> y | kernel 4: amax y -> amax",
        "kernel 1: relu x -> relu | kernel 2: matmul relu, w -> matmul | kernel 3: add matmul, b -> add \
         | kernel 4: gelu add -> y | kernel 5: amax y -> amax",
    ];
    assert_eq!(steps(&everything(), H200, &Refusal::new("no engine")), expected);
}

#[test]
fn the_operation_that_is_named_comes_off_with_what_follows() {
    let graph = everything();
    let p = partition(&graph, &H200);
    let gelu = graph.nodes().find(|(_, n)| n.op.name() == "gelu").map(|(id, _)| id).unwrap();
    let cut = recut(&graph, &p, 0, &Refusal::of(gelu, "engine 7: no GELU")).unwrap();
    let text = "kernel 1: relu x + matmul ., w + add b -> add
kernel 2: gelu add + amax -> y, amax
cut at add: engine 7: no GELU (`gelu`)
";
    assert_eq!(cut.display(&graph).to_string(), text);
    let relu = graph.nodes().find(|(_, n)| n.op.name() == "relu").map(|(id, _)| id).unwrap();
    let cut = recut(&graph, &p, 0, &Refusal::of(relu, "no prologue here")).unwrap();
    assert_eq!(cut.cuts.len(), 1);
    assert_eq!(cut.cuts[0].reason, "no prologue here (`relu`)");
}

#[test]
fn a_long_epilogue_is_halved_first() {
    let mut g = G::new();
    let (x, w) = (g.arg("x", &[16, 16]), g.arg("w", &[16, 16]));
    let mut y = g.matmul(x, w);
    for _ in 0..32 {
        y = g.pw(P::Tanh, &[y]);
    }
    let graph = g.returns(&[y]);
    let all = steps(&graph, H200, &Refusal::new("too long"));
    assert_eq!(all.len(), 1 + 3 + 4, "32, 16, 8, 4, 3, 2, 1, 0");
    assert!(all.last().unwrap().starts_with("kernel 1: matmul x, w -> matmul | "));
}

#[test]
fn kernels_without_a_core_are_halved_and_single_operations_stay() {
    let mut g = G::new();
    let x = g.arg("x", &[16, 16]);
    let a = g.pw(P::Exp, &[x]);
    let b = g.pw(P::Tanh, &[a]);
    let m = g.reduce(ReduceMode::Sum, &[1], b);
    let graph = g.returns(&[b, m]);
    let expected = [
        "kernel 1: exp x + tanh + sum -> tanh, sum",
        "kernel 1: exp x + tanh -> tanh | kernel 2: sum tanh -> sum",
        "kernel 1: exp x -> exp | kernel 2: tanh exp -> tanh | kernel 3: sum tanh -> sum",
    ];
    assert_eq!(steps(&graph, CPU, &Refusal::new("no")), expected);
}

#[test]
fn a_reason_that_stood_before_stays() {
    let mut g = G::new();
    let (x, w) = (g.arg("x", &[4, 16, 16]), g.arg("w", &[16, 16]));
    let c = g.matmul(x, w);
    let y = g.pw(P::Relu, &[c]);
    let d = g.matmul(c, w);
    let graph = g.returns(&[y, d]);
    let p = partition(&graph, &H200);
    let before = p.cuts.clone();
    let after = recut(&graph, &p, 0, &Refusal::new("no")).unwrap();
    assert_eq!(before, after.cuts);
    assert!(recut(&graph, &p, 9, &Refusal::new("no such kernel")).is_none());
}

#[test]
fn what_only_feeds_the_end_comes_off_with_it() {
    let mut g = G::new();
    let (x, w, b) = (g.arg("x", &[16, 16]), g.arg("w", &[16, 16]), g.arg("b", &[16]));
    let e = g.pw(P::Exp, &[b]);
    let t = g.pw(P::Tanh, &[e]);
    let c = g.matmul(x, w);
    let r = g.pw(P::Relu, &[c]);
    let y = g.pw(P::Mul, &[r, t]);
    let graph = g.returns(&[y]);
    let expected = [
        "kernel 1: exp b + tanh + matmul x, w + relu + mul tanh -> mul",
        "kernel 1: exp b + tanh -> tanh | kernel 2: matmul x, w + relu -> relu | kernel 3: mul relu, tanh -> mul",
        "kernel 1: exp b + tanh -> tanh | kernel 2: matmul x, w -> matmul | kernel 3: relu matmul -> relu \
         | kernel 4: mul relu, tanh -> mul",
    ];
    assert_eq!(steps(&graph, H200, &Refusal::new("no")), expected);
}
