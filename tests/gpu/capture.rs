//! Cases 5 and 34: functions inside a CUDA graph that the caller captures through cudarc. Bound calls are in `gpu_bind.rs`.

use crate::common::values;
use fused_graph::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode, CUstreamCaptureStatus};
use fused_graph::cudarc::driver::{CudaContext, CudaGraph, CudaStream};
use fused_graph::{Error, ErrorKind, prelude::*};
use std::sync::Arc;

/// With a core, a workspace perhaps, and two results.
#[fused_graph]
fn linear(x: &Tensor, w: &Tensor, b: &Tensor, s: f32) -> (Tensor, Tensor) {
    let y = relu(s * matmul(x, w) + b);
    (y, amax(y))
}

/// Two kernels with memory between them.
#[fused_graph]
fn twice(x: &Tensor, w: &Tensor) -> Tensor {
    matmul(relu(matmul(x, w)), w)
}

#[fused_graph]
fn shifted(x: &Tensor, s: f32) -> Tensor {
    x + s
}

const MODES: [CUstreamCaptureMode; 3] = [
    CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
    CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
    CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED,
];
const GLOBAL: CUstreamCaptureMode = MODES[0];

/// A device with a stream of its own: what other tests queue must not get into a graph.
struct Own {
    dev: Device,
    stream: Arc<CudaStream>,
}

impl Own {
    fn new() -> Own {
        let dev = Device::cuda(0).unwrap().new_stream().unwrap();
        let stream = dev.cuda_stream().unwrap();
        Own { dev, stream }
    }

    fn full(&self, value: f64) -> Tensor {
        Tensor::full([64, 64], value, DType::F32, &self.dev).unwrap()
    }

    fn identity(&self) -> Tensor {
        let data: Vec<f32> = (0..64 * 64).map(|i| if i / 64 == i % 64 { 1.0 } else { 0.0 }).collect();
        Tensor::from_slice(&data, [64, 64], &self.dev).unwrap()
    }

    fn begin(&self, mode: CUstreamCaptureMode) {
        self.dev.synchronize().unwrap();
        self.stream.begin_capture(mode).unwrap();
    }

    fn end(&self) -> CudaGraph {
        self.stream.end_capture(CUgraphInstantiate_flags(0)).unwrap().expect("a graph")
    }

    fn is_usable(&self) -> bool {
        self.stream.capture_status().unwrap() == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE
    }

    /// What is refused says so and does no harm.
    fn refused<T: std::fmt::Debug>(&self, result: fused_graph::Result<T>, words: &str) {
        let error: Error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cuda, "{error}");
        assert!(error.message().contains("captured into a CUDA graph") && error.message().contains(words), "{error}");
        assert!(self.is_usable(), "after: {error}");
    }
}

fn assert_all(t: &Tensor, value: f64) {
    let wrong: Vec<f64> = values(t).into_iter().filter(|v| *v != value).take(3).collect();
    assert!(wrong.is_empty(), "{wrong:?}, not {value}");
}

/// Takes and fills the memory that lies about.
fn churn(own: &Own) -> Vec<Tensor> {
    let tensors: Vec<Tensor> = (0..24).map(|i| own.full(-f64::from(i) - 1.0)).collect();
    let more: Vec<Tensor> = (0..8).map(|_| Tensor::full([512, 512], -1.0, DType::F32, &own.dev).unwrap()).collect();
    tensors.into_iter().chain(more).collect()
}

fn unharmed(churned: &[Tensor]) {
    for (i, t) in churned.iter().enumerate() {
        assert_all(t, if i < 24 { -(i as f64) - 1.0 } else { -1.0 });
    }
}

/// A function that was called before, in every mode: replays read the arguments as they are then, and write nothing but their own memory.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn warmed_functions() {
    let own = Own::new();
    let (x, w, b) = (own.full(1.0), own.identity(), own.full(0.5));
    drop((linear(&x, &w, &b, 1.0).unwrap(), twice(&x, &w).unwrap(), shifted(&x, 1.0).unwrap()));
    for mode in MODES {
        own.begin(mode);
        let (y, largest) = linear(&x, &w, &b, 2.0).unwrap();
        // Results of one are arguments of the next, of which one is dropped in the capture.
        let z = twice(&shifted(&y, 1.0).unwrap(), &w).unwrap();
        let graph = own.end();
        let churned = churn(&own);
        for round in 1..=3 {
            x.copy_from(&own.full(f64::from(round))).unwrap();
            let others = churn(&own);
            graph.launch().unwrap();
            graph.launch().unwrap();
            let want = 2.0 * f64::from(round) + 0.5;
            assert_all(&y, want);
            assert_eq!(values(&largest), [want]);
            assert_all(&z, want + 1.0);
            unharmed(&others);
        }
        unharmed(&churned);
        // Plain calls are as before.
        assert_all(&linear(&x, &w, &b, 1.0).unwrap().0, 3.5);
    }
}

