//! Cases 16 and 35: streams, threads and contexts on a GPU, and what is left when they end.

use crate::common::threads::at_once;
use crate::common::values;
use fused_graph::cudarc::driver::{CudaContext, result, sys};
use fused_graph::prelude::*;
use fused_graph::{ErrorKind, Result};
use fused_graph_cudnn::gpu::Gpu;
use std::process::Command;
use std::sync::Arc;

/// About half a millisecond of an H200 for 4096 by 4096.
#[fused_graph]
fn square(x: &Tensor) -> Tensor {
    matmul(x, x)
}

#[fused_graph]
fn plus_one(x: &Tensor) -> Tensor {
    x + 1.0
}

#[fused_graph]
fn weighed(a: &Tensor, b: &Tensor, s: f32) -> Tensor {
    a + s * b
}

fn gpu() -> Device {
    Device::cuda(0).unwrap()
}

/// Keeps a stream busy.
struct Slow(Tensor);

impl Slow {
    fn on(dev: &Device) -> Slow {
        let slow = Slow(Tensor::zeros([4096, 4096], DType::F32, dev).unwrap());
        slow.queue(1);
        dev.synchronize().unwrap();
        slow
    }

    fn queue(&self, times: usize) {
        (0..times).for_each(|_| drop(square(&self.0).unwrap()));
    }
}

fn full(value: f64, dev: &Device) -> Tensor {
    Tensor::full([256, 256], value, DType::F32, dev).unwrap()
}

fn assert_all(t: &Tensor, value: f64, what: &str) {
    let wrong: Vec<f64> = values(t).into_iter().filter(|v| *v != value).take(3).collect();
    assert!(wrong.is_empty(), "{what}: {wrong:?}, not {value}");
}

/// Memory that is dropped while kernels read it is given out again at once, to what runs after them.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn memory_is_reused_in_the_order_of_the_stream() {
    let dev = gpu().new_stream().unwrap();
    let slow = Slow::on(&dev);
    let mut results = Vec::new();
    for i in 0..200 {
        slow.queue(i % 2);
        let x = full(f64::from(i as u32), &dev);
        results.push(plus_one(&x).unwrap());
        drop(x);
        // Of the same size, so in the memory that the kernel may not have read yet: from the host, and by a kernel.
        let other = full(-1.0, &dev);
        drop(plus_one(&other).unwrap());
    }
    for (i, y) in results.iter().enumerate() {
        assert_all(y, i as f64 + 1.0, "a result");
    }
    // A chain in which every value is dropped as soon as the next is queued.
    slow.queue(4);
    let mut x = full(0.0, &dev);
    for _ in 0..1000 {
        x = plus_one(&x).unwrap();
    }
    assert_all(&x, 1000.0, "a chain");
}

/// A producer on one stream that is late, a consumer on another; the product is dropped at once and its memory used by the next.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn tensors_of_two_streams_in_one_call() {
    let (a, b) = (gpu().new_stream().unwrap(), gpu().new_stream().unwrap());
    let (slow_a, slow_b) = (Slow::on(&a), Slow::on(&b));
    let base = full(1.0, &b);
    let mut results = Vec::new();
    for i in 0..200u32 {
        slow_a.queue(2);
        let product = plus_one(&full(f64::from(i), &a)).unwrap();
        // Late as well, so that the next product would be written over this one if nobody waited.
        slow_b.queue((i % 3) as usize);
        results.push(weighed(&base, &product, 2.0).unwrap());
        drop(product);
    }
    for (i, y) in results.iter().enumerate() {
        assert!(y.device().cuda_stream() == b.cuda_stream(), "a result is on the stream of the first tensor");
        assert_all(y, 1.0 + 2.0 * (i as f64 + 1.0), &format!("call {i}"));
    }
    // The other way round, and read on a third.
    let c = gpu().new_stream().unwrap();
    let twice = full(2.0, &c);
    for i in 0..50u32 {
        slow_b.queue(2);
        let y = weighed(&twice, &weighed(&full(f64::from(i), &a), &results[i as usize], 1.0).unwrap(), 1.0).unwrap();
        assert_all(&y, 2.0 + f64::from(i) + 1.0 + 2.0 * (f64::from(i) + 1.0), "three streams");
    }
}

/// Case 16 (i): what is queued on one stream does not wait for another, also from other threads.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn case_16_streams_do_not_wait_for_each_other() {
    let (a, b) = (gpu().new_stream().unwrap(), gpu().new_stream().unwrap());
    let slow = Slow::on(&a);
    assert_all(&plus_one(&full(1.0, &b)).unwrap(), 2.0, "warm");
    slow.queue(400);
    let end = a.cuda_stream().unwrap().record_event(None).unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            assert_all(&plus_one(&full(5.0, &b)).unwrap(), 6.0, "beside the slow stream");
            !end.is_complete()
        });
        assert!(other.join().unwrap(), "the quick stream waited for the slow one");
    });
    a.synchronize().unwrap();
    assert!(end.is_complete());
}

