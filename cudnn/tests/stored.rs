//! What is remembered of a compilation spares the next one all of it. Against the real cuDNN, without a GPU.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use fused_graph_core::backend::{CompileRequest, Heuristics, Note, Options};
use fused_graph_core::fuse::{self, RuleTarget};
use fused_graph_core::ir::Graph;
use fused_graph_core::trace::ops::*;
use fused_graph_core::{DType, Error};
use fused_graph_cudnn::compile::{Step, bake};
use fused_graph_cudnn::plan::{Answer, Known};
use std::sync::Arc;
use support::{Arg, graph};

const BF16: DType = DType::BF16;
const ALIGNED: [u32; 5] = [256; 5];

/// A matmul with its epilogue, beside it a kernel of our own.
fn two_kernels() -> Arc<Graph> {
    let args = [Arg(&[16, 512, 512], BF16, false), Arg(&[16, 512, 1024], BF16, false), Arg(&[1024], BF16, false)];
    Arc::new(graph(&args, |a| {
        let y = relu(a[3] * matmul(a[0], a[1]) + a[2]);
        vec![y, amax(y), softplus(a[0])]
    }))
}

fn residual() -> Arc<Graph> {
    let map = Arg(&[32, 256, 14, 14], BF16, true);
    let args = [map, Arg(&[256, 256, 3, 3], BF16, true), Arg(&[256], BF16, false), map];
    Arc::new(graph(&args, |a| relu(conv2d_with(a[0], a[1], ConvOptions::new().padding(1)) + per_channel(a[2]) + a[3])))
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn a_second_compilation_compiles_nothing() {
    let graph = two_kernels();
    let mut request = CompileRequest::new(&graph, &Options::DEFAULT, &ALIGNED);
    let first = bake("h200", &request).unwrap();
    assert_eq!((first.compiled(), first.steps.len()), (1, 2));
    let bytes = first.to_bytes().unwrap();
    request.known = Some(&bytes);
    let second = bake("h200", &request).unwrap();
    assert_eq!(second.compiled(), 0);
    assert_eq!(second.to_bytes().unwrap(), bytes);
    let engines = |p: &fused_graph_cudnn::compile::Program<_>| -> Vec<String> {
        p.reports().into_iter().map(|k| k.engine).collect()
    };
    assert_eq!(engines(&first), engines(&second));
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn bytes_that_cudnn_refuses_are_compiled_anew() {
    let graph = two_kernels();
    let mut request = CompileRequest::new(&graph, &Options::DEFAULT, &ALIGNED);
    let mut known = Known::from_bytes(&bake("h200", &request).unwrap().to_bytes().unwrap()).unwrap();
    for kernel in &mut known.kernels {
        if let Answer::Plan(plan) = &mut kernel.answer {
            plan.json.truncate(plan.json.len() / 2);
        }
    }
    let bytes = known.to_bytes().unwrap();
    request.known = Some(&bytes);
    assert_eq!(bake("h200", &request).unwrap().compiled(), 1);
    request.known = Some(&bytes[..bytes.len() / 2]);
    assert!(bake("h200", &request).is_err_and(|e: Error| e.kind() == fused_graph_core::ErrorKind::Cache));
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn refusals_are_remembered() {
    let graph = residual();
    let options = Options { deny: &[Note::RuntimeCompilation], ..Options::DEFAULT };
    let mut request = CompileRequest::new(&graph, &options, &ALIGNED);
    let first = bake("h200", &request).unwrap();
    assert!(first.steps.len() > 1, "what runs without run-time compilation is in pieces");
    let bytes = first.to_bytes().unwrap();
    request.known = Some(&bytes);
    let second = bake("h200", &request).unwrap();
    assert_eq!((second.compiled(), second.steps.len()), (0, first.steps.len()));
    assert_eq!(second.cut_texts(), first.cut_texts());
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn engines_by_hand_and_by_list() {
    let args = [Arg(&[32, 256, 14, 14], BF16, true), Arg(&[256, 256, 3, 3], BF16, true)];
    let graph = Arc::new(graph(&args, |a| conv2d_with(a[0], a[1], ConvOptions::new().padding(1))));
    let built = |options: &Options| {
        let program = bake("h200", &CompileRequest::new(&graph, options, &ALIGNED));
        program.map(|p| {
            let choice = p.steps.iter().find_map(|s| match s {
                Step::Cudnn { plan, .. } => Some(plan.choice.clone()),
                _ => None,
            });
            (choice.unwrap(), p.steps.len())
        })
    };
    let (default, kernels) = built(&Options::DEFAULT).unwrap();
    assert!(!default.knobs.is_empty(), "{default}: a configuration of this engine has knobs");
    let text: &'static str = default.to_string().leak();
    assert_eq!(built(&Options { engine: Some(text), ..Options::DEFAULT }).unwrap(), (default.clone(), kernels));
    let other = built(&Options { deny_engines: vec![default.engine].leak(), ..Options::DEFAULT }).unwrap().0;
    assert_ne!(other.engine, default.engine);
    let same = built(&Options { engines: vec![other.engine].leak(), ..Options::DEFAULT }).unwrap().0;
    assert_eq!(same.engine, other.engine);
    for modes in [&[Heuristics::B][..], &[Heuristics::Instant], &[Heuristics::Fallback]] {
        assert!(built(&Options { heuristics: modes.to_vec().leak(), ..Options::DEFAULT }).is_ok(), "{modes:?}");
    }
    let error = built(&Options { engine: Some("engine 4"), ..Options::DEFAULT }).unwrap_err();
    assert!(error.to_string().contains("write it as in `eng4_k24=2`"), "{error}");
    let error = built(&Options { engine: Some("eng4000"), ..Options::DEFAULT }).unwrap_err();
    assert!(error.to_string().contains("eng4000"), "{error}");
}

/// NVIDIA's documentation says that convolutions honour it; of forward ones no engine does with cuDNN 9.19 and 9.28. If this fails, one has come.
#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn no_forward_engine_leaves_multiprocessors_free() {
    let options = Options { sm_count: Some(64), ..Options::DEFAULT };
    let args = [Arg(&[32, 256, 14, 14], BF16, true), Arg(&[256, 256, 3, 3], BF16, true)];
    let graph = Arc::new(graph(&args, |a| conv2d_with(a[0], a[1], ConvOptions::new().padding(1))));
    let error = bake("h200", &CompileRequest::new(&graph, &options, &ALIGNED)).unwrap_err();
    assert!(error.to_string().contains("target_sm_count"), "{error}");
}

#[test]
fn a_residual_may_come_before_the_bias() {
    let graph = residual();
    let partition = fuse::partition(&graph, &RuleTarget::gpu(90, 91900));
    let forms = fuse::forms(&graph, &partition.groups[0]);
    assert_eq!(forms.len(), 1);
    let adds = |g: &Graph| -> Vec<String> {
        let adds = g.nodes().filter(|(_, n)| n.op.name() == "add");
        adds.map(|(_, n)| format!("{} + {}", g.label(n.inputs[0]), g.label(n.inputs[1]))).collect()
    };
    assert_eq!(adds(&graph), ["conv2d(…) + b", "add(…) + s"]);
    assert_eq!(adds(&forms[0]), ["conv2d(…) + s", "add(…) + b"]);
}
