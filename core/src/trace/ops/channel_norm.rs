//! Normalisations of channels: batch, instance and group norm.

use super::norm::{EPSILON, Norm};
use super::{Count, Expr, emit, fail, pointwise, shape_channel};
use crate::error::{Error, Result};
use crate::ir::{NormMode, NormPart, Op, Params, PointwiseMode, ViewOp};
use crate::layout::Dims;
use crate::trace::{BatchNormOptions, BatchNormTrainOptions, InstanceNormOptions};
use std::panic::Location;

/// (x - mean) / √(var + ε) · γ + β with one value a channel (axis 1) of each: batch norm with statistics that are given. Pointwise, and fused behind a
/// convolution or matmul. Option `epsilon` (1e-5).
#[track_caller]
pub fn batch_norm(x: Expr, gamma: Expr, beta: Expr, mean: Expr, var: Expr) -> Expr {
    batch_norm_with(x, gamma, beta, mean, var, BatchNormOptions::new())
}

/// [`batch_norm`] with its options.
#[track_caller]
pub fn batch_norm_with(x: Expr, gamma: Expr, beta: Expr, mean: Expr, var: Expr, options: BatchNormOptions) -> Expr {
    let loc = Location::caller();
    if x.is_poison() {
        return x;
    }
    if x.rank() < 2 {
        return fail("batch_norm", Error::shape(format!("takes N×C×…, not {}", x.dims())), loc.into());
    }
    if let Some(text) =
        [(gamma, "gamma"), (beta, "beta"), (mean, "mean"), (var, "var")].into_iter().find_map(not_a_list)
    {
        return fail("batch_norm", Error::shape(text), loc.into());
    }
    let epsilon = options.epsilon.unwrap_or_else(|| EPSILON.into());
    let binary = |mode, a, b| pointwise(mode, Params::DEFAULT, &[a, b], loc.into());
    // Shaped first: a view of what is computed would be a cut.
    let channel = |e: Expr| shape_channel(e, x.rank(), loc.into());
    let shifted = binary(PointwiseMode::Add, channel(var), epsilon);
    let inv_std = pointwise(PointwiseMode::Rsqrt, Params::DEFAULT, &[shifted], loc.into());
    let centered = binary(PointwiseMode::Sub, x, channel(mean));
    let normal = binary(PointwiseMode::Mul, centered, inv_std);
    binary(PointwiseMode::Add, binary(PointwiseMode::Mul, normal, channel(gamma)), channel(beta))
}

fn not_a_list((e, name): (Expr, &str)) -> Option<String> {
    (!e.is_poison() && e.rank() != 1).then(|| format!("{name} holds one value a channel (rank 1), not {}", e.dims()))
}

/// The results of [`batch_norm_train`]. Those that nobody reads are not computed.
#[derive(Clone, Copy, Debug)]
pub struct BatchNormStats {
    /// The normalised tensor.
    pub y: Expr,
    /// The mean of each channel, 1×C×1×…, F32.
    pub mean: Expr,
    /// 1 / √(variance + ε) of each channel, 1×C×1×…, F32.
    pub inv_std: Expr,
    /// The running mean, updated: C values; the mean of the batch where none was given.
    pub running_mean: Expr,
    /// The running variance, updated by the unbiased variance of the batch: C values; that variance where none was given.
    pub running_var: Expr,
}

/// Batch norm with the statistics of the batch. Options `epsilon` (1e-5), `running_mean`, `running_var`, `momentum` (0.1: the weight of the batch).
#[track_caller]
pub fn batch_norm_train(x: Expr, gamma: Expr, beta: Expr) -> BatchNormStats {
    batch_norm_train_with(x, gamma, beta, BatchNormTrainOptions::new())
}

