//! Takes a kernel apart that the backend refused.

use super::division::{Division, Draft, World};
use super::partition::{group_rest, place};
use super::rules::RuleTarget;
use super::{Group, GroupKind, Partition};
use crate::ir::{Graph, NodeId, Op};

/// Why a backend does not run a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// In the backend's words, as the user will read it.
    pub reason: String,
    /// The operation that the backend complains about, where it says so.
    pub node: Option<NodeId>,
}

impl Refusal {
    /// A refusal that names no operation.
    pub fn new(reason: impl Into<String>) -> Self {
        Refusal { reason: reason.into(), node: None }
    }

    /// A refusal of one operation.
    pub fn of(node: NodeId, reason: impl Into<String>) -> Self {
        Refusal { reason: reason.into(), node: Some(node) }
    }
}

/// The next best division after the backend refused `group`, or `None` when nothing can be taken off it.
///
/// Taken off are, in this order: the operation that the refusal names with all that follows it (or the prologue or the reduction that it is part
/// of); the prologue; the reductions; the end of the epilogue (half of it while it is long, then one operation at a time) down to the
/// bare core. Kernels without a core lose their reductions and are then halved. Each step leaves the refused kernel smaller, so asking again ends.
pub fn recut(graph: &Graph, partition: &Partition, group: usize, refusal: &Refusal) -> Option<Partition> {
    let w = World::new(graph, RuleTarget::CPU);
    let refused = partition.groups.get(group).filter(|g| g.kind == GroupKind::Kernel)?;
    let mut d = rebuild(&w, partition);
    let mut off = taken_off(&w, &d.drafts[group], refused, refusal);
    follow(&w, &d.drafts[group], &mut off);
    if off.is_empty() || off.len() >= d.drafts[group].nodes.len() {
        return None;
    }
    let was = d.drafts[group].nodes.clone();
    d.remove(group, &off);
    // Fewest kernels for what was taken off, under the rules that hold everywhere.
    group_rest(&w, &mut d, &off);
    let named = refusal.node.map(|n| format!(" ({})", place(graph, n))).unwrap_or_default();
    for value in was.iter().map(|&n| graph.node(n).output) {
        // A reason that stood before is one for another reader of the value.
        if !partition.cuts.iter().any(|c| c.value == value) {
            d.reasons.insert(value, format!("{}{named}", refusal.reason));
        }
    }
    Some(d.finish(&w))
}

/// The division that `partition` came from, its groups under the same numbers.
fn rebuild(w: &World<'_>, partition: &Partition) -> Division {
    let mut d = Division::new(w.graph);
    for (g, group) in partition.groups.iter().enumerate() {
        let own = |n: &&NodeId| {
            let output = w.graph.node(**n).output;
            w.runs.contains(n) && (!w.is_scalar(output) || group.outputs.contains(&output))
        };
        let nodes: Vec<NodeId> = group.nodes.iter().filter(own).copied().collect();
        nodes.iter().for_each(|n| d.of[n.index()] = Some(g));
        let prologue = group.prologue(w.graph).into_iter().filter(|n| nodes.contains(n)).collect();
        let first = group.core.or(nodes.first().copied());
        let dims = first.map(|n| w.extent(n)).unwrap_or(crate::layout::Dims::EMPTY);
        d.drafts.push(Draft { core: group.core, dims, nodes, prologue });
    }
    d.reasons = partition.cuts.iter().map(|c| (c.value, c.reason.clone())).collect();
    d
}

fn taken_off(w: &World<'_>, draft: &Draft, group: &Group, refusal: &Refusal) -> Vec<NodeId> {
    let reduces = |n: &NodeId| matches!(w.graph.node(*n).op, Op::Reduce(_));
    let mut nodes = draft.nodes.clone();
    nodes.sort();
    let is_prologue = |n: &NodeId| draft.prologue.contains(n);
    let reductions: Vec<NodeId> = nodes.iter().copied().filter(reduces).collect();
    let rest: Vec<NodeId> =
        nodes.iter().copied().filter(|n| Some(*n) != draft.core && !is_prologue(n) && !reduces(n)).collect();
    if let Some(named) = refusal.node.filter(|n| nodes.contains(n) && Some(*n) != draft.core && !is_prologue(n)) {
        let off = behind(w, group, named);
        if off.len() < nodes.len() {
            return off;
        }
    }
    if !draft.prologue.is_empty() {
        let mut off = draft.prologue.clone();
        off.sort();
        return off;
    }
    if !reductions.is_empty() && reductions.len() < nodes.len() {
        return reductions;
    }
    match draft.core {
        // The end of the epilogue, one by one when it is short.
        Some(_) if rest.len() <= 4 => rest.last().map(|&n| vec![n]).unwrap_or_default(),
        Some(_) => rest[rest.len() / 2..].to_vec(),
        None => nodes[nodes.len().div_ceil(2)..].to_vec(),
    }
}

/// What does not depend on the core, and only operations that come off read, comes off with them.
fn follow(w: &World<'_>, draft: &Draft, off: &mut Vec<NodeId>) {
    let Some(core) = draft.core.filter(|_| !off.is_empty()) else { return };
    let mut nodes = draft.nodes.clone();
    nodes.sort();
    let mut behind = vec![core];
    for &n in &nodes {
        if w.needs(n).any(|p| behind.contains(&p)) {
            behind.push(n);
        }
    }
    for n in nodes.into_iter().rev().filter(|n| !behind.contains(n) && !draft.prologue.contains(n)) {
        if !off.contains(&n) && w.only_read_by(w.graph.node(n).output, |r| off.contains(r)) {
            off.push(n);
        }
    }
    off.sort();
}

/// `first` and everything in the group that depends on it.
fn behind(w: &World<'_>, group: &Group, first: NodeId) -> Vec<NodeId> {
    let mut off = vec![first];
    for &n in group.nodes.iter().filter(|&&n| n > first) {
        let reads = |v: &crate::ir::ValueId| w.graph.producer(*v).is_some_and(|p| off.contains(&p));
        if w.runs.contains(&n) && w.graph.node(n).inputs.iter().any(reads) {
            off.push(n);
        }
    }
    off
}
