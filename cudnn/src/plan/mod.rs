//! From an operation graph to a plan: heuristics, filters, and the first configuration that builds; or a plan that is remembered.

mod choice;
mod filter;
mod kernel_cache;
mod offer;
mod stored;

pub use choice::Choice;
pub(crate) use filter::{Facts, Wanted};
pub use kernel_cache::KernelCaches;
pub(crate) use offer::{Offer, offers};
pub use stored::{Answer, Known, KnownKernel, StoredPlan};

use crate::descriptor::{Descriptor, HandleAttribute};
use crate::log;
use crate::lower::{Binding, Lowered, Refusal};
use crate::target::Target;
use cudnn_sys::{Api, AttributeName, AttributeType, DescriptorType};
use fused_graph_core::ir::ValueId;
use fused_graph_core::{Error, Result};
use kernel_cache::{KernelCache, Shared};
use std::sync::PoisonError;
use std::time::Instant;

/// A plan that builds, with what it needs at launch.
#[derive(Debug)]
pub struct KernelPlan {
    /// The plan. Kept alive by whoever may still launch it.
    pub(crate) descriptor: Descriptor,
    /// What is behind its ids.
    pub bindings: Vec<Binding>,
    /// Bytes of workspace.
    pub workspace: u64,
    /// Engine and knobs.
    pub choice: Choice,
    /// The notes of its engine, in words.
    pub notes: Vec<String>,
    /// Milliseconds it took to find and build it, or to load it.
    pub build_ms: f64,
    /// Engines that were offered and refused before it, with their reasons.
    pub refused: Vec<String>,
    /// The order of its operations: see [`fuse::forms`](fused_graph_core::fuse::forms).
    pub form: u8,
    /// What its results must hold where it writes nothing.
    pub fills: Vec<Fill>,
    /// Built with kernels that other sizes share; true if its kernel was there already.
    pub shared: Option<bool>,
    /// Of the operation graph it was built from.
    pub(crate) fingerprint: u64,
    /// Whether it was made from bytes, without compiling.
    pub loaded: bool,
}

/// A result that a plan does not write in whole, and what is there otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fill {
    /// The result.
    pub value: ValueId,
    /// Its bytes.
    pub bytes: usize,
    /// Four of them: 0, or a number as F32.
    pub word: u32,
}

impl KernelPlan {
    /// The plan in cuDNN's own form, for exactly this version of cuDNN.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let name = AttributeName::EXECUTION_PLAN_JSON_REPRESENTATION;
        let size = self.descriptor.count(name, AttributeType::CHAR)?;
        self.descriptor.get::<u8>(name, size)
    }
}

/// The first plan of the heuristics' offers that builds.
pub(crate) fn build(
    api: &'static Api,
    target: &Target,
    lowered: Lowered,
    wanted: &Wanted<'_>,
    shared: Option<&KernelCache>,
) -> Result<KernelPlan, Refusal> {
    let start = Instant::now();
    let mut shared = shared.map(|cache| cache.lock().unwrap_or_else(PoisonError::into_inner));
    let (found, messages) = log::collect(api, || search(api, target, &lowered, wanted, shared.as_deref()));
    let refusals = messages.iter().flat_map(|m| m.refusals()).collect();
    let mut reasons: Vec<String> = log::distinct(refusals).iter().map(|(r, _)| r.to_string()).collect();
    match found {
        Ok((descriptor, offer, there)) => {
            let mut plan = of_offer(descriptor, &lowered, &offer, start)?;
            plan.refused = reasons;
            plan.shared = shared.is_some().then_some(there);
            if let Some(shared) = shared.as_mut().filter(|_| !there) {
                shared.choices.push(plan.choice.clone());
            }
            Ok(plan)
        }
        Err(own) => {
            reasons.extend(own);
            if reasons.is_empty() {
                reasons.push("no engine of this cuDNN offers itself for it".to_owned());
            }
            Err(Refusal::Unsupported(reasons))
        }
    }
}

