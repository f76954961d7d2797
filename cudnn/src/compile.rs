//! The loop from a graph to kernels: partition, lower, build; what cuDNN refuses is cut elsewhere and the reason kept.
//!
//! The same for a live GPU and for one that is elsewhere.

use crate::lower::{self, Memory, Refusal};
use crate::plan::{self, KernelPlan};
use crate::target::Target;
use cudnn_sys::Api;
use fused_graph_core::backend::CompileRequest;
use fused_graph_core::explain::KernelReport;
use fused_graph_core::fuse::{self, Cut, Group, GroupKind, MemRef, RuleTarget, report};
use fused_graph_core::ir::{Graph, NodeId, Op, ValueId, ValueKind};
use fused_graph_core::layout::{Dims, is_channels_last};
use fused_graph_core::{DType, Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// A graph as launches, in order. `J` is a kernel of our own, for what cuDNN has no engine for.
#[derive(Debug)]
pub struct Program<J> {
    /// What was compiled.
    pub graph: Arc<Graph>,
    /// The launches.
    pub steps: Vec<Step<J>>,
    /// Where a value goes through memory, and why.
    pub cuts: Vec<Cut>,
}

/// One launch.
#[derive(Debug)]
pub enum Step<J> {
    /// A dense copy of an operand that no engine can read as it lies, for [`lower::Source::Copy`].
    Copy {
        /// The operand.
        value: ValueId,
        /// The dims of the copy: those of the operand, or what it is repeated to.
        dims: Dims,
        /// The strides of the copy.
        strides: Dims,
        /// Why.
        reason: String,
    },
    /// A view that cannot be expressed by strides: its operand is copied to the strides of the view's own value.
    View {
        /// The view.
        group: Group,
    },
    /// A plan of cuDNN's.
    Cudnn {
        /// Its operations.
        group: Group,
        /// The plan.
        plan: KernelPlan,
    },
    /// A kernel of our own.
    Own {
        /// Its operations.
        group: Group,
        /// The kernel.
        kernel: J,
        /// Why not cuDNN.
        reason: Vec<String>,
    },
}

/// Makes a kernel of our own for a group without a core operation.
pub(crate) type Fallback<'a, J> = &'a mut dyn FnMut(&Graph, &Group) -> Result<J>;

/// Compiles a graph for a target.
pub(crate) fn compile<J>(
    api: &'static Api,
    target: &Target,
    request: &CompileRequest<'_>,
    fallback: Fallback<'_, J>,
) -> Result<Program<J>> {
    let graph = request.graph;
    let version = api.version();
    let cudnn = (version.major * 10_000 + version.minor * 100 + version.patch) as u32;
    let rules = RuleTarget::gpu(target.sm(), cudnn).aligned(request.alignments);
    fuse::check_supported(graph, &rules)?;
    let partition = fuse::partition(graph, &rules);
    let program = Program { graph: Arc::clone(graph), steps: Vec::new(), cuts: partition.cuts };
    let mut compiler = Compiler { api, target, request, fallback, program };
    for group in partition.groups {
        match (group.kind, group.core) {
            (GroupKind::Copy, _) => compiler.program.steps.push(Step::View { group }),
            (GroupKind::Kernel, None) => {
                let reason = "cuDNN is asked for kernels with a convolution or matmul; this one has none".to_owned();
                compiler.own(&group.nodes, vec![reason])?;
            }
            (GroupKind::Kernel, Some(core)) => compiler.with_core(core, &group)?,
        }
    }
    Ok(compiler.program)
}

struct Compiler<'a, J> {
    api: &'static Api,
    target: &'a Target,
    request: &'a CompileRequest<'a>,
    fallback: Fallback<'a, J>,
    program: Program<J>,
}

