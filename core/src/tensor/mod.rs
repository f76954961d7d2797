//! Tensors: memory with dims and strides. Not a tensor library: views, conversions and constructors, no eager maths.

mod convert;
mod create;
mod host;
mod memory;
mod views;
mod write;

pub(crate) use convert::rearrange;
pub use create::set_seed;
pub use host::HostData;
pub(crate) use host::{HostElement, HostSliceMut, for_each_row, room, with_host, with_type};
pub use memory::HostMemory;

use crate::backend::DeviceBuffer;
use crate::device::Device;
use crate::dtype::DType;
use crate::layout::{self, Dims};
use std::fmt;
use std::sync::Arc;

/// The memory of a tensor.
#[derive(Clone, Debug)]
pub enum Storage {
    /// Host memory.
    Host(Arc<HostMemory>),
    /// Memory of an accelerator.
    Device(Arc<dyn DeviceBuffer>),
}

impl Storage {
    /// New host memory with these elements.
    pub fn host(data: HostData) -> Storage {
        Storage::Host(Arc::new(HostMemory::new(data)))
    }
}

/// A tensor: shared memory seen through dims, strides and an offset. Cheap to clone.
///
/// Clones and views share the memory: what [`copy_from`](Tensor::copy_from) and [`write`](Tensor::write) put there is seen through all of them. Nothing else
/// changes the elements of a tensor, except launching what it is the result of ([`Bound`](crate::site::Bound)).
#[derive(Clone)]
pub struct Tensor {
    dtype: DType,
    dims: Dims,
    strides: Dims,
    offset: i64,
    storage: Storage,
    device: Device,
}

impl Tensor {
    /// Puts a tensor together from parts that a backend or a constructor made. The caller has checked that the
    /// storage is of this element type and device and holds every element that dims, strides and offset address.
    pub fn from_parts(
        device: Device,
        storage: Storage,
        dtype: DType,
        dims: Dims,
        strides: Dims,
        offset: i64,
    ) -> Tensor {
        debug_assert!(layout::span(&dims, &strides).is_some());
        Tensor { dtype, dims, strides, offset, storage, device }
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Extents.
    pub fn dims(&self) -> &Dims {
        &self.dims
    }

    /// Distances in elements between neighbours along each axis.
    pub fn strides(&self) -> &Dims {
        &self.strides
    }

    /// Elements between the start of the memory and the first element.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// The memory.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Where it lives.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.dims.numel()
    }

    /// Whether the elements lie in memory in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        let normal = layout::normalise_strides(&self.dims, &self.strides);
        self.numel() == 0 || normal == self.dims.contiguous_strides()
    }

    /// Whether the elements lie in memory in the order N (D) H W C without gaps.
    pub fn is_channels_last(&self) -> bool {
        let dense = self.dims.channels_last_strides();
        self.rank() >= 3 && (0..self.rank()).all(|a| self.dims[a] == 1 || self.strides[a] == dense[a])
    }

    /// Address of the first element: on the device, or 0 for host memory.
    pub fn address(&self) -> u64 {
        match &self.storage {
            Storage::Host(_) => 0,
            Storage::Device(b) => b.address() + self.offset as u64 * self.dtype.size() as u64,
        }
    }

    /// The largest power of two up to 256 that divides the address of the first element.
    pub fn alignment(&self) -> u32 {
        1 << self.address().trailing_zeros().min(8)
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({} {} strides {} on {})", self.dtype, self.dims, self.strides, self.device)
    }
}
