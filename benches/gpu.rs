//! Kernel time of the rows of jobs 1 and 3, and the host cost of a plain call with its parts, on a GPU. The peers' side is `benches/peer`.
//!
//! One JSON line a row: microseconds a call on the GPU, as a stream of calls (`ours`) and inside one CUDA graph of 20 calls (`ours_graphed`: the
//! kernel's own time), medians over event windows; then host costs in nanoseconds.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use fused_graph::cudarc::driver::sys::{CUevent_flags, CUgraphInstantiate_flags, CUstreamCaptureMode};
use fused_graph::{Bound, CudaCaptured, prelude::*};
use std::time::Instant;

#[fused_graph]
fn conv_bias_relu(x: &Tensor, w: &Tensor, b: &Tensor, padding: i64) -> Tensor {
    relu(conv2d(x, w, bias = b, padding = padding))
}

#[fused_graph]
fn linear(x: &Tensor, w: &Tensor, b: &Tensor, alpha: f32, act: &'static str) -> Tensor {
    let y = alpha * matmul(x, w) + b;
    activate(y, act)
}

#[fused_graph]
fn linear_amax(x: &Tensor, w: &Tensor, b: &Tensor, alpha: f32, act: &'static str) -> (Tensor, Tensor) {
    let y = activate(alpha * matmul(x, w) + b, act);
    (y, amax(y))
}

fn activate(y: Expr, act: &str) -> Expr {
    match act {
        "gelu" => gelu(y),
        "gelu_approx_tanh" => ops::gelu_with(y, ops::GeluOptions::new().approximate("tanh")),
        "swish" => swish(y),
        _ => relu(y),
    }
}

use fused_graph::ops;

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

/// Microseconds a call on the GPU, over windows of `n` calls.
fn gpu_us(dev: &Device, n: usize, mut f: impl FnMut()) -> f64 {
    let stream = dev.cuda_stream().unwrap();
    for _ in 0..10 {
        f();
    }
    dev.synchronize().unwrap();
    let windows = (0..15).map(|_| {
        let start = stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).unwrap();
        for _ in 0..n {
            f();
        }
        let end = stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).unwrap();
        start.elapsed_ms(&end).unwrap() as f64 * 1e3 / n as f64
    });
    median(windows.collect())
}

/// The same inside a CUDA graph of 20 calls.
fn graphed_us(dev: &Device, mut f: impl FnMut()) -> f64 {
    let stream = dev.cuda_stream().unwrap();
    f();
    dev.synchronize().unwrap();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    for _ in 0..20 {
        f();
    }
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags).unwrap().expect("a graph");
    gpu_us(dev, 10, || graph.launch().unwrap()) / 20.0
}

/// Nanoseconds a call on the host.
fn host_ns(dev: &Device, mut f: impl FnMut()) -> f64 {
    for _ in 0..50 {
        f();
    }
    dev.synchronize().unwrap();
    let windows = (0..15).map(|_| {
        let start = Instant::now();
        for _ in 0..200 {
            f();
        }
        let ns = start.elapsed().as_secs_f64() * 1e9 / 200.0;
        dev.synchronize().unwrap();
        ns
    });
    median(windows.collect())
}

/// With `--tune`: the time of the default, then tuning, then the time of what it chose.
fn tuned_row(
    dev: &Device,
    kind: &str,
    name: &str,
    tune: impl Fn() -> fused_graph::Result<fused_graph::TuneReport>,
    mut f: impl FnMut(),
) {
    let before = graphed_us(dev, &mut f);
    let report = tune().unwrap();
    let after = graphed_us(dev, &mut f);
    let again = graphed_us(dev, &mut f);
    let kernel = &report.kernels[0];
    let best = kernel.best().unwrap();
    println!(
        "{{\"kind\": \"{kind}\", \"row\": \"{name}\", \"default\": {before:.3}, \"tuned\": {:.3}, \"over_default\": {:.3}, \"engine\": \"{} {}\", \"timed\": {}, \"kernels\": {}, \"seconds\": {:.1}}}",
        after.min(again),
        after.min(again) / before,
        best.engine,
        best.form,
        report.timed(),
        report.kernels.len(),
        report.seconds
    );
    if std::env::args().any(|a| a == "--verbose") {
        println!("{report}");
    }
}