/// The graph keeps what it uses: arguments, results, workspace and plan may go.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn a_graph_keeps_what_it_uses() {
    let own = Own::new();
    let sink = own.full(0.0);
    let graph = {
        let (x, w) = (own.full(3.0), own.identity());
        drop(twice(&x, &w).unwrap());
        drop(x.t().unwrap().contiguous().unwrap());
        own.begin(GLOBAL);
        let y = twice(&x.t().unwrap().contiguous().unwrap(), &w).unwrap();
        sink.copy_from(&y).unwrap();
        own.end()
    };
    twice::clear();
    let churned = churn(&own);
    // A build frees what waits for it.
    #[fused_graph]
    fn another(x: &Tensor) -> Tensor {
        relu(matmul(x, x) - 1.0)
    }
    drop(another(&churned[0]).unwrap());
    for _ in 0..3 {
        sink.copy_from(&churned[5]).unwrap();
        graph.launch().unwrap();
        assert_all(&sink, 3.0);
    }
    unharmed(&churned);
    // Dropped while it runs; then its memory is used again.
    graph.launch().unwrap();
    drop(graph);
    assert_all(&sink, 3.0);
    unharmed(&churn(&own));
    let x = own.full(4.0);
    assert_all(&twice(&x, &own.identity()).unwrap(), 4.0);
}

/// Graphs that come and go leave nothing behind.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn graphs_that_come_and_go() {
    let own = Own::new();
    let x = Tensor::full([1024, 1024], 1.0, DType::F32, &own.dev).unwrap();
    drop(shifted(&x, 1.0).unwrap());
    let free = || own.stream.context().mem_get_info().unwrap().0;
    let mut before = 0;
    for round in 0..200 {
        own.begin(GLOBAL);
        let y = shifted(&x, 2.0).unwrap();
        let graph = own.end();
        graph.launch().unwrap();
        if round % 50 == 0 {
            assert!(values(&y).iter().all(|v| *v == 3.0));
        }
        drop((graph, y));
        if round == 20 {
            before = free();
        }
    }
    let lost = before.saturating_sub(free());
    assert!(lost < 64 << 20, "180 graphs of 4 MiB left {lost} bytes behind");
}

/// Case 34: what cannot be captured is refused before it harms the capture, which then goes on; afterwards everything works.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn case_34_refusals() {
    #[fused_graph]
    fn never_called(x: &Tensor, w: &Tensor) -> Tensor {
        relu(matmul(x, w) * 3.0)
    }
    for mode in MODES {
        never_called::clear();
        let own = Own::new();
        let (x, w) = (own.full(2.0), own.identity());
        shifted::clear();
        drop(shifted(&x, 1.0).unwrap());
        let wide = Tensor::ones([64, 65], DType::F32, &own.dev).unwrap();
        own.begin(mode);
        let first = shifted(&x, 1.0).unwrap();
        own.refused(never_called(&x, &w), "`never_called` has no plan");
        own.refused(never_called::plan(&x, &w), "call `never_called`");
        own.refused(never_called::tune(&x, &w), "before");
        own.refused(shifted(&wide, 1.0), "`shifted` has no plan");
        own.refused(first.to_vec::<f32>(), "no values");
        own.refused(own.dev.synchronize(), "before its replay");
        own.refused(Tensor::zeros([4], DType::F32, &own.dev), "make the tensor before");
        own.refused(x.write(&[0.0f32; 64 * 64]), "");
        let second = shifted(&first, 10.0).unwrap();
        let graph = own.end();
        for value in [5.0, 6.0] {
            x.copy_from(&own.full(value)).unwrap();
            graph.launch().unwrap();
            assert_all(&first, value + 1.0);
            assert_all(&second, value + 11.0);
        }
        assert_all(&never_called(&x, &w).unwrap(), 18.0);
        assert!(shifted(&wide, 1.0).is_ok());
    }
}

/// A thread without a handle of cuDNN's cannot make one in a capture, and says so; a generated kernel needs none.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn another_thread_goes_on_with_a_capture() {
    let own = Own::new();
    let (x, w) = (own.full(2.0), own.identity());
    drop((shifted(&x, 1.0).unwrap(), twice(&x, &w).unwrap()));
    own.begin(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED);
    let (plain, core) = std::thread::scope(|s| s.spawn(|| (shifted(&x, 4.0).unwrap(), twice(&x, &w))).join().unwrap());
    assert!(own.is_usable());
    let graph = own.end();
    graph.launch().unwrap();
    assert_all(&plain, 6.0);
    match core {
        // It took over a handle that a thread of another test had left.
        Ok(y) => assert_all(&y, 2.0),
        Err(error) => assert!(error.message().contains("once on this thread"), "{error}"),
    }
}

