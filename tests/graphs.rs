//! Graphs as files: `tests/graphs/*.fg`. Below `---` stands what becomes of the graph in the modes that its first line names:
//! `infer` (the type of every value), `fuse` (its kernels on each architecture, and why it is cut) and `run` (the CPU backend against the oracle).
//! `FUSED_GRAPH_BLESS=1` writes what is found.
#![allow(clippy::unwrap_used, clippy::panic)]

use fused_graph::{DType, Device, Graph, Tensor};
use fused_graph_core::backend::{CompileRequest, Launch, Options};
use fused_graph_core::cpu::oracle::{self, Array};
use fused_graph_core::fuse::{RuleTarget, check_supported, partition};
use fused_graph_core::ir::Value;
use fused_graph_core::layout::{Dims, span};
use fused_graph_core::tensor::Storage;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

#[test]
fn every_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/graphs");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "fg"));
    files.sort();
    assert!(files.len() >= 30, "{} graphs in {}", files.len(), folder.display());
    let mut wrong = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        let (source, expected) = text.split_once("\n---\n").unwrap_or((text.trim_end(), ""));
        let found = format!("{}\n", becomes(&name, source).trim_end());
        if found != expected && std::env::var_os("FUSED_GRAPH_BLESS").is_some() {
            std::fs::write(&file, format!("{source}\n---\n{found}")).unwrap();
        } else if found != expected {
            wrong.push(format!("{name}: found\n{found}\nexpected\n{expected}"));
        }
    }
    assert!(wrong.is_empty(), "FUSED_GRAPH_BLESS=1 writes what is found\n{}", wrong.join("\n"));
}

fn becomes(name: &str, source: &str) -> String {
    let graph: Graph = source.parse().unwrap_or_else(|e| panic!("{name}: {e}"));
    let graph = Arc::new(graph);
    let modes = source.lines().next().unwrap().strip_prefix("# modes: ").unwrap_or_else(|| panic!("{name}: no modes"));
    let mut text = String::new();
    for mode in modes.split(", ") {
        writeln!(text, "== {mode}").unwrap();
        match mode {
            "infer" => {
                assert_eq!(graph.to_string().parse::<Graph>().unwrap(), *graph, "{name}");
                text += &graph.to_string();
            }
            "fuse" => text += &kernels(&graph),
            "run" => text += &values(name, &graph),
            _ => panic!("{name}: unknown mode {mode}"),
        }
    }
    text
}

/// The kernels by the rules, architectures that agree together.
fn kernels(graph: &Graph) -> String {
    let mut found: Vec<(String, String)> = Vec::new();
    for (device, target) in [
        ("cpu", RuleTarget::CPU),
        ("sm_80", RuleTarget::gpu(80, 91900)),
        ("sm_89", RuleTarget::gpu(89, 91900)),
        ("sm_90", RuleTarget::gpu(90, 91900)),
        ("sm_100", RuleTarget::gpu(100, 91900)),
    ] {
        let becomes = match check_supported(graph, &target) {
            Ok(()) => partition(graph, &target).display(graph).to_string(),
            Err(e) => format!("{e}\n"),
        };
        match found.iter_mut().find(|(_, text)| *text == becomes) {
            Some((devices, _)) => *devices += &format!(" {device}"),
            None => found.push((device.to_owned(), becomes)),
        }
    }
    found.iter().map(|(devices, text)| format!("on {devices}\n{}\n", text.trim_end())).collect()
}

/// The same numbers on every machine.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        // A multiplicative generator with a modulus of 2^31 - 1.
        self.0 = self.0 * 48271 % 0x7fff_ffff;
        self.0 as f64 / 0x7fff_ffff as f64 * 4.0 - 2.0
    }
}

/// An argument of this layout.
fn argument(value: &Value, numbers: &mut Numbers) -> Tensor {
    let cells = span(&value.dims, &value.strides).unwrap();
    let data: Vec<f32> = (0..cells).map(|_| numbers.next() as f32).collect();
    let data = if value.dtype.is_float() { data } else { data.iter().map(|v| (v * 3.0).round()).collect() };
    let dense = Tensor::from_vec(data, [cells], &Device::CPU).unwrap().to_dtype(value.dtype).unwrap();
    let Storage::Host(data) = dense.storage().clone() else { panic!("not on the CPU") };
    Tensor::from_parts(Device::CPU, Storage::Host(data), value.dtype, value.dims, value.strides, 0)
}

fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 1e-5,
        DType::F16 => 1e-3,
        DType::BF16 => 6e-3,
        DType::F8E4M3 => 0.08,
        DType::F8E5M2 => 0.15,
        _ => 0.0,
    }
}

/// Dims and a few rounded figures of each result by the oracle, with which the CPU backend agrees.
fn values(name: &str, graph: &Arc<Graph>) -> String {
    let mut numbers = Numbers(graph.values().len() as u64 + 1);
    let tensors: Vec<Tensor> = graph.inputs().map(|(_, v)| argument(v, &mut numbers)).collect();
    let scalars: Vec<f64> = graph.scalars().map(|_| 0.75).collect();
    let arrays: Vec<Array> = tensors.iter().map(|t| Array::from_tensor(t).unwrap()).collect();
    let wanted = oracle::run(graph, &arrays, &scalars).unwrap();
    let alignments = vec![16; tensors.len()];
    let executable =
        fused_graph_core::cpu::compile(&CompileRequest::new(graph, &Options::DEFAULT, &alignments)).unwrap();
    let refs: Vec<&Tensor> = tensors.iter().collect();
    let results = executable.run(&Launch { device: &Device::CPU, tensors: &refs, scalars: &scalars }).unwrap();
    let limit = graph.values().map(|(_, v)| tolerance(v.dtype)).fold(0.0, f64::max);
    let mut text = String::new();
    for ((&id, want), got) in graph.outputs().iter().zip(&wanted).zip(&results) {
        let got = Array::from_tensor(got).unwrap();
        let norm = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
        let difference: Vec<f64> = want.data.iter().zip(&got.data).map(|(a, b)| a - b).collect();
        let error = if norm(&difference) == 0.0 { 0.0 } else { norm(&difference) / norm(&want.data) };
        assert!(error <= limit, "{name}: {} is off by {error:e}", graph.describe(id));
        let first: Vec<String> = want.data.iter().take(3).map(|v| format!("{v:.3}")).collect();
        let dims: &Dims = &graph.value(id).dims;
        writeln!(text, "{} {dims}: norm {:.4e}, first {}", graph.label(id), norm(&want.data), first.join(" ")).unwrap();
    }
    text
}
