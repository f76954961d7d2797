//! Pooling.

use super::Inferred;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::{PoolAttrs, PoolMode, PoolPart, Value};

pub(super) fn infer(attrs: &PoolAttrs, x: &Value) -> Result<Inferred> {
    let spatial = attrs.spatial();
    if !(1..=3).contains(&spatial) || x.dims.len() != spatial + 2 {
        let axes = ["W", "H×W", "D×H×W"][spatial.clamp(1, 3) - 1];
        return Err(Error::shape(format!("takes N×C×{axes}, not {}", x.dims)));
    }
    if x.dims.contains(&0) {
        return Err(Error::shape("a dimension has extent 0"));
    }
    if x.dtype == DType::Bool || (!x.dtype.is_float() && attrs.mode != PoolMode::Max) {
        return Err(Error::dtype(format!("takes floats, not {}; `cast` the operand", x.dtype)));
    }
    if attrs.part == PoolPart::Index && attrs.mode != PoolMode::Max {
        return Err(Error::argument("only max pooling has an index"));
    }
    let mut dims = x.dims;
    for axis in 0..spatial {
        dims = dims.with(2 + axis, extent(attrs, axis, x.dims[2 + axis])?);
    }
    let dtype = if attrs.part == PoolPart::Index { DType::I32 } else { x.dtype };
    Ok(Inferred { dtype, dims, strides: dims.strides_like(&x.dims, &x.strides) })
}

fn extent(attrs: &PoolAttrs, axis: usize, extent: i64) -> Result<i64> {
    let lists = [attrs.stride, attrs.pre_padding, attrs.post_padding];
    if lists.iter().any(|l| l.len() != attrs.spatial()) {
        let text =
            format!("window, stride and padding need one entry for each of the {} spatial dimensions", attrs.spatial());
        return Err(Error::argument(text));
    }
    let (window, stride) = (attrs.window[axis], attrs.stride[axis]);
    let (pre, post) = (attrs.pre_padding[axis], attrs.post_padding[axis]);
    if window < 1 || stride < 1 {
        return Err(Error::argument("window and stride must be at least 1"));
    }
    if !(0..window).contains(&pre) || !(0..window).contains(&post) {
        return Err(Error::argument(format!(
            "spatial dimension {axis}: padding must not be negative and must be smaller than the window, which is {window}"
        )));
    }
    let padded = extent.checked_add(pre).and_then(|n| n.checked_add(post));
    let padded = padded.ok_or_else(|| Error::argument("window and padding overflow"))?;
    if padded < window {
        return Err(Error::shape(format!(
            "spatial dimension {axis}: the window covers {window} elements, but the data has {padded} with padding"
        )));
    }
    Ok((padded - window) / stride + 1)
}
