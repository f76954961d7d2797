//! A compiled function on a GPU, and the path of a call.

use super::arena::{Place, plan_memory};
use super::bound::CudaCall;
use super::capture::{self, Capture, Relaxed};
use super::kernels::{self, Kernel};
use super::order::OtherStreams;
use super::pool::Buffer;
use super::retired::Loaded;
use super::{Gpu, GpuStream, handle};
use crate::compile::{self, Program, Step};
use crate::descriptor::{Descriptor, failure};
use crate::error::cuda;
use crate::lower::{Binding, Source};
use crate::plan::{Fill, KernelPlan, Known};
use crate::target::Target;
use cudarc::driver::{result, sys};
use cudnn_sys::{AttributeName, DescriptorType};
use fused_graph_core::backend::{BoundLaunch, CompileRequest, Executable, Launch, Results};
use fused_graph_core::cpu::oracle;
use fused_graph_core::explain::{Explain, PlanSource};
use fused_graph_core::fuse::{self, MemRef};
use fused_graph_core::ir::{Graph, ValueId, ValueKind};
use fused_graph_core::tensor::Storage;
use fused_graph_core::{DType, Device, Error, Result, Tensor};
use smallvec::SmallVec;
use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

/// A compiled function on a GPU.
#[derive(Debug)]
pub struct CudaExecutable {
    gpu: &'static Gpu,
    program: Arc<Loaded>,
    /// The values that are results or what results look at, each written to memory of its own.
    written: Vec<ValueId>,
    /// For each result what it looks at.
    results: Vec<MemRef>,
    /// Intermediates and scratch memory: where they lie.
    places: Vec<(Place, u64)>,
    scratch: u64,
    /// Kernels that were compiled for it, and not made from stored bytes.
    compiled: usize,
}

/// Host scalars of a launch, each in a word of its own.
pub(super) type Values = SmallVec<[[u8; 8]; 8]>;

/// Addresses of a call.
pub(super) struct Addresses<'a> {
    executable: &'a CudaExecutable,
    inputs: SmallVec<[u64; 8]>,
    written: SmallVec<[u64; 4]>,
    scratch: u64,
}

impl Addresses<'_> {
    #[inline]
    pub(super) fn of(&self, v: ValueId) -> u64 {
        if let ValueKind::Input { index } = self.executable.program.graph.value(v).kind {
            return self.inputs[index];
        }
        match self.executable.written.iter().position(|w| *w == v) {
            Some(at) => self.written[at],
            None => self.place(Place::Value(v)),
        }
    }

    pub(super) fn place(&self, place: Place) -> u64 {
        let found = self.executable.places.iter().find(|(p, _)| *p == place);
        found.map_or(0, |(_, offset)| self.scratch + offset)
    }
}

impl CudaExecutable {
    pub(super) fn compile(stream: &GpuStream, request: &CompileRequest<'_>) -> Result<Self> {
        let gpu = stream.gpu();
        capture::none(
            stream.cuda().cu_stream(),
            format_args!(
                "`{0}` has no plan for these arguments yet; call `{0}` with such ones before",
                request.graph.name()
            ),
        )?;
        let _current = stream.enter()?;
        let _relaxed = Relaxed::enter();
        gpu.bury();
        let target = Target::live(handle::on(stream)?, gpu.sm);
        let known = request.known.map(Known::from_bytes).transpose();
        let known = known.unwrap_or_else(|error| {
            tracing::warn!(%error, function = request.graph.name(), "a stored plan is built anew");
            None
        });
        let known = known.unwrap_or_default();
        let mut compiled = 0;
        let mut own = |graph: &Graph, group: &fuse::Group| {
            let (kernel, now) = kernels::of_group(gpu, graph, group, &known)?;
            compiled += now as usize;
            Ok(kernel)
        };
        let program = compile::compile(gpu.library.api(), &target, request, &known, &gpu.caches, &mut own)?;
        let graph = request.graph;
        let results: Vec<MemRef> = graph.outputs().iter().map(|&v| fuse::resolve(graph, v)).collect();
        let mut written: Vec<ValueId> = results.iter().map(|r| r.base).collect();
        written.sort();
        written.dedup();
        let (places, scratch) = plan_memory(&program, &written);
        let compiled = compiled + program.compiled();
        let program = Loaded::new(gpu, program);
        super::exit::watch();
        Ok(CudaExecutable { gpu, program, written, results, places, scratch, compiled })
    }

