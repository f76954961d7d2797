//! The operations of a graph.

use super::{ConvAttrs, Params, PointwiseMode, ReduceAttrs, ViewOp};
use crate::dtype::DType;

/// What a node computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "graphs are small and `Copy` operations are worth more than their bytes")]
pub enum Op {
    /// Convolution forward: operands x, w.
    Conv(ConvAttrs),
    /// Matrix product over the last two axes, NumPy's batch broadcasting: operands a, b.
    Matmul,
    /// One of cuDNN's pointwise modes: one to three operands.
    Pointwise(PointwiseMode, Params),
    /// Rounds to another element type, also when the result stays inside a kernel.
    Cast(DType),
    /// A reduction.
    Reduce(ReduceAttrs),
    /// A view of the operand.
    View(ViewOp),
}

impl Op {
    /// Its name in user code, texts and the text form.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Conv(a) => match a.spatial {
                1 => "conv1d",
                2 => "conv2d",
                _ => "conv3d",
            },
            Op::Matmul => "matmul",
            Op::Pointwise(mode, _) => mode.info().name,
            Op::Cast(_) => "cast",
            Op::Reduce(r) => r.mode.name(),
            Op::View(v) => v.name(),
        }
    }

    /// Whether this is a core operation: at most one of them can be in a kernel, and its operands are read in their own
    /// element type.
    pub fn is_core(&self) -> bool {
        matches!(self, Op::Conv(_) | Op::Matmul)
    }
}
