//! A partition as a text, for tests and for people.

use super::{Group, GroupKind, Partition, resolve};
use crate::ir::{Graph, Node, NodeId, Op, PointwiseMode, ValueId, ValueKind, ViewOp};
use std::fmt;

impl Partition {
    /// Its text: a line for each kernel (`kernel 1: conv2d x, w + add b + relu -> y`) and one for each value that goes through memory.
    ///
    /// `+` passes a result on to the next operation, which then names its other operands only; `.` marks the place of that result where the order
    /// matters. A result that is used otherwise than by the next operation is written out under its name.
    pub fn display<'a>(&'a self, graph: &'a Graph) -> DisplayPartition<'a> {
        DisplayPartition { partition: self, graph }
    }
}

/// See [`Partition::display`].
#[derive(Clone, Copy, Debug)]
pub struct DisplayPartition<'a> {
    partition: &'a Partition,
    graph: &'a Graph,
}

impl fmt::Display for DisplayPartition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, group) in self.partition.groups.iter().enumerate() {
            let kind = match group.kind {
                GroupKind::Kernel => "kernel",
                GroupKind::Copy => "copy",
            };
            let outputs: Vec<String> = group.outputs.iter().map(|&v| value_name(self.graph, v)).collect();
            let steps = operations(self.graph, group);
            writeln!(f, "{kind} {}: {} -> {}", i + 1, steps.join(" + "), outputs.join(", "))?;
        }
        for cut in &self.partition.cuts {
            writeln!(f, "cut at {}: {}", value_name(self.graph, cut.value), cut.reason)?;
        }
        Ok(())
    }
}

/// The operations of a kernel in the user's words: `conv2d x, w`, `add b`, `relu`.
pub fn operations(graph: &Graph, group: &Group) -> Vec<String> {
    let mut running = None;
    let mut steps = Vec::new();
    for (at, &n) in group.nodes.iter().enumerate() {
        let output = graph.node(n).output;
        steps.push(match graph.node(n).op.part() {
            Some(part) if group.core.is_some_and(|c| c != n) => part.to_owned(),
            _ => step(graph, n, running),
        });
        let named = group.nodes[at + 1..].iter().skip(1).any(|&m| graph.node(m).inputs.contains(&output));
        let name = value_name(graph, output);
        // An unnamed result goes by its operation, which stands there already.
        if named
            && name != graph.node(n).op.name()
            && let Some(last) = steps.last_mut()
        {
            last.push_str(&format!(" = {name}"));
        }
        running = Some(output);
    }
    steps
}

/// One operation; `running` is the result that the step before passes on.
fn step(graph: &Graph, n: NodeId, running: Option<ValueId>) -> String {
    let node = graph.node(n);
    let commutes = matches!(
        node.op,
        Op::Pointwise(PointwiseMode::Add | PointwiseMode::Mul | PointwiseMode::Max | PointwiseMode::Min, _)
    );
    let at = node.inputs.iter().position(|&v| Some(v) == running);
    let once = node.inputs.iter().filter(|&&v| Some(v) == running).count() == 1;
    let operands: Vec<String> = match at {
        Some(at) if once && node.inputs.len() < 3 && !node.op.is_core() && (at == 0 || commutes) => {
            node.inputs.iter().filter(|&&v| Some(v) != running).map(|&v| value_name(graph, v)).collect()
        }
        _ => {
            let name = |&v: &ValueId| if Some(v) == running { ".".to_owned() } else { value_name(graph, v) };
            node.inputs.iter().map(name).collect()
        }
    };
    let mut text = node.op.name().to_owned();
    if let Some(part) = node.op.part() {
        text = format!("{part} of {text}");
    }
    if let Op::Cast(to) = node.op {
        text.push_str(&format!(" to {to}"));
    }
    if !operands.is_empty() {
        text.push_str(&format!(" {}", operands.join(", ")));
    }
    text
}

/// A value in the user's words: its name, a literal's number, or the operation that makes it (`relu`; `relu#2` if it is the second without a name).
/// A view goes by the name of what it looks at, unless it selects: `x.slice`.
pub fn value_name(graph: &Graph, v: ValueId) -> String {
    let value = graph.value(v);
    let producer = graph.producer(v).map(|n| graph.node(n));
    match (&value.name, value.kind, producer) {
        (Some(name), ..) => name.clone(),
        (None, ValueKind::Const(c), _) => format!("{c}"),
        (None, _, Some(Node { op: Op::View(view), inputs, .. })) if resolve(graph, v).base != v => match view {
            ViewOp::Slice { .. } => format!("{}.slice", value_name(graph, inputs[0])),
            _ => value_name(graph, inputs[0]),
        },
        (None, _, Some(node)) => {
            let name = node.op.part().unwrap_or(node.op.name());
            let alike = |n: &Node| n.op.part().unwrap_or(n.op.name()) == name && graph.value(n.output).name.is_none();
            let all: Vec<ValueId> = graph.nodes().filter(|(_, n)| alike(n)).map(|(_, n)| n.output).collect();
            match all.iter().position(|&o| o == v) {
                Some(at) if all.len() > 1 => format!("{name}#{}", at + 1),
                _ => name.to_owned(),
            }
        }
        (None, _, None) => "?".to_owned(),
    }
}
