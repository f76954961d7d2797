//! What is done with one row while it is in cache.

use super::super::math;
use super::super::simd::arch;
use pulp::{Simd, WithSimd};
use std::ops::{Add, Div, Mul, Sub};

/// What a row becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowOp {
    /// Normalised; whether the mean is subtracted.
    Norm { centered: bool },
    /// Softmax or its logarithm.
    Softmax { log: bool },
}

/// What a row is combined with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters<'a, T> {
    pub(super) gamma: &'a [T],
    pub(super) beta: &'a [T],
    pub(super) epsilon: f64,
}

/// An element of a row.
pub(super) trait Real:
    Copy
    + Default
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + 'static
{
    fn exp<const FMA: bool>(self) -> Self;
    fn of(v: f64) -> Self;
    fn wide(self) -> f64;
    /// The row in place of its values; its mean and the inverse of its standard deviation, if it is normalised.
    fn row(op: RowOp, row: &mut [Self], with: &Parameters<'_, Self>) -> (f64, f64);
}

impl Real for f32 {
    #[inline(always)]
    fn exp<const FMA: bool>(self) -> f32 {
        math::exp::<FMA>(self)
    }
    #[inline(always)]
    fn of(v: f64) -> f32 {
        v as f32
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        self as f64
    }
    fn row(op: RowOp, row: &mut [f32], with: &Parameters<'_, f32>) -> (f64, f64) {
        arch().dispatch(Row { op, row, with })
    }
}

impl Real for f64 {
    #[inline(always)]
    fn exp<const FMA: bool>(self) -> f64 {
        self.exp()
    }
    #[inline(always)]
    fn of(v: f64) -> f64 {
        v
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
    fn row(op: RowOp, row: &mut [f64], with: &Parameters<'_, f64>) -> (f64, f64) {
        apply::<f64, false>(op, row, with)
    }
}

struct Row<'a> {
    op: RowOp,
    row: &'a mut [f32],
    with: &'a Parameters<'a, f32>,
}

impl WithSimd for Row<'_> {
    type Output = (f64, f64);

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> (f64, f64) {
        let Row { op, row, with } = self;
        let fma = S::F32_LANES > 1 && !cfg!(target_arch = "wasm32");
        if fma { apply::<f32, true>(op, row, with) } else { apply::<f32, false>(op, row, with) }
    }
}

#[inline(always)]
fn apply<T: Real, const FMA: bool>(op: RowOp, row: &mut [T], with: &Parameters<'_, T>) -> (f64, f64) {
    match op {
        RowOp::Norm { centered } => norm(centered, row, with),
        RowOp::Softmax { log } => {
            softmax::<T, FMA>(log, row);
            (0.0, 0.0)
        }
    }
}

#[inline(always)]
fn norm<T: Real>(centered: bool, row: &mut [T], with: &Parameters<'_, T>) -> (f64, f64) {
    let n = row.len() as f64;
    let mean = if centered { sum(row, |v| v) / n } else { 0.0 };
    let center = T::of(mean);
    let variance = sum(row, |v| (v - center) * (v - center)) / n;
    let inv_std = 1.0 / (variance + with.epsilon).sqrt();
    let factor = T::of(inv_std);
    match with.beta {
        [] => row.iter_mut().zip(with.gamma).for_each(|(v, &g)| *v = (*v - center) * factor * g),
        beta => {
            row.iter_mut().zip(with.gamma).zip(beta).for_each(|((v, &g), &b)| *v = (*v - center) * factor * g + b);
        }
    }
    (mean, inv_std)
}

#[inline(always)]
fn softmax<T: Real, const FMA: bool>(log: bool, row: &mut [T]) {
    let largest = maximum(row);
    if log {
        let shift = T::of(largest.wide() + sum(row, |v| (v - largest).exp::<FMA>()).ln());
        row.iter_mut().for_each(|v| *v = *v - shift);
        return;
    }
    row.iter_mut().for_each(|v| *v = (*v - largest).exp::<FMA>());
    let factor = T::of(1.0 / sum(row, |v| v));
    row.iter_mut().for_each(|v| *v = *v * factor);
}

/// Sums in lanes of the elements' own type, and in `f64` from a few thousand elements on, so that long rows keep their digits.
#[inline(always)]
fn sum<T: Real>(row: &[T], f: impl Fn(T) -> T) -> f64 {
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

/// The largest; NaN if any is.
#[inline(always)]
fn maximum<T: Real>(row: &[T]) -> T {
    #[allow(clippy::neg_cmp_op_on_partial_ord, reason = "true of NaN")]
    let larger = |a: T, v: T| if !(v <= a) { v } else { a };
    let mut lanes = [T::of(f64::NEG_INFINITY); 16];
    let chunks = row.chunks_exact(16);
    let rest = chunks.remainder();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(a, &v)| *a = larger(*a, v));
    }
    lanes.iter_mut().zip(rest).for_each(|(a, &v)| *a = larger(*a, v));
    lanes.into_iter().fold(T::of(f64::NEG_INFINITY), larger)
}
