//! Graphs from bodies, and what cuDNN makes of them for GPUs that are elsewhere.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic, missing_docs)]

use fused_graph_core::backend::{CompileRequest, Options};
use fused_graph_core::ir::Graph;
use fused_graph_core::layout::Dims;
use fused_graph_core::site::{Call, Meta, Returns, Site};
use fused_graph_core::tensor::{HostData, Storage};
use fused_graph_core::trace::Expr;
use fused_graph_core::{DType, Device, Result, Tensor};
use fused_graph_cudnn::compile::{Program, Step, compile_for};
use std::sync::Arc;

/// An argument: dims, element type, channels-last or row-major.
#[derive(Clone, Copy)]
pub struct Arg(pub &'static [i64], pub DType, pub bool);

/// The graph of a body over arguments and one host scalar, which comes last.
pub fn graph<R: Returns>(args: &[Arg], body: impl FnOnce(&[Expr]) -> R) -> Graph {
    static SITE: Site = Site::new(Meta {
        name: "f",
        module: "test",
        file: "",
        line: 1,
        params: &["x", "w", "b", "s", "r", "t", "u", "v"],
        bindings: &[],
        options: Options::DEFAULT,
    });
    let tensors: Vec<Tensor> = args.iter().map(argument).collect();
    let mut call = Call::new(&SITE);
    for t in &tensors {
        call = call.tensor(t);
    }
    let n = args.len() + 1;
    call.scalar(0.5f32).trace(|i| body(&(0..n).map(|p| i.tensor(p)).collect::<Vec<_>>())).graph().unwrap()
}

/// A tensor that has a layout but, its elements not being looked at, no memory to speak of.
fn argument(Arg(dims, dtype, last): &Arg) -> Tensor {
    let dims = Dims::new(dims).unwrap();
    let strides = if *last { dims.channels_last_strides() } else { dims.contiguous_strides() };
    let nothing = Storage::host(HostData::F32(Vec::new()));
    Tensor::from_parts(Device::CPU, nothing, *dtype, dims, strides, 0)
}

/// The kernels of a graph on a GPU.
pub fn kernels(gpu: &str, graph: Graph) -> Result<Program<()>> {
    kernels_with(gpu, graph, &Options::DEFAULT, 256)
}

pub fn kernels_with(gpu: &str, graph: Graph, options: &Options, alignment: u32) -> Result<Program<()>> {
    let graph = Arc::new(graph);
    let alignments = vec![alignment; graph.inputs().count()];
    compile_for(gpu, &CompileRequest::new(&graph, options, &alignments))
}

/// One line a kernel: who runs it and what is in it.
pub fn summary(program: &Program<()>) -> String {
    let line = |r: fused_graph_core::explain::KernelReport| format!("{}: {}", r.provider, r.operations.join(" + "));
    program.reports().into_iter().map(line).collect::<Vec<_>>().join("; ")
}

/// Whether everything is in one kernel of cuDNN's, without copies.
pub fn is_one(program: &Program<()>) -> bool {
    matches!(program.steps.as_slice(), [Step::Cudnn { .. }])
}
