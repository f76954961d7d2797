//! Greedy grouping: each core operation takes the pointwise operations and reductions that follow it.
//!
//! Groups are numbered in the order in which they run. A node joins the group of that operand which is computed last, so everything else it
//! reads is there before; a value that leaves a group can therefore never come back into it through another one.

use super::rules::{self, Rule};
use super::{Cut, Group, GroupKind, Partition, resolve};
use crate::infer::view_layout;
use crate::ir::{Graph, Node, NodeId, Op, ValueId};
use crate::layout::{self, Dims};

/// Divides a graph into kernels.
pub fn partition(graph: &Graph) -> Partition {
    let mut p = Partitioner::new(graph);
    let live = live_nodes(graph);
    for (id, node) in graph.nodes().filter(|(id, _)| live[id.index()]) {
        p.place(id, node);
    }
    p.sink();
    p.finish()
}

/// Whether a value is arithmetic of host scalars and literals alone. Such nodes are repeated in every kernel that reads them.
pub fn is_scalar(graph: &Graph, value: ValueId) -> bool {
    graph.value(value).is_scalar()
        || graph.producer(value).is_some_and(|n| {
            let node = graph.node(n);
            matches!(node.op, Op::Pointwise(..) | Op::Cast(_)) && node.inputs.iter().all(|&v| is_scalar(graph, v))
        })
}

fn live_nodes(graph: &Graph) -> Vec<bool> {
    let mut live = vec![false; graph.nodes().len()];
    let mut stack: Vec<ValueId> = graph.outputs().to_vec();
    while let Some(v) = stack.pop() {
        if let Some(n) = graph.producer(v)
            && !std::mem::replace(&mut live[n.index()], true)
        {
            stack.extend(graph.node(n).inputs.iter());
        }
    }
    live
}

struct Draft {
    kind: GroupKind,
    nodes: Vec<NodeId>,
    core: Option<NodeId>,
    dims: Dims,
}

struct Partitioner<'a> {
    graph: &'a Graph,
    drafts: Vec<Draft>,
    /// The group that computes each value, for values that lie in memory or registers.
    home: Vec<Option<usize>>,
    cuts: Vec<Cut>,
}

impl<'a> Partitioner<'a> {
    fn new(graph: &'a Graph) -> Self {
        Partitioner { graph, drafts: Vec::new(), home: vec![None; graph.values().len()], cuts: Vec::new() }
    }

    fn place(&mut self, id: NodeId, node: &Node) {
        if is_scalar(self.graph, node.output) {
            return;
        }
        match node.op {
            Op::View(view) => {
                let operand = resolve(self.graph, node.inputs[0]);
                if matches!(view_layout(&view, &operand.dims, &operand.strides), Ok(Err(_))) {
                    self.open(GroupKind::Copy, id, node, Some(rules::COPY));
                }
            }
            Op::Conv(_) | Op::Matmul => self.open(GroupKind::Kernel, id, node, Some(rules::ONE_CORE)),
            Op::Pointwise(..) | Op::Cast(_) | Op::Reduce(_) => match self.joins(node) {
                Ok(group) => {
                    self.drafts[group].nodes.push(id);
                    self.home[node.output.index()] = Some(group);
                }
                Err(rule) => self.open(GroupKind::Kernel, id, node, rule),
            },
        }
    }

    /// Starts a group; `rule` says why values that are computed before go through memory.
    fn open(&mut self, kind: GroupKind, id: NodeId, node: &Node, rule: Option<Rule>) {
        for &v in &node.inputs {
            let base = resolve(self.graph, v).base;
            if let (Some(rule), Some(_)) = (rule, self.home[base.index()]) {
                self.cut(base, rule);
            }
        }
        let dims = match node.op {
            Op::Reduce(_) => self.graph.value(node.inputs[0]).dims,
            _ => self.graph.value(node.output).dims,
        };
        let core = node.op.is_core().then_some(id);
        self.home[node.output.index()] = Some(self.drafts.len());
        self.drafts.push(Draft { kind, nodes: vec![id], core, dims });
    }

    fn cut(&mut self, value: ValueId, rule: Rule) {
        if !self.cuts.iter().any(|c| c.value == value) {
            self.cuts.push(Cut { value, reason: rule.to_string() });
        }
    }

    /// The group that a node goes into, or the rule that keeps it out (none if it reads nothing that is computed).
    fn joins(&self, node: &Node) -> Result<usize, Option<Rule>> {
        let homes = node.inputs.iter().map(|&v| self.home[resolve(self.graph, v).base.index()]);
        let group = homes.flatten().max().ok_or(None)?;
        let draft = &self.drafts[group];
        let inside = |v: ValueId| self.home[resolve(self.graph, v).base.index()] == Some(group);
        for &v in node.inputs.iter().filter(|&&v| inside(v)) {
            if draft.kind == GroupKind::Copy || resolve(self.graph, v).base != v || self.is_view(v) {
                return Err(Some(if draft.kind == GroupKind::Copy { rules::COPY } else { rules::VIEW }));
            }
            if self.graph.producer(v).is_some_and(|n| matches!(self.graph.node(n).op, Op::Reduce(_))) {
                return Err(Some(rules::EXIT_REDUCTION));
            }
        }
        let shape = match node.op {
            Op::Reduce(_) => self.graph.value(node.inputs[0]).dims,
            _ => self.graph.value(node.output).dims,
        };
        if shape == draft.dims { Ok(group) } else { Err(Some(rules::SHAPE)) }
    }

