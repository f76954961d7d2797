//! What the partitioner knows about a graph, and a division of it under construction.

use super::rules::RuleTarget;
use super::{Cut, Group, GroupKind, Partition, resolve};
use crate::ir::{Graph, NodeId, Op, ValueId};
use crate::layout::Dims;
use std::collections::BTreeMap;

/// Whether a value is a host scalar, a literal, or arithmetic of nothing else. Such nodes are repeated in every kernel that reads them.
pub fn is_scalar(graph: &Graph, value: ValueId) -> bool {
    let mut open = vec![value];
    let mut seen = vec![false; graph.values().len()];
    while let Some(v) = open.pop() {
        if graph.value(v).is_scalar() || std::mem::replace(&mut seen[v.index()], true) {
            continue;
        }
        match graph.producer(v).map(|n| graph.node(n)) {
            Some(n) if matches!(n.op, Op::Pointwise(..) | Op::Cast(_)) => open.extend(&n.inputs),
            _ => return false,
        }
    }
    true
}

/// The group of these nodes, with the scalar arithmetic they need, everything else being in memory.
pub fn group_of(graph: &Graph, kind: GroupKind, nodes: &[NodeId]) -> Group {
    let w = World::new(graph, RuleTarget::CPU);
    let mut d = Division::new(graph);
    for &n in nodes {
        match d.drafts.is_empty() {
            true => _ = d.start(&w, n),
            false => d.join(0, n),
        }
    }
    let Some(draft) = d.drafts.first_mut() else { return Group::default() };
    draft.core = nodes.iter().copied().find(|&n| graph.node(n).op.is_core());
    let mut group = d.group(&w, 0);
    group.kind = kind;
    let leaves = |v: &ValueId| w.returned[v.index()] || w.readers(*v).iter().any(|r| !nodes.contains(r));
    group.outputs = nodes.iter().map(|&n| graph.node(n).output).filter(leaves).collect();
    group.outputs.sort();
    group
}

/// A graph with what is asked of it over and over.
pub(super) struct World<'a> {
    pub(super) graph: &'a Graph,
    pub(super) target: RuleTarget<'a>,
    /// Nodes that a kernel runs, in order: live, no view that is only seen, scalar arithmetic only where its result is wanted in memory.
    pub(super) runs: Vec<NodeId>,
    /// For each node, whether it computes on scalars only: then it is part of each kernel that uses it.
    scalar: Vec<bool>,
    /// For each value, the live nodes that read it, once for each operand.
    readers: Vec<Vec<NodeId>>,
    /// For each value, whether it is returned (itself or seen through views).
    returned: Vec<bool>,
    /// For each node that runs, the nodes that read its result from memory or directly.
    after: Vec<Vec<NodeId>>,
}

impl<'a> World<'a> {
    pub(super) fn new(graph: &'a Graph, target: RuleTarget<'a>) -> Self {
        let nodes = graph.nodes().len();
        let mut w = World {
            graph,
            target,
            runs: Vec::new(),
            scalar: vec![false; nodes],
            readers: vec![Vec::new(); graph.values().len()],
            returned: vec![false; graph.values().len()],
            after: vec![Vec::new(); nodes],
        };
        w.find_scalars();
        w.find_runs();
        for &n in &w.runs {
            for p in w.needs(n).collect::<Vec<_>>() {
                w.after[p.index()].push(n);
            }
        }
        w
    }

    fn find_scalars(&mut self) {
        for (id, node) in self.graph.nodes() {
            let pointwise = matches!(node.op, Op::Pointwise(..) | Op::Cast(_));
            self.scalar[id.index()] = pointwise && node.inputs.iter().all(|&v| self.is_scalar(v));
        }
    }

    fn find_runs(&mut self) {
        let graph = self.graph;
        for &v in graph.outputs() {
            self.returned[v.index()] = true;
            self.returned[resolve(graph, v).base.index()] = true;
        }
        let mut live = vec![false; graph.nodes().len()];
        for (id, node) in graph.nodes().rev() {
            live[id.index()] = self.returned[node.output.index()] || !self.readers[node.output.index()].is_empty();
            if live[id.index()] {
                node.inputs.iter().for_each(|v| self.readers[v.index()].push(id));
            }
        }
        let is_view = |n: &NodeId| matches!(graph.node(*n).op, Op::View(_));
        for (id, node) in graph.nodes().filter(|(id, _)| live[id.index()]) {
            let seen_only = is_view(&id) && self.is_view(node.output);
            let wanted = self.returned[node.output.index()] || self.readers(node.output).iter().any(is_view);
            if !seen_only && (wanted || !self.scalar[id.index()]) {
                self.runs.push(id);
            }
        }
    }

