//! From an operation graph to a plan: heuristics, filters, and the first configuration that builds.

use crate::descriptor::Descriptor;
use crate::log;
use crate::lower::{Binding, Lowered, Refusal};
use crate::target::Target;
use cudnn_sys::{Api, AttributeName, AttributeType, BehaviorNote, DescriptorType, HeurMode, KnobType, NumericalNote};
use fused_graph_core::backend::{Heuristics, Options};
use fused_graph_core::{Error, Result};
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
    /// Engine and knobs in words.
    pub engine: String,
    /// Its numerical notes in words.
    pub notes: Vec<String>,
    /// Milliseconds it took to find and build it.
    pub build_ms: f64,
    /// Engines that were offered and refused before it, with their reasons.
    pub refused: Vec<String>,
}

impl KernelPlan {
    /// The plan in cuDNN's own form, for exactly this version of cuDNN.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let name = AttributeName::EXECUTION_PLAN_JSON_REPRESENTATION;
        let size = self.descriptor.count(name, AttributeType::CHAR)?;
        self.descriptor.get::<u8>(name, size)
    }
}

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
struct Wanted<'a> {
    options: &'a Options,
    facts: Facts,
    /// Versions below 9.15 do not say which engine is cuBLASLt's; it is the first of matmuls.
    says_cublaslt: bool,
}

impl Wanted<'_> {
    /// Operands must not be rounded to TF32.
    fn exact(&self) -> bool {
        self.facts.f32_core && !self.options.tf32
    }
}

