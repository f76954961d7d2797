//! Convolution.

use super::{Inferred, core_dtype};
use crate::error::{Error, Result};
use crate::ir::{ConvAttrs, Value};
use crate::layout::Dims;

pub(super) fn infer(attrs: &ConvAttrs, [x, w]: [&Value; 2]) -> Result<Inferred> {
    let dtype = core_dtype(x, w)?;
    if !(1..=3).contains(&attrs.spatial) {
        return Err(Error::argument(format!("has 1, 2 or 3 spatial dimensions, not {}", attrs.spatial)));
    }
    let rank = attrs.spatial + 2;
    if x.dims.len() != rank || w.dims.len() != rank {
        return Err(Error::shape(format!(
            "data must be N×C×{0} and weights K×C/groups×{0} (rank {rank}), not {1} and {2}",
            ["W", "H×W", "D×H×W"][attrs.spatial - 1],
            x.dims,
            w.dims
        )));
    }
    check_attrs(attrs)?;
    if x.dims.contains(&0) || w.dims.contains(&0) {
        return Err(Error::shape("a dimension has extent 0"));
    }
    if x.dims[1] != w.dims[1].saturating_mul(attrs.groups) {
        return Err(Error::shape(format!(
            "data has {} channels, but weights {} with groups = {} take {}",
            x.dims[1],
            w.dims,
            attrs.groups,
            w.dims[1].saturating_mul(attrs.groups)
        )));
    }
    if w.dims[0] % attrs.groups != 0 {
        return Err(Error::shape(format!("{} filters do not divide into groups = {}", w.dims[0], attrs.groups)));
    }
    let mut dims = Dims::splat(1, rank).with(0, x.dims[0]).with(1, w.dims[0]);
    for i in 0..attrs.spatial {
        dims = dims.with(2 + i, extent(attrs, i, x.dims[2 + i], w.dims[2 + i])?);
    }
    Ok(Inferred { dtype, dims, strides: dims.strides_like(&x.dims, &x.strides) })
}

fn check_attrs(attrs: &ConvAttrs) -> Result<()> {
    let lists = [attrs.stride, attrs.dilation, attrs.pre_padding, attrs.post_padding];
    if lists.iter().any(|l| l.len() != attrs.spatial) {
        return Err(Error::argument(format!(
            "stride, dilation and padding need one entry for each of the {} spatial dimensions",
            attrs.spatial
        )));
    }
    if attrs.stride.iter().chain(attrs.dilation.iter()).any(|&v| v < 1) || attrs.groups < 1 {
        return Err(Error::argument("stride, dilation and groups must be at least 1"));
    }
    if attrs.pre_padding.iter().chain(attrs.post_padding.iter()).any(|&v| v < 0) {
        return Err(Error::argument("padding must not be negative"));
    }
    Ok(())
}

fn extent(attrs: &ConvAttrs, i: usize, x: i64, w: i64) -> Result<i64> {
    let overflow = || Error::argument("stride, dilation or padding overflow");
    let filter = attrs.dilation[i].checked_mul(w - 1).and_then(|v| v.checked_add(1)).ok_or_else(overflow)?;
    let padded =
        x.checked_add(attrs.pre_padding[i]).and_then(|v| v.checked_add(attrs.post_padding[i])).ok_or_else(overflow)?;
    if padded < filter {
        return Err(Error::shape(format!(
            "spatial dimension {i}: the filter covers {filter} elements (extent {w}, dilation {}), but the data has {padded} with padding",
            attrs.dilation[i]
        )));
    }
    Ok((padded - filter) / attrs.stride[i] + 1)
}
