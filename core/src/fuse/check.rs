//! Applies the rows of the table to an operation that asks to join a kernel.

use super::division::{Division, World};
use super::partition::place;
use super::resolve;
use super::rules::{Around, ConvCase, Form, Limit, Part, RULES, Rule, RuleTarget, rule};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::{ConvAttrs, Graph, NodeId, Op, Params, PointwiseMode, ReduceAttrs, ValueId};
use crate::layout::{self, Dims, is_channels_last};

/// Operations in front of one operand of a core.
pub(super) struct Prologue<'a> {
    pub(super) core: NodeId,
    /// Which operand of the core they compute.
    pub(super) operand: usize,
    pub(super) nodes: &'a [NodeId],
}

fn rules<'a>(
    around: Option<&'a Op>,
    part: Part,
    target: &'a RuleTarget<'_>,
) -> impl Iterator<Item = &'static Rule> + 'a {
    let device = target.device;
    RULES.iter().filter(move |r| {
        let core = match r.around {
            Around::Any => true,
            Around::Core => around.is_some(),
            Around::Conv => matches!(around, Some(Op::Conv(_))),
            Around::Matmul => matches!(around, Some(Op::Matmul)),
            Around::Norm => matches!(around, Some(Op::Norm(_))),
            Around::Softmax => matches!(around, Some(Op::Softmax(_))),
            Around::Pool => matches!(around, Some(Op::Pool(_))),
            Around::Attention => matches!(around, Some(Op::Sdpa(_))),
        };
        core && r.part == part && r.on.holds(device)
    })
}

/// The first rule that `node` would break in group `g`, behind its core.
pub(super) fn joining(w: &World<'_>, d: &Division, g: usize, node: NodeId) -> Option<&'static Rule> {
    let core = d.drafts[g].core.map(|c| &w.graph.node(c).op);
    if d.drafts[g].core.is_some_and(|c| w.readers(w.graph.node(node).output).contains(&c)) {
        return rule(Limit::NoPrologue);
    }
    let reduction = matches!(w.graph.node(node).op, Op::Reduce(_));
    let parts = [Some(Part::Kernel), core.map(|_| Part::Epilogue), reduction.then_some(Part::Reduction)];
    let asked = Asked { w, d, g, node };
    parts.into_iter().flatten().flat_map(|p| rules(core, p, &w.target)).find(|r| asked.breaks(&r.limit))
}

/// The first rule that operations in front of a core's operand would break.
pub(super) fn in_front(w: &World<'_>, d: &Division, g: usize, p: &Prologue<'_>) -> Option<&'static Rule> {
    rules(Some(&w.graph.node(p.core).op), Part::Prologue, &w.target).find(|r| breaks_prologue(w, d, g, p, &r.limit))
}

/// An error when `graph` has a core operation that no kernel of `target` can do, naming it, where it was written and the rule.
pub fn check_supported(graph: &Graph, target: &RuleTarget<'_>) -> Result<()> {
    let live = World::new(graph, *target).runs;
    for (id, node) in graph.nodes().filter(|(id, n)| n.op.is_core() && live.contains(id)) {
        let dtype = graph.value(node.inputs[0]).dtype;
        let broken = |r: &&Rule| match (r.limit, &node.op) {
            (Limit::NotCoreTypes(types), _) => types.contains(&dtype),
            (Limit::NotAttention(case), Op::Sdpa(attrs)) => super::attention::is(graph, node, attrs, case),
            _ => false,
        };
        if let Some(rule) = rules(Some(&node.op), Part::Core, target).find(broken) {
            let operands: Vec<String> = node.inputs.iter().map(|&v| graph.describe(v)).collect();
            return Err(Error::unsupported(format!(
                "{} in `{}`: {} ({}); operands: {}",
                place(graph, id),
                graph.name(),
                rule.sentence,
                rule.id,
                operands.join(", ")
            )));
        }
    }
    Ok(())
}

/// An operation that asks to join a group.
struct Asked<'a> {
    w: &'a World<'a>,
    d: &'a Division,
    g: usize,
    node: NodeId,
}

