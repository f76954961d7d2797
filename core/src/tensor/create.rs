//! Constructors. Random numbers are made on the host, so they are the same on every device.

use super::host::{HostData, HostElement, room, with_type};
use super::{Storage, Tensor};
use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::layout::{Dims, IntoDims};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::f64::consts::TAU;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the next unseeded random tensor of this process.
static NEXT_SEED: AtomicU64 = AtomicU64::new(0);

/// Restarts the sequence of `randn` and `rand`: what follows is the same in every process that does this.
pub fn set_seed(seed: u64) {
    NEXT_SEED.store(seed, Ordering::Relaxed);
}

impl Tensor {
    /// Copies a host slice, in row-major order.
    pub fn from_slice<T: Element>(data: &[T], dims: impl IntoDims, device: &Device) -> Result<Tensor> {
        Self::from_vec(data.to_vec(), dims, device)
    }

    /// Takes a host vector, in row-major order. On the CPU nothing is copied.
    pub fn from_vec<T: Element>(data: Vec<T>, dims: impl IntoDims, device: &Device) -> Result<Tensor> {
        let dims = dims.into_dims()?;
        if data.len() != dims.numel() {
            return Err(Error::shape(format!(
                "a tensor of shape {dims} has {} elements, the slice {}",
                dims.numel(),
                data.len()
            )));
        }
        let data = wrap(data)?;
        Self::from_host(data, dims, dims.contiguous_strides(), device)
    }

    /// Puts host elements with their strides on a device.
    pub(crate) fn from_host(data: HostData, dims: Dims, strides: Dims, device: &Device) -> Result<Tensor> {
        let dtype = data.dtype();
        let storage = match device.accelerator() {
            None => Storage::host(data),
            Some(a) => Storage::Device(a.upload(&data.to_bytes())?),
        };
        Ok(Tensor::from_parts(device.clone(), storage, dtype, dims, strides, 0))
    }

    /// The same value everywhere, rounded to the element type.
    pub fn full(dims: impl IntoDims, value: impl Into<f64>, dtype: DType, device: &Device) -> Result<Tensor> {
        let (dims, value) = (dims.into_dims()?, value.into());
        room(&dims, dtype)?;
        let data = with_type!(dtype, T => T::wrap(vec![T::from_f64(value); dims.numel()]));
        Self::from_host(data, dims, dims.contiguous_strides(), device)
    }

    /// Zeros.
    pub fn zeros(dims: impl IntoDims, dtype: DType, device: &Device) -> Result<Tensor> {
        Self::full(dims, 0.0, dtype, device)
    }

    /// Ones.
    pub fn ones(dims: impl IntoDims, dtype: DType, device: &Device) -> Result<Tensor> {
        Self::full(dims, 1.0, dtype, device)
    }

    /// 0, 1, 2, … `n - 1`.
    pub fn arange(n: usize, dtype: DType, device: &Device) -> Result<Tensor> {
        let dims = [n].into_dims()?;
        room(&dims, dtype)?;
        let data = with_type!(dtype, T => T::wrap((0..n).map(|i| T::from_f64(i as f64)).collect()));
        Self::from_host(data, dims, dims.contiguous_strides(), device)
    }

    /// Standard normal numbers. Each call of a process gives others; see [`set_seed`].
    pub fn randn(dims: impl IntoDims, dtype: DType, device: &Device) -> Result<Tensor> {
        Self::randn_seeded(dims, dtype, NEXT_SEED.fetch_add(1, Ordering::Relaxed), device)
    }

    /// Standard normal numbers that depend on the seed alone.
    pub fn randn_seeded(dims: impl IntoDims, dtype: DType, seed: u64, device: &Device) -> Result<Tensor> {
        Self::generate(dims, dtype, device, normal(seed))
    }

    /// Numbers spread evenly over [0, 1). Each call of a process gives others; see [`set_seed`].
    pub fn rand(dims: impl IntoDims, dtype: DType, device: &Device) -> Result<Tensor> {
        Self::rand_seeded(dims, dtype, NEXT_SEED.fetch_add(1, Ordering::Relaxed), device)
    }

    /// Numbers spread evenly over [0, 1) that depend on the seed alone.
    pub fn rand_seeded(dims: impl IntoDims, dtype: DType, seed: u64, device: &Device) -> Result<Tensor> {
        Self::generate(dims, dtype, device, uniform(seed))
    }

    fn generate(dims: impl IntoDims, dtype: DType, device: &Device, mut next: impl FnMut() -> f64) -> Result<Tensor> {
        let dims = dims.into_dims()?;
        room(&dims, dtype)?;
        let data = with_type!(dtype, T => T::wrap((0..dims.numel()).map(|_| T::from_f64(next())).collect()));
        Self::from_host(data, dims, dims.contiguous_strides(), device)
    }
}

/// The only types that implement `Element` are those of `HostData`, which the compiler cannot see here.
fn wrap<T: Element>(data: Vec<T>) -> Result<HostData> {
    let any: Box<dyn std::any::Any> = Box::new(data);
    with_type!(T::DTYPE, U => match any.downcast::<Vec<U>>() {
        Ok(v) => Ok(U::wrap(*v)),
        Err(_) => Err(Error::dtype("an element type that is not known")),
    })
}

fn uniform(seed: u64) -> impl FnMut() -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // 53 bits: every value is exact and below 1.
    move || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Box and Muller's method: two normal numbers from two uniform ones.
fn normal(seed: u64) -> impl FnMut() -> f64 {
    let mut next = uniform(seed);
    let mut spare = None;
    move || {
        if let Some(v) = spare.take() {
            return v;
        }
        let radius = (-2.0 * (1.0 - next()).ln()).sqrt();
        let (sin, cos) = (TAU * next()).sin_cos();
        spare = Some(radius * sin);
        radius * cos
    }
}
