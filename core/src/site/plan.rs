//! A finished plan as a value.

use super::cache::Entry;
use crate::backend::Executable;
use crate::error::Result;
use crate::explain::{Explain, PlanSource};
use crate::ir::Graph;
use std::fmt;
use std::sync::Arc;

/// The plan of a function for one signature. Holds it, also when the function forgets or evicts it.
#[derive(Clone)]
pub struct Plan {
    entry: Arc<Entry>,
    source: PlanSource,
}

impl Plan {
    pub(crate) fn new(entry: Arc<Entry>, source: PlanSource) -> Plan {
        Plan { entry, source }
    }

    /// What became of the function for this signature.
    pub fn explain(&self) -> Explain {
        Explain { source: self.source, ..self.entry.executable.explain() }
    }

    /// The traced graph.
    pub fn graph(&self) -> &Graph {
        &self.entry.graph
    }

    /// The number of kernels of one call.
    pub fn kernels(&self) -> usize {
        self.explain().kernels.len()
    }

    /// The plan for another process with the same GPU and the same version of cuDNN, which makes it its own with `load`.
    ///
    /// On the CPU there is nothing to spare: the bytes then hold the key alone, so that the same program works there.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.entry.stored()?.to_bytes()
    }

    /// What runs it.
    pub fn executable(&self) -> &Arc<dyn Executable> {
        &self.entry.executable
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan of `{}` in {} kernel(s)", self.entry.graph.name(), self.kernels())
    }
}