impl Asked<'_> {
    fn breaks(&self, limit: &Limit) -> bool {
        let (w, node) = (self.w, self.w.graph.node(self.node));
        match limit {
            Limit::OneCore => node.op.is_core() && self.d.drafts[self.g].core.is_some(),
            Limit::NothingBehind => true,
            Limit::CopyAlone => matches!(node.op, Op::View(_)),
            Limit::ViewReadsMemory => self.looks_at_result(),
            Limit::ReductionIsExit => self.reads_reduction(),
            Limit::SameDims => self.other_dims() && !self.is_repeated_inside(),
            Limit::SameDimsAlways => self.other_dims(),
            Limit::NoWayBack => w.comes_back(self.d, self.g, &[self.node]),
            Limit::SideStaysInside => !node.inputs.iter().any(|&v| self.core_made(v)) && !self.stays_inside(),
            Limit::NotModes(modes) => matches!(node.op, Op::Pointwise(m, _) if modes.contains(&m)),
            Limit::NotTypes(types) => !matches!(node.op, Op::Cast(_)) && self.computes_in(types),
            Limit::Operands(_) | Limit::OperandChannelsLast | Limit::MergedBatch => {
                self.outside().any(|v| self.breaks_operand(limit, v))
            }
            Limit::BiasReluOnly(case) => self.core_is(*case) && !self.is_bias_or_relu(),
            Limit::ReduceModes(_)
            | Limit::FloatReduction
            | Limit::NoReductionOfGroups
            | Limit::ReduceForms(_)
            | Limit::NotReduceForm(_) => match &node.op {
                Op::Reduce(r) => self.breaks_reduction(limit, r),
                _ => false,
            },
            // Of the core itself, and of what comes in front of it.
            Limit::NotCoreTypes(_)
            | Limit::NotAttention(_)
            | Limit::NoPrologue
            | Limit::PrologueModes(_)
            | Limit::PrologueLength(_)
            | Limit::PrologueOnData
            | Limit::PrologueOnOne
            | Limit::PrologueNotGrouped
            | Limit::PrologueOperands(_)
            | Limit::PrologueAlignment(_)
            | Limit::PrologueStaysInside => false,
        }
    }

    fn breaks_operand(&self, limit: &Limit, v: ValueId) -> bool {
        let (main, dims) = (&self.d.drafts[self.g].dims, &self.w.graph.value(v).dims);
        match limit {
            Limit::Operands(forms) => !allowed(forms, self.conv().is_some(), main, dims),
            Limit::OperandChannelsLast => {
                let m = resolve(self.w.graph, v);
                m.dims == *main && m.dims.numel() > 1 && !is_channels_last(&m.dims, &m.strides)
            }
            Limit::MergedBatch => !batch_merges(self.w.graph, v, main),
            _ => false,
        }
    }

    fn breaks_reduction(&self, limit: &Limit, r: &ReduceAttrs) -> bool {
        let draft = &self.d.drafts[self.g];
        let kept = Dims::collect(draft.dims.iter().enumerate().map(|(a, &n)| if r.reduces(a) { 1 } else { n }));
        let conv = self.conv();
        match limit {
            Limit::ReduceModes(modes) => !modes.contains(&r.mode),
            Limit::FloatReduction => !self.w.graph.value(self.w.graph.node(self.node).output).dtype.is_float(),
            Limit::NoReductionOfGroups => conv.is_some_and(|a| a.groups > 1),
            Limit::ReduceForms(forms) => !allowed(forms, conv.is_some(), &draft.dims, &kept),
            Limit::NotReduceForm(form) => {
                // Where an axis has one element, a result of this form is also one of an allowed form.
                form_of(conv.is_some(), &draft.dims, &kept) == Some(*form)
            }
            _ => false,
        }
    }

    fn other_dims(&self) -> bool {
        self.w.extent(self.node) != self.d.drafts[self.g].dims
    }

    /// A smaller result that an epilogue repeats and nothing else reads.
    fn is_repeated_inside(&self) -> bool {
        let draft = &self.d.drafts[self.g];
        let pointwise = !matches!(self.w.graph.node(self.node).op, Op::Reduce(_));
        let repeated = layout::broadcasts_to(&self.w.extent(self.node), &draft.dims);
        draft.core.is_some() && pointwise && repeated && self.stays_inside()
    }

    /// Whether only pointwise operations behind the core read the result.
    fn stays_inside(&self) -> bool {
        let (w, draft) = (self.w, &self.d.drafts[self.g]);
        let behind = |n: &NodeId| {
            let reads = matches!(w.graph.node(*n).op, Op::Pointwise(..) | Op::Cast(_));
            reads && self.d.of[n.index()] == Some(self.g) && !draft.prologue.contains(n)
        };
        w.only_read_by(w.graph.node(self.node).output, behind)
    }

    fn inside(&self, v: ValueId) -> bool {
        self.w.graph.producer(v).is_some_and(|p| self.d.of[p.index()] == Some(self.g))
    }

    fn core_made(&self, v: ValueId) -> bool {
        self.inside(v) && self.w.graph.producer(v).is_some_and(|p| !self.d.drafts[self.g].prologue.contains(&p))
    }

    /// Tensors that the operation reads from memory.
    fn outside(&self) -> impl Iterator<Item = ValueId> {
        self.w.graph.node(self.node).inputs.iter().copied().filter(|&v| !self.inside(v) && !self.w.is_scalar(v))
    }

    /// Whether a view stands between the operation and one of the group, whichever reads the other.
    fn looks_at_result(&self) -> bool {
        let (w, node) = (self.w, self.w.graph.node(self.node));
        let base = |v: &ValueId| w.is_view(*v).then(|| resolve(w.graph, *v).base);
        let seen_by = |n: &NodeId| w.graph.node(*n).inputs.iter().filter_map(base).any(|b| b == node.output);
        node.inputs.iter().filter_map(base).any(|b| self.inside(b)) || self.d.drafts[self.g].nodes.iter().any(seen_by)
    }

    fn conv(&self) -> Option<&ConvAttrs> {
        conv_attrs(self.w.graph, self.d.drafts[self.g].core?)
    }

    fn reads_reduction(&self) -> bool {
        let g = self.w.graph;
        let reduces = |n: NodeId| matches!(g.node(n).op, Op::Reduce(_));
        let node = g.node(self.node);
        let reads = node.inputs.iter().any(|&v| self.inside(v) && g.producer(v).is_some_and(reduces));
        let is_read = |n: &NodeId| self.d.of[n.index()] == Some(self.g);
        reads || (reduces(self.node) && self.w.readers(node.output).iter().any(is_read))
    }

    fn computes_in(&self, types: &[DType]) -> bool {
        let node = self.w.graph.node(self.node);
        let tensors = node.inputs.iter().copied().filter(|&v| !self.w.is_scalar(v)).chain([node.output]);
        tensors.map(|v| self.w.graph.value(v).dtype.compute()).any(|t| types.contains(&t))
    }

    fn core_is(&self, case: ConvCase) -> bool {
        let Some(core) = self.d.drafts[self.g].core.map(|c| self.w.graph.node(c)) else { return false };
        let (y, w) = (self.w.graph.value(core.output), self.w.graph.value(core.inputs[1]));
        match case {
            ConvCase::NotChannelsLast => !is_channels_last(&y.dims, &y.strides),
            ConvCase::Depthwise => self.conv().is_some_and(|a| a.groups > 1) && w.dims[1] == 1,
        }
    }

    /// `conv + bias` or `relu(conv + bias)` and nothing else reads what is between them.
    fn is_bias_or_relu(&self) -> bool {
        let (w, draft) = (self.w, &self.d.drafts[self.g]);
        let node = w.graph.node(self.node);
        let Some(core) = draft.core.map(|c| w.graph.node(c).output) else { return false };
        match node.op {
            Op::Pointwise(PointwiseMode::Add, _) => {
                w.read_once(core)
                    && node.inputs.contains(&core)
                    && self.outside().count() == 1
                    && self.outside().all(|v| allowed(&[Form::SECOND], true, &draft.dims, &w.graph.value(v).dims))
            }
            Op::Pointwise(PointwiseMode::Relu, p) => {
                let biased = |n: NodeId| matches!(w.graph.node(n).op, Op::Pointwise(PointwiseMode::Add, _));
                p == Params::DEFAULT
                    && w.read_once(node.inputs[0])
                    && self.core_made(node.inputs[0])
                    && w.graph.producer(node.inputs[0]).is_some_and(biased)
            }
            _ => false,
        }
    }
}

