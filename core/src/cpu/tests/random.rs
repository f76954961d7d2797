//! Random graphs.

use super::*;
use crate::fuse::tests::random::Generator;

#[test]
fn random_graphs_in_f64_agree_closely() {
    for seed in 0..400 {
        check(Generator::graph(seed, DType::F64), seed, &format!("seed {seed}"));
    }
}

#[test]
fn random_graphs_in_f32_agree() {
    for seed in 0..400 {
        check(Generator::graph(seed, DType::F32), seed, &format!("seed {seed}"));
    }
}
