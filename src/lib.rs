//! Annotated Rust functions as fused, cached cuDNN graphs.
//!
//! A function that describes a tensor expression becomes one fused kernel: the first call with a signature traces the body, builds a plan and
//! caches it; later calls look it up and launch. On a machine without a GPU the same function runs on the CPU.
//!
//! ```
//! use fused_graph::prelude::*;
//!
//! /// y = relu(conv(x, w) + b), and the largest |y|.
//! #[fused_graph]
//! pub fn conv_bias_relu(x: &Tensor, w: &Tensor, b: &Tensor) -> (Tensor, Tensor) {
//!     let y = relu(conv2d(x, w, bias = b, padding = 1));
//!     (y, amax(y))
//! }
//!
//! # fn main() -> fused_graph::Result<()> {
//! let dev = Device::cpu(); // `Device::best()?` takes the GPU if driver, cuDNN and GPU are there
//! let x = Tensor::randn([1, 3, 8, 8], DType::BF16, &dev)?.channels_last()?; // dims N×C×H×W, C innermost in memory
//! let w = Tensor::randn([4, 3, 3, 3], DType::BF16, &dev)?.channels_last()?;
//! let b = Tensor::zeros([4], DType::BF16, &dev)?;
//! let (y, largest) = conv_bias_relu(&x, &w, &b)?;
//! assert_eq!(**y.dims(), [1, 4, 8, 8]);
//! assert_eq!(largest.dtype(), DType::F32);
//!
//! // What became of it: kernels, engines, bytes moved, and why anything was cut.
//! let report = conv_bias_relu::explain(&x, &w, &b)?;
//! assert_eq!(report.kernels.len(), 1);
//! println!("{report}");
//! # Ok(())
//! # }
//! ```
//!
//! Host scalars are passed at launch, so their values never need another plan:
//!
//! ```
//! # use fused_graph::prelude::*;
//! #[fused_graph]
//! fn scaled(x: &Tensor, w: &Tensor, alpha: f32) -> Tensor {
//!     gelu(alpha * matmul(x, w))
//! }
//!
//! # fn main() -> fused_graph::Result<()> {
//! let x = Tensor::ones([2, 4], DType::F32, &Device::cpu())?;
//! let w = Tensor::ones([4, 3], DType::F32, &Device::cpu())?;
//! let one = scaled(&x, &w, 1.0)?.to_vec::<f32>()?;
//! let two = scaled(&x, &w, 2.0)?.to_vec::<f32>()?;
//! assert!(two[0] > one[0]);
//! assert_eq!(scaled::stats().plans_built, 1);
//! # Ok(())
//! # }
//! ```
//!
//! Fixed buffers take the look-up out of the loop, and a CUDA graph of them most of the launch; [`Bound`] and [`Captured`] say how:
//!
//! ```
//! # use fused_graph::prelude::*;
//! # #[fused_graph]
//! # fn scaled(x: &Tensor, w: &Tensor, alpha: f32) -> Tensor { gelu(alpha * matmul(x, w)) }
//! # fn main() -> fused_graph::Result<()> {
//! # let x = Tensor::ones([2, 4], DType::F32, &Device::cpu())?;
//! # let w = Tensor::ones([4, 3], DType::F32, &Device::cpu())?;
//! let mut call = scaled::bind(&x, &w, 0.5)?; // owns its result
//! call.launch()?;
//! let graph = call.capture()?;
//! x.copy_from(&Tensor::zeros([2, 4], DType::F32, &Device::cpu())?)?;
//! graph.replay()?;
//! assert_eq!(call.outputs().to_vec::<f32>()?, [0.0; 6]);
//! # Ok(())
//! # }
//! ```
//!
//! The rules of an annotated function are with [`macro@fused_graph`], the operations in [`ops`], devices in [`CudaDevice`] and [`Device`].
//! `docs/fusion.md` in the repository is the table of what goes into one kernel.

pub use fused_graph_core::assert_fused;
pub use fused_graph_core::backend::{Heuristics, Note, Options};
pub use fused_graph_core::dtype::{F8E4M3, F8E5M2, bf16, f16};
pub use fused_graph_core::explain::{Explain, Explained, KernelReport, PlanSource};
pub use fused_graph_core::ir::Graph;
pub use fused_graph_core::layout::{Dims, IntoDims};
pub use fused_graph_core::record::{Record, RecordedCall, Recorder};
pub use fused_graph_core::site::{Attr, Bound, BoundCall, Captured, Plan, Stats};
pub use fused_graph_core::store::{self, load_bundle};
pub use fused_graph_core::tensor::Tensor;
pub use fused_graph_core::trace::{Expr, ops};
pub use fused_graph_core::tune::{self, TuneOptions, TuneReport};
pub use fused_graph_core::{DType, Device, Element, Error, ErrorKind, Result};
#[cfg(feature = "cuda")]
pub use fused_graph_cudnn::bake;
#[cfg(feature = "cuda")]
pub use fused_graph_cudnn::{
    compile, cudarc,
    gpu::{CudaCaptured, CudaDevice, CudaTensor, CudaTensorView},
};
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
    pub use fused_graph_core::backend::{Heuristics, Note, Options};
    pub use fused_graph_core::site::{Call, Field, Inputs, KeyWriter, Meta, Site};
    pub use fused_graph_core::trace::Binding;
}
