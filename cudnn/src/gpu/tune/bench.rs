//! Memory of tuning's own, right values, and times.

use super::super::kernels::Kernel;
use super::super::pool::Buffer;
use super::super::{GpuStream, executable, graph, handle};
use crate::compile::{Copies, Step};
use crate::descriptor::{Descriptor, failure};
use crate::error::cuda;
use crate::lower::Source;
use crate::plan::KernelPlan;
use cudarc::driver::{result, sys};
use cudnn_sys::{AttributeName, DescriptorType};
use fused_graph_core::backend::{DeviceBuffer, Launch};
use fused_graph_core::fuse::{self, Group};
use fused_graph_core::ir::{Graph, ValueId, ValueKind};
use fused_graph_core::layout::Dims;
use fused_graph_core::tensor::Storage;
use fused_graph_core::{DType, Device, Error, Result, Tensor};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

/// Time that the windows of one candidate take together, in microseconds, and how many there are at least and at most.
const TIME: f64 = 30_000.0;
const WINDOWS: (usize, usize) = (7, 31);
/// Launches in one window.
const LAUNCHES: usize = 20;
/// Elements of a result that are compared.
const COMPARED: usize = 1 << 20;

/// The values of a graph in memory of their own.
pub(super) struct Bench<'a> {
    stream: &'a GpuStream,
    graph: &'a Arc<Graph>,
    device: &'a Device,
    scalars: &'a [f64],
    values: HashMap<ValueId, Arc<Buffer>>,
    copies: HashMap<ValueId, Arc<Buffer>>,
    /// Larger than the L2 cache, if it is to be overwritten between launches.
    flush: Option<Arc<Buffer>>,
}

impl<'a> Bench<'a> {
    /// With copies of the arguments.
    pub(super) fn new(stream: &'a GpuStream, graph: &'a Arc<Graph>, launch: &Launch<'a>, cold: bool) -> Result<Self> {
        // Arguments may still be written on other streams.
        result::ctx::synchronize().map_err(|e| cuda("waiting for the GPU", e))?;
        let mut values = HashMap::new();
        for (v, value) in graph.inputs() {
            let ValueKind::Input { index } = value.kind else { continue };
            let Some(tensor) = launch.tensors.get(index) else { continue };
            let last: i64 = tensor.dims().iter().zip(tensor.strides().iter()).map(|(d, s)| (d - 1).max(0) * s).sum();
            let bytes = (last as usize + 1) * tensor.dtype().size();
            let buffer = stream.pool().alloc(bytes)?;
            if tensor.numel() > 0 {
                // SAFETY: the tensor's elements lie within these bytes, which its storage holds; the buffer has as many.
                unsafe {
                    result::memcpy_dtod_async(buffer.address, tensor.address(), bytes, stream.cuda().cu_stream())
                }
                .map_err(|e| cuda("copying an argument for tuning", e))?;
            }
            values.insert(v, Arc::new(buffer));
        }
        let l2 = stream.gpu().rates.l2_bytes;
        let flush = if cold { Some(Arc::new(stream.pool().alloc(2 * l2.max(1 << 20))?)) } else { None };
        let (device, scalars) = (launch.device, launch.scalars);
        Ok(Bench { stream, graph, device, scalars, values, copies: HashMap::new(), flush })
    }

    /// Runs a step once, with memory for what it writes.
    pub(super) fn run(&mut self, step: &Step<Arc<Kernel>>) -> Result<()> {
        if let Step::Copy { value, dims, .. } = step {
            let bytes = dims.numel() * self.graph.value(*value).dtype.size();
            self.copies.insert(*value, Arc::new(self.stream.pool().alloc(bytes)?));
        }
        for &v in step.group().map_or(&[][..], |g| &g.outputs) {
            if !self.values.contains_key(&v) {
                let buffer = self.stream.pool().alloc(executable::bytes(self.graph, v))?;
                self.values.insert(v, Arc::new(buffer));
            }
        }
        self.with(step, |launch| launch(self.stream))
    }

