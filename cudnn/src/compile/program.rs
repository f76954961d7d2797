//! A compiled graph: launches in order, and what is said and remembered of them.

use crate::plan::{Answer, KernelPlan, Known, KnownKernel, StoredPlan};
use fused_graph_core::Result;
use fused_graph_core::explain::KernelReport;
use fused_graph_core::fuse::{Cut, Group, MemRef, report};
use fused_graph_core::ir::{Graph, ValueId};
use fused_graph_core::layout::Dims;
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
    /// A dense copy of an operand that no engine can read as it lies, for [`Source::Copy`](crate::lower::Source::Copy).
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

/// A value in memory repeated to larger dims.
pub(crate) fn expanded(seen: &MemRef, dims: &Dims) -> MemRef {
    let lead = dims.len() - seen.dims.len();
    let stride =
        |i: usize| if i < lead || (seen.dims[i - lead] == 1 && dims[i] != 1) { 0 } else { seen.strides[i - lead] };
    MemRef { dims: *dims, strides: Dims::collect((0..dims.len()).map(stride)), ..*seen }
}

impl<J> Step<J> {
    /// The operations that it computes; none if it copies an operand.
    pub fn group(&self) -> Option<&Group> {
        match self {
            Step::Copy { .. } => None,
            Step::View { group, .. } | Step::Cudnn { group, .. } | Step::Own { group, .. } => Some(group),
        }
    }
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

    /// Plans that were built with kernels that other sizes share, and how many of them found theirs there.
    pub fn shared(&self) -> (usize, usize) {
        let plans = self.steps.iter().filter_map(|s| match s {
            Step::Cudnn { plan, .. } => plan.shared,
            _ => None,
        });
        plans.fold((0, 0), |(used, found), there| (used + 1, found + there as usize))
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
        notes: notes(plan),
        ..of_graph
    }
}

fn notes(plan: &KernelPlan) -> Vec<String> {
    let shared = plan.shared.map(|there| match there {
        true => "its kernel was compiled for another size".to_owned(),
        false => "its kernel serves other sizes too".to_owned(),
    });
    plan.notes.iter().cloned().chain(shared).collect()
}
