//! A second device without a GPU: its memory is host memory, and it compiles nothing.

use fused_graph::prelude::*;
use fused_graph::{Dims, Error, Result, TuneReport};
use fused_graph_core::backend::{
    Accelerator, BoundLaunch, CapturedLaunches, CompileRequest, DeviceBuffer, Executable, Launch,
};
use fused_graph_core::tensor::Storage;
use std::any::Any;
use std::sync::Arc;

/// A device that says that no kernel does what a function describes.
pub fn device(id: u64) -> Device {
    Device::from_accelerator(Arc::new(Fake(id)))
}

#[derive(Debug)]
struct Fake(u64);

#[derive(Debug)]
struct Memory(Vec<u8>);

impl DeviceBuffer for Memory {
    fn address(&self) -> u64 {
        self.0.as_ptr() as u64
    }
    fn bytes(&self) -> usize {
        self.0.len()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Accelerator for Fake {
    fn id(&self) -> u64 {
        1000 + self.0
    }
    fn identity(&self) -> fused_graph_core::backend::Identity {
        fused_graph_core::backend::Identity { device: "fake".to_owned(), library: "none".to_owned() }
    }

    fn description(&self) -> String {
        format!("Fake {}", self.0)
    }
    fn preferred_half(&self) -> DType {
        DType::F16
    }
    fn alloc(&self, bytes: usize) -> Result<Arc<dyn DeviceBuffer>> {
        self.upload(&vec![0; bytes])
    }
    fn upload(&self, bytes: &[u8]) -> Result<Arc<dyn DeviceBuffer>> {
        Ok(Arc::new(Memory(bytes.to_vec())))
    }
    fn download(&self, buffer: &dyn DeviceBuffer, offset: usize, out: &mut [u8]) -> Result<()> {
        let memory = buffer.as_any().downcast_ref::<Memory>().ok_or_else(|| Error::device("not ours"))?;
        out.copy_from_slice(&memory.0[offset..offset + out.len()]);
        Ok(())
    }
    fn copy(&self, from: &Tensor, strides: &Dims, dtype: DType) -> Result<Arc<dyn DeviceBuffer>> {
        match from.storage() {
            Storage::Device(memory) if from.strides() == strides && from.dtype() == dtype => Ok(Arc::clone(memory)),
            _ => Err(Error::unsupported("a fake device neither moves nor converts")),
        }
    }
    fn overwrite(&self, _: &Tensor, _: &Tensor) -> Result<()> {
        Err(Error::unsupported("a fake device does not write"))
    }
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
    fn compile(&self, request: &CompileRequest<'_>) -> Result<Arc<dyn Executable>> {
        Err(Error::unsupported(format!("`{}` has no kernel on Fake {}", request.graph.name(), self.0)))
    }
    fn tune(
        &self,
        request: &CompileRequest<'_>,
        _: &Launch<'_>,
        _: &TuneOptions,
    ) -> Result<(Arc<dyn Executable>, TuneReport)> {
        self.compile(request).and(Err(Error::unsupported("nothing to choose from")))
    }
    fn capture(&self, _: &[&dyn BoundLaunch]) -> Result<Box<dyn CapturedLaunches>> {
        Err(Error::unsupported("a fake device has no graphs"))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
