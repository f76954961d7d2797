//! The CPU backend: the oracle, and the fast path that is compared with it.
//!
//! A graph is divided into the same kernels as for cuDNN (`fuse`). Each runs as one pass over its elements on all threads: tiles of the core operation
//! (`gemm`, by `conv` or `matmul`), and on each tile, while it is in cache, the pointwise `program` and the reductions that follow.

mod attention;
mod bound;
mod conv;
mod exec;
mod gemm;
mod generic;
mod lower;
mod math;
mod matmul;
pub mod oracle;
mod pool;
mod program;
mod real;
mod reduce;
mod registers;
mod rows;
mod run;
mod simd;
mod space;
#[cfg(test)]
mod tests;
mod tune;

pub(crate) use bound::capture;
pub use exec::compile;
use run::parallel;
pub use tune::tune;
