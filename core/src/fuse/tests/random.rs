//! Random graphs: every division is sound, and running it kernel by kernel gives what the whole gives.

use super::*;
use crate::cpu::oracle::{self, Array};
use crate::fuse::{Refusal, check_supported, recut, resolve};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The same graph for the same seed, with any element type.
pub(crate) struct Generator {
    rng: ChaCha8Rng,
    g: G,
    dtype: DType,
    pool: Vec<ValueId>,
}

impl Generator {
    pub(crate) fn graph(seed: u64, dtype: DType) -> Graph {
        let rng = ChaCha8Rng::seed_from_u64(seed);
        let mut this = Generator { rng, g: G::new(), dtype, pool: Vec::new() };
        for dims in [&[2, 4, 5, 3][..], &[2, 4, 5, 3], &[4, 1, 1], &[5, 3], &[1]] {
            let v = this.arg(dims);
            this.pool.push(v);
        }
        let ty = if dtype == DType::F64 { ScalarType::F64 } else { ScalarType::F32 };
        let alpha = this.g.0.add_scalar("alpha", ty);
        let two = this.g.0.add_const(2.0);
        // A literal alone is F32; with the scalar it has the type of everything else.
        let twice = this.g.pw(P::Mul, &[alpha, two]);
        this.pool.extend([alpha, twice]);
        let nodes = this.rng.random_range(3..24);
        for _ in 0..nodes {
            this.step();
        }
        this.finish()
    }

    fn arg(&mut self, dims: &[i64]) -> ValueId {
        let name = format!("a{}", self.g.0.values().len());
        let dims = Dims::new(dims).unwrap();
        let strides = if self.rng.random() { dims.channels_last_strides() } else { dims.contiguous_strides() };
        self.g.0.add_input(&name, self.dtype, dims, strides)
    }

    fn pick(&mut self) -> ValueId {
        // Rather what was computed lately.
        let n = self.pool.len();
        let from = if self.rng.random() { n.saturating_sub(4) } else { 0 };
        self.pool[self.rng.random_range(from..n)]
    }

    fn step(&mut self) {
        let (a, b) = (self.pick(), self.pick());
        let dims = self.g.0.value(a).dims;
        let tensor = !self.g.0.value(a).is_scalar();
        let made = match self.rng.random_range(0..12) {
            0 | 1 if dims.len() == 4 && dims[1] % 2 == 0 => {
                let groups = self.rng.random_range(1..3);
                let w = self.arg(&[4, dims[1] / groups, 1, 1]);
                let attrs = ConvAttrs { groups, ..ConvAttrs::new(2) };
                self.try_op(Op::Conv(attrs), &[a, w])
            }
            2 | 3 if dims.len() >= 2 => {
                let w = self.arg(&[dims[dims.len() - 1], 3]);
                self.try_op(Op::Matmul, &[a, w])
            }
            4 if tensor => {
                let axes = self.rng.random::<u8>() & ((1u32 << dims.len()) - 1) as u8;
                let mode = ReduceMode::ALL[self.rng.random_range(0..ReduceMode::ALL.len())];
                let keepdim = self.rng.random();
                self.try_op(Op::Reduce(ReduceAttrs { mode, axes, keepdim }), &[a])
            }
            5 if tensor => self.view(a, &dims),
            6 => {
                let cond = self.try_op(Op::Pointwise(P::CmpGt, Params::DEFAULT), &[a, b]);
                cond.and_then(|c| self.try_op(Op::Pointwise(P::Select, Params::DEFAULT), &[c, b, a]))
            }
            7 | 8 => {
                let mode = [P::Relu, P::Tanh, P::Sigmoid, P::Abs, P::Neg][self.rng.random_range(0..5)];
                self.try_op(Op::Pointwise(mode, Params::DEFAULT), &[a])
            }
            _ => {
                let mode = [P::Add, P::Mul, P::Sub, P::Max][self.rng.random_range(0..4)];
                self.try_op(Op::Pointwise(mode, Params::DEFAULT), &[a, b])
            }
        };
        self.pool.extend(made);
    }

