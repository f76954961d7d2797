//! Which functions are one kernel, asked of the real cuDNN for four GPUs on a machine without any.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod support;

use fused_graph_core::DType;
use fused_graph_core::trace::{Expr, ops::*};
use support::{Arg, graph, is_one, kernels, summary};

const GPUS: [&str; 4] = ["a100", "rtx4090", "h200", "b200"];

type Activation = (&'static str, fn(Expr) -> Expr);

const ACTIVATIONS: &[Activation] = &[
    ("none", |y| y),
    ("relu", relu),
    ("leaky_relu", leaky_relu),
    ("clipped_relu", clipped_relu),
    ("elu", elu),
    ("gelu", gelu),
    ("gelu_tanh", |y| gelu_with(y, GeluOptions::new().approximate("tanh"))),
    ("swish", swish),
    ("sigmoid", sigmoid),
    ("tanh", tanh),
    ("softplus", softplus),
];

/// Runs the cases on two threads and says everything that is not one kernel.
fn expect_one(cases: Vec<(String, &'static str, fused_graph_core::ir::Graph)>) {
    let cases = std::sync::Mutex::new(cases);
    let bad = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = cases.lock().unwrap().pop();
                    let Some((name, gpu, graph)) = next else { return };
                    match kernels(gpu, graph) {
                        Ok(program) if is_one(&program) => {}
                        Ok(program) => bad.lock().unwrap().push(format!(
                            "{name} on {gpu}: {}\n{:?}",
                            summary(&program),
                            program.cut_texts()
                        )),
                        Err(e) => bad.lock().unwrap().push(format!("{name} on {gpu}: {e}")),
                    }
                }
            });
        }
    });
    let bad = bad.into_inner().unwrap();
    assert!(bad.is_empty(), "{} are not one kernel:\n{}", bad.len(), bad.join("\n"));
}

fn conv(dtype: DType, form: &str, act: fn(Expr) -> Expr, with_amax: bool) -> fused_graph_core::ir::Graph {
    let args = [
        Arg(&[8, 64, 28, 28], dtype, true),
        Arg(&[64, 64, 3, 3], dtype, true),
        Arg(&[64], dtype, false),
        Arg(&[64], dtype, false),
        Arg(&[8, 64, 28, 28], dtype, true),
    ];
    graph(&args, |a| {
        let o = ConvOptions::new().padding(1);
        let o = match form {
            "bias" => o.bias(a[2]),
            "scale+bias" => o.scale(a[3]).bias(a[2]),
            "bias+residual" => o.bias(a[2]).residual(a[4]),
            _ => o,
        };
        let y = act(conv2d_with(a[0], a[1], o));
        if with_amax { vec![y, amax(y)] } else { vec![y] }
    })
}

fn matmul_of(dtype: DType, form: &str, act: fn(Expr) -> Expr, with_amax: bool) -> fused_graph_core::ir::Graph {
    let bias: &'static [i64] = match form {
        "row bias" => &[256],
        "column bias" => &[128, 1],
        _ => &[4, 128, 256],
    };
    let args = [Arg(&[4, 128, 64], dtype, false), Arg(&[4, 64, 256], dtype, false), Arg(bias, dtype, false)];
    graph(&args, |a| {
        let y = act(a[3] * matmul(a[0], a[1]) + a[2]);
        if with_amax { vec![y, amax(y)] } else { vec![y] }
    })
}

/// In CI every activation runs in one form on every GPU and every form with one activation; `FUSED_GRAPH_FULL=1` runs all of them.
fn full() -> bool {
    std::env::var_os("FUSED_GRAPH_FULL").is_some()
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn convolutions_with_epilogues_are_one_kernel() {
    let mut cases = Vec::new();
    for form in ["none", "bias", "scale+bias", "bias+residual"] {
        for (name, act) in ACTIVATIONS {
            for with_amax in [false, true] {
                let chosen = full()
                    || form == "bias" && with_amax
                    || *name == "relu"
                    || form == "bias+residual" && *name == "swish";
                for gpu in GPUS.into_iter().filter(|_| chosen) {
                    for dtype in [DType::BF16, DType::F16].into_iter().take(if full() { 2 } else { 1 }) {
                        let label = format!("conv {dtype} + {form} + {name}{}", if with_amax { " + amax" } else { "" });
                        cases.push((label, gpu, conv(dtype, form, *act, with_amax)));
                    }
                }
            }
        }
    }
    expect_one(cases);
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn matmuls_with_epilogues_are_one_kernel() {
    let mut cases = Vec::new();
    for form in ["row bias", "column bias", "residual"] {
        for (name, act) in ACTIVATIONS {
            for with_amax in [false, true] {
                let chosen = full() || form == "row bias" && with_amax || *name == "gelu";
                for gpu in GPUS.into_iter().filter(|_| chosen) {
                    for dtype in [DType::BF16, DType::F16].into_iter().take(if full() { 2 } else { 1 }) {
                        let label =
                            format!("matmul {dtype} + {form} + {name}{}", if with_amax { " + amax" } else { "" });
                        cases.push((label, gpu, matmul_of(dtype, form, *act, with_amax)));
                    }
                }
            }
        }
    }
    expect_one(cases);
}
