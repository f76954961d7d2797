//! What holds of every graph. [`verify`] collects all that does not:
//!
//! 1. Operands and results exist, and an operand is there before the operation that reads it.
//! 2. Node `i` gives exactly one value, and that value says so.
//! 3. Arguments and host scalars are numbered from 0 in their order.
//! 4. Host scalars and literals have no dims, and the element type of their kind.
//! 5. A value has as many strides as dims, at most eight, none negative, and reaches no further than memory can address.
//! 6. Element type and dims of a result are those that inference gives.
//! 7. No two elements of what an operation writes share a place (views may repeat).
//! 8. Operands that a launch passes by value (ε, scale, softcap) are host scalars, literals, or arithmetic of them.
//! 9. Results of the function are tensors, each there once.

use crate::infer::infer;
use crate::ir::{Graph, Node, Op, ScalarType, Value, ValueId, ValueKind};
use crate::layout::{Dims, span};
use crate::{DType, Error, Result};
use std::collections::HashSet;

/// Everything that is wrong with a graph, in words; nothing if it is sound.
pub fn verify(graph: &Graph) -> Vec<String> {
    let mut wrong = Vec::new();
    let (mut inputs, mut scalars) = (0, 0);
    for (id, value) in graph.values() {
        let mut say = |text: String| wrong.push(format!("value %{}: {text}", id.index()));
        match value.kind {
            ValueKind::Input { index } => number("argument", index, &mut inputs, &mut say),
            ValueKind::Scalar { index, ty } => {
                number("scalar", index, &mut scalars, &mut say);
                let dtype = if ty == ScalarType::F64 { DType::F64 } else { DType::F32 };
                without_dims(value, dtype, &mut say);
            }
            ValueKind::Const(_) => without_dims(value, DType::F32, &mut say),
            ValueKind::Node(node) => {
                if graph.get_node(node).is_none_or(|n| n.output != id) {
                    say(format!("is no result of node {}", node.index()));
                }
            }
        }
        layout(value, &mut say);
    }
    for (id, node) in graph.nodes() {
        let mut say = |text: String| wrong.push(format!("node {} (`{}`): {text}", id.index(), node.op.name()));
        match graph.get_value(node.output) {
            None => say("has no result".to_owned()),
            Some(value) if value.kind != ValueKind::Node(id) => {
                say("its result says it comes from elsewhere".to_owned())
            }
            Some(value) => operation(graph, node, value, &mut say),
        }
    }
    results(graph, &mut wrong);
    wrong
}

/// An error that lists what is wrong.
pub fn check(graph: &Graph) -> Result<()> {
    let wrong = verify(graph);
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Error::argument(format!("the graph of `{}` is not sound:\n  {}", graph.name(), wrong.join("\n  "))))
}

fn number(what: &str, index: usize, next: &mut usize, say: &mut impl FnMut(String)) {
    if index != *next {
        say(format!("is {what} {index}, but {next} comes next"));
    }
    *next += 1;
}

fn without_dims(value: &Value, dtype: DType, say: &mut impl FnMut(String)) {
    if !value.dims.is_empty() {
        say(format!("is a scalar with dims {}", value.dims));
    }
    if value.dtype != dtype {
        say(format!("is a scalar of {}, not {dtype}", value.dtype));
    }
}

fn layout(value: &Value, say: &mut impl FnMut(String)) {
    let Value { dims, strides, .. } = value;
    if dims.len() != strides.len() {
        return say(format!("has dims {dims} but strides {strides}"));
    }
    if dims.iter().chain(strides.iter()).any(|&n| n < 0) {
        return say(format!("has a negative extent or stride: dims {dims}, strides {strides}"));
    }
    let bytes = |elements: i64| elements.checked_mul(value.dtype.size() as i64);
    if span(dims, strides).and_then(bytes).is_none() || dims.checked_numel().is_none() {
        say(format!("reaches beyond what memory can address: dims {dims}, strides {strides}"));
    }
}

fn operation(graph: &Graph, node: &Node, result: &Value, say: &mut impl FnMut(String)) {
    let mut operands = Vec::new();
    for &v in &node.inputs {
        match graph.get_value(v) {
            None => say(format!("reads %{}, which does not exist", v.index())),
            Some(_) if v >= node.output => say(format!("reads %{} before it is there", v.index())),
            Some(value) => operands.push(value),
        }
    }
    // What is wrong with an operand itself is said there; inference may rely on its layout.
    let mut unsound = false;
    operands.iter().for_each(|v| layout(v, &mut |_| unsound = true));
    if unsound || operands.len() < node.inputs.len() {
        return;
    }
    for v in node.op.by_value().filter_map(|at| node.inputs.get(at)).filter(|v| !by_value(graph, **v)) {
        say(format!("reads %{}, which is no scalar, by value", v.index()));
    }
    match infer(&node.op, &operands) {
        Err(e) => say(e.message().to_owned()),
        Ok(r) if (r.dtype, r.dims) != (result.dtype, result.dims) => {
            say(format!("gives {} {}, but its result is {} {}", r.dtype, r.dims, result.dtype, result.dims));
        }
        Ok(_) if !matches!(node.op, Op::View(_)) && overlaps(&result.dims, &result.strides) => {
            say(format!("elements of its result share a place: dims {}, strides {}", result.dims, result.strides));
        }
        Ok(_) => {}
    }
}

