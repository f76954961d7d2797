//! Plans of one function for different sizes share compiled kernels. Against the real cuDNN, without a GPU.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use fused_graph_core::DType;
use fused_graph_core::backend::{CompileRequest, Options};
use fused_graph_core::ir::Graph;
use fused_graph_core::trace::ops::*;
use fused_graph_cudnn::compile::compile_with;
use fused_graph_cudnn::plan::KernelCaches;
use std::sync::Arc;
use std::time::Instant;
use support::{Arg, graph};

const BF16: DType = DType::BF16;
const OPTIONS: Options = Options { dynamic_shapes: true, ..Options::DEFAULT };

fn matmul_of(rows: &'static [i64]) -> Graph {
    let args = [Arg(rows, BF16, false), Arg(&[512, 256], BF16, false), Arg(&[256], BF16, false)];
    graph(&args, |a| relu(matmul(a[0], a[1]) + a[2]))
}

fn conv_of(images: &'static [i64]) -> Graph {
    let args = [Arg(images, BF16, true), Arg(&[64, 64, 3, 3], BF16, true), Arg(&[64], BF16, false)];
    graph(&args, |a| relu(conv2d_with(a[0], a[1], ConvOptions::new().padding(1).bias(a[2]))))
}

/// Milliseconds of each build, and how many kernels were shared and reused.
fn builds(graphs: Vec<Graph>, gpu: &str, options: &Options) -> (Vec<f64>, usize, usize) {
    let caches = KernelCaches::default();
    let (mut times, mut used, mut reused) = (Vec::new(), 0, 0);
    for graph in graphs {
        let graph = Arc::new(graph);
        let start = Instant::now();
        let program = compile_with(gpu, &CompileRequest::new(&graph, options, &[256; 3]), &caches).unwrap();
        times.push(start.elapsed().as_secs_f64() * 1e3);
        let (n, found) = program.shared();
        (used, reused) = (used + n, reused + found);
    }
    (times, used, reused)
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn other_batch_sizes_compile_nothing() {
    for gpu in ["h200", "a100", "rtx4090", "b200"] {
        let batches = || [&[64, 512][..], &[128, 512], &[256, 512], &[1024, 512]].into_iter().map(matmul_of).collect();
        let (times, used, reused) = builds(batches(), gpu, &OPTIONS);
        println!("{gpu} matmul: {times:.1?} ms, {used} shared, {reused} reused");
        let (without, none, _) = builds(batches(), gpu, &Options::DEFAULT);
        println!("{gpu} matmul without: {without:.1?} ms");
        assert_eq!((used, none), (4, 0));
        assert_eq!(reused, 3, "{gpu}: all but the first kernel were there");
    }
    let images = || {
        [&[1, 64, 28, 28][..], &[4, 64, 28, 28], &[16, 64, 28, 28], &[32, 64, 28, 28]]
            .into_iter()
            .map(conv_of)
            .collect()
    };
    let (times, used, reused) = builds(images(), "h200", &OPTIONS);
    println!("h200 conv: {times:.1?} ms, {used} shared, {reused} reused");
    assert_eq!((used, reused), (4, 3));
    println!("h200 conv without: {:.1?} ms", builds(images(), "h200", &Options::DEFAULT).0);
}

/// Two threads that build with one cache at once make cuDNN fail, so they take turns.
#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn many_threads_share_one_cache() {
    let caches = KernelCaches::default();
    let sizes: [&'static [i64]; 8] =
        [&[16, 512], &[32, 512], &[48, 512], &[64, 512], &[96, 512], &[128, 512], &[192, 512], &[256, 512]];
    std::thread::scope(|scope| {
        for rows in sizes {
            let caches = &caches;
            scope.spawn(move || {
                let graph = Arc::new(matmul_of(rows));
                let program = compile_with("h200", &CompileRequest::new(&graph, &OPTIONS, &[256; 3]), caches).unwrap();
                assert_eq!(program.shared().0, 1, "{rows:?}");
            });
        }
    });
}
