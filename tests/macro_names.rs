//! Values of the graph are called what the user calls them, and know the line of the operation that made them.

#![allow(clippy::unwrap_used)]

use fused_graph::prelude::*;

#[fused_graph]
fn named(x: &Tensor, alpha: f32) -> (Tensor, Tensor) {
    /* ä€𝄞 */
    let doubled = alpha * x + x;
    let kept = {
        let inner = relu(doubled);
        sum(inner, axes = [0], keepdim = true)
    };
    let twice = |v: Expr| {
        let of_closure = v + v;
        -of_closure
    };
    let r#type: Expr = helper(kept);
    (twice(doubled), r#type)
}

fn helper(x: Expr) -> Expr {
    exp(x)
}

fn traced() -> fused_graph::Graph {
    let x = Tensor::from_slice(&[1.0_f32, 2.0], [2], &Device::cpu()).unwrap();
    named::graph(&x, 2.0).unwrap()
}

#[test]
fn lets_name_values() {
    let graph = traced();
    let names: Vec<String> = graph.nodes().map(|(_, node)| graph.label(node.output)).collect();
    assert_eq!(names, ["mul(…)", "doubled", "inner", "kept", "exp(…)", "of_closure", "neg(…)"]);
}

#[test]
fn operations_know_their_place() {
    let source: Vec<&str> = include_str!("macro_names.rs").lines().collect();
    let graph = traced();
    let places: Vec<String> = graph
        .nodes()
        .map(|(_, node)| {
            let (line, column) = (node.loc.line as usize, node.loc.column as usize);
            assert!(node.loc.file.ends_with("macro_names.rs"), "{}", node.loc.file);
            source[line - 1].chars().skip(column - 1).take(5).collect()
        })
        .collect();
    assert_eq!(places, ["alpha", "alpha", "relu(", "sum(i", "exp(x", "v + v", "-of_c"]);
}

#[test]
fn errors_name_the_users_line() {
    #[fused_graph]
    fn wrong(x: &Tensor, w: &Tensor) -> Tensor {
        matmul(x, w, transpose_a = false)
    }
    let line = line!() - 2;
    let x = Tensor::zeros([2, 3], DType::F32, &Device::cpu()).unwrap();
    let error = wrong(&x, &x).unwrap_err().to_string();
    assert!(error.contains(&format!("tests/macro_names.rs:{line}")) && error.contains("`x`"), "{error}");
}