fn tuning() -> bool {
    std::env::args().any(|a| a == "--tune")
}

fn row(dev: &Device, kind: &str, name: &str, engine: &str, mut f: impl FnMut()) {
    let (ours, graphed) = (gpu_us(dev, 50, &mut f), graphed_us(dev, &mut f));
    println!(
        "{{\"kind\": \"{kind}\", \"row\": \"{name}\", \"ours\": {ours:.3}, \"ours_graphed\": {graphed:.3}, \"plan\": \"{engine}\"}}"
    );
}

fn half(dims: &[usize], scale: f32, dev: &Device) -> Tensor {
    let t = Tensor::randn(dims, DType::F32, &Device::CPU).unwrap().to_vec::<f32>().unwrap();
    let t: Vec<f32> = t.into_iter().map(|v| v * scale).collect();
    Tensor::from_vec(t, dims, &Device::CPU).unwrap().to_dtype(DType::BF16).unwrap().to(dev).unwrap()
}

fn kernels(e: &fused_graph::Explain) -> String {
    e.kernels.iter().map(|k| format!("{}: {}", k.provider, k.engine)).collect::<Vec<_>>().join("; ")
}

fn conv_rows(dev: &Device) {
    for (n, c, h, k, r) in [
        (32, 64, 56, 64, 3),
        (32, 128, 28, 128, 3),
        (32, 256, 14, 256, 3),
        (32, 512, 7, 512, 3),
        (32, 256, 56, 64, 1),
        (1, 64, 56, 64, 3),
    ] {
        let x = half(&[n, c, h, h], 1.0, dev).channels_last().unwrap();
        let w = half(&[k, c, r, r], 0.05, dev).channels_last().unwrap();
        let b = half(&[k], 1.0, dev);
        let p = r as i64 / 2;
        if tuning() {
            let name = format!("{n}x{c}x{h}x{h} k{k} r{r}");
            let tune = || conv_bias_relu::tune(&x, &w, &b, p);
            tuned_row(dev, "conv_bias_relu", &name, tune, || drop(conv_bias_relu(&x, &w, &b, p).unwrap()));
            continue;
        }
        let engine = kernels(&conv_bias_relu::explain(&x, &w, &b, p).unwrap());
        row(dev, "conv_bias_relu", &format!("{n}x{c}x{h}x{h} k{k} r{r}"), &engine, || {
            drop(conv_bias_relu(&x, &w, &b, p).unwrap())
        });
    }
}

