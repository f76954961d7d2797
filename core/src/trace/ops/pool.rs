//! Pooling.

use super::super::expr::emit_at;
use super::{Expr, Extents, Padding, each, fail};
use crate::error::{Error, Result};
use crate::ir::{Op, PoolAttrs, PoolMode, PoolPart};
use crate::layout::Dims;
use crate::trace::{AvgPoolOptions, MaxPoolOptions};
use std::panic::Location;

macro_rules! pools {
    ($($max:ident, $max_with:ident, $index:ident, $index_with:ident, $avg:ident, $avg_with:ident, $spatial:literal;)*) => {$(
        /// The largest element of each window. Options `stride` (the window) and `padding` (none).
        #[track_caller]
        pub fn $max(x: Expr, window: impl Into<Extents>) -> Expr {
            $max_with(x, window, MaxPoolOptions::new())
        }
        /// The same with its options.
        #[track_caller]
        pub fn $max_with(x: Expr, window: impl Into<Extents>, o: MaxPoolOptions) -> Expr {
            let attrs = attrs(PoolMode::Max, $spatial, &window.into(), o.stride.as_ref(), &o.padding);
            results(x, attrs, [PoolPart::Y], Location::caller())[0]
        }
        /// The largest elements and where they are: row-major positions among the spatial axes, I32.
        #[track_caller]
        pub fn $index(x: Expr, window: impl Into<Extents>) -> (Expr, Expr) {
            $index_with(x, window, MaxPoolOptions::new())
        }
        /// The same with its options.
        #[track_caller]
        pub fn $index_with(x: Expr, window: impl Into<Extents>, o: MaxPoolOptions) -> (Expr, Expr) {
            let attrs = attrs(PoolMode::Max, $spatial, &window.into(), o.stride.as_ref(), &o.padding);
            let [y, index] = results(x, attrs, [PoolPart::Y, PoolPart::Index], Location::caller());
            (y, index)
        }
        /// The mean of each window. Options `stride` (the window), `padding` (none), `count_include_pad` (true).
        #[track_caller]
        pub fn $avg(x: Expr, window: impl Into<Extents>) -> Expr {
            $avg_with(x, window, AvgPoolOptions::new())
        }
        /// The same with its options.
        #[track_caller]
        pub fn $avg_with(x: Expr, window: impl Into<Extents>, o: AvgPoolOptions) -> Expr {
            let mode = if o.count_include_pad { PoolMode::Avg } else { PoolMode::AvgExcludePadding };
            let attrs = attrs(mode, $spatial, &window.into(), o.stride.as_ref(), &o.padding);
            results(x, attrs, [PoolPart::Y], Location::caller())[0]
        }
    )*};
}

pools! {
    max_pool1d, max_pool1d_with, max_pool1d_index, max_pool1d_index_with, avg_pool1d, avg_pool1d_with, 1;
    max_pool2d, max_pool2d_with, max_pool2d_index, max_pool2d_index_with, avg_pool2d, avg_pool2d_with, 2;
    max_pool3d, max_pool3d_with, max_pool3d_index, max_pool3d_index_with, avg_pool3d, avg_pool3d_with, 3;
}

/// The mean of each channel of N×C×…: N×C×1×….
#[track_caller]
pub fn global_avg_pool(x: Expr) -> Expr {
    global(x, PoolMode::Avg, Location::caller())
}

/// The largest element of each channel of N×C×…: N×C×1×….
#[track_caller]
pub fn global_max_pool(x: Expr) -> Expr {
    global(x, PoolMode::Max, Location::caller())
}

fn global(x: Expr, mode: PoolMode, loc: &'static Location<'static>) -> Expr {
    let dims = x.dims();
    let window = Dims::collect(dims.iter().skip(2).copied());
    results(x, Ok(PoolAttrs::new(mode, window)), [PoolPart::Y], loc)[0]
}

fn results<const N: usize>(
    x: Expr,
    attrs: Result<PoolAttrs>,
    parts: [PoolPart; N],
    loc: &'static Location<'static>,
) -> [Expr; N] {
    match attrs {
        Ok(attrs) => each(parts, |part| emit_at(Op::Pool(PoolAttrs { part, ..attrs }), &[x], loc)),
        Err(error) => [fail("pooling", error, loc.into()); N],
    }
}

fn attrs(
    mode: PoolMode,
    spatial: usize,
    window: &Extents,
    stride: Option<&Extents>,
    padding: &Padding,
) -> Result<PoolAttrs> {
    let list = |e: &Extents| match &e.0 {
        Ok(v) => Dims::splat(*v, spatial),
        Err(list) => Dims::collect(list.iter().copied()),
    };
    let (pre_padding, post_padding) = match padding {
        Padding::Uniform(v) => (Dims::splat(*v, spatial), Dims::splat(*v, spatial)),
        Padding::Symmetric(list) => (Dims::collect(list.iter().copied()), Dims::collect(list.iter().copied())),
        Padding::Sides(list) => (Dims::collect(list.iter().map(|p| p.0)), Dims::collect(list.iter().map(|p| p.1))),
        _ => return Err(Error::argument("padding of a pooling is a number or a list")),
    };
    let window = list(window);
    if window.len() != spatial {
        return Err(Error::argument(format!(
            "the window needs one entry for each of the {spatial} spatial dimensions"
        )));
    }
    let stride = stride.map_or(window, list);
    Ok(PoolAttrs { stride, pre_padding, post_padding, ..PoolAttrs::new(mode, window) })
}
