//! Attention, asked of the real cuDNN for four GPUs on a machine without any.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod support;

use fused_graph_core::ir::Graph;
use fused_graph_core::trace::{Expr, ops::*};
use fused_graph_core::{DType, ErrorKind};
use std::sync::Mutex;
use support::{Arg, graph, is_one, kernels, summary};

const GPUS: [&str; 4] = ["a100", "rtx4090", "h200", "b200"];

type Options = fn(SdpaOptions, &[Expr]) -> SdpaOptions;

/// One attention: batch, query heads, key heads, queries, keys, width, width of v.
#[derive(Clone, Copy)]
struct Case {
    what: &'static str,
    shape: [i64; 7],
    dtype: DType,
    /// Dims and type of a further argument.
    extra: Option<(&'static [i64], DType)>,
    options: Options,
    /// Whether log-sum-exp, and max and sum, are returned too.
    results: (bool, bool),
}

const fn case(what: &'static str, shape: [i64; 7], options: Options) -> Case {
    Case { what, shape, dtype: DType::BF16, extra: None, options, results: (false, false) }
}

const fn with(case: Case, extra: &'static [i64], dtype: DType) -> Case {
    Case { extra: Some((extra, dtype)), ..case }
}

const USUAL: [i64; 7] = [4, 16, 16, 1024, 1024, 64, 64];
const GROUPED: [i64; 7] = [2, 32, 8, 512, 512, 128, 128];
const DECODE: [i64; 7] = [4, 32, 8, 1, 4096, 128, 128];

fn cases() -> Vec<Case> {
    let causal: Options = |o, _| o.causal(true);
    let mut cases = vec![
        case("full", USUAL, |o, _| o),
        case("causal", USUAL, causal),
        case("causal, host scale", USUAL, |o, a| o.causal(true).scale(a[a.len() - 1])),
        case("bottom right", [4, 16, 16, 512, 1024, 64, 64], |o, _| o.causal(true).bottom_right(true)),
        case("window", USUAL, |o, _| o.causal(true).left_window(127)),
        case("window on both sides", USUAL, |o, _| o.left_window(127).right_window(64)),
        case("window to the left", USUAL, |o, _| o.left_window(127)),
        case("window, bottom right", [2, 8, 8, 256, 512, 64, 64], |o, _| {
            o.causal(true).left_window(99).bottom_right(true)
        }),
        case("grouped", GROUPED, causal),
        case("one key head", [2, 32, 1, 512, 512, 128, 128], causal),
        case("decode", DECODE, |o, _| o),
        case("decode, bottom right", DECODE, |o, _| o.causal(true).bottom_right(true)),
        case("decode, window", DECODE, |o, _| o.causal(true).bottom_right(true).left_window(511)),
        case("odd lengths", [2, 4, 4, 1001, 1001, 64, 64], causal),
        case("few", [1, 2, 2, 3, 5, 32, 32], |o, _| o),
        case("unequal widths", [2, 8, 8, 256, 256, 192, 128], causal),
        case("softcap", USUAL, |o, _| o.causal(true).softcap(30.0)),
        with(case("bias", USUAL, |o, a| o.bias(a[3])), &[4, 16, 1024, 1024], DType::BF16),
        with(case("bias, causal", USUAL, |o, a| o.bias(a[3]).causal(true)), &[16, 1024, 1024], DType::BF16),
        with(case("slopes", USUAL, |o, a| o.alibi_slopes(a[3]).causal(true)), &[16], DType::F32),
        with(case("lengths", USUAL, |o, a| o.seq_len_kv(a[3]).seq_len_q(a[3])), &[4], DType::I32),
        with(case("lengths, causal", USUAL, |o, a| o.seq_len_kv(a[3]).seq_len_q(a[3]).causal(true)), &[4], DType::I32),
        with(
            case("lengths, bottom right, window", USUAL, |o, a| {
                o.seq_len_kv(a[3]).seq_len_q(a[3]).causal(true).bottom_right(true).left_window(99)
            }),
            &[4],
            DType::I32,
        ),
        with(case("sink", USUAL, |o, a| o.sink(a[3]).causal(true)), &[16], DType::F32),
        Case { results: (true, false), ..case("log-sum-exp", USUAL, causal) },
        Case { results: (true, false), ..case("log-sum-exp, full", USUAL, |o, _| o) },
        Case { results: (false, true), ..case("max and sum", USUAL, causal) },
        Case { results: (true, false), ..case("log-sum-exp, decode", DECODE, |o, _| o) },
        Case { dtype: DType::F16, ..case("F16", USUAL, causal) },
    ];
    for (what, bias) in [
        ("bias of keys", &[1024][..]),
        ("bias of batch and keys", &[4, 1, 1, 1024]),
        ("bias of queries and keys", &[1, 1, 1024, 1024]),
        ("bias of heads", &[16, 1024, 1024]),
        ("bias of batch, queries and keys", &[4, 1, 1024, 1024]),
        ("bias of heads and keys", &[16, 1, 1024]),
        ("bias of queries", &[1024, 1]),
    ] {
        cases.push(with(case(what, USUAL, |o, a| o.bias(a[3])), bias, DType::BF16));
    }
    for width in [32, 64, 80, 96, 128, 192, 256] {
        let what = Box::leak(format!("width {width}").into_boxed_str());
        cases.push(case(what, [2, 8, 4, 256, 256, width, width], causal));
    }
    cases
}

fn build(c: &Case) -> Graph {
    let [b, h, hk, s, t, d, e] = c.shape;
    let leak = |dims: Vec<i64>| -> &'static [i64] { dims.leak() };
    let mut args = vec![
        Arg(leak(vec![b, h, s, d]), c.dtype, false),
        Arg(leak(vec![b, hk, t, d]), c.dtype, false),
        Arg(leak(vec![b, hk, t, e]), c.dtype, false),
    ];
    args.extend(c.extra.map(|(dims, dtype)| Arg(dims, dtype, false)));
    graph(&args, |a| {
        let all = sdpa_stats_with(a[0], a[1], a[2], (c.options)(SdpaOptions::new(), a));
        let mut results = vec![all.output];
        if c.results.0 {
            results.push(all.log_sum_exp);
        }
        if c.results.1 {
            results.extend([all.max, all.sum_exp]);
        }
        results
    })
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn attentions_are_one_kernel() {
    let only = std::env::var("FUSED_GRAPH_CASE").ok();
    let mut queue: Vec<(&str, Case)> = Vec::new();
    for gpu in GPUS {
        queue.extend(cases().into_iter().filter(|c| only.as_ref().is_none_or(|o| c.what == o)).map(|c| (gpu, c)));
    }
    let (queue, bad) = (Mutex::new(queue), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some((gpu, case)) = queue.lock().unwrap().pop() else { return };
                    match kernels(gpu, build(&case)) {
                        Ok(program) if is_one(&program) => {
                            if only.is_some() {
                                println!("{gpu}: {}", program.reports()[0].engine);
                            }
                        }
                        Ok(program) => bad.lock().unwrap().push(format!(
                            "{} on {gpu}: {}\n{:?}",
                            case.what,
                            summary(&program),
                            program.cut_texts()
                        )),
                        Err(e) => bad.lock().unwrap().push(format!("{} on {gpu}: {e}", case.what)),
                    }
                }
            });
        }
    });
    let bad = bad.into_inner().unwrap();
    assert!(bad.is_empty(), "{} are not one kernel:\n{}", bad.len(), bad.join("\n"));
}

