//! Bound calls and their graphs on the CPU. `gpu_bind.rs` runs the same on a GPU.

mod common;

use common::bind;
use fused_graph::Device;

macro_rules! on_cpu {
    ($($name:ident;)*) => {$( #[test] fn $name() { bind::$name(&Device::CPU) } )*};
}

on_cpu! {
    launches_agree_with_calls;
    several_kernels_and_views;
    every_kind_of_parameter;
    rebinding;
    what_does_not_fit_is_refused;
    case_4_replays_are_never_stale;
    a_graph_outlives_what_it_was_made_of;
    several_calls_in_one_graph;
    other_threads;
    calls_share_no_buffers;
}