    /// Memory for what the function gives.
    pub(super) fn results_memory(&self, stream: &GpuStream) -> Result<SmallVec<[Arc<Buffer>; 4]>> {
        let mut buffers = SmallVec::new();
        for &v in &self.written {
            buffers.push(Arc::new(stream.pool().alloc(bytes(&self.program.graph, v))?));
        }
        Ok(buffers)
    }

    /// The stream of a device, which must be of the GPU that this was compiled for.
    #[inline]
    pub(super) fn stream<'a>(&self, device: &'a Device) -> Result<&'a GpuStream> {
        let stream = GpuStream::of(device).filter(|s| std::ptr::eq(s.gpu(), self.gpu));
        stream
            .ok_or_else(|| Error::device(format!("a plan for {} was given tensors of {device}", self.gpu.description)))
    }

    /// The results, given the memory of what is written.
    fn tensors(&self, device: &Device, buffers: &[Arc<Buffer>]) -> Results {
        let graph = &*self.program.graph;
        let results = self.results.iter().zip(graph.outputs()).filter_map(|(seen, &v)| {
            let at = self.written.iter().position(|w| *w == seen.base)?;
            let storage = Storage::Device(Arc::clone(&buffers[at]) as _);
            let dtype = graph.value(v).dtype;
            Some(Tensor::from_parts(device.clone(), storage, dtype, seen.dims, seen.strides, seen.offset))
        });
        results.collect()
    }

    /// Where what is written lies if these are the results.
    pub(super) fn written_by<'a>(&'a self, results: &'a [Tensor]) -> impl Iterator<Item = u64> + 'a {
        self.written.iter().map(move |w| {
            let found = self.results.iter().zip(results).find(|(seen, _)| seen.base == *w);
            found.map_or(0, |(seen, t)| (t.address() as i64 - seen.offset * t.dtype().size() as i64) as u64)
        })
    }

    pub(super) fn addresses(
        &self,
        launch: &Launch<'_>,
        written: impl Iterator<Item = u64>,
        scratch: Option<&Buffer>,
    ) -> Addresses<'_> {
        Addresses {
            executable: self,
            inputs: launch.tensors.iter().map(|t| t.address()).collect(),
            written: written.collect(),
            scratch: scratch.map_or(0, |s| s.address),
        }
    }

    /// Leaves all that a captured call uses to the graph. Nothing is given back to the pool.
    fn leave_to(
        &self,
        capture: &Capture,
        launch: &Launch<'_>,
        buffers: &[Arc<Buffer>],
        scratch: Option<Buffer>,
    ) -> Result<Option<Buffer>> {
        let arguments: Vec<Storage> = launch.tensors.iter().map(|t| t.storage().clone()).collect();
        capture.keep(self.gpu, (Arc::clone(&self.program), arguments, buffers.to_vec(), scratch))?;
        Ok(None)
    }

    /// What was compiled, to be kept.
    pub(super) fn loaded(&self) -> &Arc<Loaded> {
        &self.program
    }

    /// What was compiled.
    pub(super) fn program(&self) -> &Program<Arc<Kernel>> {
        &self.program
    }

    /// The first plan of cuDNN's, for measuring its parts.
    pub(super) fn first_plan(&self) -> Option<(usize, &KernelPlan)> {
        self.program.steps.iter().enumerate().find_map(|(at, step)| match step {
            Step::Cudnn { plan, .. } => Some((at, plan)),
            _ => None,
        })
    }

    pub(super) fn scratch_bytes(&self) -> usize {
        self.scratch as usize
    }

    fn step(
        &self,
        at: usize,
        step: &Step<Arc<Kernel>>,
        stream: &GpuStream,
        addresses: &Addresses<'_>,
        scalars: &[f64],
    ) -> Result<()> {
        match step {
            Step::Cudnn { plan, .. } => self.execute(at, plan, stream, addresses, scalars),
            Step::Own { kernel, .. } => {
                kernel.run(stream, &|v| addresses.of(v), addresses.place(Place::Workspace(at)), scalars)
            }
            Step::Copy { .. } | Step::View { .. } => match self.copied(step, addresses) {
                Some((kernel, from, to)) => copy(stream, kernel, from, to),
                None => Ok(()),
            },
        }
    }

    /// What copies in a step that does nothing else, from where and to where.
    pub(super) fn copied<'a>(
        &self,
        step: &'a Step<Arc<Kernel>>,
        addresses: &Addresses<'_>,
    ) -> Option<(&'a Kernel, u64, u64)> {
        let graph = &*self.program.graph;
        match step {
            Step::Copy { value, kernel, .. } => {
                Some((kernel, self.address_of_view(addresses, *value), addresses.place(Place::Copy(*value))))
            }
            Step::View { group, kernel } => {
                let node = graph.node(group.nodes[group.nodes.len() - 1]);
                Some((kernel, self.address_of_view(addresses, node.inputs[0]), addresses.of(node.output)))
            }
            Step::Cudnn { .. } | Step::Own { .. } => None,
        }
    }

    pub(super) fn steps(&self) -> &[Step<Arc<Kernel>>] {
        &self.program.steps
    }

    /// Where the first element of a value lies, through its views.
    fn address_of_view(&self, addresses: &Addresses<'_>, value: ValueId) -> u64 {
        let graph = &*self.program.graph;
        let seen = fuse::resolve(graph, value);
        (addresses.of(seen.base) as i64 + seen.offset * graph.value(value).dtype.size() as i64) as u64
    }

    /// Runs a plan on the stream of the thread's handle.
    fn execute(
        &self,
        at: usize,
        plan: &KernelPlan,
        stream: &GpuStream,
        addresses: &Addresses<'_>,
        scalars: &[f64],
    ) -> Result<()> {
        let mut values = Values::new();
        let pack = self.pack(at, plan, addresses, scalars, &mut values)?;
        plan.fills.iter().try_for_each(|f| fill(stream, addresses.of(f.value), f))?;
        self.launch(plan, &pack, stream)
    }

    /// A variant pack with the addresses of a call. Host scalars lie in `values`, which must stay where it is until the launch.
    pub(super) fn pack(
        &self,
        at: usize,
        plan: &KernelPlan,
        addresses: &Addresses<'_>,
        scalars: &[f64],
        values: &mut Values,
    ) -> Result<Descriptor> {
        for binding in plan.bindings.iter().filter(|b| b.source.is_by_value()) {
            values.push(scalar_word(&self.program.graph, binding, scalars));
        }
        let mut next = values.as_mut_ptr();
        let mut uids: SmallVec<[i64; 16]> = SmallVec::new();
        let mut pointers: SmallVec<[*mut c_void; 16]> = SmallVec::new();
        for binding in &plan.bindings {
            uids.push(binding.uid);
            pointers.push(match binding.source {
                Source::Memory { base, offset } => (addresses.of(base) as i64 + offset) as *mut c_void,
                Source::Copy { value, offset } => (addresses.place(Place::Copy(value)) as i64 + offset) as *mut c_void,
                Source::Scalar(_) | Source::Number(_) => {
                    let here = next;
                    next = next.wrapping_add(1);
                    here.cast()
                }
            });
        }
        let workspace = addresses.place(Place::Workspace(at)) as *mut c_void;
        Descriptor::build(self.gpu.library.api(), DescriptorType::VARIANT_PACK, |d| {
            d.set(AttributeName::VARIANT_PACK_UNIQUE_IDS, &uids)?;
            d.set_pointers(AttributeName::VARIANT_PACK_DATA_POINTERS, &pointers)?;
            d.set_pointers(AttributeName::VARIANT_PACK_WORKSPACE, &[workspace])
        })
    }

    /// Queues a plan. The context is current, and what the pack names is alive.
    pub(super) fn launch(&self, plan: &KernelPlan, pack: &Descriptor, stream: &GpuStream) -> Result<()> {
        let api = self.gpu.library.api();
        let handle = handle::on(stream)?;
        // SAFETY: the plan was built for this GPU and these dims, strides, types and alignments, which are the key of this executable; the pack
        // names memory that is alive until the stream has run the kernel (arguments are held by the caller and given back in stream order), and
        // host scalars, which are read before the call returns. The handle is this thread's.
        let status = unsafe { (api.backend_execute)(handle, plan.descriptor.raw(), pack.raw()) };
        if status.is_success() { Ok(()) } else { Err(failure(api, status, "running a plan")) }
    }

    /// Queues the plan of a step. As [`launch`](Self::launch).
    pub(super) fn launch_step(&self, at: usize, pack: &Descriptor, stream: &GpuStream) -> Result<()> {
        match self.program.steps.get(at) {
            Some(Step::Cudnn { plan, .. }) => self.launch(plan, pack, stream),
            _ => Ok(()),
        }
    }
}

