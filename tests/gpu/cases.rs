//! Faults that people met doing this job, as tests on a GPU. `cases.rs` runs the same on the CPU.

use crate::common::{broadcasting, keys, order, threads};
use fused_graph::prelude::*;

macro_rules! on_gpu {
    ($($name:ident => $case:path;)*) => {$( #[test] #[ignore = "needs a GPU; cargo xtask bundle"] fn $name() { $case(&Device::cuda(0).unwrap()) } )*};
}

on_gpu! {
    case_1 => keys::case_1_strides_and_types;
    case_2 => keys::case_2_generic_functions;
    case_3 => keys::case_3_scalars_and_presence;
    case_6 => keys::case_6_alignment;
    case_7_epilogues => broadcasting::case_7_epilogues;
    case_7_batches => broadcasting::case_7_batches;
    case_7_by_hand => broadcasting::case_7_by_hand;
    case_13_one_signature => threads::case_13_one_signature;
    case_13_many_signatures => threads::case_13_many_signatures;
    case_13_own_buffers => threads::case_13_own_buffers;
    case_13_eviction => threads::case_13_eviction;
    case_13_panic => threads::case_13_panic;
    case_13_mistakes => threads::case_13_mistakes;
    case_13_refusals => threads::case_13_refusals;
    case_22_matmul => order::case_22_matmul;
    case_22_convolution => order::case_22_convolution;
    case_22_expressions => order::case_22_expressions;
}
