// Options of the attribute: all mistakes at once, the function stays.
use fused_graph::prelude::*;

#[fused_graph(
    determinstic,
    tf32 = "no",
    tf32,
    workspace_limit = "64 apples",
    heuristics = [A, Fallbak],
    deny = [tensor_cores],
    engine = "engine 4",
    engines = 4,
    deny_engines = [-1],
    sm_count = 0,
    crate = 3,
    + 4,
)]
fn settings(x: &Tensor) -> Tensor {
    relu(x)
}

#[fused_graph(workspace_limit = true, workspace_limit = "99999999999 TiB", heuristics = [])]
fn values(x: &Tensor) -> Tensor {
    relu(x)
}

#[fused_graph]
#[fused_graph(tf32 = false)]
fn twice(x: &Tensor) -> Tensor {
    relu(x)
}

fn main() {
    let x = Tensor::zeros([2], DType::F32, &Device::cpu()).unwrap();
    let _ = (settings(&x), settings::plan(&x), values(&x), twice(&x));
}
