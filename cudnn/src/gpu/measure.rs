//! What the parts of a call cost on the host, for `benches/gpu.rs`.

use super::executable::{CudaExecutable, Values};
use super::{GpuStream, handle};
use fused_graph_core::backend::{Accelerator, Launch};
use fused_graph_core::{Error, Result};
use std::time::Instant;

impl CudaExecutable {
    /// Nanoseconds on the host for each part of a launch of its first plan; median of windows of `calls`.
    #[doc(hidden)]
    pub fn measure_parts(&self, launch: &Launch<'_>, calls: usize) -> Result<Vec<(&'static str, f64)>> {
        let (Some(stream), Some((at, plan))) = (GpuStream::of(launch.device), self.first_plan()) else {
            return Err(Error::argument("nothing of cuDNN's to measure"));
        };
        let _current = stream.enter()?;
        let buffers = self.results_memory(stream)?;
        let scratch = stream.pool().alloc(self.scratch_bytes().max(1))?;
        let addresses = self.addresses(launch, buffers.iter().map(|b| b.address), Some(&scratch));
        let mut kept = Values::new();
        let pack = self.pack(at, plan, &addresses, launch.scalars, &mut kept)?;
        let new_pack = || {
            let mut values = Values::new();
            self.pack(at, plan, &addresses, launch.scalars, &mut values).map(|p| (p, values))
        };
        Ok(vec![
            ("cudnnBackendExecute, variant pack kept", median(stream, calls, || self.launch(plan, &pack, stream))?),
            (
                "cudnnBackendExecute, new variant pack each call",
                median(stream, calls, || {
                    let (pack, _values) = new_pack()?;
                    self.launch(plan, &pack, stream)
                })?,
            ),
            ("variant pack alone", median(stream, calls, || new_pack().map(drop))?),
            ("memory of the results", median(stream, calls, || self.results_memory(stream).map(drop))?),
            (
                "context and handle",
                median(stream, calls, || {
                    let _current = stream.enter()?;
                    handle::on(stream).map(drop)
                })?,
            ),
        ])
    }
}

fn median(stream: &GpuStream, calls: usize, mut f: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut windows = Vec::new();
    for _ in 0..15 {
        let start = Instant::now();
        for _ in 0..calls {
            f()?;
        }
        windows.push(start.elapsed().as_secs_f64() * 1e9 / calls as f64);
        stream.synchronize()?;
    }
    windows.sort_by(f64::total_cmp);
    Ok(windows[windows.len() / 2])
}
