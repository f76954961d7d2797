//! The loop from a graph to kernels: partition, lower, build; what cuDNN refuses is cut elsewhere and the reason kept.
//!
//! The same for a live GPU and for one that is elsewhere.

use crate::jit;
use crate::lower::{self, Lowered, Memory, Refusal};
use crate::plan::{self, Answer, Facts, KernelPlan, Known, KnownKernel, StoredPlan, Wanted};
use crate::target::Target;
use cudnn_sys::Api;
use fused_graph_core::backend::CompileRequest;
use fused_graph_core::explain::KernelReport;
use fused_graph_core::fuse::{self, Cut, Group, GroupKind, MemRef, Partition, RuleTarget, report};
use fused_graph_core::ir::{Graph, NodeId, Op, ValueId, ValueKind};
use fused_graph_core::layout::{Dims, is_channels_last};
use fused_graph_core::{DType, Error, Result};
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
    /// Kernels that no engine took, and why.
    pub(crate) refused: Vec<(Group, Vec<String>)>,
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
        /// What copies.
        kernel: J,
    },
    /// A view that cannot be expressed by strides: its operand is copied to the strides of the view's own value.
    View {
        /// The view.
        group: Group,
        /// What copies.
        kernel: J,
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
        /// The words of the engines that declined the kernel it was cut from; none if cuDNN was not asked, there being no core.
        reason: Vec<String>,
    },
}

/// Makes a kernel of our own for a group without a core operation.
pub(crate) type Fallback<'a, J> = &'a mut dyn FnMut(&Graph, &Group) -> Result<J>;

/// Compiles a graph for a target; what is known of its kernels is not compiled again.
pub(crate) fn compile<J>(
    api: &'static Api,
    target: &Target,
    request: &CompileRequest<'_>,
    known: &Known,
    fallback: Fallback<'_, J>,
) -> Result<Program<J>> {
    let graph = request.graph;
    let version = api.version();
    let cudnn = version.major * 10_000 + version.minor * 100 + version.patch;
    let rules = RuleTarget::gpu(target.sm(), cudnn).aligned(request.alignments);
    fuse::check_supported(graph, &rules)?;
    let mut compiler = Compiler { api, target, request, known, fallback, built: Vec::new(), refused: Vec::new() };
    let mut partition = fuse::partition(graph, &rules);
    while let Some(next) = compiler.build_cores(&partition)? {
        partition = next;
    }
    compiler.program(partition)
}

/// A dense copy of an operand that is made before a kernel runs.
#[derive(Clone, Debug)]
pub(crate) struct Copied {
    dims: Dims,
    strides: Dims,
    reason: String,
}

/// Operands of a kernel that are copied, in the order in which that was found out.
pub(crate) type Copies = Vec<(ValueId, Copied)>;

/// Why a group is not one kernel.
enum NotBuilt {
    Refused(Refusal),
    /// Tuning found its parts to be faster.
    Slower(String),
}

struct Compiler<'a, J> {
    api: &'static Api,
    target: &'a Target,
    request: &'a CompileRequest<'a>,
    known: &'a Known,
    fallback: Fallback<'a, J>,
    /// Kernels round cores that are finished.
    built: Vec<(Group, Vec<Step<J>>)>,
    /// Kernels that no engine took, and why.
    refused: Vec<(Group, Vec<String>)>,
}