/// Two threads with a stream each share a tensor, a function and its plan.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn two_threads_two_streams() {
    let shared = full(3.0, &gpu());
    at_once(2, |i| {
        let dev = gpu().new_stream().unwrap();
        let slow = Slow::on(&dev);
        let own = full(i as f64, &dev);
        let results: Vec<Tensor> = (0..200u8)
            .map(|round| {
                slow.queue((round % 16 == 0).into());
                weighed(&own, &shared, f32::from(round)).unwrap()
            })
            .collect();
        for (round, y) in results.iter().enumerate() {
            assert_all(y, i as f64 + 3.0 * round as f64, "a thread's result");
        }
    });
    assert_eq!(values(&shared), vec![3.0; 256 * 256]);
}

/// One function of one thread on two streams in turn: the handle follows.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn a_thread_that_changes_its_stream() {
    for _ in 0..20 {
        // Destroyed and made anew, perhaps at the same address.
        let (a, b) = (gpu().new_stream().unwrap(), gpu().new_stream().unwrap());
        let square_of = |dev: &Device| square(&Tensor::ones([64, 64], DType::F32, dev).unwrap()).unwrap();
        for dev in [&a, &b, &a, &a, &b] {
            assert!(values(&square_of(dev)).iter().all(|v| *v == 64.0));
        }
    }
}

fn current() -> Option<sys::CUcontext> {
    result::ctx::get_current().unwrap()
}

/// A context that is not the primary one.
fn second_context() -> Arc<CudaContext> {
    let primary = gpu().cuda_stream().unwrap().context().clone();
    let mut context = std::ptr::null_mut();
    // SAFETY: the driver writes one pointer; without parameters it takes a null pointer. The context goes to the wrapper, which destroys it.
    unsafe {
        sys::cuCtxCreate_v4(&mut context, std::ptr::null_mut(), 0, primary.cu_device()).result().unwrap();
        CudaContext::from_raw_context(0, primary.cu_device(), context).unwrap()
    }
}

/// Case 16 (ii): a thread without a context, and one whose context is another.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn case_16_contexts() {
    let x = full(1.0, &gpu());
    let plain = std::thread::spawn(move || {
        assert!(current().is_none());
        assert_all(&plus_one(&x).unwrap(), 2.0, "without a context");
        x
    });
    let x = plain.join().unwrap();
    // Dropped on a thread without one.
    std::thread::spawn(move || drop((x, square(&Tensor::ones([32, 32], DType::F32, &gpu()).unwrap())))).join().unwrap();

    let other = second_context();
    let theirs = Some(other.cu_ctx());
    assert_eq!(current(), theirs);
    let dev = gpu().new_stream().unwrap();
    assert_eq!(current(), theirs, "making a stream");
    let y = square(&plus_one(&full(0.0, &dev)).unwrap()).unwrap();
    assert_eq!(current(), theirs, "building and calling");
    assert_all(&y, 256.0, "beside another context");
    let mut call = plus_one::bind(&y).unwrap();
    call.launch().unwrap();
    call.capture().unwrap().replay().unwrap();
    assert_all(call.outputs(), 257.0, "bound");
    square::clear();
    dev.synchronize().unwrap();
    drop((y, call));
    assert_eq!(current(), theirs, "reading, binding and dropping");

    // A stream of that context is none of ours.
    let stream = other.new_stream().unwrap();
    let refused = Device::cuda_on(&stream).unwrap_err();
    assert!(refused.kind() == ErrorKind::Device && refused.message().contains("another CUDA context"), "{refused}");
    let primary = dev.cuda_stream().unwrap().context().clone();
    let refused = Device::cuda_on(&primary.per_thread_stream()).unwrap_err();
    assert!(refused.kind() == ErrorKind::Device && refused.message().contains("new_stream"), "{refused}");
    primary.bind_to_thread().unwrap();
}

/// Two devices on one stream are one: they share its memory and wait for nothing.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn devices_on_a_stream_of_the_callers() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let (one, two) = (Device::cuda_on(&stream).unwrap(), Device::cuda_on(&stream).unwrap());
    assert!(Arc::ptr_eq(one.accelerator().unwrap(), two.accelerator().unwrap()));
    assert_all(&weighed(&full(1.0, &one), &full(2.0, &two), 3.0).unwrap(), 7.0, "one stream");
    let default = Device::cuda_on(&context.default_stream()).unwrap();
    assert_all(&weighed(&full(1.0, &default), &full(2.0, &one), 3.0).unwrap(), 7.0, "the default stream");
    let missing = Device::cuda(4096).unwrap_err();
    assert!(missing.kind() == ErrorKind::Device && missing.message().contains("numbered from 0"), "{missing}");
}

fn free_memory() -> usize {
    gpu().cuda_stream().unwrap().context().mem_get_info().unwrap().0
}

