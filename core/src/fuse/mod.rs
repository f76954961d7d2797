//! Which operations go into one kernel.
//!
//! [`rules`] is the table of what may be fused, as data; [`partition`] divides a graph by it; [`recut`] takes a kernel apart that the backend
//! refused. `docs/fusion.md` is printed from the table.

mod attention;
mod check;
mod division;
mod docs;
mod forms;
mod partition;
mod recut;
pub mod report;
pub mod rules;
#[cfg(test)]
pub(crate) mod tests;
mod text;

pub use check::check_supported;
pub use division::{group_of, is_scalar};
pub use docs::rules_markdown;
pub use forms::forms;
pub use partition::partition;
pub use recut::{Refusal, recut};
pub use rules::{Rule, RuleDevice, RuleTarget};
pub use text::{DisplayPartition, value_name};

use crate::infer::view_layout;
use crate::ir::{Graph, NodeId, Op, ValueId};
use crate::layout::Dims;

/// What runs as one launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GroupKind {
    /// A core operation with what is fused round it, or pointwise operations and reductions without a core.
    #[default]
    Kernel,
    /// One view that cannot be seen through strides: its operand is copied to the view's own strides.
    Copy,
}

/// The nodes of one kernel. Views are in no kernel: operands and results are resolved through them by [`MemRef`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// What runs it.
    pub kind: GroupKind,
    /// Its nodes, operands before users.
    pub nodes: Vec<NodeId>,
    /// The core operation among them.
    pub core: Option<NodeId>,
    /// Values read from memory (arguments, views of them, results of earlier groups) and scalars, in order of first use.
    pub inputs: Vec<ValueId>,
    /// Values of its nodes that are written to memory, in order of creation.
    pub outputs: Vec<ValueId>,
}

impl Group {
    /// Its nodes whose results the core reads, directly or through one another: what is computed in front of it.
    pub fn prologue(&self, graph: &Graph) -> Vec<NodeId> {
        let Some(core) = self.core else { return Vec::new() };
        let mut open = vec![core];
        let mut found: Vec<NodeId> = Vec::new();
        while let Some(n) = open.pop() {
            let producers = graph.node(n).inputs.iter().filter_map(|&v| graph.producer(v));
            let inside: Vec<NodeId> = producers.filter(|p| self.nodes.contains(p) && !found.contains(p)).collect();
            open.extend(&inside);
            found.extend(inside);
        }
        found.sort();
        found.dedup();
        found
    }
}

/// Why a value goes through memory between two kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The value that is written and read back.
    pub value: ValueId,
    /// The rule or the backend's own words.
    pub reason: String,
}

/// A graph divided into kernels, in the order in which they run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// The kernels.
    pub groups: Vec<Group>,
    /// Where and why it was cut.
    pub cuts: Vec<Cut>,
}

/// A value as it lies in memory: a base (an argument or a result that is written) seen through zero or more views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemRef {
    /// The value whose memory it is.
    pub base: ValueId,
    /// Dims of the view.
    pub dims: Dims,
    /// Strides of the view, in elements; 0 where it repeats.
    pub strides: Dims,
    /// Elements between the first of the base and the first of the view.
    pub offset: i64,
}

/// Follows the views from `value` to the memory they look at. A view that needs a copy is its own base.
pub fn resolve(graph: &Graph, value: ValueId) -> MemRef {
    let v = graph.value(value);
    let own = MemRef { base: value, dims: v.dims, strides: v.strides, offset: 0 };
    let Some(node) = graph.producer(value).map(|n| graph.node(n)) else { return own };
    let Op::View(view) = node.op else { return own };
    let operand = resolve(graph, node.inputs[0]);
    match view_layout(&view, &operand.dims, &operand.strides) {
        Ok(Ok(l)) => MemRef { base: operand.base, dims: l.dims, strides: l.strides, offset: operand.offset + l.offset },
        _ => own,
    }
}
