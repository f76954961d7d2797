//! The operations of a graph.

use super::{
    ConvAttrs, NormAttrs, NormPart, Params, PointwiseMode, PoolAttrs, PoolPart, ReduceAttrs, SdpaAttrs, SdpaOperand,
    SdpaPart, SoftmaxAttrs, ViewOp,
};
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
    /// A normalisation: operands x, γ, β if there is one, ε. One of its results.
    Norm(NormAttrs),
    /// Softmax or its logarithm along an axis.
    Softmax(SoftmaxAttrs),
    /// Pooling of N×C×spatial data. One of its results.
    Pool(PoolAttrs),
    /// Scaled dot-product attention: operands q, k, v, scale and those that its attributes name. One of its results.
    Sdpa(SdpaAttrs),
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
            Op::Norm(n) => n.mode.name(),
            Op::Softmax(s) if s.log => "log_softmax",
            Op::Softmax(_) => "softmax",
            Op::Sdpa(_) => "sdpa",
            Op::Pool(p) => p.name(),
            Op::Pointwise(mode, _) => mode.info().name,
            Op::Cast(_) => "cast",
            Op::Reduce(r) => r.mode.name(),
            Op::View(v) => v.name(),
        }
    }

    /// Whether this is a core operation: at most one of them can be in a kernel, and its operands are read in their own
    /// element type.
    pub fn is_core(&self) -> bool {
        matches!(self, Op::Conv(_) | Op::Matmul | Op::Norm(_) | Op::Softmax(_) | Op::Sdpa(_) | Op::Pool(_))
    }

    /// The places of the operands that a launch passes by value.
    pub fn by_value(&self) -> impl Iterator<Item = usize> {
        let places = match self {
            Op::Norm(n) => [Some(n.epsilon()), None],
            Op::Sdpa(a) => [Some(SdpaAttrs::SCALE), a.place(SdpaOperand::Softcap)],
            _ => [None; 2],
        };
        places.into_iter().flatten()
    }

    /// The operation that gives the main result beside this one, if this gives a further result of it. It has the same operands.
    pub fn whole(&self) -> Option<Op> {
        match self {
            Op::Norm(n) if n.part != NormPart::Y => Some(Op::Norm(NormAttrs { part: NormPart::Y, ..*n })),
            Op::Pool(p) if p.part == PoolPart::Index => Some(Op::Pool(PoolAttrs { part: PoolPart::Y, ..*p })),
            Op::Sdpa(a) if a.part != SdpaPart::Output => Some(Op::Sdpa(SdpaAttrs { part: SdpaPart::Output, ..*a })),
            _ => None,
        }
    }

    /// The name of the further result that this gives.
    pub fn part(&self) -> Option<&'static str> {
        match self {
            Op::Norm(n) if n.part != NormPart::Y => Some(n.part.name()),
            Op::Sdpa(a) if a.part != SdpaPart::Output => Some(a.part.name()),
            Op::Pool(p) if p.part == PoolPart::Index => Some("index"),
            _ => None,
        }
    }
}
