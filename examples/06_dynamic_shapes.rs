//! Job 6: shapes that change. One compiled kernel serves many batch sizes.
//!
//! `cargo run --release --example 06_dynamic_shapes`

use fused_graph::prelude::*;
use std::time::Instant;

/// y = relu(x·w + b) for any number of rows.
#[fused_graph(dynamic_shapes)]
pub fn linear_relu(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
    relu(matmul(x, w) + b)
}

/// The same, each size compiled for itself.
#[fused_graph]
pub fn linear_relu_static(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
    relu(matmul(x, w) + b)
}

fn main() -> fused_graph::Result<()> {
    let dev = Device::best()?;
    let half = dev.preferred_half();
    let (k, n) = (512, 256);
    let w = Tensor::randn([k, n], half, &dev)?;
    let b = Tensor::randn([n], half, &dev)?;
    println!("{dev}");
    println!("   rows   first call with dynamic_shapes   without");
    for rows in [64, 128, 256, 1024] {
        let x = Tensor::randn([rows, k], half, &dev)?;
        let (y, with) = timed(&dev, || linear_relu(&x, &w, &b))?;
        let (z, without) = timed(&dev, || linear_relu_static(&x, &w, &b))?;
        println!("{rows:>7}   {with:>25.1} ms   {without:>7.1} ms");
        assert_eq!(**y.dims(), [rows as i64, n as i64]);
        let off = relative_difference(&y, &z)?;
        assert!(off < 1e-2, "{rows} rows: off by {off:.1e}");
    }
    println!("{}", linear_relu::stats());
    println!("{}", linear_relu_static::stats());
    Ok(())
}

/// The result and the milliseconds until it is there.
fn timed(dev: &Device, call: impl FnOnce() -> fused_graph::Result<Tensor>) -> fused_graph::Result<(Tensor, f64)> {
    let start = Instant::now();
    let y = call()?;
    dev.synchronize()?;
    Ok((y, start.elapsed().as_secs_f64() * 1e3))
}

fn relative_difference(a: &Tensor, b: &Tensor) -> fused_graph::Result<f64> {
    let (a, b) = (a.to_dtype(DType::F32)?.to_vec::<f32>()?, b.to_dtype(DType::F32)?.to_vec::<f32>()?);
    let square = |x: f32| (x as f64).powi(2);
    let difference: f64 = a.iter().zip(&b).map(|(a, b)| square(a - b)).sum();
    Ok((difference / a.iter().map(|&a| square(a)).sum::<f64>()).sqrt())
}
