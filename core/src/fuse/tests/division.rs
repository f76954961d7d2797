//! Divisions by text, for each kind of target.

use super::*;

fn conv_bias_relu() -> Graph {
    let mut g = G::new();
    let (x, w, b) = (g.nhwc("x", &[8, 64, 28, 28]), g.nhwc("w", &[32, 64, 3, 3]), g.arg("b", &[32, 1, 1]));
    let c = g.conv(x, w);
    let s = g.pw(P::Add, &[c, b]);
    let y = g.pw(P::Relu, &[s]);
    g.name(y, "y");
    let m = g.amax(y);
    g.returns(&[y, m])
}

#[test]
fn a_convolution_takes_its_epilogue_and_amax() {
    for target in [CPU, A100, H200, H200_NEW, B200] {
        expect(&conv_bias_relu(), target, "kernel 1: conv2d x, w + add b + relu + amax -> y, amax");
    }
}

#[test]
fn job_3_is_one_kernel() {
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
    for target in [CPU, A100, H200, H200_NEW, B200] {
        expect(&graph, target, "kernel 1: matmul x, w + mul alpha + add b + gelu + amax -> y, amax");
    }
}

#[test]
fn a_value_does_not_come_back_into_a_kernel() {
    let mut g = G::new();
    let (x, w) = (g.nhwc("x", &[8, 64, 28, 28]), g.nhwc("w", &[64, 64, 3, 3]));
    let c = g.conv(x, w);
    let p = g.pw(P::Relu, &[c]);
    g.name(p, "p");
    let c2 = g.conv(p, w);
    let q = g.pw(P::Add, &[p, c2]);
    g.name(q, "q");
    let r = g.pw(P::Sub, &[p, q]);
    let graph = g.returns(&[r]);
    for target in [CPU, H200] {
        expect(
            &graph,
            target,
            "kernel 1: conv2d x, w + relu -> p
             kernel 2: conv2d p, w + add p + sub p, . -> sub
             cut at p: R01",
        );
    }
}

#[test]
fn a_reduction_is_the_exit() {
    let mut g = G::new();
    let (x, w) = (g.arg("x", &[4, 16, 32]), g.arg("w", &[32, 24]));
    let c = g.matmul(x, w);
    let most = g.reduce(ReduceMode::Max, &[2], c);
    let s = g.pw(P::Sub, &[c, most]);
    let e = g.pw(P::Exp, &[s]);
    let sum = g.reduce(ReduceMode::Sum, &[2], e);
    let y = g.pw(P::Div, &[e, sum]);
    let graph = g.returns(&[y]);
    for target in [CPU, H200] {
        expect(
            &graph,
            target,
            "kernel 1: matmul x, w + max -> matmul, max
             kernel 2: sub matmul, max + exp + sum -> exp, sum
             kernel 3: div exp, sum -> div
             cut at matmul: R04
             cut at max: R04
             cut at exp: R04
             cut at sum: R04",
        );
    }
}

#[test]
fn a_prologue_goes_in_where_it_was_measured_to() {
    let mut g = G::new();
    let (x, w) = (g.nhwc("x", &[8, 64, 28, 28]), g.nhwc("w", &[32, 64, 3, 3]));
    let (s, b) = (g.arg("s", &[64, 1, 1]), g.arg("b", &[64, 1, 1]));
    let v = g.pw(P::Mul, &[x, s]);
    let v = g.pw(P::Add, &[v, b]);
    let v = g.pw(P::Relu, &[v]);
    let c = g.conv(v, w);
    let y = g.pw(P::Gelu, &[c]);
    let graph = g.returns(&[y]);
    expect(&graph, H200, "kernel 1: mul x, s + add b + relu + conv2d ., w + gelu -> gelu");
    let cut = "kernel 1: mul x, s + add b + relu -> relu
               kernel 2: conv2d relu, w + gelu -> gelu";
    expect(&graph, CPU, &format!("{cut}\ncut at relu: R30"));
    expect(&graph, H200.aligned(&[2, 16, 16, 16]), &format!("{cut}\ncut at relu: R38"));
    expect(&graph, A100.aligned(&[8, 16, 16, 16]), "kernel 1: mul x, s + add b + relu + conv2d ., w + gelu -> gelu");

    let mut g = G::new();
    let (x, w) = (g.arg("x", &[4, 16, 32]), g.arg("w", &[32, 24]));
    let v = g.pw(P::Relu, &[x]);
    let c = g.matmul(v, w);
    let e = g.pw(P::Exp, &[x]);
    let c2 = g.matmul(e, w);
    let graph = g.returns(&[c, v, c2]);
    expect(
        &graph,
        H200,
        "kernel 1: relu x + exp x -> relu, exp
         kernel 2: matmul relu, w -> matmul#1
         kernel 3: matmul exp, w -> matmul#2
         cut at relu: R31
         cut at exp: R32",
    );
}

