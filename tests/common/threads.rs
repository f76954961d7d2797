//! Case 13: functions, plans and tensors that threads share.

use super::{close, product, tensor, values};
use fused_graph::prelude::*;
use fused_graph::{ErrorKind, Result};
use std::cell::Cell;
use std::panic::catch_unwind;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Plans that were made, be it from what the disk remembers of an earlier run.
fn made(stats: &fused_graph::Stats) -> u64 {
    stats.plans_built + stats.plans_loaded
}

/// Runs `f` on `n` threads that begin at once; the results in order of the threads.
pub fn at_once<R: Send>(n: usize, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let start = Barrier::new(n);
    std::thread::scope(|scope| {
        let begin = |i| {
            let (start, f) = (&start, &f);
            scope.spawn(move || {
                start.wait();
                f(i)
            })
        };
        let threads: Vec<_> = (0..n).map(begin).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

/// (i) A first call from 16 threads builds once, and all get the same.
pub fn case_13_one_signature(dev: &Device) {
    #[fused_graph]
    fn linear(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
        relu(matmul(x, w) + b)
    }
    let [x, w] = [(); 2].map(|()| Tensor::randn([64, 64], DType::F16, dev).unwrap());
    let b = Tensor::randn([64], DType::F16, dev).unwrap();
    let results = at_once(16, |_| values(&linear(&x, &w, &b).unwrap()));
    assert!(results.iter().all(|r| *r == results[0]));
    let stats = linear::stats();
    assert_eq!((stats.calls, made(&stats), stats.hits()), (16, 1, 15), "{stats}");
}

/// (ii) 16 threads, each with a signature of its own.
pub fn case_13_many_signatures(dev: &Device) {
    #[fused_graph]
    fn mm(a: &Tensor, b: &Tensor) -> Tensor {
        matmul(a, b)
    }
    at_once(16, |i| {
        let (m, k, n) = (8 * (i + 1), 16, 24);
        let a = Tensor::randn([1, m, k], DType::F16, dev).unwrap();
        let b = Tensor::randn([1, k, n], DType::F16, dev).unwrap();
        for _ in 0..3 {
            close(&mm(&a, &b).unwrap(), &product(&values(&a), &values(&b), 1, m, k, n));
        }
    });
    let stats = mm::stats();
    assert_eq!((stats.calls, made(&stats), stats.plans_in_memory), (48, 16, 16), "{stats}");
}

/// (iii) One plan, 8 threads, 200 calls with buffers of their own: A is i + 1 times the identity. Buffers that cross give a valid address and a
/// wrong number.
pub fn case_13_own_buffers(dev: &Device) {
    #[fused_graph]
    fn mm(a: &Tensor, b: &Tensor) -> Tensor {
        matmul(a, b)
    }
    let n = 64;
    at_once(8, |i| {
        let own: Vec<f32> = (0..n * n).map(|at| if at / n == at % n { (i + 1) as f32 } else { 0.0 }).collect();
        let a = tensor(&own, &[64, 64], DType::BF16, dev);
        // Whole numbers: every result is exact.
        let other: Vec<f32> = (0..n * n).map(|at| ((at * 7 + i) % 13) as f32).collect();
        let b = tensor(&other, &[64, 64], DType::BF16, dev);
        let want: Vec<f64> = other.iter().map(|v| f64::from(*v) * (i + 1) as f64).collect();
        // Several in flight before one is looked at.
        for _ in 0..40 {
            let results: Vec<Tensor> = (0..5).map(|_| mm(&a, &b).unwrap()).collect();
            for y in results {
                assert!(values(&y) == want, "thread {i} has numbers of another");
            }
        }
    });
    assert_eq!((mm::stats().calls, made(&mm::stats())), (1600, 1));
}

/// (iv) One thread forgets the plans, another pushes them out with 300 signatures, while others call.
pub fn case_13_eviction(dev: &Device) {
    #[fused_graph]
    fn scaled(x: &Tensor, s: f32, _signature: usize) -> Tensor {
        relu(x * s)
    }
    let x = tensor(&[-1.0, 2.0, 3.0, -4.0], &[2, 2], DType::F32, dev);
    let done = AtomicBool::new(false);
    let calls = at_once(6, |i| {
        let mut calls = 0;
        let mut check = |signature| {
            let s = 1.0 + i as f32;
            let y = scaled(&x, s, signature).unwrap().to_vec::<f32>().unwrap();
            assert_eq!(y, [0.0, 2.0 * s, 3.0 * s, 0.0]);
            calls += 1;
        };
        match i {
            0 => {
                (1..=300).for_each(&mut check);
                done.store(true, Ordering::Release);
            }
            1 => {
                while !done.load(Ordering::Acquire) {
                    scaled::clear();
                    std::thread::yield_now();
                }
            }
            _ => {
                while !done.load(Ordering::Acquire) {
                    check(0);
                }
            }
        }
        calls
    });
    let stats = scaled::stats();
    assert_eq!(stats.calls, calls.iter().sum::<u64>());
    assert!(made(&stats) >= 301 && stats.plans_in_memory <= 256, "{stats}");

    // Without `clear` the bound holds by eviction, and what was pushed out comes again.
    (1..=300).for_each(|signature| drop(scaled(&x, 1.0, signature).unwrap()));
    let stats = scaled::stats();
    assert!(stats.evicted >= 44 && stats.plans_in_memory == 256, "{stats}");
    assert_eq!(scaled(&x, 5.0, 1).unwrap().to_vec::<f32>().unwrap(), [0.0, 10.0, 15.0, 0.0]);
    assert_eq!(made(&scaled::stats()), made(&stats) + 1);
}

thread_local! {
    static PANICS: Cell<bool> = const { Cell::new(false) };
}

/// (v) A body that panics does so for its caller alone.
pub fn case_13_panic(dev: &Device) {
    #[fused_graph]
    fn fragile(x: &Tensor) -> Tensor {
        // While the others wait for this trace.
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(!PANICS.get(), "the user's own panic");
        relu(x)
    }
    let x = tensor(&[-1.0, 2.0], &[2], DType::F32, dev);
    let right = || fragile(&x).unwrap().to_vec::<f32>().unwrap() == [0.0, 2.0];
    for round in 0..20 {
        fragile::clear();
        at_once(8, |i| {
            // At least two of them, and another number of threads in front of them in each round.
            PANICS.set(i == round % 8 || i == 7);
            match catch_unwind(std::panic::AssertUnwindSafe(|| fragile(&x))) {
                // Those that came when the plan was there do not run the body.
                Ok(y) => assert_eq!(y.unwrap().to_vec::<f32>().unwrap(), [0.0, 2.0]),
                Err(panic) => {
                    assert!(PANICS.get(), "a panic reached a thread that had none");
                    assert!(panic.downcast_ref::<&str>().is_some_and(|text| text.contains("own panic")));
                }
            }
            PANICS.set(false);
            assert!(right(), "the thread that panicked goes on");
        });
        assert!(right());
    }
    assert_eq!(made(&fragile::stats()), 20);
    assert_eq!(fragile::stats().plans_in_memory, 1);
}

/// Mistakes from 16 threads: all get the same text, and a good call works meanwhile.
pub fn case_13_mistakes(dev: &Device) {
    #[fused_graph]
    fn mm(a: &Tensor, b: &Tensor) -> Tensor {
        matmul(a, b)
    }
    let [a, b] = [[4, 5], [6, 7]].map(|dims| Tensor::ones(dims, DType::F32, dev).unwrap());
    let texts = at_once(16, |i| {
        if i == 0 {
            let square = Tensor::ones([3, 3], DType::F32, dev).unwrap();
            assert_eq!(values(&mm(&square, &square).unwrap()), [3.0; 9]);
        }
        let error = mm(&a, &b).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Shape);
        error.to_string()
    });
    assert!(texts.iter().all(|t| *t == texts[0] && t.contains("4×5 by 6×7")), "{texts:?}");
    assert_eq!((made(&mm::stats()), mm::stats().builds_failed, mm::stats().plans_in_memory), (1, 16, 1));
}

static TRACED: AtomicUsize = AtomicUsize::new(0);

/// What no kernel of the device does is found out once, also when 16 threads ask. `dev` has no convolution of F64.
pub fn case_13_refusals(dev: &Device) {
    #[fused_graph]
    fn refused(x: &Tensor, w: &Tensor) -> Tensor {
        TRACED.fetch_add(1, Ordering::Relaxed);
        conv2d(x, w)
    }
    let x = Tensor::ones([1, 8, 4, 4], DType::F64, dev).unwrap();
    let w = Tensor::ones([8, 8, 3, 3], DType::F64, dev).unwrap();
    let call = |_| -> Result<Tensor> { refused(&x, &w) };
    let errors: Vec<_> = at_once(16, call).into_iter().chain([call(0)]).map(Result::unwrap_err).collect();
    assert!(errors.iter().all(|e| e.kind() == ErrorKind::Unsupported && e.to_string() == errors[0].to_string()));
    assert_eq!(TRACED.load(Ordering::Relaxed), 1);
    assert_eq!((refused::stats().builds_failed, refused::stats().plans_in_memory), (1, 0));
    // A shape that the same function takes on the CPU is another signature.
    assert!(refused(&x.to(&Device::CPU).unwrap(), &w.to(&Device::CPU).unwrap()).is_ok());
}

/// (vi) What threads share may be shared: a statement to the compiler.
pub const fn case_13_shared() {
    const fn shared<T: Send + Sync + 'static>() {}
    shared::<Tensor>();
    shared::<Device>();
    shared::<fused_graph::Error>();
    shared::<fused_graph::Plan>();
    shared::<fused_graph::Graph>();
    shared::<fused_graph::Stats>();
    shared::<fused_graph::Explain>();
    shared::<fused_graph::TuneReport>();
    shared::<fused_graph_core::site::Site>();
}