/// Whether a value is a host scalar, a literal or arithmetic of them, in a graph that may be unsound.
fn by_value(graph: &Graph, v: ValueId) -> bool {
    let mut open = vec![v];
    let mut seen = HashSet::new();
    while let Some(v) = open.pop() {
        let Some(value) = graph.get_value(v) else { return false };
        if value.is_scalar() || !seen.insert(v) {
            continue;
        }
        let ValueKind::Node(n) = value.kind else { return false };
        match graph.get_node(n) {
            Some(n) if matches!(n.op, Op::Pointwise(..) | Op::Cast(_)) => open.extend(&n.inputs),
            _ => return false,
        }
    }
    true
}

/// Whether two elements share a place, for layouts that are a nesting of axes.
fn overlaps(dims: &Dims, strides: &Dims) -> bool {
    if dims.len() != strides.len() || dims.contains(&0) {
        return false;
    }
    let mut axes: Vec<(i64, i64)> = strides.iter().copied().zip(dims.iter().copied()).filter(|(_, d)| *d > 1).collect();
    axes.sort();
    let mut reach = 0i64;
    axes.into_iter().any(|(stride, extent)| {
        let inside = stride <= reach;
        reach = reach.saturating_add(stride.saturating_mul(extent - 1));
        inside
    })
}

fn results(graph: &Graph, wrong: &mut Vec<String>) {
    let outputs = graph.outputs();
    for (at, &v) in outputs.iter().enumerate() {
        let mut say = |text: String| wrong.push(format!("result {}: {text}", at + 1));
        match graph.get_value(v) {
            None => say(format!("%{} does not exist", v.index())),
            Some(_) if outputs[..at].contains(&v) => say(format!("%{} is there twice", v.index())),
            Some(_) if scalar(graph, v) => say(format!("%{} is a scalar", v.index())),
            Some(_) => {}
        }
    }
}

/// Like [`is_scalar`](crate::fuse::is_scalar), of a graph that may be unsound.
fn scalar(graph: &Graph, v: ValueId) -> bool {
    graph.get_value(v).is_some_and(Value::is_scalar)
}

#[cfg(test)]
mod tests {
    use super::verify;
    use crate::DType;
    use crate::fuse::tests::random::Generator;
    use crate::ir::{Graph, NodeId, ValueId, ValueKind};
    use crate::layout::Dims;

    const TEXT: &str = "graph {\n  x = input f32 [2, 3]\n  a = scalar f32\n  y = mul x, a f32 [2, 3]\n  z = relu y f32 [2, 3]\n  return y, z\n}";

    fn broken(how: impl FnOnce(&mut Graph)) -> String {
        let mut graph: Graph = TEXT.parse().unwrap();
        assert_eq!(verify(&graph), [""; 0]);
        how(&mut graph);
        verify(&graph).join("; ")
    }

    #[test]
    fn every_invariant_can_be_broken() {
        let v = ValueId::from_index;
        let dims = |d: &[i64]| Dims::new(d).unwrap();
        let found = [
            broken(|g| g.parts().1[1].inputs[0] = v(9)),
            broken(|g| g.parts().1[0].inputs[0] = v(3)),
            broken(|g| g.parts().1[1].output = v(2)),
            broken(|g| g.parts().0[3].kind = ValueKind::Node(NodeId::from_index(7))),
            broken(|g| g.parts().0[0].kind = ValueKind::Input { index: 1 }),
            broken(|g| g.parts().0[1].dims = dims(&[1])),
            broken(|g| g.parts().0[1].dtype = DType::F64),
            broken(|g| g.parts().0[0].strides = dims(&[1])),
            broken(|g| g.parts().0[0].strides = dims(&[-3, 1])),
            broken(|g| g.parts().0[0].strides = dims(&[i64::MAX, 1])),
            broken(|g| g.parts().0[3].dims = dims(&[3, 2])),
            broken(|g| g.parts().0[3].strides = dims(&[1, 1])),
            broken(|g| g.set_outputs([v(3), v(3)])),
            broken(|g| g.set_outputs([v(1)])),
            broken(|g| g.set_outputs([v(8)])),
        ];
        insta::assert_snapshot!(found.join("\n"));
    }

    #[test]
    fn random_graphs_are_sound() {
        for seed in 0..300 {
            let graph = Generator::graph(seed, DType::BF16);
            assert_eq!(verify(&graph), [""; 0], "{graph}");
        }
    }

    #[test]
    fn all_at_once() {
        let text = broken(|g| {
            g.parts().1[1].inputs[0] = ValueId::from_index(9);
            g.set_outputs([ValueId::from_index(1)]);
        });
        assert_eq!(text.split("; ").count(), 2, "{text}");
    }
}
