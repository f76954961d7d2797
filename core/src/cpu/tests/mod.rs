//! The fast path against the oracle.

mod attention;
mod cores;
mod pointwise;
mod pool;
mod random;
mod rows;

use super::oracle::{self, Array};
use crate::backend::{CompileRequest, Executable, Launch, Options};
use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::explain::Explain;
use crate::fuse::resolve;
use crate::ir::{Graph, Op, Params, PointwiseMode, SourceLoc, Value, ValueId, ValueKind};
use crate::layout::{self, Dims};
use crate::tensor::{HostElement, Storage, Tensor, with_type};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

pub(super) fn dims(d: &[i64]) -> Dims {
    Dims::new(d).unwrap()
}

pub(super) fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// How an argument lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Contiguous,
    ChannelsLast,
    /// Every other element of a larger, transposed tensor.
    Strided,
    /// All but the last axis repeated.
    Broadcast,
}

pub(super) const LAYOUTS: [Layout; 4] = [Layout::Contiguous, Layout::ChannelsLast, Layout::Strided, Layout::Broadcast];

impl Layout {
    pub(super) fn strides(self, dims: &Dims) -> Dims {
        match self {
            Layout::Contiguous => dims.contiguous_strides(),
            Layout::ChannelsLast => dims.channels_last_strides(),
            Layout::Strided => {
                let order: Vec<usize> = (0..dims.len()).collect();
                Dims::collect(dims.strides_in_order(&order).iter().map(|s| 2 * s))
            }
            Layout::Broadcast => Dims::collect((0..dims.len()).map(|a| if a + 1 == dims.len() { 1 } else { 0 })),
        }
    }
}

/// An argument of this value's type and layout, somewhere inside a larger memory.
pub(super) fn argument(value: &Value, rng: &mut ChaCha8Rng) -> Tensor {
    let integral = !value.dtype.is_float();
    filled(value, || if integral { rng.random_range(-5..6) as f64 } else { rng.random_range(-2.0..2.0) })
}

pub(super) fn filled(value: &Value, mut next: impl FnMut() -> f64) -> Tensor {
    let offset = 3;
    let span = layout::span(&value.dims, &value.strides).unwrap() as usize + offset;
    let data = with_type!(value.dtype, T => T::wrap((0..span).map(|_| T::from_f64(next())).collect()));
    let storage = Storage::host(data);
    Tensor::from_parts(Device::CPU, storage, value.dtype, value.dims, value.strides, offset as i64)
}

pub(super) fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 1e-5,
        DType::F16 => 1e-3,
        DType::BF16 => 6e-3,
        DType::F8E4M3 => 0.08,
        DType::F8E5M2 => 0.15,
        _ => 0.0,
    }
}

pub(super) fn run(graph: &Arc<Graph>, tensors: &[Tensor], scalars: &[f64]) -> (Vec<Tensor>, Explain) {
    let alignments = vec![16; tensors.len()];
    let request = CompileRequest::new(graph, &Options::DEFAULT, &alignments);
    let executable = crate::cpu::compile(&request).unwrap();
    let refs: Vec<&Tensor> = tensors.iter().collect();
    let launch = Launch { device: &Device::CPU, tensors: &refs, scalars };
    let results = executable.run(&launch).unwrap();
    if graph.outputs().iter().all(|&v| matches!(graph.value(resolve(graph, v).base).kind, ValueKind::Node(_))) {
        bound_agrees(&executable, &launch, &results);
    }
    (results.into_iter().collect(), executable.explain())
}

/// A bound call gives the same, also into the memory of earlier results, whatever is in it.
fn bound_agrees(executable: &Arc<dyn Executable>, launch: &Launch<'_>, wanted: &[Tensor]) {
    let results = executable.results(&Device::CPU).unwrap();
    let mut call = Arc::clone(executable).bind(launch, &results).unwrap();
    for _ in 0..4 {
        for result in &results {
            result.copy_from(&Tensor::full(result.dims(), 77.0, result.dtype(), &Device::CPU).unwrap()).unwrap();
        }
        call.launch().unwrap();
        for (got, want) in results.iter().zip(wanted) {
            assert_eq!((got.dtype(), got.dims(), got.strides()), (want.dtype(), want.dims(), want.strides()));
            let [got, want] = [got, want].map(|t| Array::from_tensor(t).unwrap().data);
            assert_eq!(distance(&got, &want), 0.0, "a bound launch differs from a call");
        }
    }
}

/// Runs a graph both ways on the same arguments. The tolerance is that of the coarsest type in the graph.
#[track_caller]
pub(super) fn check_with(graph: Graph, tensors: &[Tensor], scalars: &[f64], what: &str) {
    let graph = Arc::new(graph);
    let limit = graph.values().map(|(_, v)| tolerance(v.dtype)).fold(0.0, f64::max);
    let arrays: Vec<Array> = tensors.iter().map(|t| Array::from_tensor(t).unwrap()).collect();
    let wanted = oracle::run(&graph, &arrays, scalars).unwrap();
    let (results, explain) = run(&graph, tensors, scalars);
    for ((&id, got), want) in graph.outputs().iter().zip(&results).zip(&wanted) {
        let value = graph.value(id);
        assert_eq!((got.dtype(), got.dims()), (value.dtype, &value.dims), "{what}");
        if !matches!(graph.producer(id).map(|n| graph.node(n).op), Some(Op::View(_))) {
            assert_eq!(got.strides(), &value.strides, "{what}");
        }
        let got = Array::from_tensor(got).unwrap();
        let error = distance(&got.data, &want.data);
        let limit = if value.dtype.is_float() { limit } else { 0.0 };
        assert!(error <= limit, "{what}: {} is off by {error:e} (allowed {limit:e})\n{explain}", graph.describe(id));
    }
}

/// ‖out − ref‖/‖ref‖ over the finite elements; infinite if NaN or infinity differ in place or sign.
fn distance(got: &[f64], want: &[f64]) -> f64 {
    let (mut error, mut norm) = (0.0, 0.0);
    for (&g, &w) in got.iter().zip(want) {
        if g.is_finite() && w.is_finite() {
            error += (g - w) * (g - w);
            norm += w * w;
        } else if !(g == w || g.is_nan() && w.is_nan()) {
            return f64::INFINITY;
        }
    }
    if error == 0.0 { 0.0 } else { (error / norm).sqrt() }
}

#[track_caller]
pub(super) fn check(graph: Graph, seed: u64, what: &str) {
    let mut rng = rng(seed);
    let tensors: Vec<Tensor> = graph.inputs().map(|(_, v)| argument(v, &mut rng)).collect();
    let scalars: Vec<f64> = graph.scalars().map(|_| 0.75).collect();
    check_with(graph, &tensors, &scalars, what);
}

/// Builds graphs in few words.
pub(super) struct Build(pub(super) Graph);

impl Build {
    pub(super) fn new() -> Build {
        Build(Graph::new("f"))
    }
    pub(super) fn arg(&mut self, d: &[i64], dtype: DType, layout: Layout) -> ValueId {
        let d = dims(d);
        self.0.add_input("x", dtype, d, layout.strides(&d))
    }
    pub(super) fn op(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        self.0.add_node(op, inputs, SourceLoc::NONE).unwrap()
    }
    pub(super) fn pw(&mut self, mode: PointwiseMode, inputs: &[ValueId]) -> ValueId {
        self.op(Op::Pointwise(mode, Params::DEFAULT), inputs)
    }
    pub(super) fn returns(mut self, outputs: &[ValueId]) -> Graph {
        self.0.set_outputs(outputs.iter().copied());
        self.0
    }
}
