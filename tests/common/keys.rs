//! Cases 1, 2, 3 and 6: what must be part of the key of a plan is part of it.

use super::{close, product, tensor, values};
use fused_graph::prelude::*;

/// Case 1: same dims, other strides; same dims, other element type; the transposed weight.
pub fn case_1_strides_and_types(dev: &Device) {
    #[fused_graph]
    fn mm(a: &Tensor, b: &Tensor) -> Tensor {
        matmul(a, b)
    }
    let a = Tensor::randn([2, 32, 24], DType::BF16, dev).unwrap();
    let plain = Tensor::randn([2, 24, 40], DType::BF16, dev).unwrap();
    let wide = Tensor::randn([2, 24, 80], DType::BF16, dev).unwrap();
    let interleaved = wide.slice(2, 40..80).unwrap();
    let transposed = Tensor::randn([2, 40, 24], DType::BF16, dev).unwrap().transpose(1, 2).unwrap();
    let want = |b: &Tensor| product(&values(&a), &values(b), 2, 32, 24, 40);
    for b in [&plain, &interleaved, &transposed, &plain, &transposed, &interleaved] {
        assert_eq!(&**b.dims(), [2, 24, 40]);
        close(&mm(&a, b).unwrap(), &want(b));
    }
    let half = |t: &Tensor| t.to_dtype(DType::F16).unwrap();
    close(&mm(&half(&a), &half(&plain)).unwrap(), &want(&plain));
    assert_eq!(mm::stats().plans_built, 4);

    // Convolution: NCHW and NHWC strides of the same dims.
    #[fused_graph]
    fn conv(x: &Tensor, w: &Tensor) -> Tensor {
        conv2d(x, w, padding = 1)
    }
    let x = Tensor::randn([2, 8, 9, 7], DType::F16, dev).unwrap();
    let w = Tensor::randn([16, 8, 3, 3], DType::F16, dev).unwrap();
    let nchw = conv(&x, &w).unwrap();
    let nhwc = conv(&x.channels_last().unwrap(), &w.channels_last().unwrap()).unwrap();
    assert!(nhwc.is_channels_last() && nchw.is_contiguous());
    close(&nhwc, &values(&nchw));
    assert_eq!(conv::stats().plans_built, 2);
}

/// Case 2: each instance of a generic function has its own plans.
pub fn case_2_generic_functions(dev: &Device) {
    #[fused_graph]
    fn mm<T: Element, const RELU: bool>(a: &Tensor, b: &Tensor) -> Tensor {
        let y = cast(matmul(a, b), T::DTYPE);
        if RELU { relu(y) } else { y }
    }
    let a = Tensor::randn([8, 16], DType::F32, dev).unwrap();
    let b = Tensor::randn([16, 8], DType::F32, dev).unwrap();
    let plain = product(&values(&a), &values(&b), 1, 8, 16, 8);
    let relu: Vec<f64> = plain.iter().map(|v| v.max(0.0)).collect();
    for _ in 0..2 {
        let all = [
            (mm::<f16, false>(&a, &b).unwrap(), &plain, DType::F16),
            (mm::<bf16, false>(&a, &b).unwrap(), &plain, DType::BF16),
            (mm::<f32, false>(&a, &b).unwrap(), &plain, DType::F32),
            (mm::<f16, true>(&a, &b).unwrap(), &relu, DType::F16),
            (mm::<bf16, true>(&a, &b).unwrap(), &relu, DType::BF16),
            (mm::<f32, true>(&a, &b).unwrap(), &relu, DType::F32),
        ];
        for (got, want, dtype) in &all {
            assert_eq!(got.dtype(), *dtype);
            close(got, want);
        }
    }
    assert_eq!(mm::stats().plans_built, 6);
}

