//! The operations a body is made of. Every one is also a method of [`Expr`] where that reads well.
//!
//! In an annotated function options are named in the call, `conv2d(x, w, padding = 1)`. In helper functions over `Expr` the same is written
//! `conv2d_with(x, w, ConvOptions::new().padding(1))`.

mod attention;
mod channel_norm;
mod norm;
mod pool;

use super::expr::emit_at;
pub use super::options::*;
use super::{Expr, describe, emit, fail, is_scalar};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::{ConvAttrs, Op, Params, PointwiseMode, ReduceAttrs, ReduceMode, SourceLoc, ViewOp};
use crate::layout::{Dims, MAX_RANK};
pub use attention::{SdpaStats, sdpa, sdpa_stats, sdpa_stats_with, sdpa_with};
pub use channel_norm::{
    BatchNormStats, batch_norm, batch_norm_train, batch_norm_train_with, batch_norm_with, group_norm, group_norm_with,
    instance_norm, instance_norm_with,
};
pub use norm::{
    layer_norm, layer_norm_stats, layer_norm_stats_with, layer_norm_with, log_softmax, rms_norm, rms_norm_stats,
    rms_norm_stats_with, rms_norm_with, softmax,
};
pub use pool::{
    avg_pool1d, avg_pool1d_with, avg_pool2d, avg_pool2d_with, avg_pool3d, avg_pool3d_with, global_avg_pool,
    global_max_pool, max_pool1d, max_pool1d_index, max_pool1d_index_with, max_pool1d_with, max_pool2d,
    max_pool2d_index, max_pool2d_index_with, max_pool2d_with, max_pool3d, max_pool3d_index, max_pool3d_index_with,
    max_pool3d_with,
};
use std::panic::Location;

/// Adds a pointwise node. Operands made by [`per_channel`] are shaped to meet axis 1 of the others.
pub(super) fn pointwise(mode: PointwiseMode, params: Params, operands: &[Expr], loc: SourceLoc) -> Expr {
    if operands.iter().any(|e| e.is_poison()) {
        return Expr::POISON;
    }
    if !operands.iter().any(|e| e.channel) {
        return emit(Op::Pointwise(mode, params), operands, loc);
    }
    let rank = operands.iter().filter(|e| !e.channel).map(|e| e.rank()).max();
    let Some(rank) = rank.filter(|&r| r >= 2) else {
        // Among themselves they stay what they are.
        let plain: Vec<Expr> = operands.iter().map(|&e| Expr { channel: false, ..e }).collect();
        return Expr { channel: true, ..emit(Op::Pointwise(mode, params), &plain, loc) };
    };
    if let Err(error) = check_channels(operands, rank) {
        return fail(mode.info().name, error, loc);
    }
    let shaped: Vec<Expr> = operands.iter().map(|&e| if e.channel { shape_channel(e, rank, loc) } else { e }).collect();
    emit(Op::Pointwise(mode, params), &shaped, loc)
}

/// Said here, where the operand still has the dims that the user gave it.
fn check_channels(operands: &[Expr], rank: usize) -> Result<()> {
    let full = operands.iter().filter(|e| !e.channel && e.rank() == rank).max_by_key(|e| e.dim(1));
    let Some(full) = full else { return Ok(()) };
    let channels = full.dim(1);
    match operands.iter().find(|e| e.channel && e.rank() == 1 && ![1, channels].contains(&e.dim(0)) && channels != 1) {
        Some(e) => Err(Error::shape(format!(
            "{} does not hold a value for each of the {channels} channels (axis 1) of {}",
            describe(*e),
            describe(*full)
        ))),
        None => Ok(()),
    }
}

/// The results of an operation with several; a mistake in the first is one of all and said once.
fn each<P: Copy, const N: usize>(parts: [P; N], emit: impl Fn(P) -> Expr) -> [Expr; N] {
    let mut lost = false;
    parts.map(|part| {
        let result = if lost { Expr::POISON } else { emit(part) };
        lost |= result.is_poison();
        result
    })
}

/// `[C]` as `[C, 1, …]` so that it lies on axis 1 of a tensor of this rank.
fn shape_channel(e: Expr, rank: usize, loc: SourceLoc) -> Expr {
    let plain = Expr { channel: false, ..e };
    if rank == 2 || e.rank() == 0 {
        return plain;
    }
    let dims = Dims::splat(1, rank - 1).with(0, e.dim(0));
    emit(Op::View(ViewOp::Reshape(dims)), &[plain], loc)
}

