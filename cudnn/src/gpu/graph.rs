//! CUDA graphs of bound calls, by stream capture.
//!
//! Not by cuDNN's own population of graphs (`cudnnBackendPopulateCudaGraph`): not every engine has it, it adds a level of child graphs, and the replay is the
//! same.
//!
//! What is captured runs on a stream of our own that nobody else knows: on the call's stream, the work of other threads would end up in the graph instead
//! of being done. The graph is then launched on the call's stream.

use super::bound::{CudaCall, Kept, ours};
use super::capture::{self, Relaxed};
use super::order::{OtherStreams, other_devices};
use super::{Gpu, GpuStream, handle};
use crate::context::Current;
use crate::error::cuda;
use crate::library::driver;
use cudarc::driver::{result, sys};
use fused_graph_core::backend::{BoundLaunch, CapturedLaunches};
use fused_graph_core::site::Captured;
use fused_graph_core::{Device, Error, Result};
use std::any::Any;
use std::sync::{Arc, PoisonError};

/// A captured graph that is not instantiated.
#[derive(Debug)]
pub(super) struct Recorded {
    graph: sys::CUgraph,
    gpu: &'static Gpu,
}

/// An instantiated graph.
#[derive(Debug)]
pub(super) struct Exec {
    raw: RawExec,
    gpu: &'static Gpu,
}

#[derive(Clone, Copy, Debug)]
struct RawExec(sys::CUgraphExec);

// SAFETY: a graph belongs to no thread; it is used by one at a time, since it is not `Sync`.
unsafe impl Send for RawExec {}

/// Captures what `work` queues on the stream that it is given.
pub(super) fn record(gpu: &'static Gpu, work: impl FnOnce(&GpuStream) -> Result<()>) -> Result<Recorded> {
    let _current = Current::enter(gpu.context().cu_ctx())?;
    let _relaxed = Relaxed::enter();
    let mut recorder = gpu.recorder.lock().unwrap_or_else(PoisonError::into_inner);
    let stream = match &mut *recorder {
        Some(stream) => &*stream,
        none => none.insert(GpuStream::apart(gpu)?),
    };
    // A handle cannot be made during a capture.
    handle::on(stream)?;
    // Relaxed: loading the code of a kernel that was never launched is allowed meanwhile.
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: the stream is alive and, the lock being held, nobody else's.
    unsafe { result::stream::begin_capture(stream.cuda().cu_stream(), mode) }
        .map_err(|e| cuda("beginning a capture", e))?;
    let queued = work(stream);
    // SAFETY: this thread has begun the capture. What was captured is ours from here on.
    let ended = unsafe { result::stream::end_capture(stream.cuda().cu_stream()) };
    let recorded = ended.map(|graph| Recorded { graph, gpu });
    queued?;
    recorded.map_err(|e| cuda("ending a capture", e))?.checked()
}

impl Recorded {
    /// Refuses a graph without nodes: replays of it would leave the results as they are.
    fn checked(self) -> Result<Recorded> {
        let mut nodes = 0;
        if !self.graph.is_null() {
            // SAFETY: the graph is alive; without room for nodes only their number is written.
            let code = unsafe { sys::cuGraphGetNodes(self.graph, std::ptr::null_mut(), &mut nodes) };
            code.result().map_err(|e| cuda("counting the nodes of a graph", e))?;
        }
        if nodes == 0 {
            return Err(Error::cuda("the captured graph is empty: nothing was queued on the stream that was captured"));
        }
        Ok(self)
    }

    pub(super) fn instantiate(&self) -> Result<Exec> {
        // SAFETY: the graph is alive and the context current.
        let exec = unsafe { result::graph::instantiate(self.graph, sys::CUgraphInstantiate_flags(0)) };
        let exec = exec.map_err(|e| cuda("instantiating a CUDA graph", e))?;
        Ok(Exec { raw: RawExec(exec), gpu: self.gpu })
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if !self.graph.is_null() {
            // SAFETY: ours, and destroyed once; what was instantiated from it does not need it.
            let _ = unsafe { result::graph::destroy(self.graph) };
        }
    }
}

impl Exec {
    /// Queues it; what it uses is alive until that has run. The context is current.
    #[inline]
    pub(super) fn launch(&self, stream: &GpuStream) -> Result<()> {
        // SAFETY: graph and stream are alive and of the current context; the callers keep what is used.
        let launched = unsafe { result::graph::launch(self.raw.0, stream.cuda().cu_stream()) };
        launched.map_err(|e| cuda("launching a CUDA graph", e))
    }

