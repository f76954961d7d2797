//! Generated kernels, compiled and loaded once for each source.

use super::capture::Relaxed;
use super::{Gpu, GpuStream};
use crate::error::cuda;
use crate::jit::{self, Argument, BLOCK, Source, nvrtc};
use crate::plan::Known;
use cudarc::driver::{result, sys};
use fused_graph_core::Result;
use fused_graph_core::fuse::Group;
use fused_graph_core::ir::{Graph, ScalarType, ValueId};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The kernels of a source, loaded.
#[derive(Debug)]
pub(super) struct Kernel {
    source: Source,
    /// The compiled code.
    code: Vec<u8>,
    functions: Vec<Function>,
    _module: Module,
}

#[derive(Debug)]
struct Module(sys::CUmodule);

// SAFETY: a module belongs to its context, not to a thread.
unsafe impl Send for Module {}
// SAFETY: as above; nothing is done with it but to unload it.
unsafe impl Sync for Module {}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded by `Kernels::get` and unloaded once. That drops the last reference to a kernel only where its launches have run: what is loaded
        // is held by `Kernels`, which gives it up to `Retired`. A failure leaves it loaded.
        let _ = unsafe { result::module::unload(self.0) };
    }
}

#[derive(Clone, Copy, Debug)]
struct Function(sys::CUfunction);

// SAFETY: a function handle may be launched from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// What is loaded on a GPU.
#[derive(Debug, Default)]
pub(super) struct Kernels(Mutex<ByCode>);

/// By their code. The same code launched otherwise is another kernel to us.
type ByCode = HashMap<String, Vec<Arc<Kernel>>>;

/// With so many sources loaded the kernels that no plan has are given up.
const CAPACITY: usize = 512;

impl Kernels {
    /// The kernels of a source, compiled unless the code is known, and whether it was compiled now. The context is current.
    pub(super) fn get(&self, gpu: &Gpu, source: Source, known: Option<&[u8]>) -> Result<(Arc<Kernel>, bool)> {
        if let Some(kernel) = find(&self.loaded(), &source) {
            return Ok((kernel, false));
        }
        let cubin = match known {
            Some(code) => code.to_vec(),
            None => nvrtc::compile(&source.code, gpu.sm)?,
        };
        let _relaxed = Relaxed::enter();
        // SAFETY: the image is a whole cubin, which the driver copies.
        let module = unsafe { result::module::load_data(cubin.as_ptr().cast()) }
            .map_err(|e| cuda("loading a generated kernel", e))?;
        let mut functions = Vec::new();
        let _module = Module(module);
        for launch in &source.launches {
            let name = CString::new(launch.entry.as_str()).unwrap_or_default();
            // SAFETY: the module is loaded, and stays so as long as the functions.
            let function = unsafe { result::module::get_function(module, name) };
            functions.push(Function(function.map_err(|e| cuda("finding a generated kernel", e))?));
        }
        let kernel = self.hold(gpu, Kernel { source, code: cubin, functions, _module });
        Ok((kernel, known.is_none()))
    }

    /// Keeps a kernel loaded, or takes the one that another thread has loaded meanwhile.
    fn hold(&self, gpu: &Gpu, kernel: Kernel) -> Arc<Kernel> {
        let mut loaded = self.loaded();
        if let Some(same) = find(&loaded, &kernel.source) {
            return same;
        }
        if loaded.len() >= CAPACITY {
            let mut idle = Vec::new();
            loaded.values_mut().for_each(|list| idle.extend(list.extract_if(.., |k| Arc::strong_count(k) == 1)));
            loaded.retain(|_, list| !list.is_empty());
            gpu.retired.kernels(idle);
        }
        let kernel = Arc::new(kernel);
        loaded.entry(kernel.source.code.clone()).or_default().push(Arc::clone(&kernel));
        kernel
    }

    fn loaded(&self) -> MutexGuard<'_, ByCode> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find(loaded: &ByCode, source: &Source) -> Option<Arc<Kernel>> {
    loaded.get(&source.code)?.iter().find(|k| k.source == *source).cloned()
}

impl Kernel {
    /// Source and compiled code.
    pub(super) fn code(&self) -> (String, Vec<u8>) {
        (self.source.code.clone(), self.code.clone())
    }