/// Refuses a per-channel operand where only a pointwise operation could place it.
pub(super) fn channel_misplaced(op: &str, loc: SourceLoc) -> Expr {
    let text = "a `per_channel` operand must meet an N×C×… tensor in a pointwise operation first";
    fail(op, Error::argument(text), loc)
}

/// Says that `b` (C values) belongs to axis 1 of the N×C×… tensor that it is combined with: `conv2d(x, w) * per_channel(s)`.
#[track_caller]
pub fn per_channel(b: Expr) -> Expr {
    if b.rank() > 1 {
        let error = Error::shape(format!("takes one value a channel (rank 1), not {}", b.dims()));
        return fail("per_channel", error, Location::caller().into());
    }
    Expr { channel: true, ..b }
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident, $mode:ident;)*) => {
        $($(#[$doc])*
        #[track_caller]
        pub fn $name(x: Expr) -> Expr { pointwise(PointwiseMode::$mode, Params::DEFAULT, &[x], Location::caller().into()) })*
        #[allow(clippy::should_implement_trait, reason = "`neg` is the method form of `-x`, in one row with the others")]
        impl Expr {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(self) -> Expr { $name(self) }
        )*}
    };
}

unary! {
    /// max(x, 0).
    relu, Relu;
    /// Hyperbolic tangent.
    tanh, Tanh;
    /// 1 / (1 + exp(-x)).
    sigmoid, Sigmoid;
    /// x · Φ(x), exact. `gelu(x, approximate = "tanh")` for the approximation.
    gelu, Gelu;
    /// x above 0, exp(x) - 1 below. Option `alpha`.
    elu, Elu;
    /// log(1 + exp(x)). Option `beta`.
    softplus, Softplus;
    /// x · sigmoid(x). Option `beta`.
    swish, Swish;
    /// Square root.
    sqrt, Sqrt;
    /// 1 / square root.
    rsqrt, Rsqrt;
    /// 1 / x.
    reciprocal, Reciprocal;
    /// Absolute value.
    abs, Abs;
    /// -x.
    neg, Neg;
    /// e to the power x.
    exp, Exp;
    /// Natural logarithm.
    log, Log;
    /// Sine.
    sin, Sin;
    /// Cosine.
    cos, Cos;
    /// Tangent.
    tan, Tan;
    /// Error function.
    erf, Erf;
    /// Next integer towards +∞.
    ceil, Ceil;
    /// Next integer towards -∞.
    floor, Floor;
    /// x itself: names a value that is returned beside others.
    identity, Identity;
    /// Not, of truth values; also `!x`.
    logical_not, LogicalNot;
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident, $mode:ident;)*) => {
        $($(#[$doc])*
        #[track_caller]
        pub fn $name(a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
            pointwise(PointwiseMode::$mode, Params::DEFAULT, &[a.into(), b.into()], Location::caller().into())
        })*
        impl Expr {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(self, other: impl Into<Expr>) -> Expr { $name(self, other) }
        )*}
    };
}

binary! {
    /// The smaller of each pair; NaN if either is.
    minimum, Min;
    /// The larger of each pair; NaN if either is.
    maximum, Max;
    /// a to the power b.
    pow, Pow;
    /// Remainder of a / b with the sign of a; also `a % b`.
    fmod, Mod;
    /// a + b².
    add_square, AddSquare;
    /// The angle of the point (b, a).
    atan2, Atan2;
    /// a == b.
    eq, CmpEq;
    /// a != b.
    ne, CmpNeq;
    /// a > b.
    gt, CmpGt;
    /// a >= b.
    ge, CmpGe;
    /// a < b.
    lt, CmpLt;
    /// a <= b.
    le, CmpLe;
    /// Both, of truth values; also `a & b`.
    logical_and, LogicalAnd;
    /// Either, of truth values; also `a | b`.
    logical_or, LogicalOr;
}

/// `a` where the condition holds, else `b`.
#[track_caller]
pub fn select(condition: Expr, a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
    let operands = [condition, a.into(), b.into()];
    pointwise(PointwiseMode::Select, Params::DEFAULT, &operands, Location::caller().into())
}

