//! Elements in host memory, typed.

use crate::dtype::{DType, Element, F8E4M3, F8E5M2};
use crate::error::{Error, Result};
use crate::layout::Dims;

macro_rules! host_data {
    ($($variant:ident: $t:ty;)*) => {
        /// Elements in host memory.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs, reason = "a variant for each element type")]
        pub enum HostData { $($variant(Vec<$t>),)* }

        /// Runs `$body` with `$v` bound to the typed vector.
        macro_rules! with_host {
            ($data:expr, $v:ident => $body:expr) => {
                match $data { $($crate::tensor::HostData::$variant($v) => $body,)* }
            };
        }
        pub(crate) use with_host;

        /// Runs `$body` with `$T` as the Rust type of the element type.
        macro_rules! with_type {
            ($dtype:expr, $T:ident => $body:expr) => {
                match $dtype { $($crate::dtype::DType::$variant => { type $T = $t; $body })* }
            };
        }
        pub(crate) use with_type;

        $(impl HostElement for $t {
            fn wrap(v: Vec<$t>) -> HostData { HostData::$variant(v) }
            fn elements(data: &HostData) -> Option<&[$t]> {
                match data { HostData::$variant(v) => Some(v), _ => None }
            }
        })*

        /// A part of a [`HostData`] that a thread writes.
        #[derive(Debug)]
        pub(crate) enum HostSliceMut<'a> { $($variant(&'a mut [$t]),)* }

        impl<'a> HostSliceMut<'a> {
            /// The first `n` elements, which stay with the caller; `self` keeps the rest.
            pub(crate) fn take(&mut self, n: usize) -> HostSliceMut<'a> {
                match self { $(HostSliceMut::$variant(s) => {
                    let (head, tail) = std::mem::take(s).split_at_mut(n);
                    *s = tail;
                    HostSliceMut::$variant(head)
                })* }
            }
        }

        impl HostData {
            /// All elements, to be written.
            pub(crate) fn as_mut(&mut self) -> HostSliceMut<'_> {
                match self { $(HostData::$variant(v) => HostSliceMut::$variant(v),)* }
            }

            /// Zeros.
            pub(crate) fn zeros(dtype: DType, n: usize) -> HostData {
                match dtype { $(DType::$variant => HostData::$variant(vec![Default::default(); n]),)* }
            }

            /// The element type.
            pub fn dtype(&self) -> DType {
                match self { $(HostData::$variant(_) => DType::$variant,)* }
            }
        }
    };
}

/// An error where no memory can be had for a value of these dims: the allocation would end the process. Small ones are not asked for.
pub(crate) fn room(dims: &Dims, dtype: DType) -> Result<()> {
    const SMALL: usize = 1 << 30;
    let bytes = dims.numel().saturating_mul(dtype.size());
    if bytes < SMALL || Vec::<u8>::new().try_reserve_exact(bytes).is_ok() {
        return Ok(());
    }
    Err(Error::argument(format!("{dtype} {dims} takes {bytes} bytes, for which this machine has no memory")))
}

/// Moves typed vectors in and out of [`HostData`].
pub(crate) trait HostElement: Element {
    fn wrap(v: Vec<Self>) -> HostData;
    fn elements(data: &HostData) -> Option<&[Self]>;
}

host_data! {
    F32: f32;
    F16: half::f16;
    BF16: half::bf16;
    F64: f64;
    F8E4M3: float8::F8E4M3;
    F8E5M2: float8::F8E5M2;
    I8: i8;
    I32: i32;
    I64: i64;
    Bool: bool;
}

impl HostData {
    /// The number of elements.
    pub fn len(&self) -> usize {
        with_host!(self, v => v.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at `index` as `f64`.
    pub fn get(&self, index: usize) -> f64 {
        with_host!(self, v => v.get(index).map_or(0.0, |e| e.to_f64()))
    }

    /// The elements as bytes in the machine's order; `Bool` as 0 and 1.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            HostData::F32(v) => bytemuck::cast_slice(v).to_vec(),
            HostData::F16(v) => bytemuck::cast_slice(v).to_vec(),
            HostData::BF16(v) => bytemuck::cast_slice(v).to_vec(),
            HostData::F64(v) => bytemuck::cast_slice(v).to_vec(),
            HostData::F8E4M3(v) => v.iter().map(|e| e.to_bits()).collect(),
            HostData::F8E5M2(v) => v.iter().map(|e| e.to_bits()).collect(),
            HostData::I8(v) => bytemuck::cast_slice(v).to_vec(),
            HostData::I32(v) => bytemuck::cast_slice(v).to_vec(),
            HostData::I64(v) => bytemuck::cast_slice(v).to_vec(),
            HostData::Bool(v) => v.iter().map(|&b| b as u8).collect(),
        }
    }

    /// The reverse of [`HostData::to_bytes`].
    pub(crate) fn from_bytes(dtype: DType, bytes: &[u8]) -> HostData {
        match dtype {
            DType::F32 => HostData::F32(bytemuck::allocation::pod_collect_to_vec(bytes)),
            DType::F16 => HostData::F16(bytemuck::allocation::pod_collect_to_vec(bytes)),
            DType::BF16 => HostData::BF16(bytemuck::allocation::pod_collect_to_vec(bytes)),
            DType::F64 => HostData::F64(bytemuck::allocation::pod_collect_to_vec(bytes)),
            DType::F8E4M3 => HostData::F8E4M3(bytes.iter().map(|&b| F8E4M3::from_bits(b)).collect()),
            DType::F8E5M2 => HostData::F8E5M2(bytes.iter().map(|&b| F8E5M2::from_bits(b)).collect()),
            DType::I8 => HostData::I8(bytemuck::allocation::pod_collect_to_vec(bytes)),
            DType::I32 => HostData::I32(bytemuck::allocation::pod_collect_to_vec(bytes)),
            DType::I64 => HostData::I64(bytemuck::allocation::pod_collect_to_vec(bytes)),
            DType::Bool => HostData::Bool(bytes.iter().map(|&b| b != 0).collect()),
        }
    }
}

/// Element offsets of a strided tensor in row-major order: the innermost axis runs in one go.
pub(crate) fn for_each_row(dims: &Dims, strides: &Dims, mut row: impl FnMut(i64, i64, i64)) {
    if dims.contains(&0) {
        return;
    }
    let Some((&inner, outer)) = dims.split_last() else { return row(0, 1, 1) };
    let step = strides[dims.len() - 1];
    let mut index = [0i64; crate::layout::MAX_RANK];
    let mut offset = 0i64;
    loop {
        row(offset, inner, step);
        let mut axis = outer.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            offset += strides[axis];
            if index[axis] < outer[axis] {
                break;
            }
            offset -= strides[axis] * outer[axis];
            index[axis] = 0;
        }
    }
}

/// Gathers a strided tensor into row-major order, converting each element with `f`.
pub(crate) fn gather<S: Copy, D>(from: &[S], offset: i64, dims: &Dims, strides: &Dims, f: impl Fn(S) -> D) -> Vec<D> {
    let mut out = Vec::with_capacity(dims.numel());
    for_each_row(dims, strides, |start, n, step| {
        let start = (offset + start) as usize;
        if step == 1 {
            out.extend(from[start..start + n as usize].iter().map(|&v| f(v)));
        } else {
            out.extend((0..n).map(|i| f(from[(start as i64 + i * step) as usize])));
        }
    });
    out
}