fn search(
    api: &'static Api,
    target: &Target,
    lowered: &Lowered,
    wanted: &Wanted<'_>,
    shared: Option<&Shared>,
) -> Result<(Descriptor, Offer, bool), Vec<String>> {
    let mut reasons = Vec::new();
    let there = |offer: &Offer| shared.is_some_and(|s| kernel_cache::holds(&s.cache, &offer.config));
    let attempt = |offer: Offer| {
        if let Some(reason) = wanted.refuses(&offer) {
            return Err(reason);
        }
        let there = there(&offer);
        match finish(api, target, &offer, shared.map(|s| &s.cache)) {
            Ok(plan) => Ok((plan, offer, there)),
            Err(e) => Err(format!("{}: {}", offer.choice, e.message())),
        }
    };
    if let Some(text) = wanted.options.engine {
        let by_hand = text.parse().and_then(|choice| {
            Offer::by_hand(api, target, &lowered.graph, &choice, wanted.options.sm_count)
                .map_err(|e| e.context(format!("`engine = {text:?}`")))
        });
        return by_hand.map_err(|e| vec![e.message().to_owned()]).and_then(|o| attempt(o).map_err(|e| vec![e]));
    }
    // A kernel that is there is worth more than the heuristic's favourite: that is what the option is for.
    for choice in shared.iter().flat_map(|s| &s.choices) {
        let offer = Offer::by_hand(api, target, &lowered.graph, choice, wanted.options.sm_count);
        if let Some(Ok(found)) = offer.ok().filter(|offer| there(offer)).map(attempt) {
            return Ok(found);
        }
    }
    for mode in wanted.options.heuristics {
        match offers(api, target, &lowered.graph, *mode, wanted.options.sm_count) {
            Ok(offers) => {
                for offer in offers {
                    match attempt(offer) {
                        Ok(found) => return Ok(found),
                        Err(reason) => reasons.push(reason),
                    }
                }
            }
            Err(e) => reasons.push(e.message().to_owned()),
        }
    }
    reasons.dedup();
    Err(reasons)
}

/// The plan of one offer.
pub(crate) fn build_offer(api: &'static Api, target: &Target, lowered: &Lowered, offer: &Offer) -> Result<KernelPlan> {
    let start = Instant::now();
    of_offer(finish(api, target, offer, None)?, lowered, offer, start)
}

fn of_offer(descriptor: Descriptor, lowered: &Lowered, offer: &Offer, start: Instant) -> Result<KernelPlan> {
    Ok(KernelPlan {
        workspace: workspace(&descriptor)?,
        descriptor,
        bindings: lowered.bindings.clone(),
        choice: offer.choice.clone(),
        notes: offer.notes.iter().map(|n| n.to_string()).collect(),
        build_ms: start.elapsed().as_secs_f64() * 1e3,
        refused: Vec::new(),
        form: 0,
        fills: Vec::new(),
        shared: None,
        fingerprint: lowered.fingerprint,
        loaded: false,
    })
}

/// A plan from its bytes; nothing is compiled.
pub(crate) fn load(api: &'static Api, target: &Target, lowered: Lowered, stored: &StoredPlan) -> Result<KernelPlan> {
    let start = Instant::now();
    if stored.fingerprint != lowered.fingerprint {
        return Err(Error::cache("it was made of operations that are written otherwise now"));
    }
    let descriptor = Descriptor::build(api, DescriptorType::EXECUTION_PLAN, |d| {
        d.set(AttributeName::EXECUTION_PLAN_JSON_REPRESENTATION, &stored.json)?;
        set_target(d, target)
    })?;
    Ok(KernelPlan {
        workspace: workspace(&descriptor)?,
        descriptor,
        bindings: lowered.bindings,
        choice: stored.choice.clone(),
        notes: stored.notes.clone(),
        build_ms: start.elapsed().as_secs_f64() * 1e3,
        refused: stored.refused.clone(),
        form: stored.form,
        fills: Vec::new(),
        shared: None,
        fingerprint: stored.fingerprint,
        loaded: true,
    })
}

fn finish(api: &'static Api, target: &Target, offer: &Offer, shared: Option<&Descriptor>) -> Result<Descriptor> {
    Descriptor::build(api, DescriptorType::EXECUTION_PLAN, |d| {
        d.set_descriptors(AttributeName::EXECUTION_PLAN_ENGINE_CONFIG, &[&offer.config])?;
        if let Some(cache) = shared {
            d.set_descriptors(AttributeName::EXECUTION_PLAN_KERNEL_CACHE, &[cache])?;
        }
        set_target(d, target)
    })
}

fn set_target(d: &mut Descriptor, target: &Target) -> Result<()> {
    match (target.properties(), target.handle()) {
        (Some(p), _) => d.set_descriptors(AttributeName::EXECUTION_PLAN_DEVICEPROP, &[p]),
        (None, Some(handle)) => d.set(AttributeName::EXECUTION_PLAN_HANDLE, &[HandleAttribute(handle)]),
        (None, None) => Ok(()),
    }
}

fn workspace(plan: &Descriptor) -> Result<u64> {
    let bytes = plan.get::<i64>(AttributeName::EXECUTION_PLAN_WORKSPACE_SIZE, 1)?;
    Ok(bytes.first().copied().unwrap_or(0).max(0) as u64)
}

/// The error of a function that no kernel can run.
pub(crate) fn unsupported(what: &str, reasons: &[String]) -> Error {
    Error::unsupported(format!("{what}:\n  {}", reasons.join("\n  ")))
}