/// x · sigmoid(x): swish with beta 1.
#[track_caller]
pub fn silu(x: Expr) -> Expr {
    swish(x)
}

/// min(max(x, 0), 6).
#[track_caller]
pub fn relu6(x: Expr) -> Expr {
    clipped_relu(x)
}

macro_rules! activation {
    ($($(#[$doc:meta])* $name:ident, $mode:ident, $options:ident, |$o:ident, $p:ident| $set:expr;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(x: Expr, options: $options) -> Expr {
            let ($o, mut $p) = (options, Params::DEFAULT);
            $set;
            pointwise(PointwiseMode::$mode, $p, &[x], Location::caller().into())
        }
    )*};
}

activation! {
    /// [`leaky_relu`] with its options.
    leaky_relu_with, Relu, LeakyReluOptions, |o, p| p.slope = o.slope;
    /// [`clipped_relu`] with its options.
    clipped_relu_with, Relu, ClippedReluOptions, |o, p| { p.lower_clip = o.lower; p.upper_clip = o.upper };
    /// [`elu`] with its options.
    elu_with, Elu, EluOptions, |o, p| p.elu_alpha = o.alpha;
    /// [`swish`] with its options.
    swish_with, Swish, SwishOptions, |o, p| p.swish_beta = o.beta;
    /// [`softplus`] with its options.
    softplus_with, Softplus, SoftplusOptions, |o, p| p.softplus_beta = o.beta;
}

/// x above 0, slope · x below. Option `slope` (0.01).
#[track_caller]
pub fn leaky_relu(x: Expr) -> Expr {
    leaky_relu_with(x, LeakyReluOptions::new())
}

/// min(max(x, lower), upper). Options `lower` (0) and `upper` (6).
#[track_caller]
pub fn clipped_relu(x: Expr) -> Expr {
    clipped_relu_with(x, ClippedReluOptions::new())
}

/// [`gelu`] with its options.
#[track_caller]
pub fn gelu_with(x: Expr, options: GeluOptions) -> Expr {
    let loc = Location::caller().into();
    match options.approximate.as_str() {
        "none" => pointwise(PointwiseMode::Gelu, Params::DEFAULT, &[x], loc),
        "tanh" => pointwise(PointwiseMode::GeluTanh, Params::DEFAULT, &[x], loc),
        other => fail("gelu", Error::argument(format!("approximate is \"none\" or \"tanh\", not {other:?}")), loc),
    }
}

/// The coordinate along `axis` of each element of `x`, as I32.
#[track_caller]
pub fn gen_index(x: Expr, axis: i64) -> Expr {
    let loc = Location::caller();
    match axis_of(axis, x.rank()) {
        Ok(axis) => {
            pointwise(PointwiseMode::GenIndex, Params { axis: axis as i64, ..Params::DEFAULT }, &[x], loc.into())
        }
        Err(error) => fail("gen_index", error, loc.into()),
    }
}

/// Rounds to another element type. Without it a result has the element type of its operands.
#[track_caller]
pub fn cast(x: Expr, dtype: DType) -> Expr {
    let channel = x.channel;
    let e = emit_at(Op::Cast(dtype), &[Expr { channel: false, ..x }], Location::caller());
    Expr { channel, ..e }
}

/// Matrix product over the last two axes; batch axes broadcast. Options `transpose_a`, `transpose_b`, `bias`.
#[track_caller]
pub fn matmul(a: Expr, b: Expr) -> Expr {
    matmul_with(a, b, MatmulOptions::new())
}

/// [`matmul`] with its options.
#[track_caller]
pub fn matmul_with(a: Expr, b: Expr, options: MatmulOptions) -> Expr {
    let loc = Location::caller();
    let swap = |e: Expr, yes: bool| if yes { swap_last(e, loc.into()) } else { e };
    let y = emit_at(Op::Matmul, &[swap(a, options.transpose_a), swap(b, options.transpose_b)], loc);
    match options.bias {
        Some(bias) => pointwise(PointwiseMode::Add, Params::DEFAULT, &[y, bias], loc.into()),
        None => y,
    }
}