    /// Takes over what another capture has other parameters for; false if that needs a new instance. The context is current.
    fn update(&mut self, from: &Recorded) -> bool {
        /// A result and two nodes.
        type Why = [usize; 3];
        type Update = unsafe extern "C" fn(sys::CUgraphExec, sys::CUgraph, *mut Why) -> sys::CUresult;
        // Not from cudarc: whether it declares the function depends on the CUDA toolkit of the machine that it is built on. It came with CUDA 12.
        // SAFETY: the driver's function of this name has this signature.
        let Ok(update) = (unsafe { driver::function::<Update>("cuGraphExecUpdate_v2") }) else { return false };
        let mut why = Why::default();
        // SAFETY: both graphs are alive, and the driver writes one structure, which is not looked at.
        unsafe { update(self.raw.0, from.graph, &mut why) == sys::CUresult::CUDA_SUCCESS }
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        self.gpu.retired.keep(Box::new(Ended { raw: self.raw, gpu: self.gpu }));
    }
}

/// A graph that is not launched any more.
struct Ended {
    raw: RawExec,
    gpu: &'static Gpu,
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Ok(_current) = Current::enter(self.gpu.context().cu_ctx()) {
            // SAFETY: ours, and destroyed once; launches that are queued still run. A failure has nobody to be told to.
            let _ = unsafe { result::graph::exec_destroy(self.raw.0) };
        }
    }
}

/// Bound calls as a CUDA graph.
#[derive(Debug)]
struct CudaGraph {
    // Before what it uses.
    exec: Exec,
    device: Device,
    others: Vec<Device>,
    _kept: Vec<Arc<Kept>>,
}

/// Captures calls of one GPU, in order; the graph is launched on the stream of the first.
pub(super) fn capture(calls: &[&dyn BoundLaunch]) -> Result<Box<dyn CapturedLaunches>> {
    let calls = ours(calls)?;
    let device = calls.first().map_or(Device::CPU, |c| c.device.clone());
    let stream = stream_of(&device)?;
    let _current = stream.enter()?;
    let _relaxed = Relaxed::enter();
    stream.gpu().bury();
    let exec = recorded(stream, &calls)?.instantiate()?;
    let (others, kept) = parts(stream, &calls);
    Ok(Box::new(CudaGraph { exec, device, others, _kept: kept }))
}

fn recorded(stream: &GpuStream, calls: &[&CudaCall]) -> Result<Recorded> {
    record(stream.gpu(), |recorder| calls.iter().try_for_each(|c| c.queue(recorder)))
}

/// What a graph needs besides itself: the other streams of its calls, and what it keeps alive.
fn parts(stream: &GpuStream, calls: &[&CudaCall]) -> (Vec<Device>, Vec<Arc<Kept>>) {
    let devices = calls.iter().flat_map(|c| c.others.iter().chain([&c.device]));
    (other_devices(stream, devices), calls.iter().map(|c| Arc::clone(&c.kept)).collect())
}

fn stream_of(device: &Device) -> Result<&GpuStream> {
    GpuStream::of(device).ok_or_else(|| Error::device(format!("a CUDA graph cannot run on {device}")))
}

impl CapturedLaunches for CudaGraph {
    fn replay(&self) -> Result<()> {
        let stream = stream_of(&self.device)?;
        let _current = stream.enter()?;
        // The caller's graph would not keep alive what this one uses.
        capture::none(stream.cuda().cu_stream(), "a graph cannot be replayed in it; launch its bound calls there")?;
        let others = OtherStreams::of(stream, &self.others);
        others.before(stream)?;
        self.exec.launch(stream)?;
        others.after(stream)
    }

    fn update(&mut self, calls: &[&dyn BoundLaunch]) -> Result<()> {
        let calls = ours(calls)?;
        let stream = stream_of(&self.device)?;
        let _current = stream.enter()?;
        let _relaxed = Relaxed::enter();
        let recorded = recorded(stream, &calls)?;
        if !self.exec.update(&recorded) {
            self.exec = recorded.instantiate()?;
        }
        // What the graph used so far is given back in stream order, behind the replays that are queued.
        (self.others, self._kept) = parts(stream, &calls);
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// What captured calls are on a GPU.
pub trait CudaCaptured {
    /// `cuGraphLaunch` and nothing else: neither the context of the thread nor the order between streams nor changed calls are looked at. For measuring
    /// what [`Captured::replay`] adds to it.
    fn launch_alone(&self) -> Result<()>;
}

impl CudaCaptured for Captured {
    fn launch_alone(&self) -> Result<()> {
        match self.launches().as_any().downcast_ref::<CudaGraph>() {
            Some(graph) => graph.exec.launch(stream_of(&graph.device)?),
            None => Err(Error::device("on the CPU there is no CUDA graph")),
        }
    }
}
