//! Case 24: what is wrong with a machine or a function is told apart and named, on the way that a user takes. The libraries' other faults are in
//! `cudnn/src/library/tests.rs`, with machines made of stand-ins; these are NVIDIA's files.
#![cfg(all(target_os = "linux", feature = "cuda"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use fused_graph::prelude::*;
use fused_graph::{Graph, Options, Result};
use fused_graph_core::backend::CompileRequest;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

#[fused_graph]
fn conv_bias_gelu(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
    gelu(conv2d(x, w, bias = b, padding = 1))
}

#[fused_graph]
fn conv(x: &Tensor, w: &Tensor) -> Tensor {
    conv2d(x, w, padding = 1)
}

fn tensor(dims: [i64; 4], dtype: DType) -> Result<Tensor> {
    Tensor::zeros(dims, dtype, &Device::CPU)?.channels_last()
}

fn compile(graph: Graph, options: &Options) -> Result<String> {
    let graph = Arc::new(graph);
    let request = CompileRequest::new(&graph, options, &[256; 3]);
    Ok(format!("{:?}", fused_graph::compile::compile_for("h200", &request)?.cut_texts()))
}

/// What this process is asked, in words that a user would recognise.
fn question(which: &str) -> Result<String> {
    match which {
        "no GPU" => Device::cuda(0).map(|device| device.to_string()),
        "F64" => {
            let (x, w) = (tensor([2, 8, 8, 8], DType::F64)?, tensor([16, 8, 3, 3], DType::F64)?);
            compile(conv_bias_gelu::graph(&x, &w, &Tensor::zeros([16], DType::F64, &Device::CPU)?)?, &Options::DEFAULT)
        }
        "odd channels" => {
            let (x, w) = (tensor([2, 5, 8, 8], DType::F8E4M3)?, tensor([7, 5, 3, 3], DType::F8E4M3)?);
            let fallback = Options { heuristics: &[fused_graph::Heuristics::Fallback], ..Options::DEFAULT };
            compile(conv::graph(&x, &w)?, &fallback)
        }
        _ => {
            let (x, w) = (tensor([2, 8, 8, 8], DType::BF16)?, tensor([16, 8, 3, 3], DType::BF16)?);
            compile(conv_bias_gelu::graph(&x, &w, &Tensor::zeros([16], DType::BF16, &Device::CPU)?)?, &Options::DEFAULT)
        }
    }
}

/// Run by itself: whatever this machine is, asking for its GPU does not panic. By the others: what they want to know.
#[test]
fn answer() {
    let which = std::env::var("FUSED_GRAPH_TEST_QUESTION").unwrap_or_else(|_| "no GPU".to_owned());
    println!("<<<\n{}\n>>>", question(&which).unwrap_or_else(|error| error.to_string()));
}

/// A folder of links to the files of a cuDNN, without its neighbours.
struct Links(PathBuf);

impl Drop for Links {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn wheel() -> PathBuf {
    std::env::var_os("FUSED_GRAPH_CUDNN_DIR").expect("cargo xtask test names it").into()
}

/// The folders of all cuDNNs that `cargo xtask test` has brought.
fn wheels() -> Vec<PathBuf> {
    let wheel = wheel();
    let all = wheel.ancestors().nth(4).unwrap();
    let entries = std::fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path().join("nvidia/cudnn/lib"));
    entries.filter(|path| path.is_dir()).collect()
}

/// The one that needs NVRTC for its kernels; later ones have a compiler of their own.
fn wheel_with_nvrtc() -> PathBuf {
    let found = wheels().into_iter().find(|path| path.to_string_lossy().contains("cudnn-9.19"));
    found.expect("cargo xtask test brings cuDNN 9.19")
}

