//! The loop: build the kernel of each core; what no engine takes is cut elsewhere, and what has no core is made by ourselves.

use super::lowerer::{Copied, Lowerer};
use super::program::expanded;
use super::{Program, Step};
use crate::jit;
use crate::lower::Refusal;
use crate::plan::{self, Answer, Fill, KernelCaches, KernelPlan, Known, StoredPlan};
use fused_graph_core::fuse::{self, Group, GroupKind, Partition};
use fused_graph_core::ir::{Graph, NodeId, Op, SdpaOperand, SdpaPart, SourceLoc, ValueId};
use fused_graph_core::layout::Dims;
use fused_graph_core::{Error, Result};
use std::sync::Arc;

/// Makes a kernel of our own for a group without a core operation.
pub(crate) type Fallback<'a, J> = &'a mut dyn FnMut(&Graph, &Group) -> Result<J>;

/// Why a group is not one kernel.
enum NotBuilt {
    Refused(Refusal),
    /// Tuning found its parts to be faster.
    Slower(String),
}

pub(super) struct Compiler<'a, J> {
    pub(super) cx: Lowerer<'a>,
    known: &'a Known,
    caches: &'a KernelCaches,
    fallback: Fallback<'a, J>,
    /// Kernels round cores that are finished.
    built: Vec<(Group, Vec<Step<J>>)>,
    /// Kernels that no engine took, and why.
    refused: Vec<(Group, Vec<String>)>,
}

impl<'a, J> Compiler<'a, J> {
    pub(super) fn new(cx: Lowerer<'a>, known: &'a Known, caches: &'a KernelCaches, fallback: Fallback<'a, J>) -> Self {
        Compiler { cx, known, caches, fallback, built: Vec::new(), refused: Vec::new() }
    }

