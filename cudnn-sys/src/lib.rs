//! The cuDNN graph API, loaded at run time.
//!
//! Nothing of CUDA is needed to build this crate. [`Api`] holds the functions of a cuDNN 9 library that its caller
//! found; the codes that they take and give are newtypes over integers, so one that a newer cuDNN adds is a value like
//! any other. Finding the library is the business of `fused-graph-cudnn`.
//!
//! cuDNN's header `cudnn_graph.h` documents every descriptor, attribute and value type in its comments; it comes with
//! the wheel `nvidia-cudnn-cu13`.

// The crate is the boundary to a C library; `undocumented_unsafe_blocks` stays denied.
#![allow(unsafe_code)]

mod api;
mod codes;
mod types;
mod version;

pub use api::{Api, MissingFunction};
pub use codes::*;
pub use libloading::Library;
pub use types::{Callback, CudaGraph, DebugInfo, Descriptor, Fraction, Handle, Stream};
pub use version::Version;
