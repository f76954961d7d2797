//! cuDNN's sub-libraries, and the libraries of the CUDA toolkit that it opens by name.
//!
//! cuDNN opens all of these itself, when first needed. If one is missing it aborts the process (graph, cuBLASLt), refuses
//! everything (runtime-compiled engines), or goes on in silence with fewer engines (heuristics, precompiled engines,
//! nvrtc); this was measured with 9.19 and 9.28. So each is opened here first, which says what is wrong, and which lets
//! cuDNN find it by its name wherever it lies.

use std::ffi::c_int;
use std::path::Path;

use cudnn_sys::{Library, Version};

use super::fault::Fault;
use super::loader;
use super::places::{Place, Root, entries, variable};
use super::report::{Found, LibraryReport};
use super::search::{Opened, by_name, companion};

/// The sub-library that all calls of the graph API go to.
const GRAPH: &str = "graph";

/// Those of every cuDNN 9, in an order in which each finds what it links to.
const ENGINES: &[&str] = &["engines_runtime_compiled", "engines_precompiled", "heuristic"];

/// Since 9.20.
const TENSOR_IR: (&str, Version) = ("engines_tensor_ir", Version::new(9, 20, 0));

/// From here on `libcudnn_graph` contains nvrtc (seen by its size in the wheels, and by plans that build without nvrtc).
const CONTAINS_NVRTC: Version = Version::new(9, 21, 0);

/// Opens the sub-library without which not even the version can be asked for.
pub(super) fn open_graph(folder: &Path, keep: &mut Vec<Library>, report: &mut LibraryReport) -> Result<(), Fault> {
    open_part(GRAPH, None, folder, keep, report)
}

/// Opens the other sub-libraries.
pub(super) fn open_engines(
    version: Version,
    folder: &Path,
    keep: &mut Vec<Library>,
    report: &mut LibraryReport,
) -> Result<(), Fault> {
    // cuDNN's own switch for an installation that compiles all its kernels.
    let jit_only = variable("CUDNN_LIB_CONFIG").is_some_and(|config| config == "JIT");
    let engines = if jit_only { &ENGINES[..1] } else { ENGINES };
    for part in engines {
        open_part(part, Some(version), folder, keep, report)?;
    }
    if version >= TENSOR_IR.1 {
        open_part(TENSOR_IR.0, Some(version), folder, keep, report)?;
    }
    check_ops(version, folder)
}

fn open_part(
    part: &str,
    version: Option<Version>,
    folder: &Path,
    keep: &mut Vec<Library>,
    report: &mut LibraryReport,
) -> Result<(), Fault> {
    let name = format!("libcudnn_{part}.so.9");
    let path = folder.join(&name);
    let opened = if path.exists() {
        let library = loader::open(&path).map_err(|error| unusable(&name, version, error))?;
        Opened { library, found: Found { name: name.clone(), path: Some(path), how: "beside libcudnn.so.9".into() } }
    } else {
        let missing = Fault::PartMissing { part: name.clone(), folder: folder.to_owned() };
        by_name(&name, &mut vec![]).ok_or(missing)?
    };
    let own = opened.found.path.as_deref().and_then(version_in_name);
    if let (Some(version), Some(own)) = (version, own)
        && own != version
    {
        return Err(Fault::Mixed { part: name, version: Some(version), reason: format!("it is {own}") });
    }
    report.parts.push(opened.found);
    keep.push(opened.library);
    Ok(())
}

/// Sub-libraries share C++ symbols that change from version to version, so one of another version fails to link.
pub(super) fn unusable(part: &str, version: Option<Version>, reason: String) -> Fault {
    let part = part.to_owned();
    if reason.contains("undefined symbol") || reason.contains("version `") {
        Fault::Mixed { part, version, reason }
    } else {
        Fault::PartUnusable { part, reason }
    }
}

/// Of `libcudnn_graph.so.9.19.0`, to which the plain name is a link except in wheels: 9.19.0.
fn version_in_name(path: &Path) -> Option<Version> {
    let file = path.canonicalize().ok()?;
    let (_, version) = file.file_name()?.to_str()?.split_once(".so.")?;
    let mut numbers = version.split('.').map(|number| number.parse().ok());
    Some(Version::new(numbers.next()??, numbers.next()??, numbers.next()??))
}