/// What cuDNN does not take is said before anything is built, with the rule.
#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn what_is_not_taken_is_said() {
    let more_queries = [2, 8, 8, 512, 256, 64, 64];
    let refused = [
        ("R60", Case { dtype: DType::F32, ..case("F32", USUAL, |o, _| o) }),
        ("R61", case("width", [2, 4, 4, 64, 64, 100, 100], |o, _| o)),
        ("R63", with(case("slopes", USUAL, |o, a| o.alibi_slopes(a[3])), &[16], DType::F32)),
        ("R64", with(case("bias", USUAL, |o, a| o.causal(true).bottom_right(true).bias(a[3])), &[1024], DType::BF16)),
        ("R65", case("more queries", more_queries, |o, _| o.causal(true).bottom_right(true))),
        ("R66", case("more queries, window", more_queries, |o, _| o.left_window(3))),
        (
            "R70",
            with(case("decode", DECODE, |o, a| o.seq_len_kv(a[3]).left_window(9).bottom_right(true)), &[4], DType::I32),
        ),
        ("R68", with(case("sink", [2, 4, 4, 1, 64, 64, 64], |o, a| o.sink(a[3])), &[4], DType::F32)),
    ];
    for (rule, case) in refused {
        let error = kernels("h200", build(&case)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(text.contains("`sdpa`") && text.contains(&format!("({rule})")), "{rule}: {text}");
    }
    let alone = graph(&[Arg(&[2, 4, 64, 64], DType::BF16, false)], |a| vec![sdpa_stats(a[0], a[0], a[0]).log_sum_exp]);
    assert!(kernels("h200", alone).unwrap_err().to_string().contains("R62"));
}
