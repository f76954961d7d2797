//! Graph, inference, fusion and the CPU backend of fused-graph; no CUDA in its tree.

pub mod dtype;
pub mod error;
pub mod infer;
pub mod ir;
pub mod layout;

pub use dtype::{DType, Element};
pub use error::{Error, ErrorKind, Result};