    /// Gives `work` what launches a step on a stream, while the memory that it needs is held.
    fn with<R>(&self, step: &Step<Arc<Kernel>>, work: impl FnOnce(&Launcher<'_>) -> Result<R>) -> Result<R> {
        match step {
            Step::Copy { value, kernel, .. } => {
                let to = self.copies.get(value).map_or(0, |b| b.address);
                work(&|on| executable::copy(on, kernel, self.seen(*value), to))
            }
            Step::View { group, kernel } => {
                let node = self.graph.node(group.nodes[group.nodes.len() - 1]);
                work(&|on| executable::copy(on, kernel, self.seen(node.inputs[0]), self.address(node.output)))
            }
            Step::Own { kernel, .. } => {
                let scratch = self.stream.pool().alloc(kernel.scratch() as usize)?;
                work(&|on| kernel.run(on, &|v| self.address(v), scratch.address, self.scalars))
            }
            Step::Cudnn { plan, .. } => {
                let prepared = self.prepare(plan, &HashMap::new())?;
                work(&|on| execute(plan, &prepared, on))
            }
        }
    }

    fn address(&self, v: ValueId) -> u64 {
        self.values.get(&v).map_or(0, |b| b.address)
    }

    fn seen(&self, v: ValueId) -> u64 {
        let seen = fuse::resolve(self.graph, v);
        (self.address(seen.base) as i64 + seen.offset * self.graph.value(v).dtype.size() as i64) as u64
    }

    /// Checks the results of a plan against those in memory, and times it: median of the windows and their spread.
    pub(super) fn candidate(&self, group: &Group, plan: &KernelPlan, copies: &Copies) -> Result<(f64, f64)> {
        if copies.iter().any(|(v, _)| !self.copies.contains_key(v)) {
            return Err(Error::unsupported("reads a copy that the heuristic's choice does not make"));
        }
        let mut own = HashMap::new();
        for &v in &group.outputs {
            let buffer = self.stream.pool().alloc(executable::bytes(self.graph, v))?;
            poison(&buffer, self.stream)?;
            own.insert(v, Arc::new(buffer));
        }
        let prepared = self.prepare(plan, &own)?;
        execute(plan, &prepared, self.stream)?;
        for (&v, buffer) in &own {
            let expected = self.values.get(&v).ok_or_else(|| Error::unsupported("nothing to compare with"))?;
            self.compare(v, expected, buffer)?;
        }
        self.time(&|on| execute(plan, &prepared, on))
    }

    /// Times a step that has run.
    pub(super) fn time_step(&self, step: &Step<Arc<Kernel>>) -> Result<(f64, f64)> {
        self.with(step, |launch| self.time(launch))
    }

    fn prepare(&self, plan: &KernelPlan, own: &HashMap<ValueId, Arc<Buffer>>) -> Result<Prepared> {
        let mut scalars: Box<[[u8; 8]]> =
            plan.bindings.iter().map(|b| executable::scalar_word(self.graph, b, self.scalars)).collect();
        let workspace = self.stream.pool().alloc(plan.workspace as usize)?;
        let (mut uids, mut pointers) = (Vec::new(), Vec::new());
        for (binding, word) in plan.bindings.iter().zip(scalars.iter_mut()) {
            uids.push(binding.uid);
            pointers.push(match binding.source {
                Source::Memory { base, offset } => {
                    let at = own.get(&base).map_or_else(|| self.address(base), |b| b.address);
                    (at as i64 + offset) as *mut c_void
                }
                Source::Copy { value, offset } => {
                    self.copies.get(&value).map_or(0, |b| b.address as i64 + offset) as *mut c_void
                }
                Source::Scalar(_) | Source::Number(_) => word.as_mut_ptr().cast(),
            });
        }
        let api = self.stream.gpu().library.api();
        let pack = Descriptor::build(api, DescriptorType::VARIANT_PACK, |d| {
            d.set(AttributeName::VARIANT_PACK_UNIQUE_IDS, &uids)?;
            d.set_pointers(AttributeName::VARIANT_PACK_DATA_POINTERS, &pointers)?;
            d.set_pointers(AttributeName::VARIANT_PACK_WORKSPACE, &[workspace.address as *mut c_void])
        })?;
        Ok(Prepared { pack, _scalars: scalars, _workspace: workspace })
    }

    /// Whether a result has the values of the heuristic's choice, up to rounding.
    fn compare(&self, v: ValueId, expected: &Arc<Buffer>, got: &Arc<Buffer>) -> Result<()> {
        let value = self.graph.value(v);
        let n = value.dims.numel();
        let step = n.div_ceil(COMPARED) as i64;
        let read = |buffer: &Arc<Buffer>| {
            let (dims, strides) = (Dims::splat(n as i64 / step.max(1), 1), Dims::splat(step.max(1), 1));
            let storage = Storage::Device(Arc::clone(buffer) as Arc<dyn DeviceBuffer>);
            let seen = Tensor::from_parts(self.device.clone(), storage, value.dtype, dims, strides, 0);
            seen.to_dtype(DType::F32)?.to_vec::<f32>()
        };
        let (expected, got) = (read(expected)?, read(got)?);
        let (mut difference, mut norm) = (0.0f64, 0.0f64);
        for (e, g) in expected.iter().zip(&got) {
            if e.is_nan() && g.is_nan() || e == g {
                norm += if e.is_finite() { *e as f64 * *e as f64 } else { 0.0 };
                continue;
            }
            difference += (*e as f64 - *g as f64).powi(2);
            norm += (*e as f64).powi(2);
        }
        let error = (difference / norm.max(f64::MIN_POSITIVE)).sqrt();
        // What two orders of additions may differ by, in the type of the result.
        let most = match value.dtype {
            DType::F8E4M3 | DType::F8E5M2 => 5e-2,
            DType::BF16 => 1e-2,
            _ => 3e-3,
        };
        if error <= most {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "wrong values: they differ by {error:.1e} of their norm from the heuristic's choice"
        )))
    }

    /// Median microseconds of a launch over windows, and the range of their middle half over it.
    fn time(&self, launch: &Launcher<'_>) -> Result<(f64, f64)> {
        let (start, end) = (Event::new()?, Event::new()?);
        for _ in 0..3 {
            launch(self.stream)?;
        }
        let estimate = self.window(&start, &end, || launch(self.stream))?.max(0.5);
        let mut windows = Vec::new();
        let per_window = if self.flush.is_some() { 1 } else { LAUNCHES.min((TIME / 7.0 / estimate) as usize).max(1) };
        let count = ((TIME / (estimate * per_window as f64)) as usize).clamp(WINDOWS.0, WINDOWS.1);
        let window = |on: &GpuStream| (0..per_window).try_for_each(|_| launch(on));
        let graph = match &self.flush {
            None => Some(graph::record(self.stream.gpu(), window)?.instantiate()?),
            Some(_) => None,
        };
        for _ in 0..count {
            if let Some(flush) = &self.flush {
                poison(flush, self.stream)?;
            }
            let micros = match &graph {
                Some(graph) => self.window(&start, &end, || graph.launch(self.stream))?,
                None => self.window(&start, &end, || window(self.stream))?,
            };
            windows.push(micros / per_window as f64);
        }
        windows.sort_by(f64::total_cmp);
        let median = windows[windows.len() / 2];
        let spread = (windows[windows.len() * 3 / 4] - windows[windows.len() / 4]) / median;
        Ok((median, spread))
    }

    /// Microseconds on the GPU of what `work` queues.
    fn window(&self, start: &Event, end: &Event, work: impl FnOnce() -> Result<()>) -> Result<f64> {
        let stream = self.stream.cuda().cu_stream();
        // SAFETY: events and stream are alive and of the current context.
        unsafe { result::event::record(start.0, stream) }.map_err(|e| cuda("recording an event", e))?;
        work()?;
        // SAFETY: as above.
        unsafe {
            result::event::record(end.0, stream).map_err(|e| cuda("recording an event", e))?;
            result::event::synchronize(end.0).map_err(|e| cuda("running a candidate", e))?;
            let millis = result::event::elapsed(start.0, end.0).map_err(|e| cuda("reading an event", e))?;
            Ok(millis as f64 * 1e3)
        }
    }
}

