//! What can be wrong with a machine's libraries, and the one step that helps against each.

use std::fmt;
use std::path::PathBuf;

use cudnn_sys::Version;
use fused_graph_core::Error;

use super::report::{LibraryReport, Tried};

/// The first thing that is wrong.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// There is no `libcudnn.so.9`.
    NoCudnn,
    /// The user named a folder without one.
    NotInNamedFolder { named: String },
    /// The user named a folder, but the process has another cuDNN open.
    AnotherIsLoaded { named: String, loaded: PathBuf },
    /// A file of that name that is not cuDNN 9.
    NotCudnn { path: PathBuf, reason: String },
    /// A cuDNN that does not build plans without a GPU.
    TooOldForPlanning { version: Version },
    /// A sub-library is not there.
    PartMissing { part: String, folder: PathBuf },
    /// A sub-library does not load.
    PartUnusable { part: String, reason: String },
    /// A sub-library is of another version.
    Mixed { part: String, version: Option<Version>, reason: String },
    /// `libnvrtc` is not there.
    NoNvrtc { name: String, version: Version, tried: Vec<Tried> },
    /// `libnvrtc-builtins` is not there.
    NoBuiltins { name: String, nvrtc: String, reason: String },
    /// `libcublasLt` is not there.
    NoCublasLt { name: String, tried: Vec<Tried> },
    /// There is no driver.
    NoDriver { reasons: Vec<String> },
    /// The driver is for an older CUDA than cuDNN is.
    OldDriver { driver: Version, cudnn: Version, cuda: Version },
    /// The driver sees no GPU.
    NoDevice { hidden_by: Option<String> },
    /// The driver does not start.
    DriverFails { error: String },
    /// The stand-in for the driver does not load.
    NoStandIn { reason: String },
}

/// The name of a wheel for a major version of CUDA.
fn wheel(library: &str, cuda: u32) -> String {
    match (library, cuda) {
        // From CUDA 13 on, the toolkit's wheels carry no suffix; cuDNN's always do.
        ("cudnn", cuda) => format!("nvidia-cudnn-cu{cuda}"),
        (library, 13..) => format!("nvidia-{library}"),
        (library, cuda) => format!("nvidia-{library}-cu{cuda}"),
    }
}

fn list(tried: &[Tried]) -> String {
    tried.iter().map(|tried| format!("\n    {tried}")).collect()
}

impl Fault {
    /// The error, with what is known of the machine.
    pub(super) fn error(&self, report: &LibraryReport) -> Error {
        Error::environment(format!("{self}\n  {}\n  what was found:\n{}", self.step(report), indent(report)))
    }

    /// The one step that helps.
    fn step(&self, report: &LibraryReport) -> String {
        let cuda = report.cudart.map_or(report.cuda_of_driver(), |cuda| cuda.major);
        let install = |libraries: &[&str]| {
            let wheels: Vec<String> = libraries.iter().map(|library| wheel(library, cuda)).collect();
            format!("pip install {}", wheels.join(" "))
        };
        match self {
            Self::NoCudnn => format!(
                "to do: {}, or set FUSED_GRAPH_CUDNN_DIR to the folder that holds libcudnn.so.9",
                install(&["cudnn", "cuda-nvrtc"])
            ),
            Self::NotInNamedFolder { .. } => {
                "to do: set FUSED_GRAPH_CUDNN_DIR to the folder that holds libcudnn.so.9, or unset it to search"
                    .to_owned()
            }
            Self::AnotherIsLoaded { .. } => {
                "to do: unset FUSED_GRAPH_CUDNN_DIR, so that the loaded one is used".to_owned()
            }
            Self::PartUnusable { reason, .. } if reason.contains("cannot open shared object file") => {
                "to do: install the library that the reason names".to_owned()
            }
            Self::NotCudnn { .. } | Self::PartMissing { .. } | Self::PartUnusable { .. } | Self::Mixed { .. } => {
                format!("to do: reinstall cuDNN as a whole, as by: {} --force-reinstall", install(&["cudnn"]))
            }
            Self::TooOldForPlanning { .. } => format!("to do: {} --upgrade", install(&["cudnn"])),
            Self::NoNvrtc { .. } => format!("to do: {}", install(&["cuda-nvrtc"])),
            Self::NoBuiltins { .. } => format!("to do: {} --force-reinstall", install(&["cuda-nvrtc"])),
            Self::NoCublasLt { .. } => format!("to do: {}", install(&["cublas"])),
            Self::NoDriver { .. } => {
                "to do: install NVIDIA's driver for the GPU (in a container: start it with --gpus all)".to_owned()
            }
            Self::OldDriver { .. } => self.step_for_old_driver(report),
            Self::NoDevice { hidden_by: Some(_) } => "to do: unset CUDA_VISIBLE_DEVICES".to_owned(),
            Self::NoDevice { hidden_by: None } => {
                "to do: check that nvidia-smi lists a GPU (in a container: start it with --gpus all)".to_owned()
            }
            Self::DriverFails { .. } => "to do: check that nvidia-smi works, and restart the machine if not".to_owned(),
            Self::NoStandIn { .. } => "to do: build the plan on a machine with a CUDA driver".to_owned(),
        }
    }

