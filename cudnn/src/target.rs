//! What a plan is for: the GPU of a handle, or a GPU that is elsewhere, known by its properties.

use crate::descriptor::Descriptor;
use cudnn_sys::{self as sys, Api, AttributeName, DescriptorType};
use fused_graph_core::backend::Identity;
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
        let (_, sm, _) = read(json)?;
        Ok(Target { kind: Kind::Properties(properties), sm })
    }

    /// What stored plans for a GPU are known by, live or elsewhere.
    pub(crate) fn identity(name: &str, sm: u32, multiprocessors: u32, api: &Api) -> Identity {
        let device = format!("{name}, sm_{sm}, {multiprocessors} SMs");
        Identity { device, library: Identity::with_own_version(&format!("cuDNN {}", api.version())) }
    }

    /// The same of a GPU that is elsewhere.
    pub fn identity_of(api: &Api, gpu: &str) -> Result<Identity> {
        let (name, sm, multiprocessors) = read(Self::json(gpu)?)?;
        Ok(Self::identity(&name, sm, multiprocessors, api))
    }

    /// The names of the built-in table.
    pub fn known() -> impl Iterator<Item = &'static str> {
        KNOWN.iter().map(|(name, _)| *name)
    }

    fn json(gpu: &str) -> Result<&str> {
        if gpu.trim_start().starts_with('{') {
            return Ok(gpu);
        }
        KNOWN.iter().find(|(known, _)| *known == gpu).map(|(_, json)| *json).ok_or_else(|| {
            let names: Vec<&str> = Self::known().collect();
            Error::argument(format!("no GPU is known as {gpu:?}; known are {}", names.join(", ")))
        })
    }

    /// A GPU by its name in the built-in table or by its properties.
    pub(crate) fn of(api: &'static Api, gpu: &str) -> Result<Target> {
        Self::from_properties(api, Self::json(gpu)?)
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

/// Name, compute capability × 10 (`"deviceVer": 900` is 9.0) and number of multiprocessors.
fn read(json: &str) -> Result<(String, u32, u32)> {
    let json: serde_json::Value =
        serde_json::from_str(json).map_err(|e| Error::argument(format!("device properties that are no JSON: {e}")))?;
    let number = |key: &str| {
        let number = json.get(key).and_then(|v| v.as_u64()).and_then(|v| u32::try_from(v).ok());
        number.ok_or_else(|| Error::argument(format!("the device properties have no number \"{key}\"")))
    };
    let name = json.get("deviceName").and_then(|v| v.as_str()).unwrap_or("GPU").to_owned();
    Ok((name, number("deviceVer")? / 10, number("multiProcessorCount")?))
}