fn swap_last(e: Expr, loc: SourceLoc) -> Expr {
    let rank = e.rank();
    if rank < 2 {
        return e;
    }
    let mut perm = Dims::collect(0..rank as i64);
    perm = perm.with(rank - 2, rank as i64 - 1).with(rank - 1, rank as i64 - 2);
    emit(Op::View(ViewOp::Permute(perm)), &[e], loc)
}

macro_rules! conv {
    ($($(#[$doc:meta])* $name:ident, $with:ident, $spatial:literal;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(x: Expr, w: Expr) -> Expr { $with(x, w, ConvOptions::new()) }
        /// The same with its options.
        #[track_caller]
        pub fn $with(x: Expr, w: Expr, options: ConvOptions) -> Expr { conv(x, w, $spatial, options, Location::caller()) }
    )*};
}

conv! {
    /// 1-D convolution of N×C×W data with K×C/groups×S weights. Options `bias`, `scale`, `residual`, `padding`, `stride`, `dilation`, `groups`.
    conv1d, conv1d_with, 1;
    /// 2-D convolution of N×C×H×W data with K×C/groups×R×S weights. Options as of [`conv1d`].
    conv2d, conv2d_with, 2;
    /// 3-D convolution of N×C×D×H×W data with K×C/groups×T×R×S weights. Options as of [`conv1d`].
    conv3d, conv3d_with, 3;
}

fn conv(x: Expr, w: Expr, spatial: usize, o: ConvOptions, loc: &'static Location<'static>) -> Expr {
    let attrs = match conv_attrs(w, spatial, &o) {
        Ok(attrs) => attrs,
        Err(error) => return fail(Op::Conv(ConvAttrs::new(spatial)).name(), error, loc.into()),
    };
    let mut y = emit_at(Op::Conv(attrs), &[x, w], loc);
    let channel = |e: Expr| if e.rank() == 1 { Expr { channel: true, ..e } } else { e };
    if let Some(scale) = o.scale {
        y = pointwise(PointwiseMode::Mul, Params::DEFAULT, &[y, channel(scale)], loc.into());
    }
    if let Some(bias) = o.bias {
        y = pointwise(PointwiseMode::Add, Params::DEFAULT, &[y, channel(bias)], loc.into());
    }
    match o.residual {
        Some(residual) => pointwise(PointwiseMode::Add, Params::DEFAULT, &[y, residual], loc.into()),
        None => y,
    }
}

fn conv_attrs(w: Expr, spatial: usize, o: &ConvOptions) -> Result<ConvAttrs> {
    let extents = |e: &Extents| match &e.0 {
        Ok(v) => Dims::splat(*v, spatial),
        Err(list) => Dims::collect(list.iter().copied()),
    };
    let (stride, dilation) = (extents(&o.stride), extents(&o.dilation));
    let (pre_padding, post_padding) = match &o.padding {
        Padding::Uniform(v) => (Dims::splat(*v, spatial), Dims::splat(*v, spatial)),
        Padding::Symmetric(list) => (Dims::collect(list.iter().copied()), Dims::collect(list.iter().copied())),
        Padding::Sides(list) => (Dims::collect(list.iter().map(|p| p.0)), Dims::collect(list.iter().map(|p| p.1))),
        Padding::Same => same_padding(w, spatial, &stride, &dilation)?,
        Padding::Unknown(word) => {
            return Err(Error::argument(format!("padding is a number, a list, \"same\" or \"valid\", not {word:?}")));
        }
    };
    Ok(ConvAttrs { spatial, stride, dilation, pre_padding, post_padding, groups: o.groups })
}

fn same_padding(w: Expr, spatial: usize, stride: &Dims, dilation: &Dims) -> Result<(Dims, Dims)> {
    if stride.iter().any(|&s| s != 1) {
        return Err(Error::argument("padding \"same\" needs stride 1"));
    }
    let at = |d: &Dims, i: usize| d.get(i).copied().unwrap_or(1);
    let total = |i: usize| at(dilation, i).saturating_mul(w.dim(2 + i as i64) - 1).max(0);
    let pre = Dims::collect((0..spatial).map(|i| total(i) / 2));
    let post = Dims::collect((0..spatial).map(|i| total(i) - total(i) / 2));
    Ok((pre, post))
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident, $with:ident, $mode:ident;)*) => {
        $($(#[$doc])*
        #[track_caller]
        pub fn $name(x: Expr) -> Expr { $with(x, ReduceOptions::new()) }
        /// The same with its options.
        #[track_caller]
        pub fn $with(x: Expr, options: ReduceOptions) -> Expr { reduce(x, ReduceMode::$mode, options, Location::caller()) })*
        impl Expr {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(self) -> Expr { $name(self) }
        )*}
    };
}

