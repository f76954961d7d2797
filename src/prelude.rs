//! `use fused_graph::prelude::*;` brings everything that an annotated function and its caller name.

#[cfg(feature = "cuda")]
pub use crate::CudaTensor;
pub use crate::ops::*;
pub use crate::{Attr, CudaDevice, DType, Device, Element, Expr, Tensor, TuneOptions, bf16, f16, fused_graph};
