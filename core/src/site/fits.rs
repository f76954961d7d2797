//! Whether a tensor can take the place of another in a plan.

use crate::error::{Error, Result};
use crate::layout::normalise_strides;
use crate::tensor::Tensor;

/// The words of a plan's key, one by one. `bound` names the function and what is replaced.
pub(super) fn fits(bound: &str, old: &Tensor, alignment: u32, new: &Tensor) -> Result<()> {
    if new.device() != old.device() {
        let (to, from) = (old.device(), new.device());
        return Err(Error::device(format!("{bound} on {to}, not on {from}; move it with `.to(&device)`")));
    }
    if new.dtype() != old.dtype() {
        let (to, from) = (old.dtype(), new.dtype());
        return Err(Error::dtype(format!(
            "{bound} of {to}, not of {from}; convert it with `.to_dtype(DType::{to:?})`, or bind again"
        )));
    }
    if new.dims() != old.dims() {
        let (to, from) = (old.dims(), new.dims());
        return Err(Error::shape(format!("{bound} of shape {to}, not {from}; bind again for another shape")));
    }
    let (to, from) = (normalise_strides(old.dims(), old.strides()), normalise_strides(new.dims(), new.strides()));
    if to != from {
        return Err(Error::layout(format!(
            "{bound} with strides {to}, not {from}; bind again, or write into the bound tensor with `copy_from`"
        )));
    }
    if new.alignment() < alignment {
        return Err(Error::layout(format!(
            "{bound} at a multiple of {alignment} bytes, and the new tensor starts at a multiple of {} only; bind again, or write into the bound tensor \
             with `copy_from`",
            new.alignment()
        )));
    }
    Ok(())
}
