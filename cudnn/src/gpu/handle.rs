//! A cuDNN handle for each thread and GPU, its stream set only when it changes.

use super::{Gpu, GpuStream, capture};
use crate::descriptor::failure;
use cudnn_sys as sys;
use fused_graph_core::Result;
use std::cell::RefCell;
use std::sync::PoisonError;

/// A handle and the stream that it was last given.
#[derive(Debug)]
pub(super) struct Raw {
    handle: sys::Handle,
    /// The id of a [`GpuStream`], which unlike an address is never used twice.
    stream: u64,
}

// SAFETY: a handle is used by one thread at a time: the one whose table it is in, or none while it waits in `Gpu::handles`.
unsafe impl Send for Raw {}

/// The handles of a thread. When it ends they wait for another thread: destroying one waits for the device, and at the end of the process
/// the driver may be gone.
struct Table(Vec<(&'static Gpu, Raw)>);

impl Drop for Table {
    fn drop(&mut self) {
        for (gpu, raw) in self.0.drain(..) {
            gpu.handles.lock().unwrap_or_else(PoisonError::into_inner).push(raw);
        }
    }
}

thread_local! {
    static HANDLES: RefCell<Table> = const { RefCell::new(Table(Vec::new())) };
}

/// The calling thread's handle for the stream's GPU, set to the stream. The context is current.
pub(super) fn on(stream: &GpuStream) -> Result<sys::Handle> {
    HANDLES.with_borrow_mut(|table| {
        let gpu = stream.gpu();
        let raw = match table.0.iter().position(|(g, _)| std::ptr::eq(*g, gpu)) {
            Some(at) => &mut table.0[at].1,
            None => {
                let raw = take_or_create(stream)?;
                table.0.push((gpu, raw));
                let last = table.0.len() - 1;
                &mut table.0[last].1
            }
        };
        if raw.stream != stream.id() {
            let api = gpu.library.api();
            // SAFETY: the handle is alive and this thread's; the stream is alive and of the same context.
            let status = unsafe { (api.set_stream)(raw.handle, stream.cuda().cu_stream().cast()) };
            if !status.is_success() {
                return Err(failure(api, status, "giving cuDNN the stream"));
            }
            raw.stream = stream.id();
        }
        Ok(raw.handle)
    })
}

#[cold]
fn take_or_create(stream: &GpuStream) -> Result<Raw> {
    let gpu = stream.gpu();
    if let Some(raw) = gpu.handles.lock().unwrap_or_else(PoisonError::into_inner).pop() {
        return Ok(raw);
    }
    capture::none(
        stream.cuda().cu_stream(),
        "this thread has not used cuDNN yet, which it cannot begin then; call a function once on this thread before the capture",
    )?;
    let _relaxed = capture::Relaxed::enter();
    let api = gpu.library.api();
    let mut handle = std::ptr::null_mut();
    // SAFETY: the context is current, and the result points to a handle.
    let status = unsafe { (api.create)(&mut handle) };
    if !status.is_success() {
        return Err(failure(api, status, "creating a cuDNN handle"));
    }
    Ok(Raw { handle, stream: 0 })
}
