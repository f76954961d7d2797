//! The symbolic tensor.

use super::{emit, ops, with_tracer, with_value};
use crate::dtype::DType;
use crate::error::Error;
use crate::ir::{Params, PointwiseMode, SourceLoc, ValueId};
use crate::layout::Dims;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Rem, Sub};
use std::panic::Location;

/// A tensor or scalar inside the body of an annotated function: a name for something that will be computed.
///
/// `Copy`, with the operators `+ - * / %`, unary `-`, and `& | !` on truth values; numbers can stand on either side. Shapes and element types are known
/// ([`dims`](Expr::dims), [`dtype`](Expr::dtype)), values are not. Outside of the body an `Expr` means nothing.
#[derive(Clone, Copy, Debug)]
pub struct Expr {
    pub(super) value: u32,
    pub(super) trace: u32,
    /// Made by [`per_channel`](ops::per_channel): meets axis 1 of what it is combined with.
    pub(super) channel: bool,
}

impl Expr {
    /// The result of a mistake that was already recorded.
    pub(crate) const POISON: Expr = Expr { value: u32::MAX, trace: 0, channel: false };

    pub(super) fn is_poison(&self) -> bool {
        self.trace == 0
    }

    pub(crate) fn new(id: ValueId, trace: u32) -> Expr {
        Expr { value: id.index() as u32, trace, channel: false }
    }

    /// The value in the graph of trace `trace`; `None` as error for a mistake that was already recorded.
    pub(super) fn id(&self, trace: u32) -> Result<ValueId, Option<Error>> {
        if self.trace == trace {
            return Ok(ValueId::from_index(self.value as usize));
        }
        if self.trace == 0 {
            return Err(None);
        }
        Err(Some(Error::argument("an operand was kept from another call; expressions live only while the body runs")))
    }

    /// The value of an expression that is returned.
    pub(super) fn finish(&self) -> Option<ValueId> {
        let e = if self.channel { ops::channel_misplaced("return", SourceLoc::NONE) } else { *self };
        super::TRACER.with_borrow(|t| e.id(t.as_ref()?.serial).ok())
    }

    /// Its dims. Empty for a scalar, and where a mistake was made before.
    pub fn dims(self) -> Dims {
        with_value(self, |v| v.dims).unwrap_or(Dims::EMPTY)
    }

    /// Its rank.
    pub fn rank(self) -> usize {
        self.dims().len()
    }

    /// The extent of an axis; negative counts from the end. 0 if there is no such axis.
    pub fn dim(self, axis: i64) -> i64 {
        let dims = self.dims();
        let at = if axis < 0 { axis + dims.len() as i64 } else { axis };
        usize::try_from(at).ok().and_then(|a| dims.get(a).copied()).unwrap_or(0)
    }

    /// Its element type: F32 for a literal.
    pub fn dtype(self) -> DType {
        with_value(self, |v| v.dtype).unwrap_or(DType::F32)
    }
}

macro_rules! literals {
    ($($t:ty),*) => {$(
        /// A number written in the body.
        impl From<$t> for Expr {
            fn from(v: $t) -> Expr {
                with_tracer(|t| Expr::new(t.graph.add_const(v as f64), t.serial))
            }
        }
    )*};
}
literals!(f32, f64, i32, i64, usize);

pub(super) fn binary(mode: PointwiseMode, a: Expr, b: Expr, loc: &'static Location<'static>) -> Expr {
    ops::pointwise(mode, Params::DEFAULT, &[a, b], SourceLoc::from(loc))
}

macro_rules! operators {
    ($($tr:ident, $method:ident, $mode:ident;)*) => {$(
        impl<R: Into<Expr>> $tr<R> for Expr {
            type Output = Expr;
            #[track_caller]
            fn $method(self, rhs: R) -> Expr { binary(PointwiseMode::$mode, self, rhs.into(), Location::caller()) }
        }
        operators!(@left $tr, $method, $mode, f32, f64, i32, i64);
    )*};
    (@left $tr:ident, $method:ident, $mode:ident, $($t:ty),*) => {$(
        impl $tr<Expr> for $t {
            type Output = Expr;
            #[track_caller]
            fn $method(self, rhs: Expr) -> Expr { binary(PointwiseMode::$mode, self.into(), rhs, Location::caller()) }
        }
    )*};
}
operators! {
    Add, add, Add;
    Sub, sub, Sub;
    Mul, mul, Mul;
    Div, div, Div;
    Rem, rem, Mod;
}

impl BitAnd for Expr {
    type Output = Expr;
    #[track_caller]
    fn bitand(self, rhs: Expr) -> Expr {
        binary(PointwiseMode::LogicalAnd, self, rhs, Location::caller())
    }
}

impl BitOr for Expr {
    type Output = Expr;
    #[track_caller]
    fn bitor(self, rhs: Expr) -> Expr {
        binary(PointwiseMode::LogicalOr, self, rhs, Location::caller())
    }
}

impl Not for Expr {
    type Output = Expr;
    #[track_caller]
    fn not(self) -> Expr {
        ops::logical_not(self)
    }
}

impl Neg for Expr {
    type Output = Expr;
    #[track_caller]
    fn neg(self) -> Expr {
        ops::neg(self)
    }
}

/// `emit` for the functions in [`ops`].
pub(super) fn emit_at(op: crate::ir::Op, operands: &[Expr], loc: &'static Location<'static>) -> Expr {
    if operands.iter().any(|e| e.channel) {
        return ops::channel_misplaced(op.name(), loc.into());
    }
    emit(op, operands, SourceLoc::from(loc))
}
