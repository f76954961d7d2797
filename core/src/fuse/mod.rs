//! Which operations go into one kernel.

mod partition;
pub mod report;
pub mod rules;

pub use partition::{group_of, is_scalar, partition};

use crate::infer::view_layout;
use crate::ir::{Graph, NodeId, Op, ValueId};
use crate::layout::Dims;

/// What runs as one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupKind {
    /// A core operation with what is fused round it, or pointwise operations and reductions without a core.
    Kernel,
    /// One view that cannot be seen through strides: its operand is copied to the view's own strides.
    Copy,
}

/// The nodes of one kernel. Views are in no kernel: operands and results are resolved through them by [`MemRef`].
#[derive(Clone, Debug, PartialEq, Eq)]
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
