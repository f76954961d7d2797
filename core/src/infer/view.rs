//! Views: other dims and strides over the same memory.

use super::Inferred;
use crate::error::{Error, Result};
use crate::ir::{Value, ViewOp};
use crate::layout::{self, Dims, MAX_RANK};

/// What a view looks like over the memory of its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewLayout {
    /// Dims of the view.
    pub dims: Dims,
    /// Strides of the view, in elements of the operand.
    pub strides: Dims,
    /// Elements between the first of the operand and the first of the view.
    pub offset: i64,
}

pub(super) fn infer(view: &ViewOp, x: &Value) -> Result<Inferred> {
    let (dims, free) = match view_layout(view, &x.dims, &x.strides)? {
        Ok(v) => (v.dims, Some(v.strides)),
        Err(dims) => (dims, None),
    };
    Ok(Inferred { dtype: x.dtype, dims, strides: free.unwrap_or_else(|| dims.contiguous_strides()) })
}

/// The layout of a view over an operand of these dims and strides; `Ok(Err(dims))` when only a copy of the operand can be seen
/// in that shape (a reshape across a gap).
pub fn view_layout(view: &ViewOp, dims: &Dims, strides: &Dims) -> Result<Result<ViewLayout, Dims>> {
    let here = |dims, strides, offset| Ok(Ok(ViewLayout { dims, strides, offset }));
    match view {
        ViewOp::Permute(perm) => {
            check_permutation(perm, dims)?;
            let pick = |from: &Dims| Dims::collect(perm.iter().map(|&p| from[p as usize]));
            here(pick(dims), pick(strides), 0)
        }
        ViewOp::Reshape(to) => reshape(to, dims, strides),
        ViewOp::Slice { axis, start, end, step } => {
            check_slice(dims, *axis, *start, *end, *step)?;
            let extent = (end - start - 1) / step + 1;
            // With a single element there is no next one, and the step may be of any size.
            let stride = if extent == 1 { strides[*axis] } else { strides[*axis] * step };
            here(dims.with(*axis, extent), strides.with(*axis, stride), start * strides[*axis])
        }
        ViewOp::Expand(to) => {
            if to.iter().any(|&d| d < 0) {
                return Err(Error::argument(format!("{to} has a negative extent")));
            }
            if !layout::broadcasts_to(dims, to) {
                return Err(Error::shape(format!("{dims} does not repeat to {to}: extents must be equal or 1")));
            }
            let lead = to.len() - dims.len();
            let stride = |i: usize| if i < lead || (dims[i - lead] == 1 && to[i] != 1) { 0 } else { strides[i - lead] };
            here(*to, Dims::collect((0..to.len()).map(stride)), 0)
        }
        ViewOp::Squeeze(axis) => {
            if dims.get(*axis) != Some(&1) {
                return Err(Error::shape(format!("axis {axis} of {dims} does not have extent 1")));
            }
            let drop = |from: &Dims| Dims::collect(from.iter().enumerate().filter(|(i, _)| i != axis).map(|(_, &v)| v));
            here(drop(dims), drop(strides), 0)
        }
        ViewOp::Unsqueeze(axis) => {
            if dims.len() == MAX_RANK {
                return Err(Error::shape(format!("{dims} has {MAX_RANK} axes already, the most that there can be")));
            }
            if *axis > dims.len() {
                return Err(Error::shape(format!("no axis can be inserted at {axis} into {dims}")));
            }
            let insert = |from: &Dims, v: i64| {
                Dims::collect(from[..*axis].iter().copied().chain([v]).chain(from[*axis..].iter().copied()))
            };
            let inner = if *axis < dims.len() { strides[*axis].saturating_mul(dims[*axis]) } else { 1 };
            here(insert(dims, 1), insert(strides, inner), 0)
        }
    }
}

fn check_permutation(perm: &Dims, dims: &Dims) -> Result<()> {
    let mut seen = 0u32;
    for &p in perm.iter().filter(|&&p| (0..dims.len() as i64).contains(&p)) {
        seen |= 1 << p;
    }
    if perm.len() != dims.len() || seen.count_ones() as usize != dims.len() {
        return Err(Error::argument(format!("{perm} is not an order of the {} axes of {dims}", dims.len())));
    }
    Ok(())
}

fn check_slice(dims: &Dims, axis: usize, start: i64, end: i64, step: i64) -> Result<()> {
    if axis >= dims.len() {
        return Err(Error::argument(format!("axis {axis} is not an axis of {dims}")));
    }
    if step < 1 || start < 0 || start >= end || end > dims[axis] {
        return Err(Error::argument(format!(
            "start {start}, end {end}, step {step} do not select anything within axis {axis} of {dims}"
        )));
    }
    Ok(())
}

/// Row-major reshape without moving elements, where the strides allow it: each group of new axes must cover a group of old axes that lie
/// behind each other.
fn reshape(to: &Dims, dims: &Dims, strides: &Dims) -> Result<Result<ViewLayout, Dims>> {
    if to.checked_numel() != dims.checked_numel() || to.checked_numel().is_none() {
        return Err(Error::shape(format!("{dims} cannot be seen as {to}: the numbers of elements differ")));
    }
    if dims.contains(&0) {
        return Ok(Ok(ViewLayout { dims: *to, strides: to.contiguous_strides(), offset: 0 }));
    }
    let old: Vec<(i64, i64)> = dims.iter().copied().zip(strides.iter().copied()).filter(|&(d, _)| d != 1).collect();
    let mut out = Dims::splat(1, to.len());
    let (mut i, mut j) = (0, 0);
    while i < old.len() {
        let (first_old, first_new) = (i, j);
        let (mut have, mut want) = (old[i].0, to[j]);
        while have != want {
            if have < want {
                i += 1;
                have *= old[i].0;
            } else {
                j += 1;
                want *= to[j];
            }
        }
        if old[first_old..=i].windows(2).any(|w| w[0].1 != w[1].1.saturating_mul(w[1].0)) {
            return Ok(Err(*to));
        }
        let mut step = old[i].1;
        for axis in (first_new..=j).rev() {
            out = out.with(axis, step);
            step = step.saturating_mul(to[axis]);
        }
        i += 1;
        j += 1;
    }
    Ok(Ok(ViewLayout { dims: *to, strides: layout::normalise_strides(to, &out), offset: 0 }))
}
