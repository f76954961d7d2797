//! Finding and checking cuDNN and what it stands on.
//!
//! The order: `FUSED_GRAPH_CUDNN_DIR`, what the process has loaded already, the loader's own search, `CUDA_HOME` or
//! `CUDA_PATH`, the packages of `VIRTUAL_ENV`, those of the python3 on `PATH`, `CONDA_PREFIX`, the usual system folders.
//! The first `libcudnn.so.9` is the one: if it turns out to be incomplete, that is an error and not a reason to go on,
//! since one process cannot load a second.

pub(crate) mod driver;
mod fault;
pub(crate) mod loader;
mod parts;
mod places;
mod python;
mod report;
mod search;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cudnn_sys::{Api, Version};
use fused_graph_core::{Error, Result};

use crate::aot::stub;
pub use driver::present as driver_present;
use fault::Fault;
use places::Root;
pub use report::{DriverReport, Found, LibraryReport, Tried};

/// cuDNN, loaded and complete.
#[derive(Debug)]
pub struct Library {
    api: &'static Api,
    version: Version,
    cudart: Version,
    report: LibraryReport,
}

impl Library {
    /// Its functions.
    pub fn api(&self) -> &'static Api {
        self.api
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The version of the CUDA runtime inside it.
    pub fn cudart(&self) -> Version {
        self.cudart
    }

    /// What was found where.
    pub fn report(&self) -> &LibraryReport {
        &self.report
    }

    /// cuDNN for running on a GPU of this machine.
    ///
    /// # Errors
    /// An environment error that names what is missing or does not fit, the places that were searched, and the step that
    /// helps. It is found once per process: what is repaired meanwhile is seen by the next one.
    pub fn for_device() -> Result<&'static Library> {
        static CHECKED: OnceLock<Result<()>> = OnceLock::new();
        let checked = CHECKED.get_or_init(|| check_devices().map_err(|fault| fault.error(&LibraryReport::new())));
        checked.clone()?;
        let library = load()?;
        let report = &library.report;
        check_driver_version(library).map_err(|fault| fault.error(report))?;
        Ok(library)
    }

    /// cuDNN for building plans, for GPUs that need not be there.
    ///
    /// # Errors
    /// As [`Self::for_device`], except that no driver and no GPU is needed.
    pub fn for_planning() -> Result<&'static Library> {
        let library = load()?;
        const OLDEST: Version = Version::new(9, 8, 0);
        if library.version < OLDEST {
            return Err(Fault::TooOldForPlanning { version: library.version }.error(&library.report));
        }
        Ok(library)
    }
}

impl LibraryReport {
    /// Of the driver alone.
    fn new() -> Self {
        let driver = match driver::driver() {
            Ok(driver) => {
                DriverReport::Found { path: driver.path.clone(), version: driver.version, devices: driver.devices() }
            }
            Err(reasons) => DriverReport::Missing(reasons.to_vec()),
        };
        Self {
            driver,
            cudnn: None,
            version: None,
            cudart: None,
            parts: vec![],
            nvrtc: None,
            nvrtc_version: None,
            cublas_lt: None,
            tried: vec![],
        }
    }
}

fn check_devices() -> Result<(), Fault> {
    let driver = driver::driver().map_err(|reasons| Fault::NoDriver { reasons: reasons.to_vec() })?;
    match driver.devices() {
        Ok(0) => {
            let hidden_by = std::env::var_os("CUDA_VISIBLE_DEVICES").map(|value| value.to_string_lossy().into_owned());
            Err(Fault::NoDevice { hidden_by })
        }
        Ok(_) => Ok(()),
        Err(error) => Err(Fault::DriverFails { error }),
    }
}

/// A driver runs programs for its own major version of CUDA and for older ones.
fn check_driver_version(library: &Library) -> Result<(), Fault> {
    let driver = driver::driver().map_err(|reasons| Fault::NoDriver { reasons: reasons.to_vec() })?;
    if driver.version.major < library.cudart.major {
        return Err(Fault::OldDriver { driver: driver.version, cudnn: library.version, cuda: library.cudart });
    }
    Ok(())
}

/// Loads cuDNN once per process.
fn load() -> Result<&'static Library> {
    static LIBRARY: OnceLock<Result<Library>> = OnceLock::new();
    LIBRARY.get_or_init(|| load_from(&Root::new())).as_ref().map_err(Error::clone)
}

fn load_from(root: &Root) -> Result<Library> {
    let mut report = LibraryReport::new();
    let api_and_versions = open(root, &mut report).map_err(|fault| fault.error(&report))?;
    let (api, version, cudart) = api_and_versions;
    tracing::info!(target: "fused_graph", "{report}");
    Ok(Library { api, version, cudart, report })
}

fn open(root: &Root, report: &mut LibraryReport) -> Result<(&'static Api, Version, Version), Fault> {
    stub::ensure().map_err(|reason| Fault::NoStandIn { reason })?;
    let opened = search::cudnn(root, &mut report.tried)?;
    report.cudnn = Some(opened.found.clone());
    let path = opened.found.path.unwrap_or_else(|| PathBuf::from(&opened.found.name));
    let folder = path.parent().unwrap_or(Path::new(".")).to_owned();

    let mut keep = vec![];
    // SAFETY: a library of the name libcudnn.so.9 is cuDNN 9.
    let api = unsafe { Api::load(opened.library) };
    let mut api = api.map_err(|missing| Fault::NotCudnn { path, reason: missing.to_string() })?;
    parts::open_graph(&folder, &mut keep, report)?;
    let version = api.version();
    let cudart = api.cudart_version().unwrap_or(Version::new(12, 0, 0));
    report.version = Some(version);
    report.cudart = Some(cudart);
    parts::open_engines(version, &folder, &mut keep, report)?;
    parts::open_nvrtc(root, (version, cudart), &folder, &mut keep, report)?;
    parts::open_cublas_lt(root, cudart, &folder, &mut keep, report)?;
    keep.into_iter().for_each(|library| api.keep(library));
    // Never unloaded: cuDNN's destructors and ours at the end of the process would have an order.
    Ok((Box::leak(Box::new(api)), version, cudart))
}