/// The value of a host scalar as cuDNN reads it.
pub(super) fn scalar_word(graph: &Graph, binding: &Binding, scalars: &[f64]) -> [u8; 8] {
    let value = match binding.source {
        Source::Scalar(v) => oracle::scalar_value(graph, v, scalars),
        Source::Number(value) => value,
        _ => return [0; 8],
    };
    let mut word = [0; 8];
    match binding.dtype {
        DType::I32 => word[..4].copy_from_slice(&(value as i32).to_ne_bytes()),
        _ => word[..4].copy_from_slice(&(value as f32).to_ne_bytes()),
    }
    word
}

/// Queues the filling of a result.
pub(super) fn fill(stream: &GpuStream, address: u64, fill: &Fill) -> Result<()> {
    let queue = stream.cuda().cu_stream();
    let filled = match fill.word {
        // SAFETY: the result has these bytes; those of F32 are a multiple of four, and its memory is aligned.
        0 => unsafe { result::memset_d8_async(address, 0, fill.bytes, queue) },
        // SAFETY: as above.
        word => unsafe { sys::cuMemsetD32Async(address, word, fill.bytes / 4, queue).result() },
    };
    filled.map_err(|e| cuda("filling a result", e))
}

/// Queues a copying kernel, whose graph has one argument (its first value) and one result.
pub(super) fn copy(stream: &GpuStream, kernel: &Kernel, from: u64, to: u64) -> Result<()> {
    kernel.run(stream, &|v| if v.index() == 0 { from } else { to }, 0, &[])
}

