//! Case 43: the framework only by way of another crate, by path and by that crate's macros.

#![deny(warnings)]

use exporter::deep::fg::{self, ops, Tensor};

#[fg::fused_graph(crate = fg)]
pub fn by_path(x: &Tensor, alpha: f32) -> [Tensor; 2] {
    let y = ops::sum(alpha * x, axes = [0], keepdim = true);
    [y, ops::relu(y)]
}

exporter::layer!(
    pub enum Mode {
        On,
        Off,
    }
);

exporter::layer! {
    /// Documented.
    #[must_use]
    pub fn by_macro(x: &Tensor, alpha: f32, mode: Mode) -> Tensor {
        let y = ops::max(alpha * x, axes = [0]);
        if matches!(mode, Mode::On) { ops::relu(y) } else { y }
    }
}

exporter::pooled!(whole);

#[test]
fn run() {
    let x = Tensor::from_slice(&[1.0_f32, -2.0], [2], &fg::Device::cpu()).unwrap();
    assert_eq!(by_path::graph(&x, 2.0).unwrap().nodes().len(), 3);
    let graph = by_macro::graph(&x, -1.0, Mode::On).unwrap();
    assert_eq!(graph.nodes().map(|(_, n)| graph.label(n.output)).collect::<Vec<_>>(), ["mul(…)", "y", "relu(…)"]);
    let [y, z] = by_path(&x, 2.0).unwrap();
    assert_eq!((y.to_vec::<f32>().unwrap(), z.to_vec::<f32>().unwrap()), (vec![-2.0], vec![0.0]));
    assert_eq!(by_macro(&x, -1.0, Mode::Off).unwrap().to_vec::<f32>().unwrap(), [2.0]);
    assert_eq!(whole(&x).unwrap().to_vec::<f32>().unwrap(), [1.0]);
}
