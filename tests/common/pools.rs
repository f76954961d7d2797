//! Pooling on any device: the matrix against the oracle, and the functions as a user writes them.

use super::matrix::{Case, LAYOUTS, Maker, TYPES, graph_of, limit, op};
use super::{close, tensor};
use fused_graph::prelude::*;
use fused_graph_core::ir::*;
use fused_graph_core::layout::Dims;

/// Every pooling × element type × layout × window.
pub fn matrix(device: &Device) -> Vec<Case> {
    let mut m = Maker::new(device, 8000);
    let mut cases = Vec::new();
    let shapes: [[&[i64]; 5]; 7] = [
        [&[2, 3, 8, 6], &[2, 2], &[2, 2], &[0, 0], &[0, 0]],
        [&[2, 64, 14, 14], &[3, 3], &[2, 2], &[1, 1], &[1, 1]],
        [&[2, 12, 9, 7], &[3, 2], &[2, 1], &[1, 0], &[2, 1]],
        [&[2, 16, 11], &[4], &[3], &[3], &[1]],
        [&[1, 16, 4, 5, 6], &[2, 3, 2], &[1, 2, 2], &[1, 1, 0], &[0, 1, 1]],
        [&[3, 32, 17, 17], &[17, 17], &[17, 17], &[0, 0], &[0, 0]],
        [&[2, 40, 20, 20], &[5, 5], &[1, 1], &[2, 2], &[2, 2]],
    ];
    for [x, window, stride, pre, post] in shapes {
        for mode in [PoolMode::Max, PoolMode::Avg, PoolMode::AvgExcludePadding] {
            for dtype in TYPES {
                for layout in LAYOUTS {
                    let list = |d: &[i64]| Dims::new(d).unwrap();
                    let attrs = PoolAttrs {
                        stride: list(stride),
                        pre_padding: list(pre),
                        post_padding: list(post),
                        ..PoolAttrs::new(mode, list(window))
                    };
                    cases.extend([false, true].into_iter().filter(|i| !i || mode == PoolMode::Max).map(|index| {
                        let tensors = vec![m.tensor(x, dtype, layout, false)];
                        let graph = graph_of(&tensors, |g, v| {
                            let mut results = vec![op(g, Op::Pool(attrs), v)?];
                            if index {
                                results.push(op(g, Op::Pool(PoolAttrs { part: PoolPart::Index, ..attrs }), v)?);
                            }
                            Ok(results)
                        });
                        let name =
                            format!("{} {x:?} by {window:?}, index {index}, {mode:?} {dtype} {layout:?}", attrs.name());
                        let tolerance = limit(dtype, true);
                        Case { name, tensors, graph: graph.unwrap(), options: Default::default(), tolerance }
                    }));
                }
            }
        }
    }
    cases
}

#[fused_graph]
fn pooled(x: &Tensor) -> (Tensor, Tensor, Tensor, Tensor) {
    let (y, index) = max_pool2d_index(x, 2, stride = 1, padding = [(0, 1), (0, 1)]);
    (y, index, avg_pool2d(x, [1, 2]), global_avg_pool(x))
}

/// Windows whose results can be worked out in the head.
pub fn known_windows(device: &Device) {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let x = tensor(&[1.0, 5.0, 3.0, 2.0], &[1, 1, 2, 2], dtype, device);
        let (y, index, avg, all) = pooled(&x).unwrap();
        close(&y, &[5.0, 5.0, 3.0, 2.0]);
        assert_eq!(index.to_vec::<i32>().unwrap(), [1, 1, 2, 3]);
        close(&avg, &[3.0, 2.5]);
        close(&all, &[2.75]);
        assert_eq!(&all.dims()[..], &[1, 1, 1, 1]);
    }
}
