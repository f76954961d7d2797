//! What a kernel does, in the user's words and in numbers: for `explain`.

use super::{Cut, Group, resolve, value_name};
use crate::dtype::DType;
use crate::explain::KernelReport;
use crate::ir::{Graph, Node, NodeId, Op, Value, ValueId};
use crate::layout::{self, Dims};

pub use super::text::operations;

/// What follows of a kernel's report from the graph: its operations, where they were written, what they give, bytes and FLOPs. The backend adds engine,
/// workspace and what else it knows.
pub fn kernel(graph: &Graph, group: &Group) -> KernelReport {
    let node = |n: &NodeId| graph.node(*n);
    let place = |n: &Node| if n.loc.line == 0 { String::new() } else { n.loc.to_string() };
    let result = |v: &ValueId| {
        let at = group.nodes.iter().position(|n| node(n).output == *v)?;
        Some((at, result_name(graph, *v)))
    };
    KernelReport {
        operations: operations(graph, group),
        places: group.nodes.iter().map(|n| place(node(n))).collect(),
        results: group.outputs.iter().filter_map(result).collect(),
        bytes: bytes_moved(graph, group),
        unfused_bytes: bytes_unfused(graph, group),
        flops: flops(graph, group),
        ..KernelReport::default()
    }
}

/// What a kernel writes: a value that another kernel reads by its name, and what is returned also by its place.
fn result_name(graph: &Graph, v: ValueId) -> String {
    let Some(at) = graph.outputs().iter().position(|&o| resolve(graph, o).base == v) else {
        return value_name(graph, v);
    };
    let place = if graph.outputs().len() == 1 { "result".to_owned() } else { format!("result {}", at + 1) };
    match &graph.value(v).name {
        Some(name) => format!("{name} ({place})"),
        None => place,
    }
}

/// The arguments of a function for [`Explain::arguments`](crate::explain::Explain::arguments): tensors, then host scalars.
pub fn arguments(graph: &Graph) -> Vec<String> {
    let tensor = |(id, v): (ValueId, &Value)| {
        format!("{}: {} {}, {}", value_name(graph, id), v.dtype, v.dims, layout_name(&v.dims, &v.strides))
    };
    let scalar = |(id, v): (ValueId, &Value)| format!("{}: {}, by value", value_name(graph, id), v.dtype);
    graph.inputs().map(tensor).chain(graph.scalars().map(scalar)).collect()
}

fn layout_name(dims: &Dims, strides: &Dims) -> String {
    let strides = layout::normalise_strides(dims, strides);
    if strides == layout::normalise_strides(dims, &dims.contiguous_strides()) {
        "row-major".to_owned()
    } else if strides == layout::normalise_strides(dims, &dims.channels_last_strides()) {
        "channels-last".to_owned()
    } else {
        format!("strides {strides}")
    }
}

/// The cuts of a division for [`Explain::cuts`](crate::explain::Explain::cuts).
pub fn cuts(graph: &Graph, cuts: &[Cut]) -> Vec<(String, String)> {
    cuts.iter().map(|c| (value_name(graph, c.value), c.reason.clone())).collect()
}

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
        // A further result of the core comes with it in any case.
        let beside = node.op.part().is_some() && group.core != Some(*n);
        let inputs = node.inputs.iter().filter(|_| !beside);
        let moved = inputs.map(|&v| read(graph, v)).sum::<u64>() + bytes_of(&out.dims, out.dtype);
        if scalar { 0 } else { moved }
    };
    group.nodes.iter().map(one).sum()
}

/// Floating-point operations of a group's core: two for each multiplication with its addition. Of an attention only what its band lets through counts.
pub fn flops(graph: &Graph, group: &Group) -> u64 {
    let Some(node) = group.core.map(|n| graph.node(n)) else { return 0 };
    let dims = |i: usize| graph.value(node.inputs[i]).dims;
    let out = graph.value(node.output).dims.numel() as u64;
    let inner = match node.op {
        Op::Matmul => dims(0).last().copied().unwrap_or(0),
        Op::Conv(_) => dims(1)[1..].iter().product(),
        Op::Sdpa(attrs) => {
            let (q, keys) = (dims(0), dims(1)[2]);
            let seen: i64 = (0..q[2]).map(|i| attrs.visible(i, q[2], keys)).map(|r| r.end - r.start).sum();
            return 2 * (q[0] * q[1] * seen * (q[3] + dims(2)[3])) as u64;
        }
        _ => 0,
    };
    2 * out * inner as u64
}