/// The graph API does not use this one, but it is the only one that says whether it belongs to the others.
fn check_ops(version: Version, folder: &Path) -> Result<(), Fault> {
    let name = "libcudnn_ops.so.9";
    let Ok(library) = loader::open(&folder.join(name)) else { return Ok(()) };
    // SAFETY: this function of cuDNN 9 takes nothing and answers a status.
    let check = unsafe { library.get::<unsafe extern "C" fn() -> cudnn_sys::Status>("cudnnOpsVersionCheck") };
    // SAFETY: as above.
    let mixed = check.is_ok_and(|check| unsafe { check() } == cudnn_sys::Status::SUBLIBRARY_VERSION_MISMATCH);
    if mixed {
        let reason = "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH".to_owned();
        return Err(Fault::Mixed { part: name.to_owned(), version: Some(version), reason });
    }
    Ok(())
}

/// Where the wheels put the toolkit's libraries, as seen from cuDNN's; its own RUNPATH says the same.
fn beside(cudnn: &Path) -> Place {
    let toolkit = ["../../cu13/lib", "../../cuda_nvrtc/lib", "../../cublas/lib"];
    let toolkit = toolkit.iter().filter_map(|inner| cudnn.join(inner).canonicalize().ok());
    let folders = std::iter::once(cudnn.to_owned()).chain(toolkit).collect();
    Place { name: "beside cuDNN".to_owned(), folders, absent: None }
}

/// Opens nvrtc and its builtins.
pub(super) fn open_nvrtc(
    root: &Root,
    (version, cuda): (Version, Version),
    folder: &Path,
    keep: &mut Vec<Library>,
    report: &mut LibraryReport,
) -> Result<(), Fault> {
    let name = format!("libnvrtc.so.{}", cuda.major);
    let (opened, tried) = companion(root, &name, beside(folder));
    let Some(Opened { library, found }) = opened else {
        return if version >= CONTAINS_NVRTC { Ok(()) } else { Err(Fault::NoNvrtc { name, version, tried }) };
    };
    let own = nvrtc_version(&library);
    if let Some(own) = own {
        let builtins = open_builtins(own, &found);
        match builtins {
            Ok(builtins) => keep.push(builtins),
            // It is not needed, so it need not be whole either.
            Err(_) if version >= CONTAINS_NVRTC => return Ok(()),
            Err(fault) => return Err(fault),
        }
    }
    report.nvrtc_version = own;
    report.nvrtc = Some(found);
    keep.push(library);
    Ok(())
}

fn nvrtc_version(library: &Library) -> Option<Version> {
    type GetVersion = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    // SAFETY: nvrtc's function of this name has always had this signature.
    let get_version = unsafe { library.get::<GetVersion>("nvrtcVersion") }.ok()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both arguments point to ints.
    let code = unsafe { get_version(&mut major, &mut minor) };
    (code == 0).then(|| Version::new(major.unsigned_abs(), minor.unsigned_abs(), 0))
}

/// nvrtc opens them by name when it first compiles.
fn open_builtins(version: Version, nvrtc: &Found) -> Result<Library, Fault> {
    let name = format!("libnvrtc-builtins.so.{}.{}", version.major, version.minor);
    if let Some(library) = loader::already_loaded(&name) {
        return Ok(library);
    }
    let folder = nvrtc.path.as_deref().and_then(Path::parent);
    let candidates = folder.map(|folder| folder.join(&name)).filter(|path| path.exists());
    loader::open(&candidates.unwrap_or_else(|| loader::search_name(&name))).map_err(|error| {
        let others = folder.map(|folder| entries(folder, "libnvrtc-builtins")).unwrap_or_default();
        let other = others.first().map(|other| format!(" (there is {})", other.display())).unwrap_or_default();
        Fault::NoBuiltins { name, nvrtc: nvrtc.to_string(), reason: format!("{error}{other}") }
    })
}

/// Opens cuBLASLt; where there is no GPU, a stand-in will do.
pub(super) fn open_cublas_lt(
    root: &Root,
    cuda: Version,
    folder: &Path,
    keep: &mut Vec<Library>,
    report: &mut LibraryReport,
) -> Result<(), Fault> {
    let name = format!("libcublasLt.so.{}", cuda.major);
    let (opened, tried) = companion(root, &name, beside(folder));
    match opened {
        Some(Opened { library, found }) => {
            report.cublas_lt = Some(found);
            keep.push(library);
        }
        None if super::driver::present() => return Err(Fault::NoCublasLt { name, tried }),
        None => {
            crate::aot::stub::cublas_lt(&name).map_err(|reason| Fault::NoStandIn { reason })?;
            report.cublas_lt = Some(Found { name, path: None, how: "a stand-in, since there is no GPU".to_owned() });
        }
    }
    Ok(())
}
