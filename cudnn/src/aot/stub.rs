//! Stand-ins for libraries that cuDNN wants in the process, so that plans can be built where there is no GPU.
//!
//! cuDNN builds plans for a GPU that is described in a file, but its engines link to `libcuda.so.1` and do not load
//! without it; and it aborts the process if it cannot open cuBLASLt (measured with 9.19 and 9.28). The stand-ins answer
//! as a driver without devices does, and as a cuBLASLt that cannot be initialised. They are used only where no driver
//! can be opened, so nothing else in the process has a use for the real ones.

pub(crate) mod elf;
pub(crate) mod tables;

use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;

use elf::Body;

use crate::library::{driver, loader};

/// Loads the stand-in for the driver, unless a driver can be opened. Then, or when it is loaded already, this does nothing.
///
/// It must come before the first cuDNN library is opened. After it, [`driver::present`] still answers `false`, and CUDA
/// may not be called through any other crate: those would take the stand-in for a driver.
pub(crate) fn ensure() -> Result<(), String> {
    static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
    if driver::present() {
        return Ok(());
    }
    LOADED.get_or_init(|| load("libcuda.so.1", tables::DRIVER)).clone()
}

/// Loads a stand-in for cuBLASLt under the name by which this cuDNN looks for it. Only for where there is no driver.
///
/// With it the heuristics offer the same engines and the same plans build as with the real one (compared for matmuls on
/// H200, B200 and A100 with cuDNN 9.19 and 9.28): without a GPU the real one cannot be initialised either.
pub(crate) fn cublas_lt(soname: &str) -> Result<(), String> {
    load(soname, tables::CUBLAS_LT)
}

/// Loads a stand-in of this name, for the rest of the process.
fn load(soname: &str, functions: &[(&str, Body)]) -> Result<(), String> {
    let arch = elf::Arch::host()
        .filter(|_| cfg!(target_os = "linux"))
        .ok_or("plans without a CUDA driver can be built on Linux for x86-64 and AArch64 only")?;
    let file = elf::shared_library(arch, soname, functions);
    in_memory(soname, &file).or_else(|memory| in_files(&file).map_err(|files| format!("{memory}; {files}")))
}

/// Opens the library for the whole process, where the engines that link to it find it by its name.
fn open(path: &Path) -> Result<(), String> {
    let library = loader::open_global(path)?;
    // Engines keep pointers into it.
    std::mem::forget(library);
    Ok(())
}

/// By way of a file that exists in memory only, which works where every folder is read-only or not executable.
fn in_memory(soname: &str, library: &[u8]) -> Result<(), String> {
    let (mut file, path) = loader::memory_file(soname)?;
    file.write_all(library).map_err(|error| format!("memory file: {error}"))?;
    open(&path)?;
    // Stays open: the loader knows the library by this path, and would take the next file of the same number for it.
    std::mem::forget(file);
    Ok(())
}

/// By way of a file in a folder of its own, removed as soon as it is mapped.
fn in_files(library: &[u8]) -> Result<(), String> {
    let candidates = [Some(std::env::temp_dir()), std::env::var_os("XDG_RUNTIME_DIR").map(Into::into)];
    let mut reasons = vec![];
    for parent in candidates.into_iter().flatten() {
        match in_file(&parent, library) {
            Ok(()) => return Ok(()),
            Err(reason) => reasons.push(format!("{}: {reason}", parent.display())),
        }
    }
    Err(reasons.join("; "))
}

fn in_file(parent: &Path, library: &[u8]) -> Result<(), String> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let folder = parent.join(format!("fused-graph-{}-{}", std::process::id(), now.as_nanos()));
    let file = folder.join("library.so");
    let result = own_folder(&folder)
        .and_then(|()| std::fs::write(&file, library))
        .map_err(|error| error.to_string())
        .and_then(|()| open(&file));
    // What is left behind does no harm.
    let _ = std::fs::remove_file(&file);
    let _ = std::fs::remove_dir(&folder);
    result
}

/// Makes a folder that nobody else may write to. Fails if something of that name is there.
#[cfg(unix)]
fn own_folder(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(not(unix))]
fn own_folder(path: &Path) -> std::io::Result<()> {
    std::fs::create_dir(path)
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
