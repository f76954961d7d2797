//! What a kernel does, in the user's words and in numbers: for `explain`.

use super::{Group, resolve};
use crate::dtype::DType;
use crate::ir::{Graph, NodeId, Op, ValueId};
use crate::layout::Dims;

pub use super::text::operations;

fn bytes_of(dims: &Dims, dtype: DType) -> u64 {
    (dims.numel() * dtype.size()) as u64
}

/// Bytes of a value that is read: what its view really addresses.
fn read(graph: &Graph, v: ValueId) -> u64 {
    let r = resolve(graph, v);
    let touched = Dims::collect(r.dims.iter().zip(r.strides.iter()).map(|(&d, &s)| if s == 0 { 1 } else { d }));
    if graph.value(v).is_scalar() { 0 } else { bytes_of(&touched, graph.value(v).dtype) }
}

/// Bytes a group reads and writes.
pub fn bytes_moved(graph: &Graph, group: &Group) -> u64 {
    let written: u64 = group.outputs.iter().map(|&v| bytes_of(&graph.value(v).dims, graph.value(v).dtype)).sum();
    group.inputs.iter().map(|&v| read(graph, v)).sum::<u64>() + written
}

/// Bytes the same operations would move, each as a kernel of its own.
pub fn bytes_unfused(graph: &Graph, group: &Group) -> u64 {
    let one = |n: &NodeId| {
        let node = graph.node(*n);
        let out = graph.value(node.output);
        let scalar = super::is_scalar(graph, node.output);
        let moved = node.inputs.iter().map(|&v| read(graph, v)).sum::<u64>() + bytes_of(&out.dims, out.dtype);
        if scalar { 0 } else { moved }
    };
    group.nodes.iter().map(one).sum()
}

/// Floating-point operations of a group's core: two for each multiplication with its addition.
pub fn flops(graph: &Graph, group: &Group) -> u64 {
    let Some(node) = group.core.map(|n| graph.node(n)) else { return 0 };
    let dims = |i: usize| graph.value(node.inputs[i]).dims;
    let out = graph.value(node.output).dims.numel() as u64;
    let inner = match node.op {
        Op::Matmul => dims(0).last().copied().unwrap_or(0),
        Op::Conv(_) => dims(1)[1..].iter().product(),
        _ => 0,
    };
    2 * out * inner as u64
}
