//! The CPU backend: the oracle, and the fast path that is compared with it.

pub mod oracle;

use crate::backend::{CompileRequest, Executable};
use crate::error::{Error, Result};
use std::sync::Arc;

/// Turns a graph into something that runs on this CPU.
pub fn compile(_request: &CompileRequest<'_>) -> Result<Arc<dyn Executable>> {
    Err(Error::unsupported("the CPU backend has not landed yet"))
}