reductions! {
    /// Sum over all axes, or over `axes`; `keepdim` keeps them with extent 1. F32, as all reductions of floats.
    sum, sum_with, Sum;
    /// Arithmetic mean. Options as of [`sum`].
    mean, mean_with, Mean;
    /// Largest element. Options as of [`sum`].
    max, max_with, Max;
    /// Smallest element. Options as of [`sum`].
    min, min_with, Min;
    /// Product. Options as of [`sum`].
    prod, prod_with, Prod;
    /// Largest absolute value. Options as of [`sum`].
    amax, amax_with, Amax;
    /// Sum of absolute values. Options as of [`sum`].
    norm1, norm1_with, Norm1;
    /// Square root of the sum of squares. Options as of [`sum`].
    norm2, norm2_with, Norm2;
}

fn reduce(x: Expr, mode: ReduceMode, o: ReduceOptions, loc: &'static Location<'static>) -> Expr {
    let rank = x.rank();
    let mut axes = 0u8;
    match &o.axes {
        None => axes = (0..rank.min(MAX_RANK)).fold(0, |bits, a| bits | 1 << a),
        Some(list) => {
            for &axis in &list.0 {
                match axis_of(axis, rank) {
                    Ok(a) => axes |= 1 << a,
                    Err(error) => return fail(mode.name(), error, loc.into()),
                }
            }
        }
    }
    emit_at(Op::Reduce(ReduceAttrs { mode, axes, keepdim: o.keepdim }), &[x], loc)
}

fn axis_of(axis: i64, rank: usize) -> Result<usize> {
    let at = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    usize::try_from(at)
        .ok()
        .filter(|&a| a < rank)
        .ok_or_else(|| Error::argument(format!("axis {axis} is not an axis of a tensor of rank {rank}")))
}

fn list<T: Copy + TryInto<i64>>(values: &[T]) -> Result<Dims> {
    Dims::new(&values.iter().map(|&v| v.try_into().unwrap_or(i64::MAX)).collect::<Vec<_>>())
}

/// Axis `i` of the result is axis `perm[i]` of `x`. Costs nothing.
#[track_caller]
pub fn permute<T: Copy + TryInto<i64>, const N: usize>(x: Expr, perm: [T; N]) -> Expr {
    let loc = Location::caller();
    match list(&perm) {
        Ok(perm) => {
            let perm = Dims::collect(perm.iter().map(|&p| if p < 0 { p + x.rank() as i64 } else { p }));
            emit_at(Op::View(ViewOp::Permute(perm)), &[x], loc)
        }
        Err(error) => fail("permute", error, loc.into()),
    }
}

/// Exchanges two axes; negative ones count from the end. Costs nothing.
#[track_caller]
pub fn transpose(x: Expr, a: i64, b: i64) -> Expr {
    let loc = Location::caller();
    let rank = x.rank();
    match (axis_of(a, rank), axis_of(b, rank)) {
        (Ok(a), Ok(b)) => {
            let perm = Dims::collect(0..rank as i64).with(a, b as i64).with(b, a as i64);
            emit_at(Op::View(ViewOp::Permute(perm)), &[x], loc)
        }
        (Err(error), _) | (_, Err(error)) => fail("transpose", error, loc.into()),
    }
}

/// The same elements in row-major order with other dims; one of them may be -1. Costs nothing where the strides allow it.
#[track_caller]
pub fn reshape<T: Copy + TryInto<i64>, const N: usize>(x: Expr, dims: [T; N]) -> Expr {
    let loc = Location::caller();
    let from = x.dims();
    let to = list(&dims).and_then(|d| fill_one(d, &from));
    match to {
        Ok(dims) => emit_at(Op::View(ViewOp::Reshape(dims)), &[x], loc),
        Err(error) => fail("reshape", error, loc.into()),
    }
}

