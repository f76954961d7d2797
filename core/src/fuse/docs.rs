//! `docs/fusion.md`, printed from the table.

use super::rules::{Around, Part, RULES, Rule, Where};
use std::fmt::Write;

/// The text of `docs/fusion.md`.
pub fn rules_markdown() -> String {
    let mut out = String::from(INTRO);
    for (part, title) in PARTS {
        let _ = write!(out, "\n## {title}\n\n| rule | round | on | |\n|---|---|---|---|\n");
        for rule in RULES.iter().filter(|r| r.part == part) {
            let _ = writeln!(out, "| {} | {} | {} | {} |", rule.id, around(rule), on(rule), rule.sentence);
        }
    }
    out
}

const INTRO: &str = "# What goes into one kernel

<!-- Printed from the table in core/src/fuse/rules.rs. Do not edit: `FUSED_GRAPH_BLESS=1 cargo test -p fused-graph-core fusion_md` rewrites it. -->

A traced function is divided into kernels round its core operations: convolutions, matrix products, normalisations, softmax, attention, pooling. Each core takes the operations that follow it
as its *epilogue*: pointwise operations, also several results, and reductions at the exits. It takes pointwise operations in front of its operands as
its *prologue*. What is left is grouped into kernels of pointwise operations and reductions.

Everything is fused that none of these rules forbids. On a GPU cuDNN has the last word: if no engine runs a kernel, it is cut again (the
prologue comes off first, then the reductions, then the end of the epilogue), and `explain` prints the engines' own reasons. A reason in `explain`
that starts with an id is one of these rules.
";

const PARTS: [(Part, &str); 5] = [
    (Part::Kernel, "Every kernel"),
    (Part::Core, "The core operation"),
    (Part::Epilogue, "Epilogue: pointwise operations behind a core"),
    (Part::Reduction, "Reductions behind a core"),
    (Part::Prologue, "Prologue: operations in front of a core"),
];

fn around(rule: &Rule) -> &'static str {
    match rule.around {
        Around::Any => "anything",
        Around::Core => "any core",
        Around::Conv => "convolution",
        Around::Matmul => "matrix product",
        Around::Norm => "normalisation",
        Around::Softmax => "softmax",
        Around::Attention => "attention",
        Around::Pool => "pooling",
    }
}

fn on(rule: &Rule) -> String {
    let Where::Gpus(spans) = rule.on else {
        return match rule.on {
            Where::Everywhere => "all devices",
            Where::Cpu => "CPU",
            _ => "GPU",
        }
        .to_owned();
    };
    let span = |s: &super::rules::Span| {
        let mut text = match (s.sm_from, s.sm_below) {
            (0, u32::MAX) => "GPU".to_owned(),
            (from, u32::MAX) => format!("sm_{from} and later"),
            (0, below) => format!("before sm_{below}"),
            (from, below) => format!("sm_{from} to before sm_{below}"),
        };
        let version = |v: u32| match v % 100 {
            0 => format!("{}.{}", v / 10000, v / 100 % 100),
            patch => format!("{}.{}.{patch}", v / 10000, v / 100 % 100),
        };
        let _ = match (s.cudnn_from, s.cudnn_below) {
            (0, u32::MAX) => Ok(()),
            (0, below) => write!(text, " with cuDNN before {}", version(below)),
            (from, below) => write!(text, " with cuDNN {} to before {}", version(from), version(below)),
        };
        text
    };
    spans.iter().map(span).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn fusion_md_is_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/fusion.md");
        let text = super::rules_markdown();
        if std::env::var_os("FUSED_GRAPH_BLESS").is_some() {
            std::fs::write(path, text).unwrap();
        } else {
            assert_eq!(include_str!("../../../docs/fusion.md"), text, "FUSED_GRAPH_BLESS=1 rewrites {path}");
        }
    }

    #[test]
    fn ids_are_unique_and_rules_are_sentences() {
        let ids: std::collections::BTreeSet<&str> = super::RULES.iter().map(|r| r.id).collect();
        assert_eq!(ids.len(), super::RULES.len());
        assert!(super::RULES.iter().all(|r| r.sentence.len() > 20 && !r.sentence.ends_with('.')));
    }
}
