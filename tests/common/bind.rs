//! Bound calls and graphs of them: what a launch or a replay gives, and what it must never give.

use super::{close, fake, product, tensor, values};
use fused_graph::{Bound, BoundCall, Captured, Error, ErrorKind, prelude::*};

#[fused_graph]
fn affine(x: &Tensor, b: &Tensor, s: f32) -> Tensor {
    relu(x * s + b)
}

#[fused_graph]
fn linear_amax(x: &Tensor, w: &Tensor, b: Option<&Tensor>, alpha: f32) -> (Tensor, [Tensor; 1]) {
    let y = alpha * matmul(x, w);
    let y = relu(match b {
        Some(b) => y + b,
        None => y,
    });
    (y, [amax(y)])
}

#[fused_graph]
fn conv_bias_relu(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
    relu(conv2d(x, w, bias = b, padding = 1))
}

/// (x, b) of [`affine`], in the sizes of the reference's captured matmul: b8 m32 n16.
fn operands(dev: &Device) -> (Tensor, Tensor) {
    let random = |seed| Tensor::randn_seeded([8, 32, 16], DType::F32, seed, dev).unwrap();
    (random(1), random(2))
}

fn affine_of(x: &Tensor, b: &Tensor, s: f64) -> Vec<f64> {
    values(x).iter().zip(values(b)).map(|(x, b)| (x * s + b).max(0.0)).collect()
}

fn launched(call: &mut Bound<Tensor>) -> Tensor {
    call.launch().unwrap();
    call.outputs().clone()
}

/// The same values as a plain call, launch after launch, for kernels with and without a core, and results in every form.
pub fn launches_agree_with_calls(dev: &Device) {
    #[fused_graph]
    fn counted(x: &Tensor, b: &Tensor, s: f32) -> Tensor {
        affine::expr(x, b, s)
    }
    let (x, b) = operands(dev);
    let mut call = counted::bind(&x, &b, 0.5).unwrap();
    for round in 0..4 {
        close(&launched(&mut call), &affine_of(&x, &b, 0.5));
        x.copy_from(&Tensor::randn_seeded([8, 32, 16], DType::F32, 10 + round, dev).unwrap()).unwrap();
    }
    assert_eq!((counted::stats().calls, counted::stats().plans_built), (0, 1), "a launch is no call");
    let again = counted::bind(&x, &b, 1.0).unwrap();
    assert_eq!(counted::stats().plans_built, 1);
    drop(again);

    let half = dev.preferred_half();
    let x = Tensor::randn_seeded([4, 32, 64], half, 3, dev).unwrap();
    let w = Tensor::randn_seeded([4, 64, 16], half, 4, dev).unwrap();
    let bias = Tensor::randn_seeded([16], half, 5, dev).unwrap();
    for b in [None, Some(&bias)] {
        let mut call = linear_amax::bind(&x, &w, b, 0.25).unwrap();
        for _ in 0..3 {
            call.launch().unwrap();
            let (y, [largest]) = linear_amax(&x, &w, b, 0.25).unwrap();
            let (got, [got_largest]) = call.outputs();
            close(got, &values(&y));
            close(got_largest, &values(&largest));
        }
    }

    let x = Tensor::randn_seeded([2, 16, 9, 7], half, 6, dev).unwrap().channels_last().unwrap();
    let w = Tensor::randn_seeded([32, 16, 3, 3], half, 7, dev).unwrap().channels_last().unwrap();
    let b = Tensor::randn_seeded([32], half, 8, dev).unwrap();
    let mut call = conv_bias_relu::bind(&x, &w, &b).unwrap();
    for _ in 0..2 {
        close(&launched(&mut call), &values(&conv_bias_relu(&x, &w, &b).unwrap()));
        assert!(call.outputs().is_channels_last());
    }
}