fn fill_one(dims: Dims, from: &Dims) -> Result<Dims> {
    let open: Vec<usize> = (0..dims.len()).filter(|&i| dims[i] == -1).collect();
    let known = dims.iter().filter(|&&d| d != -1).try_fold(1i64, |n, &d| n.checked_mul(d)).filter(|&n| n > 0);
    match (open.as_slice(), known) {
        (_, _) if dims.iter().any(|&d| d < -1) => Err(Error::argument(format!("{dims} has a negative extent"))),
        ([], _) => Ok(dims),
        ([axis], Some(known)) if from.numel() as i64 % known == 0 => Ok(dims.with(*axis, from.numel() as i64 / known)),
        ([_], _) => Err(Error::shape(format!("{from} cannot be seen as {dims}: no whole number fits the -1"))),
        _ => Err(Error::argument(format!("{dims} has more than one -1"))),
    }
}

/// Elements along an axis: options `axis`, `start`, `end`, `step`. Costs nothing.
#[track_caller]
pub fn slice_with(x: Expr, o: SliceOptions) -> Expr {
    let loc = Location::caller();
    let axis = match axis_of(o.axis, x.rank()) {
        Ok(axis) => axis,
        Err(error) => return fail("slice", error, loc.into()),
    };
    let extent = x.dims()[axis];
    let from_end = |v: i64| if v < 0 { v.saturating_add(extent) } else { v };
    let view = ViewOp::Slice { axis, start: from_end(o.start), end: from_end(o.end.unwrap_or(extent)), step: o.step };
    emit_at(Op::View(view), &[x], loc)
}

/// All of `x`; with options a part of it: `slice(x, axis = 1, end = 3)`.
#[track_caller]
pub fn slice(x: Expr) -> Expr {
    slice_with(x, SliceOptions::new())
}

/// Extents of 1 repeated to these dims; new axes in front. Costs nothing.
#[track_caller]
pub fn expand<T: Copy + TryInto<i64>, const N: usize>(x: Expr, dims: [T; N]) -> Expr {
    let loc = Location::caller();
    match list(&dims) {
        Ok(dims) => emit_at(Op::View(ViewOp::Expand(dims)), &[x], loc),
        Err(error) => fail("expand", error, loc.into()),
    }
}

/// Drops an axis of extent 1; negative counts from the end. Costs nothing.
#[track_caller]
pub fn squeeze(x: Expr, axis: i64) -> Expr {
    let loc = Location::caller();
    match axis_of(axis, x.rank()) {
        Ok(axis) => emit_at(Op::View(ViewOp::Squeeze(axis)), &[x], loc),
        Err(error) => fail("squeeze", error, loc.into()),
    }
}

/// Inserts an axis of extent 1; negative counts from behind the last. Costs nothing.
#[track_caller]
pub fn unsqueeze(x: Expr, axis: i64) -> Expr {
    let loc = Location::caller();
    match axis_of(axis, x.rank() + 1) {
        Ok(axis) => emit_at(Op::View(ViewOp::Unsqueeze(axis)), &[x], loc),
        Err(error) => fail("unsqueeze", error, loc.into()),
    }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*);)*) => {
        impl Expr {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(self, $($arg: $ty),*) -> Expr { $name(self, $($arg),*) }
        )*}
    };
}

methods! {
    /// Matrix product; see [`matmul`].
    matmul(other: Expr);
    /// Rounds to another element type; see [`cast`].
    cast(dtype: DType);
    /// x · sigmoid(x).
    silu();
    /// min(max(x, 0), 6).
    relu6();
    /// Exchanges two axes.
    transpose(a: i64, b: i64);
    /// Drops an axis of extent 1.
    squeeze(axis: i64);
    /// Inserts an axis of extent 1.
    unsqueeze(axis: i64);
}

impl Expr {
    /// Reorders the axes; see [`permute`].
    #[track_caller]
    pub fn permute<T: Copy + TryInto<i64>, const N: usize>(self, perm: [T; N]) -> Expr {
        permute(self, perm)
    }

    /// Other dims over the same elements; see [`reshape`].
    #[track_caller]
    pub fn reshape<T: Copy + TryInto<i64>, const N: usize>(self, dims: [T; N]) -> Expr {
        reshape(self, dims)
    }

    /// Extents of 1 repeated; see [`expand`].
    #[track_caller]
    pub fn expand<T: Copy + TryInto<i64>, const N: usize>(self, dims: [T; N]) -> Expr {
        expand(self, dims)
    }
}
