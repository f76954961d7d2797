//! Bound calls in a CUDA graph.

use super::bound::{BoundCall, Fixed};
use crate::backend::{BoundLaunch, CapturedLaunches};
use crate::error::{Error, Result};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One or several bound calls as one CUDA graph: [`replay`](Self::replay) costs one graph launch, whatever is in it. On the CPU it runs the calls.
///
/// The graph keeps alive all that it uses: plans, arguments, results and the memory between kernels. The calls themselves may be dropped.
/// It can be sent to another thread, but one thread at a time replays it.
///
/// Values that are [written](crate::Tensor::write) into the buffers of the arguments count at the next replay. Other buffers and scalars
/// ([`Bound::set_tensor`](super::Bound::set_tensor), [`set_scalar`](super::Bound::set_scalar), [`set_output`](super::Bound::set_output)) are not in the graph:
/// from then on a replay is an error, until [`update`](Self::update) puts them there.
///
/// ```
/// use fused_graph::prelude::*;
///
/// #[fused_graph]
/// fn scaled(x: &Tensor, alpha: f32) -> Tensor {
///     alpha * x
/// }
///
/// # fn main() -> fused_graph::Result<()> {
/// let x = Tensor::from_slice(&[1.0_f32, 2.0], [2], &Device::cpu())?;
/// let mut call = scaled::bind(&x, 2.0)?;
/// let mut graph = call.capture()?;
/// graph.replay()?;
/// assert_eq!(call.outputs().to_vec::<f32>()?, [2.0, 4.0]);
///
/// x.write(&[3.0_f32, 4.0])?;
/// graph.replay()?;
/// assert_eq!(call.outputs().to_vec::<f32>()?, [6.0, 8.0]);
///
/// call.set_scalar("alpha", 10.0)?;
/// assert!(graph.replay().is_err()); // never a result of the old scalar
/// graph.update(&[&call])?;
/// graph.replay()?;
/// assert_eq!(call.outputs().to_vec::<f32>()?, [30.0, 40.0]);
/// # Ok(())
/// # }
/// ```
pub struct Captured {
    graph: Box<dyn CapturedLaunches>,
    calls: Vec<Known>,
}

/// What a graph knows of a call.
struct Known {
    function: &'static str,
    /// The call's own count of changes, and what it was when it was captured.
    revision: Arc<AtomicU64>,
    captured: u64,
}

impl Known {
    fn of(call: &dyn BoundCall) -> Known {
        let Fixed { revision, .. } = call.fixed();
        let captured = revision.load(Ordering::Acquire);
        Known { function: call.fixed().name(), revision: Arc::clone(revision), captured }
    }
}

impl Captured {
    /// Captures calls in one graph, in this order. What one writes another may read.
    ///
    /// ```
    /// # use fused_graph::{Captured, prelude::*};
    /// # #[fused_graph]
    /// # fn double(x: &Tensor) -> Tensor { x + x }
    /// # fn main() -> fused_graph::Result<()> {
    /// let x = Tensor::ones([2], DType::F32, &Device::cpu())?;
    /// let first = double::bind(&x)?;
    /// let second = double::bind(first.outputs())?;
    /// let graph = Captured::of(&[&first, &second])?;
    /// graph.replay()?;
    /// assert_eq!(second.outputs().to_vec::<f32>()?, [4.0, 4.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn of(calls: &[&dyn BoundCall]) -> Result<Captured> {
        let Some((first, rest)) = calls.split_first() else {
            return Err(Error::argument("a graph of no calls has nothing to replay; capture at least one bound call"));
        };
        let (first, device) = (first.fixed(), &first.fixed().device);
        if let Some(other) = rest.iter().map(|c| c.fixed()).find(|c| c.device != *device) {
            return Err(Error::device(format!(
                "calls in one graph must be bound on one device, but `{}` is bound on {device} and `{}` on {}",
                first.name(),
                other.name(),
                other.device
            )));
        }
        let launches = launches(calls);
        let graph = match device.accelerator() {
            None => crate::cpu::capture(&launches),
            Some(accelerator) => accelerator.capture(&launches),
        }?;
        Ok(Captured { graph, calls: calls.iter().map(|c| Known::of(*c)).collect() })
    }

    /// Queues the graph on the stream of its first call; on the CPU runs the calls.
    ///
    /// An error if a call was given another tensor or scalar since it was captured: nothing has run then.
    #[inline]
    pub fn replay(&self) -> Result<()> {
        match self.calls.iter().find(|c| c.revision.load(Ordering::Acquire) != c.captured) {
            None => self.graph.replay(),
            Some(changed) => Err(stale(changed.function)),
        }
    }

    /// Captures the same calls, in the same order, as they are now. Where the driver can it changes the instantiated graph in place. Replays that are queued
    /// already are not affected.
    pub fn update(&mut self, calls: &[&dyn BoundCall]) -> Result<()> {
        let same = |(known, call): (&Known, &&dyn BoundCall)| Arc::ptr_eq(&known.revision, &call.fixed().revision);
        if calls.len() != self.calls.len() || !self.calls.iter().zip(calls).all(same) {
            let names: Vec<String> = self.calls.iter().map(|c| format!("`{}`", c.function)).collect();
            return Err(Error::argument(format!(
                "a graph is updated with the calls that it was captured from, here those of {}; capture others anew",
                names.join(", ")
            )));
        }
        self.graph.update(&launches(calls))?;
        self.calls = calls.iter().map(|c| Known::of(*c)).collect();
        Ok(())
    }

    /// For the backend that made it.
    #[doc(hidden)]
    pub fn launches(&self) -> &dyn CapturedLaunches {
        &*self.graph
    }
}

fn launches<'a>(calls: &[&'a dyn BoundCall]) -> Vec<&'a dyn BoundLaunch> {
    calls.iter().map(|c| &*c.fixed().launch).collect()
}

#[cold]
fn stale(function: &str) -> Error {
    Error::argument(format!(
        "`{function}` was bound to another tensor or scalar after the graph was captured; call `update` on the graph first"
    ))
}

impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.calls.iter().map(|c| c.function).collect();
        write!(f, "Captured calls of {}", names.join(", "))
    }
}
