//! The rules of fusion against the real cuDNN. For four GPUs on a machine without any: what the rules cut no engine takes in one kernel, and what they
//! leave whole one engine takes. On a GPU: what they leave whole is right.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod support;

use fused_graph_core::backend::{CompileRequest, Launch, Options};
use fused_graph_core::cpu::oracle::{self, Array};
use fused_graph_core::fuse::{GroupKind, RuleTarget, group_of, partition};
use fused_graph_core::ir::{Graph, NodeId, Op};
use fused_graph_core::trace::{Expr, ops::*};
use fused_graph_core::{DType, Device, Tensor};
use fused_graph_cudnn::compile::refusals_for;
use fused_graph_cudnn::gpu::CudaDevice;
use std::sync::Arc;
use support::{Arg, graph};

const GPUS: [(&str, u32); 4] = [("a100", 80), ("rtx4090", 89), ("h200", 90), ("b200", 100)];
const BF16: DType = DType::BF16;

/// Forms that cuDNN 9.19 builds kernels for, which then read wrong elements or fault on an H200: the rules cut them all the same.
const BUILT_BUT_WRONG: [&str; 5] =
    ["conv, + b[P,Q]", "conv, + b[N,1,1,1]", "conv, + b[1,K,P,Q]", "conv, * b[N,K,1,1]", "conv, + b[Q]"];

struct Case {
    name: String,
    args: Vec<Arg>,
    graph: Arc<Graph>,
}

