//! Greedy grouping: every core takes what may follow it, then what may come in front of it; what is left is grouped without a core.

use super::Partition;
use super::check::{self, Prologue};
use super::division::{Division, World};
use super::rules::{Limit, Rule, RuleTarget, rule};
use crate::ir::{Graph, NodeId, Op, ValueId};

/// Divides `graph` into as few kernels as the rules for `target` let it find. The same graph and target always give the same division. Nodes that
/// no result depends on are in none; arithmetic on scalars alone is repeated in each kernel that uses it.
pub fn partition(graph: &Graph, target: &RuleTarget<'_>) -> Partition {
    let w = World::new(graph, *target);
    let mut d = Division::new(graph);
    let cores: Vec<NodeId> = w.runs.iter().copied().filter(|&n| graph.node(n).op.is_core()).collect();
    let mut groups: Vec<usize> = Vec::new();
    for core in cores {
        // A further result of an operation comes from the kernel of that operation.
        match groups.iter().copied().find(|&g| d.drafts[g].nodes.iter().all(|&n| same_kernel(graph, n, core))) {
            Some(g) => d.join(g, core),
            None => groups.push(d.start(&w, core)),
        }
    }
    for &g in &groups {
        grow(&w, &mut d, g, &w.runs);
    }
    for &g in &groups {
        if let Some(core) = d.drafts[g].core {
            prologue(&w, &mut d, g, core);
        }
    }
    group_rest(&w, &mut d, &w.runs);
    d.finish(&w)
}

/// Whether two nodes give different results of one operation on the same operands.
fn same_kernel(graph: &Graph, a: NodeId, b: NodeId) -> bool {
    let whole = |op: Op| op.whole().unwrap_or(op);
    let (a, b) = (graph.node(a), graph.node(b));
    a.op != b.op && whole(a.op) == whole(b.op) && a.inputs == b.inputs
}

/// Groups those of `nodes` that are in no group yet, without cores.
pub(super) fn group_rest(w: &World<'_>, d: &mut Division, nodes: &[NodeId]) {
    for &n in nodes {
        if d.of[n.index()].is_none() {
            let g = d.start(w, n);
            if !matches!(w.graph.node(n).op, Op::View(_)) {
                grow(w, d, g, nodes);
            }
        }
    }
}

/// Lets every one of `nodes` that touches group `g` join it unless a rule forbids it, until nothing changes.
fn grow(w: &World<'_>, d: &mut Division, g: usize, nodes: &[NodeId]) {
    let mut changed = true;
    while changed {
        changed = false;
        for &n in nodes.iter().filter(|n| !w.graph.node(**n).op.is_core()) {
            if d.of[n.index()].is_none() && touches(w, d, g, n) && check::joining(w, d, g, n).is_none() {
                d.join(g, n);
                changed = true;
            }
        }
    }
    explain_cuts(w, d, g);
}

/// Whether a node reads a value of the group, makes an operand for it, or (without a core) reads a tensor that the group reads as well.
fn touches(w: &World<'_>, d: &Division, g: usize, n: NodeId) -> bool {
    let node = w.graph.node(n);
    let inside = |m: &NodeId| d.of[m.index()] == Some(g);
    let reads = || !w.links(d, g, n).is_empty();
    let feeds = || !matches!(node.op, Op::Reduce(_)) && w.readers(node.output).iter().any(inside);
    let beside = || {
        let shared = |v: &ValueId| !w.is_scalar(*v) && w.readers(*v).iter().any(inside);
        d.drafts[g].core.is_none() && node.inputs.iter().any(shared)
    };
    reads() || feeds() || beside()
}

/// For every reader of the group's values that stayed outside, the rule that kept it there.
fn explain_cuts(w: &World<'_>, d: &mut Division, g: usize) {
    for &n in &w.runs {
        if d.of[n.index()] == Some(g) {
            continue;
        }
        let links = w.links(d, g, n);
        if let Some(r) = links.first().and_then(|_| check::joining(w, d, g, n)) {
            links.into_iter().for_each(|v| d.reason(v, || because(w, r, n)));
        }
        let output = w.graph.node(n).output;
        let feeds = |m: &NodeId| d.of[m.index()] == Some(g) && Some(*m) != d.drafts[g].core;
        if w.readers(output).iter().any(feeds)
            && let Some(r) = check::joining(w, d, g, n)
        {
            d.reason(output, || because(w, r, n));
        }
    }
}

fn because(w: &World<'_>, rule: &Rule, n: NodeId) -> String {
    format!("{} ({})", rule.text(), place(w.graph, n))
}

/// An operation as reasons name it.
pub(super) fn place(graph: &Graph, n: NodeId) -> String {
    let node = graph.node(n);
    match node.loc.line {
        0 => format!("`{}`", node.op.name()),
        _ => format!("`{}` at {}", node.op.name(), node.loc),
    }
}

/// Takes the pointwise operations in front of each operand into the core's kernel, all of them or none.
fn prologue(w: &World<'_>, d: &mut Division, g: usize, core: NodeId) {
    for operand in 0..w.graph.node(core).inputs.len() {
        let v = w.graph.node(core).inputs[operand];
        let nodes = chain(w, d, v);
        let Some(&last) = nodes.first() else { continue };
        let asked = Prologue { core, operand, nodes: &nodes };
        let broken = check::in_front(w, d, g, &asked)
            .or_else(|| w.comes_back(d, g, &nodes).then(|| rule(Limit::NoWayBack)).flatten());
        match broken {
            Some(r) => d.reason(v, || because(w, r, last)),
            None => {
                for &n in &nodes {
                    d.join(g, n);
                    d.drafts[g].prologue.push(n);
                }
            }
        }
    }
}

/// The pointwise operations that compute `v`, the last one first, back to values that lie in memory anyway.
fn chain(w: &World<'_>, d: &Division, v: ValueId) -> Vec<NodeId> {
    let mut nodes = Vec::new();
    let mut open = vec![v];
    while let Some(v) = open.pop() {
        let Some(n) = w.graph.producer(v) else { continue };
        let node = w.graph.node(n);
        let free = d.of[n.index()].is_none() && matches!(node.op, Op::Pointwise(..) | Op::Cast(_)) && !w.is_scalar(v);
        let same = nodes.first().is_none_or(|&f: &NodeId| w.extent(f) == w.extent(n));
        if free && same && (nodes.is_empty() || w.read_once(v)) && !nodes.contains(&n) {
            nodes.push(n);
            open.extend(node.inputs.iter().filter(|&&i| !w.is_view(i)));
        }
    }
    nodes
}
