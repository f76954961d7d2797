//! Forms of convolutions and matmuls beside the plain ones, and what cuDNN makes of them.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod support;

use fused_graph_core::DType;
use fused_graph_core::backend::Options;
use fused_graph_core::ir::Graph;
use fused_graph_core::trace::ops::*;
use support::{Arg, graph, kernels_with, summary};

fn listing(options: &Options, alignment: u32, cases: Vec<(&str, Graph)>) -> String {
    let mut out = String::new();
    for (name, g) in cases {
        for gpu in ["a100", "rtx4090", "h200", "b200"] {
            let line = match kernels_with(gpu, g.clone(), options, alignment) {
                Ok(p) => {
                    let cuts: Vec<String> = p
                        .cut_texts()
                        .into_iter()
                        .map(|(v, r)| format!("  cut at {v}: {}", r.split(" (`").next().unwrap_or(&r)))
                        .collect();
                    let notes: Vec<String> =
                        p.reports().into_iter().flat_map(|r| r.notes).filter(|n| n.contains("copied")).collect();
                    format!(
                        "{}{}{}",
                        summary(&p),
                        notes.iter().map(|n| format!("  [{n}]")).collect::<String>(),
                        cuts.concat()
                    )
                }
                Err(e) => without_place(e.to_string().lines().next().unwrap_or_default()),
            };
            out += &format!("{name} | {gpu} | {line}\n");
        }
    }
    out
}

