//! What a GPU can do at best.

use super::Gpu;
use fused_graph_core::DType;
use fused_graph_core::fuse::Group;
use fused_graph_core::ir::Graph;

/// Dense floating-point operations a clock and multiprocessor of the tensor cores for 16-bit operands with F32 accumulation, by architecture
/// (NVIDIA's data sheets: peak rate over boost clock and multiprocessors).
const TENSOR_CORES: &[(u32, f64)] = &[
    (70, 1024.0),
    (75, 1024.0),
    (80, 2048.0),
    (86, 512.0),
    (87, 1024.0),
    (89, 512.0),
    (90, 4096.0),
    (100, 8192.0),
    (103, 8192.0),
    (120, 512.0),
];

/// Microseconds that the arithmetic or the memory traffic of a kernel takes at least; 0 where that is not known.
pub(super) fn micros(gpu: &Gpu, graph: &Graph, group: &Group, flops: u64, bytes: u64) -> f64 {
    let memory = bytes as f64 / gpu.rates.bytes_per_second * 1e6;
    let operands = group.core.map(|n| graph.value(graph.node(n).inputs[0]).dtype);
    let per_clock = TENSOR_CORES.iter().find(|(sm, _)| *sm == gpu.sm).map(|(_, rate)| rate);
    let (Some(dtype), Some(rate)) = (operands, per_clock) else {
        return if memory.is_finite() { memory } else { 0.0 };
    };
    let factor = match dtype.size() {
        1 => 2.0,
        2 => 1.0,
        _ if dtype == DType::F32 => 0.5,
        _ => return 0.0,
    };
    let peak = rate * factor * gpu.rates.clock_hz * gpu.rates.multiprocessors as f64;
    let bound = memory.max(flops as f64 / peak * 1e6);
    if bound.is_finite() { bound } else { 0.0 }
}
