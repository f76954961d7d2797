//! A GPU with a stream: what a `Device` holds.

use super::capture::{self, Capture, Relaxed};
use super::order::OtherStreams;
use super::pool::Pool;
use super::{CudaExecutable, Gpu, graph, kernels};
use crate::context::Current;
use crate::error::cuda;
use crate::jit;
use crate::plan::Known;
use crate::target::Target;
use cudarc::driver::{CudaStream, result, sys};
use fused_graph_core::backend::{
    Accelerator, BoundLaunch, CapturedLaunches, CompileRequest, DeviceBuffer, Executable, Identity, Launch,
};
use fused_graph_core::layout::{self, Dims};
use fused_graph_core::tensor::Storage;
use fused_graph_core::tune::{TuneOptions, TuneReport};
use fused_graph_core::{DType, Device, Result, Tensor};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A GPU with a stream on which its work is ordered.
#[derive(Debug)]
pub struct GpuStream {
    gpu: &'static Gpu,
    stream: Arc<CudaStream>,
    pool: Arc<Pool>,
    id: u64,
}

impl GpuStream {
    pub(super) fn new(gpu: &'static Gpu, stream: Arc<CudaStream>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        GpuStream { gpu, stream, pool: Arc::new(Pool::new(gpu)), id }
    }

    /// A new stream that no device has.
    pub(super) fn apart(gpu: &'static Gpu) -> Result<Self> {
        let (_unchanged, _relaxed) = (Current::unchanged(), Relaxed::enter());
        let stream = gpu.context.new_stream().map_err(|e| cuda("making a stream", e))?;
        Ok(Self::new(gpu, stream))
    }

    /// That of a device; none for the CPU.
    #[inline]
    pub fn of(device: &Device) -> Option<&GpuStream> {
        device.accelerator()?.as_any().downcast_ref()
    }

    /// The GPU.
    pub fn gpu(&self) -> &'static Gpu {
        self.gpu
    }

    /// The stream in cudarc's form.
    pub fn cuda(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Different for every stream that there ever was.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Makes the context current for as long as the result lives.
    pub(super) fn enter(&self) -> Result<Current> {
        Current::enter(self.gpu.context.cu_ctx())
    }

    /// Makes what is queued here from now on wait for what is queued on another stream now. The context is current.
    pub(super) fn wait_for(&self, other: &GpuStream) -> Result<()> {
        let failed = |e| cuda("waiting for another stream", e);
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(failed)?;
        let wait = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: event and streams are alive and of the context that is current; an event that is waited for may be destroyed.
        unsafe {
            let waiting = result::event::record(event, other.stream.cu_stream())
                .and_then(|()| result::stream::wait_event(self.stream.cu_stream(), event, wait));
            let destroyed = result::event::destroy(event);
            waiting.and(destroyed).map_err(failed)
        }
    }

    /// Queues a copy of a view of a buffer with these dims and strides (0 where it repeats) to dense memory.
    pub(super) fn rearrange(
        &self,
        from: u64,
        (dims, strides, to): (&Dims, &Dims, &Dims),
        (source, dtype): (DType, DType),
        target: u64,
    ) -> Result<()> {
        let (graph, group) = jit::copy_graph(dims, strides, to, source, dtype)?;
        let (kernel, _) = kernels::of_group(self.gpu, &graph, &group, &Known::default())?;
        if let Some(capture) = Capture::of(self.stream.cu_stream())? {
            capture.keep(self.gpu, Arc::clone(&kernel))?;
        }
        let output = graph.outputs()[0];
        kernel.run(self, &|v| if v == output { target } else { from }, 0, &[])
    }
}

impl Drop for GpuStream {
    fn drop(&mut self) {
        self.gpu.retired.stream(Arc::clone(&self.stream));
    }
}

impl Accelerator for GpuStream {
    fn id(&self) -> u64 {
        self.gpu.ordinal as u64 + 1
    }

    fn description(&self) -> String {
        self.gpu.description.clone()
    }

    fn identity(&self) -> Identity {
        let gpu = self.gpu;
        Target::identity(&gpu.name, gpu.sm, gpu.rates.multiprocessors, gpu.library.api())
    }

    fn preferred_half(&self) -> DType {
        if self.gpu.sm >= 80 { DType::BF16 } else { DType::F16 }
    }