    /// Bytes of scratch memory that a run needs.
    pub(super) fn scratch(&self) -> u64 {
        self.source.scratch
    }

    /// Queues the launches. `address` gives where a value lies, `scalars` the host scalars. The context is current.
    pub(super) fn run(
        &self,
        stream: &GpuStream,
        address: &dyn Fn(ValueId) -> u64,
        scratch: u64,
        scalars: &[f64],
    ) -> Result<()> {
        for (launch, function) in self.source.launches.iter().zip(&self.functions) {
            let mut words: SmallVec<[Word; 16]> = words(launch, address, scratch, scalars).collect();
            let mut parameters: SmallVec<[*mut c_void; 16]> = words.iter_mut().map(|w| w.as_mut_ptr().cast()).collect();
            // SAFETY: the parameters are as many and of the types that the generated source declares (both are made from `arguments`), and they live
            // until the call returns, which copies them. What they point to is alive until the stream has run the kernel.
            unsafe {
                let (grid, block) = ((launch.grid, 1, 1), (BLOCK, 1, 1));
                result::launch_kernel(function.0, grid, block, 0, stream.cuda().cu_stream(), &mut parameters)
            }
            .map_err(|e| cuda("launching a generated kernel", e))?;
        }
        Ok(())
    }

    /// The launches with their parameters in place, to be queued many times.
    pub(super) fn ready(&self, address: &dyn Fn(ValueId) -> u64, scratch: u64, scalars: &[f64]) -> Vec<Ready> {
        let launches = self.source.launches.iter().zip(&self.functions);
        let ready = launches.map(|(launch, function)| {
            let mut words: Box<[Word]> = words(launch, address, scratch, scalars).collect();
            let parameters = words.iter_mut().map(|w| w.as_mut_ptr().cast()).collect();
            Ready { function: *function, grid: launch.grid, parameters, _words: words }
        });
        ready.collect()
    }
}

/// A parameter of a kernel; its size is that of its type.
type Word = [u8; 8];

fn words(
    launch: &jit::Launch,
    address: &dyn Fn(ValueId) -> u64,
    scratch: u64,
    scalars: &[f64],
) -> impl Iterator<Item = Word> {
    launch.arguments.iter().map(move |argument| match *argument {
        Argument::Read { base, offset } => (address(base) as i64 + offset).to_ne_bytes(),
        Argument::Write(v) => address(v).to_ne_bytes(),
        Argument::Scratch => scratch.to_ne_bytes(),
        Argument::Scalar { index, ty } => scalar_bytes(scalars.get(index).copied().unwrap_or(0.0), ty),
    })
}

/// A launch with its parameters in place.
#[derive(Debug)]
pub(super) struct Ready {
    function: Function,
    grid: u32,
    /// They lead into the words.
    parameters: Box<[*mut c_void]>,
    _words: Box<[Word]>,
}

// SAFETY: the pointers lead into memory that the value owns, which nobody changes and the driver reads within a call.
unsafe impl Send for Ready {}

impl Ready {
    /// Queues it. The context is current.
    pub(super) fn queue(&self, stream: &GpuStream) -> Result<()> {
        let (parameters, none) = (self.parameters.as_ptr().cast_mut(), std::ptr::null_mut());
        // SAFETY: as in `Kernel::run`; the driver copies the parameters and changes none.
        let code = unsafe {
            sys::cuLaunchKernel(
                self.function.0,
                self.grid,
                1,
                1,
                BLOCK,
                1,
                1,
                0,
                stream.cuda().cu_stream(),
                parameters,
                none,
            )
        };
        code.result().map_err(|e| cuda("launching a generated kernel", e))
    }
}

fn scalar_bytes(value: f64, ty: ScalarType) -> [u8; 8] {
    let mut word = [0; 8];
    match ty {
        ScalarType::F32 => word[..4].copy_from_slice(&(value as f32).to_ne_bytes()),
        ScalarType::F64 => word = value.to_ne_bytes(),
    }
    word
}

/// The kernel of a group that cuDNN has no engine for, and whether it was compiled now.
pub(super) fn of_group(gpu: &Gpu, graph: &Graph, group: &Group, known: &Known) -> Result<(Arc<Kernel>, bool)> {
    let source = jit::generate(graph, group)?;
    let code = known.code(&source.code);
    gpu.kernels.get(gpu, source, code)
}
