//! Case 33: what cannot be bound is a typed error that names it, never a panic, and the next good call is right. The texts are snapshots.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{fake, values};
use fused_graph::prelude::*;
use fused_graph::{Error, ErrorKind, Result};

#[fused_graph]
fn affine(x: &Tensor, w: &Tensor, b: Option<&Tensor>, alpha: f32) -> Tensor {
    let y = alpha * matmul(x, w);
    match b {
        Some(b) => y + b,
        None => y,
    }
}

#[fused_graph]
fn conv(x: &Tensor, w: &Tensor) -> Tensor {
    conv2d(x, w, padding = 1)
}

#[fused_graph]
fn total(x: &Tensor) -> Tensor {
    sum(x)
}

#[fused_graph]
fn doubled(x: &Tensor) -> Tensor {
    x + x
}

fn t(dims: &[i64], dtype: DType) -> Tensor {
    Tensor::ones(dims, dtype, &Device::CPU).unwrap()
}

/// After each refusal the same function on good arguments.
fn good() {
    let y = affine(&t(&[2, 3], DType::F32), &t(&[3, 4], DType::F32), Some(&t(&[4], DType::F32)), 2.0).unwrap();
    assert_eq!(values(&y), [7.0; 8]);
}

fn listing(cases: Vec<(&str, ErrorKind, Result<()>)>) -> String {
    let mut out = String::new();
    for (name, kind, result) in cases {
        let error: Error = result.expect_err(name);
        assert_eq!(error.kind(), kind, "{name}: {error}");
        good();
        out += &format!("{name}\n    {}\n", error.to_string().replace('\n', "\n    "));
    }
    out
}

#[test]
fn arguments_of_a_call() {
    use DType::{F16, F32};
    let call = |x: &Tensor, w: &Tensor, b: Option<&Tensor>| affine(x, w, b, 1.0).map(drop);
    let (x, w, b) = (t(&[2, 3], F32), t(&[3, 4], F32), t(&[4], F32));
    insta::assert_snapshot!(listing(vec![
        ("another element type", ErrorKind::DType, call(&x, &t(&[3, 4], F16), None)),
        ("another rank", ErrorKind::Shape, call(&t(&[3], F32), &w, None)),
        ("another extent", ErrorKind::Shape, call(&x, &t(&[5, 4], F32), None)),
        ("an optional that does not fit", ErrorKind::Shape, call(&x, &w, Some(&t(&[5], F32)))),
        ("arguments exchanged", ErrorKind::Shape, call(&w, &x, Some(&b))),
    ]));
}

#[test]
fn arguments_of_other_devices() {
    let (one, two) = (fake::device(1), fake::device(2));
    let on = |dims: &[i64], dev: &Device| t(dims, DType::F32).to(dev).unwrap();
    let call = |a: &Device, b: &Device, c: Option<&Device>| {
        let b4 = c.map(|dev| on(&[4], dev));
        affine(&on(&[2, 3], a), &on(&[3, 4], b), b4.as_ref(), 1.0).map(drop)
    };
    let cpu = Device::CPU;
    let bound = |a: &Device, b: &Device| affine::bind(&on(&[2, 3], a), &on(&[3, 4], b), None, 1.0).map(drop);
    insta::assert_snapshot!(listing(vec![
        ("the second elsewhere", ErrorKind::Device, call(&cpu, &one, None)),
        ("the first elsewhere", ErrorKind::Device, call(&one, &cpu, None)),
        ("an optional elsewhere", ErrorKind::Device, call(&cpu, &cpu, Some(&one))),
        ("two devices that are not the CPU", ErrorKind::Device, call(&one, &two, None)),
        ("to be bound", ErrorKind::Device, bound(&one, &two)),
        (
            "to be explained",
            ErrorKind::Device,
            affine::explain(&on(&[2, 3], &cpu), &on(&[3, 4], &one), None, 1.0).map(drop)
        ),
        ("to be traced", ErrorKind::Device, affine::graph(&on(&[2, 3], &cpu), &on(&[3, 4], &one), None, 1.0).map(drop)),
        ("written from another shape", ErrorKind::Shape, on(&[2, 3], &cpu).copy_from(&on(&[3, 2], &one))),
    ]));
}