    fn try_op(&mut self, op: Op, inputs: &[ValueId]) -> Option<ValueId> {
        self.g.0.add_node(op, inputs, SourceLoc::NONE).ok()
    }

    fn view(&mut self, a: ValueId, dims: &Dims) -> Option<ValueId> {
        let axis = if dims.is_empty() { 0 } else { self.rng.random_range(0..dims.len()) };
        let view = match self.rng.random_range(0..5) {
            0 => ViewOp::Permute(Dims::collect((0..dims.len() as i64).rev())),
            1 => ViewOp::Reshape(Dims::splat(dims.numel() as i64, 1)),
            2 if !dims.is_empty() && dims[axis] > 1 => ViewOp::Slice { axis, start: 1, end: dims[axis], step: 1 },
            3 => ViewOp::Squeeze(axis),
            _ => ViewOp::Unsqueeze(axis),
        };
        self.try_op(Op::View(view), &[a])
    }

    fn finish(mut self) -> Graph {
        let graph = &self.g.0;
        let computed = |v: &ValueId| graph.producer(*v).is_some() && !crate::fuse::is_scalar(graph, *v);
        let results: Vec<ValueId> = self.pool.iter().copied().filter(computed).collect();
        let mut outputs: Vec<ValueId> = results.iter().rev().take(1).copied().collect();
        for v in results {
            if self.rng.random_range(0..6) == 0 && !outputs.contains(&v) {
                outputs.push(v);
            }
        }
        self.g.returns(&outputs)
    }
}

fn arguments(graph: &Graph, rng: &mut impl Rng) -> Vec<Array> {
    let mut array =
        |dims: &Dims| Array { dims: *dims, data: (0..dims.numel()).map(|_| rng.random_range(-1.0..1.0)).collect() };
    graph.inputs().map(|(_, v)| array(&v.dims)).collect()
}

/// Runs a division with the oracle, every kernel a graph of its own.
fn run_divided(graph: &Graph, p: &Partition, tensors: &[Array], scalars: &[f64]) -> Vec<Array> {
    let mut memory: Vec<Option<Array>> = vec![None; graph.values().len()];
    for ((v, _), t) in graph.inputs().zip(tensors) {
        memory[v.index()] = Some(t.clone());
    }
    for group in &p.groups {
        let mut part = Part::new(graph, &memory);
        for &n in &group.nodes {
            part.node(n);
        }
        for (v, array) in group.outputs.iter().zip(part.run(&group.outputs, scalars)) {
            memory[v.index()] = Some(array);
        }
    }
    graph.outputs().iter().map(|&v| Part::new(graph, &memory).run(&[v], scalars).remove(0)).collect()
}

/// A part of a graph as a graph: what is in memory becomes its arguments, views are repeated.
struct Part<'a> {
    graph: &'a Graph,
    memory: &'a [Option<Array>],
    sub: Graph,
    map: Vec<Option<ValueId>>,
    tensors: Vec<Array>,
}

impl<'a> Part<'a> {
    fn new(graph: &'a Graph, memory: &'a [Option<Array>]) -> Self {
        let mut sub = Graph::new("part");
        let mut map = vec![None; graph.values().len()];
        for (v, _) in graph.scalars() {
            map[v.index()] = Some(sub.add_scalar("s", ScalarType::F64));
        }
        Part { graph, memory, sub, map, tensors: Vec::new() }
    }

    fn value(&mut self, v: ValueId) -> ValueId {
        if let Some(done) = self.map[v.index()] {
            return done;
        }
        let value = self.graph.value(v);
        let made = match (value.kind, &self.memory[v.index()]) {
            (crate::ir::ValueKind::Const(c), _) => self.sub.add_const(c),
            (_, Some(array)) => {
                self.tensors.push(array.clone());
                self.sub.add_input("t", value.dtype, value.dims, value.strides)
            }
            _ => {
                assert!(
                    resolve(self.graph, v).base != v,
                    "{} is not in memory",
                    crate::fuse::value_name(self.graph, v)
                );
                let node = self.graph.node(self.graph.producer(v).unwrap());
                let operand = self.value(node.inputs[0]);
                self.sub.add_node(node.op, &[operand], node.loc).unwrap()
            }
        };
        self.map[v.index()] = Some(made);
        made
    }

