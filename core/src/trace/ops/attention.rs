//! Scaled dot-product attention.

use super::super::expr::emit_at;
use super::{Expr, each, fail, is_scalar, pointwise};
use crate::error::{Error, Result};
use crate::ir::{Op, Params, PointwiseMode, SdpaAttrs, SdpaOperand, SdpaPart};
use crate::trace::SdpaOptions;
use std::panic::Location;

/// The results of [`sdpa_stats`]. Those that nobody reads are not computed.
#[derive(Clone, Copy, Debug)]
pub struct SdpaStats {
    /// What [`sdpa`] gives.
    pub output: Expr,
    /// ln Σ exp of the scores of each query; -∞ for one that sees nothing.
    pub log_sum_exp: Expr,
    /// The largest score of each query; -∞ for one that sees nothing.
    pub max: Expr,
    /// Σ exp of the scores less the largest one.
    pub sum_exp: Expr,
}

/// softmax(scale · q·kᵀ)·v for q of batch × heads × positions × width, k and v of the same, with as many heads or fewer (each for a group of
/// query heads). A query that sees no key gives 0.
///
/// Options: `scale` (1/√width), `causal`, `left_window`, `right_window`, `bottom_right`, `softcap`, `bias`, `alibi_slopes`, `seq_len_q`, `seq_len_kv`, `sink`.
#[track_caller]
pub fn sdpa(q: Expr, k: Expr, v: Expr) -> Expr {
    sdpa_with(q, k, v, SdpaOptions::new())
}

/// [`sdpa`] with its options.
#[track_caller]
pub fn sdpa_with(q: Expr, k: Expr, v: Expr, options: SdpaOptions) -> Expr {
    attend([q, k, v], options, [SdpaPart::Output], Location::caller())[0]
}

/// [`sdpa`] with the statistics of its softmax, which are F32 and batch × query heads × positions × 1.
#[track_caller]
pub fn sdpa_stats(q: Expr, k: Expr, v: Expr) -> SdpaStats {
    sdpa_stats_with(q, k, v, SdpaOptions::new())
}

/// [`sdpa_stats`] with its options.
#[track_caller]
pub fn sdpa_stats_with(q: Expr, k: Expr, v: Expr, options: SdpaOptions) -> SdpaStats {
    let [output, log_sum_exp, max, sum_exp] = attend([q, k, v], options, SdpaPart::ALL, Location::caller());
    SdpaStats { output, log_sum_exp, max, sum_exp }
}

/// The results that are asked for: each a node, all with the same operands.
fn attend<const N: usize>(
    tensors: [Expr; 3],
    o: SdpaOptions,
    parts: [SdpaPart; N],
    loc: &'static Location<'static>,
) -> [Expr; N] {
    if tensors.iter().any(|e| e.is_poison()) {
        return [Expr::POISON; N];
    }
    match operands(tensors, &o, loc) {
        Ok((attrs, operands)) => each(parts, |part| emit_at(Op::Sdpa(SdpaAttrs { part, ..attrs }), &operands, loc)),
        Err(error) => [fail("sdpa", error, loc.into()); N],
    }
}

fn operands(tensors: [Expr; 3], o: &SdpaOptions, loc: &'static Location<'static>) -> Result<(SdpaAttrs, Vec<Expr>)> {
    let [q, k, _] = tensors;
    let width = q.dim(-1).max(1) as f64;
    let scale = o.scale.unwrap_or_else(|| (1.0 / width.sqrt()).into());
    if !is_scalar(scale) || !o.softcap.is_none_or(is_scalar) {
        return Err(Error::argument("scale and softcap are numbers or host scalars"));
    }
    let right = match (o.causal, o.right_window) {
        (true, Some(n)) if n != 0 => {
            return Err(Error::argument(format!(
                "causal = true lets no query see behind itself, right_window = {n} does"
            )));
        }
        (true, _) => Some(0),
        (false, right) => right,
    };
    let mut attrs = SdpaAttrs { left: o.left_window, right, bottom_right: o.bottom_right, ..SdpaAttrs::new() };
    let mut operands = vec![tensors[0], tensors[1], tensors[2], scale];
    let (seq_len_q, seq_len_kv) = match (o.seq_len_q, o.seq_len_kv) {
        // Where only one side is padded the other one is whole.
        (None, Some(kv)) => (Some(whole(kv, q.dim(2), loc)), Some(kv)),
        (Some(q), None) => (Some(q), Some(whole(q, k.dim(2), loc))),
        both => both,
    };
    for operand in SdpaOperand::ALL {
        let given = match operand {
            SdpaOperand::Softcap => o.softcap,
            SdpaOperand::Bias => o.bias,
            SdpaOperand::AlibiSlopes => o.alibi_slopes,
            SdpaOperand::SeqLenQ => seq_len_q,
            SdpaOperand::SeqLenKv => seq_len_kv,
            SdpaOperand::Sink => o.sink,
        };
        if let Some(e) = given {
            attrs = attrs.with(operand);
            operands.push(e);
        }
    }
    Ok((attrs, operands))
}

/// As many times `n` as `like` has elements.
fn whole(like: Expr, n: i64, loc: &'static Location<'static>) -> Expr {
    let zero = pointwise(PointwiseMode::Mul, Params::DEFAULT, &[like, 0i64.into()], loc.into());
    pointwise(PointwiseMode::Add, Params::DEFAULT, &[zero, n.into()], loc.into())
}