    /// The nodes whose results `node` reads, scalar arithmetic apart.
    pub(super) fn needs(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let node = self.graph.node(node);
        let copy = matches!(node.op, Op::View(_));
        let tensors = node.inputs.iter().filter(move |&&v| copy || !self.is_scalar(v));
        tensors.filter_map(|&v| self.graph.producer(resolve(self.graph, v).base))
    }

    /// Whether a value is a host scalar, a literal, or computed of nothing else.
    pub(super) fn is_scalar(&self, v: ValueId) -> bool {
        self.graph.value(v).is_scalar() || self.graph.producer(v).is_some_and(|n| self.scalar[n.index()])
    }

    /// Whether a value is the memory of another one, seen through a view.
    pub(super) fn is_view(&self, v: ValueId) -> bool {
        resolve(self.graph, v).base != v
    }

    /// The live nodes that read a value, views included.
    pub(super) fn readers(&self, v: ValueId) -> &[NodeId] {
        &self.readers[v.index()]
    }

    /// Whether one operand of one node is all that a value is for.
    pub(super) fn read_once(&self, v: ValueId) -> bool {
        self.readers(v).len() == 1 && !self.returned[v.index()]
    }

    /// Whether a value is read, is not returned, and every reader is one of these.
    pub(super) fn only_read_by(&self, v: ValueId, readers: impl Fn(&NodeId) -> bool) -> bool {
        !self.returned[v.index()] && !self.readers(v).is_empty() && self.readers(v).iter().all(readers)
    }

    /// The dims over which a node iterates.
    pub(super) fn extent(&self, node: NodeId) -> Dims {
        let node = self.graph.node(node);
        match node.op {
            Op::Reduce(_) => self.graph.value(node.inputs[0]).dims,
            _ => self.graph.value(node.output).dims,
        }
    }

    /// Whether a result of group `g` with `new` in it would reach the group again through other kernels.
    pub(super) fn comes_back(&self, d: &Division, g: usize, new: &[NodeId]) -> bool {
        let inside = |n: NodeId| d.of[n.index()] == Some(g) || new.contains(&n);
        let members = d.drafts[g].nodes.iter().chain(new);
        let leaving = members.flat_map(|n| &self.after[n.index()]).copied().filter(|&n| !inside(n));
        let mut open: Vec<NodeId> = leaving.collect();
        let mut seen = vec![false; self.after.len()];
        while let Some(n) = open.pop() {
            if inside(n) {
                return true;
            }
            if !std::mem::replace(&mut seen[n.index()], true) {
                open.extend(&self.after[n.index()]);
                if let Some(h) = d.of[n.index()] {
                    open.extend(d.drafts[h].nodes.iter().filter(|m| !seen[m.index()]));
                }
            }
        }
        false
    }

    /// Values of group `g` that a node reads, directly or through views.
    pub(super) fn links(&self, d: &Division, g: usize, node: NodeId) -> Vec<ValueId> {
        let from_g = |n: &NodeId| d.of[n.index()] == Some(g);
        self.needs(node).filter(from_g).map(|n| self.graph.node(n).output).collect()
    }
}

/// A group under construction.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) core: Option<NodeId>,
    /// The shape of its operations.
    pub(super) dims: Dims,
    pub(super) nodes: Vec<NodeId>,
    /// Those of its nodes that are computed in front of the core.
    pub(super) prologue: Vec<NodeId>,
}

/// A division under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Division {
    pub(super) drafts: Vec<Draft>,
    /// For each node, its group.
    pub(super) of: Vec<Option<usize>>,
    /// Why a value goes through memory: the first reason found.
    pub(super) reasons: BTreeMap<ValueId, String>,
}

impl Division {
    pub(super) fn new(graph: &Graph) -> Self {
        Division { of: vec![None; graph.nodes().len()], ..Default::default() }
    }

