//! Normalisations and softmax by their definitions.

use super::{Array, scalar};
use crate::ir::{NormAttrs, NormPart, SoftmaxAttrs};
use crate::layout::Dims;

/// The mean over the axes that `over` names, which stay with extent 1.
fn mean(x: &Array, over: impl Fn(usize) -> bool, f: impl Fn(f64) -> f64) -> Array {
    let kept = Dims::collect(x.dims.iter().enumerate().map(|(a, &d)| if over(a) { 1 } else { d }));
    let mut sums = vec![0.0; kept.numel()];
    let places = Array::build(x.dims, |index| {
        let at = |flat: i64, axis: usize| flat * kept[axis] + if over(axis) { 0 } else { index[axis] };
        (0..kept.len()).fold(0, at) as f64
    });
    places.data.iter().zip(&x.data).for_each(|(&to, &v)| sums[to as usize] += f(v));
    let count = (x.data.len() / sums.len()) as f64;
    Array { dims: kept, data: sums.into_iter().map(|s| s / count).collect() }
}

/// One result of a normalisation. `parameters`: γ, and β if there is one.
pub(super) fn norm(attrs: &NormAttrs, x: &Array, parameters: &[Array], epsilon: f64) -> Array {
    let over = |axis| attrs.normalises(axis);
    let center = mean(x, over, |v| if attrs.is_centered() { v } else { 0.0 });
    let centered = Array::build(x.dims, |index| x.at(index) - center.at(index));
    let variance = mean(&centered, over, |v| v * v);
    let inv_std = Array::build(variance.dims, |index| 1.0 / (variance.at(index) + epsilon).sqrt());
    match attrs.part {
        NormPart::Mean => center,
        NormPart::InvStd => inv_std,
        NormPart::Y => Array::build(x.dims, |index| {
            let y = centered.at(index) * inv_std.at(index) * parameters[0].at(index);
            y + parameters.get(1).map_or(0.0, |beta| beta.at(index))
        }),
    }
}

/// exp(x) over its sum, or the logarithm of that.
pub(super) fn softmax(attrs: &SoftmaxAttrs, x: &Array) -> Array {
    let along = |index: &[i64]| {
        let mut at = index.to_vec();
        (0..x.dims[attrs.axis]).map(move |i| {
            at[attrs.axis] = i;
            x.at(&at)
        })
    };
    let kept = x.dims.with(attrs.axis, 1);
    let largest = Array::build(kept, |index| along(index).fold(f64::NEG_INFINITY, scalar::maximum));
    let sum = Array::build(kept, |index| along(index).map(|v| (v - largest.at(index)).exp()).sum());
    Array::build(x.dims, |index| {
        let (v, sum) = (x.at(index) - largest.at(index), sum.at(index));
        if attrs.log { v - sum.ln() } else { v.exp() / sum }
    })
}
