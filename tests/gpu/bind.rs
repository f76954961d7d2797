//! Bound calls and CUDA graphs of them on a GPU: what `bind.rs` runs on the CPU, then allocations, streams and captures of the caller's.

use crate::common::{bind, close, values};
use fused_graph::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use fused_graph::{ErrorKind, prelude::*};

macro_rules! on_gpu {
    ($($name:ident;)*) => {$(
        #[test]
        #[ignore = "needs a GPU; cargo xtask bundle"]
        fn $name() {
            bind::$name(&Device::cuda(0).unwrap())
        }
    )*};
}

on_gpu! {
    launches_agree_with_calls;
    several_kernels_and_views;
    every_kind_of_parameter;
    rebinding;
    what_does_not_fit_is_refused;
    case_4_replays_are_never_stale;
    a_graph_outlives_what_it_was_made_of;
    several_calls_in_one_graph;
    other_threads;
    calls_share_no_buffers;
}

#[fused_graph]
fn affine(x: &Tensor, b: &Tensor, s: f32) -> Tensor {
    relu(x * s + b)
}

#[fused_graph]
fn linear_amax(x: &Tensor, w: &Tensor, b: &Tensor, alpha: f32) -> (Tensor, Tensor) {
    let y = gelu(alpha * matmul(x, w) + b);
    (y, amax(y))
}

fn random(seed: u64, dev: &Device) -> Tensor {
    Tensor::randn_seeded([8, 32, 16], DType::F32, seed, dev).unwrap()
}

fn affine_of(x: &Tensor, b: &Tensor, s: f64) -> Vec<f64> {
    values(x).iter().zip(values(b)).map(|(x, b)| (x * s + b).max(0.0)).collect()
}

const NO_FLAGS: CUgraphInstantiate_flags = CUgraphInstantiate_flags(0);

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn launches_and_replays_allocate_nothing() {
    let dev = Device::cuda(0).unwrap();
    let half = |dims: &[usize]| Tensor::randn(dims, dev.preferred_half(), &dev).unwrap();
    let (x, w, b) = (half(&[4, 64, 128]), half(&[4, 128, 64]), half(&[64]));
    // The rows of an operand that begin at odd places are copied first.
    let odd = half(&[4, 64, 129]).slice(2, 1..).unwrap();
    for x in [&x, &odd] {
        let mut call = linear_amax::bind(x, &w, &b, 0.5).unwrap();
        let graph = call.capture().unwrap();
        call.launch().unwrap();
        graph.replay().unwrap();
        let launches = allocation_counter::measure(|| (0..100).for_each(|_| call.launch().unwrap()));
        assert_eq!(launches.count_total, 0, "{launches:?}");
        let replays = allocation_counter::measure(|| (0..100).for_each(|_| graph.replay().unwrap()));
        assert_eq!(replays.count_total, 0, "{replays:?}");
        close(&call.outputs().0, &values(&linear_amax(x, &w, &b, 0.5).unwrap().0));
    }
    // The instrument sees what a plain call, a new tensor, allocates.
    assert!(allocation_counter::measure(|| drop(linear_amax(&x, &w, &b, 0.5).unwrap())).count_total > 0);
}

/// A call that was bound and never launched becomes part of a graph that the caller captures.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn inside_a_capture_of_the_callers() {
    let dev = Device::cuda(0).unwrap().new_stream().unwrap();
    let stream = dev.cuda_stream().unwrap();
    let (x, b) = (random(1, &dev), random(2, &dev));
    let mut call = affine::bind(&x, &b, 0.5).unwrap();
    let half = |dims: &[usize]| Tensor::randn(dims, dev.preferred_half(), &dev).unwrap();
    let (m, w, c) = (half(&[40, 64]), half(&[64, 24]), half(&[24]));
    let mut core = linear_amax::bind(&m, &w, &c, 0.5).unwrap();
    dev.synchronize().unwrap();
    for mode in [
        CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
        CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED,
    ] {
        stream.begin_capture(mode).unwrap();
        call.launch().unwrap();
        core.launch().unwrap();
        // What cannot be captured says so and leaves the capture as it is.
        let refused = affine::bind(&x, &b, 0.5).unwrap_err();
        assert!(refused.kind() == ErrorKind::Cuda && refused.message().contains("before the capture"), "{refused}");
        let graph = stream.end_capture(NO_FLAGS).unwrap().unwrap();
        for seed in 3..6 {
            x.copy_from(&random(seed, &dev)).unwrap();
            graph.launch().unwrap();
            close(call.outputs(), &affine_of(&x, &b, 0.5));
        }
        close(&core.outputs().0, &values(&linear_amax(&m, &w, &c, 0.5).unwrap().0));
    }
    // A graph of the caller's keeps what the call used.
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    call.launch().unwrap();
    let graph = stream.end_capture(NO_FLAGS).unwrap().unwrap();
    let (y, want) = (call.outputs().clone(), affine_of(&x, &b, 0.5));
    drop((call, core, x, b));
    affine::clear();
    let churn: Vec<Tensor> =
        (0..16).map(|i| Tensor::full([8, 32, 16], f64::from(i), DType::F32, &dev).unwrap()).collect();
    y.copy_from(&churn[3]).unwrap();
    graph.launch().unwrap();
    close(&y, &want);
    assert!(churn.iter().enumerate().all(|(i, t)| values(t).iter().all(|v| *v == i as f64)));
    let (x, b) = (random(1, &dev), random(2, &dev));
    close(&affine(&x, &b, 1.0).unwrap(), &affine_of(&x, &b, 1.0));
    // Ours are launched outside of captures; that is said without harm.
    let call = affine::bind(&x, &b, 0.5).unwrap();
    let ours = call.capture().unwrap();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    assert_eq!(ours.replay().unwrap_err().kind(), ErrorKind::Cuda);
    stream.end_capture(NO_FLAGS).unwrap();
    ours.replay().unwrap();
    close(call.outputs(), &affine_of(&x, &b, 0.5));
}

