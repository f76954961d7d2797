//! The CPU backend on the rows of the yardstick, beside what the `gemm` crate takes for the product alone, in one run.
//!
//! `cargo bench --bench cpu [FILTER]`; `RAYON_NUM_THREADS` sets the threads. Times in milliseconds, median and minimum of at least 20.

use fused_graph::prelude::*;
use std::time::{Duration, Instant};

#[fused_graph]
fn conv_bias_relu(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
    relu(conv2d(x, w, bias = b, padding = 1))
}

#[fused_graph]
fn conv_bias_relu_amax(x: &Tensor, w: &Tensor, b: &Tensor) -> (Tensor, Tensor) {
    let y = relu(conv2d(x, w, bias = b, padding = 1));
    (y, amax(y))
}

#[fused_graph]
fn linear(x: &Tensor, w: &Tensor) -> Tensor {
    matmul(x, w)
}

#[fused_graph]
fn linear_gelu(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
    gelu(matmul(x, w) + b)
}

#[fused_graph]
fn linear_gelu_tanh(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
    gelu(matmul(x, w) + b, approximate = "tanh")
}

#[fused_graph]
fn linear_gelu_amax(x: &Tensor, w: &Tensor, b: &Tensor, alpha: f32) -> (Tensor, Tensor) {
    let y = gelu(alpha * matmul(x, w) + b);
    (y, amax(y))
}

#[fused_graph]
fn chain(x: &Tensor, y: &Tensor, b: &Tensor) -> Tensor {
    tanh(x * y + b) * sigmoid(x)
}

/// Median and minimum in milliseconds.
fn time(mut f: impl FnMut()) -> (f64, f64) {
    f();
    let mut times: Vec<f64> = Vec::new();
    let started = Instant::now();
    while times.len() < 20 || (started.elapsed() < Duration::from_millis(500) && times.len() < 2000) {
        let t = Instant::now();
        f();
        times.push(t.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[0])
}

/// The product alone, row-major, by the `gemm` crate on rayon's threads.
#[allow(unsafe_code, reason = "the only entry point of `gemm`")]
fn peer(batch: usize, m: usize, n: usize, k: usize) -> (f64, f64) {
    let (a, b) = (vec![0.5f32; batch * m * k], vec![0.25f32; batch * k * n]);
    let mut c = vec![0f32; batch * m * n];
    time(|| {
        for i in 0..batch {
            let (a, b, c) = (&a[i * m * k..], &b[i * k * n..], &mut c[i * m * n..]);
            // SAFETY: the three slices hold m×k, k×n and m×n elements from their starts on, with these strides.
            unsafe {
                gemm::gemm(
                    m,
                    n,
                    k,
                    c.as_mut_ptr(),
                    1,
                    n as isize,
                    false,
                    a.as_ptr(),
                    1,
                    k as isize,
                    b.as_ptr(),
                    1,
                    n as isize,
                    0.0f32,
                    1.0,
                    false,
                    false,
                    false,
                    gemm::Parallelism::Rayon(0),
                );
            }
        }
    })
}

struct Table {
    filter: String,
}

impl Table {
    fn row(
        &self,
        name: &str,
        gflop: f64,
        product: Option<[usize; 4]>,
        run: impl FnOnce() -> fused_graph::Result<(f64, f64)>,
    ) -> fused_graph::Result<()> {
        if !name.contains(&self.filter) {
            return Ok(());
        }
        let (median, least) = run()?;
        let rate = if gflop > 0.0 { format!("{:7.0}", gflop / median * 1e3) } else { String::new() };
        let peer = product.map(|[b, m, n, k]| peer(b, m, n, k));
        let peer = peer.map_or(String::new(), |(m, l)| format!("{m:8.3} / {l:.3}  {:5.2}", median / m));
        println!("{name:44} {median:8.3} / {least:<8.3} {rate:>8}   {peer}");
        Ok(())
    }
}

fn main() -> fused_graph::Result<()> {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with("--")).unwrap_or_default();
    let (t, dev) = (Table { filter }, Device::cpu());
    println!("{:44} {:>19} {:>8}   gemm alone, ratio", "case", "ms: median / least", "GFLOP/s");
    for (n, dtype) in [(8, DType::F32), (1, DType::F32), (8, DType::BF16), (8, DType::F16)] {
        let x = Tensor::randn([n, 64, 56, 56], dtype, &dev)?;
        let w = Tensor::randn([64, 64, 3, 3], dtype, &dev)?;
        let b = Tensor::randn([64], dtype, &dev)?;
        let gflop = 2.0 * (n * 64 * 64 * 9 * 56 * 56) as f64 / 1e9;
        let product = Some([1, n * 56 * 56, 64, 576]);
        let (xl, wl) = (x.channels_last()?, w.channels_last()?);
        let name = format!("conv + bias + relu {n}x64x56x56 {dtype}");
        t.row(&format!("{name} channels-last"), gflop, product, || Ok(time(|| drop(conv_bias_relu(&xl, &wl, &b)))))?;
        t.row(&format!("{name} nchw"), gflop, product, || Ok(time(|| drop(conv_bias_relu(&x, &w, &b)))))?;
        t.row(&format!("{name} channels-last amax"), gflop, product, || {
            Ok(time(|| drop(conv_bias_relu_amax(&xl, &wl, &b))))
        })?;
    }
    for (batch, m, k, n) in [(1, 512, 512, 512), (1, 1024, 1024, 1024), (16, 512, 1024, 512), (1, 1, 4096, 4096)] {
        for dtype in [DType::F32, DType::BF16] {
            let x = Tensor::randn([batch, m, k], dtype, &dev)?;
            let w = Tensor::randn([batch, k, n], dtype, &dev)?;
            let b = Tensor::randn([n], dtype, &dev)?;
            let gflop = 2.0 * (batch * m * n * k) as f64 / 1e9;
            let product = (dtype == DType::F32).then_some([batch, m, n, k]);
            let name = |what: &str| format!("{what} {batch}x{m}x{k}x{n} {dtype}");
            t.row(&name("matmul"), gflop, product, || Ok(time(|| drop(linear(&x, &w)))))?;
            t.row(&name("matmul + bias + gelu"), gflop, product, || Ok(time(|| drop(linear_gelu(&x, &w, &b)))))?;
            t.row(&name("matmul + bias + gelu_tanh"), gflop, product, || {
                Ok(time(|| drop(linear_gelu_tanh(&x, &w, &b))))
            })?;
            t.row(&name("alpha matmul + bias + gelu, amax"), gflop, product, || {
                Ok(time(|| drop(linear_gelu_amax(&x, &w, &b, 0.5))))
            })?;
        }
    }
    let (x, y) = (Tensor::randn([4096, 1024], DType::F32, &dev)?, Tensor::randn([4096, 1024], DType::F32, &dev)?);
    let b = Tensor::randn([1024], DType::F32, &dev)?;
    t.row("tanh(x*y + b) * sigmoid(x) 4096x1024 f32", 0.0, None, || Ok(time(|| drop(chain(&x, &y, &b)))))
}