    fn alloc(&self, bytes: usize) -> Result<Arc<dyn DeviceBuffer>> {
        Ok(Arc::new(self.pool.alloc(bytes)?))
    }

    fn upload(&self, bytes: &[u8]) -> Result<Arc<dyn DeviceBuffer>> {
        capture::none(
            self.stream.cu_stream(),
            "a copy from the host would be read again by each replay; make the tensor before",
        )?;
        let buffer = self.pool.alloc(bytes.len())?;
        let (_current, _relaxed) = (self.enter()?, Relaxed::enter());
        // SAFETY: the buffer is at least as long; the driver has read pageable memory when the call returns.
        unsafe { result::memcpy_htod_async(buffer.address, bytes, self.stream.cu_stream()) }
            .map_err(|e| cuda("copying to the GPU", e))?;
        Ok(Arc::new(buffer))
    }

    fn download(&self, buffer: &dyn DeviceBuffer, offset: usize, out: &mut [u8]) -> Result<()> {
        capture::none(self.stream.cu_stream(), "there are no values to be read before its replay")?;
        let (_current, _relaxed) = (self.enter()?, Relaxed::enter());
        let from = buffer.address() + offset as u64;
        // SAFETY: the caller reads within the buffer, which is alive; `out` is not looked at before the stream was waited for.
        unsafe { result::memcpy_dtoh_async(out, from, self.stream.cu_stream()) }
            .map_err(|e| cuda("copying from the GPU", e))?;
        self.synchronize()
    }

    fn copy(&self, from: &Tensor, strides: &Dims, dtype: DType) -> Result<Arc<dyn DeviceBuffer>> {
        let buffer = Arc::new(self.pool.alloc(from.numel() * dtype.size())?);
        if from.numel() > 0 {
            let _current = self.enter()?;
            if let (Some(capture), Storage::Device(read)) = (Capture::of(self.stream.cu_stream())?, from.storage()) {
                capture.keep(self.gpu, (Arc::clone(read), Arc::clone(&buffer)))?;
            }
            let layout = (from.dims(), from.strides(), strides);
            self.rearrange(from.address(), layout, (from.dtype(), dtype), buffer.address)?;
        }
        Ok(buffer)
    }

    fn overwrite(&self, to: &Tensor, from: &Tensor) -> Result<()> {
        let _current = self.enter()?;
        let others = OtherStreams::of(self, [from.device()]);
        others.before(self)?;
        if let Some(capture) = Capture::of(self.stream.cu_stream())? {
            capture.keep(self.gpu, [to.storage().clone(), from.storage().clone()])?;
        }
        let normal = |t: &Tensor| layout::normalise_strides(t.dims(), t.strides());
        let bytes = to.numel() * to.dtype().size();
        let dense = layout::span(to.dims(), to.strides()) == Some(to.numel() as i64);
        if dense && normal(to) == normal(from) {
            // SAFETY: both tensors hold that many bytes without gaps, in memory that is alive and not the same.
            unsafe { result::memcpy_dtod_async(to.address(), from.address(), bytes, self.stream.cu_stream()) }
                .map_err(|e| cuda("copying on the GPU", e))?;
        } else {
            let layout = (to.dims(), from.strides(), to.strides());
            self.rearrange(from.address(), layout, (from.dtype(), to.dtype()), to.address())?;
        }
        others.after(self)
    }

    fn synchronize(&self) -> Result<()> {
        capture::none(self.stream.cu_stream(), "nothing of it runs before its replay")?;
        let (_current, _relaxed) = (self.enter()?, Relaxed::enter());
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.stream.cu_stream()) }.map_err(|e| cuda("waiting for the GPU", e))
    }

    fn compile(&self, request: &CompileRequest<'_>) -> Result<Arc<dyn Executable>> {
        Ok(Arc::new(CudaExecutable::compile(self, request)?))
    }

    fn tune(
        &self,
        request: &CompileRequest<'_>,
        launch: &Launch<'_>,
        options: &TuneOptions,
    ) -> Result<(Arc<dyn Executable>, TuneReport)> {
        let (tuned, report) = super::tune::tune(self, request, launch, options)?;
        Ok((Arc::new(tuned), report))
    }

    fn capture(&self, calls: &[&dyn BoundLaunch]) -> Result<Box<dyn CapturedLaunches>> {
        graph::capture(calls)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