#[test]
fn two_matmuls_are_two_kernels_and_share_what_follows() {
    let mut g = G::new();
    let (x, a, b) = (g.arg("x", &[4, 16, 32]), g.arg("a", &[32, 24]), g.arg("b", &[32, 24]));
    let (p, q) = (g.matmul(x, a), g.matmul(x, b));
    let s = g.pw(P::Swish, &[p]);
    let y = g.pw(P::Mul, &[s, q]);
    let graph = g.returns(&[y]);
    expect(
        &graph,
        H200,
        "kernel 1: matmul x, b -> matmul#2
         kernel 2: matmul x, a + swish + mul matmul#2 -> mul
         cut at matmul#2: R01",
    );
}

#[test]
fn views_cut_and_copies_are_kernels() {
    let mut g = G::new();
    let (x, w, b) = (g.arg("x", &[4, 16, 32]), g.arg("w", &[32, 24]), g.arg("b", &[24]));
    let c = g.matmul(x, w);
    let t = g.op(Op::View(ViewOp::Permute(Dims::new(&[0, 2, 1]).unwrap())), &[c]);
    let r = g.op(Op::View(ViewOp::Reshape(Dims::new(&[4, 24 * 16]).unwrap())), &[t]);
    let flat = g.op(Op::View(ViewOp::Unsqueeze(0)), &[b]);
    let s = g.pw(P::Add, &[c, flat]);
    let y = g.pw(P::Relu, &[r]);
    let seen = g.op(Op::View(ViewOp::Permute(Dims::new(&[2, 1, 0]).unwrap())), &[s]);
    let graph = g.returns(&[y, seen]);
    expect(
        &graph,
        H200,
        "kernel 1: matmul x, w + add b -> matmul, add
         copy 2: reshape matmul -> reshape
         kernel 3: relu reshape -> relu
         cut at matmul: R02
         cut at reshape: R03",
    );
}

#[test]
fn scalar_arithmetic_is_repeated() {
    let mut g = G::new();
    let (x, w) = (g.arg("x", &[4, 16, 16]), g.arg("w", &[16, 16]));
    let (alpha, two) = (g.0.add_scalar("alpha", ScalarType::F32), g.0.add_const(2.0));
    let k = g.pw(P::Mul, &[alpha, two]);
    let k = g.pw(P::Exp, &[k]);
    let c = g.matmul(x, w);
    let c = g.pw(P::Mul, &[c, k]);
    let d = g.matmul(c, w);
    let d = g.pw(P::Mul, &[d, k]);
    let _dead = g.pw(P::Exp, &[d]);
    let graph = g.returns(&[d]);
    let p = partition(&graph, &H200);
    check_sound(&graph, &p);
    assert_eq!(p.groups.iter().map(|g| g.nodes.len()).collect::<Vec<_>>(), [4, 4]);
    assert_eq!(p.groups[1].inputs.len(), 4, "alpha, 2, the first product and w");
    assert!(p.groups[1].prologue(&graph).is_empty());
}

#[test]
fn what_one_engine_declines_is_cut_by_rule() {
    // NCHW data: bias and ReLU only.
    let mut g = G::new();
    let (x, w, b) = (g.arg("x", &[8, 64, 28, 28]), g.arg("w", &[32, 64, 3, 3]), g.arg("b", &[32, 1, 1]));
    let c = g.conv(x, w);
    let s = g.pw(P::Add, &[c, b]);
    let r = g.pw(P::Relu, &[s]);
    let y = g.pw(P::Gelu, &[r]);
    let graph = g.returns(&[y]);
    expect(&graph, CPU, "kernel 1: conv2d x, w + add b + relu + gelu -> gelu");
    expect(&graph, H200, "kernel 1: conv2d x, w + add b + relu -> relu\nkernel 2: gelu relu -> gelu\ncut at relu: R13");

    // Depthwise: from cuDNN 9.28 on.
    let mut g = G::new();
    let (x, w) = (g.nhwc("x", &[8, 64, 28, 28]), g.nhwc("w", &[64, 1, 3, 3]));
    let c = g.conv(x, w);
    let y = g.pw(P::Gelu, &[c]);
    let graph = g.returns(&[y]);
    expect(&graph, H200, "kernel 1: conv2d x, w -> conv2d\nkernel 2: gelu conv2d -> gelu\ncut at conv2d: R14");
    expect(&graph, H200_NEW, "kernel 1: conv2d x, w + gelu -> gelu");
}