/// Several kernels with memory between them, operands that are copied first, and results that look at the same memory.
pub fn several_kernels_and_views(dev: &Device) {
    #[fused_graph]
    fn chain(x: &Tensor, w: &Tensor, v: &Tensor) -> (Tensor, Tensor, Tensor) {
        let hidden = relu(matmul(x, w));
        let y = matmul(hidden, v);
        (y, transpose(y, 0, 1), y)
    }
    let random = |dims: [usize; 2], seed| Tensor::randn_seeded(dims, DType::F32, seed, dev).unwrap();
    // Rows that begin at odd places.
    let x = random([24, 41], 1).slice(1, 1..).unwrap();
    let (w, v) = (random([40, 48], 2), random([16, 48], 3).t().unwrap());
    let mut call = chain::bind(&x, &w, &v).unwrap();
    for seed in 4..7 {
        let hidden: Vec<f64> = product(&values(&x), &values(&w), 1, 24, 40, 48).iter().map(|v| v.max(0.0)).collect();
        let want = product(&hidden, &values(&v), 1, 24, 48, 16);
        call.launch().unwrap();
        let (y, t, again) = call.outputs();
        close(y, &want);
        assert_eq!(values(&t.t().unwrap()), values(y));
        assert_eq!(values(again), values(y));
        x.copy_from(&random([24, 40], seed)).unwrap();
    }
    let into = Tensor::zeros([24, 16], DType::F32, dev).unwrap();
    assert_eq!(call.set_output(0, &into).unwrap_err().kind(), ErrorKind::Layout, "two results look at that memory");
}

/// Instances, static parameters and nested results: `bind` has the parameters of the function.
pub fn every_kind_of_parameter(dev: &Device) {
    #[fused_graph]
    fn every<T: Element, const N: usize>(
        x: &Tensor,
        more: Option<&Tensor>,
        alpha: f32,
        beta: f64,
        negate: bool,
    ) -> ([Tensor; 2], (Tensor, Tensor)) {
        let mut y = alpha * x + beta;
        for _ in 0..N {
            y = y + x;
        }
        let y = match more {
            Some(more) => y * more,
            None => y,
        };
        let z = if negate { -y } else { y };
        ([y, z], (sum(z), cast(z, T::DTYPE)))
    }
    let x = tensor(&[1.0, 2.0, 3.0, 4.0], &[2, 2], DType::F32, dev);
    let mut call = every::bind::<f16, 2>(&x, Some(&x), 0.5, 0.25, true).unwrap();
    call.set_scalar("beta", 0.5f32).unwrap();
    call.launch().unwrap();
    let want = [3.0, 11.0, 24.0, 42.0];
    let ([y, z], (total, cast)) = call.outputs();
    assert_eq!((values(y), cast.dtype()), (want.to_vec(), DType::F16));
    for negated in [z, cast] {
        assert_eq!(values(negated), want.map(|v: f64| -v));
    }
    assert_eq!(values(total), [-80.0]);
    refused(call.set_scalar("negate", 1.0), ErrorKind::Argument, &["no host scalar `negate`", "`alpha`, `beta`"]);
    // A result by its place through arrays and tuples.
    let into = Tensor::zeros([2, 2], DType::F16, dev).unwrap();
    call.set_output(3, &into).unwrap();
    call.launch().unwrap();
    assert_eq!(values(&into), want.map(|v| -v));
    assert_eq!(values(&call.outputs().1.1), values(&into));
}

/// Other buffers and scalars, and results in a buffer of the caller's.
pub fn rebinding(dev: &Device) {
    let (x, b) = operands(dev);
    let other = Tensor::randn_seeded([8, 32, 16], DType::F32, 9, dev).unwrap();
    let mut call = affine::bind(&x, &b, 0.5).unwrap();
    close(&launched(&mut call), &affine_of(&x, &b, 0.5));
    call.set_tensor("x", &other).unwrap();
    close(&launched(&mut call), &affine_of(&other, &b, 0.5));
    call.set_scalar("s", 2.0).unwrap();
    close(&launched(&mut call), &affine_of(&other, &b, 2.0));
    call.set_tensor("b", &x).unwrap();
    close(&launched(&mut call), &affine_of(&other, &x, 2.0));

    let old = call.outputs().clone();
    let kept = values(&old);
    let all = Tensor::zeros([2, 8, 32, 16], DType::F32, dev).unwrap();
    let second = all.slice(0, 1..2).unwrap().squeeze(0).unwrap();
    call.set_output(0, &second).unwrap();
    call.set_scalar("s", -1.0).unwrap();
    close(&launched(&mut call), &affine_of(&other, &x, -1.0));
    close(&second, &affine_of(&other, &x, -1.0));
    assert_eq!(values(&old), kept, "what was a result is written no more");
    assert!(values(&all.slice(0, 0..1).unwrap()).iter().all(|v| *v == 0.0));

    // The scalar is an f32, whatever it is given as.
    call.set_scalar("s", 0.1).unwrap();
    assert_eq!(values(&launched(&mut call)), values(&affine(&other, &x, 0.1).unwrap()));
}

