//! Floats that rows are made of, and loops over them that the compiler turns into vector code where they are inlined into a dispatched function.

use super::math;
use super::registers::Register;
use std::ops::{Add, Div, Mul, Sub};

/// `f32` or `f64`.
pub(super) trait Real:
    Copy
    + Default
    + PartialOrd
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + 'static
{
    const LOWEST: Self;
    fn exp<const FMA: bool>(self) -> Self;
    fn tanh<const FMA: bool>(self) -> Self;
    fn narrow(v: f64) -> Self;
    fn wide(self) -> f64;
    fn register(v: Vec<Self>) -> Register;
}

impl Real for f32 {
    const LOWEST: f32 = f32::NEG_INFINITY;
    #[inline(always)]
    fn exp<const FMA: bool>(self) -> f32 {
        math::exp::<FMA>(self)
    }
    #[inline(always)]
    fn tanh<const FMA: bool>(self) -> f32 {
        math::tanh::<FMA>(self)
    }
    #[inline(always)]
    fn narrow(v: f64) -> f32 {
        v as f32
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        self as f64
    }
    fn register(v: Vec<f32>) -> Register {
        Register::F32(v)
    }
}

impl Real for f64 {
    const LOWEST: f64 = f64::NEG_INFINITY;
    #[inline(always)]
    fn exp<const FMA: bool>(self) -> f64 {
        self.exp()
    }
    #[inline(always)]
    fn tanh<const FMA: bool>(self) -> f64 {
        self.tanh()
    }
    #[inline(always)]
    fn narrow(v: f64) -> f64 {
        v
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
    fn register(v: Vec<f64>) -> Register {
        Register::F64(v)
    }
}

/// Sums in lanes of the elements' own type, and in `f64` from a few thousand elements on, so that long rows keep their digits.
#[inline(always)]
pub(super) fn sum<T: Real>(row: &[T], f: impl Fn(T) -> T) -> f64 {
    let mut total = 0.0;
    for piece in row.chunks(4096) {
        let mut lanes = [T::default(); 16];
        let chunks = piece.chunks_exact(16);
        let rest = chunks.remainder();
        for chunk in chunks {
            lanes.iter_mut().zip(chunk).for_each(|(a, &v)| *a = *a + f(v));
        }
        lanes.iter_mut().zip(rest).for_each(|(a, &v)| *a = *a + f(v));
        total += lanes.iter().map(|v| v.wide()).sum::<f64>();
    }
    total
}

/// The larger of two; NaN if either is.
#[inline(always)]
#[allow(clippy::eq_op, reason = "NaN is not equal to itself")]
pub(super) fn larger<T: Real>(a: T, b: T) -> T {
    if b > a || b != b { b } else { a }
}

/// The largest; NaN if any is.
#[inline(always)]
pub(super) fn maximum<T: Real>(row: &[T]) -> T {
    let mut lanes = [T::LOWEST; 16];
    let chunks = row.chunks_exact(16);
    let rest = chunks.remainder();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(a, &v)| *a = larger(*a, v));
    }
    lanes.iter_mut().zip(rest).for_each(|(a, &v)| *a = larger(*a, v));
    lanes.into_iter().fold(T::LOWEST, larger)
}
