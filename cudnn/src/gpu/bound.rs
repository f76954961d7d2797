//! A launch with everything in place: variant packs, parameters of generated kernels, scratch memory.

use super::GpuStream;
use super::arena::Place;
use super::capture::Capture;
use super::executable::{Addresses, CudaExecutable, Values, fill};
use super::graph;
use super::kernels::Ready;
use super::order::{OtherStreams, other_devices};
use super::pool::Buffer;
use super::retired::Loaded;
use crate::compile::Step;
use crate::descriptor::Descriptor;
use crate::plan::Fill;
use fused_graph_core::backend::{BoundLaunch, Launch};
use fused_graph_core::tensor::Storage;
use fused_graph_core::{Device, Error, Result, Tensor};
use std::any::Any;
use std::sync::Arc;

/// A compiled function with its arguments and results.
#[derive(Debug)]
pub(super) struct CudaCall {
    executable: Arc<CudaExecutable>,
    /// With the stream.
    pub(super) device: Device,
    /// Devices with the other streams of arguments and results.
    pub(super) others: Vec<Device>,
    queue: Vec<Queued>,
    pub(super) kept: Arc<Kept>,
}

/// What the launches use: also kept by graphs that they become part of.
#[derive(Debug)]
pub(super) struct Kept {
    _program: Arc<Loaded>,
    /// Of arguments and results.
    _memory: Vec<Storage>,
    /// Memory between the kernels, of this call alone.
    scratch: Option<Arc<Buffer>>,
}

/// A launch.
#[derive(Debug)]
enum Queued {
    /// The plan of this step. The pack leads to the host scalars, which cuDNN reads at every launch.
    Plan {
        step: usize,
        pack: Descriptor,
        _scalars: Box<Values>,
    },
    Kernel(Ready),
    /// What a result must hold where a plan writes nothing.
    Fill(u64, Fill),
}

impl CudaCall {
    pub(super) fn new(executable: Arc<CudaExecutable>, launch: &Launch<'_>, results: &[Tensor]) -> Result<Self> {
        let stream = executable.stream(launch.device)?;
        let scratch = match executable.scratch_bytes() {
            0 => None,
            bytes => Some(Arc::new(stream.pool().alloc(bytes)?)),
        };
        let call = CudaCall::with(executable, launch, results, scratch)?;
        // The driver loads code when it is first launched, which a capture of the caller's may not allow: here it is loaded and nothing runs.
        if let Err(error) = graph::record(stream.gpu(), |recorder| call.queue(recorder)) {
            tracing::debug!(%error, "a bound call cannot be captured");
        }
        Ok(call)
    }

    fn with(
        executable: Arc<CudaExecutable>,
        launch: &Launch<'_>,
        results: &[Tensor],
        scratch: Option<Arc<Buffer>>,
    ) -> Result<Self> {
        let stream = executable.stream(launch.device)?;
        let _current = stream.enter()?;
        let tensors = || launch.tensors.iter().copied().chain(results);
        let addresses = executable.addresses(launch, executable.written_by(results), scratch.as_deref());
        let queue = executable.queued(&addresses, launch.scalars)?;
        let others = other_devices(stream, tensors().map(Tensor::device));
        let memory = tensors().map(|t| t.storage().clone()).collect();
        let kept = Arc::new(Kept { _program: Arc::clone(executable.loaded()), _memory: memory, scratch });
        Ok(CudaCall { device: launch.device.clone(), others, queue, kept, executable })
    }

    /// Queues the launches, also on a stream that is not the call's. The context is current.
    pub(super) fn queue(&self, stream: &GpuStream) -> Result<()> {
        for queued in &self.queue {
            match queued {
                Queued::Plan { step, pack, .. } => self.executable.launch_step(*step, pack, stream)?,
                Queued::Kernel(kernel) => kernel.queue(stream)?,
                Queued::Fill(address, what) => fill(stream, *address, what)?,
            }
        }
        Ok(())
    }
}

impl CudaExecutable {
    /// The launches of a call with these addresses.
    fn queued(&self, addresses: &Addresses<'_>, scalars: &[f64]) -> Result<Vec<Queued>> {
        let mut queue = Vec::new();
        for (at, step) in self.steps().iter().enumerate() {
            match step {
                Step::Cudnn { plan, .. } => {
                    queue.extend(plan.fills.iter().map(|f| Queued::Fill(addresses.of(f.value), *f)));
                    let mut values = Box::new(Values::new());
                    let pack = self.pack(at, plan, addresses, scalars, &mut values)?;
                    queue.push(Queued::Plan { step: at, pack, _scalars: values });
                }
                Step::Own { kernel, .. } => {
                    let scratch = addresses.place(Place::Workspace(at));
                    let ready = kernel.ready(&|v| addresses.of(v), scratch, scalars);
                    queue.extend(ready.into_iter().map(Queued::Kernel));
                }
                Step::Copy { .. } | Step::View { .. } => {
                    let Some((kernel, from, to)) = self.copied(step, addresses) else { continue };
                    let ready = kernel.ready(&|v| if v.index() == 0 { from } else { to }, 0, &[]);
                    queue.extend(ready.into_iter().map(Queued::Kernel));
                }
            }
        }
        Ok(queue)
    }
}

impl BoundLaunch for CudaCall {
    fn launch(&mut self) -> Result<()> {
        let stream = self.executable.stream(&self.device)?;
        let _current = stream.enter()?;
        let others = OtherStreams::of(stream, &self.others);
        others.before(stream)?;
        if let Some(capture) = Capture::of(stream.cuda().cu_stream())? {
            capture.keep(stream.gpu(), Arc::clone(&self.kept))?;
        }
        self.queue(stream)?;
        others.after(stream)
    }

    fn rebind(&mut self, launch: &Launch<'_>, results: &[Tensor]) -> Result<()> {
        *self = CudaCall::with(Arc::clone(&self.executable), launch, results, self.kept.scratch.clone())?;
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The calls in our own form.
pub(super) fn ours<'a>(calls: &[&'a dyn BoundLaunch]) -> Result<Vec<&'a CudaCall>> {
    let all: Option<Vec<&CudaCall>> = calls.iter().map(|c| c.as_any().downcast_ref::<CudaCall>()).collect();
    all.ok_or_else(|| Error::device("calls that are bound on different devices cannot be one graph"))
}
