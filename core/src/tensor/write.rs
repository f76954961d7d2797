//! Writing into the memory of a tensor.

use super::host::{HostData, HostElement, for_each_row, with_host};
use super::{HostMemory, Storage, Tensor, rearrange};
use crate::device::Device;
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::layout::{self, Dims};
use std::sync::Arc;

impl Tensor {
    /// Overwrites the elements with those of a tensor of the same dims and element type, wherever that one is.
    ///
    /// Everything that shares the memory sees it: clones, views, calls that were bound to it. On a GPU the copy is queued on this tensor's stream.
    ///
    /// ```
    /// # use fused_graph_core::{Device, Tensor};
    /// # fn main() -> fused_graph_core::Result<()> {
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &Device::cpu())?;
    /// let second_row = x.narrow(0, 1, 1)?;
    /// second_row.copy_from(&Tensor::from_slice(&[5.0_f32, 6.0], [1, 2], &Device::cpu())?)?;
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 5.0, 6.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn copy_from(&self, source: &Tensor) -> Result<()> {
        if self.dims != source.dims {
            return Err(Error::shape(format!(
                "a tensor of shape {} cannot take one of shape {}",
                self.dims, source.dims
            )));
        }
        if self.dtype != source.dtype {
            let (to, from) = (self.dtype, source.dtype);
            return Err(Error::dtype(format!(
                "a tensor of {to} cannot take one of {from}; convert it with `.to_dtype(DType::{to:?})`"
            )));
        }
        if !layout::is_distinct(&self.dims, &self.strides) {
            return Err(Error::layout(format!(
                "several elements of {self:?} share a place, so it cannot be written to"
            )));
        }
        if self.numel() == 0 {
            return Ok(());
        }
        // Read whole before a part is overwritten.
        let apart = if self.overlaps(source) {
            source.copied(&self.dims.contiguous_strides(), self.dtype)?
        } else {
            source.clone()
        };
        let near = apart.to(&self.device)?;
        match (&self.storage, self.device.accelerator()) {
            (Storage::Device(_), Some(accelerator)) => accelerator.overwrite(self, &near),
            (Storage::Host(memory), _) => {
                let (data, offset, strides) = near.host_elements()?;
                self.overwrite_host(memory, data, offset, &strides);
                Ok(())
            }
            (Storage::Device(_), None) => Err(Error::device("the tensor has lost its device")),
        }
    }

    /// Overwrites the elements with those of a host slice, in row-major order. As [`copy_from`](Tensor::copy_from).
    ///
    /// ```
    /// # use fused_graph_core::{DType, Device, Tensor};
    /// # fn main() -> fused_graph_core::Result<()> {
    /// let x = Tensor::zeros([2], DType::F32, &Device::cpu())?;
    /// let same = x.clone();
    /// x.write(&[1.0_f32, 2.0])?;
    /// assert_eq!(same.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn write<T: Element>(&self, data: &[T]) -> Result<()> {
        self.copy_from(&Tensor::from_slice(data, self.dims, &Device::CPU)?)
    }

    /// Host elements with these strides, into the memory of this tensor.
    pub(crate) fn overwrite_host(&self, memory: &HostMemory, data: Arc<HostData>, offset: i64, strides: &Dims) {
        let whole = memory.load().len() == self.numel();
        let normal = |s: &Dims| layout::normalise_strides(&self.dims, s);
        if whole && data.len() == self.numel() && normal(strides) == normal(&self.strides) {
            memory.replace(data);
        } else if whole {
            memory.replace(Arc::new(rearrange(&data, offset, &self.dims, strides, &self.strides, self.dtype)));
        } else {
            let rows = rearrange(&data, offset, &self.dims, strides, &self.dims.contiguous_strides(), self.dtype);
            memory.change(|all| with_host!(all, v => scatter(v, self, &rows)));
        }
    }

    /// Whether its elements are all that its memory holds, each in a place of its own.
    pub(crate) fn fills_its_memory(&self) -> bool {
        let held = match &self.storage {
            Storage::Host(memory) => memory.load().len(),
            Storage::Device(buffer) => buffer.bytes() / self.dtype.size(),
        };
        self.offset == 0 && held == self.numel() && layout::is_distinct(&self.dims, &self.strides)
    }

    /// Whether the places between the first and the last element of two tensors overlap.
    pub(crate) fn overlaps(&self, other: &Tensor) -> bool {
        let range = |t: &Tensor, start: i64| {
            let bytes = t.dtype.size() as i64;
            start + t.offset * bytes..start + (t.offset + layout::span(&t.dims, &t.strides).unwrap_or(0)) * bytes
        };
        let (a, b) = match (&self.storage, &other.storage) {
            (Storage::Host(a), Storage::Host(b)) if Arc::ptr_eq(a, b) => (range(self, 0), range(other, 0)),
            (Storage::Device(a), Storage::Device(b)) if self.device == other.device => {
                (range(self, a.address() as i64), range(other, b.address() as i64))
            }
            _ => return false,
        };
        a.start < b.end && b.start < a.end
    }
}