    fn graph(&self) -> &'a Graph {
        self.cx.request.graph
    }

    /// Builds the kernels with a core that are not built yet. At the first that no engine takes, the division without it.
    pub(super) fn build_cores(&mut self, partition: &Partition) -> Result<Option<Partition>> {
        for (i, group) in partition.groups.iter().enumerate() {
            let Some(core) = group.core.filter(|_| !self.is_settled(group)) else { continue };
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
            self.refused.push((group.clone(), reasons));
            if jit::does(&self.graph().node(core).op) {
                continue;
            }
            let next = fuse::recut(self.graph(), partition, i, &fuse::Refusal::new(why));
            return next.map(Some).ok_or_else(|| self.no_kernel(core));
        }
        Ok(None)
    }

    /// Whether it is known what runs a group: a plan, or a kernel of our own where cuDNN has none.
    fn is_settled(&self, group: &Group) -> bool {
        let own = |core: NodeId| {
            let op = self.graph().node(core).op;
            let refused = matches!(op, Op::Softmax(_)) || self.refused.iter().any(|(g, _)| g == group);
            jit::does(&op) && refused
        };
        group.core.is_some_and(own) || self.built.iter().any(|(g, _)| g == group)
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
                vec![format!("`{}`: {reason}", fuse::value_name(self.graph(), value))]
            }
            Refusal::Failed(error) => vec![error.message().to_owned()],
        }
    }

    /// The error for a core that has no kernel even alone, with the reasons why not alone.
    fn no_kernel(&self, core: NodeId) -> Error {
        let graph = self.graph();
        let node = graph.node(core);
        let operands: Vec<String> = node.inputs.iter().map(|&v| graph.describe(v)).collect();
        let place = if node.loc == SourceLoc::NONE { String::new() } else { format!(" at {}", node.loc) };
        let what =
            format!("`{}` of {} in `{}`{place} has no kernel", node.op.name(), operands.join(" and "), graph.name());
        let mut reasons = self.refused.last().map(|(_, reasons)| reasons.clone()).unwrap_or_default();
        reasons.push(format!("asked of cuDNN {} for sm_{}", self.cx.api.version(), self.cx.target.sm()));
        plan::unsupported(&what, &reasons)
    }

    /// Everything in order, with kernels of our own where there is no core.
    pub(super) fn program(mut self, partition: Partition) -> Result<Program<J>> {
        let mut steps = Vec::new();
        for group in partition.groups {
            if group.kind == GroupKind::Copy {
                let kernel = self.copy_of_view(&group)?;
                steps.push(Step::View { group, kernel });
            } else if let Some(at) = self.built.iter().position(|(g, _)| *g == group) {
                steps.extend(self.built.swap_remove(at).1);
            } else {
                let graph = self.graph();
                let kernel = (self.fallback)(graph, &group)?;
                let reason = self.why_own(&group);
                steps.push(Step::Own { group, kernel, reason });
            }
        }
        Ok(Program { graph: Arc::clone(self.cx.request.graph), steps, cuts: partition.cuts, refused: self.refused })
    }

    /// The kernel that copies what a view looks at to the strides of the view's value.
    fn copy_of_view(&mut self, group: &Group) -> Result<J> {
        let graph = self.graph();
        let node = graph.node(group.nodes[group.nodes.len() - 1]);
        let seen = fuse::resolve(graph, node.inputs[0]);
        let dtype = graph.value(node.output).dtype;
        // Both are in row-major order of their elements, whatever the dims.
        let (copy, group) = jit::copy_graph(&seen.dims, &seen.strides, &seen.dims.contiguous_strides(), dtype, dtype)?;
        (self.fallback)(&copy, &group)
    }

    /// The kernel that makes a dense copy of an operand.
    fn copy_of_operand(&mut self, value: ValueId, dims: &Dims, strides: &Dims) -> Result<J> {
        let graph = self.graph();
        let seen = expanded(&fuse::resolve(graph, value), dims);
        let dtype = graph.value(value).dtype;
        let (copy, group) = jit::copy_graph(dims, &seen.strides, strides, dtype, dtype)?;
        (self.fallback)(&copy, &group)
    }

    fn why_own(&self, group: &Group) -> Vec<String> {
        let from = |refused: &Group| group.nodes.iter().any(|n| refused.nodes.contains(n));
        self.refused.iter().find(|(g, _)| from(g)).map(|(_, reasons)| reasons.clone()).unwrap_or_default()
    }

    /// An attention with lengths leaves rows behind the length as they are (cuDNN 9.19 on an H200); they see nothing.
    fn fills(&self, group: &Group) -> Vec<Fill> {
        let graph = self.graph();
        let fill = |&value: &ValueId| {
            let Op::Sdpa(attrs) = graph.producer(value).map(|n| graph.node(n).op)? else { return None };
            let lengths = attrs.has(SdpaOperand::SeqLenQ) || attrs.has(SdpaOperand::SeqLenKv);
            let word = match attrs.part {
                SdpaPart::Output | SdpaPart::SumExp => 0,
                _ => f32::NEG_INFINITY.to_bits(),
            };
            let bytes = graph.value(value).dims.numel() * graph.value(value).dtype.size();
            lengths.then_some(Fill { value, bytes, word })
        };
        group.outputs.iter().filter_map(fill).collect()
    }

    /// A kernel of our own for a core that no engine of cuDNN's computes as asked.
    fn own_core(&mut self, group: &Group) -> Result<Vec<Step<J>>, Refusal> {
        let graph = self.graph();
        let reduces = |n: &&NodeId| matches!(graph.node(**n).op, Op::Reduce(_));
        if let Some(&n) = group.nodes.iter().find(reduces) {
            let what = graph.node(n).op.name();
            return Err(Refusal::Unsupported(vec![format!("without TF32 `{what}` is a kernel of its own")]));
        }
        let kernel = (self.fallback)(graph, group)?;
        // cuBLASLt's, the only one that is not said to use tensor cores, does so all the same for most shapes.
        let reason = vec!["every engine of cuDNN's multiplies F32 matrices with TF32".to_owned()];
        Ok(vec![Step::Own { group: group.clone(), kernel, reason }])
    }

    /// A group as it is, with dense copies of the operands that need them: as it is remembered, or built.
    pub(super) fn one_kernel(&mut self, group: &Group, stored: Option<&StoredPlan>) -> Result<Vec<Step<J>>, Refusal> {
        if self.cx.exact_matmul(group) {
            return self.own_core(group);
        }
        // A plan from bytes says itself whether it was built so.
        let dynamic = stored.map_or(self.cx.request.options.dynamic_shapes, |s| s.dynamic);
        let (lowered, copies) = self.cx.lower(group, stored.map_or(0, |s| s.form), dynamic)?;
        let mut steps = Vec::new();
        for (value, copy) in &copies {
            let Copied { dims, strides, reason } = copy.clone();
            let kernel = self.copy_of_operand(*value, &dims, &strides)?;
            steps.push(Step::Copy { value: *value, dims, strides, reason, kernel });
        }
        let plan = match stored {
            // Bytes that cuDNN does not take are built anew.
            Some(stored) => match plan::load(self.cx.api, self.cx.target, lowered, stored) {
                Ok(plan) => plan,
                Err(error) => {
                    tracing::warn!(%error, function = self.graph().name(), "a stored plan is built anew");
                    return self.one_kernel(group, None);
                }
            },
            None => {
                let wanted = self.cx.wanted(group, &copies);
                let (api, target) = (self.cx.api, self.cx.target);
                let shared = dynamic.then(|| self.caches.get(api, self.graph().name(), &lowered)).transpose()?;
                match plan::build(api, target, lowered, &wanted, shared.as_ref()) {
                    // No engine that takes any size: one for this size.
                    Err(Refusal::Unsupported(_)) if dynamic => {
                        let (lowered, _) = self.cx.lower(group, 0, false)?;
                        plan::build(api, target, lowered, &wanted, None)?
                    }
                    other => other?,
                }
            }
        };
        let plan = KernelPlan { fills: self.fills(group), ..plan };
        steps.push(Step::Cudnn { group: group.clone(), plan });
        Ok(steps)
    }
}
