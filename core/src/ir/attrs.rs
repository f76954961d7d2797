//! Attributes of the operations that are not pointwise.

use crate::layout::{Dims, MAX_RANK};
use std::fmt;

/// A convolution forward (cross-correlation) of N×C×spatial data with K×(C/groups)×spatial weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvAttrs {
    /// Number of spatial dimensions: 1, 2 or 3.
    pub spatial: usize,
    /// Step of the filter, a spatial dim each.
    pub stride: Dims,
    /// Distance of the taps, a spatial dim each.
    pub dilation: Dims,
    /// Zeros in front, a spatial dim each.
    pub pre_padding: Dims,
    /// Zeros behind, a spatial dim each.
    pub post_padding: Dims,
    /// Number of groups.
    pub groups: i64,
}

impl ConvAttrs {
    /// Stride 1, dilation 1, no padding, one group.
    pub fn new(spatial: usize) -> Self {
        ConvAttrs {
            spatial,
            stride: Dims::splat(1, spatial),
            dilation: Dims::splat(1, spatial),
            pre_padding: Dims::splat(0, spatial),
            post_padding: Dims::splat(0, spatial),
            groups: 1,
        }
    }
}

/// How a reduction combines elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ReduceMode {
    /// Sum.
    Sum,
    /// Arithmetic mean.
    Mean,
    /// Largest; NaN if any is.
    Max,
    /// Smallest; NaN if any is.
    Min,
    /// Product.
    Prod,
    /// Largest absolute value; NaN if any is.
    Amax,
    /// Sum of absolute values.
    Norm1,
    /// Square root of the sum of squares.
    Norm2,
}

impl ReduceMode {
    /// Every mode.
    pub const ALL: [ReduceMode; 8] = [
        ReduceMode::Sum,
        ReduceMode::Mean,
        ReduceMode::Max,
        ReduceMode::Min,
        ReduceMode::Prod,
        ReduceMode::Amax,
        ReduceMode::Norm1,
        ReduceMode::Norm2,
    ];

    /// Its name in user code, texts and the text form.
    pub const fn name(self) -> &'static str {
        match self {
            ReduceMode::Sum => "sum",
            ReduceMode::Mean => "mean",
            ReduceMode::Max => "max",
            ReduceMode::Min => "min",
            ReduceMode::Prod => "prod",
            ReduceMode::Amax => "amax",
            ReduceMode::Norm1 => "norm1",
            ReduceMode::Norm2 => "norm2",
        }
    }

    /// The mode with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }
}

impl fmt::Display for ReduceMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A reduction over some axes; the result is F32 (F64 of F64, I32 of integers under sum, max, min and prod).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReduceAttrs {
    /// How elements are combined.
    pub mode: ReduceMode,
    /// Bit `i` is set when axis `i` is reduced.
    pub axes: u8,
    /// Whether reduced axes stay, with extent 1.
    pub keepdim: bool,
}

impl ReduceAttrs {
    /// Whether `axis` is reduced.
    pub fn reduces(&self, axis: usize) -> bool {
        axis < MAX_RANK && self.axes & (1 << axis) != 0
    }
}

/// A view: other dims and strides over the same memory. Costs nothing where the operand lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ViewOp {
    /// Axis `i` of the result is axis `perm[i]` of the operand.
    Permute(Dims),
    /// Same elements in row-major order, other dims.
    Reshape(Dims),
    /// Elements `start`, `start + step`, … below `end` along `axis`.
    Slice {
        /// The axis.
        axis: usize,
        /// First element.
        start: i64,
        /// One past the last element.
        end: i64,
        /// Distance, at least 1.
        step: i64,
    },
    /// Extents of 1 repeated to these dims (new axes in front).
    Expand(Dims),
    /// Drops an axis of extent 1.
    Squeeze(usize),
    /// Inserts an axis of extent 1.
    Unsqueeze(usize),
}

impl ViewOp {
    /// Its name in user code, texts and the text form.
    pub const fn name(&self) -> &'static str {
        match self {
            ViewOp::Permute(_) => "permute",
            ViewOp::Reshape(_) => "reshape",
            ViewOp::Slice { .. } => "slice",
            ViewOp::Expand(_) => "expand",
            ViewOp::Squeeze(_) => "squeeze",
            ViewOp::Unsqueeze(_) => "unsqueeze",
        }
    }
}