/// [`batch_norm_train`] with its options.
#[track_caller]
pub fn batch_norm_train_with(x: Expr, gamma: Expr, beta: Expr, o: BatchNormTrainOptions) -> BatchNormStats {
    let loc = Location::caller();
    let epsilon = o.epsilon.unwrap_or_else(|| EPSILON.into());
    let norm = of_channels(NormMode::Batch, [x, gamma, beta], Some(epsilon), loc);
    let [y, mean, inv_std] = norm.results([NormPart::Y, NormPart::Mean, NormPart::InvStd], loc);
    let binary = |mode, a: Expr, b: Expr| pointwise(mode, Params::DEFAULT, &[a, b], loc.into());
    let flat = |e: Expr| emit(Op::View(ViewOp::Reshape(Dims::collect([x.dim(1)]))), &[e], loc.into());
    let n = (x.dims().numel() as f64 / x.dim(1).max(1) as f64).max(2.0);
    let square = binary(PointwiseMode::Mul, inv_std, inv_std);
    let variance = binary(PointwiseMode::Sub, binary(PointwiseMode::Div, 1.0.into(), square), epsilon);
    let variance = binary(PointwiseMode::Mul, variance, (n / (n - 1.0)).into());
    let momentum = o.momentum.unwrap_or_else(|| 0.1.into());
    let updated = |old: Option<Expr>, new: Expr| match old {
        None => flat(new),
        Some(old) => {
            let step = binary(PointwiseMode::Mul, binary(PointwiseMode::Sub, flat(new), old), momentum);
            binary(PointwiseMode::Add, old, step)
        }
    };
    BatchNormStats {
        y,
        mean,
        inv_std,
        running_mean: updated(o.running_mean, mean),
        running_var: updated(o.running_var, variance),
    }
}

/// Each channel of each batch entry normalised by its own mean and variance. Option `epsilon` (1e-5).
#[track_caller]
pub fn instance_norm(x: Expr, gamma: Expr, beta: Expr) -> Expr {
    instance_norm_with(x, gamma, beta, InstanceNormOptions::new())
}

/// [`instance_norm`] with its options.
#[track_caller]
pub fn instance_norm_with(x: Expr, gamma: Expr, beta: Expr, options: InstanceNormOptions) -> Expr {
    let loc = Location::caller();
    of_channels(NormMode::Instance, [x, gamma, beta], options.epsilon, loc).results([NormPart::Y], loc)[0]
}

/// Each of `groups` groups of channels of each batch entry normalised by its own mean and variance. Option `epsilon` (1e-5).
#[track_caller]
pub fn group_norm(x: Expr, groups: impl Into<Count>, gamma: Expr, beta: Expr) -> Expr {
    group_norm_with(x, groups, gamma, beta, InstanceNormOptions::new())
}

/// [`group_norm`] with its options.
#[track_caller]
pub fn group_norm_with(
    x: Expr,
    groups: impl Into<Count>,
    gamma: Expr,
    beta: Expr,
    options: InstanceNormOptions,
) -> Expr {
    let loc = Location::caller();
    if x.is_poison() {
        return x;
    }
    match grouped(x, groups.into().get(), [gamma, beta], loc) {
        Ok([grouped, gamma, beta]) => {
            let axes = NormMode::Group.axes(grouped.rank(), 0);
            let norm = Norm {
                mode: NormMode::Group,
                axes,
                x: grouped,
                gamma,
                beta: Some(beta),
                epsilon: options.epsilon,
                zero_centered: false,
            };
            let y = norm.results([NormPart::Y], loc)[0];
            emit(Op::View(ViewOp::Reshape(x.dims())), &[y], loc.into())
        }
        Err(error) => fail("group_norm", error, loc.into()),
    }
}

/// N×C×… as N×G×C/G×…, and C values as G×C/G×1×….
fn grouped(x: Expr, groups: i64, parameters: [Expr; 2], loc: &'static Location<'static>) -> Result<[Expr; 3]> {
    let dims = x.dims();
    if dims.len() < 2 || groups < 1 || dims[1] % groups != 0 {
        let text = format!("the channels (axis 1) of {dims} do not divide into {groups} groups");
        return Err(Error::shape(text));
    }
    let split = Dims::new(&[&[dims[0], groups, dims[1] / groups], &dims[2..]].concat())?;
    let view = |e: Expr, dims: Dims| emit(Op::View(ViewOp::Reshape(dims)), &[e], loc.into());
    let list = Dims::collect(split[1..].iter().enumerate().map(|(at, &d)| if at < 2 { d } else { 1 }));
    let [gamma, beta] = parameters.map(|e| view(e, list));
    Ok([view(x, split), gamma, beta])
}

fn of_channels(
    mode: NormMode,
    [x, gamma, beta]: [Expr; 3],
    epsilon: Option<Expr>,
    loc: &'static Location<'static>,
) -> Norm {
    // C values as C×1×…, so that they lie on axis 1.
    let shaped = |e: Expr| match e.rank() {
        1 if x.rank() > 2 => {
            let dims = Dims::splat(1, x.rank() - 1).with(0, e.dim(0));
            emit(Op::View(ViewOp::Reshape(dims)), &[e], loc.into())
        }
        _ => e,
    };
    let axes = mode.axes(x.rank(), 0);
    Norm { mode, axes, x, gamma: shaped(gamma), beta: Some(shaped(beta)), epsilon, zero_centered: false }
}
