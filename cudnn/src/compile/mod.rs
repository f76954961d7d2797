//! The loop from a graph to kernels: partition, lower, build; what cuDNN refuses is cut elsewhere and the reason kept.
//!
//! The same for a live GPU and for one that is elsewhere.

mod compiler;
mod lowerer;
mod program;

pub(crate) use compiler::Fallback;
pub(crate) use lowerer::{Copies, Lowerer};
pub use program::{Program, Step};

use crate::jit;
use crate::lower::Refusal;
use crate::plan::{KernelCaches, Known};
use crate::target::Target;
use compiler::Compiler;
use cudnn_sys::Api;
use fused_graph_core::backend::{CompileRequest, Identity};
use fused_graph_core::fuse::{self, Group, RuleTarget};
use fused_graph_core::ir::Graph;
use fused_graph_core::{Error, Result};

/// Compiles a graph for a target; what is known of its kernels is not compiled again.
pub(crate) fn compile<J>(
    api: &'static Api,
    target: &Target,
    request: &CompileRequest<'_>,
    known: &Known,
    caches: &KernelCaches,
    fallback: Fallback<'_, J>,
) -> Result<Program<J>> {
    let graph = request.graph;
    let version = api.version();
    let cudnn = version.major * 10_000 + version.minor * 100 + version.patch;
    let rules = RuleTarget::gpu(target.sm(), cudnn).aligned(request.alignments);
    fuse::check_supported(graph, &rules)?;
    let mut compiler = Compiler::new(Lowerer { api, target, request }, known, caches, fallback);
    let mut partition = fuse::partition(graph, &rules);
    while let Some(next) = compiler.build_cores(&partition)? {
        partition = next;
    }
    compiler.program(partition)
}

/// What cuDNN says of a group as one kernel on a GPU that is elsewhere, whatever the rules say: nothing if it takes it, else every engine's reason.
pub fn refusals_for(gpu: &str, request: &CompileRequest<'_>, group: &Group) -> Result<Vec<String>> {
    let api = crate::library::Library::for_planning()?.api();
    let target = Target::of(api, gpu)?;
    let mut none = |_: &Graph, _: &Group| Ok(());
    let (known, caches) = (Known::default(), KernelCaches::default());
    let mut compiler = Compiler::new(Lowerer { api, target: &target, request }, &known, &caches, &mut none);
    match compiler.one_kernel(group, None) {
        Ok(_) => Ok(Vec::new()),
        Err(Refusal::Failed(error)) => Err(error),
        Err(Refusal::Unsupported(reasons)) => Ok(reasons),
        Err(Refusal::Layout { reason, .. }) => Ok(vec![reason]),
    }
}

/// A kernel of our own that was compiled for a GPU that is elsewhere: source and code.
pub type Compiled = (String, Vec<u8>);

/// Compiles for a GPU that is elsewhere, our own kernels included, with what is known of it already ([`CompileRequest::known`]).
pub fn bake(gpu: &str, request: &CompileRequest<'_>) -> Result<Program<Compiled>> {
    let api = crate::library::Library::for_planning()?.api();
    let target = Target::of(api, gpu)?;
    let known = request.known.map(Known::from_bytes).transpose()?.unwrap_or_default();
    let mut own = |graph: &Graph, group: &Group| {
        let source = jit::generate(graph, group)?.code;
        let code = match known.code(&source) {
            Some(code) => code.to_vec(),
            None => jit::nvrtc::compile(&source, target.sm())?,
        };
        Ok((source, code))
    };
    compile(api, &target, request, &known, &KernelCaches::default(), &mut own)
        .map_err(|e: Error| e.context(format!("for {gpu}")))
}

/// What a plan that [`bake`] makes for a GPU is stored under, with the cuDNN that is loaded.
pub fn identity_for(gpu: &str) -> Result<Identity> {
    Target::identity_of(crate::library::Library::for_planning()?.api(), gpu)
}

impl Program<Compiled> {
    /// What a process with that GPU needs in order to compile nothing.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.known(Clone::clone)?.to_bytes()
    }
}

/// Plans for a GPU that is elsewhere: which kernels a function becomes there, without a GPU at hand.
///
/// `gpu` is a name of the built-in table (`h200`, `a100`, `rtx4090`, `b200`) or device properties as cuDNN serializes them.
pub fn compile_for(gpu: &str, request: &CompileRequest<'_>) -> Result<Program<()>> {
    compile_with(gpu, request, &KernelCaches::default())
}

/// The same with kernels that plans for other sizes share ([`Options::dynamic_shapes`](fused_graph_core::backend::Options)).
pub fn compile_with(gpu: &str, request: &CompileRequest<'_>, caches: &KernelCaches) -> Result<Program<()>> {
    let api = crate::library::Library::for_planning()?.api();
    let target = Target::of(api, gpu)?;
    let known = Known::default();
    compile(api, &target, request, &known, caches, &mut |_, _| Ok(()))
        .map_err(|e: Error| e.context(format!("for {gpu}")))
}
