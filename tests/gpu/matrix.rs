//! Every operation × element type × layout × odd sizes against the oracle, on a GPU. Outputs are poisoned first.

use crate::common::matrix::{self, Case};
use crate::common::{attention, norms, pools};
use fused_graph::prelude::*;

fn all(make: fn(&Device) -> Vec<Case>) {
    let device = Device::cuda(0).unwrap();
    let (total, wrong) = matrix::run_all(&device, 14, make(&device));
    println!("{total} cases on {device}, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} of {total} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn pointwise() {
    all(matrix::pointwise);
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn reductions_and_casts() {
    all(matrix::reductions);
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn cores() {
    all(matrix::cores);
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn epilogues() {
    all(matrix::epilogues);
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn norms_and_softmax() {
    all(norms::matrix);
    norms::known_values(&Device::cuda(0).unwrap());
    norms::known_channels(&Device::cuda(0).unwrap());
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn attentions() {
    all(attention::matrix);
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn exact_attention() {
    attention::exact_probes(&Device::cuda(0).unwrap());
    attention::scale_by_value(&Device::cuda(0).unwrap());
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn pooling() {
    all(pools::matrix);
    pools::known_windows(&Device::cuda(0).unwrap());
}
