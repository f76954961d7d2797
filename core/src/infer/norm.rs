//! Normalisations and softmax.

use super::Inferred;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::{NormAttrs, NormMode, NormPart, SoftmaxAttrs, Value};
use crate::layout::{self, Dims};

pub(super) fn infer(attrs: &NormAttrs, operands: &[&Value]) -> Result<Inferred> {
    if operands.len() != attrs.epsilon() + 1 {
        return Err(Error::argument(format!("takes {} operands, not {}", attrs.epsilon() + 1, operands.len())));
    }
    let x = tensor(operands[0])?;
    if attrs.part == NormPart::Mean && !attrs.is_centered() {
        return Err(Error::argument("has no mean: nothing is subtracted"));
    }
    check_axes(attrs, &x.dims)?;
    let parameters = [Some(1), attrs.beta()].into_iter().flatten().zip(["gamma", "beta"]);
    parameters.into_iter().try_for_each(|(at, name)| check_parameter(attrs, name, operands[at], &x.dims))?;
    let epsilon = operands[attrs.epsilon()];
    if !epsilon.dims.is_empty() {
        return Err(Error::shape(format!(
            "epsilon is a number or a host scalar, not a tensor of shape {}",
            epsilon.dims
        )));
    }
    if attrs.part == NormPart::Y {
        return Ok(Inferred { dtype: x.dtype, dims: x.dims, strides: x.dims.strides_like(&x.dims, &x.strides) });
    }
    let dims = Dims::collect(x.dims.iter().enumerate().map(|(a, &d)| if attrs.normalises(a) { 1 } else { d }));
    let dtype = if x.dtype == DType::F64 { DType::F64 } else { DType::F32 };
    Ok(Inferred { dtype, dims, strides: dims.strides_like(&x.dims, &x.strides) })
}

pub(super) fn infer_softmax(attrs: &SoftmaxAttrs, x: &Value) -> Result<Inferred> {
    let x = tensor(x)?;
    if attrs.axis >= x.dims.len() {
        return Err(Error::argument(format!("axis {} is not an axis of {}", attrs.axis, x.dims)));
    }
    Ok(Inferred { dtype: x.dtype, dims: x.dims, strides: x.dims.strides_like(&x.dims, &x.strides) })
}

/// A float tensor with elements.
fn tensor(x: &Value) -> Result<&Value> {
    if x.is_scalar() || x.dims.is_empty() {
        return Err(Error::shape("takes a tensor, not a scalar"));
    }
    if !x.dtype.is_float() {
        return Err(Error::dtype(format!("takes floats, not {}; `cast` the operand", x.dtype)));
    }
    if x.dims.contains(&0) {
        return Err(Error::shape("a dimension has extent 0"));
    }
    Ok(x)
}

fn check_axes(attrs: &NormAttrs, dims: &Dims) -> Result<()> {
    let rank = dims.len();
    if attrs.axes == 0 || (rank < 8 && attrs.axes >> rank != 0) {
        return Err(Error::argument(format!("the normalised axes are not axes of {dims}")));
    }
    let without_channels = matches!(attrs.mode, NormMode::Batch) && rank < 2;
    if without_channels || attrs.axes != attrs.mode.axes(rank, attrs.axes.count_ones() as usize) {
        return Err(Error::argument(match attrs.mode {
            NormMode::Layer | NormMode::Rms => "normalises the last axes".to_owned(),
            _ => format!("takes N×C×…, not {dims}"),
        }));
    }
    Ok(())
}

fn check_parameter(attrs: &NormAttrs, name: &str, p: &Value, dims: &Dims) -> Result<()> {
    if p.is_scalar() || !p.dtype.is_float() {
        return Err(Error::dtype(format!("{name} is a tensor of floats")));
    }
    let channels = dims.len().saturating_sub(1);
    let fits = match attrs.mode {
        NormMode::Layer | NormMode::Rms => p.dims.len() == attrs.axes.count_ones() as usize && dims.ends_with(&p.dims),
        // One value a channel, those of a group one behind another.
        NormMode::Batch | NormMode::Instance => p.dims.len() == channels && p.dims[0] == dims[1],
        NormMode::Group => p.dims.len() == channels && p.dims[..2] == dims[1..3],
    };
    if !fits || !layout::broadcasts_to(&p.dims, dims) {
        let wanted = match attrs.mode {
            NormMode::Layer | NormMode::Rms => "has the shape of the axes that are normalised, the last ones",
            _ => "has one value for each channel",
        };
        return Err(Error::shape(format!("{name} {wanted} of {dims}, and {} is not that", p.dims)));
    }
    Ok(())
}
