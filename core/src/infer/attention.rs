//! Scaled dot-product attention.

use super::Inferred;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::{SdpaAttrs, SdpaOperand, SdpaPart, Value};
use crate::layout::{self, Dims};

pub(super) fn infer(attrs: &SdpaAttrs, operands: &[&Value]) -> Result<Inferred> {
    if operands.len() != attrs.arity() {
        return Err(Error::argument(format!("takes {} operands, not {}", attrs.arity(), operands.len())));
    }
    let [q, k, v] = [operands[0], operands[1], operands[2]];
    check_types([q, k, v])?;
    check_dims([q, k, v])?;
    if attrs.left.is_some_and(|n| n < 0) || attrs.right.is_some_and(|n| n < 0) {
        return Err(Error::argument("a window does not reach a negative number of positions"));
    }
    scalar("scale", operands[SdpaAttrs::SCALE])?;
    for operand in attrs.operands() {
        let Some(value) = attrs.place(operand).map(|at| operands[at]) else { continue };
        check_operand(operand, value, &q.dims, k.dims[2])?;
    }
    if attrs.has(SdpaOperand::SeqLenQ) != attrs.has(SdpaOperand::SeqLenKv) {
        return Err(Error::argument("seq_len_q and seq_len_kv come together"));
    }
    if attrs.part == SdpaPart::Output {
        let dims = q.dims.with(3, v.dims[3]);
        return Ok(Inferred { dtype: q.dtype, dims, strides: dims.strides_like(&q.dims, &q.strides) });
    }
    let dims = q.dims.with(3, 1);
    let dtype = if q.dtype == DType::F64 { DType::F64 } else { DType::F32 };
    Ok(Inferred { dtype, dims, strides: dims.contiguous_strides() })
}

fn check_types(tensors: [&Value; 3]) -> Result<()> {
    if tensors.iter().any(|t| t.is_scalar()) {
        return Err(Error::shape("q, k and v are tensors"));
    }
    let [q, k, v] = tensors.map(|t| t.dtype);
    if q != k || q != v {
        return Err(Error::dtype(format!(
            "q, k and v must have the same element type, not {q}, {k} and {v}; `cast` them"
        )));
    }
    if !q.is_float() {
        return Err(Error::dtype(format!("takes floats, not {q}; `cast` q, k and v")));
    }
    Ok(())
}

fn check_dims(tensors: [&Value; 3]) -> Result<()> {
    let [q, k, v] = tensors.map(|t| t.dims);
    let three = format!("{q}, {k} and {v}");
    if tensors.iter().any(|t| t.dims.len() != 4) {
        return Err(Error::shape(format!(
            "q, k and v are batch × heads × positions × width (rank 4), not {three}; other orders in memory are views: `permute`"
        )));
    }
    if tensors.iter().any(|t| t.dims.contains(&0)) {
        return Err(Error::shape("a dimension has extent 0"));
    }
    if q[0] != k[0] || q[0] != v[0] {
        return Err(Error::shape(format!("q, k and v must have the same batch, and have {three}")));
    }
    if q[1] % k[1] != 0 || q[1] % v[1] != 0 {
        return Err(Error::shape(format!(
            "the {} query heads must be a multiple of the {} heads of k and the {} of v",
            q[1], k[1], v[1]
        )));
    }
    if q[3] != k[3] {
        return Err(Error::shape(format!("q and k must be equally wide, and are {} and {}", q[3], k[3])));
    }
    if k[2] != v[2] {
        return Err(Error::shape(format!("k and v must have equally many positions, and have {} and {}", k[2], v[2])));
    }
    Ok(())
}

fn check_operand(operand: SdpaOperand, value: &Value, q: &Dims, keys: i64) -> Result<()> {
    let name = operand.name();
    let list = |dtype: DType, of: &str, n: i64| {
        if value.is_scalar() || value.dtype != dtype || value.dims.numel() as i64 != n || value.dims.len() > 4 {
            let text =
                format!("{name} holds one {dtype} for each of the {n} {of}, and is {} {}", value.dtype, value.dims);
            return Err(Error::shape(text));
        }
        Ok(())
    };
    match operand {
        SdpaOperand::Softcap => scalar(name, value),
        SdpaOperand::Bias => {
            let scores = q.with(3, keys);
            if value.is_scalar() || !value.dtype.is_float() {
                return Err(Error::dtype("bias is a tensor of floats"));
            }
            if !layout::broadcasts_to(&value.dims, &scores) {
                return Err(Error::shape(format!("bias {} does not broadcast to the scores {scores}", value.dims)));
            }
            Ok(())
        }
        SdpaOperand::AlibiSlopes | SdpaOperand::Sink => list(DType::F32, "query heads", q[1]),
        SdpaOperand::SeqLenQ | SdpaOperand::SeqLenKv => list(DType::I32, "batch entries", q[0]),
    }
}

fn scalar(name: &str, value: &Value) -> Result<()> {
    if value.dims.is_empty() {
        return Ok(());
    }
    Err(Error::shape(format!("{name} is a number or a host scalar, not a tensor of shape {}", value.dims)))
}
