//! The field cases as functions of a device: `cases.rs` runs them on the CPU, `gpu_cases.rs` on a GPU.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod attention;
pub mod bind;
pub mod broadcasting;
pub mod fake;
pub mod keys;
pub mod matrix;
pub mod norms;
pub mod order;
pub mod pools;
pub mod threads;

use fused_graph::prelude::*;

/// Values as `f64`, whatever the element type and device.
pub fn values(t: &Tensor) -> Vec<f64> {
    t.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap().into_iter().map(f64::from).collect()
}

/// ‖got − want‖ / ‖want‖.
pub fn distance(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
    norm(&mut got.iter().zip(want).map(|(g, w)| g - w)) / norm(&mut want.iter().copied()).max(1e-30)
}

/// What rounding of this element type (and TF32 on a GPU) allows.
pub fn tolerance(dtype: DType, device: &Device) -> f64 {
    match dtype {
        DType::BF16 => 6e-3,
        DType::F16 => 1e-3,
        _ if device.is_cpu() => 1e-5,
        _ => 1e-3,
    }
}

pub fn close(got: &Tensor, want: &[f64]) {
    let d = distance(&values(got), want);
    let limit = tolerance(got.dtype(), got.device());
    assert!(
        d <= limit,
        "off by {d:.2e} (limit {limit:.0e}): {got:?}\n got {:?}\nwant {:?}",
        head(&values(got)),
        head(want)
    );
}

fn head(v: &[f64]) -> &[f64] {
    &v[..v.len().min(8)]
}

/// A tensor of F32 values rounded to `dtype`.
pub fn tensor(data: &[f32], dims: &[i64], dtype: DType, device: &Device) -> Tensor {
    Tensor::from_slice(data, dims, &Device::CPU).unwrap().to_dtype(dtype).unwrap().to(device).unwrap()
}

/// Row-major matrix product by the definition: `batch` times m×k by k×n.
pub fn product(a: &[f64], b: &[f64], batch: usize, m: usize, k: usize, n: usize) -> Vec<f64> {
    let mut out = vec![0.0; batch * m * n];
    for (at, o) in out.iter_mut().enumerate() {
        let (t, i, j) = (at / (m * n), at / n % m, at % n);
        *o = (0..k).map(|l| a[(t * m + i) * k + l] * b[(t * k + l) * n + j]).sum();
    }
    out
}
pub mod stored;