fn breaks_prologue(w: &World<'_>, d: &Division, g: usize, p: &Prologue<'_>, limit: &Limit) -> bool {
    let conv = conv_attrs(w.graph, p.core);
    let main = w.graph.value(w.graph.node(p.core).inputs[p.operand]).dims;
    let inputs = || {
        let all = p.nodes.iter().flat_map(|&n| w.graph.node(n).inputs.iter().copied());
        all.filter(|&v| !w.is_scalar(v) && w.graph.producer(v).is_none_or(|n| !p.nodes.contains(&n)))
    };
    match limit {
        Limit::NoPrologue => true,
        Limit::PrologueStaysInside => !p.nodes.iter().all(|&n| w.read_once(w.graph.node(n).output)),
        Limit::PrologueModes(modes) => !p.nodes.iter().all(|&n| match &w.graph.node(n).op {
            Op::Cast(_) => true,
            Op::Pointwise(m, params) => modes.contains(m) && *params == Params::DEFAULT,
            _ => false,
        }),
        Limit::PrologueLength(most) => p.nodes.len() > *most,
        Limit::PrologueOnData => p.operand != 0,
        Limit::PrologueOnOne => !d.drafts[g].prologue.is_empty(),
        Limit::PrologueNotGrouped => conv.is_some_and(|a| a.groups > 1),
        Limit::PrologueOperands(forms) => {
            inputs().any(|v| !allowed(forms, conv.is_some(), &main, &w.graph.value(v).dims))
        }
        Limit::PrologueAlignment(bytes) => {
            inputs().any(|v| !alignment(w.graph, &w.target, v).is_multiple_of(u64::from(*bytes)))
        }
        _ => false,
    }
}

