//! Tensors over memory of cudarc's, and cudarc's view of the memory of tensors. Nothing is copied.

use super::capture::{self, Capture};
use super::{CudaDevice, Gpu, GpuStream};
use crate::context::Current;
use crate::error::cuda;
use cudarc::driver::{CudaEvent, CudaSlice, CudaStream, DevicePtr, DeviceSlice, SyncOnDrop, result, sys};
use fused_graph_core::backend::DeviceBuffer;
use fused_graph_core::layout::{self, Dims, IntoDims};
use fused_graph_core::tensor::Storage;
use fused_graph_core::{Device, Element, Error, Result, Tensor};
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tensors and the memory of cudarc, which other crates and your own kernels work on. Nothing is copied, and the order of streams is kept.
///
/// ```no_run
/// # use fused_graph_core::{Device, Result, Tensor};
/// # use fused_graph_cudnn::cudarc::driver::{CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
/// # use fused_graph_cudnn::gpu::{CudaDevice, CudaTensor};
/// # use std::{error::Error, sync::Arc};
/// # fn f(x: &Tensor) -> Result<Tensor> { Ok(x.clone()) }
/// # fn run(stream: Arc<CudaStream>, kernel: CudaFunction) -> Result<(), Box<dyn Error>> {
/// // In: the tensor owns the slice, and its device is the slice's stream.
/// let slice = stream.clone_htod(&[0.5_f32; 6])?;
/// let x = Tensor::from_cuda_slice(slice, [2, 3])?;
/// let y = f(&x)?;
///
/// // Out: for cudarc's own calls, or by its address for a kernel of yours.
/// let view = y.cuda_view::<f32>()?;
/// let host: Vec<f32> = stream.clone_dtoh(&view)?;
/// let (address, n) = (view.address(), 6_i32);
/// // SAFETY: what the kernel asks for.
/// unsafe { stream.launch_builder(&kernel).arg(&address).arg(&n).launch(LaunchConfig::for_num_elems(6)) }?;
/// # Ok(())
/// # }
/// ```
pub trait CudaTensor: Sized {
    /// A row-major tensor over a slice, or one that is shared (`Arc<CudaSlice<T>>`). What its stream has queued comes before what is done with the
    /// tensor; the tensor is on the device of that stream.
    ///
    /// # Errors
    /// A shape error if the dims have another number of elements, a device error if its stream is none that a device can be on (see
    /// [`CudaDevice::cuda_on`]), a CUDA error while the stream is being captured.
    fn from_cuda_slice<T: Element>(slice: impl Into<Arc<CudaSlice<T>>>, dims: impl IntoDims) -> Result<Self>;

    /// The memory from the first to the last element, which may have gaps and another order if the tensor is not
    /// [contiguous](Tensor::is_contiguous). Only to be read.
    ///
    /// # Errors
    /// A device error on the CPU, a dtype error if the elements are not of this type.
    fn cuda_view<T: Element>(&self) -> Result<CudaTensorView<'_, T>>;
}

impl CudaTensor for Tensor {
    fn from_cuda_slice<T: Element>(slice: impl Into<Arc<CudaSlice<T>>>, dims: impl IntoDims) -> Result<Tensor> {
        let (slice, dims) = (slice.into(), dims.into_dims()?);
        check_length(&dims, slice.len())?;
        let device = Device::cuda_on(slice.stream())?;
        let gpu = GpuStream::of(&device).ok_or_else(|| Error::device("the slice has no GPU"))?.gpu();
        let buffer = SliceBuffer::new(gpu, slice)?;
        let strides = dims.contiguous_strides();
        Ok(Tensor::from_parts(device, Storage::Device(Arc::new(buffer)), T::DTYPE, dims, strides, 0))
    }

    fn cuda_view<T: Element>(&self) -> Result<CudaTensorView<'_, T>> {
        let Some(stream) = GpuStream::of(self.device()) else {
            return Err(Error::device("a tensor on the CPU has no device memory; move it with `.to(&device)`"));
        };
        if T::DTYPE != self.dtype() {
            return Err(Error::dtype(format!(
                "the tensor holds {}, not {}; convert it with `.to_dtype(DType::{:?})`",
                self.dtype(),
                T::DTYPE,
                T::DTYPE
            )));
        }
        let _current = stream.enter()?;
        let read = stream.cuda().context().new_event(None).map_err(|e| cuda("making an event", e))?;
        let len = layout::span(self.dims(), self.strides()).unwrap_or(0) as usize;
        Ok(CudaTensorView { tensor: self, stream, len, read, elsewhere: AtomicBool::new(false), marker: PhantomData })
    }
}