/// Row-major elements to where a tensor has them.
fn scatter<T: HostElement>(all: &mut [T], to: &Tensor, rows: &HostData) {
    let Some(mut rest) = T::elements(rows) else { return };
    for_each_row(&to.dims, &to.strides, |start, n, step| {
        let (row, after) = rest.split_at(n as usize);
        rest = after;
        for (i, v) in row.iter().enumerate() {
            all[(to.offset + start + i as i64 * step) as usize] = *v;
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::{DType, Device, ErrorKind, Tensor};

    fn numbers(n: usize) -> Tensor {
        Tensor::arange(n, DType::F32, &Device::CPU).unwrap()
    }

    #[test]
    fn what_is_written_is_seen_by_all_that_share_it_and_by_nothing_else() {
        let x = numbers(12).reshape([3, 4]).unwrap();
        let (clone, transposed) = (x.clone(), x.t().unwrap());
        let source = numbers(12).reshape([4, 3]).unwrap();
        transposed.copy_from(&source).unwrap();
        let want: Vec<f32> = (0..12).map(|i| (i % 4 * 3 + i / 4) as f32).collect();
        assert_eq!(clone.to_vec::<f32>().unwrap(), want);
        x.write(&[7.0f32; 12]).unwrap();
        assert_eq!(source.to_vec::<f32>().unwrap(), (0..12).map(|i| i as f32).collect::<Vec<_>>());
        // Two tensors that were copied whole do not become one.
        let (a, b) = (numbers(3), numbers(3));
        a.copy_from(&b).unwrap();
        b.write(&[9.0f32; 3]).unwrap();
        assert_eq!(a.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
    }

    #[test]
    fn parts_with_gaps_and_overlaps() {
        let x = numbers(12).reshape([3, 4]).unwrap();
        let held = x.host_elements().unwrap().0;
        x.slice(1, 1..3).unwrap().write(&[-1.0f32, -2.0, -3.0, -4.0, -5.0, -6.0]).unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap(), [0., -1., -2., 3., 4., -3., -4., 7., 8., -5., -6., 11.]);
        assert_eq!(held.get(1), 1.0, "a reader keeps what it read");
        x.slice(0, 1..3).unwrap().copy_from(&x.slice(0, 0..2).unwrap()).unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap(), [0., -1., -2., 3., 0., -1., -2., 3., 4., -3., -4., 7.]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let x = numbers(4);
        let kind = |r: crate::Result<()>| r.unwrap_err().kind();
        assert_eq!(kind(x.copy_from(&numbers(3))), ErrorKind::Shape);
        assert_eq!(kind(x.write(&[1.0f32; 5])), ErrorKind::Shape);
        assert_eq!(kind(x.write(&[1i32; 4])), ErrorKind::DType);
        let repeated = numbers(1).expand([4]).unwrap();
        assert_eq!(kind(repeated.copy_from(&x)), ErrorKind::Layout);
        assert_eq!(x.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0]);
    }
}
