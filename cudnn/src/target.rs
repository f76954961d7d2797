//! What a plan is for: the GPU of a handle, or a GPU that is elsewhere, known by its properties.

use crate::descriptor::Descriptor;
use cudnn_sys::{self as sys, Api, AttributeName, DescriptorType};
use fused_graph_core::{Error, Result};

/// GPUs whose properties are built in: name and properties as cuDNN's JSON.
const KNOWN: &[(&str, &str)] = &[
    ("h200", include_str!("../../fixtures/device-properties/h200.json")),
    ("a100", include_str!("../../fixtures/device-properties/a100.json")),
    ("rtx4090", include_str!("../../fixtures/device-properties/rtx4090.json")),
    ("b200", include_str!("../../fixtures/device-properties/b200.json")),
];

/// What a plan is for.
#[derive(Debug)]
pub struct Target {
    kind: Kind,
    sm: u32,
}

#[derive(Debug)]
enum Kind {
    Live(Handle),
    Properties(Descriptor),
}

/// A handle that outlives the building of a plan.
#[derive(Debug, Clone, Copy)]
struct Handle(sys::Handle);

// SAFETY: the handle belongs to the thread that builds; it is only passed on to cuDNN by that thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Target {
    /// The GPU of a handle, which must live as long as the target is used, and be used by this thread alone meanwhile.
    pub(crate) fn live(handle: sys::Handle, sm: u32) -> Target {
        Target { kind: Kind::Live(Handle(handle)), sm }
    }

    /// A GPU by its properties, as cuDNN's device-property descriptor serializes them.
    pub(crate) fn from_properties(api: &'static Api, json: &str) -> Result<Target> {
        let properties = Descriptor::build(api, DescriptorType::DEVICEPROP, |d| {
            d.set(AttributeName::DEVICEPROP_JSON_REPRESENTATION, json.as_bytes())
        });
        let properties = properties.map_err(|e| e.context("cuDNN does not take these device properties"))?;
        let sm = sm_of(json).ok_or_else(|| Error::argument("the device properties have no \"deviceVer\""))?;
        Ok(Target { kind: Kind::Properties(properties), sm })
    }

    /// A GPU of the built-in table.
    pub(crate) fn named(api: &'static Api, name: &str) -> Result<Target> {
        let known = KNOWN.iter().find(|(known, _)| *known == name);
        let json = known.map(|(_, json)| *json).ok_or_else(|| {
            let names: Vec<&str> = KNOWN.iter().map(|(name, _)| *name).collect();
            Error::argument(format!("no GPU is known as {name:?}; known are {}", names.join(", ")))
        })?;
        Self::from_properties(api, json)
    }

    /// A GPU by its name in the built-in table or by its properties.
    pub(crate) fn of(api: &'static Api, gpu: &str) -> Result<Target> {
        if gpu.trim_start().starts_with('{') { Self::from_properties(api, gpu) } else { Self::named(api, gpu) }
    }

    /// Compute capability × 10: 90 for an H200.
    pub fn sm(&self) -> u32 {
        self.sm
    }

    pub(crate) fn handle(&self) -> Option<sys::Handle> {
        match &self.kind {
            Kind::Live(handle) => Some(handle.0),
            Kind::Properties(_) => None,
        }
    }

    pub(crate) fn properties(&self) -> Option<&Descriptor> {
        match &self.kind {
            Kind::Live(_) => None,
            Kind::Properties(p) => Some(p),
        }
    }
}

/// `"deviceVer": 900` of the properties is compute capability 9.0.
fn sm_of(json: &str) -> Option<u32> {
    let (_, rest) = json.split_once("\"deviceVer\"")?;
    let digits: String = rest.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    Some(digits.parse::<u32>().ok()? / 10)
}
