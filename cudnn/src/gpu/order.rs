//! Order between streams: work on the streams of the arguments comes before ours, and what follows there comes after it.

use super::{GpuStream, capture};
use fused_graph_core::{Device, Result};
use smallvec::SmallVec;

/// Streams of tensors other than the one that launches: their work comes first, and their memory is not reused before ours is done.
pub(super) struct OtherStreams<'a>(SmallVec<[&'a GpuStream; 2]>);

impl<'a> OtherStreams<'a> {
    /// Those of devices, each once.
    pub(super) fn of(stream: &GpuStream, devices: impl IntoIterator<Item = &'a Device>) -> Self {
        let mut others: SmallVec<[&GpuStream; 2]> = SmallVec::new();
        for other in devices.into_iter().filter_map(GpuStream::of) {
            if other.id() != stream.id() && !others.iter().any(|o| o.id() == other.id()) {
                others.push(other);
            }
        }
        OtherStreams(others)
    }

    /// Makes `stream` wait for them. The context is current.
    pub(super) fn before(&self, stream: &GpuStream) -> Result<()> {
        self.0.iter().try_for_each(|other| {
            capture::same(stream, other)?;
            stream.wait_for(other)
        })
    }

    /// Makes them wait for `stream`.
    pub(super) fn after(&self, stream: &GpuStream) -> Result<()> {
        self.0.iter().try_for_each(|other| other.wait_for(stream))
    }
}

/// Devices that stand for those streams, to be kept.
pub(super) fn other_devices<'a>(stream: &GpuStream, devices: impl IntoIterator<Item = &'a Device>) -> Vec<Device> {
    let mut others: Vec<Device> = Vec::new();
    for device in devices {
        let Some(other) = GpuStream::of(device) else { continue };
        let known = |d: &Device| GpuStream::of(d).is_some_and(|s| s.id() == other.id());
        if other.id() != stream.id() && !others.iter().any(known) {
            others.push(device.clone());
        }
    }
    others
}