impl<J> Compiler<'_, J> {
    /// Builds the kernels with a core that are not built yet. At the first that no engine takes, the division without it.
    fn build_cores(&mut self, partition: &Partition) -> Result<Option<Partition>> {
        for (i, group) in partition.groups.iter().enumerate() {
            let Some(core) = group.core.filter(|_| !self.built.iter().any(|(g, _)| g == group)) else { continue };
            let (reasons, why) = match self.answer(group) {
                Ok(steps) => {
                    self.built.push((group.clone(), steps));
                    continue;
                }
                Err(NotBuilt::Slower(words)) => (vec![words.clone()], words),
                Err(NotBuilt::Refused(Refusal::Failed(error))) => return Err(error),
                Err(NotBuilt::Refused(refusal)) => {
                    let reasons = self.reasons(refusal);
                    let words = reasons.first().map_or("", |r| r);
                    let why = format!("no engine of cuDNN takes it in one kernel: {words}");
                    (reasons, why)
                }
            };
            let next = fuse::recut(self.request.graph, partition, i, &fuse::Refusal::new(why));
            self.refused.push((group.clone(), reasons));
            return next.map(Some).ok_or_else(|| self.no_kernel(core));
        }
        Ok(None)
    }

    /// The kernel of a group, as it is remembered or built now.
    fn answer(&mut self, group: &Group) -> Result<Vec<Step<J>>, NotBuilt> {
        match self.known.answer(group) {
            Some(Answer::Refused(reasons)) => Err(NotBuilt::Refused(Refusal::Unsupported(reasons.clone()))),
            Some(Answer::Slower(words)) => Err(NotBuilt::Slower(words.clone())),
            Some(Answer::Plan(plan)) => self.one_kernel(group, Some(plan)).map_err(NotBuilt::Refused),
            None => self.one_kernel(group, None).map_err(NotBuilt::Refused),
        }
    }

    fn reasons(&self, refusal: Refusal) -> Vec<String> {
        match refusal {
            Refusal::Unsupported(reasons) => reasons,
            Refusal::Layout { value, reason } => {
                vec![format!("`{}`: {reason}", fuse::value_name(self.request.graph, value))]
            }
            Refusal::Failed(error) => vec![error.message().to_owned()],
        }
    }

    /// The error for a core that has no kernel even alone, with the reasons why not alone.
    fn no_kernel(&self, core: NodeId) -> Error {
        let graph = self.request.graph;
        let node = graph.node(core);
        let operands: Vec<String> = node.inputs.iter().map(|&v| graph.describe(v)).collect();
        let what = format!("`{}` of {} at {} has no kernel", node.op.name(), operands.join(" and "), node.loc);
        plan::unsupported(&what, self.refused.last().map_or(&[], |(_, reasons)| reasons))
    }

    /// Everything in order, with kernels of our own where there is no core.
    fn program(mut self, partition: Partition) -> Result<Program<J>> {
        let mut steps = Vec::new();
        for group in partition.groups {
            if group.kind == GroupKind::Copy {
                let kernel = self.copy_of_view(&group)?;
                steps.push(Step::View { group, kernel });
            } else if let Some(at) = self.built.iter().position(|(g, _)| *g == group) {
                steps.extend(self.built.swap_remove(at).1);
            } else {
                let kernel = (self.fallback)(self.request.graph, &group)?;
                let reason = self.why_own(&group);
                steps.push(Step::Own { group, kernel, reason });
            }
        }
        Ok(Program { graph: Arc::clone(self.request.graph), steps, cuts: partition.cuts, refused: self.refused })
    }

    /// The kernel that copies what a view looks at to the strides of the view's value.
    fn copy_of_view(&mut self, group: &Group) -> Result<J> {
        let graph = self.request.graph;
        let node = graph.node(group.nodes[group.nodes.len() - 1]);
        let seen = fuse::resolve(graph, node.inputs[0]);
        let dtype = graph.value(node.output).dtype;
        // Both are in row-major order of their elements, whatever the dims.
        let (copy, group) = jit::copy_graph(&seen.dims, &seen.strides, &seen.dims.contiguous_strides(), dtype, dtype)?;
        (self.fallback)(&copy, &group)
    }

    /// The kernel that makes a dense copy of an operand.
    fn copy_of_operand(&mut self, value: ValueId, dims: &Dims, strides: &Dims) -> Result<J> {
        let graph = self.request.graph;
        let seen = expanded(&fuse::resolve(graph, value), dims);
        let dtype = graph.value(value).dtype;
        let (copy, group) = jit::copy_graph(dims, &seen.strides, strides, dtype, dtype)?;
        (self.fallback)(&copy, &group)
    }

    fn why_own(&self, group: &Group) -> Vec<String> {
        let from = |refused: &Group| group.nodes.iter().any(|n| refused.nodes.contains(n));
        self.refused.iter().find(|(g, _)| from(g)).map(|(_, reasons)| reasons.clone()).unwrap_or_default()
    }

    /// A group as it is, with dense copies of the operands that need them: as it is remembered, or built.
    fn one_kernel(&mut self, group: &Group, stored: Option<&StoredPlan>) -> Result<Vec<Step<J>>, Refusal> {
        let (lowered, copies) = self.lower(group, stored.map_or(0, |s| s.form))?;
        let mut steps = Vec::new();
        for (value, copy) in &copies {
            let Copied { dims, strides, reason } = copy.clone();
            let kernel = self.copy_of_operand(*value, &dims, &strides)?;
            steps.push(Step::Copy { value: *value, dims, strides, reason, kernel });
        }
        let plan = match stored {
            // Bytes that cuDNN does not take are built anew.
            Some(stored) => match plan::load(self.api, self.target, lowered, stored) {
                Ok(plan) => plan,
                Err(error) => {
                    tracing::warn!(%error, function = self.request.graph.name(), "a stored plan is built anew");
                    return self.one_kernel(group, None);
                }
            },
            None => plan::build(self.api, self.target, lowered, &self.wanted(group, &copies))?,
        };
        steps.push(Step::Cudnn { group: group.clone(), plan });
        Ok(steps)
    }

    /// The operation graph of a group in one of its forms, and the copies of operands that it reads.
    pub(crate) fn lower(&self, group: &Group, form: u8) -> Result<(Lowered, Copies), Refusal> {
        let forms;
        let graph: &Graph = match form {
            0 => self.request.graph,
            n => {
                forms = fuse::forms(self.request.graph, group);
                let form = forms.get(n as usize - 1);
                form.ok_or_else(|| Error::cache(format!("a stored plan has form {n}, which its graph does not")))?
            }
        };
        let mut copies = Copies::new();
        loop {
            let alignment = |v: ValueId| match graph.value(v).kind {
                ValueKind::Input { index } => self.request.alignments.get(index).copied().unwrap_or(1),
                _ => 256,
            };
            let exact = !self.request.options.tf32 && self.f32_core(group);
            let layouts = copies.iter().map(|(v, c)| (*v, (c.dims, c.strides))).collect();
            let memory = Memory { alignment: &alignment, copies: &layouts, exact };
            match lower::lower(self.api, self.target, graph, group, &memory) {
                Ok(lowered) => return Ok((lowered, copies)),
                Err(Refusal::Layout { value, reason }) if !copies.iter().any(|(v, _)| *v == value) => {
                    let (dims, strides) = self.dense(group, value);
                    copies.push((value, Copied { dims, strides, reason }));
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// What the engines of a group must satisfy.
    pub(crate) fn wanted(&self, group: &Group, copies: &Copies) -> Wanted<'_> {
        Wanted::new(self.api, self.request.options, self.facts(group, copies))
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

    fn facts(&self, group: &Group, copies: &Copies) -> Facts {
        let graph = self.request.graph;
        let core = group.core.map(|n| graph.node(n)).filter(|n| n.op == Op::Matmul);
        let batch = |v: ValueId| {
            if let Some((_, copy)) = copies.iter().find(|(copied, _)| *copied == v) {
                return copy.dims[..copy.dims.len() - 2].iter().product();
            }
            let seen = fuse::resolve(graph, v);
            let axes = seen.dims.len() - 2;
            (0..axes).filter(|&a| seen.strides[a] != 0).map(|a| seen.dims[a]).product::<i64>()
        };
        let repeated = core.is_some_and(|n| {
            let out = graph.value(n.output).dims;
            let whole: i64 = out[..out.len() - 2].iter().product();
            n.inputs.iter().any(|&v| batch(v) != whole)
        });
        Facts { matmul: core.is_some(), f32_core: self.f32_core(group), aligned: self.aligned(group, copies), repeated }
    }

    /// Whether all that a group reads starts at a multiple of 16 bytes.
    fn aligned(&self, group: &Group, copies: &Copies) -> bool {
        let graph = self.request.graph;
        let read = |v: &&ValueId| !fuse::is_scalar(graph, **v) && !copies.iter().any(|(copied, _)| copied == *v);
        group.inputs.iter().filter(read).all(|&v| {
            let seen = fuse::resolve(graph, v);
            let offset = seen.offset * graph.value(v).dtype.size() as i64;
            let base = match graph.value(seen.base).kind {
                ValueKind::Input { index } => self.request.alignments.get(index).copied().unwrap_or(1),
                _ => 256,
            };
            base >= 16 && offset % 16 == 0
        })
    }

    fn f32_core(&self, group: &Group) -> bool {
        let graph = self.request.graph;
        group.core.is_some_and(|n| graph.value(graph.node(n).inputs[0]).dtype == DType::F32)
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
                Step::View { group, .. } => of(group),
                Step::Own { group, reason, .. } => KernelReport { refused: reason.clone(), ..of(group) },
                Step::Cudnn { group, plan } => of_plan(plan, of(group)),
            };
            line.notes.append(&mut notes);
            reports.push(line);
        }
        reports
    }

    /// What another process needs in order to compile nothing. `code` gives source and compiled code of a kernel of our own.
    pub(crate) fn known(&self, code: impl Fn(&J) -> (String, Vec<u8>)) -> Result<Known> {
        let mut known = Known::default();
        for step in &self.steps {
            match step {
                Step::Cudnn { group, plan } => {
                    known.kernels.push(KnownKernel::new(group, Answer::Plan(StoredPlan::of(plan)?)));
                }
                Step::Copy { kernel, .. } | Step::View { kernel, .. } | Step::Own { kernel, .. } => {
                    known.code.push(code(kernel));
                }
            }
        }
        for (group, reasons) in &self.refused {
            known.kernels.push(KnownKernel::new(group, Answer::Refused(reasons.clone())));
        }
        known.code.sort();
        known.code.dedup();
        Ok(known)
    }

    /// Kernels of cuDNN's that were compiled and not loaded.
    pub fn compiled(&self) -> usize {
        self.steps.iter().filter(|s| matches!(s, Step::Cudnn { plan, .. } if !plan.loaded)).count()
    }

    /// Cuts in words.
    pub fn cut_texts(&self) -> Vec<(String, String)> {
        report::cuts(&self.graph, &self.cuts)
    }
}

fn of_plan(plan: &KernelPlan, of_graph: KernelReport) -> KernelReport {
    KernelReport {
        provider: "cuDNN",
        engine: plan.choice.words(),
        workspace: plan.workspace,
        build_ms: plan.build_ms,
        refused: plan.refused.clone(),
        notes: plan.notes.clone(),
        ..of_graph
    }
}

/// What cuDNN says of a group as one kernel on a GPU that is elsewhere, whatever the rules say: nothing if it takes it, else every engine's reason.
pub fn refusals_for(gpu: &str, request: &CompileRequest<'_>, group: &Group) -> Result<Vec<String>> {
    let api = crate::library::Library::for_planning()?.api();
    let target = Target::named(api, gpu)?;
    let mut none = |_: &Graph, _: &Group| Ok(());
    let known = Known::default();
    let (built, refused) = (Vec::new(), Vec::new());
    let mut compiler = Compiler { api, target: &target, request, known: &known, fallback: &mut none, built, refused };
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
    compile(api, &target, request, &known, &mut own).map_err(|e: Error| e.context(format!("for {gpu}")))
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
    let api = crate::library::Library::for_planning()?.api();
    let target = Target::of(api, gpu)?;
    let known = Known::default();
    compile(api, &target, request, &known, &mut |_, _| Ok(())).map_err(|e: Error| e.context(format!("for {gpu}")))
}
