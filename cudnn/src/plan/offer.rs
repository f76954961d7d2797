//! What cuDNN offers to run a graph: engine configurations.

use super::Choice;
use crate::descriptor::Descriptor;
use crate::target::Target;
use cudnn_sys::{Api, AttributeName, BehaviorNote, DescriptorType, HeurMode, KnobType, NumericalNote};
use fused_graph_core::backend::{Heuristics, Note};
use fused_graph_core::{Error, Result};

/// More knobs than any engine has, and more notes.
const MANY: usize = 64;

/// An engine configuration and what it says of itself. Reading it compiles nothing.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(super) config: Descriptor,
    pub(crate) choice: Choice,
    pub(crate) notes: Vec<Note>,
    /// Bytes, where it says so.
    pub(crate) workspace: Option<u64>,
}

/// The offers of a heuristic, best first.
pub(crate) fn offers(
    api: &'static Api,
    target: &Target,
    graph: &Descriptor,
    mode: Heuristics,
    sm_count: Option<u32>,
) -> Result<Vec<Offer>> {
    let mode = match mode {
        Heuristics::A => HeurMode::A,
        Heuristics::B => HeurMode::B,
        Heuristics::Fallback => HeurMode::FALLBACK,
        Heuristics::Instant => HeurMode::INSTANT,
    };
    let heuristics = Descriptor::build(api, DescriptorType::ENGINEHEUR, |d| {
        d.set_descriptors(AttributeName::ENGINEHEUR_OPERATION_GRAPH, &[graph])?;
        d.set(AttributeName::ENGINEHEUR_MODE, &[mode])?;
        if let Some(count) = sm_count {
            d.set(AttributeName::ENGINEHEUR_SM_COUNT_TARGET, &[count as i32])?;
        }
        match target.properties() {
            Some(p) => d.set_descriptors(AttributeName::ENGINEHEUR_DEVICEPROP, &[p]),
            None => Ok(()),
        }
    })?;
    let configs = heuristics.get_descriptors(AttributeName::ENGINEHEUR_RESULTS, DescriptorType::ENGINECFG)?;
    configs.into_iter().map(Offer::read).collect()
}

impl Offer {
    fn read(config: Descriptor) -> Result<Offer> {
        let engines = config.get_descriptors(AttributeName::ENGINECFG_ENGINE, DescriptorType::ENGINE)?;
        let engine = engines.first().ok_or_else(|| Error::cudnn("a configuration without an engine"))?;
        let index = engine.get::<i64>(AttributeName::ENGINE_GLOBAL_INDEX, 1).unwrap_or_default();
        let choice = Choice { engine: index.first().copied().unwrap_or(-1), knobs: knobs(&config) };
        let notes = notes(engine);
        let workspace = config.get::<i64>(AttributeName::ENGINECFG_WORKSPACE_SIZE, 1).ok();
        let workspace = workspace.and_then(|v| v.first().map(|&bytes| bytes.max(0) as u64));
        Ok(Offer { config, choice, notes, workspace })
    }

    /// A configuration by hand. That it can be made does not say that a plan of it builds.
    pub(crate) fn by_hand(
        api: &'static Api,
        target: &Target,
        graph: &Descriptor,
        choice: &Choice,
        sm_count: Option<u32>,
    ) -> Result<Offer> {
        let engine = Descriptor::build(api, DescriptorType::ENGINE, |d| {
            d.set_descriptors(AttributeName::ENGINE_OPERATION_GRAPH, &[graph])?;
            d.set(AttributeName::ENGINE_GLOBAL_INDEX, &[choice.engine])?;
            if let Some(count) = sm_count {
                d.set(AttributeName::ENGINE_SM_COUNT_TARGET, &[count as i32])?;
            }
            match target.properties() {
                Some(p) => d.set_descriptors(AttributeName::ENGINE_DEVICEPROP, &[p]),
                None => Ok(()),
            }
        })?;
        let knob = |&(knob, value): &(i32, i64)| {
            Descriptor::build(api, DescriptorType::KNOB_CHOICE, |d| {
                d.set(AttributeName::KNOB_CHOICE_KNOB_TYPE, &[KnobType(knob)])?;
                d.set(AttributeName::KNOB_CHOICE_KNOB_VALUE, &[value])
            })
        };
        let knobs = choice.knobs.iter().map(knob).collect::<Result<Vec<_>>>()?;
        let config = Descriptor::build(api, DescriptorType::ENGINECFG, |d| {
            d.set_descriptors(AttributeName::ENGINECFG_ENGINE, &[&engine])?;
            let knobs: Vec<&Descriptor> = knobs.iter().collect();
            if knobs.is_empty() { Ok(()) } else { d.set_descriptors(AttributeName::ENGINECFG_KNOB_CHOICES, &knobs) }
        })?;
        let workspace = config.get::<i64>(AttributeName::ENGINECFG_WORKSPACE_SIZE, 1).ok();
        let workspace = workspace.and_then(|v| v.first().map(|&bytes| bytes.max(0) as u64));
        Ok(Offer { config, choice: choice.clone(), notes: notes(&engine), workspace })
    }
}

/// Asked how many there are, cuDNN says none; it has to be given room.
fn knobs(config: &Descriptor) -> Vec<(i32, i64)> {
    let name = AttributeName::ENGINECFG_KNOB_CHOICES;
    let choices = config.get_descriptors_up_to(name, DescriptorType::KNOB_CHOICE, MANY);
    let one = |d: Descriptor| {
        let knob = d.get::<KnobType>(AttributeName::KNOB_CHOICE_KNOB_TYPE, 1).ok()?.first().copied()?;
        Some((knob.0, d.get::<i64>(AttributeName::KNOB_CHOICE_KNOB_VALUE, 1).ok()?.first().copied()?))
    };
    choices.unwrap_or_default().into_iter().filter_map(one).collect()
}

fn notes(engine: &Descriptor) -> Vec<Note> {
    let numerical = engine.get::<NumericalNote>(AttributeName::ENGINE_NUMERICAL_NOTE, MANY).unwrap_or_default();
    let behavior = engine.get::<BehaviorNote>(AttributeName::ENGINE_BEHAVIOR_NOTE, MANY).unwrap_or_default();
    let of_numerical = numerical.into_iter().filter_map(|note| {
        Some(match note {
            NumericalNote::TENSOR_CORE => Note::TensorCore,
            NumericalNote::DOWN_CONVERT_INPUTS => Note::DownConvert,
            NumericalNote::REDUCED_PRECISION_REDUCTION => Note::ReducedPrecisionReduction,
            NumericalNote::NONDETERMINISTIC => Note::Nondeterministic,
            NumericalNote::FFT => Note::Fft,
            NumericalNote::WINOGRAD => Note::Winograd,
            _ => return None,
        })
    });
    let of_behavior = behavior.into_iter().filter_map(|note| {
        Some(match note {
            BehaviorNote::RUNTIME_COMPILATION => Note::RuntimeCompilation,
            BehaviorNote::SUPPORTS_CUDA_GRAPH_NATIVE_API => Note::CudaGraphNative,
            BehaviorNote::CUBLASLT_DEPENDENCY => Note::CublasLt,
            _ => return None,
        })
    });
    of_numerical.chain(of_behavior).collect()
}