fn refused(result: fused_graph::Result<()>, kind: ErrorKind, words: &[&str]) {
    let error: Error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.message().contains(word), "{word} is missing in: {error}");
    }
    assert!(!error.message().contains('\n') && !error.message().contains("0x"), "{error}");
}

/// As strict as a call: what is refused changes nothing, names the parameter, and the next good launch is right.
pub fn what_does_not_fit_is_refused(dev: &Device) {
    let (x, b) = operands(dev);
    let mut call = affine::bind(&x, &b, 0.5).unwrap();
    let y = launched(&mut call);
    let want = affine_of(&x, &b, 0.5);
    let random = |dims: &[usize], dtype| Tensor::randn_seeded(dims, dtype, 3, dev).unwrap();

    let set = |call: &mut Bound, t: &Tensor| call.set_tensor("x", t);
    refused(set(&mut call, &random(&[8, 16, 32], DType::F32)), ErrorKind::Shape, &["`x`", "`affine`", "[8, 32, 16]"]);
    refused(set(&mut call, &random(&[4, 32, 16], DType::F32)), ErrorKind::Shape, &["`x`", "[4, 32, 16]"]);
    refused(set(&mut call, &random(&[32, 16], DType::F32)), ErrorKind::Shape, &["`x`", "[32, 16]"]);
    refused(set(&mut call, &random(&[8, 32, 16], DType::F16)), ErrorKind::DType, &["`x`", "f32", "f16", "to_dtype"]);
    let transposed = random(&[8, 16, 32], DType::F32).transpose(1, 2).unwrap();
    refused(set(&mut call, &transposed), ErrorKind::Layout, &["`x`", "[512, 16, 1]", "[512, 1, 32]"]);
    let gaps = random(&[8, 32, 32], DType::F32).slice(2, 0..16).unwrap();
    refused(set(&mut call, &gaps), ErrorKind::Layout, &["`x`", "[1024, 32, 1]"]);
    if !dev.is_cpu() {
        let odd = random(&[8 * 32 * 16 + 1], DType::F32).slice(0, 1..).unwrap().reshape([8, 32, 16]).unwrap();
        refused(set(&mut call, &odd), ErrorKind::Layout, &["`x`", "multiple of 4 only"]);
        refused(set(&mut call, &x.to(&Device::CPU).unwrap()), ErrorKind::Device, &["`x`", "CPU"]);
        refused(call.set_output(0, &x.to(&Device::CPU).unwrap()), ErrorKind::Device, &["result 0"]);
    } else {
        let elsewhere = x.to(&fake::device(1)).unwrap();
        refused(set(&mut call, &elsewhere), ErrorKind::Device, &["`x`", "on CPU", "Fake 1"]);
        refused(call.set_output(0, &elsewhere), ErrorKind::Device, &["result 0"]);
    }
    refused(set(&mut call, &y), ErrorKind::Argument, &["`x`", "result 0"]);
    refused(call.set_tensor("y", &x), ErrorKind::Argument, &["`y`", "`x`, `b`"]);
    refused(call.set_tensor("s", &x), ErrorKind::Argument, &["no tensor `s`"]);
    refused(call.set_scalar("x", 1.0), ErrorKind::Argument, &["no host scalar `x`", "`s`"]);
    refused(call.set_output(1, &x), ErrorKind::Argument, &["1 results"]);
    refused(call.set_output(0, &x), ErrorKind::Argument, &["`x`", "result 0"]);
    refused(call.set_output(0, &random(&[8, 32, 8], DType::F32)), ErrorKind::Shape, &["result 0"]);
    let repeated = random(&[1, 32, 16], DType::F32).expand([8, 32, 16]).unwrap();
    refused(call.set_output(0, &repeated), ErrorKind::Layout, &["result 0"]);

    close(&y, &want);
    let graph = call.capture().unwrap();
    graph.replay().unwrap();
    x.copy_from(&b).unwrap();
    close(&launched(&mut call), &affine_of(&b, &b, 0.5));

    let half = dev.preferred_half();
    let (x, w) = (random(&[4, 8, 16], half), random(&[4, 16, 8], half));
    let mut call = linear_amax::bind(&x, &w, None, 1.0).unwrap();
    refused(call.set_tensor("b", &random(&[8], half)), ErrorKind::Argument, &["without `b`"]);
    call.launch().unwrap();
    close(&call.outputs().0, &values(&linear_amax(&x, &w, None, 1.0).unwrap().0));
}

