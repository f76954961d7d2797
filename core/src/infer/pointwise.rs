//! Pointwise operations and casts.

use super::Inferred;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::{Arity, Params, PointwiseClass, PointwiseMode, Value, ValueKind};
use crate::layout::{self, Dims};

pub(super) fn infer(mode: PointwiseMode, params: &Params, operands: &[&Value]) -> Result<Inferred> {
    let wanted = match mode.info().arity {
        Arity::Unary => 1,
        Arity::Binary => 2,
        Arity::Ternary => 3,
    };
    if operands.len() != wanted {
        return Err(Error::argument(format!("takes {wanted} operand(s), not {}", operands.len())));
    }
    let mut dims = Dims::EMPTY;
    for v in operands {
        dims = layout::broadcast(&dims, &v.dims).ok_or_else(|| {
            Error::shape(format!(
                "{dims} and {} do not broadcast: aligned from the right, extents must be equal or 1",
                v.dims
            ))
        })?;
    }
    if dims.contains(&0) {
        return Err(Error::shape("a dimension has extent 0"));
    }
    let dtype = result_dtype(mode, operands, &dims)?;
    if mode == PointwiseMode::GenIndex && !(0..dims.len() as i64).contains(&params.axis) {
        return Err(Error::argument(format!("axis {} is not an axis of {dims}", params.axis)));
    }
    Ok(Inferred { dtype, dims, strides: result_strides(operands, &dims) })
}

pub(super) fn infer_cast(to: DType, x: &Value) -> Result<Inferred> {
    Ok(Inferred { dtype: to, dims: x.dims, strides: result_strides(&[x], &x.dims) })
}

fn result_dtype(mode: PointwiseMode, operands: &[&Value], dims: &Dims) -> Result<DType> {
    let class = mode.info().class;
    let bad = |d: DType, want: &str| Error::dtype(format!("takes {want}, not {d}; `cast` the operand"));
    match class {
        PointwiseClass::Logic => match operands.iter().find(|v| v.dtype != DType::Bool) {
            Some(v) => Err(bad(v.dtype, "truth values (bool)")),
            None => Ok(DType::Bool),
        },
        PointwiseClass::Index => Ok(DType::I32),
        PointwiseClass::Select => {
            if operands[0].dtype != DType::Bool {
                return Err(Error::dtype(format!("the condition must be bool, not {}", operands[0].dtype)));
            }
            common_dtype(&operands[1..], dims)
        }
        PointwiseClass::Arithmetic | PointwiseClass::Float | PointwiseClass::Compare => {
            let dtype = common_dtype(operands, dims)?;
            let equality = matches!(mode, PointwiseMode::CmpEq | PointwiseMode::CmpNeq | PointwiseMode::Identity);
            match class {
                _ if dtype == DType::Bool && !equality => Err(bad(dtype, "numbers")),
                PointwiseClass::Float if !dtype.is_float() && mode != PointwiseMode::Relu => Err(bad(dtype, "floats")),
                PointwiseClass::Compare => Ok(DType::Bool),
                _ => Ok(dtype),
            }
        }
    }
}

/// The type of a pointwise result: scalars and literals take the type of the tensors they meet, and an operand that is repeated to the result's
/// shape (a bias, a scale, an AMAX) does not widen it; operands of the full shape promote as in PyTorch.
fn common_dtype(operands: &[&Value], dims: &Dims) -> Result<DType> {
    let tensors: Vec<&Value> = operands.iter().copied().filter(|v| !v.is_scalar()).collect();
    let full = tensors.iter().filter(|v| layout::broadcasts_to(dims, &v.dims)).map(|v| v.dtype);
    let any = tensors.iter().map(|v| v.dtype);
    let dtype = match full.reduce(DType::promote).or_else(|| any.reduce(DType::promote)) {
        Some(d) => d,
        None => return Ok(scalar_dtype(operands)),
    };
    for v in operands {
        let fractional = match v.kind {
            ValueKind::Const(c) => c.fract() != 0.0,
            ValueKind::Scalar { .. } => true,
            _ => dtype != v.dtype && v.dtype.is_float(),
        };
        if !dtype.is_float() && dtype != DType::Bool && fractional {
            return Err(Error::dtype(format!(
                "a float meets a tensor of {dtype}, which cannot hold it; `cast` the tensor to a float first"
            )));
        }
    }
    Ok(dtype)
}

fn scalar_dtype(operands: &[&Value]) -> DType {
    operands.iter().map(|v| v.dtype).reduce(DType::promote).unwrap_or(DType::F32)
}

/// A result lies in memory as the first operand of its shape does, one that was computed before one that was passed in (the result follows
/// the core operation, not a residual).
fn result_strides(operands: &[&Value], dims: &Dims) -> Dims {
    let fits = |v: &&&Value| {
        v.dims == *dims && !v.is_scalar() && !v.strides.iter().zip(dims.iter()).any(|(&s, &d)| s == 0 && d > 1)
    };
    let computed = operands.iter().filter(fits).find(|v| matches!(v.kind, ValueKind::Node(_)));
    match computed.or_else(|| operands.iter().find(fits)) {
        Some(v) => dims.strides_like(&v.dims, &v.strides),
        None => dims.contiguous_strides(),
    }
}