/// A capture of ours while the caller captures the stream leaves that capture usable, and nothing of ours gets into it.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn a_capture_within_a_capture() {
    let dev = Device::cuda(0).unwrap().new_stream().unwrap();
    let stream = dev.cuda_stream().unwrap();
    let (x, b) = (random(1, &dev), random(2, &dev));
    let (mut one, two) = (affine::bind(&x, &b, 0.5).unwrap(), affine::bind(&x, &b, 2.0).unwrap());
    two.outputs().copy_from(&Tensor::zeros([8, 32, 16], DType::F32, &dev).unwrap()).unwrap();
    dev.synchronize().unwrap();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    one.launch().unwrap();
    let inner = two.capture();
    let outer = stream.end_capture(NO_FLAGS).unwrap().unwrap();
    outer.launch().unwrap();
    close(one.outputs(), &affine_of(&x, &b, 0.5));
    assert!(values(two.outputs()).iter().all(|v| *v == 0.0));
    println!("capture within a capture: {inner:?}");
    let inner = inner.or_else(|_| two.capture()).unwrap();
    inner.replay().unwrap();
    close(two.outputs(), &affine_of(&x, &b, 2.0));
}

/// All devices of one GPU share a stream. What other threads queue on it while a graph is captured is done, and not captured.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn the_work_of_other_threads_is_not_captured() {
    let dev = Device::cuda(0).unwrap();
    let (x, b) = (random(1, &dev), random(2, &dev));
    let want = affine_of(&x, &b, 0.5);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..300 {
                    close(&affine(&x, &b, 0.5).unwrap(), &want);
                }
            });
        }
        scope.spawn(|| {
            for i in 0..100 {
                let mut call = affine::bind(&x, &b, f32::from(i as u8)).unwrap();
                let mut graph = call.capture().unwrap();
                call.set_scalar("s", 0.5).unwrap();
                graph.update(&[&call]).unwrap();
                graph.replay().unwrap();
                close(call.outputs(), &want);
            }
        });
    });
}

/// Arguments of several streams: launches and replays come after what is queued there.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn arguments_of_several_streams() {
    let ours = Device::cuda(0).unwrap();
    let theirs = ours.new_stream().unwrap();
    let (x, b) = (random(1, &ours), random(2, &theirs));
    let big = Tensor::randn([4096, 4096], DType::F32, &theirs).unwrap();
    #[fused_graph]
    fn square(x: &Tensor) -> Tensor {
        matmul(x, x)
    }
    drop(square(&big).unwrap());
    let mut call = affine::bind(&x, &b, 0.5).unwrap();
    let graph = call.capture().unwrap();
    for i in 0..6u64 {
        let next = random(10 + i, &theirs);
        theirs.synchronize().unwrap();
        let want = affine_of(&x, &next, 0.5);
        // Milliseconds of work, and behind it the new values.
        (0..4).for_each(|_| drop(square(&big).unwrap()));
        b.copy_from(&next).unwrap();
        if i % 2 == 0 { call.launch() } else { graph.replay() }.unwrap();
        // What follows on their stream waits for us: it must not change what we read.
        b.copy_from(&x).unwrap();
        close(call.outputs(), &want);
    }
    // In a capture of the caller's the other stream cannot be waited for; that is said before anything is harmed.
    let stream = ours.cuda_stream().unwrap();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    let refused = call.launch().unwrap_err();
    assert!(refused.message().contains("captured"), "{refused}");
    stream.end_capture(NO_FLAGS).unwrap();
    call.launch().unwrap();
    close(call.outputs(), &affine_of(&x, &x, 0.5));
}

/// The default stream cannot be captured; a call on it can, since it is captured elsewhere.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn the_default_stream() {
    let context = Device::cuda(0).unwrap().cuda_stream().unwrap().context().clone();
    let dev = Device::cuda_on(&context.default_stream()).unwrap();
    let (x, b) = (random(1, &dev), random(2, &dev));
    let call = affine::bind(&x, &b, 0.5).unwrap();
    let graph = call.capture().unwrap();
    graph.replay().unwrap();
    close(call.outputs(), &affine_of(&x, &b, 0.5));
}

/// Replays that are queued keep the buffers that they were queued with.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn an_update_while_replays_are_in_flight() {
    let dev = Device::cuda(0).unwrap();
    let (x, b) = (random(1, &dev), random(2, &dev));
    let (first, second) = (affine_of(&x, &b, 0.5), affine_of(&b, &b, 2.0));
    for _ in 0..20 {
        let mut call = affine::bind(&x, &b, 0.5).unwrap();
        let mut graph = call.capture().unwrap();
        let old = call.outputs().clone();
        let new = Tensor::zeros([8, 32, 16], DType::F32, &dev).unwrap();
        (0..200).for_each(|_| graph.replay().unwrap());
        call.set_output(0, &new).unwrap();
        call.set_tensor("x", &b).unwrap();
        call.set_scalar("s", 2.0).unwrap();
        graph.update(&[&call]).unwrap();
        graph.replay().unwrap();
        close(&old, &first);
        close(&new, &second);
    }
}