impl<J> Compiler<'_, J> {
    /// The whole group in one kernel, or as much of it as an engine takes and the rest behind it.
    fn with_core(&mut self, core: NodeId, group: &Group) -> Result<()> {
        let graph = self.request.graph;
        let is_reduction = |n: &NodeId| matches!(graph.node(*n).op, Op::Reduce(_));
        let scalar = |n: &NodeId| fuse::is_scalar(graph, graph.node(*n).output);
        let prologue: Vec<NodeId> = group.prologue(graph).into_iter().filter(|n| !scalar(n)).collect();
        if !prologue.is_empty() {
            match self.one_kernel(group) {
                Ok(()) => return Ok(()),
                Err(Refusal::Failed(error)) => return Err(error),
                Err(Refusal::Unsupported(reasons)) => self.rest(&prologue, reasons)?,
                Err(Refusal::Layout { reason, .. }) => self.rest(&prologue, vec![reason])?,
            }
        }
        let others = group.nodes.iter().copied().filter(|n| *n != core && !scalar(n) && !prologue.contains(n));
        let (reductions, pointwise): (Vec<NodeId>, Vec<NodeId>) = others.partition(is_reduction);
        let order: Vec<NodeId> = std::iter::once(core).chain(pointwise).chain(reductions).collect();
        let mut first_reasons = None;
        for taken in (1..=order.len()).rev() {
            let part = fuse::group_of(graph, GroupKind::Kernel, &order[..taken]);
            match self.one_kernel(&part) {
                Ok(()) => return self.rest(&order[taken..], first_reasons.unwrap_or_default()),
                Err(Refusal::Failed(error)) => return Err(error),
                Err(Refusal::Unsupported(reasons)) => {
                    first_reasons.get_or_insert(reasons);
                }
                Err(Refusal::Layout { value, reason }) => {
                    first_reasons.get_or_insert(vec![format!("`{}`: {reason}", graph.label(value))]);
                }
            }
        }
        let node = graph.node(core);
        let operands: Vec<String> = node.inputs.iter().map(|&v| graph.describe(v)).collect();
        let what = format!("`{}` of {} at {} has no kernel", node.op.name(), operands.join(" and "), node.loc);
        Err(plan::unsupported(&what, &first_reasons.unwrap_or_default()))
    }

    /// Builds a group as it is, with dense copies of the operands that need them.
    fn one_kernel(&mut self, group: &Group) -> Result<(), Refusal> {
        let graph = self.request.graph;
        let mut copies: HashMap<ValueId, (Dims, Dims)> = HashMap::new();
        let mut steps = Vec::new();
        let plan = loop {
            let alignment = |v: ValueId| match graph.value(v).kind {
                ValueKind::Input { index } => self.request.alignments.get(index).copied().unwrap_or(1),
                _ => 256,
            };
            let memory = Memory { alignment: &alignment, copies: &copies };
            match lower::lower(self.api, self.target, graph, group, &memory) {
                Ok(lowered) => {
                    break plan::build(self.api, self.target, lowered, self.request.options, self.f32_core(group))?;
                }
                Err(Refusal::Layout { value, reason }) if !copies.contains_key(&value) => {
                    let (dims, strides) = self.dense(group, value);
                    copies.insert(value, (dims, strides));
                    steps.push(Step::Copy { value, dims, strides, reason });
                }
                Err(other) => return Err(other),
            }
        };
        self.program.steps.extend(steps);
        self.program.steps.push(Step::Cudnn { group: group.clone(), plan });
        Ok(())
    }

    /// Dims and strides of a dense copy: a convolution's operands follow its data, a matmul's are repeated to its batch.
    fn dense(&self, group: &Group, value: ValueId) -> (Dims, Dims) {
        let graph = self.request.graph;
        let dims = graph.value(value).dims;
        let Some(core) = group.core.map(|n| graph.node(n)).filter(|n| n.inputs.contains(&value)) else {
            return (dims, dims.contiguous_strides());
        };
        if core.op == Op::Matmul {
            let out = graph.value(core.output).dims;
            let batch = out[..out.len() - 2].iter().copied();
            let dims = Dims::collect(batch.chain(dims[dims.len() - 2..].iter().copied()));
            return (dims, dims.contiguous_strides());
        }
        let x = fuse::resolve(graph, core.inputs[0]);
        let last = dims.len() >= 3 && is_channels_last(&x.dims, &x.strides);
        (dims, if last { dims.channels_last_strides() } else { dims.contiguous_strides() })
    }

    fn f32_core(&self, group: &Group) -> bool {
        let graph = self.request.graph;
        group.core.is_some_and(|n| graph.value(graph.node(n).inputs[0]).dtype == DType::F32)
    }

    /// What did not go into the kernel of its core.
    fn rest(&mut self, nodes: &[NodeId], reasons: Vec<String>) -> Result<()> {
        if nodes.is_empty() {
            return Ok(());
        }
        let graph = self.request.graph;
        for node in nodes {
            for &v in &graph.node(*node).inputs {
                let computed_inside = nodes.iter().any(|n| graph.node(*n).output == v);
                let known = self.program.cuts.iter().any(|c| c.value == v);
                if graph.producer(v).is_some() && !computed_inside && !known && !fuse::is_scalar(graph, v) {
                    let reason = format!("no engine takes what follows with it: {}", reasons.first().map_or("", |r| r));
                    self.program.cuts.push(Cut { value: v, reason });
                }
            }
        }
        let is_reduction = |n: &NodeId| matches!(graph.node(*n).op, Op::Reduce(_));
        let (reductions, pointwise): (Vec<NodeId>, Vec<NodeId>) = nodes.iter().copied().partition(is_reduction);
        if !pointwise.is_empty() {
            self.own(&pointwise, reasons.clone())?;
        }
        reductions.iter().try_for_each(|n| self.own(&[*n], reasons.clone()))
    }

    fn own(&mut self, nodes: &[NodeId], reason: Vec<String>) -> Result<()> {
        let group = fuse::group_of(self.request.graph, GroupKind::Kernel, nodes);
        let kernel = (self.fallback)(self.request.graph, &group)?;
        self.program.steps.push(Step::Own { group, kernel, reason });
        Ok(())
    }
}