fn matmul_rows(dev: &Device) {
    let small = (16, 512, 1024, 512);
    let mut rows: Vec<(_, &'static str)> =
        ["relu", "gelu", "gelu_approx_tanh", "swish"].into_iter().map(|a| (small, a)).collect();
    rows.extend(
        [(1, 4096, 4096, 4096), (1, 8192, 8192, 8192), (64, 128, 128, 64), (1, 16, 4096, 4096)].map(|s| (s, "relu")),
    );
    for ((bt, m, n, k), act) in rows {
        let (x, w, b) = (half(&[bt, m, k], 1.0, dev), half(&[bt, k, n], 0.05, dev), half(&[n], 1.0, dev));
        let name = format!("{bt}x{m}x{n}x{k} {act}");
        if tuning() {
            let tune = || linear_amax::tune(&x, &w, &b, 0.5, act);
            let call = || drop(linear_amax(&x, &w, &b, 0.5, act).unwrap());
            tuned_row(dev, "matmul_epilogue", &format!("{name} amax"), tune, call);
            let tune = || linear::tune(&x, &w, &b, 0.5, act);
            tuned_row(dev, "matmul_epilogue", &name, tune, || drop(linear(&x, &w, &b, 0.5, act).unwrap()));
            continue;
        }
        let engine = kernels(&linear_amax::explain(&x, &w, &b, 0.5, act).unwrap());
        row(dev, "matmul_epilogue", &format!("{name} amax"), &engine, || {
            drop(linear_amax(&x, &w, &b, 0.5, act).unwrap())
        });
        let engine = kernels(&linear::explain(&x, &w, &b, 0.5, act).unwrap());
        row(dev, "matmul_epilogue", &name, &engine, || drop(linear(&x, &w, &b, 0.5, act).unwrap()));
    }
}

#[fused_graph]
fn residual(x: &Tensor, w: &Tensor, b: &Tensor, r: &Tensor) -> (Tensor, Tensor) {
    let y = relu(conv2d(x, w, bias = b, residual = r, padding = 1));
    (y, amax(y))
}

/// The order of bias and residual decides which engine takes it.
fn residual_row(dev: &Device) {
    let x = half(&[32, 256, 14, 14], 1.0, dev).channels_last().unwrap();
    let w = half(&[256, 256, 3, 3], 0.05, dev).channels_last().unwrap();
    let (b, r) = (half(&[256], 1.0, dev), half(&[32, 256, 14, 14], 1.0, dev).channels_last().unwrap());
    let tune = || residual::tune(&x, &w, &b, &r);
    tuned_row(dev, "residual_amax", "32x256x14x14 k256 r3", tune, || drop(residual(&x, &w, &b, &r).unwrap()));
}

fn host(dev: &Device, what: &str, plan: &fused_graph::Plan, tensors: &[&Tensor], scalars: &[f64], call: impl FnMut()) {
    use fused_graph_core::backend::Launch;
    let launch = Launch { device: dev, tensors, scalars };
    println!("host ns, {what}: plain call {:.0}", host_ns(dev, call));
    println!(
        "host ns, {what}: plan found, launch alone {:.0}",
        host_ns(dev, || drop(plan.executable().run(&launch).unwrap()))
    );
    let executable = plan.executable().as_any().downcast_ref::<fused_graph_cudnn::gpu::CudaExecutable>().unwrap();
    for (part, ns) in executable.measure_parts(&launch, 200).unwrap() {
        println!("host ns, {what}: {part} {ns:.0}");
    }
}

/// What a launch costs once everything is in place. Replay and the bare launch of the same graph take turns, so that both see the same machine.
fn bound_host(dev: &Device, what: &str, mut call: Bound) {
    println!("host ns, {what}: bound launch {:.0}", host_ns(dev, || call.launch().unwrap()));
    let graph = call.capture().unwrap();
    let turn = |_| (host_ns(dev, || graph.replay().unwrap()), host_ns(dev, || graph.launch_alone().unwrap()));
    let (replay, bare): (Vec<f64>, Vec<f64>) = (0..5).map(turn).unzip();
    let (replay, bare) = (median(replay), median(bare));
    println!("host ns, {what}: replay {replay:.0}");
    println!("host ns, {what}: bare cuGraphLaunch {bare:.0}, which replay exceeds by {:.0}", replay - bare);
}

fn main() {
    let dev = match Device::cuda(0) {
        Ok(dev) => dev,
        Err(e) => return println!("no GPU: {e}"),
    };
    println!("{dev}");
    if tuning() {
        conv_rows(&dev);
        matmul_rows(&dev);
        residual_row(&dev);
        return;
    }
    let (x, w, b) = (
        half(&[1, 64, 56, 56], 1.0, &dev).channels_last().unwrap(),
        half(&[64, 64, 3, 3], 0.05, &dev).channels_last().unwrap(),
        half(&[64], 1.0, &dev),
    );
    let plan = conv_bias_relu::plan(&x, &w, &b, 1).unwrap();
    host(&dev, "conv 1x64x56x56 k64 r3", &plan, &[&x, &w, &b], &[], || drop(conv_bias_relu(&x, &w, &b, 1).unwrap()));
    bound_host(&dev, "conv 1x64x56x56 k64 r3", conv_bias_relu::bind(&x, &w, &b, 1).unwrap());
    let (x, w, b) = (half(&[64, 128, 64], 1.0, &dev), half(&[64, 64, 128], 0.05, &dev), half(&[128], 1.0, &dev));
    let plan = linear::plan(&x, &w, &b, 0.5, "relu").unwrap();
    host(&dev, "matmul 64x128x128x64", &plan, &[&x, &w, &b], &[0.5], || drop(linear(&x, &w, &b, 0.5, "relu").unwrap()));
    bound_host(&dev, "matmul 64x128x128x64", linear::bind(&x, &w, &b, 0.5, "relu").unwrap());
    conv_rows(&dev);
    matmul_rows(&dev);
}