/// Without the line of this file, which moves.
fn without_place(text: &str) -> String {
    let Some((before, after)) = text.split_once(" at cudnn/tests/forms.rs:") else { return text.to_owned() };
    format!("{before}{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Compares with what was recorded under cuDNN 9.19 (`BLESS=1` records). Newer versions may fuse more; what they must not do is refuse what 9.19 runs.
fn expect(name: &str, got: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/forms/{name}.txt"));
    let version = fused_graph_cudnn::library::Library::for_planning().unwrap().version().to_string();
    if std::env::var_os("BLESS").is_some() && version.starts_with("9.19.") {
        return std::fs::write(&path, got).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap();
    if version.starts_with("9.19.") {
        let wrong: Vec<String> =
            want.lines().zip(got.lines()).filter(|(w, g)| w != g).map(|(w, g)| format!("- {w}\n+ {g}")).collect();
        assert!(wrong.is_empty() && want.lines().count() == got.lines().count(), "{name}:\n{}", wrong.join("\n"));
        return;
    }
    for (w, g) in want.lines().zip(got.lines()) {
        assert!(
            w.contains("unsupported error") || !g.contains("error"),
            "cuDNN {version} refuses what 9.19 runs:\n{g}"
        );
    }
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn convolution_forms() {
    const B: DType = DType::BF16;
    let nhwc = |x: &'static [i64], w: &'static [i64]| [Arg(x, B, true), Arg(w, B, true), Arg(&[16], B, false)];
    let nchw = [Arg(&[2, 8, 9, 7], B, false), Arg(&[16, 8, 3, 3], B, false), Arg(&[16], B, false)];
    let mixed = [Arg(&[2, 8, 9, 7], B, true), Arg(&[16, 8, 3, 3], B, false), Arg(&[16], B, false)];
    let c = |o: ConvOptions| o;
    let cases = vec![
        (
            "1-D + bias + gelu",
            graph(&nhwc(&[2, 8, 33], &[16, 8, 3]), |a| gelu(conv1d_with(a[0], a[1], ConvOptions::new().bias(a[2])))),
        ),
        (
            "3-D + bias + gelu",
            graph(&nhwc(&[2, 8, 5, 9, 7], &[16, 8, 3, 3, 3]), |a| {
                gelu(conv3d_with(a[0], a[1], ConvOptions::new().bias(a[2]).padding(1)))
            }),
        ),
        (
            "stride, dilation, sides + relu",
            graph(&nhwc(&[2, 8, 17, 33], &[16, 8, 3, 3]), |a| {
                relu(conv2d_with(
                    a[0],
                    a[1],
                    c(ConvOptions::new().stride([2, 1]).dilation(2).padding([(0, 1), (2, 3)])),
                ))
            }),
        ),
        (
            "grouped + bias + relu",
            graph(&nhwc(&[2, 8, 9, 7], &[16, 2, 3, 3]), |a| {
                relu(conv2d_with(a[0], a[1], c(ConvOptions::new().bias(a[2]).groups(4))))
            }),
        ),
        (
            "grouped + bias + gelu",
            graph(&nhwc(&[2, 8, 9, 7], &[16, 2, 3, 3]), |a| {
                gelu(conv2d_with(a[0], a[1], c(ConvOptions::new().bias(a[2]).groups(4))))
            }),
        ),
        (
            "depthwise + bias + relu",
            graph(&nhwc(&[2, 16, 9, 7], &[16, 1, 3, 3]), |a| {
                relu(conv2d_with(a[0], a[1], c(ConvOptions::new().bias(a[2]).groups(16))))
            }),
        ),
        (
            "depthwise + bias + gelu",
            graph(&nhwc(&[2, 16, 9, 7], &[16, 1, 3, 3]), |a| {
                gelu(conv2d_with(a[0], a[1], c(ConvOptions::new().bias(a[2]).groups(16))))
            }),
        ),
        ("NCHW", graph(&nchw, |a| conv2d(a[0], a[1]))),
        ("NCHW + bias + relu", graph(&nchw, |a| relu(conv2d_with(a[0], a[1], ConvOptions::new().bias(a[2]))))),
        ("NCHW + bias + gelu", graph(&nchw, |a| gelu(conv2d_with(a[0], a[1], ConvOptions::new().bias(a[2]))))),
        ("NHWC data, NCHW weights", graph(&mixed, |a| relu(conv2d_with(a[0], a[1], ConvOptions::new().bias(a[2]))))),
        (
            "3 channels, 10 filters",
            graph(&[Arg(&[1, 3, 17, 33], B, true), Arg(&[10, 3, 7, 7], B, true), Arg(&[10], B, false)], |a| {
                relu(conv2d_with(a[0], a[1], ConvOptions::new().bias(a[2]).stride(2).padding(3)))
            }),
        ),
        (
            "sum per channel beside the result",
            graph(&nhwc(&[2, 8, 9, 7], &[16, 8, 3, 3]), |a| {
                let y = conv2d(a[0], a[1]);
                (y, sum_with(y, ReduceOptions::new().axes([0, 2, 3])))
            }),
        ),
        ("mean", graph(&nhwc(&[2, 8, 9, 7], &[16, 8, 3, 3]), |a| mean(relu(conv2d(a[0], a[1]))))),
        ("relu(x) in front", graph(&nhwc(&[2, 8, 9, 7], &[16, 8, 3, 3]), |a| gelu(conv2d(relu(a[0]), a[1])))),
        ("bias - conv", graph(&nhwc(&[2, 8, 9, 7], &[16, 8, 3, 3]), |a| per_channel(a[2]) - conv2d(a[0], a[1]))),
        (
            "mask beside the result",
            graph(&nhwc(&[2, 8, 9, 7], &[16, 8, 3, 3]), |a| {
                let y = conv2d(a[0], a[1]);
                (relu(y), gt(y, 0.0))
            }),
        ),
        (
            "select",
            graph(&nhwc(&[2, 8, 9, 7], &[16, 8, 3, 3]), |a| {
                let y = conv2d(a[0], a[1]);
                select(gt(y, 0.0), y, exp(y))
            }),
        ),
        (
            "two in a row",
            graph(&[Arg(&[2, 16, 9, 7], B, true), Arg(&[16, 16, 3, 3], B, true), Arg(&[16], B, false)], |a| {
                conv2d(relu(conv2d(a[0], a[1])), a[1])
            }),
        ),
    ];
    expect("convolutions", &listing(&Options::DEFAULT, 256, cases));
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn matmul_forms() {
    const H: DType = DType::F16;
    let args = [Arg(&[4, 33, 17], H, false), Arg(&[4, 17, 65], H, false), Arg(&[65], H, false)];
    let plain = |x: &'static [i64], w: &'static [i64]| [Arg(x, H, false), Arg(w, H, false), Arg(&[65], H, false)];
    let cases = vec![
        ("odd sizes + gelu", graph(&args, |a| gelu(matmul(a[0], a[1]) + a[2]))),
        ("rank 2 + relu", graph(&plain(&[33, 17], &[17, 65]), |a| relu(matmul(a[0], a[1]) + a[2]))),
        ("rank 4", graph(&plain(&[2, 3, 33, 17], &[2, 3, 17, 65]), |a| relu(matmul(a[0], a[1]) + a[2]))),
        ("rank 3 by rank 2", graph(&plain(&[4, 33, 17], &[17, 65]), |a| relu(matmul(a[0], a[1]) + a[2]))),
        ("one batch by many", graph(&plain(&[1, 33, 17], &[4, 17, 65]), |a| relu(matmul(a[0], a[1]) + a[2]))),
        (
            "batches repeated in part",
            graph(&plain(&[2, 1, 33, 17], &[2, 3, 17, 65]), |a| relu(matmul(a[0], a[1]) + a[2])),
        ),
        (
            "transposed both",
            graph(&[Arg(&[4, 17, 33], H, false), Arg(&[4, 65, 17], H, false)], |a| {
                relu(matmul_with(a[0], a[1], MatmulOptions::new().transpose_a(true).transpose_b(true)))
            }),
        ),
        ("a row, a column", graph(&[Arg(&[1, 17], H, false), Arg(&[17, 1], H, false)], |a| relu(matmul(a[0], a[1])))),
        ("with itself", graph(&[Arg(&[4, 33, 33], H, false)], |a| relu(matmul(a[0], a[0])))),
        (
            "with itself transposed",
            graph(&[Arg(&[4, 33, 17], H, false)], |a| {
                relu(matmul_with(a[0], a[0], MatmulOptions::new().transpose_b(true)))
            }),
        ),
        (
            "row maxima beside the result",
            graph(&args, |a| {
                let y = matmul(a[0], a[1]);
                (y, max_with(y, ReduceOptions::new().axes(-1).keepdim(true)))
            }),
        ),
        (
            "softmax",
            graph(&args, |a| {
                let y = matmul(a[0], a[1]);
                let e = exp(y - max_with(y, ReduceOptions::new().axes(-1).keepdim(true)));
                e / sum_with(e, ReduceOptions::new().axes(-1).keepdim(true))
            }),
        ),
        ("cast to f32", graph(&args, |a| cast(matmul(a[0], a[1]), DType::F32))),
        (
            "to fp8 with amax",
            graph(&args, |a| {
                let y = matmul(a[0], a[1]);
                (cast(y * a[3], DType::F8E4M3), amax(y))
            }),
        ),
        (
            "i8",
            graph(&[Arg(&[4, 32, 64], DType::I8, false), Arg(&[4, 64, 32], DType::I8, false)], |a| matmul(a[0], a[1])),
        ),
        (
            "f8e4m3",
            graph(&[Arg(&[1, 64, 64], DType::F8E4M3, false), Arg(&[1, 64, 64], DType::F8E4M3, false)], |a| {
                cast(matmul_with(a[0], a[1], MatmulOptions::new().transpose_b(true)) * a[2], DType::BF16)
            }),
        ),
        ("permuted result", graph(&args, |a| relu(permute(matmul(a[0], a[1]), [0, 2, 1])))),
        (
            "two in a row",
            graph(&[Arg(&[4, 33, 33], H, false), Arg(&[4, 33, 33], H, false)], |a| {
                matmul(relu(matmul(a[0], a[1])), a[1])
            }),
        ),
        (
            "siblings",
            graph(&[Arg(&[4, 33, 17], H, false), Arg(&[4, 17, 65], H, false), Arg(&[4, 17, 65], H, false)], |a| {
                silu(matmul(a[0], a[1])) * matmul(a[0], a[2])
            }),
        ),
    ];
    let mut out = listing(&Options::DEFAULT, 256, cases);
    for alignment in [2, 4, 8] {
        let odd = vec![("odd alignment + gelu", graph(&args, |a| gelu(matmul(a[0], a[1]) + a[2])))];
        out += &format!("{alignment}: {}", listing(&Options::DEFAULT, alignment, odd));
    }
    expect("matmuls", &out);
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn options() {
    const F: DType = DType::F32;
    let conv = || {
        graph(&[Arg(&[2, 8, 9, 7], F, true), Arg(&[16, 8, 3, 3], F, true), Arg(&[16], F, false)], |a| {
            relu(conv2d_with(a[0], a[1], ConvOptions::new().bias(a[2])))
        })
    };
    let gelu_conv = || {
        graph(&[Arg(&[2, 8, 9, 7], F, true), Arg(&[16, 8, 3, 3], F, true), Arg(&[16], F, false)], |a| {
            gelu(conv2d_with(a[0], a[1], ConvOptions::new().bias(a[2])))
        })
    };
    let mm = || graph(&[Arg(&[4, 32, 64], F, false), Arg(&[4, 64, 32], F, false)], |a| relu(matmul(a[0], a[1])));
    let mut out = String::new();
    for (name, options) in [
        ("default", Options::DEFAULT),
        ("tf32 = false", Options { tf32: false, ..Options::DEFAULT }),
        ("deterministic", Options { deterministic: true, ..Options::DEFAULT }),
    ] {
        out += &format!(
            "{name}\n{}",
            listing(&options, 256, vec![("conv", conv()), ("conv + gelu", gelu_conv()), ("matmul", mm())])
        );
    }
    expect("options", &out);
}
