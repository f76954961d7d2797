//! The folders in which NVIDIA's libraries are looked for, in order.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::python;

/// Where the file system begins: `/`, except in tests.
#[derive(Clone, Debug)]
pub(super) struct Root(PathBuf);

impl Root {
    /// That of this process.
    pub(super) fn new() -> Self {
        Self(Self::of_test().unwrap_or_else(|| PathBuf::from("/")))
    }

    /// A test describes a whole machine by a folder.
    #[cfg(test)]
    pub(super) fn of_test() -> Option<PathBuf> {
        variable("FUSED_GRAPH_TEST_ROOT").map(PathBuf::from)
    }

    #[cfg(not(test))]
    pub(super) fn of_test() -> Option<PathBuf> {
        None
    }

    fn join(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }
}

/// Folders that belong together, and how a report calls them.
#[derive(Debug)]
pub(super) struct Place {
    /// What a user would recognise: `CUDA_HOME=/usr/local/cuda`.
    pub(super) name: String,
    /// Existing or not; empty if the place does not apply.
    pub(super) folders: Vec<PathBuf>,
    /// Why the place does not apply.
    pub(super) absent: Option<String>,
}

impl Place {
    fn new(name: impl Into<String>, folders: Vec<PathBuf>) -> Self {
        Self { name: name.into(), folders, absent: None }
    }

    fn absent(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { name: name.into(), folders: vec![], absent: Some(reason.into()) }
    }
}

/// An environment variable that says something.
pub(super) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The folder that the user named, and the folders under it that may be meant.
pub(super) fn named_by_user() -> Option<Place> {
    let folder = variable("FUSED_GRAPH_CUDNN_DIR")?;
    let name = format!("FUSED_GRAPH_CUDNN_DIR={}", folder.display());
    let folder = PathBuf::from(folder);
    let inner = ["lib", "lib64", "nvidia/cudnn/lib"].map(|inner| folder.join(inner));
    let mut folders = vec![folder];
    folders.extend(inner.into_iter().filter(|inner| inner.is_dir()));
    Some(Place::new(name, folders))
}

/// Everything behind the loader's own search, for a library of this name. Later places are looked at only if needed.
pub(super) fn after_the_loader<'a>(root: &'a Root, library: &'a str) -> impl Iterator<Item = Place> {
    let places = [
        |_: &Root, _: &str| cuda_home(),
        |_: &Root, library: &str| virtual_env(library),
        |_: &Root, library: &str| path_python(library),
        |_: &Root, library: &str| conda(library),
        |root: &Root, _: &str| system(root),
    ];
    places.into_iter().map(move |place| place(root, library))
}

fn cuda_home() -> Place {
    let Some((name, home)) = ["CUDA_HOME", "CUDA_PATH"].iter().find_map(|name| Some((name, variable(name)?))) else {
        return Place::absent("CUDA_HOME, CUDA_PATH", "not set");
    };
    Place::new(format!("{name}={}", home.display()), toolkit(Path::new(&home)))
}

fn virtual_env(library: &str) -> Place {
    let Some(environment) = variable("VIRTUAL_ENV") else { return Place::absent("VIRTUAL_ENV", "not set") };
    let packages = python::packages_of_prefix(Path::new(&environment));
    let name = format!("VIRTUAL_ENV={}", environment.display());
    if packages.is_empty() {
        return Place::absent(name, "has no lib/python3.*/site-packages");
    }
    Place::new(name, in_packages(&packages, library))
}

fn path_python(library: &str) -> Place {
    match python::on_path() {
        Some(python) => {
            let name = format!("packages of {}", python.display());
            let packages = python::packages_of(&python);
            if packages.is_empty() {
                return Place::absent(name, "it names no folder of packages");
            }
            Place::new(name, in_packages(&packages, library))
        }
        None => Place::absent("packages of python3", "no python3 on PATH"),
    }
}

fn conda(library: &str) -> Place {
    let Some(prefix) = variable("CONDA_PREFIX") else { return Place::absent("CONDA_PREFIX", "not set") };
    let name = format!("CONDA_PREFIX={}", prefix.display());
    let prefix = PathBuf::from(prefix);
    let mut folders = vec![prefix.join("lib")];
    folders.extend(in_packages(&python::packages_of_prefix(&prefix), library));
    Place::new(name, folders)
}

/// Distributions' folders and the places that NVIDIA's installers choose.
fn system(root: &Root) -> Place {
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    let mut folders = vec![root.join(&format!("/usr/lib/{triplet}")), root.join("/usr/lib64"), root.join("/usr/lib")];
    // NVIDIA's packages for Debian keep the builds for several CUDA versions apart.
    folders.extend(entries(&root.join(&format!("/usr/lib/{triplet}/libcudnn")), ""));
    folders.push(root.join("/usr/local/lib"));
    for parent in ["/usr/local", "/opt"] {
        for toolkit_folder in entries(&root.join(parent), "cuda") {
            folders.extend(toolkit(&toolkit_folder));
        }
        for cudnn in entries(&root.join(parent), "cudnn") {
            folders.push(cudnn.join("lib"));
            folders.push(cudnn.join("lib64"));
        }
    }
    folders.push(root.join("/opt/nvidia/cudnn/lib"));
    folders.retain(|folder| folder.is_dir());
    if folders.is_empty() {
        return Place::absent("system folders", "none of the usual ones exists");
    }
    Place::new("system folders", folders)
}

/// The folders with libraries of a CUDA toolkit.
fn toolkit(home: &Path) -> Vec<PathBuf> {
    let target = match std::env::consts::ARCH {
        "aarch64" => "sbsa",
        arch => arch,
    };
    vec![home.join("lib64"), home.join("lib"), home.join(format!("targets/{target}-linux/lib"))]
}

/// Where NVIDIA's wheels put a library: those for CUDA 13 share a folder, older ones have one each.
fn in_packages(packages: &[PathBuf], library: &str) -> Vec<PathBuf> {
    let inner: &[&str] = if library.starts_with("libcudnn") {
        &["cudnn/lib"]
    } else if library.starts_with("libnvrtc") {
        &["cu13/lib", "cuda_nvrtc/lib"]
    } else {
        &["cu13/lib", "cublas/lib"]
    };
    packages.iter().flat_map(|packages| inner.iter().map(|inner| packages.join("nvidia").join(inner))).collect()
}

/// What a folder holds whose name begins like this; later names, which are newer versions, first.
pub(super) fn entries(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return vec![] };
    let mut names: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect();
    names.sort();
    names.reverse();
    names
}