/// Bytes of a dense value.
pub(super) fn bytes(graph: &Graph, v: ValueId) -> usize {
    graph.value(v).dims.numel() * graph.value(v).dtype.size()
}

impl Executable for CudaExecutable {
    fn run(&self, launch: &Launch<'_>) -> Result<Results> {
        let stream = self.stream(launch.device)?;
        let _current = stream.enter()?;
        let others = OtherStreams::of(stream, launch.tensors.iter().map(|t| t.device()));
        others.before(stream)?;
        let buffers = self.results_memory(stream)?;
        // Given back to the pool at the end of the call, which is in stream order behind the kernels.
        let scratch = if self.scratch > 0 { Some(stream.pool().alloc(self.scratch as usize)?) } else { None };
        let addresses = self.addresses(launch, buffers.iter().map(|b| b.address), scratch.as_ref());
        let _scratch = match Capture::of(stream.cuda().cu_stream())? {
            None => scratch,
            Some(capture) => self.leave_to(&capture, launch, &buffers, scratch)?,
        };
        for (at, step) in self.program.steps.iter().enumerate() {
            self.step(at, step, stream, &addresses, launch.scalars)?;
        }
        others.after(stream)?;
        Ok(self.tensors(launch.device, &buffers))
    }

    fn results(&self, device: &Device) -> Result<Results> {
        let stream = self.stream(device)?;
        let name = self.program.graph.name();
        capture::none(stream.cuda().cu_stream(), format_args!("`{name}` is to be bound; bind it before the capture"))?;
        Ok(self.tensors(device, &self.results_memory(stream)?))
    }

    fn bind(self: Arc<Self>, launch: &Launch<'_>, results: &[Tensor]) -> Result<Box<dyn BoundLaunch>> {
        Ok(Box::new(CudaCall::new(self, launch, results)?))
    }

    fn explain(&self) -> Explain {
        Explain {
            function: self.program.graph.name().to_owned(),
            device: self.gpu.description.clone(),
            arguments: self.program.graph.inputs().map(|(v, _)| self.program.graph.describe(v)).collect(),
            kernels: self.program.reports(),
            cuts: self.program.cut_texts(),
            source: PlanSource::Built,
        }
    }

    fn to_bytes(&self) -> Result<Option<Vec<u8>>> {
        self.program.known(|kernel| kernel.code())?.to_bytes().map(Some)
    }

    fn compiled(&self) -> usize {
        self.compiled
    }

    fn shared(&self) -> (usize, usize) {
        self.program.shared()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
