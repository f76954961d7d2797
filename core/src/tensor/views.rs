//! Views: other dims and strides over the same memory, nothing is copied.

use super::Tensor;
use crate::error::{Error, Result};
use crate::infer::view_layout;
use crate::ir::ViewOp;
use crate::layout::{Dims, IntoDims};
use std::ops::{Bound, RangeBounds};

impl Tensor {
    fn view(&self, view: &ViewOp) -> Result<Option<Tensor>> {
        let Ok(l) = view_layout(view, &self.dims, &self.strides)? else { return Ok(None) };
        Ok(Some(Tensor { dims: l.dims, strides: l.strides, offset: self.offset + l.offset, ..self.clone() }))
    }

    fn free_view(&self, view: &ViewOp) -> Result<Tensor> {
        self.view(view)?.ok_or_else(|| Error::layout(format!("{} of {self:?} needs a copy", view.name())))
    }

    /// An axis, from the end if negative.
    fn axis(&self, axis: i64, rank: usize) -> Result<usize> {
        let at = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
        usize::try_from(at)
            .ok()
            .filter(|&a| a < rank)
            .ok_or_else(|| Error::argument(format!("axis {axis} is not an axis of a tensor of shape {}", self.dims)))
    }

    /// The extent of an axis; negative counts from the end.
    pub fn dim(&self, axis: i64) -> Result<usize> {
        Ok(self.dims[self.axis(axis, self.rank())?] as usize)
    }

    /// Axis `i` of the result is axis `order[i]` of this tensor.
    pub fn permute(&self, order: impl IntoDims) -> Result<Tensor> {
        self.free_view(&ViewOp::Permute(order.into_dims()?))
    }

    /// Exchanges two axes; negative ones count from the end.
    pub fn transpose(&self, a: i64, b: i64) -> Result<Tensor> {
        let (a, b) = (self.axis(a, self.rank())?, self.axis(b, self.rank())?);
        let order = Dims::collect(0..self.rank() as i64).with(a, b as i64).with(b, a as i64);
        self.free_view(&ViewOp::Permute(order))
    }

    /// Exchanges the last two axes.
    pub fn t(&self) -> Result<Tensor> {
        self.transpose(-2, -1)
    }

    /// The same elements in row-major order with other dims: a view where the strides allow it, else a copy.
    pub fn reshape(&self, dims: impl IntoDims) -> Result<Tensor> {
        let view = ViewOp::Reshape(dims.into_dims()?);
        match self.view(&view)? {
            Some(t) => Ok(t),
            None => self.contiguous()?.free_view(&view),
        }
    }

    /// The elements within a range of an axis.
    pub fn slice(&self, axis: i64, range: impl RangeBounds<usize>) -> Result<Tensor> {
        let axis = self.axis(axis, self.rank())?;
        let at = |v: usize| i64::try_from(v).unwrap_or(i64::MAX);
        let start = match range.start_bound() {
            Bound::Included(&v) => at(v),
            Bound::Excluded(&v) => at(v).saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&v) => at(v).saturating_add(1),
            Bound::Excluded(&v) => at(v),
            Bound::Unbounded => self.dims[axis],
        };
        self.free_view(&ViewOp::Slice { axis, start, end, step: 1 })
    }

    /// `len` elements of an axis from `start` on.
    pub fn narrow(&self, axis: i64, start: usize, len: usize) -> Result<Tensor> {
        self.slice(axis, start..start.saturating_add(len))
    }

    /// Extents of 1 repeated to these dims; new axes in front. The strides there are 0.
    pub fn expand(&self, dims: impl IntoDims) -> Result<Tensor> {
        self.free_view(&ViewOp::Expand(dims.into_dims()?))
    }

    /// Drops an axis of extent 1; negative counts from the end.
    pub fn squeeze(&self, axis: i64) -> Result<Tensor> {
        self.free_view(&ViewOp::Squeeze(self.axis(axis, self.rank())?))
    }

    /// Inserts an axis of extent 1; negative counts from behind the last.
    pub fn unsqueeze(&self, axis: i64) -> Result<Tensor> {
        self.free_view(&ViewOp::Unsqueeze(self.axis(axis, self.rank() + 1)?))
    }
}