#[test]
fn reductions_behind_a_core_by_form() {
    let pooled = |mode, axes: &[u8]| {
        let mut g = G::new();
        let (x, w) = (g.nhwc("x", &[8, 64, 28, 28]), g.nhwc("w", &[32, 64, 3, 3]));
        let c = g.conv(x, w);
        let s = g.reduce(mode, axes, c);
        g.returns(&[s])
    };
    let one = "kernel 1: conv2d x, w + sum -> sum";
    let two = "kernel 1: conv2d x, w -> conv2d\nkernel 2: sum conv2d -> sum\ncut at conv2d: ";
    let global = pooled(ReduceMode::Sum, &[2, 3]);
    expect(&global, CPU, one);
    expect(&global, A100, &format!("{two}R24"));
    expect(&global, H200, &format!("{two}R24"));
    expect(&global, H200_NEW, one);
    expect(&global, B200, one);
    expect(&pooled(ReduceMode::Sum, &[0, 2, 3]), A100, one);
    expect(&pooled(ReduceMode::Sum, &[2]), H200_NEW, &format!("{two}R23"));
    let mean = "kernel 1: conv2d x, w -> conv2d\nkernel 2: mean conv2d -> mean\ncut at conv2d: R20";
    expect(&pooled(ReduceMode::Mean, &[0, 2, 3]), B200, mean);
}

#[test]
fn operands_of_an_epilogue_by_form() {
    let with = |dims: &[i64], nhwc: bool| {
        let mut g = G::new();
        let (x, w) = (g.nhwc("x", &[8, 64, 28, 28]), g.nhwc("w", &[32, 64, 3, 3]));
        let b = if nhwc { g.nhwc("b", dims) } else { g.arg("b", dims) };
        let c = g.conv(x, w);
        let s = g.pw(P::Add, &[b, c]);
        g.returns(&[s])
    };
    let one = "kernel 1: conv2d x, w + add b -> add";
    let two = "kernel 1: conv2d x, w -> conv2d\nkernel 2: add b, conv2d -> add\ncut at conv2d: ";
    for dims in [&[1, 32, 1, 1][..], &[8, 1, 28, 28], &[1], &[1, 1, 1, 1]] {
        expect(&with(dims, false), H200, one);
    }
    expect(&with(&[8, 32, 28, 28], true), H200, one);
    expect(&with(&[8, 32, 28, 28], false), H200, &format!("{two}R16"));
    for dims in [&[28][..], &[28, 28], &[8, 32, 1, 1], &[8, 1, 1, 1], &[1, 32, 28, 28]] {
        expect(&with(dims, false), H200, &format!("{two}R15"));
        expect(&with(dims, false), CPU, one);
    }
    expect(&with(&[2, 8, 32, 28, 28], false), H200, &format!("{two}R05"));

    let mut g = G::new();
    let (x, w, b) = (g.arg("x", &[2, 3, 16, 32]), g.arg("w", &[2, 3, 32, 24]), g.arg("b", &[1, 3, 1, 24]));
    let c = g.matmul(x, w);
    let s = g.pw(P::Add, &[c, b]);
    let graph = g.returns(&[s]);
    expect(&graph, H200, "kernel 1: matmul x, w -> matmul\nkernel 2: add matmul, b -> add\ncut at matmul: R17");
}

#[test]
fn without_a_core_operations_share_what_they_read() {
    let mut g = G::new();
    let (x, y) = (g.arg("x", &[16, 32]), g.arg("y", &[16, 32]));
    let a = g.pw(P::Relu, &[x]);
    let e = g.pw(P::Exp, &[y]);
    let s = g.pw(P::Add, &[a, e]);
    let m = g.amax(x);
    let big = g.arg("big", &[4, 16, 32]);
    let up = g.pw(P::Mul, &[s, big]);
    let graph = g.returns(&[s, m, up]);
    for target in [CPU, H200] {
        expect(
            &graph,
            target,
            "kernel 1: relu x + exp y + add relu + amax x -> add, amax
             kernel 2: mul add, big -> mul
             cut at add: R05",
        );
    }
}

#[test]
fn what_only_an_epilogue_reads_is_computed_in_it() {
    let graph = |dims: &[i64], returned: bool| {
        let mut g = G::new();
        let (x, w, r) = (g.nhwc("x", &[8, 64, 28, 28]), g.nhwc("w", &[64, 64, 3, 3]), g.nhwc("r", dims));
        let c = g.conv(x, w);
        let e = g.pw(P::Exp, &[r]);
        let a = g.pw(P::Relu, &[e]);
        let s = g.pw(P::Add, &[c, a]);
        if returned { g.returns(&[s, a]) } else { g.returns(&[s]) }
    };
    let inside = "kernel 1: conv2d x, w + exp r + relu + add conv2d -> add";
    let apart = "kernel 1: exp r + relu -> relu\nkernel 2: conv2d x, w + add relu -> add\ncut at relu: ";
    let (full, channels) = ([8, 64, 28, 28], [1, 64, 1, 1]);
    expect(&graph(&full, false), CPU, inside);
    expect(&graph(&full, false), H200, inside);
    expect(&graph(&full, true), CPU, "kernel 1: conv2d x, w + exp r + relu + add conv2d -> relu, add");
    expect(&graph(&full, true), H200, &format!("{apart}R10"));
    expect(&graph(&channels, false), CPU, &format!("{apart}R07"));
    expect(&graph(&channels, false), H200, inside);
    expect(&graph(&channels, true), H200, &format!("{apart}R05"));
}
