//! Pointwise operations of the classes that need not be fast: F64, integers, truth values.

use super::registers::Register;
use crate::ir::{Params, PointwiseMode as M};

fn each<T: Copy, D>(to: &mut [D], a: &[T], b: &[T], f: impl Fn(T, T) -> D) {
    if b.is_empty() {
        to.iter_mut().zip(a).for_each(|(d, &a)| *d = f(a, a));
    } else {
        to.iter_mut().zip(a).zip(b).for_each(|((d, &a), &b)| *d = f(a, b));
    }
}

/// `select(condition, a, b)`.
pub(super) fn select(n: usize, to: &mut Register, condition: &[bool], a: &Register, b: &Register) {
    fn pick<T: Copy>(to: &mut [T], c: &[bool], a: &[T], b: &[T]) {
        for (((d, &c), &a), &b) in to.iter_mut().zip(c).zip(a).zip(b) {
            *d = if c { a } else { b };
        }
    }
    let c = &condition[..n];
    match (to, a, b) {
        (Register::F32(to), Register::F32(a), Register::F32(b)) => pick(to, c, a, b),
        (Register::F64(to), Register::F64(a), Register::F64(b)) => pick(to, c, a, b),
        (Register::Int(to), Register::Int(a), Register::Int(b)) => pick(to, c, a, b),
        (Register::Bool(to), Register::Bool(a), Register::Bool(b)) => pick(to, c, a, b),
        _ => {}
    }
}

fn compare<T: PartialOrd>(mode: M, a: T, b: T) -> bool {
    match mode {
        M::CmpEq => a == b,
        M::CmpNeq => a != b,
        M::CmpGt => a > b,
        M::CmpGe => a >= b,
        M::CmpLt => a < b,
        _ => a <= b,
    }
}

/// F64.
pub(super) fn f64(mode: M, params: &Params, to: &mut Register, a: &[f64], b: &[f64]) {
    match to {
        Register::F64(to) => each(to, a, b, |a, b| float(mode, params, a, b)),
        Register::Bool(to) => each(to, a, b, |a, b| compare(mode, a, b)),
        _ => {}
    }
}

fn float(mode: M, p: &Params, a: f64, b: f64) -> f64 {
    match mode {
        M::Add => a + b,
        M::Sub => a - b,
        M::Mul => a * b,
        M::Div => a / b,
        M::AddSquare => a + b * b,
        M::Mod => a % b,
        M::Pow => a.powf(b),
        M::Atan2 => a.atan2(b),
        M::Min => {
            if a < b || a.is_nan() {
                a
            } else {
                b
            }
        }
        M::Max => {
            if a > b || a.is_nan() {
                a
            } else {
                b
            }
        }
        M::Sqrt => a.sqrt(),
        M::Rsqrt => a.sqrt().recip(),
        M::Reciprocal => a.recip(),
        M::Abs => a.abs(),
        M::Neg => -a,
        M::Ceil => a.ceil(),
        M::Floor => a.floor(),
        M::Exp => a.exp(),
        M::Log => a.ln(),
        M::Sin => a.sin(),
        M::Cos => a.cos(),
        M::Tan => a.tan(),
        _ => activation(mode, p, a),
    }
}

fn activation(mode: M, p: &Params, a: f64) -> f64 {
    let sigmoid = |v: f64| ((-v).exp() + 1.0).recip();
    match mode {
        M::Erf => 1.0 - erfc(a),
        M::Tanh => a.tanh(),
        M::Sigmoid => sigmoid(a),
        M::Swish => a * sigmoid(p.swish_beta * a),
        M::Elu if a > 0.0 => a,
        M::Elu => p.elu_alpha * a.exp_m1(),
        M::Gelu => 0.5 * a * erfc(-a * std::f64::consts::FRAC_1_SQRT_2),
        M::GeluTanh => a * sigmoid((8.0 / std::f64::consts::PI).sqrt() * (a + 0.044715 * a.powi(3))),
        M::Softplus => {
            let z = a * p.softplus_beta;
            (z.max(0.0) + (-z.abs()).exp().ln_1p() + if z.is_nan() { z } else { 0.0 }) / p.softplus_beta
        }
        M::Relu if a < p.lower_clip && p.slope == 0.0 => p.lower_clip,
        M::Relu if a < p.lower_clip => p.lower_clip + p.slope * (a - p.lower_clip),
        M::Relu if a > p.upper_clip => p.upper_clip,
        _ => a,
    }
}

/// The complement of the error function: a series for its middle, a continued fraction (evaluated from its far end) for the tail.
fn erfc(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let z = x * x;
    if x.abs() < 3.0 {
        // erf(x) = 2x/√π e^(-x²) Σ (2x²)ⁿ / (1·3·5…(2n+1)): all terms of one sign.
        let (mut term, mut sum) = (1.0, 1.0);
        for n in 1..80 {
            term *= 2.0 * z / (2 * n + 1) as f64;
            sum += term;
        }
        return 1.0 - std::f64::consts::FRAC_2_SQRT_PI * x * (-z).exp() * sum;
    }
    let a = x.abs();
    let fraction = (1..60).rev().fold(a, |f, n| a + 0.5 * n as f64 / f);
    let tail = (-z).exp() * 0.5 * std::f64::consts::FRAC_2_SQRT_PI / fraction;
    if x > 0.0 { tail } else { 2.0 - tail }
}

/// Integers. What leaves the range wraps within 64 bits and saturates where it is stored; a division by zero gives 0.
pub(super) fn int(mode: M, params: &Params, to: &mut Register, a: &[i64], b: &[i64]) {
    match to {
        Register::Int(to) => each(to, a, b, |a, b| integer(mode, params, a, b)),
        Register::Bool(to) => each(to, a, b, |a, b| compare(mode, a, b)),
        _ => {}
    }
}

fn integer(mode: M, p: &Params, a: i64, b: i64) -> i64 {
    match mode {
        M::Add => a.wrapping_add(b),
        M::Sub => a.wrapping_sub(b),
        M::Mul => a.wrapping_mul(b),
        M::Div => a.checked_div(b).unwrap_or(0),
        M::Mod => a.checked_rem(b).unwrap_or(0),
        M::AddSquare => a.wrapping_add(b.wrapping_mul(b)),
        M::Min => a.min(b),
        M::Max => a.max(b),
        M::Abs => a.wrapping_abs(),
        M::Neg => a.wrapping_neg(),
        M::Relu if (a as f64) < p.lower_clip || a as f64 > p.upper_clip => {
            activation(mode, p, a as f64).round_ties_even() as i64
        }
        _ => a,
    }
}

/// Truth values.
pub(super) fn bool(mode: M, to: &mut Register, a: &[bool], b: &[bool]) {
    if let Register::Bool(to) = to {
        each(to, a, b, |a, b| match mode {
            M::LogicalAnd => a && b,
            M::LogicalOr => a || b,
            M::LogicalNot => !a,
            M::Identity => a,
            _ => compare(mode, a, b),
        });
    }
}
