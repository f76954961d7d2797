//! Tuning on the CPU: a report, the plan kept, the arguments untouched.
#![allow(clippy::unwrap_used)]

use fused_graph::prelude::*;
use fused_graph::tune::Outcome;

#[fused_graph]
fn linear(x: &Tensor, w: &Tensor, b: &Tensor, alpha: f32) -> (Tensor, Tensor) {
    let y = relu(alpha * matmul(x, w) + b);
    (y, amax(y))
}

#[fused_graph(autotune)]
fn tuned_by_itself(x: &Tensor, w: &Tensor) -> Tensor {
    relu(matmul(x, w))
}

#[test]
fn a_report_and_a_plan() {
    let dev = Device::cpu();
    let x = Tensor::randn([16, 32], DType::F32, &dev).unwrap();
    let w = Tensor::randn([32, 8], DType::F32, &dev).unwrap();
    let b = Tensor::randn([8], DType::F32, &dev).unwrap();
    let before = x.to_vec::<f32>().unwrap();
    let report = linear::tune(&x, &w, &b, 0.5).unwrap();
    assert_eq!(report.timed(), 1);
    assert!(
        matches!(report.iter().next().unwrap().candidates[0].outcome, Outcome::Timed { median, .. } if median > 0.0)
    );
    assert!(report.to_string().contains("linear on CPU"), "{report}");
    let built = linear::stats().plans_built;
    let (y, _) = linear(&x, &w, &b, 0.5).unwrap();
    assert_eq!(linear::stats().plans_built, built, "the tuned plan serves");
    assert_eq!(**y.dims(), [16, 8]);
    assert_eq!(x.to_vec::<f32>().unwrap(), before);
    assert!(linear::tune(&x, &x, &b, 0.5).is_err());
}

#[test]
fn autotune_is_an_option() {
    let dev = Device::cpu();
    let x = Tensor::ones([4, 4], DType::F32, &dev).unwrap();
    let y = tuned_by_itself(&x, &x).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [4.0; 16]);
    assert_eq!(tuned_by_itself::stats().plans_built, 1);
}
