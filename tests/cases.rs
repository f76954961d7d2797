//! Faults that people met doing this job, as tests on the CPU. `gpu_cases.rs` runs the same on a GPU.

mod common;

use common::{broadcasting, fake, keys, order, threads};
use fused_graph::Device;

macro_rules! on_cpu {
    ($($name:ident => $case:path;)*) => {$( #[test] fn $name() { $case(&Device::CPU) } )*};
}

on_cpu! {
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
    case_22_matmul => order::case_22_matmul;
    case_22_convolution => order::case_22_convolution;
    case_22_expressions => order::case_22_expressions;
}

#[test]
fn case_13_refusals() {
    threads::case_13_refusals(&fake::device(13));
}

const _: () = threads::case_13_shared();
