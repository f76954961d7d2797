//! Pooling: for each window all channels at once.

use super::lower::Output;
use super::registers::{Class, Register};
use super::run::Stored;
use crate::fuse::{Group, MemRef, resolve};
use crate::ir::{Graph, Node, Op, PoolAttrs, PoolMode, PoolPart, ValueId};
use crate::layout::Dims;
use crate::tensor::{HostData, HostSliceMut, rearrange};
use rayon::prelude::*;
use std::ops::Range;

/// Below this many elements that are looked at threads cost more than they give.
const SEQUENTIAL: usize = 1 << 14;

/// A pooling of known shapes.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    attrs: PoolAttrs,
    x: MemRef,
    /// What the elements are held in.
    class: Class,
    /// Batch and spatial extents of the result.
    windows: Dims,
    outputs: Vec<(PoolPart, Output)>,
}

/// The kernel of a group whose core is a pooling.
pub(super) fn lower(graph: &Graph, group: &Group, core: &Node, attrs: PoolAttrs) -> Pool {
    let out = graph.value(core.output).dims;
    // Made with the channels innermost.
    let inner_first: Vec<usize> = [1].into_iter().chain((2..out.len()).rev()).chain([0]).collect();
    let output = |&v: &ValueId| {
        let value = graph.value(v);
        let part = match graph.producer(v).map(|n| graph.node(n).op) {
            Some(Op::Pool(p)) => p.part,
            _ => PoolPart::Y,
        };
        let made = value.dims.strides_in_order(&inner_first);
        (part, Output { value: v, dtype: value.dtype, dims: value.dims, made, wanted: value.strides })
    };
    let held = Class::of(graph.value(core.inputs[0]).dtype);
    Pool {
        attrs,
        x: resolve(graph, core.inputs[0]),
        // Long sums keep their digits.
        class: if attrs.mode == PoolMode::Max { held } else { Class::F64 },
        windows: Dims::collect([out[0]].into_iter().chain(out[2..].iter().copied())),
        outputs: group.outputs.iter().map(output).collect(),
    }
}

/// Some windows, and where their results go.
struct Job<'a> {
    windows: Range<usize>,
    outputs: Vec<HostSliceMut<'a>>,
}

/// The state of a window, a value each channel.
struct Frame {
    result: Register,
    element: Register,
    index: Register,
}

impl Pool {
    /// Runs the kernel; gives its results with the values they are. Memory for them is taken from `spare` where it fits.
    pub(super) fn run<'a>(
        &self,
        memory: &impl Fn(ValueId) -> Stored<'a>,
        spare: &mut Vec<HostData>,
    ) -> Vec<(ValueId, HostData)> {
        let x = memory(self.x.base);
        let mut outputs: Vec<HostData> = self.outputs.iter().map(|(_, o)| o.memory(spare)).collect();
        let (windows, channels) = (self.windows.numel(), self.x.dims[1] as usize);
        let looked_at = windows * channels * self.attrs.window.numel();
        let parts = if looked_at < SEQUENTIAL { 1 } else { rayon::current_num_threads() * 4 };
        let per = windows.div_ceil(parts).max(1);
        let mut rest: Vec<HostSliceMut<'_>> = outputs.iter_mut().map(HostData::as_mut).collect();
        let job = |first: usize| {
            let windows = first..(first + per).min(windows);
            let outputs = rest.iter_mut().map(|r| r.take(windows.len() * channels)).collect();
            Job { windows, outputs }
        };
        let jobs: Vec<Job<'_>> = (0..windows).step_by(per).map(job).collect();
        jobs.into_par_iter().with_max_len(1).for_each(|job| self.work(job, x));
        let finished = self.outputs.iter().zip(outputs).map(|((_, o), data)| {
            let data = if o.in_place() { data } else { rearrange(&data, 0, &o.dims, &o.made, &o.wanted, o.dtype) };
            (o.value, data)
        });
        finished.collect()
    }

    fn work(&self, mut job: Job<'_>, x: Stored<'_>) {
        let channels = self.x.dims[1] as usize;
        let register = || match self.class {
            Class::F64 => Register::F64(vec![0.0; channels]),
            Class::Int => Register::Int(vec![0; channels]),
            _ => Register::F32(vec![0.0; channels]),
        };
        let mut frame = Frame { result: register(), element: register(), index: Register::Int(vec![0; channels]) };
        for (at, window) in job.windows.enumerate() {
            self.window(&mut frame, window, x);
            for ((part, _), out) in self.outputs.iter().zip(&mut job.outputs) {
                let from = if *part == PoolPart::Index { &frame.index } else { &frame.result };
                from.store(channels, out, at * channels);
            }
        }
    }

    /// Combines what a window covers.
    fn window(&self, frame: &mut Frame, window: usize, (data, base): Stored<'_>) {
        let (channels, spatial) = (self.x.dims[1] as usize, self.attrs.spatial());
        let (mut rest, mut covered) = (window as i64, [0..1, 0..1, 0..1]);
        for axis in (0..spatial).rev() {
            let at = rest % self.windows[1 + axis];
            rest /= self.windows[1 + axis];
            covered[axis] = self.attrs.covered(axis, at, self.x.dims[2 + axis]);
        }
        let start = base + self.x.offset + rest * self.x.strides[0];
        let (stride, extent) = (
            |axis: usize| if axis < spatial { self.x.strides[2 + axis] } else { 0 },
            |axis: usize| if axis < spatial { self.x.dims[2 + axis] } else { 1 },
        );
        let mut count = 0usize;
        for i in covered[0].clone() {
            for j in covered[1].clone() {
                for k in covered[2].clone() {
                    let from = start + i * stride(0) + j * stride(1) + k * stride(2);
                    frame.element.load(0, channels, data, from, self.x.strides[1]);
                    frame.take(self.attrs.mode, count == 0, (i * extent(1) + j) * extent(2) + k);
                    count += 1;
                }
            }
        }
        let divisor = match self.attrs.mode {
            PoolMode::Avg => self.attrs.window.numel(),
            PoolMode::AvgExcludePadding => count,
            _ => return,
        };
        if let Register::F64(r) = &mut frame.result {
            r.iter_mut().for_each(|v| *v /= divisor as f64);
        }
    }
}

impl Frame {
    /// Takes in an element of each channel, which lies at `place`.
    fn take(&mut self, mode: PoolMode, first: bool, place: i64) {
        let Register::Int(index) = &mut self.index else { return };
        if first {
            std::mem::swap(&mut self.result, &mut self.element);
            return index.fill(place);
        }
        macro_rules! larger {
            ($result:expr, $element:expr, $nan:expr) => {
                for ((r, &e), at) in $result.iter_mut().zip($element).zip(index) {
                    if e > *r || ($nan(e) && !$nan(*r)) {
                        (*r, *at) = (e, place);
                    }
                }
            };
        }
        match (&mut self.result, &self.element) {
            (Register::F64(r), Register::F64(e)) if mode != PoolMode::Max => {
                r.iter_mut().zip(e).for_each(|(r, e)| *r += e);
            }
            (Register::F32(r), Register::F32(e)) => larger!(r, e, |v: f32| v.is_nan()),
            (Register::F64(r), Register::F64(e)) => larger!(r, e, |v: f64| v.is_nan()),
            (Register::Int(r), Register::Int(e)) => larger!(r, e, |_: i64| false),
            _ => {}
        }
    }
}
