//! Graph, inference, fusion and the CPU backend of fused-graph; no CUDA in its tree.

pub mod backend;
pub mod cpu;
pub mod device;
pub mod dtype;
pub mod error;
pub mod explain;
pub mod fuse;
pub mod infer;
pub mod ir;
pub mod layout;
pub mod options;
pub mod record;
pub mod site;
pub mod store;
pub mod tensor;
pub mod trace;
pub mod tune;
pub mod verify;

pub use device::Device;
pub use dtype::{DType, Element};
pub use error::{Error, ErrorKind, Result};
pub use explain::Explain;
pub use tensor::Tensor;