fn conv_attrs(graph: &Graph, core: NodeId) -> Option<&ConvAttrs> {
    match &graph.node(core).op {
        Op::Conv(a) => Some(a),
        _ => None,
    }
}

/// Whether `dims`, repeated to `main`, has one of `forms`.
fn allowed(forms: &[Form], conv: bool, main: &Dims, dims: &Dims) -> bool {
    let present = form_of(conv, main, main).unwrap_or(Form::FULL);
    form_of(conv, main, dims).is_some_and(|f| forms.iter().any(|a| a.0 & present.0 == f.0))
}

/// The axes of `main` that `dims` has; axes of one element count as absent. `None` where it has some but not all axes of a role.
fn form_of(conv: bool, main: &Dims, dims: &Dims) -> Option<Form> {
    let role = |axis: usize| match (conv, main.len() - axis) {
        (true, _) if axis < 2 => axis,
        (false, behind) if behind < 3 => 3 - behind,
        (true, _) => 2,
        (false, _) => 0,
    };
    let lead = main.len().checked_sub(dims.len())?;
    let mut seen: [Option<bool>; 3] = [None; 3];
    for axis in (0..main.len()).filter(|&a| main[a] > 1) {
        let here = axis >= lead && dims[axis - lead] > 1;
        let slot = &mut seen[role(axis)];
        if slot.is_some_and(|s| s != here) {
            return None;
        }
        *slot = Some(here);
    }
    Some(Form((0..3).filter(|&r| seen[r] == Some(true)).fold(0, |bits, r| bits | 1 << r)))
}

/// Whether one stride walks over all batch axes of an operand that is repeated to `main`.
fn batch_merges(graph: &Graph, v: ValueId, main: &Dims) -> bool {
    let m = resolve(graph, v);
    let lead = main.len().saturating_sub(m.dims.len());
    let stride = |a: usize| if a < lead || m.dims[a - lead] == 1 { 0 } else { m.strides[a - lead] };
    let batch: Vec<usize> = (0..main.len().saturating_sub(2)).filter(|&a| main[a] > 1).collect();
    batch.windows(2).all(|p| stride(p[0]) == stride(p[1]) * main[p[1]])
}

/// Bytes that divide the address of every row of a tensor.
fn alignment(graph: &Graph, target: &RuleTarget<'_>, v: ValueId) -> u64 {
    let m = resolve(graph, v);
    let size = graph.value(m.base).dtype.size() as u64;
    let base = match graph.value(m.base).kind {
        crate::ir::ValueKind::Input { index } => target.alignments.get(index).copied().unwrap_or(16),
        _ => 256,
    };
    let steps = m.dims.iter().zip(m.strides.iter()).filter(|&(&d, &s)| d > 1 && s > 1).map(|(_, &s)| s);
    steps.chain([m.offset]).map(|s| s.unsigned_abs() * size).fold(u64::from(base), gcd)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
