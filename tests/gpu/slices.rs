//! Tensors over cudarc's slices and cudarc's views of tensors: nothing is copied, and the order of streams is kept.

use crate::common::values;
use fused_graph::cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DeviceSlice, result, sys};
use fused_graph::{ErrorKind, prelude::*};
use std::ffi::{CString, c_void};
use std::sync::Arc;

#[fused_graph]
fn plus(x: &Tensor, s: f32) -> Tensor {
    x + s
}

#[fused_graph]
fn square(x: &Tensor) -> Tensor {
    matmul(x, x)
}

fn stream() -> Arc<CudaStream> {
    CudaContext::new(0).unwrap().new_stream().unwrap()
}

fn address<T>(slice: &CudaSlice<T>) -> u64 {
    slice.device_ptr(slice.stream()).0
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn a_slice_becomes_a_tensor() {
    let stream = stream();
    let data: Vec<f32> = (0..24).map(|i| i as f32).collect();
    let slice = stream.clone_htod(&data).unwrap();
    let at = address(&slice);
    let x = Tensor::from_cuda_slice(slice, [2, 3, 4]).unwrap();
    assert_eq!((x.address(), &**x.dims(), x.dtype()), (at, &[2, 3, 4][..], DType::F32));
    assert!(x.is_contiguous() && x.device().cuda_stream() == Some(Arc::clone(&stream)));
    assert_eq!(x.to_vec::<f32>().unwrap(), data);
    let y = plus(&x.slice(1, 1..3).unwrap(), 0.5).unwrap();
    let want: Vec<f32> = data.chunks(12).flat_map(|c| c[4..].iter().map(|v| v + 0.5)).collect();
    assert_eq!(y.to_vec::<f32>().unwrap(), want);
    // The other element types.
    let half: Vec<bf16> = data.iter().map(|v| bf16::from_f32(*v)).collect();
    let t = Tensor::from_cuda_slice(stream.clone_htod(&half).unwrap(), [24]).unwrap();
    assert_eq!((t.dtype(), values(&t)[23]), (DType::BF16, 23.0));
    let t = Tensor::from_cuda_slice(stream.clone_htod(&[-1i8, 2]).unwrap(), [2]).unwrap();
    assert_eq!((t.dtype(), t.to_vec::<i8>().unwrap()), (DType::I8, vec![-1, 2]));
    // A part of a slice begins at an odd place.
    let odd = Tensor::from_cuda_slice(stream.clone_htod(&data).unwrap(), [24]).unwrap().slice(0, 1..17).unwrap();
    let m = odd.reshape([4, 4]).unwrap();
    let want: Vec<f64> =
        (0..16).map(|i| (0..4).map(|k| f64::from((1 + i / 4 * 4 + k) * (1 + k * 4 + i % 4))).sum()).collect();
    crate::common::close(&square(&m).unwrap(), &want);
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn a_shared_slice_lives_as_long_as_its_tensors() {
    let stream = stream();
    let slice = Arc::new(stream.clone_htod(&[1.0f32; 4096]).unwrap());
    let x = Tensor::from_cuda_slice(Arc::clone(&slice), [64, 64]).unwrap();
    let y = x.t().unwrap();
    assert_eq!(Arc::strong_count(&slice), 2);
    drop(x);
    assert_eq!(Arc::strong_count(&slice), 2, "the view holds it");
    let z = plus(&y, 1.0).unwrap();
    drop(y);
    assert_eq!(Arc::strong_count(&slice), 1, "dropped while the kernel may run");
    let mut slice = Arc::try_unwrap(slice).unwrap();
    // Written on another stream: after the kernel has read it.
    let second = stream.context().new_stream().unwrap();
    second.memcpy_htod(&[9.0f32; 4096], &mut slice).unwrap();
    assert!(values(&z).iter().all(|v| *v == 2.0));
    assert_eq!(second.clone_dtoh(&slice).unwrap(), [9.0; 4096]);
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn what_other_streams_wrote_comes_first() {
    let context = CudaContext::new(0).unwrap();
    let (own, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let busy = Tensor::zeros([4096, 4096], DType::F32, &Device::cuda_on(&other).unwrap()).unwrap();
    drop((
        square(&busy).unwrap(),
        plus(&Tensor::zeros([256], DType::F32, &Device::cuda_on(&own).unwrap()).unwrap(), 0.0),
    ));
    let data = other.clone_htod(&[0.0f32; 256]).unwrap();
    for i in 0..50u8 {
        let mut slice = own.alloc_zeros::<f32>(256).unwrap();
        let next = Tensor::full([256], f64::from(i), DType::F32, &Device::cuda_on(&other).unwrap()).unwrap();
        (0..4).for_each(|_| drop(square(&busy).unwrap()));
        other.memcpy_dtod(&next.cuda_view::<f32>().unwrap(), &mut slice).unwrap();
        let y = plus(&Tensor::from_cuda_slice(slice, [256]).unwrap(), 1.0).unwrap();
        assert!(values(&y).iter().all(|v| *v == f64::from(i) + 1.0), "round {i}");
    }
    drop(data);
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn a_view_for_the_calls_of_cudarc() {
    let own = stream();
    let other = own.context().new_stream().unwrap();
    let dev = Device::cuda_on(&own).unwrap();
    let busy = Tensor::zeros([4096, 4096], DType::F32, &dev).unwrap();
    drop(square(&busy).unwrap());
    let x = Tensor::zeros([128, 128], DType::F32, &dev).unwrap();
    for i in 0..50u8 {
        (0..4).for_each(|_| drop(square(&busy).unwrap()));
        let y = plus(&x, f32::from(i)).unwrap();
        let view = y.cuda_view::<f32>().unwrap();
        assert_eq!((view.address(), view.len(), view.stream()), (y.address(), 128 * 128, &own));
        // Another stream waits for the tensor's…
        let copy = other.clone_dtod(&view).unwrap();
        drop(view);
        // … and its memory is not written before that stream has read it.
        drop(y);
        drop(plus(&x, -1.0).unwrap());
        assert!(other.clone_dtoh(&copy).unwrap().iter().all(|v| *v == f32::from(i)), "round {i}");
    }
    // Parts with gaps: from the first to the last element.
    let part = x.slice(1, 3..5).unwrap();
    let view = part.cuda_view::<f32>().unwrap();
    assert_eq!((view.len(), view.address()), (127 * 128 + 2, x.address() + 12));
}

/// `to[i] = 2 * from[i]`.
const TWICE: &str = r"
.version 7.0
.target sm_70
.address_size 64
.visible .entry twice(.param .u64 from, .param .u64 to, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<5>;
    .reg .b64 %rd<6>;
    .reg .f32 %f<3>;
    ld.param.u64 %rd1, [from];
    ld.param.u64 %rd2, [to];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra done;
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    add.f32 %f2, %f1, %f1;
    st.global.f32 [%rd5], %f2;
done:
    ret;
}
";

/// A kernel of the user's between two functions, on the tensors' stream and without waiting for anything.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn a_kernel_of_the_users_between_two_functions() {
    let dev = Device::cuda(0).unwrap().new_stream().unwrap();
    let stream = dev.cuda_stream().unwrap();
    stream.context().bind_to_thread().unwrap();
    let source = CString::new(TWICE).unwrap();
    // SAFETY: the image is text that ends with a zero.
    let module = unsafe { result::module::load_data(source.as_ptr().cast()) }.unwrap();
    // SAFETY: the module is loaded, and stays so.
    let twice = unsafe { result::module::get_function(module, CString::new("twice").unwrap()) }.unwrap();
    let n = 1000u32;
    let x = Tensor::full([1000], 1.0, DType::F32, &dev).unwrap();
    for i in 0..50u8 {
        let before = plus(&x, f32::from(i)).unwrap();
        let out: CudaSlice<f32> = stream.alloc_zeros(n as usize).unwrap();
        let (mut from, mut to, mut count) = (before.cuda_view::<f32>().unwrap().address(), address(&out), n);
        let word = |p: &mut u64| std::ptr::from_mut(p).cast::<c_void>();
        let mut parameters = [word(&mut from), word(&mut to), std::ptr::from_mut(&mut count).cast()];
        // SAFETY: two addresses of n floats and their number, as the kernel asks for.
        unsafe {
            result::launch_kernel(twice, (4, 1, 1), (256, 1, 1), 0, stream.cu_stream(), &mut parameters).unwrap();
        }
        // Dropped while it runs: the memory comes back behind it on the stream.
        drop(before);
        let after = plus(&Tensor::from_cuda_slice(out, [10, 100]).unwrap(), 0.5).unwrap();
        assert!(values(&after).iter().all(|v| *v == 2.0 * (1.0 + f64::from(i)) + 0.5), "round {i}");
    }
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn what_does_not_fit_is_refused() {
    let stream = stream();
    let slice = Arc::new(stream.clone_htod(&[1.0f32; 6]).unwrap());
    let error = Tensor::from_cuda_slice(Arc::clone(&slice), [2, 4]).unwrap_err();
    assert_eq!(error.to_string(), "shape error: a tensor of shape [2, 4] has 8 elements, the slice 6");
    assert_eq!(Tensor::from_cuda_slice(Arc::clone(&slice), [i64::MAX, 2]).unwrap_err().kind(), ErrorKind::Shape);
    let per_thread = stream.context().per_thread_stream();
    let elsewhere = per_thread.clone_htod(&[1.0f32; 6]).unwrap();
    assert_eq!(Tensor::from_cuda_slice(elsewhere, [6]).unwrap_err().kind(), ErrorKind::Device);
    let x = Tensor::from_cuda_slice(Arc::clone(&slice), [2, 3]).unwrap();
    let error = x.cuda_view::<f16>().unwrap_err();
    assert!(error.kind() == ErrorKind::DType && error.message().contains("f32, not f16"), "{error}");
    let error = x.to(&Device::CPU).unwrap().cuda_view::<f32>().unwrap_err();
    assert!(error.kind() == ErrorKind::Device && error.message().contains(".to(&device)"), "{error}");
    stream.synchronize().unwrap();
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    let error = Tensor::from_cuda_slice(Arc::clone(&slice), [6]).unwrap_err();
    assert!(error.kind() == ErrorKind::Cuda && error.message().contains("before"), "{error}");
    stream.end_capture(sys::CUgraphInstantiate_flags(0)).unwrap();
    assert_eq!(values(&plus(&x, 1.0).unwrap()), [2.0; 6]);
}
