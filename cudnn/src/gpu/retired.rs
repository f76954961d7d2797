//! What is freed later than it is dropped: plans, whose kernels may still run, and what must not be freed where it was dropped.
//!
//! Dropping calls nothing of CUDA: it may happen while the caller captures a graph, in a callback of the driver, or at the end of the process.

use super::capture::{Capture, Relaxed};
use super::kernels::Kernel;
use super::{Gpu, GpuStream};
use crate::compile::{Program, Step};
use crate::context::Current;
use cudarc::driver::{CudaStream, result};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What waits to be freed on a GPU.
#[derive(Default)]
pub(super) struct Retired(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// Dropped as they are.
    kept: Vec<Box<dyn Send>>,
    /// Freed when every stream has done what is queued on it now.
    busy: Busy,
}

#[derive(Default)]
struct Busy {
    steps: Vec<Vec<Step<Arc<Kernel>>>>,
    kernels: Vec<Arc<Kernel>>,
    blocks: Vec<u64>,
    /// Streams that nobody uses any more, whose work may not be done.
    streams: Vec<Arc<CudaStream>>,
}

impl Busy {
    fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.kernels.is_empty() && self.blocks.is_empty() && self.streams.is_empty()
    }

    fn extend(&mut self, other: Busy) {
        self.steps.extend(other.steps);
        self.kernels.extend(other.kernels);
        self.blocks.extend(other.blocks);
        self.streams.extend(other.streams);
    }
}

impl fmt::Debug for Retired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.lock();
        let Busy { steps, kernels, blocks, streams } = &waiting.busy;
        write!(
            f,
            "Retired({} objects, {} plans, {} kernels, {} blocks, {} streams)",
            waiting.kept.len(),
            steps.len(),
            kernels.len(),
            blocks.len(),
            streams.len()
        )
    }
}

impl Retired {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be dropped.
    pub(super) fn keep(&self, what: Box<dyn Send>) {
        self.lock().kept.push(what);
    }

    /// Kernels that nobody launches any more.
    pub(super) fn kernels(&self, kernels: impl IntoIterator<Item = Arc<Kernel>>) {
        self.lock().busy.kernels.extend(kernels);
    }

    /// Memory that nobody holds any more.
    pub(super) fn blocks(&self, addresses: impl IntoIterator<Item = u64>) {
        self.lock().busy.blocks.extend(addresses);
    }

    /// A stream that nobody uses any more.
    pub(super) fn stream(&self, stream: Arc<CudaStream>) {
        self.lock().busy.streams.push(stream);
    }
}

impl Gpu {
    /// Frees what was retired, as far as nothing is being captured. Called where the driver is asked for something anyway.
    pub(super) fn bury(&'static self) {
        let kept = std::mem::take(&mut self.retired.lock().kept);
        // Outside of the lock: this may retire others.
        drop(kept);
        if self.retired.lock().busy.is_empty() {
            return;
        }
        let live = self.live_streams();
        // Waiting for a stream would invalidate its capture.
        if live.iter().any(|s| !matches!(Capture::of(s.cuda().cu_stream()), Ok(None))) {
            return;
        }
        let busy = std::mem::take(&mut self.retired.lock().busy);
        if let Err(busy) = self.free(busy, &live) {
            self.retired.lock().busy.extend(busy);
        }
    }

    /// Waits, then frees; or gives it back if it cannot wait.
    fn free(&self, busy: Busy, live: &[Arc<GpuStream>]) -> Result<(), Busy> {
        let Ok(_current) = Current::enter(self.context().cu_ctx()) else { return Err(busy) };
        let _relaxed = Relaxed::enter();
        for stream in live.iter().map(|s| s.cuda()).chain(&busy.streams) {
            // SAFETY: the stream is alive.
            if unsafe { result::stream::synchronize(stream.cu_stream()) }.is_err() {
                return Err(busy);
            }
        }
        for address in busy.blocks {
            // SAFETY: the block is in no buffer, and what used it has run. A failure leaves it allocated.
            let _ = unsafe { result::free_sync(address) };
        }
        // While the context is current.
        drop((busy.steps, busy.kernels, busy.streams));
        Ok(())
    }
}

/// The kernels of a function on a GPU. Shared with the graphs that they were captured into.
#[derive(Debug)]
pub(super) struct Loaded {
    gpu: &'static Gpu,
    program: Program<Arc<Kernel>>,
}

impl Loaded {
    pub(super) fn new(gpu: &'static Gpu, program: Program<Arc<Kernel>>) -> Arc<Loaded> {
        Arc::new(Loaded { gpu, program })
    }
}

impl Deref for Loaded {
    type Target = Program<Arc<Kernel>>;
    fn deref(&self) -> &Self::Target {
        &self.program
    }
}

impl Drop for Loaded {
    /// A plan holds the code of its kernels, which may still run.
    fn drop(&mut self) {
        let steps = std::mem::take(&mut self.program.steps);
        self.gpu.retired.lock().busy.steps.push(steps);
    }
}