/// Case 35: threads that come and go leave handles, streams and memory to the next.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn case_35_short_lived_threads() {
    let round = || -> Result<()> {
        std::thread::spawn(|| {
            let dev = gpu().new_stream()?;
            let x = Tensor::ones([512, 512], DType::F32, &dev)?;
            drop(square(&square(&x)?)?);
            assert!(values(&plus_one(&x)?).iter().all(|v| *v == 2.0));
            Ok(())
        })
        .join()
        .unwrap()
    };
    let gpu = Gpu::open(0).unwrap();
    (0..8).for_each(|_| round().unwrap());
    let (handles, free) = (gpu.idle_handles(), free_memory());
    (0..64).for_each(|_| round().unwrap());
    assert!(gpu.idle_handles() <= handles.max(1) + 1, "{} handles, before {handles}", gpu.idle_handles());
    let lost = free.saturating_sub(free_memory());
    assert!(lost < 64 << 20, "64 threads left {lost} bytes of the GPU's memory behind");
}

/// Case 35: hundreds of shapes in one function, of which only the latest stay; what is pushed out may still run.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn case_35_many_shapes() {
    #[fused_graph]
    fn shifted(x: &Tensor) -> Tensor {
        x + 2.0
    }
    let dev = gpu().new_stream().unwrap();
    let slow = Slow::on(&dev);
    let mut results = Vec::new();
    for n in 1..=300usize {
        slow.queue((n % 10 == 0).into());
        let x = Tensor::full([n, 3], n as f64, DType::F32, &dev).unwrap();
        results.push(shifted(&x).unwrap());
    }
    shifted::clear();
    for (i, y) in results.iter().enumerate() {
        assert_all(y, i as f64 + 3.0, "an evicted plan");
    }
    let stats = shifted::stats();
    assert_eq!((stats.plans_built + stats.plans_loaded, stats.evicted), (300, 44));
}

/// What the child of [`case_35_exit`] does; nothing when it is run by itself.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn leave() {
    let Ok(how) = std::env::var("FUSED_GRAPH_TEST_LEAVE") else { return };
    let dev = gpu();
    let slow = Slow::on(&dev);
    let bound = plus_one::bind(&full(0.0, &dev)).unwrap();
    let graph = bound.capture().unwrap();
    let launch = move || {
        slow.queue(20);
        graph.replay().unwrap();
        slow
    };
    match how.as_str() {
        // The harness returns from main while the kernels run.
        "return" => drop(launch()),
        "exit" => {
            let _alive = launch();
            std::process::exit(0)
        }
        "worker" => {
            let worker = std::thread::spawn(move || {
                let _alive = launch();
                std::process::exit(0)
            });
            let _ = worker.join();
        }
        "thread ends" => drop(std::thread::spawn(launch).join().unwrap()),
        "still launching" => {
            std::thread::spawn(move || {
                let slow = launch();
                // Once the driver has shut down, calls fail, and the thread has nothing more to do.
                while square(&slow.0).is_ok() {}
            });
            std::thread::sleep(std::time::Duration::from_millis(50));
            std::process::exit(0)
        }
        "leaked" => std::mem::forget(launch()),
        other => unreachable!("{other}"),
    }
}

/// Case 35: the process ends well right after a launch, from main and from a worker, whatever still runs.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn case_35_exit() {
    for how in ["return", "exit", "worker", "thread ends", "still launching", "leaked"] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["streams::leave", "--exact", "--ignored", "--test-threads=1"])
            .env("FUSED_GRAPH_TEST_LEAVE", how)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{how}: {output:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains("panicked"), "{how}: {text}");
    }
}

/// Case 33: host memory beside device memory, sizes that no GPU has, and a good call after each.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn case_33_memory_of_another_place() {
    let dev = gpu().new_stream().unwrap();
    let (here, there) = (full(1.0, &dev), full(1.0, &Device::CPU));
    let good = || assert_all(&weighed(&here, &here, 2.0).unwrap(), 3.0, "a good call");
    for (a, b) in [(&here, &there), (&there, &here)] {
        let error = weighed(a, b, 1.0).unwrap_err();
        assert!(error.kind() == ErrorKind::Device && error.message().contains("`b` on"), "{error}");
        good();
    }
    // Repeated in place it takes 4 bytes, as a result more than any GPU has.
    let vast = Tensor::ones([1, 1], DType::F32, &dev).unwrap().expand([1i64 << 23, 1 << 23]).unwrap();
    let error = plus_one(&vast).unwrap_err();
    assert!(error.kind() == ErrorKind::Cuda && error.message().contains("allocating"), "{error}");
    good();
    assert_eq!(vast.to_vec::<f32>().unwrap_err().kind(), ErrorKind::Argument);
    good();
    assert_eq!(vast.contiguous().unwrap_err().kind(), ErrorKind::Cuda);
    good();
}