    /// A new group of one node.
    pub(super) fn start(&mut self, w: &World<'_>, node: NodeId) -> usize {
        let g = self.drafts.len();
        let core = w.graph.node(node).op.is_core().then_some(node);
        self.drafts.push(Draft { core, dims: w.extent(node), nodes: vec![node], prologue: Vec::new() });
        self.of[node.index()] = Some(g);
        g
    }

    pub(super) fn join(&mut self, g: usize, node: NodeId) {
        self.drafts[g].nodes.push(node);
        self.of[node.index()] = Some(g);
    }

    /// Takes nodes out of a group; they are in none afterwards.
    pub(super) fn remove(&mut self, g: usize, nodes: &[NodeId]) {
        let draft = &mut self.drafts[g];
        draft.nodes.retain(|n| !nodes.contains(n));
        draft.prologue.retain(|n| !nodes.contains(n));
        nodes.iter().for_each(|n| self.of[n.index()] = None);
    }

    pub(super) fn reason(&mut self, value: ValueId, text: impl FnOnce() -> String) {
        self.reasons.entry(value).or_insert_with(text);
    }

    /// The groups in the order in which they run, with what they read and write.
    pub(super) fn finish(&self, w: &World<'_>) -> Partition {
        let order = self.order(w);
        let mut groups: Vec<Group> = order.iter().map(|&g| self.group(w, g)).collect();
        let mut read = vec![false; w.graph.values().len()];
        for v in groups.iter().flat_map(|g| &g.inputs) {
            read[resolve(w.graph, *v).base.index()] = true;
        }
        let mut cuts = Vec::new();
        for (group, &g) in groups.iter_mut().zip(&order) {
            let mut results: Vec<ValueId> = self.drafts[g].nodes.iter().map(|&n| w.graph.node(n).output).collect();
            results.retain(|v| read[v.index()] || w.returned[v.index()]);
            results.sort();
            let cut = results.iter().filter(|v| read[v.index()]);
            cuts.extend(cut.map(|&value| Cut { value, reason: self.why(value) }));
            group.outputs = results;
        }
        Partition { groups, cuts }
    }

    fn why(&self, value: ValueId) -> String {
        self.reasons
            .get(&value)
            .cloned()
            .unwrap_or_else(|| "the operations that read it are in other kernels".to_owned())
    }

    /// Operands before users; of the groups that could run next, the one whose first node was written first.
    fn order(&self, w: &World<'_>) -> Vec<usize> {
        let mut left: Vec<usize> = (0..self.drafts.len()).filter(|&g| !self.drafts[g].nodes.is_empty()).collect();
        left.sort_by_key(|&g| self.drafts[g].nodes.iter().min().copied());
        let mut done = vec![false; self.drafts.len()];
        let mut order = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let ready = |g: usize| {
                let mut needs = self.drafts[g].nodes.iter().flat_map(|&n| w.needs(n));
                needs.all(|p| self.of[p.index()].is_none_or(|h| h == g || done[h]))
            };
            // No group comes back into itself, so one is always ready.
            let next = left.iter().position(|&g| ready(g)).unwrap_or(0);
            let g = left.remove(next);
            done[g] = true;
            order.push(g);
        }
        order
    }

    fn group(&self, w: &World<'_>, g: usize) -> Group {
        let draft = &self.drafts[g];
        let mut nodes = draft.nodes.clone();
        let mut at = 0;
        while at < nodes.len() {
            let node = w.graph.node(nodes[at]);
            let producers = node.inputs.iter().filter(|&&v| w.is_scalar(v)).filter_map(|&v| w.graph.producer(v));
            let copy = matches!(node.op, Op::View(_));
            let missing: Vec<NodeId> = producers.filter(|p| !copy && !nodes.contains(p)).collect();
            nodes.extend(missing);
            at += 1;
        }
        nodes.sort();
        nodes.dedup();
        let made: Vec<ValueId> = nodes.iter().map(|&n| w.graph.node(n).output).collect();
        let mut inputs = Vec::new();
        for v in nodes.iter().flat_map(|&n| &w.graph.node(n).inputs) {
            if !made.contains(v) && !inputs.contains(v) {
                inputs.push(*v);
            }
        }
        let copy = nodes.iter().any(|&n| matches!(w.graph.node(n).op, Op::View(_)));
        let kind = if copy { GroupKind::Copy } else { GroupKind::Kernel };
        Group { kind, nodes, core: draft.core, inputs, outputs: Vec::new() }
    }
}