fn check_length(dims: &Dims, len: usize) -> Result<()> {
    if dims.numel() == len {
        return Ok(());
    }
    Err(Error::shape(format!("a tensor of shape {dims} has {} elements, the slice {len}", dims.numel())))
}

/// A slice that a tensor holds.
struct SliceBuffer<T: Element> {
    gpu: &'static Gpu,
    slice: Option<Arc<CudaSlice<T>>>,
    address: u64,
    bytes: usize,
}

impl<T: Element> SliceBuffer<T> {
    fn new(gpu: &'static Gpu, slice: Arc<CudaSlice<T>>) -> Result<Self> {
        let stream = slice.stream().cu_stream();
        capture::none(stream, "waiting for the slice would not be allowed; make a tensor of it before")?;
        let _current = Current::enter(gpu.context().cu_ctx())?;
        // What other streams have written comes first.
        let (address, _) = slice.device_ptr(slice.stream());
        let bytes = slice.num_bytes();
        Ok(SliceBuffer { gpu, slice: Some(slice), address, bytes })
    }
}

impl<T: Element> fmt::Debug for SliceBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SliceBuffer({} bytes)", self.bytes)
    }
}

impl<T: Element> Drop for SliceBuffer<T> {
    fn drop(&mut self) {
        let Some(slice) = self.slice.take() else { return };
        let Ok(_current) = Current::enter(self.gpu.context().cu_ctx()) else { return };
        if matches!(Capture::of(slice.stream().cu_stream()), Ok(None)) {
            // Who shares the slice and writes to it on another stream waits for what was done with the tensor.
            drop(slice.device_ptr(slice.stream()));
        } else {
            // The driver cannot free it now, and cudarc would report that to an unrelated call.
            let Self { gpu, address, bytes, .. } = *self;
            gpu.retired.keep(Box::new(SliceBuffer { gpu, slice: Some(slice), address, bytes }));
        }
    }
}

impl<T: Element> DeviceBuffer for SliceBuffer<T> {
    fn address(&self) -> u64 {
        self.address
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The memory of a tensor for calls of cudarc's: wherever one takes a `&CudaSlice<T>` or `&CudaView<T>` to read from ([`DevicePtr`]).
///
/// Other streams wait for the tensor's, and its memory is not used for something else before they are done. To a kernel of your own pass the
/// [address](Self::address), and launch it on the tensor's [stream](DeviceSlice::stream).
pub struct CudaTensorView<'a, T> {
    tensor: &'a Tensor,
    stream: &'a GpuStream,
    len: usize,
    /// The last read on another stream.
    read: CudaEvent,
    elsewhere: AtomicBool,
    marker: PhantomData<&'a [T]>,
}

impl<T> CudaTensorView<'_, T> {
    /// The address of the first element.
    pub fn address(&self) -> sys::CUdeviceptr {
        self.tensor.address()
    }
}

impl<T> fmt::Debug for CudaTensorView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaTensorView({:?})", self.tensor)
    }
}

impl<T> DeviceSlice<T> for CudaTensorView<'_, T> {
    fn len(&self) -> usize {
        self.len
    }

    fn stream(&self) -> &Arc<CudaStream> {
        self.stream.cuda()
    }
}

impl<T> DevicePtr<T> for CudaTensorView<'_, T> {
    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
        if stream == &**self.stream.cuda() {
            return (self.address(), SyncOnDrop::Record(None));
        }
        self.elsewhere.store(true, Ordering::Relaxed);
        // An error would be reported by cudarc's next call, as those of its own slices are.
        stream.context().record_err(stream.join(self.stream.cuda()));
        (self.address(), SyncOnDrop::Record(Some((&self.read, stream))))
    }
}

impl<T> Drop for CudaTensorView<'_, T> {
    fn drop(&mut self) {
        if *self.elsewhere.get_mut()
            && let Ok(_current) = self.stream.enter()
        {
            let wait = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
            // SAFETY: event and stream are alive. If the read was captured and the capture has ended, the driver refuses, and the graph has its own order.
            let _ = unsafe { result::stream::wait_event(self.stream.cuda().cu_stream(), self.read.cu_event(), wait) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dims_fit_the_slice() {
        assert!(check_length(&Dims::collect([2, 3]), 6).is_ok() && check_length(&Dims::EMPTY, 1).is_ok());
        let error = check_length(&Dims::collect([2, 3]), 5).unwrap_err();
        assert_eq!(error.to_string(), "shape error: a tensor of shape [2, 3] has 6 elements, the slice 5");
    }
}
