//! Reductions.

use super::Inferred;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::{ReduceAttrs, ReduceMode, Value};
use crate::layout::Dims;

pub(super) fn infer(attrs: &ReduceAttrs, x: &Value) -> Result<Inferred> {
    let rank = x.dims.len();
    if rank < 8 && attrs.axes >> rank != 0 {
        let axis = (0..8).rev().find(|&a| attrs.reduces(a)).unwrap_or(rank);
        return Err(Error::argument(format!("axis {axis} is not an axis of {}", x.dims)));
    }
    if x.dims.contains(&0) {
        return Err(Error::shape("a dimension has extent 0"));
    }
    let dtype = match (x.dtype, attrs.mode) {
        (DType::F64, _) => DType::F64,
        (d, _) if d.is_float() => DType::F32,
        (d, ReduceMode::Mean | ReduceMode::Norm1 | ReduceMode::Norm2) => {
            return Err(Error::dtype(format!("takes floats, not {d}; `cast` the operand")));
        }
        (DType::Bool, _) => return Err(Error::dtype("takes numbers, not bool; `cast` the operand")),
        (DType::I64, _) => DType::I64,
        _ => DType::I32,
    };
    let kept = |axis: usize| if attrs.reduces(axis) { 1 } else { x.dims[axis] };
    let full = Dims::collect((0..rank).map(kept));
    if attrs.keepdim {
        return Ok(Inferred { dtype, dims: full, strides: full.strides_like(&x.dims, &x.strides) });
    }
    let dims = Dims::collect((0..rank).filter(|&a| !attrs.reduces(a)).map(|a| x.dims[a]));
    Ok(Inferred { dtype, dims, strides: dims.contiguous_strides() })
}