    fn node(&mut self, n: crate::ir::NodeId) {
        let node = self.graph.node(n);
        let inputs: Vec<ValueId> = node.inputs.iter().map(|&v| self.value(v)).collect();
        self.map[node.output.index()] = Some(self.sub.add_node(node.op, &inputs, node.loc).unwrap());
    }

    fn run(mut self, outputs: &[ValueId], scalars: &[f64]) -> Vec<Array> {
        let outputs: Vec<ValueId> = outputs.iter().map(|&v| self.value(v)).collect();
        self.sub.set_outputs(outputs);
        oracle::run(&self.sub, &self.tensors, scalars).unwrap()
    }
}

#[track_caller]
fn check_same(graph: &Graph, p: &Partition, tensors: &[Array], whole: &[Array], seed: u64) {
    let bits = |arrays: &[Array]| -> Vec<Vec<u64>> {
        let canonical = |v: &f64| if v.is_nan() { f64::NAN.to_bits() } else { v.to_bits() };
        arrays.iter().map(|a| a.data.iter().map(canonical).collect()).collect()
    };
    let divided = run_divided(graph, p, tensors, &[0.75]);
    assert!(bits(whole) == bits(&divided), "seed {seed}:\n{}", p.display(graph));
}

#[test]
fn divided_graphs_give_what_the_whole_gives() {
    let mut kernels = [0, 0];
    for seed in 0..400 {
        // In F64 nothing is rounded on its way through memory, so the results are the same to the bit. The rules for GPUs see F32.
        let (graph, exact) = (Generator::graph(seed, DType::F32), Generator::graph(seed, DType::F64));
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let tensors = arguments(&exact, &mut rng);
        let whole = oracle::run(&exact, &tensors, &[0.75]).unwrap();
        for (target, kernels) in [CPU, H200].into_iter().zip(&mut kernels) {
            check_supported(&graph, &target).unwrap();
            let mut p = partition(&graph, &target);
            assert_eq!(p, partition(&graph, &target), "not the same twice");
            check_sound(&graph, &p);
            check_same(&exact, &p, &tensors, &whole, seed);
            *kernels += p.groups.len();
            let mut steps = 0;
            while let Some(next) = refuse_something(&graph, &p, &mut rng) {
                check_sound(&graph, &next);
                assert!(next.groups.len() > p.groups.len(), "seed {seed}: nothing came off");
                p = next;
                steps += 1;
            }
            assert!(steps <= graph.nodes().len());
            assert!(
                p.groups.iter().all(|g| g.nodes.iter().filter(|n| !scalar(&graph, **n)).count() <= 1),
                "seed {seed}:\n{}",
                p.display(&graph)
            );
            check_same(&exact, &p, &tensors, &whole, seed);
        }
    }
    // Without fusion there would be twice as many.
    assert!(kernels[0] < kernels[1], "{kernels:?}");
}

fn scalar(graph: &Graph, n: crate::ir::NodeId) -> bool {
    crate::fuse::is_scalar(graph, graph.node(n).output)
}

fn refuse_something(graph: &Graph, p: &Partition, rng: &mut ChaCha8Rng) -> Option<Partition> {
    let n = p.groups.len();
    let from = rng.random_range(0..n.max(1));
    (0..n).map(|i| (from + i) % n).find_map(|g| {
        let nodes = &p.groups[g].nodes;
        let node = rng.random::<bool>().then(|| nodes[rng.random_range(0..nodes.len())]);
        recut(graph, p, g, &Refusal { reason: "no".to_owned(), node })
    })
}
