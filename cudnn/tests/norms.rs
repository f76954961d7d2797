//! Normalisations and softmax, asked of the real cuDNN for four GPUs on a machine without any.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod support;

use fused_graph_core::DType;
use fused_graph_core::ir::Graph;
use fused_graph_core::trace::{Expr, ops::*};
use support::{Arg, graph, is_one, kernels, summary};

const GPUS: [&str; 4] = ["a100", "rtx4090", "h200", "b200"];
const TYPES: [DType; 3] = [DType::BF16, DType::F16, DType::F32];

type Body = fn(&[Expr]) -> Vec<Expr>;

/// x, γ and β of these dims and element types.
fn norm(x: &'static [i64], n: usize, dtype: DType, parameters: DType, body: Body) -> Graph {
    let last = &x[x.len() - n..];
    graph(&[Arg(x, dtype, false), Arg(last, parameters, false), Arg(last, parameters, false)], body)
}

fn expect_one(gpu: &str, what: &str, graph: Graph) {
    let program = kernels(gpu, graph).unwrap_or_else(|e| panic!("{what} on {gpu}: {e}"));
    let notes: Vec<_> = program.reports().into_iter().flat_map(|r| r.refused).collect();
    assert!(is_one(&program), "{what} on {gpu}: {}\n{notes:?}", summary(&program));
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn norms_are_one_kernel_with_their_statistics() {
    let bodies: [(&str, Body); 4] = [
        ("layer_norm", |a| vec![layer_norm(a[0], a[1], a[2])]),
        ("layer_norm with statistics", |a| {
            let (y, mean, inv_std) = layer_norm_stats(a[0], a[1], a[2]);
            vec![y, mean, inv_std]
        }),
        ("rms_norm", |a| vec![rms_norm_with(a[0], a[1], RmsNormOptions::new().epsilon(a[3]))]),
        ("rms_norm with statistics", |a| {
            let (y, inv_std) = rms_norm_stats(a[0], a[1]);
            vec![y, inv_std]
        }),
    ];
    let full = std::env::var_os("FUSED_GRAPH_FULL").is_some();
    for gpu in GPUS {
        for (what, body) in bodies {
            expect_one(gpu, what, norm(&[8, 128, 768], 1, DType::BF16, DType::BF16, body));
            for dtype in TYPES.into_iter().filter(|_| full) {
                for parameters in [dtype, DType::F32] {
                    for (x, n) in [(&[512, 1000][..], 1), (&[8, 128, 768], 1), (&[4, 16, 3, 35], 2), (&[7, 16384], 1)] {
                        let what = format!("{what} of {x:?} over {n}, {dtype} with {parameters}");
                        expect_one(gpu, &what, norm(x, n, dtype, parameters, body));
                    }
                }
            }
        }
    }
}

/// What is round a norm is cut off, with the rule; where no engine takes the norm itself it is a kernel of our own.
#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn what_is_round_a_norm_is_cut_off() {
    for gpu in GPUS {
        let body = |a: &[Expr]| vec![relu(layer_norm(a[0] * 2.0, a[1], a[2]))];
        let program = kernels(gpu, norm(&[64, 256], 1, DType::BF16, DType::BF16, body)).unwrap();
        let text = summary(&program);
        assert_eq!(text, "nvrtc: mul x, 2; cuDNN: layer_norm mul, w, b, 0.00001; nvrtc: relu layer_norm", "{gpu}");
        let cuts = program.cut_texts();
        assert!(cuts.iter().any(|(v, why)| v == "mul" && why.starts_with("R51:")), "{gpu}: {cuts:?}");
        assert!(cuts.iter().any(|(v, why)| v == "layer_norm" && why.starts_with("R50:")), "{gpu}: {cuts:?}");

        let wide = graph(&[Arg(&[64, 512], DType::BF16, false), Arg(&[256], DType::BF16, false)], |a| {
            vec![rms_norm(slice_with(a[0], SliceOptions::new().axis(1).end(256)), a[1])]
        });
        let program = kernels(gpu, wide).unwrap();
        let report = &program.reports()[0];
        assert_eq!((program.reports().len(), report.provider), (1, "nvrtc"), "{gpu}: {}", summary(&program));
        assert!(report.refused[0].contains("dense rows"), "{gpu}: {:?}", report.refused);
    }
}

/// cuDNN builds it, and leaves β out of some elements.
#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn an_rms_norm_with_bias_is_a_kernel_of_our_own() {
    let body: Body = |a| vec![rms_norm_with(a[0], a[1], RmsNormOptions::new().bias(a[2]))];
    for gpu in GPUS {
        let program = kernels(gpu, norm(&[8, 128, 768], 1, DType::BF16, DType::BF16, body)).unwrap();
        let reports = program.reports();
        assert_eq!((reports.len(), reports[0].provider), (1, "nvrtc"), "{gpu}: {}", summary(&program));
    }
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn a_softmax_is_one_kernel_of_our_own() {
    for gpu in GPUS {
        let bodies: [Body; 2] = [|a| vec![softmax(a[0], -1)], |a| vec![log_softmax(a[0], 1)]];
        for body in bodies {
            let program = kernels(gpu, graph(&[Arg(&[4, 16, 512], DType::BF16, false)], body)).unwrap();
            let reports = program.reports();
            assert_eq!((reports.len(), reports[0].provider), (1, "nvrtc"), "{gpu}: {}", summary(&program));
        }
    }
}

/// Batch and instance norm of channels-last data, with their statistics.
#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn norms_of_channels_are_one_kernel() {
    let bodies: [(&str, Body); 2] = [
        ("batch_norm_train", |a| {
            let n = batch_norm_train(a[0], a[1], a[2]);
            vec![n.y, n.mean, n.inv_std]
        }),
        ("instance_norm", |a| vec![instance_norm(a[0], a[1], a[2])]),
    ];
    for gpu in GPUS {
        for (what, body) in bodies {
            for (dtype, parameters) in [(DType::BF16, DType::F32), (DType::F16, DType::F16), (DType::F32, DType::F32)] {
                let list = Arg(&[64], parameters, false);
                for x in [Arg(&[8, 64, 28, 28], dtype, true), Arg(&[2, 64, 4, 14, 14], dtype, true)] {
                    let what = format!("{what} of {:?}, {dtype} with {parameters}", x.0);
                    expect_one(gpu, &what, graph(&[x, list, list], body));
                }
            }
        }
    }
}

/// Batch norm with given statistics goes into the kernel of the convolution in front of it.
#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn batch_norm_is_an_epilogue() {
    let list = Arg(&[64], DType::F32, false);
    let args =
        [Arg(&[8, 64, 28, 28], DType::BF16, true), Arg(&[64, 64, 3, 3], DType::BF16, true), list, list, list, list];
    for gpu in GPUS {
        let body = |a: &[Expr]| vec![relu(batch_norm(conv2d(a[0], a[1]), a[2], a[3], a[4], a[5]))];
        expect_one(gpu, "conv + batch norm + relu", graph(&args, body));
    }
}

/// What cuDNN has no engine for is one kernel of our own.
#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn group_norm_is_one_kernel_of_our_own() {
    let list = Arg(&[64], DType::BF16, false);
    for gpu in GPUS {
        for last in [false, true] {
            let body = |a: &[Expr]| vec![group_norm(a[0], 8, a[1], a[2])];
            let program = kernels(gpu, graph(&[Arg(&[8, 64, 28, 28], DType::BF16, last), list, list], body)).unwrap();
            let reports = program.reports();
            assert_eq!((reports.len(), reports[0].provider), (1, "nvrtc"), "{gpu}: {}", summary(&program));
        }
    }
}
