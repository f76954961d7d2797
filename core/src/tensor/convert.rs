//! Copies: to host vectors, other element types, other layouts, other devices.

use super::host::{HostData, HostElement, gather, room, with_host, with_type};
use super::{Storage, Tensor};
use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::layout::{self, Dims};
use std::sync::Arc;

impl Tensor {
    /// The elements in row-major order. `T` must be the element type; convert with [`to_dtype`](Tensor::to_dtype) first.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        if T::DTYPE != self.dtype {
            return Err(Error::dtype(format!(
                "the tensor holds {}, not {}; convert it with `.to_dtype(DType::{:?})`",
                self.dtype,
                T::DTYPE,
                T::DTYPE
            )));
        }
        room(&self.dims, self.dtype)?;
        let (data, offset, strides) = self.host_elements()?;
        with_host!(&*data, v => {
            let out: Box<dyn std::any::Any> = Box::new(gather(v, offset, &self.dims, &strides, |e| e));
            out.downcast::<Vec<T>>().map(|v| *v).map_err(|_| Error::dtype("an element type that is not known"))
        })
    }

    /// The only element.
    pub fn to_scalar<T: Element>(&self) -> Result<T> {
        match self.to_vec::<T>()?.as_slice() {
            [v] => Ok(*v),
            _ => Err(Error::shape(format!("a tensor of shape {} has more than one element", self.dims))),
        }
    }

    /// The elements on the host, with the offset and the strides that they have there.
    pub(crate) fn host_elements(&self) -> Result<(Arc<HostData>, i64, Dims)> {
        match (&self.storage, self.device.accelerator()) {
            (Storage::Host(memory), _) => Ok((memory.load(), self.offset, self.strides)),
            (Storage::Device(buffer), Some(accelerator)) => {
                let span = layout::span(&self.dims, &self.strides).unwrap_or(0) as usize;
                let mut bytes = vec![0u8; span * self.dtype.size()];
                if span > 0 {
                    accelerator.download(&**buffer, self.offset as usize * self.dtype.size(), &mut bytes)?;
                }
                Ok((Arc::new(HostData::from_bytes(self.dtype, &bytes)), 0, self.strides))
            }
            (Storage::Device(_), None) => Err(Error::device("the tensor has lost its device")),
        }
    }

    /// The same elements on another device, in the same dense layout; the tensor itself if it is there already.
    pub fn to(&self, device: &Device) -> Result<Tensor> {
        if self.device == *device {
            return Ok(self.clone());
        }
        room(&self.dims, self.dtype)?;
        let dense = self.dims.strides_like(&self.dims, &self.strides);
        let gather = device.is_cpu() && self.strides != dense;
        let source = if gather { self.copied(&dense, self.dtype)? } else { self.clone() };
        let (data, offset, strides) = source.host_elements()?;
        let data = rearrange(&data, offset, &self.dims, &strides, &dense, self.dtype);
        Tensor::from_host(data, self.dims, dense, device)
    }

    /// The same values rounded to another element type; the tensor itself if it has it already.
    pub fn to_dtype(&self, dtype: DType) -> Result<Tensor> {
        if dtype == self.dtype {
            return Ok(self.clone());
        }
        self.copied(&self.dims.strides_like(&self.dims, &self.strides), dtype)
    }

    /// The same elements in row-major order; the tensor itself if they are already.
    pub fn contiguous(&self) -> Result<Tensor> {
        if self.is_contiguous() {
            return Ok(self.clone());
        }
        self.copied(&self.dims.contiguous_strides(), self.dtype)
    }

    /// The same dims and elements, in memory in the order N (D) H W C; the tensor itself if they are already.
    pub fn channels_last(&self) -> Result<Tensor> {
        if self.rank() < 3 {
            return Err(Error::shape(format!("channels-last needs N×C×…, not {}", self.dims)));
        }
        if self.is_channels_last() {
            return Ok(self.clone());
        }
        self.copied(&self.dims.channels_last_strides(), self.dtype)
    }

    /// A copy with these dense strides and this element type.
    pub(crate) fn copied(&self, strides: &Dims, dtype: DType) -> Result<Tensor> {
        let storage = match (&self.storage, self.device.accelerator()) {
            (Storage::Device(_), Some(a)) => Storage::Device(a.copy(self, strides, dtype)?),
            _ => {
                room(&self.dims, dtype)?;
                let (data, offset, from) = self.host_elements()?;
                Storage::host(rearrange(&data, offset, &self.dims, &from, strides, dtype))
            }
        };
        Ok(Tensor::from_parts(self.device.clone(), storage, dtype, self.dims, *strides, 0))
    }
}

/// Copies between two layouts of the same dims, `to` being dense, and converts the elements.
pub(crate) fn rearrange(data: &HostData, offset: i64, dims: &Dims, from: &Dims, to: &Dims, dtype: DType) -> HostData {
    // Walk in the order of the destination: its axes from the outermost to the innermost.
    let mut order: Vec<usize> = (0..dims.len()).collect();
    order.sort_by_key(|&a| (std::cmp::Reverse(to[a]), a));
    let pick = |d: &Dims| Dims::collect(order.iter().map(|&a| d[a]));
    let (dims, from) = (pick(dims), pick(from));
    if dtype == data.dtype() {
        return with_host!(data, v => HostElement::wrap(gather(v, offset, &dims, &from, |e| e)));
    }
    with_host!(data, v => with_type!(dtype, D => D::wrap(gather(v, offset, &dims, &from, convert::<_, D>))))
}

/// One element to another type. Through `f32` where both fit, which is exact and fast; integers go through `i64`'s range of `f64` only where
/// floats are concerned.
fn convert<S: Element, D: Element>(v: S) -> D {
    let wide = |d: DType| matches!(d, DType::F64 | DType::I64 | DType::I32);
    if wide(S::DTYPE) || wide(D::DTYPE) { D::from_f64(v.to_f64()) } else { D::from_f32(v.to_f32()) }
}
