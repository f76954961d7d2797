//! Inference: dims, element type and strides of a result, one rule for each family of operations.
//!
//! The rules are pure. Errors say what is wrong and what would work; the graph adds the operation, its operands and where it was written.

mod attention;
mod conv;
mod matmul;
mod norm;
mod pointwise;
mod pool;
mod reduce;
mod view;

pub use view::{ViewLayout, view_layout};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::{Op, Value};
use crate::layout::Dims;

/// What a rule says of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inferred {
    /// Element type in memory.
    pub dtype: DType,
    /// Dims.
    pub dims: Dims,
    /// Strides in memory.
    pub strides: Dims,
}

/// Applies the rule of `op` to its operands.
pub fn infer(op: &Op, operands: &[&Value]) -> Result<Inferred> {
    let result = match op {
        Op::Conv(attrs) => conv::infer(attrs, pair(operands)?),
        Op::Matmul => matmul::infer(pair(operands)?),
        Op::Norm(attrs) => norm::infer(attrs, operands),
        Op::Pool(attrs) => pool::infer(attrs, one(operands)?),
        Op::Sdpa(attrs) => attention::infer(attrs, operands),
        Op::Softmax(attrs) => norm::infer_softmax(attrs, one(operands)?),
        Op::Pointwise(mode, params) => pointwise::infer(*mode, params, operands),
        Op::Cast(to) => pointwise::infer_cast(*to, one(operands)?),
        Op::Reduce(attrs) => reduce::infer(attrs, one(operands)?),
        Op::View(view) => view::infer(view, one(operands)?),
    }?;
    if result.dims.checked_numel().is_none_or(|n| n > i64::MAX / 16) {
        return Err(Error::shape(format!("the result {} has more elements than memory can address", result.dims)));
    }
    Ok(result)
}

fn one<'a>(operands: &[&'a Value]) -> Result<&'a Value> {
    match operands {
        [x] => Ok(x),
        _ => Err(Error::argument(format!("takes one operand, not {}", operands.len()))),
    }
}

fn pair<'a>(operands: &[&'a Value]) -> Result<[&'a Value; 2]> {
    match operands {
        [a, b] => Ok([a, b]),
        _ => Err(Error::argument(format!("takes two operands, not {}", operands.len()))),
    }
}

/// The element type of a core operation's result: that of its operands, which must agree; I32 under I8.
fn core_dtype(a: &Value, b: &Value) -> Result<DType> {
    if a.is_scalar() || b.is_scalar() {
        return Err(Error::shape("takes two tensors, not a scalar; use `*` to multiply by a scalar"));
    }
    if a.dtype != b.dtype {
        return Err(Error::dtype(format!(
            "both operands must have the same element type, not {} and {}; `cast` one of them",
            a.dtype, b.dtype
        )));
    }
    match a.dtype {
        DType::I8 => Ok(DType::I32),
        d if d.is_float() => Ok(d),
        d => Err(Error::dtype(format!("operands are floats or i8, not {d}; `cast` them"))),
    }
}
