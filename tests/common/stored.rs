//! Plans as bytes, on any device.

use fused_graph::prelude::*;
use fused_graph::{ErrorKind, PlanSource};

#[fused_graph]
fn linear(x: &Tensor, w: &Tensor, b: &Tensor, alpha: f32) -> (Tensor, Tensor) {
    let y = gelu(alpha * matmul(x, w) + b);
    (y, amax(y))
}

#[fused_graph]
fn other(x: &Tensor, w: &Tensor) -> Tensor {
    relu(matmul(x, w))
}

fn arguments(dev: &Device) -> [Tensor; 3] {
    let half = dev.preferred_half();
    [[4, 64, 32], [4, 32, 48]]
        .map(|dims| Tensor::randn(dims, half, dev).unwrap())
        .into_iter()
        .chain([Tensor::randn([48], half, dev).unwrap()])
        .collect::<Vec<_>>()
        .try_into()
        .unwrap()
}

fn values(t: &Tensor) -> Vec<f32> {
    t.to_dtype(DType::F32).unwrap().to_vec().unwrap()
}

pub fn bytes_and_back(dev: &Device) {
    let [x, w, b] = arguments(dev);
    let (y, largest) = linear(&x, &w, &b, 0.5).unwrap();
    let bytes = linear::plan(&x, &w, &b, 0.5).unwrap().to_bytes().unwrap();
    linear::clear();
    linear::load(dev, &bytes).unwrap();
    let built = linear::stats().plans_built;
    let (y2, largest2) = linear(&x, &w, &b, 0.5).unwrap();
    assert_eq!((values(&y), values(&largest)), (values(&y2), values(&largest2)));
    let stats = linear::stats();
    if !dev.is_cpu() {
        assert_eq!((stats.plans_built, stats.plans_loaded > 0), (built, true), "{stats}");
        linear::clear();
        let plan = linear::plan(&x, &w, &b, 0.5).unwrap();
        assert_eq!(plan.explain().source, PlanSource::Loaded, "{}", plan.explain());
        assert_eq!(plan.to_bytes().unwrap(), bytes);
    }
}

pub fn bytes_that_do_not_fit(dev: &Device) {
    let [x, w, b] = arguments(dev);
    let plan = linear::plan(&x, &w, &b, 0.5).unwrap();
    let bytes = plan.to_bytes().unwrap();
    let kind = |bytes: &[u8]| linear::load(dev, bytes).unwrap_err().kind();
    assert_eq!(kind(b""), ErrorKind::Cache);
    assert_eq!(kind(b"nothing of ours"), ErrorKind::Cache);
    assert_eq!(kind(&bytes[..bytes.len() - 1]), ErrorKind::Cache);
    let text = other::load(dev, &bytes).unwrap_err().to_string();
    assert!(text.contains("a plan of `linear`, not of `other`"), "{text}");
    let mut entry = fused_graph::store::Entry::from_bytes(&bytes).unwrap();
    entry.key.library = "cuDNN 8.0.0, fused-graph 0.0.1".to_owned();
    let text = linear::load(dev, &entry.to_bytes().unwrap()).unwrap_err().to_string();
    assert!(text.contains("cuDNN 8.0.0") && text.contains("is in use"), "{text}");
    entry.key.device = "NVIDIA K80, sm_37, 13 SMs".to_owned();
    let error = linear::load(dev, &entry.to_bytes().unwrap()).unwrap_err();
    assert!(error.kind() == ErrorKind::Device && error.to_string().contains("K80"), "{error}");
    // Nothing of this did harm.
    assert!(linear(&x, &w, &b, 0.5).is_ok());
    let _ = other(&x, &w).unwrap();
}
