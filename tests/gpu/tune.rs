//! Tuning on a GPU: candidates really timed, the winner serves, nothing of the caller's is touched, options mean what they say.

use fused_graph::prelude::*;
use fused_graph::tune::Outcome;
use std::time::Duration;

type Result<T = ()> = fused_graph::Result<T>;

#[fused_graph]
fn linear(x: &Tensor, w: &Tensor, b: &Tensor, alpha: f32) -> (Tensor, Tensor) {
    let y = gelu(alpha * matmul(x, w) + b);
    (y, amax(y))
}

#[fused_graph]
fn residual(x: &Tensor, w: &Tensor, b: &Tensor, r: &Tensor) -> Tensor {
    relu(conv2d(x, w, bias = b, residual = r, padding = 1))
}

#[fused_graph(autotune)]
fn by_itself(x: &Tensor, w: &Tensor) -> Tensor {
    relu(matmul(x, w))
}

#[fused_graph(engine = "eng7_k24=21")]
fn by_hand(x: &Tensor, w: &Tensor) -> Tensor {
    relu(matmul(x, w))
}

#[fused_graph(deterministic, tf32 = false)]
fn exact(x: &Tensor, w: &Tensor) -> Tensor {
    relu(matmul(x, w))
}

#[fused_graph(tf32 = false)]
fn exact_conv(x: &Tensor, w: &Tensor) -> Tensor {
    relu(conv2d(x, w, padding = 1))
}

#[fused_graph]
fn rounded_conv(x: &Tensor, w: &Tensor) -> Tensor {
    relu(conv2d(x, w, padding = 1))
}

#[fused_graph(workspace_limit = 0)]
fn no_workspace(x: &Tensor, w: &Tensor) -> Tensor {
    relu(conv2d(x, w, padding = 1))
}

fn f32s(t: &Tensor) -> Vec<f32> {
    t.to_dtype(DType::F32).unwrap().to_vec().unwrap()
}

fn difference(a: &Tensor, b: &Tensor) -> f64 {
    let (a, b) = (f32s(a), f32s(b));
    assert_eq!(a.len(), b.len());
    let square = |x: f32| (x as f64).powi(2);
    let d: f64 = a.iter().zip(&b).map(|(a, b)| square(a - b)).sum();
    (d / a.iter().map(|&a| square(a)).sum::<f64>()).sqrt()
}

