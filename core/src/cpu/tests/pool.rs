//! Pooling.

use super::*;
use crate::ir::{PoolAttrs, PoolMode, PoolPart};

fn pool(x: &[i64], attrs: PoolAttrs, dtype: DType, layout: Layout) {
    let mut g = Build::new();
    let v = g.arg(x, dtype, layout);
    let mut results = vec![g.op(Op::Pool(attrs), &[v])];
    if attrs.mode == PoolMode::Max {
        results.push(g.op(Op::Pool(PoolAttrs { part: PoolPart::Index, ..attrs }), &[v]));
    }
    check(g.returns(&results), 17, &format!("{attrs:?} of {x:?} {dtype} {layout:?}"));
}

#[test]
fn pools_of_all_kinds_types_and_layouts() {
    let cases: [[&[i64]; 5]; 6] = [
        [&[2, 3, 8, 6], &[2, 2], &[2, 2], &[0, 0], &[0, 0]],
        [&[2, 3, 9, 7], &[3, 2], &[2, 1], &[1, 0], &[2, 1]],
        [&[2, 3, 11], &[4], &[3], &[3], &[1]],
        [&[1, 2, 4, 5, 6], &[2, 3, 2], &[1, 2, 2], &[1, 1, 0], &[0, 1, 1]],
        [&[3, 17, 5, 5], &[5, 5], &[5, 5], &[0, 0], &[0, 0]],
        [&[2, 40, 20, 20], &[3, 3], &[1, 1], &[1, 1], &[1, 1]],
    ];
    for [x, window, stride, pre, post] in cases {
        for mode in [PoolMode::Max, PoolMode::Avg, PoolMode::AvgExcludePadding] {
            let attrs = PoolAttrs {
                stride: dims(stride),
                pre_padding: dims(pre),
                post_padding: dims(post),
                ..PoolAttrs::new(mode, dims(window))
            };
            for dtype in [DType::F32, DType::BF16, DType::F16, DType::F64] {
                for layout in LAYOUTS {
                    pool(x, attrs, dtype, layout);
                }
            }
            if mode == PoolMode::Max {
                pool(x, attrs, DType::I8, Layout::ChannelsLast);
                pool(x, attrs, DType::I32, Layout::Contiguous);
            }
        }
    }
}

/// The first of several is the one; NaN is larger than anything; nothing but -∞ is -∞.
#[test]
fn ties_and_edges() {
    let mut g = Build::new();
    let x = g.arg(&[1, 1, 9], DType::F32, Layout::Contiguous);
    let attrs = PoolAttrs::new(PoolMode::Max, dims(&[3]));
    let y = g.op(Op::Pool(attrs), &[x]);
    let index = g.op(Op::Pool(PoolAttrs { part: PoolPart::Index, ..attrs }), &[x]);
    let graph = Arc::new(g.returns(&[y, index]));
    let inf = f32::NEG_INFINITY;
    let x =
        Tensor::from_vec(vec![2.0, 2.0, 1.0, f32::NAN, f32::NAN, 7.0, inf, inf, inf], [1, 1, 9], &Device::CPU).unwrap();
    let (results, _) = run(&graph, &[x], &[]);
    let y = results[0].to_vec::<f32>().unwrap();
    assert!(y[0] == 2.0 && y[1].is_nan() && y[2] == inf, "{y:?}");
    assert_eq!(results[1].to_vec::<i32>().unwrap(), [0, 3, 6]);
}
