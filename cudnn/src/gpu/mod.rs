//! A live GPU: devices, memory, handles, and running what was compiled.

mod arena;
mod bound;
mod capture;
mod executable;
pub(crate) mod exit;
mod graph;
mod handle;
mod kernels;
mod measure;
mod order;
mod pool;
mod retired;
mod slices;
mod stream;
mod tune;

pub use executable::CudaExecutable;
pub use graph::CudaCaptured;
pub use slices::{CudaTensor, CudaTensorView};
pub use stream::GpuStream;

use crate::context::Current;
use crate::descriptor::{Descriptor, HandleAttribute};
use crate::error::cuda;
use crate::library::{Library, driver_present};
use crate::plan::KernelCaches;
use cudarc::driver::{CudaContext, CudaStream, sys};
use cudnn_sys::{AttributeName, AttributeType, DescriptorType};
use fused_graph_core::{Device, Error, Result};
use kernels::Kernels;
use once_cell::sync::OnceCell;
use retired::Retired;
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};

/// A GPU of this process. Lives until the process ends, because plans and memory of it may.
#[derive(Debug)]
pub struct Gpu {
    ordinal: usize,
    context: Arc<CudaContext>,
    library: &'static Library,
    sm: u32,
    name: String,
    rates: Rates,
    description: String,
    kernels: Kernels,
    /// Of functions with `dynamic_shapes`.
    caches: KernelCaches,
    /// Handles that threads left behind when they ended.
    handles: Mutex<Vec<handle::Raw>>,
    /// The stream of `Device::cuda`.
    first: OnceCell<Arc<GpuStream>>,
    /// Those of devices, each once.
    streams: Mutex<Vec<Weak<GpuStream>>>,
    retired: Retired,
    /// The stream on which graphs are captured.
    recorder: Mutex<Option<GpuStream>>,
}

/// What a GPU does at most; infinite where the driver does not say.
#[derive(Clone, Copy, Debug)]
struct Rates {
    multiprocessors: u32,
    clock_hz: f64,
    bytes_per_second: f64,
    l2_bytes: usize,
}

impl Rates {
    fn read(context: &CudaContext, multiprocessors: u32) -> Rates {
        use sys::CUdevice_attribute::*;
        let read = |attribute| context.attribute(attribute).ok().filter(|&v| v > 0).map(f64::from);
        let clock = read(CU_DEVICE_ATTRIBUTE_CLOCK_RATE).map(|khz| khz * 1e3);
        let memory = read(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE).map(|khz| khz * 1e3);
        let width = read(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
        // Two transfers a clock.
        let bytes_per_second = memory.zip(width).map(|(hz, bits)| 2.0 * hz * bits / 8.0);
        Rates {
            multiprocessors,
            clock_hz: clock.unwrap_or(f64::INFINITY),
            bytes_per_second: bytes_per_second.unwrap_or(f64::INFINITY),
            l2_bytes: read(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE).unwrap_or(0.0) as usize,
        }
    }
}

impl Gpu {
    /// The GPU of this number, opened once.
    pub fn open(ordinal: usize) -> Result<&'static Gpu> {
        static OPEN: Mutex<Vec<&'static Gpu>> = Mutex::new(Vec::new());
        // Decided before anything is asked of cudarc, which panics without a driver.
        let library = Library::for_device()?;
        // cudarc makes the context that it opens current and leaves it so.
        let _unchanged = Current::unchanged();
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = open.iter().find(|g| g.ordinal == ordinal) {
            return Ok(gpu);
        }
        let count = CudaContext::device_count().map_err(|e| cuda("counting GPUs", e))?;
        if ordinal >= count.max(0) as usize {
            return Err(Error::device(format!("there is no GPU {ordinal}: this machine has {count}, numbered from 0")));
        }
        let context = CudaContext::new(ordinal).map_err(|e| cuda(format!("opening GPU {ordinal}"), e))?;
        let gpu: &'static Gpu = Box::leak(Box::new(Self::describe(ordinal, context, library)?));
        open.push(gpu);
        exit::watch();
        Ok(gpu)
    }

    fn describe(ordinal: usize, context: Arc<CudaContext>, library: &'static Library) -> Result<Gpu> {
        let name = context.name().map_err(|e| cuda("asking for the GPU's name", e))?;
        let (major, minor) = context.compute_capability().map_err(|e| cuda("asking for the compute capability", e))?;
        let sm = (major * 10 + minor) as u32;
        let multiprocessors = context
            .attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .map_err(|e| cuda("asking for the number of multiprocessors", e))?;
        let description = format!("{name} (sm_{sm}, {multiprocessors} SMs), cuDNN {}", library.version());
        let rates = Rates::read(&context, multiprocessors as u32);
        let (kernels, caches) = (Kernels::default(), KernelCaches::default());
        let (handles, first, recorder) = (Mutex::new(Vec::new()), OnceCell::new(), Mutex::new(None));
        let (streams, retired) = (Mutex::default(), Retired::default());
        Ok(Gpu {
            ordinal,
            context,
            library,
            sm,
            name,
            rates,
            description,
            kernels,
            caches,
            handles,
            first,
            streams,
            retired,
            recorder,
        })
    }

