//! Normalisations and softmax.

use super::super::expr::emit_at;
use super::{Expr, axis_of, cast, each, fail, is_scalar, pointwise};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::{NormAttrs, NormMode, NormPart, Op, Params, PointwiseMode, SoftmaxAttrs};
use crate::trace::{LayerNormOptions, RmsNormOptions};
use std::panic::Location;

/// ε where none is given.
pub(super) const EPSILON: f64 = 1e-5;

/// What a normalisation is made of.
pub(super) struct Norm {
    pub(super) mode: NormMode,
    pub(super) axes: u8,
    pub(super) x: Expr,
    pub(super) gamma: Expr,
    pub(super) beta: Option<Expr>,
    pub(super) epsilon: Option<Expr>,
    pub(super) zero_centered: bool,
}

/// (x - mean) / √(variance + ε) · γ + β over the last axes, those that `gamma` and `beta` have. Options `epsilon` (1e-5) and `zero_centered` (the factor is
/// 1 + γ).
#[track_caller]
pub fn layer_norm(x: Expr, gamma: Expr, beta: Expr) -> Expr {
    layer_norm_with(x, gamma, beta, LayerNormOptions::new())
}

/// [`layer_norm`] with its options.
#[track_caller]
pub fn layer_norm_with(x: Expr, gamma: Expr, beta: Expr, options: LayerNormOptions) -> Expr {
    layer(x, gamma, beta, options).results([NormPart::Y], Location::caller())[0]
}

/// [`layer_norm`] with its statistics: (y, mean, 1 / √(variance + ε)). The statistics are F32 and keep the normalised axes with extent 1.
#[track_caller]
pub fn layer_norm_stats(x: Expr, gamma: Expr, beta: Expr) -> (Expr, Expr, Expr) {
    layer_norm_stats_with(x, gamma, beta, LayerNormOptions::new())
}

/// [`layer_norm_stats`] with its options.
#[track_caller]
pub fn layer_norm_stats_with(x: Expr, gamma: Expr, beta: Expr, options: LayerNormOptions) -> (Expr, Expr, Expr) {
    let parts = [NormPart::Y, NormPart::Mean, NormPart::InvStd];
    let [y, mean, inv_std] = layer(x, gamma, beta, options).results(parts, Location::caller());
    (y, mean, inv_std)
}

fn layer(x: Expr, gamma: Expr, beta: Expr, o: LayerNormOptions) -> Norm {
    let (epsilon, zero_centered) = (o.epsilon, o.zero_centered);
    let axes = NormMode::Layer.axes(x.rank(), gamma.rank());
    Norm { mode: NormMode::Layer, axes, x, gamma, beta: Some(beta), epsilon, zero_centered }
}

/// x / √(mean(x²) + ε) · γ over the last axes, those that `gamma` has. Options `bias`, `epsilon` (1e-5) and `zero_centered` (the factor is 1 + γ).
#[track_caller]
pub fn rms_norm(x: Expr, gamma: Expr) -> Expr {
    rms_norm_with(x, gamma, RmsNormOptions::new())
}

/// [`rms_norm`] with its options.
#[track_caller]
pub fn rms_norm_with(x: Expr, gamma: Expr, options: RmsNormOptions) -> Expr {
    rms(x, gamma, options).results([NormPart::Y], Location::caller())[0]
}

/// [`rms_norm`] with its statistic: (y, 1 / √(mean(x²) + ε)). That is F32 and keeps the normalised axes with extent 1.
#[track_caller]
pub fn rms_norm_stats(x: Expr, gamma: Expr) -> (Expr, Expr) {
    rms_norm_stats_with(x, gamma, RmsNormOptions::new())
}

/// [`rms_norm_stats`] with its options.
#[track_caller]
pub fn rms_norm_stats_with(x: Expr, gamma: Expr, options: RmsNormOptions) -> (Expr, Expr) {
    let [y, inv_std] = rms(x, gamma, options).results([NormPart::Y, NormPart::InvStd], Location::caller());
    (y, inv_std)
}

fn rms(x: Expr, gamma: Expr, o: RmsNormOptions) -> Norm {
    let (epsilon, zero_centered) = (o.epsilon, o.zero_centered);
    let axes = NormMode::Rms.axes(x.rank(), gamma.rank());
    Norm { mode: NormMode::Rms, axes, x, gamma, beta: o.bias, epsilon, zero_centered }
}

impl Norm {
    /// The results that are asked for: each a node, all with the same operands. Those that nobody reads cost nothing.
    pub(super) fn results<const N: usize>(self, parts: [NormPart; N], loc: &'static Location<'static>) -> [Expr; N] {
        let (mode, axes, bias) = (self.mode, self.axes, self.beta.is_some());
        let operands = match self.operands(loc) {
            Ok(found) => found,
            Err(error) => return [fail(mode.name(), error, loc.into()); N],
        };
        each(parts, |part| emit_at(Op::Norm(NormAttrs { mode, axes, bias, part }), &operands, loc))
    }

    fn operands(self, loc: &'static Location<'static>) -> Result<Vec<Expr>> {
        let epsilon = self.epsilon.unwrap_or_else(|| EPSILON.into());
        if !is_scalar(epsilon) {
            return Err(Error::argument("epsilon is a number or a host scalar"));
        }
        let gamma = match self.zero_centered {
            true => {
                let (wide, one) = (cast(self.gamma, DType::F32), 1.0.into());
                pointwise(PointwiseMode::Add, Params::DEFAULT, &[wide, one], loc.into())
            }
            false => self.gamma,
        };
        Ok([self.x, gamma].into_iter().chain(self.beta).chain([epsilon]).collect())
    }
}

/// exp(x) over its sum along an axis; a negative axis counts from the end.
#[track_caller]
pub fn softmax(x: Expr, axis: i64) -> Expr {
    along(x, axis, false, Location::caller())
}

/// The logarithm of [`softmax`].
#[track_caller]
pub fn log_softmax(x: Expr, axis: i64) -> Expr {
    along(x, axis, true, Location::caller())
}

fn along(x: Expr, axis: i64, log: bool, loc: &'static Location<'static>) -> Expr {
    if x.is_poison() {
        return x;
    }
    match axis_of(axis, x.rank()) {
        Ok(axis) => emit_at(Op::Softmax(SoftmaxAttrs { axis, log }), &[x], loc),
        Err(error) => fail(if log { "log_softmax" } else { "softmax" }, error, loc.into()),
    }
}

impl Expr {
    /// exp(x) over its sum along an axis; see [`softmax`].
    #[track_caller]
    pub fn softmax(self, axis: i64) -> Expr {
        softmax(self, axis)
    }

    /// The logarithm of [`softmax`](Expr::softmax).
    #[track_caller]
    pub fn log_softmax(self, axis: i64) -> Expr {
        log_softmax(self, axis)
    }
}