/// Case 3: baked values and presence are part of the key; what is passed at launch is not, and takes effect.
pub fn case_3_scalars_and_presence(dev: &Device) {
    let xs: Vec<f32> = (0..64).map(|i| (i as f32 - 32.0) / 4.0).collect();
    let x = tensor(&xs, &[1, 8, 8], DType::F32, dev);
    let apply = |f: &dyn Fn(f64) -> f64| xs.iter().map(|&v| f(v as f64)).collect::<Vec<_>>();

    #[derive(Attr, Clone, Copy)]
    struct Slope(f64);
    #[fused_graph]
    fn leaky(x: &Tensor, slope: Slope, clip: Slope) -> Tensor {
        clipped_relu(leaky_relu(x, slope = slope.0) + 8.0, upper = clip.0)
    }
    for (slope, clip) in [(0.01, 6.0), (0.2, 6.0), (0.2, 12.5), (0.2f64.next_up(), 12.5)] {
        let want = apply(&|v| (if v < 0.0 { slope * v } else { v } + 8.0).clamp(0.0, clip));
        close(&leaky(&x, Slope(slope), Slope(clip)).unwrap(), &want);
    }
    assert_eq!(leaky::stats().plans_built, 4);
    // +0, -0 and NaN are three keys, and none of them a panic.
    for odd in [0.0, -0.0, f64::NAN] {
        leaky(&x, Slope(odd), Slope(6.0)).unwrap();
    }
    assert_eq!(leaky::stats().plans_built, 7);

    #[fused_graph]
    fn affine(x: &Tensor, b: Option<&Tensor>, alpha: f32, beta: f64) -> Tensor {
        let y = alpha * x + beta;
        match b {
            Some(b) => y + b,
            None => y,
        }
    }
    for (alpha, beta) in [(0.5, 1.0), (2.0, 1.0), (2.0, -3.0), (0.0, 0.0), (-0.0, 0.25)] {
        let (a, b) = (alpha as f64, beta);
        close(&affine(&x, None, alpha, beta).unwrap(), &apply(&|v| a * v + b));
        close(&affine(&x, Some(&x), alpha, beta).unwrap(), &apply(&|v| a * v + b + v));
    }
    assert_eq!(affine::stats().plans_built, 2, "presence is in the key, scalars are not");
    let nan = affine(&x, None, f32::NAN, 0.0).unwrap();
    assert!(values(&nan).iter().all(|v| v.is_nan()));

    #[fused_graph]
    fn switched(x: &Tensor, negate: bool, times: u32, mode: &'static str) -> Tensor {
        let mut y = if negate { -x } else { x };
        for _ in 0..times {
            y = y + x;
        }
        match mode {
            "abs" => abs(y),
            _ => y,
        }
    }
    close(&switched(&x, false, 2, "").unwrap(), &apply(&|v| 3.0 * v));
    close(&switched(&x, true, 2, "").unwrap(), &xs.iter().map(|&v| v as f64).collect::<Vec<_>>());
    close(&switched(&x, true, 4, "").unwrap(), &apply(&|v| 3.0 * v));
    close(&switched(&x, true, 4, "abs").unwrap(), &apply(&|v| (3.0 * v).abs()));
    assert_eq!(switched::stats().plans_built, 4);
}

/// Case 6: operands that start at any element, and rows whose length divides nothing.
pub fn case_6_alignment(dev: &Device) {
    #[fused_graph]
    fn mm(a: &Tensor, b: &Tensor) -> Tensor {
        matmul(a, b)
    }
    let (m, k, n) = (64, 64, 64);
    let long = Tensor::randn([m * k + 16], DType::BF16, dev).unwrap();
    let b = Tensor::randn([k, n], DType::BF16, dev).unwrap();
    for start in [0, 1, 2, 4, 8, 0, 1] {
        let a = long.slice(0, start..start + m * k).unwrap().reshape([m, k]).unwrap();
        let want = product(&values(&a), &values(&b), 1, m, k, n);
        close(&mm(&a, &b).unwrap(), &want);
    }
    let built = mm::stats().plans_built;
    assert_eq!(built, if dev.is_cpu() { 1 } else { 5 }, "one plan an alignment");
    let (a, b) =
        (Tensor::randn([512, 128], DType::F16, dev).unwrap(), Tensor::randn([128, 7], DType::F16, dev).unwrap());
    close(&mm(&a, &b).unwrap(), &product(&values(&a), &values(&b), 1, 512, 128, 7));

    #[fused_graph]
    fn conv(x: &Tensor, w: &Tensor, b: &Tensor) -> Tensor {
        gelu(conv2d(x, w, bias = b))
    }
    let long = Tensor::randn([8 * 8 * 16 + 8], DType::F16, dev).unwrap();
    let w = Tensor::randn([16, 16, 1, 1], DType::F16, dev).unwrap().channels_last().unwrap();
    let bias = Tensor::randn([16], DType::F16, dev).unwrap();
    for start in [0, 1, 8] {
        let x = long.slice(0, start..start + 8 * 8 * 16).unwrap().reshape([1, 8, 8, 16]).unwrap();
        let flat = product(&values(&x), &values(&w.reshape([16, 16]).unwrap().t().unwrap()), 1, 64, 16, 16);
        let y = conv(&x.permute([0, 3, 1, 2]).unwrap(), &w, &bias).unwrap();
        let bias = values(&bias);
        let want: Vec<f64> = flat.iter().enumerate().map(|(i, v)| gelu_of(v + bias[i % 16])).collect();
        close(&y.permute([0, 2, 3, 1]).unwrap(), &want);
    }
}

fn gelu_of(x: f64) -> f64 {
    // Φ by numerical integration: independent of every implementation under test.
    let steps = 4000;
    let (lo, hi) = (-8.0f64.max(-8.0), x.clamp(-8.0, 8.0));
    let h = (hi - lo) / steps as f64;
    let density = |t: f64| (-0.5 * t * t).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let sum: f64 = (0..=steps).map(|i| density(lo + h * i as f64) * if i == 0 || i == steps { 0.5 } else { 1.0 }).sum();
    x * sum * h
}
