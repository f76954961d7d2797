//! Job 7: fixed buffers and CUDA graphs, launch cost out of the loop.
//!
//! `cargo run --release --example 07_cuda_graph`

use fused_graph::{Bound, Captured, CudaCaptured, prelude::*};
use std::time::Instant;

/// y = relu(alpha · conv(x, w) + b), NHWC data, weights K×C×R×S.
#[fused_graph]
pub fn conv_bias_relu(x: &Tensor, w: &Tensor, b: &Tensor, alpha: f32) -> Tensor {
    relu(alpha * conv2d(x, w, padding = 1) + per_channel(b))
}

/// The largest value of each channel.
#[fused_graph]
pub fn peaks(y: &Tensor) -> Tensor {
    max(y, axes = [0, 2, 3])
}

fn main() -> fused_graph::Result<()> {
    let dev = Device::best()?;
    let half = dev.preferred_half();
    let x = Tensor::randn([1, 32, 14, 14], half, &dev)?.channels_last()?;
    let w = Tensor::randn([32, 32, 3, 3], half, &dev)?.channels_last()?;
    let b = Tensor::randn([32], half, &dev)?;

    // A call with its buffers: it owns its result and the memory between kernels.
    let mut call = conv_bias_relu::bind(&x, &w, &b, 0.5)?;
    call.launch()?;
    same(call.outputs(), &conv_bias_relu(&x, &w, &b, 0.5)?)?;

    // Two calls, of which the second reads what the first writes, as one CUDA graph.
    let second = peaks::bind(call.outputs())?;
    let mut graph = Captured::of(&[&call, &second])?;

    // New values in the same buffer.
    x.copy_from(&Tensor::randn([1, 32, 14, 14], half, &dev)?)?;
    graph.replay()?;
    same(second.outputs(), &peaks(&conv_bias_relu(&x, &w, &b, 0.5)?)?)?;

    // Another buffer, another scalar: a replay is an error until the graph is updated, never the result of the old ones.
    let next = Tensor::randn([1, 32, 14, 14], half, &dev)?.channels_last()?;
    call.set_tensor("x", &next)?;
    call.set_scalar("alpha", 2.0)?;
    if let Err(error) = graph.replay() {
        println!("{error}");
    }
    graph.update(&[&call, &second])?;
    graph.replay()?;
    same(second.outputs(), &peaks(&conv_bias_relu(&next, &w, &b, 2.0)?)?)?;

    println!("results are those of plain calls, on {dev}");
    if dev.is_cpu() {
        println!(
            "on the CPU a replay runs the calls; on a GPU this also prints what each kind of launch costs the host"
        );
        return Ok(());
    }
    let alone = call.capture()?;
    host_cost(&dev, || conv_bias_relu(&next, &w, &b, 2.0).map(drop), &mut call, &alone)
}

fn same(got: &Tensor, want: &Tensor) -> fused_graph::Result<()> {
    let f32s = |t: &Tensor| t.to_dtype(DType::F32)?.to_vec::<f32>();
    let (got, want) = (f32s(got)?, f32s(want)?);
    let largest = want.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    assert!(largest > 0.0 && got.iter().zip(&want).all(|(g, w)| (g - w).abs() <= 1e-2 * largest));
    Ok(())
}

/// Nanoseconds on the host for each kind of launch of the same kernel.
fn host_cost(
    dev: &Device,
    mut plain: impl FnMut() -> fused_graph::Result<()>,
    call: &mut Bound,
    graph: &Captured,
) -> fused_graph::Result<()> {
    println!("host cost of one convolution:");
    println!("  plain call          {:6.0} ns", median_ns(dev, &mut plain)?);
    println!("  bound launch        {:6.0} ns", median_ns(dev, &mut || call.launch())?);
    println!("  replay              {:6.0} ns", median_ns(dev, &mut || graph.replay())?);
    println!("  cuGraphLaunch alone {:6.0} ns", median_ns(dev, &mut || graph.launch_alone())?);
    Ok(())
}

/// Median over windows of 200 calls, the GPU idle before each.
fn median_ns(dev: &Device, f: &mut dyn FnMut() -> fused_graph::Result<()>) -> fused_graph::Result<f64> {
    let mut windows = Vec::new();
    for _ in 0..21 {
        dev.synchronize()?;
        let start = Instant::now();
        for _ in 0..200 {
            f()?;
        }
        windows.push(start.elapsed().as_secs_f64() * 1e9 / 200.0);
    }
    windows.sort_by(f64::total_cmp);
    Ok(windows[windows.len() / 2])
}
