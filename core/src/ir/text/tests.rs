//! There and back, and no panic on anything.

use crate::dtype::DType;
use crate::fuse::tests::random::Generator;
use crate::ir::{ConvAttrs, Graph, Op, Params, PointwiseMode, ScalarType, SourceLoc, ViewOp};
use crate::layout::Dims;
use proptest::prelude::*;

fn dims(d: &[i64]) -> Dims {
    Dims::new(d).unwrap()
}

fn example() -> Graph {
    let mut g = Graph::new("conv \"bias\" relu");
    let d = dims(&[2, 4, 6, 6]);
    let x = g.add_input("x", DType::BF16, d, d.channels_last_strides());
    let w = g.add_input("w", DType::BF16, dims(&[4, 4, 3, 3]), dims(&[72, 18, 6, 2]));
    let b = g.add_input("return", DType::BF16, dims(&[4]), dims(&[1]));
    let alpha = g.add_scalar("alpha", ScalarType::F32);
    let c = g.add_const(-0.0);
    let loc = SourceLoc { file: "src/net.rs", line: 12, column: 5 };
    let pad = dims(&[1, 1]);
    let attrs = ConvAttrs { pre_padding: pad, post_padding: pad, ..ConvAttrs::new(2) };
    let y = g.add_node(Op::Conv(attrs), &[x, w], loc).unwrap();
    let b = g.add_node(Op::View(ViewOp::Reshape(dims(&[4, 1, 1]))), &[b], SourceLoc::NONE).unwrap();
    let y = g.add_node(Op::Pointwise(PointwiseMode::Add, Params::DEFAULT), &[y, b], loc).unwrap();
    let s = g.add_node(Op::Pointwise(PointwiseMode::Mul, Params::DEFAULT), &[alpha, c], loc).unwrap();
    let y = g.add_node(Op::Pointwise(PointwiseMode::Mul, Params::DEFAULT), &[y, s], loc).unwrap();
    g.set_name(y, "y");
    let params = Params { slope: 0.1 + 0.2, upper_clip: f64::NAN, lower_clip: f64::NEG_INFINITY, ..Params::DEFAULT };
    let z = g.add_node(Op::Pointwise(PointwiseMode::Relu, params), &[y], loc).unwrap();
    g.set_name(z, "y");
    g.set_outputs([z, y]);
    g
}

#[test]
fn what_it_looks_like() {
    insta::assert_snapshot!(example());
    insta::assert_snapshot!("canonical", example().canonical_text());
}

#[test]
fn there_and_back() {
    let g = example();
    let text = g.to_string();
    let back: Graph = text.parse().unwrap();
    // NaN is not equal to itself, but its text is.
    assert_eq!(back.to_string(), text);
    assert_eq!(back.canonical_text(), g.canonical_text());
    assert_eq!(g.canonical_text().parse::<Graph>().unwrap().canonical_text(), g.canonical_text());
    for seed in 0..500 {
        for dtype in [DType::F32, DType::BF16, DType::F64] {
            let g = Generator::graph(seed, dtype);
            let text = g.to_string();
            let back: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(back, g, "{text}");
            let canonical: Graph = g.canonical_text().parse().unwrap();
            assert_eq!(canonical.canonical_text(), g.canonical_text());
        }
    }
}

#[test]
fn names_and_places_are_not_part_of_the_key() {
    let text = example().to_string();
    let other = text.replace("src/net.rs", "elsewhere.rs").replace("alpha", "beta").replace("12:5", "99:1");
    assert_ne!(text, other);
    assert_eq!(other.parse::<Graph>().unwrap().canonical_text(), example().canonical_text());
    let other = text.replace("pre_padding [1, 1], post_padding [1, 1]", "pre_padding [0, 2], post_padding [2, 0]");
    assert_ne!(other.parse::<Graph>().unwrap().canonical_text(), example().canonical_text());
}

#[test]
fn errors_name_the_place() {
    let graph = |body: &str| format!("graph \"f\" {{\n  x = input f32 [2, 3]\n{body}\n  return x\n}}\n");
    let error = |text: &str| text.parse::<Graph>().unwrap_err().to_string();
    let cases = [
        String::new(),
        "graph {".to_owned(),
        "grap {\n}".to_owned(),
        graph("  y = relu x f32 [2, 4]"),
        graph("  y = relu z f32 [2, 3]"),
        graph("  y = rellu x f32 [2, 3]"),
        graph("  y = relu x (slop 1) f32 [2, 3]"),
        graph("  y = relu x (slope [1]) f32 [2, 3]"),
        graph("  y = matmul x f32 [2, 3]"),
        graph("  y = matmul x, x f32 [2, 3]"),
        graph("  x = input f32 [2]"),
        graph("  %7 = input f32 [2]"),
        graph("  y = input f33 [2]"),
        graph("  y = input f32 [-2]"),
        graph("  y = input f32 [1, 1, 1, 1, 1, 1, 1, 1, 1]"),
        graph("  y = input f32 [9223372036854775807, 9]"),
        graph("  y = input f32 [2, 3] strides [1]"),
        graph("  y = input f32 [2, 3] strides [9223372036854775807, 9223372036854775807]"),
        graph("  y = permute x (perm [0, 0]) f32 [2, 3]"),
        graph("  y = squeeze x (axis 99) f32 [2, 3]"),
        graph("  y = sum x (axes [9]) f32 []"),
        graph("  y = const 1.2.3"),
        graph("  y = relu x f32 [2, 3] @ src:1"),
        graph("") + "more",
    ];
    let texts: Vec<String> = cases.iter().map(|text| error(text)).collect();
    insta::assert_snapshot!(texts.join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = text.parse::<Graph>();
    }

    #[test]
    fn no_damage_panics(seed in 0u64..200, at in 0usize..4000, with in "[ -~\n]{0,6}", cut in 0usize..40) {
        let mut text = Generator::graph(seed, DType::F32).to_string();
        let boundary = |mut i: usize, text: &str| { i = i.min(text.len()); while !text.is_char_boundary(i) { i -= 1; } i };
        let (from, to) = (boundary(at % (text.len() + 1), &text), boundary(at % (text.len() + 1) + cut, &text));
        text.replace_range(from..to, &with);
        if let Ok(graph) = text.parse::<Graph>() {
            let _ = (graph.to_string(), graph.canonical_text());
        }
    }
}
