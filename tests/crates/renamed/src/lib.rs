//! Case 43: a renamed dependency, in edition 2018.

#![deny(warnings)]

use framework::ops::{matmul, relu};
use framework::{fused_graph as fuse, Attr, Tensor};

#[derive(Clone, Copy, Attr)]
#[attr(crate = framework)]
pub enum Act {
    Relu,
    Nothing,
}

#[fuse(crate = framework, heuristics = [A, Fallback], workspace_limit = "1MiB")]
pub fn layer(x: &Tensor, act: Act) -> Tensor {
    let y = matmul(x, x, transpose_b = true);
    match act {
        Act::Relu => relu(y),
        Act::Nothing => y,
    }
}

#[test]
fn runs() {
    let x = Tensor::from_slice(&[1.0_f32, -1.0], [2, 1], &framework::Device::cpu()).unwrap();
    let graph = layer::graph(&x, Act::Relu).unwrap();
    assert_eq!(graph.nodes().filter(|(_, n)| graph.label(n.output) == "y").count(), 1);
    assert_eq!(layer(&x, Act::Relu).unwrap().to_vec::<f32>().unwrap(), [1.0, 0.0, 0.0, 1.0]);
    assert_eq!(layer(&x, Act::Nothing).unwrap().to_vec::<f32>().unwrap(), [1.0, -1.0, -1.0, 1.0]);
}
