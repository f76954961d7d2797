//! The cuDNN backend of fused-graph.

// The crate is the boundary to C libraries; `undocumented_unsafe_blocks` stays denied.
#![allow(unsafe_code)]

mod aot;
pub mod bake;
pub mod compile;
mod context;
mod descriptor;
mod error;
pub mod gpu;
pub mod jit;
pub mod library;
pub mod log;
pub mod lower;
pub mod plan;
pub mod target;

pub use cudarc;
