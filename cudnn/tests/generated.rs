//! Kernels of our own compile for every architecture.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod support;

use fused_graph_core::DType;
use fused_graph_core::fuse::{GroupKind, group_of};
use fused_graph_core::ir::{
    Arity, Graph, NormAttrs, NormMode, NormPart, Op, Params, PointwiseClass, PointwiseMode, PoolAttrs, PoolMode,
    PoolPart, ReduceAttrs, ReduceMode, SoftmaxAttrs, SourceLoc,
};
use fused_graph_core::layout::Dims;
use fused_graph_cudnn::jit::{copy_graph, generate, nvrtc};

const ARCHITECTURES: [u32; 4] = [80, 89, 90, 100];

fn whole(graph: &Graph) -> String {
    let nodes: Vec<_> = graph.nodes().map(|(id, _)| id).collect();
    generate(graph, &group_of(graph, GroupKind::Kernel, &nodes)).unwrap().code
}

/// Every mode on operands of an element type, as far as inference lets them meet, in one graph: one source.
fn every_mode(dtype: DType) -> Graph {
    let mut g = Graph::new("all");
    let dims = Dims::new(&[3, 5, 7]).unwrap();
    let x = g.add_input("x", dtype, dims, dims.contiguous_strides());
    let row = Dims::new(&[7]).unwrap();
    let b = g.add_input("b", dtype, row, row.contiguous_strides());
    let c = g.add_input("c", DType::Bool, dims, dims.contiguous_strides());
    let alpha = g.add_scalar("alpha", fused_graph_core::ir::ScalarType::F32);
    let mut outputs = Vec::new();
    for info in PointwiseMode::TABLE {
        let p = Params::DEFAULT;
        let inputs = match (info.class, info.arity) {
            (PointwiseClass::Logic, Arity::Binary) => vec![c, c],
            (PointwiseClass::Logic, _) => vec![c],
            (PointwiseClass::Select, _) => vec![c, x, b],
            (_, Arity::Binary) => vec![x, b],
            _ => vec![x],
        };
        if let Ok(v) = g.add_node(Op::Pointwise(info.mode, p), &inputs, SourceLoc::NONE) {
            outputs.push(v);
        }
    }
    if dtype.is_float() {
        outputs.push(
            g.add_node(Op::Pointwise(PointwiseMode::Mul, Params::DEFAULT), &[alpha, x], SourceLoc::NONE).unwrap(),
        );
    }
    for to in DType::ALL {
        outputs.push(g.add_node(Op::Cast(to), &[x], SourceLoc::NONE).unwrap());
    }
    for mode in ReduceMode::ALL {
        for (axes, keepdim) in [(0b111, false), (0b010, true), (0b101, false)] {
            if let Ok(v) = g.add_node(Op::Reduce(ReduceAttrs { mode, axes, keepdim }), &[x], SourceLoc::NONE) {
                outputs.push(v);
            }
        }
    }
    g.set_outputs(outputs);
    g
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn every_mode_compiles_for_every_architecture() {
    for dtype in DType::ALL.into_iter().filter(|d| *d != DType::Bool) {
        let code = whole(&every_mode(dtype));
        // The element type changes loads and stores only, so the other types are compiled for one architecture.
        let everywhere = matches!(dtype, DType::BF16 | DType::F8E4M3);
        for sm in ARCHITECTURES.into_iter().filter(|&sm| everywhere || sm == 90) {
            let cubin = nvrtc::compile(&code, sm).unwrap_or_else(|e| panic!("{dtype} for sm_{sm}: {e}"));
            assert!(cubin.starts_with(b"\x7fELF"), "{dtype} for sm_{sm}");
        }
    }
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn copies_and_large_reductions_compile() {
    let dims = Dims::new(&[2, 3, 5, 7]).unwrap();
    let (nchw, nhwc) = (dims.contiguous_strides(), dims.channels_last_strides());
    for (from, to) in
        [(DType::F16, DType::F16), (DType::BF16, DType::F32), (DType::Bool, DType::Bool), (DType::I64, DType::I32)]
    {
        let (graph, group) = copy_graph(&dims, &nchw, &nhwc, from, to).unwrap();
        nvrtc::compile(&generate(&graph, &group).unwrap().code, 90).unwrap();
    }
    let mut g = Graph::new("sum");
    let dims = Dims::new(&[4, 1 << 20]).unwrap();
    let x = g.add_input("x", DType::BF16, dims, dims.contiguous_strides());
    let y = g
        .add_node(Op::Reduce(ReduceAttrs { mode: ReduceMode::Norm2, axes: 2, keepdim: false }), &[x], SourceLoc::NONE)
        .unwrap();
    g.set_outputs([y]);
    let nodes: Vec<_> = g.nodes().map(|(id, _)| id).collect();
    let source = generate(&g, &group_of(&g, GroupKind::Kernel, &nodes)).unwrap();
    assert_eq!(source.launches.len(), 2, "in two stages");
    nvrtc::compile(&source.code, 80).unwrap();
}

/// Softmax and norms in all their forms: rows of a warp, of a block, and rows too long for registers.
#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn rows_compile() {
    for dtype in [DType::BF16, DType::F32, DType::F64] {
        for length in [1, 40, 1000, 50_000] {
            for code in rows(dtype, length) {
                let sm = if dtype == DType::F32 { 80 } else { 100 };
                let cubin = nvrtc::compile(&code, sm).unwrap_or_else(|e| panic!("{dtype}, {length}: {e}\n{code}"));
                assert!(cubin.starts_with(b"\x7fELF"));
            }
        }
    }
}

fn rows(dtype: DType, length: i64) -> Vec<String> {
    let attrs = |mode, part| NormAttrs { mode, axes: 0b100, bias: mode == NormMode::Layer, part };
    let sets: [&[Op]; 4] = [
        &[Op::Softmax(SoftmaxAttrs { axis: 2, log: false })],
        &[Op::Softmax(SoftmaxAttrs { axis: 2, log: true })],
        &[
            Op::Norm(attrs(NormMode::Layer, NormPart::Y)),
            Op::Norm(attrs(NormMode::Layer, NormPart::Mean)),
            Op::Norm(attrs(NormMode::Layer, NormPart::InvStd)),
        ],
        &[Op::Norm(attrs(NormMode::Rms, NormPart::InvStd))],
    ];
    let code = |ops: &[Op]| {
        let mut g = Graph::new("rows");
        let input = |g: &mut Graph, dims: &[i64]| {
            let dims = Dims::new(dims).unwrap();
            g.add_input("x", dtype, dims, dims.contiguous_strides())
        };
        let (x, gamma, beta) = (input(&mut g, &[3, 5, length]), input(&mut g, &[length]), input(&mut g, &[length]));
        let epsilon = g.add_const(1e-5);
        let outputs = ops.iter().map(|&op| {
            let operands = match op {
                Op::Norm(a) if a.bias => vec![x, gamma, beta, epsilon],
                Op::Norm(_) => vec![x, gamma, epsilon],
                _ => vec![x],
            };
            g.add_node(op, &operands, SourceLoc::NONE).unwrap()
        });
        let outputs: Vec<_> = outputs.collect();
        g.set_outputs(outputs);
        whole(&g)
    };
    sets.into_iter().map(code).collect()
}

/// Matrix products that no engine computes without TF32: layouts, broadcast batches, something in front and behind, both sizes of tiles.
#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn matrix_products_compile() {
    for text in [
        "x = input f32 [33, 17]\n w = input f32 [17, 7]\n y = matmul x, w\n return y",
        "x = input f32 [2, 1, 33, 17]\n w = input f32 [3, 17, 64]\n b = input f32 [64]\n s = scalar f32\n %4 = matmul x, w\n %5 = mul %4, s\n %6 = add %5, b\n y = gelu %6\n return y",
        "x = input f32 [4096, 64] strides [1, 4096]\n w = input f32 [64, 4096]\n %2 = relu x\n %3 = matmul %2, w\n %4 = permute x (perm [1, 0])\n y = tanh %3\n return %3, y",
        "x = input f32 [1, 9]\n w = input f32 [9, 1]\n %2 = matmul x, w\n y = cast %2 (to bf16)\n return y",
    ] {
        let graph: Graph = format!("graph {{\n{text}\n}}").parse().unwrap();
        let nodes: Vec<_> = graph.nodes().map(|(id, _)| id).collect();
        let group = fused_graph_core::fuse::group_of(&graph, GroupKind::Kernel, &nodes);
        let source = generate(&graph, &group).unwrap();
        for sm in [80, 89, 90, 100] {
            nvrtc::compile(&source.code, sm).unwrap_or_else(|e| panic!("sm_{sm}: {e}\n{}", source.code));
        }
    }
}