/// One more operand, and what is made of it and a core's result.
type Form = (&'static str, Arg, fn(Expr, Expr) -> Vec<Expr>);

fn cases() -> Vec<Case> {
    let case = |name: String, args: Vec<Arg>, body: &dyn Fn(&[Expr]) -> Vec<Expr>| {
        let graph = Arc::new(graph(&args, |a| body(a)));
        Case { name, args, graph }
    };
    let (x, w) = (Arg(&[4, 32, 14, 14], BF16, true), Arg(&[32, 32, 3, 3], BF16, true));
    let conv = |a: &[Expr]| conv2d_with(a[0], a[1], ConvOptions::new().padding(1));
    let (a, b) = (Arg(&[4, 128, 64], BF16, false), Arg(&[4, 64, 256], BF16, false));
    let mut cases = Vec::new();
    for (name, third, body) in forms_of_convolutions() {
        cases.push(case(format!("conv, {name}"), vec![x, w, third], &|a| body(conv(a), a[2])));
    }
    for (name, third, body) in forms_of_matmuls() {
        cases.push(case(format!("matmul, {name}"), vec![a, b, third], &|a| body(matmul(a[0], a[1]), a[2])));
    }
    let channels = Arg(&[32, 1, 1], BF16, false);
    let front = |a: &[Expr]| vec![conv(&[relu(a[0] * a[2] + a[2]), a[1]])];
    cases.push(case("conv of relu(x*s+b)".to_owned(), vec![x, w, channels], &front));
    let front = |a: &[Expr]| vec![gelu(conv(&[relu(a[0]), a[1]]))];
    cases.push(case("gelu(conv of relu(x))".to_owned(), vec![x, w, channels], &front));
    let row = Arg(&[64], BF16, false);
    let front = |a: &[Expr]| vec![gelu(matmul(relu(a[0] * a[2] + a[2]), a[1]))];
    cases.push(case("gelu(matmul of relu(a*s+b))".to_owned(), vec![a, b, row], &front));
    let front = |a: &[Expr]| vec![matmul(a[0], relu(a[1]))];
    cases.push(case("matmul of relu(b)".to_owned(), vec![a, b, row], &front));
    let front = |a: &[Expr]| vec![conv(&[relu(a[0] + a[2]), a[1]])];
    cases.push(case("conv of relu(x+r)".to_owned(), vec![x, w, x], &front));
    let front = |a: &[Expr]| vec![matmul(relu(a[0] + a[2]), a[1])];
    cases.push(case("matmul of relu(a+r)".to_owned(), vec![a, b, a], &front));
    let front = |a: &[Expr]| vec![matmul(a[0] * a[2], a[1])];
    cases.push(case("matmul of a*s[M,1]".to_owned(), vec![a, b, Arg(&[128, 1], BF16, false)], &front));
    let front = |a: &[Expr]| vec![matmul(a[3] * a[0], a[1])];
    cases.push(case("matmul of alpha*a".to_owned(), vec![a, b, row], &front));
    let single = Arg(&[4, 128, 64], DType::F32, false);
    let front = |a: &[Expr]| vec![relu(matmul(cast(a[0], DType::BF16), a[1]))];
    cases.push(case("matmul of cast(a)".to_owned(), vec![single, b, row], &front));
    cases
}

fn over<const N: usize>(axes: [i64; N]) -> ReduceOptions {
    ReduceOptions::new().axes(axes).keepdim(true)
}

fn forms_of_convolutions() -> Vec<Form> {
    let (full, nchw) = (Arg(&[4, 32, 14, 14], BF16, true), Arg(&[4, 32, 14, 14], BF16, false));
    let arg = |dims| Arg(dims, BF16, false);
    let channels = arg(&[32, 1, 1]);
    vec![
        ("+ relu(r)", full, |y, r| vec![y + relu(r)]),
        ("+ relu(b)", channels, |y, b| vec![y + relu(b)]),
        ("batch norm", Arg(&[32, 1, 1], DType::F32, false), |y, v| vec![relu((y - v) * rsqrt(v * v + 1e-5) * v + v)]),
        ("+ b[P,Q]", arg(&[14, 14]), |y, b| vec![y + b]),
        ("+ b[N,1,1,1]", arg(&[4, 1, 1, 1]), |y, b| vec![y + b]),
        ("+ b[1,K,P,Q]", Arg(&[1, 32, 14, 14], BF16, true), |y, b| vec![y + b]),
        ("+ b[N,1,P,Q]", Arg(&[4, 1, 14, 14], BF16, true), |y, b| vec![y + b]),
        ("* b[N,K,1,1]", arg(&[4, 32, 1, 1]), |y, b| vec![y * b]),
        ("+ b[Q]", arg(&[14]), |y, b| vec![y + b]),
        ("+ b[1]", arg(&[1]), |y, b| vec![y + b]),
        ("+ residual, NCHW", nchw, |y, r| vec![relu(y + r)]),
        ("+ residual, NHWC", full, |y, r| vec![relu(y + r)]),
        ("sum over P, Q", channels, |y, _| vec![sum_with(y, over([2, 3]))]),
        ("sum over K, P, Q", channels, |y, _| vec![sum_with(y, over([1, 2, 3]))]),
        ("sum over N, P, Q", channels, |y, _| vec![sum_with(y, over([0, 2, 3]))]),
        ("sum over K", channels, |y, _| vec![sum_with(y, over([1]))]),
        ("sum", channels, |y, _| vec![sum(y)]),
        ("max", channels, |y, _| vec![max(y)]),
        ("sum over P", channels, |y, _| vec![sum_with(y, over([2]))]),
        ("sum over N", channels, |y, _| vec![sum_with(y, over([0]))]),
        ("mean", channels, |y, _| vec![mean(relu(y))]),
        ("norm1", channels, |y, _| vec![norm1(y)]),
        ("norm2", channels, |y, _| vec![norm2(y)]),
        ("three reductions", channels, |y, _| vec![amax(y), sum(y), max(relu(y))]),
    ]
}

fn forms_of_matmuls() -> Vec<Form> {
    let arg = |dims| Arg(dims, BF16, false);
    let row = arg(&[256]);
    vec![
        ("+ relu(r)", arg(&[4, 128, 256]), |y, r| vec![y + relu(r)]),
        ("+ relu(b)", row, |y, b| vec![y + relu(b)]),
        ("+ exp(b) of rows", arg(&[4, 128, 1]), |y, b| vec![y + exp(b)]),
        ("+ b[B,1,1]", arg(&[4, 1, 1]), |y, b| vec![y + b]),
        ("+ b[B,1,N]", arg(&[4, 1, 256]), |y, b| vec![y + b]),
        ("+ b[M,N]", arg(&[128, 256]), |y, b| vec![y + b]),
        ("sum of rows", row, |y, _| vec![y, sum_with(y, over([2]))]),
        ("max of columns", row, |y, _| vec![y, max_with(y, over([1]))]),
        ("sum over B, M", row, |y, _| vec![sum_with(y, over([0, 1]))]),
        ("sum over B", row, |y, _| vec![sum_with(y, over([0]))]),
        ("sum over M, N", row, |y, _| vec![sum_with(y, over([1, 2]))]),
        ("norm1", row, |y, _| vec![norm1(y)]),
        ("mean", row, |y, _| vec![mean(relu(y))]),
        ("three reductions", row, |y, _| vec![amax(y), sum(y), max_with(relu(y), over([2]))]),
    ]
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn rules_agree_with_cudnn() {
    let cudnn = fused_graph_cudnn::library::Library::for_planning().unwrap().version();
    let cudnn = cudnn.major * 10_000 + cudnn.minor * 100 + cudnn.patch;
    let mut differ = String::new();
    for case in cases() {
        let graph = &case.graph;
        let view = |n: &NodeId| matches!(graph.node(*n).op, Op::View(_));
        let nodes: Vec<NodeId> = graph.nodes().map(|(n, _)| n).filter(|n| !view(n)).collect();
        let whole = group_of(graph, GroupKind::Kernel, &nodes);
        let alignments = vec![256; graph.inputs().count()];
        let request = CompileRequest::new(graph, &Options::DEFAULT, &alignments);
        for (gpu, sm) in GPUS {
            let rules = partition(graph, &RuleTarget::gpu(sm, cudnn));
            if BUILT_BUT_WRONG.contains(&case.name.as_str()) {
                assert!(rules.groups.len() > 1, "{}", case.name);
                continue;
            }
            let refusals = refusals_for(gpu, &request, &whole).unwrap();
            if (rules.groups.len() == 1) != refusals.is_empty() {
                let said = if refusals.is_empty() { "takes it".to_owned() } else { refusals.join("\n  ") };
                differ += &format!("{} on {gpu}:\n{}cuDNN: {said}\n", case.name, rules.display(graph));
            }
        }
    }
    assert!(differ.is_empty(), "{differ}");
}

fn tensor(Arg(dims, dtype, last): &Arg, seed: u64) -> Tensor {
    let t = Tensor::randn_seeded(*dims, *dtype, seed, &Device::CPU).unwrap();
    if *last { t.channels_last().unwrap() } else { t }
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn what_the_rules_fuse_is_right() {
    let gpu = Device::cuda(0).unwrap();
    let mut wrong = String::new();
    let only = std::env::var("FUSED_GRAPH_CASE").unwrap_or_default();
    for case in cases().into_iter().filter(|c| only.is_empty() || c.name == only) {
        let count = case.graph.inputs().count();
        let host: Vec<Tensor> = case.args.iter().zip(1..).take(count).map(|(a, seed)| tensor(a, seed)).collect();
        let arrays: Vec<Array> = host.iter().map(|t| Array::from_tensor(t).unwrap()).collect();
        let expected = oracle::run(&case.graph, &arrays, &[0.5]).unwrap();
        let device: Vec<Tensor> = host.iter().map(|t| t.to(&gpu).unwrap()).collect();
        let alignments: Vec<u32> = device.iter().map(Tensor::alignment).collect();
        let request = CompileRequest::new(&case.graph, &Options::DEFAULT, &alignments);
        let executable = match gpu.accelerator().unwrap().compile(&request) {
            Ok(executable) => executable,
            Err(e) => {
                wrong += &format!("{}: {e}\n", case.name);
                continue;
            }
        };
        let tensors: Vec<&Tensor> = device.iter().collect();
        let found = executable.run(&Launch { device: &gpu, tensors: &tensors, scalars: &[0.5] }).unwrap();
        let errors: Vec<f32> = found.iter().zip(&expected).map(|(f, e)| error(f, e) as f32).collect();
        println!("{}: {} kernels, {errors:?}", case.name, executable.explain().kernels.len());
        if errors.iter().any(|e| e.is_nan() || *e > 6e-3) {
            wrong += &format!("{}: {errors:?}\n{}\n", case.name, executable.explain());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// ‖found − expected‖ / ‖expected‖.
fn error(found: &Tensor, expected: &Array) -> f64 {
    let found = Array::from_tensor(&found.to(&Device::CPU).unwrap()).unwrap();
    let square = |v: f64| v * v;
    let difference: f64 = found.data.iter().zip(&expected.data).map(|(f, e)| square(f - e)).sum();
    (difference / expected.data.iter().map(|e| square(*e)).sum::<f64>()).sqrt()
}
