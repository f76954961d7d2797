//! Job 3: batched matmul with a whole epilogue: host scalar, bias, activation and AMAX in the same kernel.
//!
//! `cargo run --release --example 03_matmul_epilogue`

use fused_graph::prelude::*;

/// y = gelu(alpha · x·w + b) and the largest |y|.
#[fused_graph]
pub fn linear_gelu_amax(x: &Tensor, w: &Tensor, b: &Tensor, alpha: f32) -> (Tensor, Tensor) {
    let y = gelu(alpha * matmul(x, w) + b);
    (y, amax(y))
}

fn main() -> fused_graph::Result<()> {
    let dev = Device::best()?;
    let half = dev.preferred_half();
    let x = Tensor::randn([4, 128, 256], half, &dev)?;
    let w = Tensor::randn([4, 256, 192], half, &dev)?;
    let b = Tensor::randn([192], half, &dev)?;

    for alpha in [0.05, 0.5] {
        let (y, largest) = linear_gelu_amax(&x, &w, &b, alpha)?; // alpha is passed at launch: one plan for both
        check(&x, &w, &b, alpha, &y, &largest)?;
    }
    let stats = linear_gelu_amax::stats();
    assert_eq!((stats.calls, stats.plans_built + stats.plans_loaded), (2, 1));
    println!("{}", linear_gelu_amax::explain(&x, &w, &b, 0.5)?);
    println!("{stats}");
    Ok(())
}

fn check(x: &Tensor, w: &Tensor, b: &Tensor, alpha: f32, y: &Tensor, largest: &Tensor) -> fused_graph::Result<()> {
    let f32s = |t: &Tensor| t.to_dtype(DType::F32)?.to_vec::<f32>();
    let (m, k, n) = (128, 256, 192);
    let (x, w, b, y, largest) = (f32s(x)?, f32s(w)?, f32s(b)?, f32s(y)?, f32s(largest)?[0]);
    let typical = alpha as f64 * (k as f64).sqrt();
    let mut worst = 0.0f64;
    for at in (0..y.len()).step_by(97) {
        let (batch, i, j) = (at / (m * n), at / n % m, at % n);
        let dot: f64 = (0..k).map(|l| x[(batch * m + i) * k + l] as f64 * w[(batch * k + l) * n + j] as f64).sum();
        let z = alpha as f64 * dot + b[j] as f64;
        let want = z * 0.5 * (1.0 + erf(z / std::f64::consts::SQRT_2));
        worst = worst.max((y[at] as f64 - want).abs() / typical.max(1.0));
    }
    let by_hand = y.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    println!("alpha {alpha}: largest error {worst:.1e} of a typical value; AMAX {largest:.4}");
    assert!(worst < 2e-2, "off by {worst}");
    // Up to the rounding to the element type of y, which AMAX may see before or after.
    assert!((largest - by_hand).abs() <= 8e-3 * by_hand, "AMAX {largest}, by hand {by_hand}");
    Ok(())
}

/// The error function by its series, for arguments of any size.
fn erf(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / n as f64;
        sum += term / (2 * n + 1) as f64;
    }
    2.0 / std::f64::consts::PI.sqrt() * sum
}