impl Links {
    fn new(name: &str, wheel: &Path) -> Links {
        let folder = std::env::temp_dir().join(format!("fused-graph-links-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let links = Links(folder);
        std::fs::read_dir(wheel).unwrap().for_each(|file| links.link(&file.unwrap().path()));
        links
    }

    fn link(&self, file: &Path) {
        let to = self.0.join(file.file_name().unwrap());
        let _ = std::fs::remove_file(&to);
        std::os::unix::fs::symlink(file, to).unwrap();
    }

    /// NVRTC, which the wheels put beside cuDNN's folder.
    fn with_nvrtc(self) -> Links {
        let nvrtc = wheel().join("../../cu13/lib");
        std::fs::read_dir(&nvrtc).unwrap().for_each(|file| self.link(&file.unwrap().path()));
        self
    }

    fn without(self, file: &str) -> Links {
        std::fs::remove_file(self.0.join(file)).unwrap();
        self
    }

    /// One file of another version.
    fn mixed(self, file: &str) -> Links {
        let mine = wheel().canonicalize().unwrap();
        let other = wheels().into_iter().find(|path| path.canonicalize().unwrap() != mine);
        self.link(&other.expect("cargo xtask test brings a second cuDNN").join(file));
        self
    }

    fn ask(&self, which: &str) -> String {
        ask(which, &self.0).replace(&self.0.display().to_string(), "FOLDER")
    }
}

/// Asks a process that has nothing but this cuDNN: what a process loads it keeps.
fn ask(which: &str, cudnn: &Path) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["answer", "--exact", "--nocapture", "--test-threads=1"])
        .env_clear()
        .env("CUDA_VISIBLE_DEVICES", "-1")
        .env("FUSED_GRAPH_CUDNN_DIR", cudnn)
        .env("FUSED_GRAPH_TEST_QUESTION", which)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let answer = text.split_once("<<<\n").and_then(|(_, rest)| rest.split_once("\n>>>"));
    answer.unwrap_or_else(|| panic!("no answer: {output:?}")).0.to_owned()
}

/// The cause and the step that helps, without what depends on the machine and on the versions that the test is run with.
fn essence(text: &str) -> String {
    let step = text.lines().find(|line| line.trim_start().starts_with("to do:"));
    // What the loader says in brackets names a symbol of one version.
    let first = text.lines().next().unwrap_or_default().split(" (FOLDER/").next().unwrap_or_default();
    let words = first.split(' ').map(|word| if is_version(word) { "VERSION" } else { word });
    [words.collect::<Vec<_>>().join(" ")].into_iter().chain(step.map(str::to_owned)).collect::<Vec<_>>().join("\n    ")
}

fn is_version(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    parts.len() == 3 && parts.iter().all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn case_24_seven_causes_seven_texts() {
    let answers = [
        ("nvrtc hidden", Links::new("nvrtc", &wheel_with_nvrtc()).ask("BF16")),
        (
            "a sub-library missing",
            Links::new("part", &wheel()).with_nvrtc().without("libcudnn_heuristic.so.9").ask("BF16"),
        ),
        (
            "a sub-library of another version",
            Links::new("mixed", &wheel()).with_nvrtc().mixed("libcudnn_graph.so.9").ask("BF16"),
        ),
        ("F64 on a GPU", ask("F64", &wheel())),
        ("odd channels", ask("odd channels", &wheel())),
        ("no GPU", ask("no GPU", &wheel())),
    ];
    let old_driver = include_str!("../cudnn/src/library/snapshots/old_driver.txt");
    let all: Vec<(&str, String)> =
        answers.iter().map(|(n, a)| (*n, essence(a))).chain([("an old driver", essence(old_driver))]).collect();
    let distinct: BTreeSet<&str> = all.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(distinct.len(), 7, "{all:#?}");
    let listing: Vec<String> = all.iter().map(|(name, text)| format!("{name}\n    {text}")).collect();
    insta::assert_snapshot!(listing.join("\n"));
    // Every engine with its own reason, the alignment among them.
    let odd = &answers[4].1;
    let engines = odd.lines().filter(|line| line.trim_start().starts_with("engine ")).count();
    assert!(engines >= 2 && odd.contains("128") && odd.contains("\n  asked of cuDNN 9."), "{odd}");
    // With everything in place the same question has an answer.
    let whole = Links::new("whole", &wheel()).with_nvrtc().ask("BF16");
    assert_eq!(whole, "[]", "one kernel, no cuts");
}
