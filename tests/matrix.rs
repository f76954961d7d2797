//! Every operation × element type × layout × odd sizes against the oracle, on the CPU. Outputs are poisoned first.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::matrix::{self, Case};
use common::{attention, norms, pools};
use fused_graph::prelude::*;

fn all(make: fn(&Device) -> Vec<Case>) {
    let device = Device::CPU;
    let (total, wrong) = matrix::run_all(&device, 2, make(&device));
    println!("{total} cases on {device}, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} of {total} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]

fn pointwise() {
    all(matrix::pointwise);
}

#[test]

fn reductions_and_casts() {
    all(matrix::reductions);
}

#[test]

fn cores() {
    all(matrix::cores);
}

#[test]

fn epilogues() {
    all(matrix::epilogues);
}

#[test]

fn norms_and_softmax() {
    all(norms::matrix);
    norms::known_values(&Device::CPU);
    norms::known_channels(&Device::CPU);
}

#[test]

fn attentions() {
    all(attention::matrix);
}

#[test]

fn exact_attention() {
    attention::exact_probes(&Device::CPU);
    attention::scale_by_value(&Device::CPU);
}

#[test]
fn pooling() {
    all(pools::matrix);
    pools::known_windows(&Device::CPU);
}