/// Case 4 (i) to (v): a replay never gives the result of an old buffer or scalar.
pub fn case_4_replays_are_never_stale(dev: &Device) {
    let (x, b) = operands(dev);
    let mut call = affine::bind(&x, &b, 0.5).unwrap();
    let mut graph = call.capture().unwrap();
    let y = call.outputs().clone();
    let replayed = |graph: &Captured| {
        graph.replay().unwrap();
        y.clone()
    };
    close(&replayed(&graph), &affine_of(&x, &b, 0.5));
    // (i) other values in place
    x.copy_from(&Tensor::randn_seeded([8, 32, 16], DType::F32, 20, dev).unwrap()).unwrap();
    close(&replayed(&graph), &affine_of(&x, &b, 0.5));
    // (ii) another buffer
    let other = Tensor::randn_seeded([8, 32, 16], DType::F32, 21, dev).unwrap();
    let now = values(&y);
    call.set_tensor("x", &other).unwrap();
    refused(graph.replay(), ErrorKind::Argument, &["`affine`", "update"]);
    assert_eq!(values(&y), now, "nothing ran");
    graph.update(&[&call]).unwrap();
    close(&replayed(&graph), &affine_of(&other, &b, 0.5));
    // (iii) another scalar
    call.set_scalar("s", 2.0).unwrap();
    refused(graph.replay(), ErrorKind::Argument, &["`affine`"]);
    graph.update(&[&call]).unwrap();
    close(&replayed(&graph), &affine_of(&other, &b, 2.0));
    // A refused change is none.
    assert!(call.set_scalar("nothing", 1.0).is_err());
    close(&replayed(&graph), &affine_of(&other, &b, 2.0));
    // Another result.
    let into = Tensor::zeros([8, 32, 16], DType::F32, dev).unwrap();
    call.set_output(0, &into).unwrap();
    assert!(graph.replay().is_err());
    graph.update(&[&call]).unwrap();
    graph.replay().unwrap();
    close(&into, &affine_of(&other, &b, 2.0));
    // A second graph of the call has its own state.
    let second = call.capture().unwrap();
    call.set_scalar("s", 0.25).unwrap();
    assert!(second.replay().is_err() && graph.replay().is_err());
    graph.update(&[&call]).unwrap();
    graph.replay().unwrap();
    assert!(second.replay().is_err());
    close(&into, &affine_of(&other, &b, 0.25));
    // (v) an empty graph
    let empty = Captured::of(&[]).map(drop);
    refused(empty, ErrorKind::Argument, &["at least one"]);
    // Case 4 in a kernel of cuDNN's, where the scalar is one of its own.
    let half = dev.preferred_half();
    let (x, w) =
        (tensor(&[1.0; 8 * 32 * 8], &[8, 32, 8], half, dev), tensor(&[1.0; 8 * 8 * 16], &[8, 8, 16], half, dev));
    let mut call = linear_amax::bind(&x, &w, None, 0.5).unwrap();
    let mut graph = call.capture().unwrap();
    for alpha in [0.5, 2.0, 0.125] {
        call.set_scalar("alpha", alpha).unwrap();
        graph.update(&[&call]).unwrap();
        graph.replay().unwrap();
        assert!(values(&call.outputs().0).iter().all(|v| *v == 8.0 * alpha));
        assert_eq!(values(&call.outputs().1[0]), [8.0 * alpha]);
    }
}

/// Case 4 (iv): the graph keeps what it uses. What is dropped is given out to others at once, who write into it.
pub fn a_graph_outlives_what_it_was_made_of(dev: &Device) {
    let into = Tensor::zeros([8, 32, 16], DType::F32, dev).unwrap();
    let (graph, want) = {
        let (x, b) = operands(dev);
        let mut call = affine::bind(&x, &b, 0.5).unwrap();
        call.set_output(0, &into).unwrap();
        (call.capture().unwrap(), affine_of(&x, &b, 0.5))
    };
    affine::clear();
    let churn: Vec<Tensor> =
        (0..16).map(|i| Tensor::full([8, 32, 16], f64::from(i), DType::F32, dev).unwrap()).collect();
    let noise: Vec<String> = (0..1000).map(|i| format!("{i:01000}")).collect();
    for i in 0..1000 {
        if i % 100 == 0 {
            into.copy_from(&churn[i % 16]).unwrap();
        }
        graph.replay().unwrap();
        if i % 100 == 0 {
            close(&into, &want);
        }
    }
    close(&into, &want);
    drop(noise);
    assert!(
        churn.iter().enumerate().all(|(i, t)| values(t).iter().all(|v| *v == i as f64)),
        "nobody else's memory was written"
    );
    // Dropped while replays may be in flight; then unrelated work is as ever.
    graph.replay().unwrap();
    drop(graph);
    let (x, b) = operands(dev);
    close(&affine(&x, &b, 0.5).unwrap(), &want);
}

