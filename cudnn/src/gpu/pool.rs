//! Device memory of one stream: what is dropped is given out again in stream order, so that in the steady state the driver is not asked.

use super::Gpu;
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
        let recycled = self.lists().get_mut(&size).and_then(Vec::pop);
        let address = match recycled {
            Some(address) => address,
            None => self.ask_driver(size)?,
        };
        Ok(Buffer { pool: Arc::clone(self), address, bytes, size })
    }

    #[cold]
    fn ask_driver(&self, size: usize) -> Result<u64> {
        let _current = Current::enter(self.gpu.context.cu_ctx())?;
        // SAFETY: the context is current; the address is freed at most once, by `trim`.
        if let Ok(address) = unsafe { result::malloc_sync(size) } {
            return Ok(address);
        }
        // Give back what is idle and try again: the driver waits until nothing uses it any more.
        self.trim();
        // SAFETY: as above.
        unsafe { result::malloc_sync(size) }
            .map_err(|e| cuda(format!("allocating {size} bytes on {}", self.gpu.description), e))
    }

    /// Gives idle memory back to the driver.
    fn trim(&self) {
        let idle: Vec<u64> = self.lists().drain().flat_map(|(_, blocks)| blocks).collect();
        for address in idle {
            // SAFETY: the block is in no buffer; the driver waits for the work that may still use it. A failure leaves it allocated.
            let _ = unsafe { result::free_sync(address) };
        }
    }

    fn lists(&self) -> std::sync::MutexGuard<'_, HashMap<usize, Vec<u64>, foldhash::fast::RandomState>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
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
