//! The commands, as a user runs them.
#![allow(clippy::unwrap_used, missing_docs)]

use fused_graph_core::backend::Options;
use fused_graph_core::record::{RecordedCall, Recorder};
use fused_graph_core::store::{Bundle, Disk, Entry, Key};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

fn run(arguments: &[&str], vars: &[(&str, &Path)]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fused-graph"));
    let Output { status, stdout, stderr } = command.args(arguments).envs(vars.iter().copied()).output().unwrap();
    (status.success(), String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr))
}

fn record(path: &Path) {
    let recorder = Recorder::open(path).unwrap();
    let add = |function: &str, text: &str, options: Options| {
        let graph: fused_graph_core::ir::Graph = format!("graph \"g\" {{\n{text}\n}}").parse().unwrap();
        let alignments = vec![256; graph.inputs().count()];
        recorder.add(&RecordedCall { function: function.to_owned(), options, alignments, graph: Arc::new(graph) });
    };
    let linear = "x = input bf16 [16, 256]\n w = input bf16 [256, 512]\n %2 = matmul x, w\n y = relu %2\n m = amax y (axes [0, 1])\n return y, m";
    add("linear", linear, Options::DEFAULT);
    add("linear_again", linear, Options { deterministic: true, ..Options::DEFAULT });
    add("chain", "x = input f32 [64, 3]\n %1 = exp x\n y = neg %1\n return y", Options::DEFAULT);
    add(
        "eight_bits",
        "x = input f8e4m3 [16, 32]\n w = input f8e4m3 [32, 16]\n y = matmul x, w\n return y",
        Options::DEFAULT,
    );
}

#[test]
fn mistakes_are_texts() {
    let dir = tempfile::tempdir().unwrap();
    let none = dir.path().join("none");
    let (ok, text) = run(&["bake", none.to_str().unwrap(), "-o", "x", "-t", "h200"], &[]);
    assert!(!ok && text.contains("none cannot be read"), "{text}");
    let empty = dir.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let (ok, text) = run(&["explain", empty.to_str().unwrap()], &[]);
    assert!(!ok && text.contains("FUSED_GRAPH_RECORD="), "{text}");
    let calls = dir.path().join("calls");
    record(&calls);
    let (ok, text) = run(&["explain", calls.to_str().unwrap(), "-t", "h2000"], &[]);
    assert!(!ok && text.contains("h200") && text.contains("neither a GPU"), "{text}");
    let (ok, text) = run(&["bake", calls.to_str().unwrap()], &[]);
    assert!(!ok && text.contains("--output") && text.contains("--target"), "{text}");
}

#[test]
fn the_store() {
    let dir = tempfile::tempdir().unwrap();
    let vars = [("FUSED_GRAPH_CACHE_DIR", dir.path())];
    let disk = Disk::new(dir.path(), 1 << 20);
    let key = Key { device: "a GPU".to_owned(), library: "cuDNN 9".to_owned(), text: "graph".to_owned() };
    disk.put(&Entry { key, function: "linear".to_owned(), tuned: true, payload: vec![1; 2000] });
    let (ok, text) = run(&["cache", "list"], &vars);
    assert!(ok && text.contains("linear  a GPU (cuDNN 9, tuned)") && text.contains("1 plans"), "{text}");
    assert!(run(&["cache", "verify"], &vars).0);
    let file = disk.list().unwrap()[0].path.clone();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let (ok, text) = run(&["cache", "verify"], &vars);
    assert!(!ok && text.contains("damaged"), "{text}");
    let (ok, text) = run(&["cache", "clear"], &vars);
    assert!(ok && text.contains("1 plans removed"), "{text}");
}

#[test]
fn doctor_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let (ok, text) = run(&["doctor"], &[("FUSED_GRAPH_CUDNN_DIR", dir.path())]);
    assert!(!ok && text.contains(dir.path().to_str().unwrap()) && text.contains("run on the CPU"), "{text}");
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn doctor_compiles_a_kernel() {
    let (ok, text) = run(&["doctor"], &[]);
    assert!(ok && text.contains("compiled for an H200: 1 kernel, eng"), "{text}");
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn bake_and_explain() {
    let dir = tempfile::tempdir().unwrap();
    let (calls, plans, again) = (dir.path().join("calls"), dir.path().join("a.fgb"), dir.path().join("b.fgb"));
    record(&calls);
    let (calls, target) = (calls.to_str().unwrap(), "h200,b200,a100,rtx4090");
    let (ok, text) = run(&["bake", calls, "-o", plans.to_str().unwrap(), "-t", target], &[]);
    assert!(ok && text.contains("NVIDIA H200, sm_90, 132 SMs"), "{text}");
    // 8-bit floats are not for an A100, which is said and does not stop the others.
    assert!(text.contains("refused for a100: `eight_bits`"), "{text}");
    let bundle = Bundle::read(&plans).unwrap();
    assert_eq!(bundle.entries().len(), 4 * 4 - 1);
    let functions = |device: &str| bundle.entries().iter().filter(|e| e.key.device.contains(device)).count();
    assert_eq!((functions("H200"), functions("A100")), (4, 3));
    assert!(run(&["bake", calls, "-o", again.to_str().unwrap(), "-t", target], &[]).0);
    let same: Vec<_> = Bundle::read(&again).unwrap().entries().iter().map(|e| e.key.clone()).collect();
    assert_eq!(same, bundle.entries().iter().map(|e| e.key.clone()).collect::<Vec<_>>());
    let (ok, text) = run(&["explain", calls, "-t", "h200"], &[]);
    assert!(ok && text.contains("linear on NVIDIA H200") && text.contains("amax"), "{text}");
    // Properties from a file serve like a name.
    let file = dir.path().join("mine.json");
    std::fs::write(&file, include_str!("../../fixtures/device-properties/h200.json")).unwrap();
    let (ok, text) = run(&["bake", calls, "-o", again.to_str().unwrap(), "-t", file.to_str().unwrap()], &[]);
    assert!(ok && text.contains("NVIDIA H200"), "{text}");
}
