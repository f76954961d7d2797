//! Pooling by its definition.

use super::Array;
use crate::ir::{PoolAttrs, PoolMode, PoolPart};
use crate::layout::Dims;

pub(super) fn pool(attrs: &PoolAttrs, x: &Array, out: Dims) -> Array {
    Array::build(out, |index| {
        let covered: Vec<_> = (0..attrs.spatial()).map(|a| attrs.covered(a, index[2 + a], x.dims[2 + a])).collect();
        let mut found: Vec<(f64, i64)> = Vec::new();
        Array::build(Dims::collect(covered.iter().map(|r| r.end - r.start)), |tap| {
            let mut at = vec![index[0], index[1]];
            at.extend(tap.iter().zip(&covered).map(|(t, r)| r.start + t));
            let place = (0..attrs.spatial()).fold(0, |flat, a| flat * x.dims[2 + a] + at[2 + a]);
            found.push((x.at(&at), place));
            0.0
        });
        let largest = || {
            found.iter().fold((f64::NEG_INFINITY, -1), |best, &v| {
                let better = v.0 > best.0 || best.1 < 0 || (v.0.is_nan() && !best.0.is_nan());
                if better { v } else { best }
            })
        };
        let sum: f64 = found.iter().map(|f| f.0).sum();
        match (attrs.mode, attrs.part) {
            (_, PoolPart::Index) => largest().1 as f64,
            (PoolMode::Max, _) => largest().0,
            (PoolMode::Avg, _) => sum / attrs.window.numel() as f64,
            (PoolMode::AvgExcludePadding, _) => sum / found.len() as f64,
        }
    })
}
