//! The pointwise modes on numbers.

use crate::ir::{Params, PointwiseMode as M};

/// The larger; NaN if either is.
pub(super) fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// The smaller; NaN if either is.
pub(super) fn minimum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }
}

/// One element of a pointwise operation. `integral`: the operands are integers.
pub(super) fn pointwise(mode: M, p: &Params, args: &[f64], index: &[i64], integral: bool) -> f64 {
    let (a, b) = (args[0], args.get(1).copied().unwrap_or(0.0));
    let truth = |v: bool| v as u8 as f64;
    match mode {
        M::Add => a + b,
        M::Sub => a - b,
        M::Mul => a * b,
        M::Div if integral => {
            if b == 0.0 {
                0.0
            } else {
                (a / b).trunc()
            }
        }
        M::Div => a / b,
        M::Min => minimum(a, b),
        M::Max => maximum(a, b),
        M::AddSquare => a + b * b,
        M::Mod => a % b,
        M::Pow => a.powf(b),
        M::Atan2 => a.atan2(b),
        M::CmpEq => truth(a == b),
        M::CmpNeq => truth(a != b),
        M::CmpGt => truth(a > b),
        M::CmpGe => truth(a >= b),
        M::CmpLt => truth(a < b),
        M::CmpLe => truth(a <= b),
        M::LogicalAnd => truth(a != 0.0 && b != 0.0),
        M::LogicalOr => truth(a != 0.0 || b != 0.0),
        M::LogicalNot => truth(a == 0.0),
        M::Select => {
            if a != 0.0 {
                b
            } else {
                args[2]
            }
        }
        M::GenIndex => index[p.axis as usize] as f64,
        M::Identity => a,
        M::Neg => -a,
        M::Abs => a.abs(),
        M::Sqrt => a.sqrt(),
        M::Rsqrt => 1.0 / a.sqrt(),
        M::Reciprocal => 1.0 / a,
        M::Ceil => a.ceil(),
        M::Floor => a.floor(),
        M::Exp => a.exp(),
        M::Log => a.ln(),
        M::Sin => a.sin(),
        M::Cos => a.cos(),
        M::Tan => a.tan(),
        M::Erf => erf(a),
        M::Relu => relu(a, p),
        M::Tanh => a.tanh(),
        M::Sigmoid => sigmoid(a),
        M::Elu => {
            if a > 0.0 {
                a
            } else {
                p.elu_alpha * a.exp_m1()
            }
        }
        M::Gelu => 0.5 * a * (1.0 + erf(a * std::f64::consts::FRAC_1_SQRT_2)),
        M::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (a + 0.044715 * a * a * a);
            0.5 * a * (1.0 + inner.tanh())
        }
        M::Softplus => softplus(a * p.softplus_beta) / p.softplus_beta,
        M::Swish => a * sigmoid(p.swish_beta * a),
    }
}

fn relu(a: f64, p: &Params) -> f64 {
    if a.is_nan() {
        a
    } else if a < p.lower_clip {
        // Without a slope nothing is multiplied: minus infinity becomes the clip, not NaN.
        if p.slope == 0.0 { p.lower_clip } else { p.lower_clip + p.slope * (a - p.lower_clip) }
    } else {
        a.min(p.upper_clip)
    }
}

fn sigmoid(a: f64) -> f64 {
    1.0 / (1.0 + (-a).exp())
}

fn softplus(a: f64) -> f64 {
    if a > 0.0 { a + (-a).exp().ln_1p() } else { a.exp().ln_1p() }
}

/// The error function: its Taylor series near 0, a continued fraction for its complement further out.
pub(crate) fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a.is_nan() {
        return x;
    }
    if a < 2.5 {
        let (mut term, mut sum, mut n) = (x, x, 0.0);
        while term.abs() > 1e-18 * sum.abs() && n < 200.0 {
            n += 1.0;
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
        }
        return sum * std::f64::consts::FRAC_2_SQRT_PI;
    }
    if a > 6.0 {
        return x.signum();
    }
    // erfc(a) = exp(-a²)/(a√π) · 1/(1 + (1/2a²)/(1 + (2/2a²)/(1 + …)))
    let t = 1.0 / (2.0 * a * a);
    let tail = (1..=80).rev().fold(1.0, |f, n| 1.0 + n as f64 * t / f);
    x.signum() * (1.0 - (-a * a).exp() * std::f64::consts::FRAC_2_SQRT_PI / (2.0 * a * tail))
}

#[cfg(test)]
mod tests {
    use super::erf;

    /// Values of Abramowitz and Stegun, table 7.1.
    #[test]
    fn error_function() {
        let table = [
            (0.0, 0.0),
            (0.5, 0.5204998778),
            (1.0, 0.8427007929),
            (2.0, 0.9953222650),
            (2.49, 0.999571),
            (2.6, 0.9997639656),
        ];
        for (x, want) in table {
            assert!((erf(x) - want).abs() < 1e-6 && (erf(-x) + want).abs() < 1e-6, "erf({x}) = {}", erf(x));
        }
        assert!((erf(2.4999999) - erf(2.5000001)).abs() < 1e-8);
    }
}
