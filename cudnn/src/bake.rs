//! Plans for GPUs that are elsewhere, from what was recorded.

use crate::compile;
use crate::target::Target;
use fused_graph_core::backend::CompileRequest;
use fused_graph_core::explain::{Explain, PlanSource};
use fused_graph_core::record::{Record, RecordedCall};
use fused_graph_core::store::{Bundle, Entry, Key};
use fused_graph_core::{Error, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Names of GPUs whose properties are built in.
pub fn targets() -> impl Iterator<Item = &'static str> {
    Target::known()
}

/// What was made of a record.
#[derive(Clone, Debug, Default)]
pub struct Baked {
    /// The plans.
    pub bundle: Bundle,
    /// What cannot be compiled for a GPU: target, function and why.
    pub refused: Vec<(String, String, Error)>,
}

/// The plan of one recorded call for one GPU: a name of the built-in table, or device properties as cuDNN serializes them.
pub fn bake_call(call: &RecordedCall, gpu: &str) -> Result<Entry> {
    let request = CompileRequest::new(&call.graph, &call.options, &call.alignments);
    let program = compile::bake(gpu, &request)?;
    let identity = compile::identity_for(gpu)?;
    let key = Key { device: identity.device, library: identity.library, text: call.key_text() };
    Ok(Entry { key, function: call.function.clone(), tuned: false, payload: program.to_bytes()? })
}

/// The plans of all recorded calls for all GPUs, on all cores. `progress` is called when one is done, with how many are.
pub fn bake(record: &Record, gpus: &[String], progress: impl Fn(usize) + Sync) -> Result<Baked> {
    // A library or a GPU that is missing is one error, not one for each call.
    gpus.iter().try_for_each(|gpu| compile::identity_for(gpu).map(drop))?;
    let work: Vec<(&RecordedCall, &String)> =
        gpus.iter().flat_map(|gpu| record.calls.iter().map(move |call| (call, gpu))).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(work.len().max(1));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&(call, gpu)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let entry = bake_call(call, gpu);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((gpu, call, entry));
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1);
                }
            });
        }
    });
    let mut baked = Baked::default();
    for (gpu, call, entry) in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
        match entry {
            Ok(entry) => baked.bundle.add(entry),
            Err(error) => baked.refused.push((gpu.clone(), call.function.clone(), error)),
        }
    }
    baked.refused.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    Ok(baked)
}

/// What becomes of a recorded call on a GPU that is elsewhere.
pub fn explain(call: &RecordedCall, gpu: &str) -> Result<Explain> {
    let request = CompileRequest::new(&call.graph, &call.options, &call.alignments);
    let program = compile::compile_for(gpu, &request)?;
    let identity = compile::identity_for(gpu)?;
    Ok(Explain {
        function: call.function.clone(),
        device: format!("{}, {}", identity.device, identity.library),
        arguments: call.graph.inputs().map(|(v, _)| call.graph.describe(v)).collect(),
        kernels: program.reports(),
        cuts: program.cut_texts(),
        source: PlanSource::Built,
    })
}