/// One graph of two calls, of which one reads what the other writes.
pub fn several_calls_in_one_graph(dev: &Device) {
    let (x, b) = operands(dev);
    let mut first = affine::bind(&x, &b, 0.5).unwrap();
    let mut second = affine::bind(first.outputs(), &b, -2.0).unwrap();
    let mut graph = Captured::of(&[&first, &second]).unwrap();
    let want = |x: &Tensor, s: f64| {
        let middle = affine_of(x, &b, s);
        middle.iter().zip(values(&b)).map(|(m, b)| (m * -2.0 + b).max(0.0)).collect::<Vec<f64>>()
    };
    graph.replay().unwrap();
    close(second.outputs(), &want(&x, 0.5));
    x.copy_from(&Tensor::randn_seeded([8, 32, 16], DType::F32, 30, dev).unwrap()).unwrap();
    graph.replay().unwrap();
    close(second.outputs(), &want(&x, 0.5));
    first.set_scalar("s", 1.5).unwrap();
    assert!(graph.replay().is_err());
    let wrong: [&[&dyn BoundCall]; 2] = [&[&second, &first], &[&first]];
    for calls in wrong {
        refused(graph.update(calls), ErrorKind::Argument, &["`affine`, `affine`"]);
        assert!(graph.replay().is_err());
    }
    graph.update(&[&first, &second]).unwrap();
    graph.replay().unwrap();
    close(second.outputs(), &want(&x, 1.5));
    // Without the graph the same.
    first.launch().unwrap();
    second.launch().unwrap();
    close(second.outputs(), &want(&x, 1.5));
    let y = first.outputs().clone();
    refused(first.set_tensor("x", &y), ErrorKind::Argument, &["result 0"]);
}

/// A graph and a call that go to other threads, one after the other.
pub fn other_threads(dev: &Device) {
    let (x, b) = operands(dev);
    let mut call = affine::bind(&x, &b, 0.5).unwrap();
    let (graph, y) = (call.capture().unwrap(), call.outputs().clone());
    let want = affine_of(&x, &b, 0.5);
    let zero = Tensor::zeros([8, 32, 16], DType::F32, dev).unwrap();
    let graph = std::thread::spawn(move || {
        (0..100).for_each(|_| graph.replay().unwrap());
        graph
    });
    let graph = graph.join().unwrap();
    close(&y, &want);
    y.copy_from(&zero).unwrap();
    graph.replay().unwrap();
    close(&y, &want);
    y.copy_from(&zero).unwrap();
    std::thread::spawn(move || call.launch().unwrap()).join().unwrap();
    close(&y, &want);
}

/// Two calls of one function, and of several threads at once, have nothing in common but the plan.
pub fn calls_share_no_buffers(dev: &Device) {
    let (x, b) = operands(dev);
    let zero = Tensor::zeros([8, 32, 16], DType::F32, dev).unwrap();
    let (mut one, mut two) = (affine::bind(&x, &b, 1.0).unwrap(), affine::bind(&x, &zero, 2.0).unwrap());
    one.launch().unwrap();
    two.launch().unwrap();
    close(one.outputs(), &affine_of(&x, &b, 1.0));
    close(two.outputs(), &affine_of(&x, &zero, 2.0));
    std::thread::scope(|scope| {
        for t in 0..8u64 {
            let half = dev.preferred_half();
            scope.spawn(move || {
                let x = Tensor::full([64, 64], t as f64 + 1.0, half, dev).unwrap();
                let w = Tensor::ones([64, 64], half, dev).unwrap();
                let mut call = linear_amax::bind(&x, &w, None, 1.0).unwrap();
                let graph = call.capture().unwrap();
                for i in 0..100 {
                    if i % 2 == 0 { call.launch() } else { graph.replay() }.unwrap();
                    if i % 20 == 0 {
                        assert_eq!(values(&call.outputs().1[0]), [64.0 * (t as f64 + 1.0)]);
                    }
                }
                assert!(values(&call.outputs().0).iter().all(|v| *v == 64.0 * (t as f64 + 1.0)));
            });
        }
    });
}
