//! The CUDA context of a GPU made current on the calling thread.

use crate::error::cuda;
use cudarc::driver::result;
use cudarc::driver::sys::{CUcontext, CUresult, cuCtxGetCurrent, cuCtxSetCurrent};
use fused_graph_core::Result;
use std::marker::PhantomData;

/// While this lives, the context is the calling thread's; then the one that was is again, if it was another.
///
/// A thread that had none keeps ours: the next call then finds it in place.
#[must_use]
pub(crate) struct Current {
    previous: CUcontext,
    /// A context is current on one thread.
    _not_send: PhantomData<*mut ()>,
}

impl Current {
    #[inline]
    pub(crate) fn enter(context: CUcontext) -> Result<Current> {
        crate::gpu::exit::check();
        let mut previous = std::ptr::null_mut();
        // SAFETY: the driver is there, since a context exists; it writes one pointer.
        let code = unsafe { cuCtxGetCurrent(&mut previous) };
        if code == CUresult::CUDA_SUCCESS && previous == context {
            return Ok(Current { previous: std::ptr::null_mut(), _not_send: PhantomData });
        }
        Self::switch(context, previous, code)
    }

    /// Whatever is current stays so in the end: round calls that make their own context current.
    pub(crate) fn unchanged() -> Current {
        let mut previous = std::ptr::null_mut();
        // SAFETY: the driver is there, as the caller has found out; it writes one pointer.
        let _ = unsafe { cuCtxGetCurrent(&mut previous) };
        Current { previous, _not_send: PhantomData }
    }

    #[cold]
    fn switch(context: CUcontext, previous: CUcontext, code: CUresult) -> Result<Current> {
        code.result().map_err(|e| cuda("the CUDA context of this thread could not be read", e))?;
        // SAFETY: contexts that this is called with are kept alive for the rest of the process.
        unsafe { result::ctx::set_current(context) }
            .map_err(|e| cuda("the CUDA context could not be made current", e))?;
        Ok(Current { previous, _not_send: PhantomData })
    }
}

impl Drop for Current {
    #[inline]
    fn drop(&mut self) {
        if !self.previous.is_null() {
            // SAFETY: this context was current when we came; the caller owns it and has not been able to destroy it on this thread
            // meanwhile. If another thread did, the driver answers with an error, which there is nobody to tell.
            let _ = unsafe { cuCtxSetCurrent(self.previous) };
        }
    }
}
