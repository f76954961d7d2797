//! CUDA graphs that the caller captures: what may not be done meanwhile, and what a graph must keep alive for its replays.

use super::{Gpu, GpuStream};
use crate::error::cuda;
use crate::library::driver;
use cudarc::driver::sys;
use fused_graph_core::{Error, Result};
use std::ffi::c_void;
use std::fmt::Display;

/// The capture that a stream takes part in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capture {
    id: u64,
    graph: sys::CUgraph,
}

impl Capture {
    /// That of a stream: mostly none.
    #[inline]
    pub(super) fn of(stream: sys::CUstream) -> Result<Option<Capture>> {
        if stream.is_null() {
            // The default stream cannot be captured, and to ask about it takes a current context.
            return Ok(None);
        }
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream is alive; the driver writes one word.
        let code = unsafe { sys::cuStreamIsCapturing(stream, &mut status) };
        if code == sys::CUresult::CUDA_SUCCESS && status == sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
            return Ok(None);
        }
        code.result().map_err(|e| cuda("asking whether a stream is being captured", e))?;
        Self::active(stream).map(Some)
    }

    #[cold]
    fn active(stream: sys::CUstream) -> Result<Capture> {
        // Not from cudarc: which versions of the function it declares depends on the CUDA toolkit of the machine that it is built on. The driver has
        // this one since 11.3.
        type GetInfo = unsafe extern "C" fn(
            sys::CUstream,
            *mut sys::CUstreamCaptureStatus,
            *mut u64,
            *mut sys::CUgraph,
            *mut *const sys::CUgraphNode,
            *mut usize,
        ) -> sys::CUresult;
        // SAFETY: the driver's function of this name has this signature.
        let info = unsafe { driver::function::<GetInfo>("cuStreamGetCaptureInfo_v2") }.map_err(Error::cuda)?;
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let mut capture = Capture { id: 0, graph: std::ptr::null_mut() };
        let (nodes, count) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the stream is alive; what may be left out is a null pointer.
        unsafe { info(stream, &mut status, &mut capture.id, &mut capture.graph, nodes, count) }
            .result()
            .map_err(|e| cuda("asking for the graph that is being captured", e))?;
        match status {
            sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE => Ok(capture),
            _ => Err(Error::cuda(
                "the capture of this stream was invalidated by a call that is not allowed in one; end it and begin anew",
            )),
        }
    }

    /// Leaves `kept` to the graph, which drops it when it and what was instantiated from it are destroyed and have run.
    pub(super) fn keep(&self, gpu: &'static Gpu, kept: impl Send + 'static) -> Result<()> {
        let owned: *mut Kept = Box::into_raw(Box::new(Kept { gpu, what: Box::new(kept) }));
        let mut object = std::ptr::null_mut();
        let flags = sys::CUuserObject_flags::CU_USER_OBJECT_NO_DESTRUCTOR_SYNC as u32;
        // SAFETY: `release` takes what `owned` points to, once.
        let made = unsafe { sys::cuUserObjectCreate(&mut object, owned.cast(), Some(release), 1, flags) }.result();
        if let Err(error) = made {
            // SAFETY: the driver has not taken it.
            drop(unsafe { Box::from_raw(owned) });
            return Err(cuda("leaving memory to a graph", error));
        }
        let flags = sys::CUuserObjectRetain_flags::CU_GRAPH_USER_OBJECT_MOVE as u32;
        // SAFETY: the graph is being captured and hence alive; our one reference goes to it.
        let moved = unsafe { sys::cuGraphRetainUserObject(self.graph, object, 1, flags) }.result();
        moved.map_err(|error| {
            // SAFETY: the reference is still ours; giving it up calls `release`.
            let _ = unsafe { sys::cuUserObjectRelease(object, 1) };
            cuda("leaving memory to a graph", error)
        })
    }
}

struct Kept {
    gpu: &'static Gpu,
    what: Box<dyn Send>,
}

/// Called by the driver on a thread of its own, where nothing of CUDA may be called: what the graph kept is dropped later, elsewhere.
unsafe extern "C" fn release(kept: *mut c_void) {
    // SAFETY: made by `Capture::keep`, given to the driver once.
    let kept = unsafe { Box::from_raw(kept.cast::<Kept>()) };
    kept.gpu.retired.keep(kept.what);
}

/// Two streams may only wait for each other within one capture, or outside of any.
pub(super) fn same(stream: &GpuStream, other: &GpuStream) -> Result<()> {
    let id = |s: &GpuStream| Ok::<_, Error>(Capture::of(s.cuda().cu_stream())?.map(|c| c.id));
    if id(stream)? == id(other)? {
        return Ok(());
    }
    Err(Error::cuda(
        "one argument lies on a stream that is being captured into a CUDA graph and another on one that is not: let its stream join the capture \
         first, or make the tensor on the captured stream",
    ))
}

/// Refuses what would invalidate the capture of the stream, before it does.
pub(super) fn none(stream: sys::CUstream, what: impl Display) -> Result<()> {
    match Capture::of(stream)? {
        None => Ok(()),
        Some(_) => Err(refused(what)),
    }
}

#[cold]
fn refused(what: impl Display) -> Error {
    Error::cuda(format!("the stream is being captured into a CUDA graph, and {what}"))
}

/// While this lives, this thread may allocate, load and free although another thread captures a stream in CUDA's global mode.
#[must_use]
pub(super) struct Relaxed(sys::CUstreamCaptureMode);

impl Relaxed {
    pub(super) fn enter() -> Relaxed {
        let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        exchange(&mut mode);
        Relaxed(mode)
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        exchange(&mut self.0);
    }
}

fn exchange(mode: &mut sys::CUstreamCaptureMode) {
    // SAFETY: the driver reads and writes one word. It fails only for modes that there are not, and then leaves the mode as it was.
    let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(mode) };
}
