//! A GPU with a stream: what a `Device` holds.

use super::pool::Pool;
use super::{CudaExecutable, Gpu, kernels};
use crate::context::Current;
use crate::error::cuda;
use crate::jit;
use crate::plan::Known;
use cudarc::driver::{CudaStream, result};
use fused_graph_core::backend::{Accelerator, CompileRequest, DeviceBuffer, Executable, Launch};
use fused_graph_core::layout::Dims;
use fused_graph_core::tune::{TuneOptions, TuneReport};
use fused_graph_core::{DType, Result, Tensor};
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

    /// Queues a copy of a view of a buffer with these dims and strides (0 where it repeats) to dense memory.
    pub(super) fn rearrange(
        &self,
        from: u64,
        (dims, strides, to): (&Dims, &Dims, &Dims),
        (source, dtype): (DType, DType),
        target: u64,
    ) -> Result<()> {
        let (graph, group) = jit::copy_graph(dims, strides, to, source, dtype)?;
        let kernel = kernels::of_group(self.gpu, &graph, &group, &Known::default())?;
        let output = graph.outputs()[0];
        kernel.run(self, &|v| if v == output { target } else { from }, 0, &[])
    }
}

impl Accelerator for GpuStream {
    fn id(&self) -> u64 {
        self.gpu.ordinal as u64 + 1
    }

    fn description(&self) -> String {
        self.gpu.description.clone()
    }

    fn preferred_half(&self) -> DType {
        if self.gpu.sm >= 80 { DType::BF16 } else { DType::F16 }
    }

    fn alloc(&self, bytes: usize) -> Result<Arc<dyn DeviceBuffer>> {
        Ok(Arc::new(self.pool.alloc(bytes)?))
    }

    fn upload(&self, bytes: &[u8]) -> Result<Arc<dyn DeviceBuffer>> {
        let buffer = self.pool.alloc(bytes.len())?;
        let _current = self.enter()?;
        // SAFETY: the buffer is at least as long; the driver has read pageable memory when the call returns.
        unsafe { result::memcpy_htod_async(buffer.address, bytes, self.stream.cu_stream()) }
            .map_err(|e| cuda("copying to the GPU", e))?;
        Ok(Arc::new(buffer))
    }

    fn download(&self, buffer: &dyn DeviceBuffer, offset: usize, out: &mut [u8]) -> Result<()> {
        let _current = self.enter()?;
        let from = buffer.address() + offset as u64;
        // SAFETY: the caller reads within the buffer, which is alive; `out` is not looked at before the stream was waited for.
        unsafe { result::memcpy_dtoh_async(out, from, self.stream.cu_stream()) }
            .map_err(|e| cuda("copying from the GPU", e))?;
        self.synchronize()
    }

    fn copy(&self, from: &Tensor, strides: &Dims, dtype: DType) -> Result<Arc<dyn DeviceBuffer>> {
        let buffer = self.pool.alloc(from.numel() * dtype.size())?;
        if from.numel() > 0 {
            let _current = self.enter()?;
            let layout = (from.dims(), from.strides(), strides);
            self.rearrange(from.address(), layout, (from.dtype(), dtype), buffer.address)?;
        }
        Ok(Arc::new(buffer))
    }

    fn synchronize(&self) -> Result<()> {
        let _current = self.enter()?;
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

    fn as_any(&self) -> &dyn Any {
        self
    }
}