    fn step_for_old_driver(&self, report: &LibraryReport) -> String {
        let driver = report.cuda_of_driver();
        let minimum = match report.cudart.map_or(13, |cuda| cuda.major) {
            13 => "580 or newer",
            12 => "525 or newer",
            _ => "of this CUDA version or newer",
        };
        let (cudnn, nvrtc) = (wheel("cudnn", driver), wheel("cuda-nvrtc", driver));
        format!("to do: update the driver to {minimum}, or use the build for it: pip install {cudnn} {nvrtc}")
    }
}

impl LibraryReport {
    /// The CUDA to advise for: the driver's, or the newest where there is none.
    fn cuda_of_driver(&self) -> u32 {
        const NEWEST: u32 = 13;
        match &self.driver {
            super::DriverReport::Found { version, .. } => version.major.min(NEWEST),
            super::DriverReport::Missing(_) => NEWEST,
        }
    }
}

fn indent(report: &LibraryReport) -> String {
    report.to_string().lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCudnn => write!(f, "cuDNN 9 was not found on this machine"),
            Self::NotInNamedFolder { named } => write!(f, "{named} holds no libcudnn.so.9 that loads"),
            Self::AnotherIsLoaded { named, loaded } => write!(
                f,
                "{named}, but this process has already loaded {}, and two versions of cuDNN in one process are not possible",
                loaded.display()
            ),
            Self::NotCudnn { path, reason } => write!(f, "{} is not a usable cuDNN 9: {reason}", path.display()),
            Self::TooOldForPlanning { version } => {
                write!(f, "plans without a GPU need cuDNN 9.8 or newer, and this is {version}")
            }
            Self::PartMissing { part, folder } => {
                write!(f, "cuDNN is incomplete: its sub-library {part} is neither in {} nor ", folder.display())?;
                write!(f, "found by the loader")
            }
            Self::PartUnusable { part, reason } => write!(f, "cuDNN's sub-library {part} does not load: {reason}"),
            Self::Mixed { part, version, reason } => {
                write!(f, "cuDNN's libraries are of different versions: {part} does not belong to ")?;
                match version {
                    Some(version) => write!(f, "{version} ({reason})"),
                    None => write!(f, "the others ({reason})"),
                }
            }
            Self::NoNvrtc { name, version, tried } => {
                write!(f, "cuDNN {version} compiles its fused kernels with nvrtc, but {name} was not found; ")?;
                write!(f, "looked in:{}", list(tried))
            }
            Self::NoBuiltins { name, nvrtc, reason } => {
                write!(f, "nvrtc is incomplete: {nvrtc} needs {name}, which does not load: {reason}")
            }
            Self::NoCublasLt { name, tried } => {
                write!(f, "cuDNN needs cuBLASLt, but {name} was not found; looked in:{}", list(tried))
            }
            Self::NoDriver { reasons } => {
                write!(f, "there is no CUDA driver on this machine: {}", reasons.join("; "))
            }
            Self::OldDriver { driver, cudnn, cuda } => write!(
                f,
                "the CUDA driver is too old: it runs CUDA up to {}.{}, and cuDNN {cudnn} is built for CUDA {}",
                driver.major, driver.minor, cuda.major
            ),
            Self::NoDevice { hidden_by: None } => write!(f, "the CUDA driver is there, but sees no GPU"),
            Self::NoDevice { hidden_by: Some(value) } => {
                write!(f, "the CUDA driver offers no GPU: CUDA_VISIBLE_DEVICES is {value:?}")
            }
            Self::DriverFails { error } => write!(f, "the CUDA driver does not start: {error}"),
            Self::NoStandIn { reason } => {
                write!(f, "there is no CUDA driver, and the stand-in for it does not load: {reason}")
            }
        }
    }
}