    /// Its number.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Its context in cudarc's form.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// The cuDNN that was loaded.
    pub fn library(&self) -> &'static Library {
        self.library
    }

    fn first_stream(&'static self) -> Result<Arc<GpuStream>> {
        self.first.get_or_try_init(|| self.new_stream()).cloned()
    }

    fn new_stream(&'static self) -> Result<Arc<GpuStream>> {
        let _unchanged = Current::unchanged();
        let stream = self.context.new_stream().map_err(|e| cuda("making a stream", e))?;
        Ok(self.stream(&stream))
    }

    /// What a device on this stream holds: the same for all that live.
    fn stream(&'static self, stream: &Arc<CudaStream>) -> Arc<GpuStream> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let known = streams.iter().filter_map(Weak::upgrade).find(|s| s.cuda() == stream);
        known.unwrap_or_else(|| {
            let new = Arc::new(GpuStream::new(self, Arc::clone(stream)));
            streams.retain(|s| s.strong_count() > 0);
            streams.push(Arc::downgrade(&new));
            new
        })
    }

    /// The streams of devices that live.
    fn live_streams(&self) -> Vec<Arc<GpuStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
    }

    /// The number of cuDNN handles that threads left behind; the next threads take them.
    pub fn idle_handles(&self) -> usize {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// A stream of the caller's, if it is one that tensors can be ordered on.
    fn checked(&'static self, stream: &Arc<CudaStream>) -> Result<Arc<GpuStream>> {
        if stream.context().cu_ctx() != self.context.cu_ctx() {
            return Err(Error::device(format!(
                "the stream belongs to another CUDA context than the primary one of GPU {}, which `CudaContext::new({0})` gives",
                self.ordinal
            )));
        }
        const PER_THREAD: usize = 2;
        if stream.cu_stream() as usize == PER_THREAD {
            return Err(Error::device(
                "the per-thread default stream is another stream on every thread, so tensors have no order on it; take `context.new_stream()`",
            ));
        }
        Ok(self.stream(stream))
    }
}

/// The properties of a GPU as cuDNN serializes them: what plans for it are compiled from where it is not.
pub fn properties(ordinal: usize) -> Result<String> {
    let gpu = Gpu::open(ordinal)?;
    let _current = crate::context::Current::enter(gpu.context.cu_ctx())?;
    let api = gpu.library.api();
    let handle = handle::on(&*gpu.first_stream()?)?;
    let properties = Descriptor::build(api, DescriptorType::DEVICEPROP, |d| {
        d.set(AttributeName::DEVICEPROP_HANDLE, &[HandleAttribute(handle)])
    })?;
    let name = AttributeName::DEVICEPROP_JSON_REPRESENTATION;
    let size = properties.count(name, AttributeType::CHAR)?;
    let bytes = properties.get::<u8>(name, size)?;
    Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
}

/// Devices with a GPU.
pub trait CudaDevice: Sized {
    /// GPU 0 if driver, cuDNN and GPU are there, else the CPU. Which it is, and what is missing for a GPU, is said once through `tracing`; `Display` of
    /// the device says it too.
    fn best() -> Result<Self>;
    /// A GPU by its number, with the stream that all such devices share.
    fn cuda(ordinal: usize) -> Result<Self>;
    /// The GPU of a stream of the caller's; work on the device is queued on it.
    fn cuda_on(stream: &Arc<CudaStream>) -> Result<Self>;
    /// The same GPU with a new stream of its own.
    fn new_stream(&self) -> Result<Self>;
    /// The stream on which work of this device is queued; none on the CPU.
    fn cuda_stream(&self) -> Option<Arc<CudaStream>>;
}

impl CudaDevice for Device {
    fn best() -> Result<Device> {
        static SAID: Once = Once::new();
        let found = if driver_present() { Self::cuda(0) } else { Err(Error::environment("no CUDA driver was found")) };
        match found {
            Ok(device) => {
                SAID.call_once(|| tracing::info!(%device, "using the GPU"));
                Ok(device)
            }
            Err(error) => {
                SAID.call_once(|| tracing::warn!(%error, "using the CPU"));
                Ok(Device::CPU)
            }
        }
    }

    fn cuda(ordinal: usize) -> Result<Device> {
        Ok(Device::from_accelerator(Gpu::open(ordinal)?.first_stream()?))
    }

    fn cuda_on(stream: &Arc<CudaStream>) -> Result<Device> {
        Ok(Device::from_accelerator(Gpu::open(stream.context().ordinal())?.checked(stream)?))
    }

    fn new_stream(&self) -> Result<Device> {
        let Some(old) = GpuStream::of(self) else {
            return Err(Error::device("the CPU has no streams"));
        };
        Ok(Device::from_accelerator(old.gpu().new_stream()?))
    }

    fn cuda_stream(&self) -> Option<Arc<CudaStream>> {
        Some(Arc::clone(GpuStream::of(self)?.cuda()))
    }
}
