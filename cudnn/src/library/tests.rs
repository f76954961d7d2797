//! Whole machines as folders: what is said when something on them is missing or does not fit.
//!
//! Each machine is a process of its own, since what a process loads it keeps. Its libraries are written by the ELF writer
//! of the stand-ins: they export what is asked for and do nothing.

#![allow(clippy::panic, clippy::expect_used, reason = "a test may")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::aot::stub::elf::{Arch, Body, shared_library};
use crate::aot::stub::tables;

/// What [`Api::load`] requires.
const CUDNN: &[&str] = &[
    "cudnnGetErrorString",
    "cudnnGetLastErrorString",
    "cudnnCreate",
    "cudnnDestroy",
    "cudnnSetStream",
    "cudnnSetCallback",
    "cudnnBackendCreateDescriptor",
    "cudnnBackendDestroyDescriptor",
    "cudnnBackendSetAttribute",
    "cudnnBackendGetAttribute",
    "cudnnBackendFinalize",
    "cudnnBackendExecute",
];

const DEVICE: &str = "for_device";
const PLANNING: &str = "for_planning";

/// A machine, described by the files under a folder.
struct Machine {
    root: PathBuf,
    variables: Vec<(&'static str, String)>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

impl Machine {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("fused-graph-machine-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&root).expect("a folder for the machine");
        Self { root, variables: vec![] }
    }

    fn library(self, path: &str, functions: &[(&str, Body)]) -> Self {
        let path = self.root.join(path);
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let arch = Arch::host().expect("a known architecture");
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, shared_library(arch, name, functions)).expect("a library");
        self
    }

    /// cuDNN of this version for CUDA 13 in `/cudnn`, which the user names.
    fn cudnn(self, version: u32) -> Self {
        let folder = self.root.join("cudnn").display().to_string();
        self.cudnn_in("cudnn", version).variable("FUSED_GRAPH_CUDNN_DIR", folder)
    }

    fn cudnn_in(mut self, folder: &str, version: u32) -> Self {
        let mut functions: Vec<_> = CUDNN.iter().map(|name| (*name, Body::Return(0))).collect();
        functions.push(("cudnnGetVersion", Body::Return(version)));
        functions.push(("cudnnGetCudartVersion", Body::Return(13010)));
        self = self.library(&format!("{folder}/libcudnn.so.9"), &functions);
        for part in ["graph", "engines_runtime_compiled", "engines_precompiled", "heuristic", "engines_tensor_ir"] {
            self = self.library(&format!("{folder}/libcudnn_{part}.so.9"), &[]);
        }
        self
    }

    fn nvrtc(self) -> Self {
        self.library("cudnn/libnvrtc.so.13", &[("nvrtcVersion", Body::StoreInt(13, 0))])
            .library("cudnn/libnvrtc-builtins.so.13.0", &[])
    }

    fn cublas_lt(self) -> Self {
        self.library("loader/libcublasLt.so.13", tables::CUBLAS_LT)
    }

    fn driver(self, version: u16, init: u32, devices: u16) -> Self {
        self.library(
            "loader/libcuda.so.1",
            &[
                ("cuDriverGetVersion", Body::StoreInt(version, 0)),
                ("cuInit", Body::Return(init)),
                ("cuDeviceGetCount", Body::StoreInt(devices, 0)),
                ("cuGetErrorName", Body::StoreText("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH")),
            ],
        )
    }

    /// A variable that names a path of the machine.
    fn path(self, name: &'static str, path: &str) -> Self {
        let path = self.root.join(path).display().to_string();
        self.variable(name, path)
    }

    fn executable(self, path: &str, text: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text.replace("ROOT", &self.root.display().to_string())).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("permissions");
        self
    }

