//! Device memory of one stream: what is dropped is given out again in stream order, so that in the steady state the driver is not asked.

use super::Gpu;
use super::capture::Relaxed;
use crate::context::Current;
use crate::error::cuda;
use cudarc::driver::result;
use fused_graph_core::Result;
use fused_graph_core::backend::DeviceBuffer;
use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Free blocks of one stream by their size.
#[derive(Debug)]
pub(super) struct Pool {
    gpu: &'static Gpu,
    free: Mutex<HashMap<usize, Vec<u64>, foldhash::fast::RandomState>>,
}

/// The size a request is rounded to, so that few sizes exist and blocks find users: at most an eighth more than asked for.
fn class(bytes: usize) -> usize {
    let bytes = bytes.max(512);
    let step = (bytes.next_power_of_two() / 16).max(512);
    bytes.div_ceil(step) * step
}

impl Pool {
    pub(super) fn new(gpu: &'static Gpu) -> Self {
        Pool { gpu, free: Mutex::default() }
    }

    /// Memory that work queued on the pool's stream from now on may use.
    pub(super) fn alloc(self: &Arc<Self>, bytes: usize) -> Result<Buffer> {
        let size = class(bytes);
        let address = match self.recycled(size) {
            Some(address) => address,
            None => self.ask_driver(size)?,
        };
        Ok(Buffer { pool: Arc::clone(self), address, bytes, size })
    }

    fn recycled(&self, size: usize) -> Option<u64> {
        self.lists().get_mut(&size).and_then(Vec::pop)
    }

    #[cold]
    fn ask_driver(&self, size: usize) -> Result<u64> {
        let _current = Current::enter(self.gpu.context.cu_ctx())?;
        let _relaxed = Relaxed::enter();
        self.gpu.bury();
        // Graphs of the caller's that are gone may have held some of ours.
        if let Some(address) = self.recycled(size) {
            return Ok(address);
        }
        // SAFETY: the context is current; the address is freed at most once, by `trim` or after the pool is gone.
        if let Ok(address) = unsafe { result::malloc_sync(size) } {
            return Ok(address);
        }
        // Give back what is idle on any stream and try again.
        self.trim();
        self.gpu.live_streams().iter().for_each(|stream| stream.pool().trim());
        self.gpu.bury();
        // SAFETY: as above.
        unsafe { result::malloc_sync(size) }
            .map_err(|e| cuda(format!("allocating {size} bytes on {}", self.gpu.description), e))
    }

    /// Leaves idle memory to be freed.
    fn trim(&self) {
        let idle: Vec<u64> = self.lists().drain().flat_map(|(_, blocks)| blocks).collect();
        self.gpu.retired.blocks(idle);
    }

    fn lists(&self) -> std::sync::MutexGuard<'_, HashMap<usize, Vec<u64>, foldhash::fast::RandomState>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.trim();
    }
}

/// Memory of a pool; goes back to it when dropped. Nothing is asked of the driver, so dropping works at any time.
#[derive(Debug)]
pub(super) struct Buffer {
    pool: Arc<Pool>,
    pub(super) address: u64,
    bytes: usize,
    size: usize,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.lists().entry(self.size).or_default().push(self.address);
    }
}

impl DeviceBuffer for Buffer {
    fn address(&self) -> u64 {
        self.address
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::class;

    #[test]
    fn classes_waste_little() {
        for bytes in [1, 511, 512, 513, 4096, 5000, 1 << 20, (1 << 20) + 1, 123_456_789] {
            let size = class(bytes);
            assert!(size >= bytes && size.is_multiple_of(512) && class(size) == size, "{bytes} -> {size}");
            assert!(size <= (bytes + bytes / 8).max(bytes + 512), "{bytes} -> {size}");
        }
    }
}
