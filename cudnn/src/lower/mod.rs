//! Lowering: a group with a core operation becomes a cuDNN operation graph.
//!
//! The frame is what cuDNN wants to see: rank 4 or 5 for convolutions (1-D gets an H of 1), rank 3 for matmuls (batch axes collapsed).
//! `tensor` makes descriptors in it, and one file a family makes operations.

mod attention;
mod conv;
mod frame;
mod matmul;
mod norm;
mod pointwise;
mod pool;
mod reduce;
mod tensor;

use crate::descriptor::{Descriptor, HandleAttribute, fingerprint};
use crate::target::Target;
use cudnn_sys::{Api, AttributeName, DescriptorType};
use frame::Frame;
use fused_graph_core::fuse::Group;
use fused_graph_core::ir::{Graph, NodeId, Op, ValueId};
use fused_graph_core::layout::Dims;
use fused_graph_core::{DType, Error, ErrorKind};
use std::collections::HashMap;

/// Why a group cannot become one kernel.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// An operand lies in memory in a way that no engine reads; a dense copy of it would do.
    Layout {
        /// The operand.
        value: ValueId,
        /// What is wrong with it.
        reason: String,
    },
    /// No engine takes the group: the words of rules or engines, the shortest of them first.
    Unsupported(Vec<String>),
    /// Something else went wrong.
    Failed(Error),
}

impl From<Error> for Refusal {
    fn from(e: Error) -> Self {
        if e.kind() == ErrorKind::Unsupported {
            Refusal::Unsupported(vec![e.message().to_owned()])
        } else {
            Refusal::Failed(e)
        }
    }
}

/// What stands behind a unique id at launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    /// Memory of a value, so many elements behind its start.
    Memory {
        /// An argument, an intermediate or a result.
        base: ValueId,
        /// Bytes.
        offset: i64,
    },
    /// The dense copy that was made of an operand, so many bytes behind its start.
    Copy {
        /// The operand.
        value: ValueId,
        /// Bytes.
        offset: i64,
    },
    /// A number.
    Number(f64),
    /// A host scalar, a literal, or arithmetic of them.
    Scalar(ValueId),
}

impl Source {
    /// Whether it is passed by value.
    pub(crate) fn is_by_value(&self) -> bool {
        matches!(self, Source::Scalar(_) | Source::Number(_))
    }
}

/// A unique id and what is behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binding {
    /// cuDNN's unique id.
    pub uid: i64,
    /// What is behind it.
    pub source: Source,
    /// The element type that cuDNN was told; of scalars F32 or I32.
    pub dtype: DType,
}

/// An operation graph with its bindings.
pub(crate) struct Lowered {
    pub(crate) graph: Descriptor,
    /// What the graph's operations point to.
    _kept: Vec<Descriptor>,
    pub(crate) bindings: Vec<Binding>,
    /// What was written to make it: see [`fingerprint`].
    pub(crate) fingerprint: u64,
    /// The same but for the sizes.
    pub(crate) topology: u64,
}

/// What lowering needs to know of memory.
pub(crate) struct Memory<'a> {
    /// The alignment of each value's base address, in bytes.
    pub(crate) alignment: &'a dyn Fn(ValueId) -> u32,
    /// Operands of which a dense copy is made first, with the dims and strides of the copy.
    pub(crate) copies: &'a HashMap<ValueId, (Dims, Dims)>,
    /// Plans for other sizes are to share its kernels.
    pub(crate) dynamic: bool,
}

/// Lowers a group that has a core operation.
pub(crate) fn lower(
    api: &'static Api,
    target: &Target,
    graph: &Graph,
    group: &Group,
    memory: &Memory<'_>,
) -> Result<Lowered, Refusal> {
    let frame = Frame::new(graph, group, memory.copies)?;
    let mut cx = Lowering {
        api,
        graph,
        group,
        memory,
        frame,
        tensors: HashMap::new(),
        operations: Vec::new(),
        kept: Vec::new(),
        bindings: Vec::new(),
        next_uid: graph.values().len() as i64 + 1,
    };
    let (written, fingerprint) = fingerprint::of(|| group.nodes.iter().try_for_each(|&id| cx.node(id)));
    written?;
    let ops: Vec<&Descriptor> = cx.operations.iter().collect();
    let graph = Descriptor::build(api, DescriptorType::OPERATIONGRAPH, |d| {
        d.set_descriptors(AttributeName::OPERATIONGRAPH_OPS, &ops)?;
        if memory.dynamic {
            d.set(AttributeName::OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED, &[true])?;
        }
        match target.handle() {
            Some(handle) => d.set(AttributeName::OPERATIONGRAPH_HANDLE, &[HandleAttribute(handle)]),
            None => Ok(()),
        }
    })?;
    let (fingerprint, topology) = (fingerprint.whole, fingerprint.topology);
    Ok(Lowered { graph, _kept: cx.kept, bindings: cx.bindings, fingerprint, topology })
}

pub(crate) struct Lowering<'a> {
    api: &'static Api,
    graph: &'a Graph,
    group: &'a Group,
    memory: &'a Memory<'a>,
    frame: Frame,
    tensors: HashMap<ValueId, Descriptor>,
    operations: Vec<Descriptor>,
    /// What lives as long as the operation graph.
    kept: Vec<Descriptor>,
    bindings: Vec<Binding>,
    next_uid: i64,
}

impl Lowering<'_> {
    fn node(&mut self, id: NodeId) -> Result<(), Refusal> {
        let node = self.graph.node(id);
        if fused_graph_core::fuse::is_scalar(self.graph, node.output) {
            return Ok(()); // worked out on the host at launch
        }
        match node.op {
            Op::Conv(attrs) => self.conv(&attrs, node),
            Op::Matmul => self.matmul(node),
            Op::Norm(attrs) => self.norm(&attrs, node),
            Op::Pool(attrs) => self.pool(&attrs, node),
            Op::Sdpa(attrs) => self.attention(&attrs, node),
            Op::Pointwise(mode, params) => self.pointwise(mode, &params, node),
            Op::Cast(_) => self.cast(node),
            Op::Reduce(attrs) => self.reduce(&attrs, node),
            Op::View(_) => Ok(()),
            _ => Err(Refusal::Unsupported(vec![format!("`{}` has no lowering", node.op.name())])),
        }
    }
}