/// Pointwise kernels walk over any number of elements; a reduction takes a block a result, of which a launch has fewer than 2³¹.
#[test]
fn a_launch_has_no_more_blocks_than_there_are() {
    let launched = |results: i64| {
        let mut g = Graph::new("sums");
        let dims = Dims::new(&[results, 512]).unwrap();
        let x = g.add_input("x", DType::I8, dims, dims.contiguous_strides());
        let sum = ReduceAttrs { mode: ReduceMode::Sum, axes: 0b10, keepdim: false };
        let y = g.add_node(Op::Reduce(sum), &[x], SourceLoc::NONE).unwrap();
        g.set_outputs([y]);
        let nodes: Vec<_> = g.nodes().map(|(id, _)| id).collect();
        generate(&g, &group_of(&g, GroupKind::Kernel, &nodes))
    };
    assert_eq!(launched((1 << 31) - 1).unwrap().launches[0].grid, i32::MAX as u32);
    for results in [1 << 31, (1 << 32) + 1] {
        let error = launched(results).unwrap_err();
        assert!(
            error.kind() == fused_graph_core::ErrorKind::Unsupported && error.message().contains("`sums`"),
            "{error}"
        );
    }
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn pools_compile() {
    for dtype in [DType::BF16, DType::F64, DType::I8] {
        for mode in [PoolMode::Max, PoolMode::Avg, PoolMode::AvgExcludePadding] {
            for x in [&[2, 3, 9][..], &[2, 3, 9, 8], &[2, 3, 4, 5, 6]] {
                let mut g = Graph::new("pool");
                let dims = Dims::new(x).unwrap();
                let v = g.add_input("x", dtype, dims, dims.channels_last_strides());
                let spatial = x.len() - 2;
                let attrs =
                    PoolAttrs { pre_padding: Dims::splat(1, spatial), ..PoolAttrs::new(mode, Dims::splat(2, spatial)) };
                let parts = [PoolPart::Y, PoolPart::Index];
                let op = |part| Op::Pool(PoolAttrs { part, ..attrs });
                let outputs: Vec<_> =
                    parts.into_iter().filter_map(|p| g.add_node(op(p), &[v], SourceLoc::NONE).ok()).collect();
                if outputs.is_empty() {
                    continue; // no means of integers
                }
                g.set_outputs(outputs);
                let code = whole(&g);
                nvrtc::compile(&code, 90).unwrap_or_else(|e| panic!("{dtype} {mode:?}: {e}\n{code}"));
            }
        }
    }
}
