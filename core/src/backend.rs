//! What the rest of the crate asks of a device other than the CPU, and of a compiled graph on any device.

use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::explain::Explain;
use crate::ir::Graph;
use crate::layout::Dims;
use crate::tensor::Tensor;
use crate::tune::{TuneOptions, TuneReport};
use smallvec::SmallVec;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

pub use crate::options::{Heuristics, Note, Options};

/// Memory of an accelerator. Freed (or given back to its pool, in stream order) when dropped; dropping never panics.
pub trait DeviceBuffer: Send + Sync + Debug {
    /// Address of the first byte on the device.
    fn address(&self) -> u64;
    /// Its size.
    fn bytes(&self) -> usize;
    /// For the backend that made it.
    fn as_any(&self) -> &dyn Any;
}

/// A GPU with a stream on which its work is ordered.
pub trait Accelerator: Send + Sync + Debug {
    /// The same for all streams of one GPU in this process, different for every two GPUs: part of the in-memory key.
    fn id(&self) -> u64;
    /// For texts: name, architecture and the versions of what was loaded.
    fn description(&self) -> String;
    /// What a stored plan must have been made for.
    fn identity(&self) -> Identity;
    /// BF16 where the GPU computes with it, else F16.
    fn preferred_half(&self) -> DType;
    /// Memory with unspecified content.
    fn alloc(&self, bytes: usize) -> Result<Arc<dyn DeviceBuffer>>;
    /// Copies host bytes to new memory.
    fn upload(&self, bytes: &[u8]) -> Result<Arc<dyn DeviceBuffer>>;
    /// Waits for the stream, then copies to the host.
    fn download(&self, buffer: &dyn DeviceBuffer, offset: usize, out: &mut [u8]) -> Result<()>;
    /// Copies a tensor of this device to new memory with these (dense) strides and this element type.
    fn copy(&self, from: &Tensor, strides: &Dims, dtype: DType) -> Result<Arc<dyn DeviceBuffer>>;
    /// Overwrites a tensor of this stream, each of whose elements has a place of its own, with one of the same dims and element type in other memory
    /// of this GPU.
    fn overwrite(&self, to: &Tensor, from: &Tensor) -> Result<()>;
    /// Waits for the stream.
    fn synchronize(&self) -> Result<()>;
    /// Turns a graph into something that runs on this GPU.
    fn compile(&self, request: &CompileRequest<'_>) -> Result<Arc<dyn Executable>>;
    /// The same with the engines that are fastest on the arguments of a launch, which are only read.
    fn tune(
        &self,
        request: &CompileRequest<'_>,
        launch: &Launch<'_>,
        options: &TuneOptions,
    ) -> Result<(Arc<dyn Executable>, TuneReport)>;
    /// Records launches that are bound to this GPU into one CUDA graph.
    fn capture(&self, calls: &[&dyn BoundLaunch]) -> Result<Box<dyn CapturedLaunches>>;
    /// For the backend that made it.
    fn as_any(&self) -> &dyn Any;
}

/// What a stored plan depends on besides its graph, the same in every process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name, architecture and number of multiprocessors.
    pub device: String,
    /// The library with its version, and what else decides whether its plans can be used.
    pub library: String,
}

impl Identity {
    /// Of a device.
    pub fn of(device: &Device) -> Identity {
        match device.accelerator() {
            Some(accelerator) => accelerator.identity(),
            None => Identity { device: "CPU".to_owned(), library: Self::with_own_version("no library") },
        }
    }

    /// A library's name and version with that of this crate, which must be the same too.
    pub fn with_own_version(library: &str) -> String {
        format!("{library}, fused-graph {}", env!("CARGO_PKG_VERSION"))
    }
}

/// A graph and what a plan for it depends on besides.
#[derive(Clone, Debug)]
pub struct CompileRequest<'a> {
    /// The graph; the strides of its inputs are those of the tensors of the call.
    pub graph: &'a Arc<Graph>,
    /// The options of the function.
    pub options: &'a Options,
    /// For each tensor of the call, the largest power of two up to 256 that divides its address.
    pub alignments: &'a [u32],
    /// What another process stored of the same compilation ([`Executable::to_bytes`]). What is not usable of it is compiled.
    pub known: Option<&'a [u8]>,
}

impl<'a> CompileRequest<'a> {
    /// A request of which nothing is known.
    pub fn new(graph: &'a Arc<Graph>, options: &'a Options, alignments: &'a [u32]) -> Self {
        CompileRequest { graph, options, alignments, known: None }
    }
}

/// The arguments of one launch.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The device of the tensors (of the first one, which gives the stream), or where to run a function without tensors.
    pub device: &'a Device,
    /// The tensors that are present, in the order of the graph's inputs.
    pub tensors: &'a [&'a Tensor],
    /// The host scalars, in the order of the graph's scalars.
    pub scalars: &'a [f64],
}

/// The results of one launch.
pub type Results = SmallVec<[Tensor; 2]>;

/// A compiled graph. Safe to run from many threads at once.
pub trait Executable: Send + Sync + Debug {
    /// Runs it. The signature of the arguments was compared with the one it was compiled for.
    fn run(&self, launch: &Launch<'_>) -> Result<Results>;
    /// Tensors to be the results of a bound launch; what is in them does not matter.
    fn results(&self, device: &Device) -> Result<Results>;
    /// A launch with fixed arguments, whose results are written to these tensors: in the layout of [`results`](Self::results), and sharing no memory with an
    /// argument.
    fn bind(self: Arc<Self>, launch: &Launch<'_>, results: &[Tensor]) -> Result<Box<dyn BoundLaunch>>;
    /// What `explain` prints.
    fn explain(&self) -> Explain;
    /// What spares another process the compilation; nothing where there is nothing to spare.
    fn to_bytes(&self) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }
    /// Kernels that were compiled and not made from stored bytes.
    fn compiled(&self) -> usize {
        1
    }
    /// Kernels that serve other sizes too, and how many of them were there before.
    fn shared(&self) -> (usize, usize) {
        (0, 0)
    }
    /// For the backend that made it.
    fn as_any(&self) -> &dyn Any;
}

/// An executable with its arguments and its results, all kept alive: launching looks nothing up and allocates nothing.
pub trait BoundLaunch: Send + Debug {
    /// Queues it on its stream; on the CPU runs it.
    fn launch(&mut self) -> Result<()>;
    /// Takes other arguments and results of the same signature. Nothing has changed if that fails.
    fn rebind(&mut self, launch: &Launch<'_>, results: &[Tensor]) -> Result<()>;
    /// For the backend that made it.
    fn as_any(&self) -> &dyn Any;
}

/// Bound launches as they were when they were captured, with all that they use kept alive.
pub trait CapturedLaunches: Send + Debug {
    /// Queues all of them, in order; on the CPU runs them.
    fn replay(&self) -> Result<()>;
    /// Captures the same calls as they are now. Nothing has changed if that fails.
    fn update(&mut self, calls: &[&dyn BoundLaunch]) -> Result<()>;
    /// For the backend that made it.
    fn as_any(&self) -> &dyn Any;
}
