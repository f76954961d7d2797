//! Other orders of a kernel's operations that give the same result, which cuDNN may run on other engines.

use super::{Group, is_scalar};
use crate::ir::{Graph, NodeId, Op, PointwiseMode};

/// Two operands that may change places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Swap {
    first: (NodeId, usize),
    second: (NodeId, usize),
}

/// The graph with other orders of additions in one kernel: with `(core + bias) + residual` comes `(core + residual) + bias`. Values and nodes keep
/// their handles. The order as written is not among them; form `n` of a plan is the `n - 1`st, and form 0 the order as written.
pub fn forms(graph: &Graph, group: &Group) -> Vec<Graph> {
    group.nodes.iter().filter_map(|&n| swap(graph, group, n)).map(|s| graph.with_swapped(s.first, s.second)).collect()
}

/// `n` adds to the sum of another addition of the group, whose result nobody else sees.
fn swap(graph: &Graph, group: &Group, n: NodeId) -> Option<Swap> {
    let add = |n: NodeId| matches!(graph.node(n).op, Op::Pointwise(PointwiseMode::Add, _));
    let outer = graph.node(n);
    if !add(n) {
        return None;
    }
    (0..2).find_map(|at| {
        let sum = outer.inputs[at];
        let inner = graph.producer(sum).filter(|&p| add(p) && group.nodes.contains(&p))?;
        let alone = graph.users(sum).count() == 1 && !group.outputs.contains(&sum) && outer.inputs[1 - at] != sum;
        // What is added must be read from memory: then it does not matter which addition comes first.
        let fits = |v| !is_scalar(graph, v) && group.inputs.contains(&v);
        let other = (0..2).find(|&i| fits(graph.node(inner).inputs[i]))?;
        let whole = graph.node(inner).inputs[1 - other];
        let same =
            graph.value(whole).dims == graph.value(sum).dims && graph.value(sum).dims == graph.value(outer.output).dims;
        (alone && same && fits(outer.inputs[1 - at])).then_some(Swap { first: (inner, other), second: (n, 1 - at) })
    })
}
