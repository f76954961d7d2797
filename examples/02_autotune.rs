//! Job 2: choose the engine instead of trusting the heuristic.
//!
//! `cargo run --release --example 02_autotune`; a time budget in seconds may follow.

use fused_graph::prelude::*;
use std::time::Duration;

/// y = relu(conv(x, w) + b + r): the residual of a bottleneck block.
#[fused_graph]
pub fn conv_bias_residual_relu(x: &Tensor, w: &Tensor, b: &Tensor, r: &Tensor) -> Tensor {
    relu(conv2d(x, w, bias = b, residual = r, padding = 1))
}

fn main() -> fused_graph::Result<()> {
    let dev = Device::best()?;
    let half = dev.preferred_half();
    // Small on the CPU, where there is one way to run it.
    let (n, c) = if dev.is_cpu() { (2, 32) } else { (32, 256) };
    let x = Tensor::randn([n, c, 14, 14], half, &dev)?.channels_last()?;
    let w = Tensor::randn([c, c, 3, 3], half, &dev)?.channels_last()?;
    let r = Tensor::randn([n, c, 14, 14], half, &dev)?.channels_last()?;
    let b = Tensor::randn([c], half, &dev)?;

    let before = conv_bias_residual_relu(&x, &w, &b, &r)?; // the heuristic's choice
    let seconds = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(60);
    let options = TuneOptions::default().budget(Duration::from_secs(seconds));
    let report = options.scope(|| conv_bias_residual_relu::tune(&x, &w, &b, &r))?;
    println!("{report}");

    let after = conv_bias_residual_relu(&x, &w, &b, &r)?; // the winner serves from now on
    let difference = relative_difference(&before, &after)?;
    println!("{}", conv_bias_residual_relu::stats());
    println!("heuristic and winner differ by {difference:.1e} of the norm");
    assert!(difference < 1e-2);
    assert!(report.timed() >= 1);
    Ok(())
}

fn relative_difference(a: &Tensor, b: &Tensor) -> fused_graph::Result<f64> {
    let (a, b) = (a.to_dtype(DType::F32)?.to_vec::<f32>()?, b.to_dtype(DType::F32)?.to_vec::<f32>()?);
    let square = |x: f32| (x as f64).powi(2);
    let difference: f64 = a.iter().zip(&b).map(|(a, b)| square(a - b)).sum();
    Ok((difference / a.iter().map(|&a| square(a)).sum::<f64>()).sqrt())
}
