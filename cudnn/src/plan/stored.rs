//! What is remembered of the kernels of a graph, so that another process compiles nothing.

use super::{Choice, KernelPlan};
use fused_graph_core::fuse::Group;
use fused_graph_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// The answers of cuDNN and NVRTC for one graph on one GPU: the payload of a stored plan.
///
/// The division into kernels is made anew from the graph, which is cheap and always the same; what takes time is remembered by the operations
/// that it is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// Kernels that cuDNN was asked for.
    pub kernels: Vec<KnownKernel>,
    /// Sources of our own kernels with their compiled code.
    pub code: Vec<(String, Vec<u8>)>,
    /// Whether the engines were chosen by timing them.
    pub tuned: bool,
}

/// The answer for one kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownKernel {
    /// Its operations, by their numbers in the graph.
    pub nodes: Vec<u32>,
    /// What cuDNN makes of them.
    pub answer: Answer,
}

/// A plan, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// A plan.
    Plan(StoredPlan),
    /// No engine takes it.
    Refused(Vec<String>),
    /// Takes longer than its parts: what tuning measured, in words.
    Slower(String),
}

/// A plan in cuDNN's own form, with what explains it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredPlan {
    /// Engine and knobs.
    pub choice: Choice,
    /// Its notes in words.
    pub notes: Vec<String>,
    /// Engines that declined before it.
    pub refused: Vec<String>,
    /// The order of its operations: see [`fuse::forms`](fused_graph_core::fuse::forms).
    pub form: u8,
    /// Whether its graph was one for any size.
    pub dynamic: bool,
    /// Of the operation graph it was built from, as this version of the lowering writes it.
    pub fingerprint: u64,
    /// cuDNN's form.
    pub json: Vec<u8>,
}

impl Known {
    /// As bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        postcard::to_stdvec(self).map_err(|e| Error::cache(format!("a plan cannot be written: {e}")))
    }

    /// From bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Known> {
        postcard::from_bytes(bytes).map_err(|e| Error::cache(format!("these bytes are no plan of this version: {e}")))
    }

    /// What is known of a group.
    pub(crate) fn answer(&self, group: &Group) -> Option<&Answer> {
        let same = |k: &&KnownKernel| k.nodes.iter().copied().eq(group.nodes.iter().map(|n| n.index() as u32));
        self.kernels.iter().find(same).map(|k| &k.answer)
    }

    /// The compiled code of a source.
    pub(crate) fn code(&self, source: &str) -> Option<&[u8]> {
        self.code.iter().find(|(known, _)| known == source).map(|(_, code)| code.as_slice())
    }
}

impl KnownKernel {
    pub(crate) fn new(group: &Group, answer: Answer) -> Self {
        KnownKernel { nodes: group.nodes.iter().map(|n| n.index() as u32).collect(), answer }
    }
}

impl StoredPlan {
    pub(crate) fn of(plan: &KernelPlan) -> Result<StoredPlan> {
        Ok(StoredPlan {
            choice: plan.choice.clone(),
            notes: plan.notes.clone(),
            refused: plan.refused.clone(),
            form: plan.form,
            dynamic: plan.shared.is_some(),
            fingerprint: plan.fingerprint,
            json: plan.to_bytes()?,
        })
    }
}