/// The first plan of the heuristics' offers that builds.
pub(crate) fn build(
    api: &'static Api,
    target: &Target,
    lowered: Lowered,
    options: &Options,
    facts: Facts,
) -> Result<KernelPlan, Refusal> {
    let start = Instant::now();
    let says_cublaslt = (api.version().major, api.version().minor) >= (9, 15);
    let wanted = Wanted { options, facts, says_cublaslt };
    let (found, messages) = log::collect(api, || search(api, target, &lowered, &wanted));
    let refusals = messages.iter().flat_map(|m| m.refusals()).collect();
    let mut reasons: Vec<String> = log::distinct(refusals).iter().map(|(r, _)| r.to_string()).collect();
    match found {
        Ok((descriptor, config)) => {
            let workspace = descriptor.get::<i64>(AttributeName::EXECUTION_PLAN_WORKSPACE_SIZE, 1)?;
            Ok(KernelPlan {
                descriptor,
                bindings: lowered.bindings,
                workspace: workspace.first().copied().unwrap_or(0).max(0) as u64,
                engine: config.name,
                notes: config.notes,
                build_ms: start.elapsed().as_secs_f64() * 1e3,
                refused: reasons,
            })
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

/// Engine, knobs and notes of a configuration.
struct Config {
    name: String,
    notes: Vec<String>,
}

fn search(
    api: &'static Api,
    target: &Target,
    lowered: &Lowered,
    wanted: &Wanted<'_>,
) -> Result<(Descriptor, Config), Vec<String>> {
    let mut reasons = Vec::new();
    for mode in wanted.options.heuristics {
        let configs = match offers(api, target, &lowered.graph, *mode) {
            Ok(configs) => configs,
            Err(e) => {
                reasons.push(e.message().to_owned());
                continue;
            }
        };
        for config in &configs {
            let described = match describe(config, wanted) {
                Ok(described) => described,
                Err(reason) => {
                    reasons.push(reason);
                    continue;
                }
            };
            match finish(api, target, config) {
                Ok(plan) => return Ok((plan, described)),
                Err(e) => reasons.push(format!("{}: {}", described.name, e.message())),
            }
        }
    }
    reasons.dedup();
    Err(reasons)
}

fn offers(api: &'static Api, target: &Target, graph: &Descriptor, mode: Heuristics) -> Result<Vec<Descriptor>> {
    let mode = match mode {
        Heuristics::A => HeurMode::A,
        Heuristics::B => HeurMode::B,
        Heuristics::Fallback => HeurMode::FALLBACK,
        Heuristics::Instant => HeurMode::INSTANT,
    };
    let heuristics = Descriptor::build(api, DescriptorType::ENGINEHEUR, |d| {
        d.set_descriptors(AttributeName::ENGINEHEUR_OPERATION_GRAPH, &[graph])?;
        d.set(AttributeName::ENGINEHEUR_MODE, &[mode])?;
        match target.properties() {
            Some(p) => d.set_descriptors(AttributeName::ENGINEHEUR_DEVICEPROP, &[p]),
            None => Ok(()),
        }
    })?;
    heuristics.get_descriptors(AttributeName::ENGINEHEUR_RESULTS, DescriptorType::ENGINECFG)
}

fn finish(api: &'static Api, target: &Target, config: &Descriptor) -> Result<Descriptor> {
    Descriptor::build(api, DescriptorType::EXECUTION_PLAN, |d| {
        d.set_descriptors(AttributeName::EXECUTION_PLAN_ENGINE_CONFIG, &[config])?;
        match (target.properties(), target.handle()) {
            (Some(p), _) => d.set_descriptors(AttributeName::EXECUTION_PLAN_DEVICEPROP, &[p]),
            (None, Some(handle)) => {
                d.set(AttributeName::EXECUTION_PLAN_HANDLE, &[crate::descriptor::HandleAttribute(handle)])
            }
            (None, None) => Ok(()),
        }
    })
}

/// Engine and knobs in words, or why the options rule them out.
fn describe(config: &Descriptor, wanted: &Wanted<'_>) -> Result<Config, String> {
    let engine = config.get_descriptors(AttributeName::ENGINECFG_ENGINE, DescriptorType::ENGINE);
    let engine = engine.map_err(|e| e.message().to_owned())?;
    let engine = engine.first().ok_or("a configuration without an engine")?;
    let index = engine.get::<i64>(AttributeName::ENGINE_GLOBAL_INDEX, 1).unwrap_or_default();
    let mut name = format!("engine {}", index.first().copied().unwrap_or(-1));
    for (knob, value) in knobs(config) {
        name += &format!(", {} {value}", knob.name().unwrap_or("knob").to_lowercase());
    }
    let notes = engine.get::<NumericalNote>(AttributeName::ENGINE_NUMERICAL_NOTE, 32).unwrap_or_default();
    let ruled_out = |note: NumericalNote| notes.contains(&note);
    if wanted.options.deterministic && ruled_out(NumericalNote::NONDETERMINISTIC) {
        return Err(format!("{name}: not deterministic, which `deterministic` asks for"));
    }
    if wanted.exact() && (ruled_out(NumericalNote::TENSOR_CORE) || ruled_out(NumericalNote::DOWN_CONVERT_INPUTS)) {
        return Err(format!("{name}: rounds F32 operands to TF32, which `tf32 = false` forbids"));
    }
    let behavior = engine.get::<BehaviorNote>(AttributeName::ENGINE_BEHAVIOR_NOTE, 32).unwrap_or_default();
    let first = index.first() == Some(&0);
    let cublaslt = behavior.contains(&BehaviorNote::CUBLASLT_DEPENDENCY)
        || (!wanted.says_cublaslt && wanted.facts.matmul && first);
    if cublaslt && !wanted.facts.aligned {
        // Builds, and then fails at the launch: cuDNN 9.14 and 9.19 on an H200, an operand 2 bytes behind a multiple of 16.
        return Err(format!("{name}: cuBLASLt fails on tensors that do not start at a multiple of 16 bytes"));
    }
    if cublaslt && wanted.facts.repeated && !wanted.says_cublaslt {
        // Builds, and then every batch but the first is wrong: cuDNN 9.14 on an H200; right with 9.19.
        return Err(format!("{name}: cuBLASLt repeats a batch wrongly below cuDNN 9.15"));
    }
    if let Some(limit) = wanted.options.workspace_limit {
        let size = config.get::<i64>(AttributeName::ENGINECFG_WORKSPACE_SIZE, 1).ok().and_then(|v| v.first().copied());
        if size.is_some_and(|size| size as u64 > limit) {
            return Err(format!("{name}: needs {} bytes of workspace, more than `workspace_limit`", size.unwrap_or(0)));
        }
    }
    Ok(Config { name, notes: notes.iter().map(|n| n.to_string()).collect() })
}

fn knobs(config: &Descriptor) -> Vec<(KnobType, i64)> {
    let choices = config.get_descriptors(AttributeName::ENGINECFG_KNOB_CHOICES, DescriptorType::KNOB_CHOICE);
    let one = |d: Descriptor| {
        let knob = d.get::<KnobType>(AttributeName::KNOB_CHOICE_KNOB_TYPE, 1).ok()?.first().copied()?;
        Some((knob, d.get::<i64>(AttributeName::KNOB_CHOICE_KNOB_VALUE, 1).ok()?.first().copied()?))
    };
    choices.unwrap_or_default().into_iter().filter_map(one).collect()
}

/// The error of a function that no kernel can run.
pub(crate) fn unsupported(what: &str, reasons: &[String]) -> Error {
    Error::unsupported(format!("{what}:\n  {}", reasons.join("\n  ")))
}