/// Queues something on a stream.
type Launcher<'a> = dyn Fn(&GpuStream) -> Result<()> + 'a;

fn execute(plan: &KernelPlan, prepared: &Prepared, on: &GpuStream) -> Result<()> {
    let api = on.gpu().library.api();
    let handle = handle::on(on)?;
    // SAFETY: the plan was built for this GPU; the pack names memory of the bench with the dims, strides and alignments it was built for (or better
    // aligned), the workspace it asks for, and scalars that `prepared` holds. The handle is this thread's.
    let status = unsafe { (api.backend_execute)(handle, plan.descriptor.raw(), prepared.pack.raw()) };
    if status.is_success() { Ok(()) } else { Err(failure(api, status, "running a plan")) }
}

/// A variant pack with what it points to.
struct Prepared {
    pack: Descriptor,
    _scalars: Box<[[u8; 8]]>,
    _workspace: Buffer,
}

/// Fills memory with a pattern that is NaN in every float.
fn poison(buffer: &Buffer, stream: &GpuStream) -> Result<()> {
    // SAFETY: the buffer has so many bytes.
    unsafe { result::memset_d8_async(buffer.address, 0xff, buffer.bytes(), stream.cuda().cu_stream()) }
        .map_err(|e| cuda("filling memory", e))
}

struct Event(sys::CUevent);

impl Event {
    fn new() -> Result<Event> {
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT);
        event.map(Event).map_err(|e| cuda("making an event", e))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made by `new`; nothing waits for it any more.
        let _ = unsafe { result::event::destroy(self.0) };
    }
}
