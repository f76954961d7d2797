//! What is done with one row while it is in cache.

use super::super::real::{Real, maximum, sum};
use super::super::simd::arch;
use pulp::{Simd, WithSimd};

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
pub(super) trait Element: Real {
    /// The row in place of its values; its mean and the inverse of its standard deviation, if it is normalised.
    fn row(op: RowOp, row: &mut [Self], with: &Parameters<'_, Self>) -> (f64, f64);
}

impl Element for f32 {
    fn row(op: RowOp, row: &mut [f32], with: &Parameters<'_, f32>) -> (f64, f64) {
        arch().dispatch(Row { op, row, with })
    }
}

impl Element for f64 {
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
    let center = T::narrow(mean);
    let variance = sum(row, |v| (v - center) * (v - center)) / n;
    let inv_std = 1.0 / (variance + with.epsilon).sqrt();
    let factor = T::narrow(inv_std);
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
        let shift = T::narrow(largest.wide() + sum(row, |v| (v - largest).exp::<FMA>()).ln());
        row.iter_mut().for_each(|v| *v = *v - shift);
        return;
    }
    row.iter_mut().for_each(|v| *v = (*v - largest).exp::<FMA>());
    let factor = T::narrow(1.0 / sum(row, |v| v));
    row.iter_mut().for_each(|v| *v = *v * factor);
}