#[test]
fn buffers_of_a_bound_call() {
    use DType::{F16, F32};
    let (x, w) = (t(&[2, 3], F32), t(&[3, 4], F32));
    let mut call = affine::bind(&x, &w, None, 2.0).unwrap();
    let into = Tensor::full([2, 4], 123.0, F32, &Device::CPU).unwrap();
    call.set_output(0, &into).unwrap();
    let elsewhere = x.to(&fake::device(1)).unwrap();
    insta::assert_snapshot!(listing(vec![
        ("a short buffer", ErrorKind::Shape, call.set_tensor("x", &t(&[1, 3], F32))),
        ("a longer buffer", ErrorKind::Shape, call.set_tensor("x", &t(&[4, 3], F32))),
        ("the same elements in another shape", ErrorKind::Shape, call.set_tensor("x", &t(&[3, 2], F32))),
        ("another width of elements", ErrorKind::DType, call.set_tensor("x", &t(&[2, 3], F16))),
        ("another element type of the same width", ErrorKind::DType, call.set_tensor("x", &t(&[2, 3], DType::I32))),
        ("other strides", ErrorKind::Layout, call.set_tensor("x", &t(&[3, 2], F32).t().unwrap())),
        ("another device", ErrorKind::Device, call.set_tensor("x", &elsewhere)),
        ("an operand that is not there", ErrorKind::Argument, call.set_tensor("z", &x)),
        ("an operand too many", ErrorKind::Argument, call.set_tensor("b", &t(&[4], F32))),
        ("a scalar that is not there", ErrorKind::Argument, call.set_scalar("beta", 1.0)),
        ("a result too many", ErrorKind::Argument, call.set_output(1, &into)),
        ("a short result", ErrorKind::Shape, call.set_output(0, &t(&[1, 4], F32))),
        (
            "a result that is an argument",
            ErrorKind::Argument,
            call.set_tensor("x", &into.reshape([8]).unwrap().slice(0, 0..6).unwrap().reshape([2, 3]).unwrap())
        ),
    ]));
    assert_eq!(values(&into), [123.0; 8], "nothing ran");
    call.launch().unwrap();
    assert_eq!(values(&into), [6.0; 8]);
}

#[test]
fn views_stay_within_their_memory() {
    let x = t(&[2, 3, 4], DType::F32);
    let from = |data: &[f32], dims: &[i64]| Tensor::from_slice(data, dims, &Device::CPU).map(drop);
    let last_word = (std::ops::Bound::Excluded(usize::MAX), std::ops::Bound::Unbounded);
    #[allow(clippy::reversed_empty_ranges)]
    let backwards = x.slice(0, 2..1).map(drop);
    insta::assert_snapshot!(listing(vec![
        ("a slice that is too short", ErrorKind::Shape, from(&[1.0; 5], &[2, 3])),
        ("a slice that is too long", ErrorKind::Shape, from(&[1.0; 7], &[2, 3])),
        ("a slice for nothing", ErrorKind::Shape, from(&[1.0], &[0, 3])),
        ("nothing for a scalar", ErrorKind::Shape, from(&[], &[])),
        ("a range behind the end", ErrorKind::Argument, x.slice(1, 1..4).map(drop)),
        ("a range from behind the end", ErrorKind::Argument, x.slice(2, 4..).map(drop)),
        ("an empty range", ErrorKind::Argument, x.slice(0, 1..1).map(drop)),
        ("a range backwards", ErrorKind::Argument, backwards),
        ("a range as long as a word", ErrorKind::Argument, x.narrow(0, 1, usize::MAX).map(drop)),
        ("a range from the last word", ErrorKind::Argument, x.slice(0, last_word).map(drop)),
        ("a range that ends at the last word", ErrorKind::Argument, x.slice(0, ..=usize::MAX).map(drop)),
        ("an axis before the first", ErrorKind::Argument, x.slice(-4, ..).map(drop)),
        ("the axis i64::MIN", ErrorKind::Argument, x.transpose(i64::MIN, 0).map(drop)),
        ("fewer axes", ErrorKind::Argument, x.permute([1, 0]).map(drop)),
        ("an order with a negative axis", ErrorKind::Shape, x.permute([-1i64, 0, 1]).map(drop)),
        ("repeated to fewer axes", ErrorKind::Shape, x.expand([3, 4]).map(drop)),
        ("repeated along an axis that is not 1", ErrorKind::Shape, x.expand([4, 3, 4]).map(drop)),
        ("more elements", ErrorKind::Shape, x.reshape([2, 3, 5]).map(drop)),
        ("dims whose product overflows", ErrorKind::Shape, x.reshape([1i64 << 32, 1 << 32, 24]).map(drop)),
        ("an axis that is not 1", ErrorKind::Shape, x.squeeze(0).map(drop)),
        ("a ninth axis", ErrorKind::Shape, t(&[1; 8], DType::F32).unsqueeze(0).map(drop)),
    ]));
}

/// No sequence of views leads out of the memory or to a panic.
#[test]
fn views_of_views_stay_within_their_memory() {
    let mut state = 1u64;
    let mut random = move |n: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % n
    };
    let whole = Tensor::arange(120, DType::I32, &Device::CPU).unwrap();
    let (mut good, mut refused) = (0, 0);
    for _ in 0..2000 {
        let mut x = whole.reshape([2, 3, 4, 5]).unwrap();
        for _ in 0..5 {
            let (a, b) = (random(6) as i64 - 1, random(6) as i64 - 1);
            let view = match random(7) {
                0 => x.transpose(a, b),
                1 => x.slice(a, random(4) as usize..random(6) as usize),
                2 => x.squeeze(a),
                3 => x.unsqueeze(a),
                4 => x.expand([1 + random(2) as usize, 1 + random(3) as usize, 3, 4, 5]),
                5 => x.reshape([random(25) as i64, 1 + random(5) as i64]),
                _ => x.permute([random(4), random(4), random(4), random(4)]),
            };
            match view {
                Ok(view) => x = view,
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Argument | ErrorKind::Shape), "{error}");
                    refused += 1;
                    continue;
                }
            }
            good += 1;
            let elements = x.to_vec::<i32>().unwrap();
            assert_eq!(elements.len(), x.numel());
            assert!(elements.iter().all(|v| (0..120).contains(v)), "{x:?}");
            let last: i64 = x.dims().iter().zip(x.strides().iter()).map(|(d, s)| (d - 1) * s).sum();
            assert!(x.offset() >= 0 && x.offset() + last < 120, "{x:?}");
        }
    }
    assert!(good > 1000 && refused > 1000, "{good} views, {refused} refusals");
}

