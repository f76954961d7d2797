//! Annotated Rust functions as fused, cached cuDNN graphs.

pub use fused_graph_core::assert_fused;
pub use fused_graph_core::backend::{Heuristics, Options};
pub use fused_graph_core::dtype::{F8E4M3, F8E5M2, bf16, f16};
pub use fused_graph_core::explain::{Explain, Explained, KernelReport, PlanSource};
pub use fused_graph_core::ir::Graph;
pub use fused_graph_core::layout::{Dims, IntoDims};
pub use fused_graph_core::site::{Attr, Plan, Stats};
pub use fused_graph_core::tensor::Tensor;
pub use fused_graph_core::trace::{Expr, ops};
pub use fused_graph_core::{DType, Device, Element, Error, ErrorKind, Result};
#[cfg(feature = "cuda")]
pub use fused_graph_cudnn::{compile, cudarc, gpu::CudaDevice};
pub use fused_graph_macros::{Attr, fused_graph};

pub mod prelude;

/// Devices of a build without CUDA.
#[cfg(not(feature = "cuda"))]
pub trait CudaDevice: Sized {
    /// The CPU.
    fn best() -> Result<Self>;
}

#[cfg(not(feature = "cuda"))]
impl CudaDevice for Device {
    fn best() -> Result<Device> {
        Ok(Device::CPU)
    }
}

/// What the expansion of `#[fused_graph]` and `#[derive(Attr)]` calls. Not for use by hand: it changes without notice.
#[doc(hidden)]
pub mod __private {
    pub use fused_graph_core::backend::{Heuristics, Options};
    pub use fused_graph_core::site::{Call, Inputs, KeyWriter, Meta, Site};
    pub use fused_graph_core::trace::Binding;
}