/// Case 34: what happens beside a capture, on this thread and on others, neither invalidates it nor gets into it.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn case_34_beside_a_capture() {
    #[fused_graph]
    fn dropped(x: &Tensor, n: u32) -> Tensor {
        relu(matmul(x, x) * f64::from(n))
    }
    for mode in MODES {
        let (own, other) = (Own::new(), Own::new());
        let x = own.full(2.0);
        drop(shifted(&x, 1.0).unwrap());
        let (mine, theirs) = (own.full(0.0), other.full(1.0));
        drop((dropped(&mine, 1).unwrap(), dropped(&theirs, 2).unwrap()));
        let plan = dropped::plan(&theirs, 3).unwrap();
        own.begin(mode);
        let first = shifted(&x, 1.0).unwrap();
        // Tensors and plans that have nothing to do with it, and a device with its stream and memory.
        drop(mine);
        dropped::clear();
        drop(plan);
        drop(Own::new().dev);
        assert!(own.is_usable(), "dropping");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Allocates, builds, loads, frees, reads.
                let fresh = Own::new();
                let t = Tensor::ones([333, 77], DType::F32, &fresh.dev).unwrap();
                assert!(values(&shifted(&t, 2.0).unwrap()).iter().all(|v| *v == 3.0));
                assert_all(&dropped(&other.full(1.0), 4).unwrap(), 256.0);
                dropped::clear();
                assert_all(&dropped(&other.full(1.0), 5).unwrap(), 320.0);
            });
        });
        assert!(own.is_usable(), "another thread");
        let second = shifted(&first, 1.0).unwrap();
        let graph = own.end();
        (0..2).for_each(|_| graph.launch().unwrap());
        assert_all(&second, 4.0);
        assert_all(&dropped(&theirs, 2).unwrap(), 128.0);
        // What was retired meanwhile is freed at the next build.
        assert_all(&dropped(&theirs, 6).unwrap(), 384.0);
    }
}

/// Tensors of a stream that takes no part in the capture are refused; those of one that does are not.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn other_streams_in_a_capture() {
    #[fused_graph]
    fn sum_of(a: &Tensor, b: &Tensor) -> Tensor {
        a + b
    }
    let (own, other) = (Own::new(), Own::new());
    let (a, b) = (own.full(1.0), other.full(2.0));
    drop((sum_of(&a, &b).unwrap(), sum_of(&b, &a).unwrap()));
    own.begin(GLOBAL);
    own.refused(sum_of(&a, &b), "join the capture");
    own.refused(sum_of(&b, &a), "join the capture");
    // Forked: the other stream takes part.
    other.stream.join(&own.stream).unwrap();
    let c = sum_of(&a, &b).unwrap();
    let d = sum_of(&b, &c).unwrap();
    own.stream.join(&other.stream).unwrap();
    let graph = own.end();
    for value in [1.0, 5.0] {
        a.copy_from(&own.full(value)).unwrap();
        own.dev.synchronize().unwrap();
        graph.launch().unwrap();
        assert_all(&c, value + 2.0);
        own.dev.synchronize().unwrap();
        assert_all(&d, value + 4.0);
    }
}

/// Case 5: slices of cudarc's in a capture, with its event tracking and without; no error is parked for an unrelated call.
#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn case_5_slices() {
    for tracking in [true, false] {
        let context = CudaContext::new(0).unwrap();
        if !tracking {
            // SAFETY: this context object and its slices are used by this test alone, on streams that it joins by hand.
            #[allow(unsafe_code)]
            unsafe {
                context.disable_event_tracking()
            };
        }
        // Two, so that cudarc manages the order of streams.
        let (stream, second) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let slice = stream.clone_htod(&vec![1.5f32; 64 * 64]).unwrap();
        let spare = stream.clone_htod(&vec![2.5f32; 64 * 64]).unwrap();
        let x = Tensor::from_cuda_slice(slice, [64, 64]).unwrap();
        let spare = Tensor::from_cuda_slice(spare, [64, 64]).unwrap();
        // Used on the second stream too, before the capture.
        let view = x.cuda_view::<f32>().unwrap();
        if !tracking {
            second.join(&stream).unwrap();
        }
        assert_eq!(second.clone_dtoh(&view).unwrap(), vec![1.5; 64 * 64]);
        drop(view);
        drop(shifted(&x, 1.0).unwrap());
        stream.synchronize().unwrap();
        second.synchronize().unwrap();
        stream.begin_capture(GLOBAL).unwrap();
        let y = shifted(&x, 1.0).unwrap();
        // Neither freed nor waited for now.
        drop(spare);
        assert_eq!(stream.capture_status().unwrap(), CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE);
        let graph = stream.end_capture(CUgraphInstantiate_flags(0)).unwrap().unwrap();
        (0..2).for_each(|_| graph.launch().unwrap());
        assert_eq!(stream.clone_dtoh(&y.cuda_view::<f32>().unwrap()).unwrap(), vec![2.5; 64 * 64]);
        drop(graph);
        drop((x, y));
        context.check_err().unwrap();
        let unrelated = second.clone_htod(&[1u8; 16]).unwrap();
        assert_eq!(second.clone_dtoh(&unrelated).unwrap(), [1; 16]);
        second.memcpy_htod(&[2u8; 16], &mut second.alloc_zeros::<u8>(16).unwrap()).unwrap();
        stream.synchronize().unwrap();
        context.check_err().unwrap();
        // And in ours.
        let dev = Device::cuda_on(&second).unwrap();
        assert_all(&shifted(&Tensor::ones([64, 64], DType::F32, &dev).unwrap(), 1.0).unwrap(), 2.0);
        context.check_err().unwrap();
    }
}