#[test]
fn nothing() {
    let zeros = |dims: &[i64]| Tensor::zeros(dims, DType::F32, &Device::CPU).unwrap();
    let empty = zeros(&[0, 3]);
    assert_eq!((empty.numel(), values(&empty).len()), (0, 0));
    assert_eq!(empty.t().unwrap().reshape([5, 0]).unwrap().numel(), 0);
    assert_eq!(empty.to_dtype(DType::F16).unwrap().dtype(), DType::F16);
    let (w, inner) = (t(&[3, 4], DType::F32), (zeros(&[2, 0]), zeros(&[0, 4])));
    let (image, filter) = (zeros(&[1, 0, 4, 4]), zeros(&[4, 0, 3, 3]));
    insta::assert_snapshot!(listing(vec![
        ("a product without rows", ErrorKind::Shape, affine(&empty, &w, None, 1.0).map(drop)),
        ("a product over nothing", ErrorKind::Shape, affine(&inner.0, &inner.1, None, 1.0).map(drop)),
        ("a convolution of nothing", ErrorKind::Shape, conv(&image, &filter).map(drop)),
        ("the sum of nothing", ErrorKind::Shape, total(&empty).map(drop)),
        ("nothing twice", ErrorKind::Shape, doubled(&empty).map(drop)),
    ]));
}

#[test]
fn too_much() {
    let one = |dims: &[i64], dtype, to: &[i64]| t(dims, dtype).expand(to).unwrap();
    let zeros = |dims: &[i64]| Tensor::zeros(dims, DType::F32, &Device::CPU).map(drop);
    let vast = one(&[1], DType::F32, &[1 << 46]);
    let square = one(&[1, 1], DType::BF16, &[1 << 23, 1 << 23]);
    let wide = one(&[1, 8, 1, 1], DType::F32, &[1, 8, 1 << 22, 1 << 22]);
    let column = t(&[1 << 23, 1], DType::BF16);
    insta::assert_snapshot!(listing(vec![
        ("more than memory can address", ErrorKind::Shape, zeros(&[1 << 40, 1 << 40])),
        ("a product of extents that overflows", ErrorKind::Shape, zeros(&[i64::MAX, i64::MAX])),
        ("more than this machine has", ErrorKind::Argument, zeros(&[1 << 46])),
        ("repeated beyond all memory", ErrorKind::Shape, t(&[1], DType::F32).expand([i64::MAX]).map(drop)),
        ("read out", ErrorKind::Argument, vast.to_vec::<f32>().map(drop)),
        ("made dense", ErrorKind::Argument, vast.contiguous().map(drop)),
        ("as a result", ErrorKind::Argument, doubled(&vast).map(drop)),
        ("as a bound result", ErrorKind::Argument, doubled::bind(&vast).map(drop)),
        ("as a product", ErrorKind::Argument, affine(&square, &square, None, 1.0).map(drop)),
        ("as a sum of products", ErrorKind::Argument, affine(&square, &column, None, 1.0).map(drop)),
        ("as a convolution", ErrorKind::Argument, conv(&wide, &t(&[4, 8, 3, 3], DType::F32)).map(drop)),
    ]));
}

/// Results are never the memory of an argument, whatever the function returns.
#[test]
fn results_are_fresh() {
    #[fused_graph]
    fn returned(x: &Tensor) -> (Tensor, Tensor, Tensor) {
        (x, transpose(x, 0, 1), relu(x))
    }
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [2, 2], &Device::CPU).unwrap();
    let (same, turned, computed) = returned(&x).unwrap();
    let before = [values(&same), values(&turned), values(&computed)];
    assert_eq!(before, [vec![1., 2., 3., 4.], vec![1., 3., 2., 4.], vec![1., 2., 3., 4.]]);
    x.write(&[9.0f32; 4]).unwrap();
    assert_eq!([values(&same), values(&turned), values(&computed)], before);
    same.write(&[7.0f32; 4]).unwrap();
    assert_eq!((values(&x), values(&computed)), (vec![9.0; 4], before[2].clone()));
    // And those of one call are not those of another.
    let (again, ..) = returned(&x).unwrap();
    again.write(&[5.0f32; 4]).unwrap();
    assert_eq!(values(&same), [7.0; 4]);
}