    fn variable(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    fn without(self, path: &str) -> Self {
        std::fs::remove_file(self.root.join(path)).expect("the file is there");
        self
    }

    /// What this machine answers, with its folder written as ROOT.
    fn ask(&self, question: &str) -> String {
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args(["library::tests::answer", "--exact", "--nocapture", "--test-threads=1"])
            .env_clear()
            .env("FUSED_GRAPH_TEST_ROOT", &self.root)
            .env("FUSED_GRAPH_TEST_QUESTION", question)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .output()
            .expect("this program runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let answer = text.split_once("<<<\n").and_then(|(_, rest)| rest.split_once("\n>>>"));
        let (answer, _) = answer.unwrap_or_else(|| panic!("no answer: {output:?}"));
        answer.replace(&self.root.display().to_string(), "ROOT")
    }
}

/// Run by itself this machine is asked whether cuDNN's absence is an error and not a panic; by the other tests, what
/// they want to know.
#[test]
fn answer() {
    let question = std::env::var("FUSED_GRAPH_TEST_QUESTION");
    if let Some(path) = std::env::var_os("FUSED_GRAPH_TEST_PRELOAD") {
        std::mem::forget(loader::open(Path::new(&path)).expect("the library loads"));
    }
    let library = match question.as_deref() {
        Ok(PLANNING) => Library::for_planning(),
        _ => Library::for_device(),
    };
    let text = library.map_or_else(|error| error.to_string(), |library| library.report().to_string());
    println!("<<<\n{text}\n>>>");
    if question.is_err() {
        assert!(driver_present() || text.contains("there is no CUDA driver"), "{text}");
    }
}

/// A text that a user may see: its name, as recorded under `snapshots`, and as it is.
type Answer = (&'static str, &'static str, String);

macro_rules! answers {
    ($($name:literal: $answer:expr),* $(,)?) => {
        vec![$(($name, include_str!(concat!("snapshots/", $name, ".txt")), $answer)),*]
    };
}

fn answers() -> Vec<Answer> {
    let new = Machine::new;
    let working = |name| new(name).cudnn(91900).nvrtc().cublas_lt();
    let for_13 = |machine: Machine| machine.driver(13000, 0, 1);
    answers![
        "found": for_13(working("found")).ask(DEVICE),
        "found_without_gpu": new("found_without_gpu").cudnn(92801).ask(PLANNING),
        "no_cudnn": new("no_cudnn").ask(PLANNING),
        "no_cudnn_in_places": places_without_cudnn().ask(PLANNING),
        "not_in_named_folder": new("named").variable("FUSED_GRAPH_CUDNN_DIR", "/nonexistent/cudnn").ask(PLANNING),
        "another_is_loaded": another_is_loaded().ask(PLANNING),
        "not_cudnn": not_cudnn().ask(PLANNING),
        "too_old_for_planning": new("old").cudnn(90700).nvrtc().ask(PLANNING),
        "part_missing": working("part").without("cudnn/libcudnn_heuristic.so.9").ask(PLANNING),
        "graph_missing": working("graph").without("cudnn/libcudnn_graph.so.9").ask(PLANNING),
        "part_unusable": part_unusable(working("unusable")).ask(PLANNING),
        "mixed": mixed(working("mixed")).ask(PLANNING),
        "no_nvrtc": new("no_nvrtc").cudnn(91900).ask(PLANNING),
        "no_builtins": working("built").without("cudnn/libnvrtc-builtins.so.13.0").ask(PLANNING),
        "no_cublas_lt": for_13(working("cublas").without("loader/libcublasLt.so.13")).ask(DEVICE),
        "no_driver": working("no_driver").ask(DEVICE),
        "old_driver": working("old_driver").driver(12040, 0, 1).ask(DEVICE),
        "no_device": working("no_device").driver(13000, 100, 0).ask(DEVICE),
        "hidden_device": working("hidden").driver(13000, 0, 0).variable("CUDA_VISIBLE_DEVICES", "-1").ask(DEVICE),
        "driver_fails": working("driver_fails").driver(13000, 803, 0).ask(DEVICE),
    ]
}

fn places_without_cudnn() -> Machine {
    let machine = Machine::new("places");
    let root = machine.root.display().to_string();
    for folder in ["venv/lib/python3.12/site-packages", "conda/lib", "usr/lib64", "usr/local/cuda-13.0/lib64"] {
        std::fs::create_dir_all(machine.root.join(folder)).expect("a folder");
    }
    machine
        .library("usr/lib64/libcudnn.so.8", &[])
        .variable("CUDA_HOME", format!("{root}/usr/local/cuda-13.0"))
        .variable("VIRTUAL_ENV", format!("{root}/venv"))
        .variable("CONDA_PREFIX", format!("{root}/conda"))
        .variable("PATH", format!("{root}/bin"))
}

fn another_is_loaded() -> Machine {
    let machine = Machine::new("another").library("other/libcudnn.so.9", &[]).cudnn(91900);
    let other = machine.root.join("other/libcudnn.so.9").display().to_string();
    machine.variable("FUSED_GRAPH_TEST_PRELOAD", other)
}

fn not_cudnn() -> Machine {
    let functions = [("cudnnGetVersion", Body::Return(91900))];
    Machine::new("not_cudnn").cudnn(91900).library("cudnn/libcudnn.so.9", &functions)
}

fn part_unusable(machine: Machine) -> Machine {
    std::fs::write(machine.root.join("cudnn/libcudnn_heuristic.so.9"), "half a file").expect("a file");
    machine
}

fn mixed(machine: Machine) -> Machine {
    machine.library("cudnn/libcudnn_ops.so.9", &[("cudnnOpsVersionCheck", Body::Return(1002))])
}

/// Each place, by where cuDNN lies and what leads there.
fn machines_with_cudnn() -> Vec<(&'static str, Machine)> {
    const WHEEL: &str = "python/lib/python3.11/site-packages/nvidia/cudnn/lib";
    let new = |name, folder: &str| Machine::new(name).cudnn_in(folder, 92801);
    let script = "#!/bin/sh\necho ROOT/python/lib/python3.11/site-packages\n";
    vec![
        ("the loader", new("loader", "loader")),
        ("CUDA_HOME", new("home", "toolkit/lib64").path("CUDA_HOME", "toolkit")),
        ("CUDA_PATH", new("path", "toolkit/lib64").path("CUDA_PATH", "toolkit")),
        ("VIRTUAL_ENV", new("venv", WHEEL).path("VIRTUAL_ENV", "python")),
        ("python3", new("python", WHEEL).executable("python/bin/python3", "\u{7f}ELF").path("PATH", "python/bin")),
        ("a script", new("script", WHEEL).executable("bin/python3", script).path("PATH", "bin")),
        ("CONDA_PREFIX", new("conda", "conda/lib").path("CONDA_PREFIX", "conda")),
        ("conda's packages", new("conda_packages", WHEEL).path("CONDA_PREFIX", "python")),
        ("system", new("system", &format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH))),
        ("a toolkit", new("toolkit", "usr/local/cuda-13.0/lib64")),
    ]
}

#[test]
fn every_place_is_searched() {
    for (place, machine) in machines_with_cudnn() {
        let answer = machine.ask(PLANNING);
        assert!(answer.contains("\ncuDNN: 9.28.1, for CUDA 13.1, ROOT/"), "{place}: {answer}");
    }
}

#[test]
fn the_place_that_comes_first_wins() {
    let machine = Machine::new("order").cudnn_in("loader", 92801).cudnn_in("toolkit/lib64", 91900);
    let answer = machine.path("CUDA_HOME", "toolkit").ask(PLANNING);
    assert!(answer.contains("cuDNN: 9.28.1, for CUDA 13.1, ROOT/loader/"), "{answer}");
}

/// What the loader said of a heuristic library of 9.28 beside a graph library of 9.19.
#[test]
fn a_part_that_does_not_link_is_one_of_another_version() {
    let reason = "libcudnn_heuristic.so.9: undefined symbol: _ZN5cudnn25defaultCudaGraphRetentionEv, version libcudnn_graph.so.9";
    let fault = parts::unusable("libcudnn_heuristic.so.9", Some(Version::new(9, 19, 0)), reason.to_owned());
    assert!(matches!(fault, Fault::Mixed { .. }), "{fault}");
    assert!(fault.to_string().contains("libcudnn_heuristic.so.9 does not belong to 9.19.0 ("), "{fault}");
}

#[test]
fn every_text_is_as_recorded_and_tells_its_cause_from_the_others() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/library/snapshots");
    let mut first_lines = BTreeSet::new();
    let mut differing = vec![];
    for (name, recorded, answer) in answers() {
        let path = folder.join(format!("{name}.txt"));
        let is_error = answer.starts_with("environment error: ");
        assert_eq!(is_error, !name.starts_with("found"), "{name}: {answer}");
        if is_error {
            assert!(answer.contains("\n  to do: "), "{name} names no step: {answer}");
            // The same cause as no_cudnn, on a machine with more places.
            let same_cause = name == "no_cudnn_in_places";
            assert!(
                same_cause || first_lines.insert(answer.lines().next().map(str::to_owned)),
                "{name} is not told apart: {answer}"
            );
        }
        if std::env::var_os("FUSED_GRAPH_BLESS").is_some() {
            std::fs::write(&path, answer + "\n").expect("the record is written");
        } else if recorded.trim_end() != answer.trim_end() {
            differing.push(format!("{}:\n{answer}", path.display()));
        }
    }
    assert!(differing.is_empty(), "set FUSED_GRAPH_BLESS=1 to record these:\n{}", differing.join("\n\n"));
}
