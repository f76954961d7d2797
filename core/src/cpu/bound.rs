//! Bound calls on the CPU, and what stands in for a CUDA graph there.

use super::exec::{CpuExecutable, computed};
use crate::backend::{BoundLaunch, CapturedLaunches, Launch, Results};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::fuse::resolve;
use crate::ir::ValueKind;
use crate::tensor::{HostData, Storage, Tensor};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

/// A compiled graph with its arguments and results.
#[derive(Debug)]
pub(super) struct CpuCall {
    executable: Arc<CpuExecutable>,
    tensors: Vec<Tensor>,
    scalars: Vec<f64>,
    results: Results,
    /// Memory of earlier results that nobody looks at any more: the next launch computes into it, so that readers never see half a result.
    spare: Vec<HostData>,
}

impl CpuCall {
    pub(super) fn new(executable: Arc<CpuExecutable>, launch: &Launch<'_>, results: &[Tensor]) -> Self {
        let tensors = launch.tensors.iter().map(|&t| t.clone()).collect();
        let (scalars, results) = (launch.scalars.to_vec(), results.iter().cloned().collect());
        CpuCall { executable, tensors, scalars, results, spare: Vec::new() }
    }

    /// The same call, with memory of its own to compute into.
    fn copy(&self) -> CpuCall {
        CpuCall {
            executable: Arc::clone(&self.executable),
            tensors: self.tensors.clone(),
            scalars: self.scalars.clone(),
            results: self.results.clone(),
            spare: Vec::new(),
        }
    }

    fn run(&mut self) -> Result<()> {
        let graph = &self.executable.graph;
        let tensors: SmallVec<[&Tensor; 8]> = self.tensors.iter().collect();
        let launch = Launch { device: &Device::CPU, tensors: &tensors, scalars: &self.scalars };
        let table = self.executable.execute(&launch, &mut self.spare)?;
        let mut old = Vec::new();
        for (tensor, &v) in self.results.iter().zip(graph.outputs()) {
            let seen = resolve(graph, v);
            let (data, start) = computed(graph, &table, seen.base)?;
            let Storage::Host(memory) = tensor.storage() else { continue };
            let ours = start == 0 && tensor.offset() == seen.offset && *tensor.strides() == seen.strides;
            if ours && memory.load().len() == data.len() {
                old.push(memory.replace(data));
            } else {
                tensor.overwrite_host(memory, data, start + seen.offset, &seen.strides);
            }
        }
        let computed = graph.values().zip(table).filter(|((_, value), _)| matches!(value.kind, ValueKind::Node(_)));
        old.extend(computed.filter_map(|(_, entry)| entry.map(|(data, _)| data)));
        self.spare = old.into_iter().filter_map(Arc::into_inner).collect();
        Ok(())
    }
}

impl BoundLaunch for CpuCall {
    fn launch(&mut self) -> Result<()> {
        self.run()
    }

    fn rebind(&mut self, launch: &Launch<'_>, results: &[Tensor]) -> Result<()> {
        *self = CpuCall::new(Arc::clone(&self.executable), launch, results);
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Calls as they were when they were captured.
#[derive(Debug)]
struct CpuGraph(RefCell<Vec<CpuCall>>);

/// The calls as they are now, to be run again.
pub(crate) fn capture(calls: &[&dyn BoundLaunch]) -> Result<Box<dyn CapturedLaunches>> {
    Ok(Box::new(CpuGraph(RefCell::new(copies(calls)?))))
}

fn copies(calls: &[&dyn BoundLaunch]) -> Result<Vec<CpuCall>> {
    let copy = |call: &&dyn BoundLaunch| call.as_any().downcast_ref::<CpuCall>().map(CpuCall::copy);
    let all: Option<Vec<CpuCall>> = calls.iter().map(copy).collect();
    all.ok_or_else(|| Error::device("calls that are bound on different devices cannot be one graph"))
}

impl CapturedLaunches for CpuGraph {
    fn replay(&self) -> Result<()> {
        self.0.borrow_mut().iter_mut().try_for_each(CpuCall::run)
    }

    fn update(&mut self, calls: &[&dyn BoundLaunch]) -> Result<()> {
        *self.0.get_mut() = copies(calls)?;
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
