//! Helpers of the tests: graphs in few words, and what must hold of every division.

mod division;
pub(crate) mod random;
mod recut;
mod report;
mod types;

use super::{Partition, RuleTarget, partition};
use crate::dtype::DType;
use crate::ir::{
    ConvAttrs, Graph, Op, Params, PointwiseMode as P, ReduceAttrs, ReduceMode, ScalarType, SourceLoc, ValueId, ViewOp,
};
use crate::layout::Dims;

const CPU: RuleTarget<'static> = RuleTarget::CPU;
const A100: RuleTarget<'static> = RuleTarget::gpu(80, 91900);
const H200: RuleTarget<'static> = RuleTarget::gpu(90, 91900);
const H200_NEW: RuleTarget<'static> = RuleTarget::gpu(90, 92801);
const B200: RuleTarget<'static> = RuleTarget::gpu(100, 91900);

/// A graph under construction, in few words.
struct G(Graph);

impl G {
    fn new() -> Self {
        G(Graph::new("f"))
    }

    fn arg(&mut self, name: &str, dims: &[i64]) -> ValueId {
        self.arg_of(name, DType::BF16, dims)
    }

    fn arg_of(&mut self, name: &str, dtype: DType, dims: &[i64]) -> ValueId {
        let dims = Dims::new(dims).unwrap();
        self.0.add_input(name, dtype, dims, dims.contiguous_strides())
    }

    fn nhwc(&mut self, name: &str, dims: &[i64]) -> ValueId {
        let dims = Dims::new(dims).unwrap();
        self.0.add_input(name, DType::BF16, dims, dims.channels_last_strides())
    }

    fn op(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        self.0.add_node(op, inputs, SourceLoc::NONE).unwrap()
    }

    fn pw(&mut self, mode: P, inputs: &[ValueId]) -> ValueId {
        self.op(Op::Pointwise(mode, Params::DEFAULT), inputs)
    }

    fn conv(&mut self, x: ValueId, w: ValueId) -> ValueId {
        let mut attrs = ConvAttrs::new(2);
        attrs.pre_padding = Dims::splat(1, 2);
        attrs.post_padding = Dims::splat(1, 2);
        attrs.groups = self.0.value(x).dims[1] / self.0.value(w).dims[1];
        self.op(Op::Conv(attrs), &[x, w])
    }

    fn matmul(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.op(Op::Matmul, &[a, b])
    }

    fn reduce(&mut self, mode: ReduceMode, axes: &[u8], x: ValueId) -> ValueId {
        let axes = axes.iter().fold(0, |bits, a| bits | 1 << a);
        self.op(Op::Reduce(ReduceAttrs { mode, axes, keepdim: true }), &[x])
    }

    fn amax(&mut self, x: ValueId) -> ValueId {
        let axes = ((1u32 << self.0.value(x).dims.len()) - 1) as u8;
        self.op(Op::Reduce(ReduceAttrs { mode: ReduceMode::Amax, axes, keepdim: false }), &[x])
    }

    fn name(&mut self, v: ValueId, name: &str) -> ValueId {
        self.0.set_name(v, name);
        v
    }

    fn returns(mut self, outputs: &[ValueId]) -> Graph {
        self.0.set_outputs(outputs.iter().copied());
        self.0
    }
}

#[track_caller]
fn expect(graph: &Graph, target: RuleTarget<'_>, text: &str) {
    let p = partition(graph, &target);
    check_sound(graph, &p);
    let lines = |s: &str| s.lines().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty()).collect::<Vec<_>>();
    // A reason is compared by its rule.
    let found: Vec<String> = lines(&p.display(graph).to_string())
        .into_iter()
        .map(|l| l.splitn(3, ": ").take(if l.starts_with("cut") { 2 } else { 3 }).collect::<Vec<_>>().join(": "))
        .collect();
    assert_eq!(found, lines(text), "on {target:?}:\n{}", p.display(graph));
}

/// Every live operation is in one kernel (scalar arithmetic in as many as use it), and all that a kernel reads is written before it.
#[track_caller]
fn check_sound(graph: &Graph, p: &Partition) {
    let mut written: Vec<ValueId> = Vec::new();
    let mut homes = vec![0; graph.nodes().len()];
    for group in &p.groups {
        assert!(group.nodes.is_sorted() && !group.nodes.is_empty());
        for v in &group.inputs {
            let base = super::resolve(graph, *v).base;
            assert!(
                graph.producer(base).is_none() || written.contains(&base),
                "{} is read too early",
                super::value_name(graph, *v)
            );
        }
        let inside: Vec<ValueId> = group.nodes.iter().map(|&n| graph.node(n).output).collect();
        for n in &group.nodes {
            homes[n.index()] += 1;
            for v in &graph.node(*n).inputs {
                assert!(inside.contains(v) || group.inputs.contains(v));
            }
        }
        assert!(group.outputs.iter().all(|v| inside.contains(v)) && !group.outputs.is_empty());
        assert!(group.nodes.iter().filter(|n| graph.node(**n).op.is_core()).count() <= 1);
        assert!(group.outputs.iter().all(|v| !written.contains(v)), "a value is written twice");
        written.extend(&group.outputs);
    }
    for v in graph.outputs() {
        let base = super::resolve(graph, *v).base;
        assert!(graph.producer(base).is_none() || written.contains(&base));
    }
    for (n, node) in graph.nodes() {
        assert!(homes[n.index()] <= 1 || super::is_scalar(graph, node.output), "{n:?} is in two kernels");
    }
}
