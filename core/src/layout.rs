//! Dims and strides: small, `Copy`, and never more than [`MAX_RANK`] of them.

use crate::error::{Error, Result};
use std::fmt;
use std::ops::Deref;

/// The most dimensions a tensor can have: cuDNN's limit.
pub const MAX_RANK: usize = 8;

/// Up to eight extents (or strides) in place. Derefs to `[i64]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dims {
    len: u8,
    at: [i64; MAX_RANK],
}

impl Dims {
    /// The dims of a scalar.
    pub const EMPTY: Dims = Dims { len: 0, at: [0; MAX_RANK] };

    /// Copies a slice; an error if it has more than [`MAX_RANK`] entries.
    pub fn new(dims: &[i64]) -> Result<Dims> {
        if dims.len() > MAX_RANK {
            return Err(Error::shape(format!("rank {} is above the limit of {MAX_RANK} dimensions", dims.len())));
        }
        Ok(Self::collect(dims.iter().copied()))
    }

    /// Takes at most [`MAX_RANK`] values and ignores what follows: for values whose number is known to fit.
    pub fn collect(values: impl IntoIterator<Item = i64>) -> Dims {
        let mut d = Dims::EMPTY;
        for v in values.into_iter().take(MAX_RANK) {
            d.at[d.len as usize] = v;
            d.len += 1;
        }
        d
    }

    /// `n` times the same value (at most [`MAX_RANK`] times).
    pub fn splat(value: i64, n: usize) -> Dims {
        Self::collect(std::iter::repeat_n(value, n))
    }

    /// The number of elements, or `None` when it overflows or a dim is negative.
    pub fn checked_numel(&self) -> Option<i64> {
        self.iter().try_fold(1i64, |n, &d| if d < 0 { None } else { n.checked_mul(d) })
    }

    /// The number of elements; dims that came from a tensor or a graph never overflow.
    pub fn numel(&self) -> usize {
        self.checked_numel().unwrap_or(0) as usize
    }

    /// The same with `value` at `axis`.
    pub fn with(mut self, axis: usize, value: i64) -> Dims {
        if axis < self.len as usize {
            self.at[axis] = value;
        }
        self
    }

    /// Row-major strides for these dims.
    pub fn contiguous_strides(&self) -> Dims {
        let order: Vec<usize> = (0..self.len()).rev().collect();
        self.strides_in_order(&order)
    }

    /// Channels-last strides (N D H W C) for dims N C D H W; row-major below rank 3.
    pub fn channels_last_strides(&self) -> Dims {
        if self.len() < 3 {
            return self.contiguous_strides();
        }
        let mut order = vec![1];
        order.extend((2..self.len()).rev());
        order.push(0);
        self.strides_in_order(&order)
    }

    /// Dense strides where `order` lists the axes from the innermost to the outermost.
    pub fn strides_in_order(&self, order: &[usize]) -> Dims {
        let mut strides = Dims::splat(1, self.len());
        let mut step = 1i64;
        for &axis in order {
            strides.at[axis] = step;
            step = step.saturating_mul(self[axis].max(1));
        }
        strides
    }

    /// Dense strides for these dims with the axes in the same order as `like` (strides of a tensor of the same rank) has
    /// them; axes of extent 1 in `like_dims` say nothing about the order and go by their position.
    pub fn strides_like(&self, like_dims: &Dims, like: &Dims) -> Dims {
        if self.len() >= 3 && is_channels_last(like_dims, like) {
            return self.channels_last_strides();
        }
        let known: Vec<usize> = (0..self.len()).filter(|&a| like_dims[a] > 1 && like[a] > 0).collect();
        let mut by_stride = known.clone();
        by_stride.sort_by(|&a, &b| like[a].cmp(&like[b]).then(b.cmp(&a)));
        let mut order: Vec<usize> = (0..self.len()).rev().collect();
        let mut next = by_stride.into_iter();
        for slot in order.iter_mut() {
            if known.contains(slot)
                && let Some(axis) = next.next()
            {
                *slot = axis;
            }
        }
        self.strides_in_order(&order)
    }
}

