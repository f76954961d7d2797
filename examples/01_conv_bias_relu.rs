//! Job 1: convolution, bias and ReLU in one kernel.
//!
//! `cargo run --release --example 01_conv_bias_relu`

use fused_graph::prelude::*;

/// y = relu(conv(x, w) + b), NHWC data, weights K×C×R×S.
#[fused_graph]
pub fn conv_bias_relu(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
    relu(conv2d(x, w, bias = b, padding = 1))
}

fn main() -> fused_graph::Result<()> {
    let dev = Device::best()?; // CUDA if driver + cuDNN load, else CPU
    let half = dev.preferred_half(); // BF16 from sm_80 on and on the CPU, else F16
    let x = Tensor::randn([8, 64, 56, 56], half, &dev)?.channels_last()?; // logical NCHW dims, NHWC strides
    let w = Tensor::randn([64, 64, 3, 3], half, &dev)?.channels_last()?;
    let b = Tensor::randn([64], half, &dev)?;

    let y = conv_bias_relu(&x, &w, &b)?; // first call: trace, plan, cache
    let again = conv_bias_relu(&x, &w, &b)?; // later calls: look up and launch
    assert_eq!(y.dims(), again.dims());
    assert!(y.is_channels_last(), "the result follows the layout of x");

    check(&x, &w, &b, &y)?;
    println!("{}", conv_bias_relu::explain(&x, &w, &b)?);
    println!("{}", conv_bias_relu::stats());
    Ok(())
}

/// One output in a thousand against a sum written out by hand.
fn check(x: &Tensor, w: &Tensor, b: &Tensor, y: &Tensor) -> fused_graph::Result<()> {
    let f32s = |t: &Tensor| t.to_dtype(DType::F32)?.to_vec::<f32>();
    let (x, w, b, y) = (f32s(x)?, f32s(w)?, f32s(b)?, f32s(y)?);
    let (c, h) = (64, 56);
    let mut worst = 0.0f32;
    for at in (0..y.len()).step_by(1009) {
        let (n, k, i, j) = (at / (64 * h * h), at / (h * h) % 64, at / h % h, at % h);
        let mut sum = b[k] as f64;
        for (ch, r, s) in (0..c).flat_map(|ch| (0..3).flat_map(move |r| (0..3).map(move |s| (ch, r, s)))) {
            let (p, q) = (i + r, j + s);
            if (1..=h).contains(&p) && (1..=h).contains(&q) {
                sum += x[((n * c + ch) * h + p - 1) * h + q - 1] as f64 * w[((k * c + ch) * 3 + r) * 3 + s] as f64;
            }
        }
        worst = worst.max((y[at] - sum.max(0.0) as f32).abs() / 24.0); // 24: the size of a typical sum
    }
    assert!(worst < 6e-3, "off by {worst} of a typical value");
    println!("largest error {:.1e} of a typical value", worst);
    Ok(())
}
