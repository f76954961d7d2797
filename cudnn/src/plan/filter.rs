//! Which offers are taken: what the options ask for, and what is known to go wrong.

use super::Offer;
use cudnn_sys::Api;
use fused_graph_core::backend::{Note, Options};

/// What is known of a kernel that decides which engines may run it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    /// Its core is a matmul.
    pub(crate) matmul: bool,
    /// The core reads F32 operands.
    pub(crate) f32_core: bool,
    /// Every tensor starts at a multiple of 16 bytes.
    pub(crate) aligned: bool,
    /// One operand of the matmul has no batch and is repeated.
    pub(crate) repeated: bool,
}

/// What the filters ask of an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(super) options: &'a Options,
    facts: Facts,
    /// Versions below 9.15 do not say which engine is cuBLASLt's; it is the first of matmuls.
    says_cublaslt: bool,
}

impl<'a> Wanted<'a> {
    pub(crate) fn new(api: &Api, options: &'a Options, facts: Facts) -> Self {
        let says_cublaslt = (api.version().major, api.version().minor) >= (9, 15);
        Wanted { options, facts, says_cublaslt }
    }

    /// Why an offer is not taken.
    pub(crate) fn refuses(&self, offer: &Offer) -> Option<String> {
        let because = |reason: String| Some(format!("{}: {reason}", offer.choice));
        let has = |note: Note| offer.notes.contains(&note);
        let (options, engine) = (self.options, offer.choice.engine);
        if !options.engines.is_empty() && !options.engines.contains(&engine) {
            return because(format!("not among `engines = {:?}`", options.engines));
        }
        if options.deny_engines.contains(&engine) {
            return because("ruled out by `deny_engines`".to_owned());
        }
        if let Some(note) = options.require.iter().find(|note| !has(**note)) {
            return because(format!("does not have `{note}`, which `require` asks for"));
        }
        if let Some(note) = options.deny.iter().find(|note| has(**note)) {
            return because(format!("has `{note}`, which `deny` rules out"));
        }
        if options.deterministic && has(Note::Nondeterministic) {
            return because("not deterministic, which `deterministic` asks for".to_owned());
        }
        if self.facts.f32_core && !options.tf32 && (has(Note::TensorCore) || has(Note::DownConvert)) {
            return because("rounds F32 operands to TF32, which `tf32 = false` forbids".to_owned());
        }
        if let (Some(limit), Some(size)) = (options.workspace_limit, offer.workspace)
            && size > limit
        {
            return because(format!("needs {size} bytes of workspace, more than `workspace_limit`"));
        }
        self.known_faults(offer).and_then(|fault| because(fault.to_owned()))
    }

    /// Engines that build and then do wrong: measured on an H200.
    fn known_faults(&self, offer: &Offer) -> Option<&'static str> {
        let first_of_matmuls = self.facts.matmul && offer.choice.engine == 0;
        let cublaslt = offer.notes.contains(&Note::CublasLt) || (!self.says_cublaslt && first_of_matmuls);
        if cublaslt && !self.facts.aligned {
            // The launch fails with cuDNN 9.14 and 9.19, an operand 2 bytes behind a multiple of 16.
            return Some("cuBLASLt fails on tensors that do not start at a multiple of 16 bytes");
        }
        if cublaslt && self.facts.repeated && !self.says_cublaslt {
            // Every batch but the first is wrong with cuDNN 9.14; right with 9.19.
            return Some("cuBLASLt repeats a batch wrongly below cuDNN 9.15");
        }
        None
    }
}