impl Deref for Dims {
    type Target = [i64];
    fn deref(&self) -> &[i64] {
        &self.at[..self.len as usize]
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Anything that can be given where dims are wanted: arrays, slices and vectors of integers.
pub trait IntoDims {
    /// The dims, checked: at most [`MAX_RANK`], none negative, the product below 2^63.
    fn into_dims(self) -> Result<Dims>;
}

fn checked(values: impl ExactSizeIterator<Item = Option<i64>>) -> Result<Dims> {
    if values.len() > MAX_RANK {
        return Err(Error::shape(format!("rank {} is above the limit of {MAX_RANK} dimensions", values.len())));
    }
    let mut dims = Dims::EMPTY;
    for v in values {
        let v = v.filter(|&v| v >= 0).ok_or_else(|| Error::shape("a dimension is negative or above 2^63 - 1"))?;
        dims.at[dims.len as usize] = v;
        dims.len += 1;
    }
    match dims.checked_numel().filter(|&n| n <= i64::MAX / 16) {
        Some(_) => Ok(dims),
        None => Err(Error::shape(format!("a tensor of shape {dims} has more elements than memory can address"))),
    }
}

macro_rules! into_dims {
    ($($t:ty),*) => {$(
        impl<const N: usize> IntoDims for [$t; N] {
            fn into_dims(self) -> Result<Dims> { checked(self.iter().map(|&v| i64::try_from(v).ok())) }
        }
        impl IntoDims for &[$t] {
            fn into_dims(self) -> Result<Dims> { checked(self.iter().map(|&v| i64::try_from(v).ok())) }
        }
        impl IntoDims for Vec<$t> {
            fn into_dims(self) -> Result<Dims> { checked(self.iter().map(|&v| i64::try_from(v).ok())) }
        }
    )*};
}
into_dims!(usize, i64, i32, u32, u64);

impl IntoDims for Dims {
    fn into_dims(self) -> Result<Dims> {
        checked(self.iter().map(|&v| Some(v)))
    }
}

impl IntoDims for &Dims {
    fn into_dims(self) -> Result<Dims> {
        (*self).into_dims()
    }
}

impl IntoDims for () {
    fn into_dims(self) -> Result<Dims> {
        Ok(Dims::EMPTY)
    }
}

/// The shape that two shapes broadcast to under NumPy's rules, or `None`.
pub fn broadcast(a: &Dims, b: &Dims) -> Option<Dims> {
    let rank = a.len().max(b.len());
    let at = |d: &Dims, i: usize| if i + d.len() >= rank { d[i + d.len() - rank] } else { 1 };
    let mut out = Dims::splat(1, rank);
    for i in 0..rank {
        out.at[i] = match (at(a, i), at(b, i)) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            _ => return None,
        };
    }
    Some(out)
}

/// Whether `from` broadcasts to exactly `to`.
pub fn broadcasts_to(from: &Dims, to: &Dims) -> bool {
    broadcast(from, to).is_some_and(|d| d == *to)
}

/// Whether the axes lie in memory in the order N D H W C: axis 1 innermost. Gaps between them are allowed.
pub fn is_channels_last(dims: &Dims, strides: &Dims) -> bool {
    let order = std::iter::once(1).chain((2..dims.len()).rev()).chain([0]);
    dims.len() >= 3
        && strides[1] == 1
        && order.filter(|&a| dims[a] > 1).map(|a| strides[a]).is_sorted()
        && (dims[1] > 1 || strides[dims.len() - 1] == 1)
}

/// Strides with those of extent-1 dims replaced by what a dense tensor would have there, so that two layouts that address the
/// same elements compare equal.
pub fn normalise_strides(dims: &Dims, strides: &Dims) -> Dims {
    let mut out = *strides;
    let mut inner = 1i64;
    for axis in (0..dims.len()).rev() {
        if dims[axis] == 1 {
            out.at[axis] = inner;
        } else {
            inner = strides[axis].saturating_mul(dims[axis]);
        }
    }
    out
}

/// Whether every element has a place of its own. Not so where a stride is 0 and the extent is not 1.
pub fn is_distinct(dims: &Dims, strides: &Dims) -> bool {
    let mut axes: Vec<usize> = (0..dims.len()).filter(|&a| dims[a] > 1).collect();
    axes.sort_by_key(|&a| strides[a]);
    let mut inner = 1i64;
    axes.iter().all(|&a| {
        let fits = strides[a] >= inner;
        inner = inner.saturating_add(strides[a].saturating_mul(dims[a] - 1));
        fits
    })
}

/// One more than the largest element offset that a tensor of these dims and strides reads (0 if it has no elements).
pub fn span(dims: &Dims, strides: &Dims) -> Option<i64> {
    if dims.contains(&0) {
        return Some(0);
    }
    let mut last = 0i64;
    for (&d, &s) in dims.iter().zip(strides.iter()) {
        last = last.checked_add((d - 1).checked_mul(s)?)?;
    }
    last.checked_add(1)
}
