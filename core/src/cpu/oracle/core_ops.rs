//! Convolution and matmul by their definitions.

use super::Array;
use crate::ir::ConvAttrs;
use crate::layout::Dims;

pub(super) fn matmul(a: &Array, b: &Array, out: Dims) -> Array {
    let inner = a.dims[a.dims.len() - 1];
    Array::build(out, |index| {
        let (batch, row, column) = (&index[..index.len() - 2], index[index.len() - 2], index[index.len() - 1]);
        let at = |x: &Array, i: i64, j: i64| {
            let skip = batch.len() + 2 - x.dims.len();
            let mut full: Vec<i64> = batch[skip..].to_vec();
            full.extend([i, j]);
            let mut flat = 0;
            for (axis, &extent) in x.dims.iter().enumerate() {
                flat = flat * extent + if extent == 1 && axis + 2 < x.dims.len() { 0 } else { full[axis] };
            }
            x.data[flat as usize]
        };
        (0..inner).map(|k| at(a, row, k) * at(b, k, column)).sum()
    })
}

pub(super) fn conv(attrs: &ConvAttrs, x: &Array, w: &Array, out: Dims) -> Array {
    let taps = Dims::collect(w.dims[2..].iter().copied());
    let (channels, filters) = (w.dims[1], w.dims[0] / attrs.groups);
    Array::build(out, |index| {
        let (n, k) = (index[0], index[1]);
        let group = k / filters;
        let mut sum = 0.0;
        for c in 0..channels {
            Array::build(taps, |tap| {
                let mut x_flat = n * x.dims[1] + group * channels + c;
                let mut w_flat = k * channels + c;
                for (axis, &t) in tap.iter().enumerate() {
                    let at = index[2 + axis] * attrs.stride[axis] + t * attrs.dilation[axis] - attrs.pre_padding[axis];
                    if at < 0 || at >= x.dims[2 + axis] {
                        return 0.0;
                    }
                    x_flat = x_flat * x.dims[2 + axis] + at;
                    w_flat = w_flat * taps[axis] + t;
                }
                sum += x.data[x_flat as usize] * w.data[w_flat as usize];
                0.0
            });
        }
        sum
    })
}