fn quiet<R>(f: impl FnOnce() -> R) -> R {
    TuneOptions::default().progress(false).scope(f)
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn candidates_are_timed_and_the_winner_serves() -> Result {
    let (dev, half) = (Device::cuda(0)?, DType::BF16);
    let x = Tensor::randn([16, 512, 512], half, &dev)?;
    let w = Tensor::randn([16, 512, 1024], half, &dev)?;
    let b = Tensor::randn([1024], half, &dev)?;
    let before = (f32s(&x), f32s(&w), f32s(&b));
    let (y, largest) = linear(&x, &w, &b, 0.05)?;
    let report = quiet(|| linear::tune(&x, &w, &b, 0.05))?;
    println!("{report}");
    assert!(report.timed() >= 2, "{report}");
    let kernel = &report.kernels[0];
    assert!(kernel.default.is_some() && kernel.over_default().unwrap() <= 1.0);
    assert!(kernel.candidates.iter().any(|c| matches!(c.outcome, Outcome::Timed { .. }) && c.engine.contains("_k")));
    let built = linear::stats().plans_built;
    let (y2, largest2) = linear(&x, &w, &b, 0.05)?;
    assert_eq!(linear::stats().plans_built, built);
    assert!(difference(&y, &y2) < 1e-2 && difference(&largest, &largest2) < 1e-2);
    assert_eq!((f32s(&x), f32s(&w), f32s(&b)), before, "arguments are only read");
    // Another alpha is the same plan.
    let (y3, _) = linear(&x, &w, &b, 0.5)?;
    assert_eq!(linear::stats().plans_built, built);
    assert!(difference(&y, &y3) > 0.1);
    let explain = linear::explain(&x, &w, &b, 0.05)?;
    assert!(explain.kernels.iter().any(|k| k.engine.starts_with(&kernel.best().unwrap().engine)), "{explain}");
    Ok(())
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn other_orders_are_candidates() -> Result {
    let (dev, half) = (Device::cuda(0)?, DType::BF16);
    let x = Tensor::randn([32, 256, 14, 14], half, &dev)?.channels_last()?;
    let w = Tensor::randn([256, 256, 3, 3], half, &dev)?.channels_last()?;
    let r = Tensor::randn([32, 256, 14, 14], half, &dev)?.channels_last()?;
    let b = Tensor::randn([256], half, &dev)?;
    let y = residual(&x, &w, &b, &r)?;
    let report = quiet(|| residual::tune(&x, &w, &b, &r))?;
    println!("{report}");
    let forms = |name: bool| report.kernels[0].candidates.iter().filter(|c| c.form.is_empty() != name).count();
    assert!(forms(true) > 0 && forms(false) > 0);
    assert!(difference(&y, &residual(&x, &w, &b, &r)?) < 1e-2);
    Ok(())
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn a_budget_is_kept_and_a_cold_cache_is_slower() -> Result {
    let (dev, half) = (Device::cuda(0)?, DType::BF16);
    let (x, w) = (Tensor::randn([64, 128, 64], half, &dev)?, Tensor::randn([64, 64, 128], half, &dev)?);
    let none = TuneOptions::default().progress(false).budget(Duration::ZERO);
    let report = none.scope(|| by_itself::tune(&x, &w))?;
    // Only what the heuristic chose was there to be timed.
    assert!(report.out_of_budget && report.timed() == 1, "{report}");
    let warm = quiet(|| by_itself::tune(&x, &w))?;
    let cold = TuneOptions::default().progress(false).cold_l2(true).scope(|| by_itself::tune(&x, &w))?;
    let best = |r: &TuneReport| r.kernels[0].best().unwrap().micros().unwrap();
    assert!(best(&cold) > best(&warm), "{cold}\n{warm}");
    assert!(cold.cache_state.contains("overwritten"));
    Ok(())
}

use fused_graph::TuneReport;

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn options_mean_what_they_say() -> Result {
    let dev = Device::cuda(0)?;
    let (x, w) = (Tensor::randn([256, 512], DType::F32, &dev)?, Tensor::randn([512, 256], DType::F32, &dev)?);
    let on_cpu = (x.to(&Device::CPU)?, w.to(&Device::CPU)?);
    let reference = exact(&on_cpu.0, &on_cpu.1)?;
    let y = exact(&x, &w)?;
    assert!(difference(&reference, &y) < 1e-5, "tf32 = false: {:.1e}", difference(&reference, &y));
    for _ in 0..5 {
        assert_eq!(f32s(&exact(&x, &w)?), f32s(&y), "deterministic: the same bits");
    }
    let x = Tensor::randn([4, 64, 14, 14], DType::F32, &dev)?.channels_last()?;
    let w = Tensor::randn([64, 64, 3, 3], DType::F32, &dev)?.channels_last()?;
    let reference = exact_conv(&x.to(&Device::CPU)?, &w.to(&Device::CPU)?)?;
    let (rounded, exact) =
        (difference(&reference, &rounded_conv(&x, &w)?), difference(&reference, &exact_conv(&x, &w)?));
    assert!(exact < 1e-5 && rounded > exact && rounded < 1e-3, "TF32 {rounded:.1e}, exact {exact:.1e}");
    let limited = no_workspace::explain(&x, &w)?;
    assert!(limited.kernels.iter().all(|k| k.workspace == 0), "{limited}");
    let (x, w) =
        (Tensor::randn([16, 512, 512], DType::BF16, &dev)?, Tensor::randn([16, 512, 1024], DType::BF16, &dev)?);
    let hand = by_hand::explain(&x, &w)?;
    assert!(hand.kernels[0].engine.starts_with("eng7_k24=21"), "{hand}");
    assert!(difference(&by_itself(&x, &w)?, &by_hand(&x, &w)?) < 1e-2);
    Ok(())
}

#[fused_graph(dynamic_shapes)]
fn any_rows(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
    relu(matmul(x, w) + b)
}

#[fused_graph(dynamic_shapes)]
fn any_images(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
    relu(conv2d(x, w, bias = b, padding = 1))
}

#[test]
#[ignore = "needs a GPU; cargo xtask bundle"]
fn shared_kernels_are_right_at_every_size() -> Result {
    let (dev, half) = (Device::cuda(0)?, DType::BF16);
    let here = |t: &Tensor| t.to(&Device::CPU);
    let (w, b) = (Tensor::randn([512, 256], half, &dev)?, Tensor::randn([256], half, &dev)?);
    for rows in [64, 1, 128, 1000, 33, 256] {
        let x = Tensor::randn([rows, 512], half, &dev)?;
        let d = difference(&any_rows(&here(&x)?, &here(&w)?, &here(&b)?)?, &any_rows(&x, &w, &b)?);
        assert!(d < 6e-3, "{rows} rows: off by {d:.1e}");
    }
    let (w, b) = (Tensor::randn([64, 64, 3, 3], half, &dev)?.channels_last()?, Tensor::randn([64], half, &dev)?);
    let mut times = Vec::new();
    for (n, h) in [(1, 28), (4, 28), (16, 28), (32, 28), (3, 17)] {
        let x = Tensor::randn([n, 64, h, h], half, &dev)?.channels_last()?;
        let before = any_images::stats().build_ms;
        let y = any_images(&x, &w, &b)?;
        times.push(any_images::stats().build_ms - before);
        let d = difference(&any_images(&here(&x)?, &here(&w)?, &here(&b)?)?, &y);
        assert!(d < 6e-3, "{n} images of {h}: off by {d:.1e}");
    }
    println!("{}\n{}\nconv builds {times:.1?} ms", any_rows::stats(), any_images::stats());
    assert!(any_images::stats().kernels_reused >= 3 && any_rows::stats().kernels_reused >= 3);
    Ok(())
}