    fn is_view(&self, v: ValueId) -> bool {
        self.graph.producer(v).is_some_and(|n| {
            let viewed = matches!(self.graph.node(n).op, Op::View(_));
            viewed && self.home[v.index()].is_none()
        })
    }

    /// A pointwise group all of whose results are read by one later kernel, and fit its shape, is computed there.
    fn sink(&mut self) {
        for from in (0..self.drafts.len()).rev() {
            if let Some(to) = self.sinks_into(from) {
                let mut nodes = std::mem::take(&mut self.drafts[from].nodes);
                for n in &nodes {
                    self.home[self.graph.node(*n).output.index()] = Some(to);
                }
                let mut cuts = std::mem::take(&mut self.cuts);
                cuts.retain(|c| self.home[c.value.index()] != Some(to) || self.leaves(c.value, to));
                self.cuts = cuts;
                nodes.append(&mut self.drafts[to].nodes);
                nodes.sort();
                self.drafts[to].nodes = nodes;
            }
        }
    }

    fn sinks_into(&self, from: usize) -> Option<usize> {
        let draft = &self.drafts[from];
        let pointwise = |n: &NodeId| matches!(self.graph.node(*n).op, Op::Pointwise(..) | Op::Cast(_));
        if draft.nodes.is_empty() || draft.kind == GroupKind::Copy || !draft.nodes.iter().all(pointwise) {
            return None;
        }
        let mut to = None;
        for n in &draft.nodes {
            let value = self.graph.node(*n).output;
            if self.graph.outputs().iter().any(|&o| resolve(self.graph, o).base == value) {
                return None;
            }
            for user in self.graph.users(value) {
                let node = self.graph.node(user);
                // Through a view, or as the operand of a core operation, it must lie in memory.
                let home = self.home[node.output.index()].filter(|_| !node.op.is_core())?;
                if matches!(node.op, Op::View(_)) || (home != from && to.is_some_and(|t| t != home)) {
                    return None;
                }
                if home != from {
                    to = Some(home);
                }
            }
        }
        let to = to?;
        let target = &self.drafts[to];
        let fits = layout::broadcasts_to(&draft.dims, &target.dims) && target.kind == GroupKind::Kernel;
        // Without a core the shape of the kernel is that of its operations.
        (fits && (target.core.is_some() || draft.dims == target.dims)).then_some(to)
    }

    fn leaves(&self, value: ValueId, group: usize) -> bool {
        let outside = |n: NodeId| self.home[self.graph.node(n).output.index()] != Some(group);
        self.graph.users(value).any(outside)
    }

    fn finish(self) -> Partition {
        let mut groups = Vec::new();
        for draft in self.drafts.into_iter().filter(|d| !d.nodes.is_empty()) {
            groups.push(group_of(self.graph, draft.kind, &draft.nodes));
        }
        Partition { groups, cuts: self.cuts }
    }
}

/// The group of these nodes (operands before users), with the scalar arithmetic they need, everything else being in memory.
pub fn group_of(graph: &Graph, kind: GroupKind, nodes: &[NodeId]) -> Group {
    let mut all: Vec<NodeId> = Vec::new();
    let mut stack: Vec<ValueId> = nodes.iter().flat_map(|n| graph.node(*n).inputs.iter().copied()).collect();
    while let Some(v) = stack.pop() {
        if let Some(n) = graph.producer(v).filter(|n| is_scalar(graph, v) && !all.contains(n)) {
            all.push(n);
            stack.extend(graph.node(n).inputs.iter());
        }
    }
    all.sort();
    all.extend(nodes.iter().copied().filter(|n| !all.contains(n)).collect::<Vec<_>>());
    all.sort();
    let computed = |v: ValueId| all.iter().any(|n| graph.node(*n).output == v);
    let mut inputs: Vec<ValueId> = Vec::new();
    for v in all.iter().flat_map(|n| graph.node(*n).inputs.iter()) {
        if !computed(*v) && !inputs.contains(v) {
            inputs.push(*v);
        }
    }
    let live = live_nodes(graph);
    let leaves = |v: ValueId| {
        let returned = graph.outputs().iter().any(|&o| resolve(graph, o).base == v);
        returned || (!is_scalar(graph, v) && graph.users(v).any(|u| !all.contains(&u) && live[u.index()]))
    };
    let outputs = all.iter().map(|n| graph.node(*n).output).filter(|&v| leaves(v)).collect();
    let core = all.iter().copied().find(|n| graph.node(*n).op.is_core());
    Group { kind, nodes: all, core, inputs, outputs }
}

impl Partition {
    /// The division as text: a line a kernel, then the cuts.
    pub fn display(&self, graph: &Graph) -> String {
        let mut out = String::new();
        for (i, group) in self.groups.iter().enumerate() {
            let what: Vec<String> = group.nodes.iter().map(|n| super::report::operation(graph, *n)).collect();
            let results: Vec<String> = group.outputs.iter().map(|&v| graph.label(v)).collect();
            let kind = if group.kind == GroupKind::Copy { "copy" } else { "kernel" };
            out += &format!("{kind} {}: {} -> {}\n", i + 1, what.join(" + "), results.join(", "));
        }
        for cut in &self.cuts {
            out += &format!("cut at {}: {}\n", graph.label(cut.value), cut.reason);
        }
        out
    }
}
