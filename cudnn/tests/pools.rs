//! Pooling, asked of the real cuDNN for four GPUs on a machine without any.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod support;

use fused_graph_core::DType;
use fused_graph_core::trace::{Expr, ops::*};
use fused_graph_cudnn::compile::Program;
use support::{Arg, graph, kernels, summary};

const GPUS: [&str; 4] = ["a100", "rtx4090", "h200", "b200"];

type Body = fn(&[Expr]) -> Vec<Expr>;

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn pools_are_one_kernel_of_our_own() {
    // cuDNN builds plans for all of them, whose values were wrong on an H200.
    let is_one = |program: &Program<()>| matches!(program.reports().as_slice(), [r] if r.provider == "nvrtc");
    let bodies: [(&str, Body); 5] = [
        ("max", |a| vec![max_pool2d_with(a[0], 3, MaxPoolOptions::new().stride(2).padding(1))]),
        ("max, sides", |a| vec![max_pool2d_with(a[0], [2, 3], MaxPoolOptions::new().padding([(0, 1), (1, 2)]))]),
        ("avg", |a| vec![avg_pool2d_with(a[0], 3, AvgPoolOptions::new().stride(2).padding(1))]),
        ("avg without padding", |a| {
            vec![avg_pool2d_with(a[0], 3, AvgPoolOptions::new().padding(1).count_include_pad(false))]
        }),
        ("global", |a| vec![global_avg_pool(a[0])]),
    ];
    let mut bad = Vec::new();
    for gpu in GPUS {
        for (what, body) in bodies {
            for (dtype, last) in [(DType::BF16, true), (DType::F16, true), (DType::F32, true), (DType::BF16, false)] {
                let program = kernels(gpu, graph(&[Arg(&[8, 64, 28, 28], dtype, last)], body)).unwrap();
                if !is_one(&program) {
                    let reasons: Vec<_> = program.reports().into_iter().flat_map(|r| r.refused).collect();
                    bad.push(format!("{what} {dtype}, last {last}, on {gpu}: {}\n{reasons:?}", summary(&program)));
                }
            }
        }
        for (x, last) in [(&[4, 16, 8, 8, 8][..], true), (&[4, 12, 30], true)] {
            let body = |a: &[Expr]| vec![if a[0].rank() == 3 { max_pool1d(a[0], 2) } else { max_pool3d(a[0], 2) }];
            let program = kernels(gpu, graph(&[Arg(x, DType::BF16, last)], body)).unwrap();
            if !is_one(&program) {
                bad.push(format!("{x:?} on {gpu}: {}", summary(&program)));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// With an index, and of layouts that cuDNN does not pool, one kernel of our own.
#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn what_no_engine_takes_is_ours() {
    let index: Body = |a| {
        let (y, index) = max_pool2d_index(a[0], 2);
        vec![y, index]
    };
    let strided: Body = |a| vec![max_pool2d(slice_with(a[0], SliceOptions::new().axis(3).step(2)), 2)];
    for gpu in GPUS {
        for body in [index, strided] {
            let program = kernels(gpu, graph(&[Arg(&[8, 64, 28, 28], DType::BF16, true)], body)).unwrap();
            let reports = program.reports();
            assert_eq!((reports.len(), reports[0].provider), (1, "nvrtc"), "{gpu}: {}", summary(&program));
            assert!(!reports[0].refused.is_empty());
        }
    }
}
