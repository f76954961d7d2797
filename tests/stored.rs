//! Plans as bytes: the same program on the CPU and on a GPU.
#![allow(clippy::unwrap_used)]

mod common;

use common::stored;
use fused_graph::prelude::*;

#[test]
fn bytes_and_back() {
    stored::bytes_and_back(&Device::cpu());
}

#[test]
fn bytes_that_do_not_fit() {
    stored::bytes_that_do_not_fit(&Device::cpu());
}