/// A value in memory repeated to larger dims.
pub(crate) fn expanded(seen: &MemRef, dims: &Dims) -> MemRef {
    let lead = dims.len() - seen.dims.len();
    let stride =
        |i: usize| if i < lead || (seen.dims[i - lead] == 1 && dims[i] != 1) { 0 } else { seen.strides[i - lead] };
    MemRef { dims: *dims, strides: Dims::collect((0..dims.len()).map(stride)), ..*seen }
}

impl<J> Program<J> {
    /// The kernels for `explain`.
    pub fn reports(&self) -> Vec<KernelReport> {
        let graph = &*self.graph;
        let mut notes = Vec::new();
        let mut reports = Vec::new();
        for step in &self.steps {
            let of = |group| KernelReport {
                provider: "nvrtc",
                engine: "generated".to_owned(),
                ..report::kernel(graph, group)
            };
            let mut line = match step {
                Step::Copy { value, reason, .. } => {
                    notes.push(format!("`{}` is copied first: {reason}", graph.label(*value)));
                    continue;
                }
                Step::View { group } => of(group),
                Step::Own { group, reason, .. } => KernelReport { refused: reason.clone(), ..of(group) },
                Step::Cudnn { group, plan } => of_plan(plan, of(group)),
            };
            line.notes.append(&mut notes);
            reports.push(line);
        }
        reports
    }

    /// Cuts in words.
    pub fn cut_texts(&self) -> Vec<(String, String)> {
        report::cuts(&self.graph, &self.cuts)
    }
}

fn of_plan(plan: &KernelPlan, of_graph: KernelReport) -> KernelReport {
    KernelReport {
        provider: "cuDNN",
        engine: plan.engine.clone(),
        workspace: plan.workspace,
        build_ms: plan.build_ms,
        refused: plan.refused.clone(),
        notes: plan.notes.clone(),
        ..of_graph
    }
}

/// Plans for a GPU that is elsewhere: which kernels a function becomes there, without a GPU at hand.
///
/// `gpu` is a name of the built-in table (`h200`, `a100`, `rtx4090`, `b200`) or device properties as cuDNN serializes them.
pub fn compile_for(gpu: &str, request: &CompileRequest<'_>) -> Result<Program<()>> {
    let library = crate::library::Library::for_planning()?;
    let api = library.api();
    let target =
        if gpu.trim_start().starts_with('{') { Target::from_properties(api, gpu) } else { Target::named(api, gpu) }?;
    compile(api, &target, request, &mut |_, _| Ok(())).map_err(|e: Error| e.context(format!("for {gpu}")))
}
