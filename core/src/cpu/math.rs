//! Elementary functions of `f32` that the compiler turns into vector code: no branches, no tables, no calls.
//!
//! `FMA` says whether the surrounding code is compiled for a processor with fused multiply-add; without it `mul_add` would be a library call.
//! The polynomials are minimax fits made for these ranges. The largest errors over the whole range, in units in the last place, are in the
//! tests: exp 1, expm1 3, log 2, tanh 3, sigmoid 3, erf 2.

#[inline(always)]
fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// A polynomial, coefficients from the constant one up.
#[inline(always)]
fn poly<const FMA: bool, const N: usize>(x: f32, c: [f32; N]) -> f32 {
    let mut p = c[N - 1];
    for i in (0..N - 1).rev() {
        p = fma::<FMA>(p, x, c[i]);
    }
    p
}

/// `x` within bounds; NaN stays.
#[inline(always)]
fn clamp(x: f32, lo: f32, hi: f32) -> f32 {
    let x = if x > hi { hi } else { x };
    if x < lo { lo } else { x }
}

/// `(p, s, t)` with `exp(x) = (1 + p) s t`, where `s` and `t` are powers of two: two of them, so that subnormal results are reached.
#[inline(always)]
fn exp_parts<const FMA: bool>(x: f32) -> (f32, f32, f32) {
    // Adding 1.5·2²³ leaves the rounded integer in the low bits.
    const MAGIC: f32 = 12582912.0;
    let x = clamp(x, -104.5, 89.0);
    let shifted = fma::<FMA>(x, std::f32::consts::LOG2_E, MAGIC);
    let n = shifted - MAGIC;
    let r = fma::<FMA>(n, -0.693_359_4, x);
    let r = fma::<FMA>(n, 2.121_944_4e-4, r);
    let q = poly::<FMA, 6>(r, [0.5, 0.166_666_67, 0.041_666_27, 0.008_333_266, 0.001_394_607_5, 0.000_199_178_15]);
    let p = fma::<FMA>(r * r, q, r);
    let n = (shifted.to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32);
    let half = n >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
    (p, power(half), power(n.wrapping_sub(half)))
}

#[inline(always)]
pub(super) fn exp<const FMA: bool>(x: f32) -> f32 {
    let (p, s, t) = exp_parts::<FMA>(x);
    (1.0 + p) * s * t
}

/// `exp(x) - 1` without cancellation near 0.
#[inline(always)]
pub(super) fn expm1<const FMA: bool>(x: f32) -> f32 {
    let (p, s, t) = exp_parts::<FMA>(x);
    // s·t stays below 2^128 only as a product with `p`, which is why the two are not multiplied first when large.
    let small = fma::<FMA>(p, s * t, s * t - 1.0);
    if x > 80.0 { (1.0 + p) * s * t } else { small }
}

/// Natural logarithm.
#[inline(always)]
pub(super) fn log<const FMA: bool>(x: f32) -> f32 {
    let subnormal = x < f32::MIN_POSITIVE;
    let scaled = if subnormal { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits() as i32;
    // The exponent for a mantissa in [√½, √2).
    let offset = bits.wrapping_sub(0x3f35_04f3);
    let e = (offset >> 23) as f32 - if subnormal { 23.0 } else { 0.0 };
    let f = f32::from_bits(((offset & 0x007f_ffff) + 0x3f35_04f3) as u32) - 1.0;
    let p = poly::<FMA, 9>(
        f,
        [
            0.333_333_1,
            -0.249_999_87,
            0.200_022_27,
            -0.166_692_51,
            0.142_186_58,
            -0.123_843_48,
            0.118_729_76,
            -0.117_898_08,
            0.069_153_68,
        ],
    );
    let square = f * f;
    let low = fma::<FMA>(e, -2.121_944_4e-4, fma::<FMA>(square * f, p, -0.5 * square));
    let result = fma::<FMA>(e, 0.693_359_4, f + low);
    let result = if x == f32::INFINITY { x } else { result };
    let result = if x == 0.0 { f32::NEG_INFINITY } else { result };
    if x < 0.0 || x.is_nan() { f32::NAN } else { result }
}

/// `log(1 + u)` for `u` from 0 to 1.
#[inline(always)]
fn log1p<const FMA: bool>(u: f32) -> f32 {
    // The rounding of 1 + u is undone by the ratio of what was meant to what is there.
    let w = 1.0 + u;
    let ratio = u / (w - 1.0);
    if w == 1.0 { u } else { log::<FMA>(w) * ratio }
}

#[inline(always)]
pub(super) fn tanh<const FMA: bool>(x: f32) -> f32 {
    let square = x * x;
    let p = poly::<FMA, 5>(square, [-0.333_332_78, 0.133_313_28, -0.053_729_23, 0.020_602, -0.005_660_780_4]);
    let near = fma::<FMA>(x * square, p, x);
    let a = x.abs();
    let far = 1.0 - 2.0 / (exp::<FMA>(2.0 * clamp(a, 0.0, 10.0)) + 1.0);
    let far = far.copysign(x);
    let y = if a < 0.625 { near } else { far };
    if x.is_nan() { x } else { y }
}

#[inline(always)]
pub(super) fn sigmoid<const FMA: bool>(x: f32) -> f32 {
    // With e = exp(-|x|) nothing overflows, and small results keep their digits.
    let e = exp::<FMA>(-x.abs());
    let y = 1.0 / (1.0 + e);
    if x < 0.0 { e * y } else { y }
}

/// The complement of the error function for `t` above 0.9.
#[inline(always)]
fn erfc_far<const FMA: bool>(t: f32) -> f32 {
    let t = clamp(t, 0.0, 14.0);
    let p = poly::<FMA, 8>(
        t,
        [
            0.000_170_552_03,
            -1.129_495_1,
            0.366_613_36,
            -0.108_236_62,
            0.025_091_497,
            -0.004_160_527,
            0.000_432_303,
            -2.090_955_4e-5,
        ],
    );
    exp::<FMA>(fma::<FMA>(-t, t, p))
}

#[inline(always)]
fn erf_near<const FMA: bool>(x: f32) -> f32 {
    let p = poly::<FMA, 7>(
        x * x,
        [0.128_379_17, -0.376_126_32, 0.112_836_88, -0.026_858_97, 0.005_199_891, -0.000_812_906_1, 8.310_137e-5],
    );
    fma::<FMA>(x, p, x)
}

#[inline(always)]
pub(super) fn erf<const FMA: bool>(x: f32) -> f32 {
    let a = x.abs();
    let far = (1.0 - erfc_far::<FMA>(a)).copysign(x);
    if a > 0.92 { far } else { erf_near::<FMA>(x) }
}

/// `x Φ(x)`. The negative side uses the complement itself, so small results keep their digits.
#[inline(always)]
pub(super) fn gelu<const FMA: bool>(x: f32) -> f32 {
    let t = x * std::f32::consts::FRAC_1_SQRT_2;
    let a = t.abs();
    let half = 0.5 * erfc_far::<FMA>(a);
    let far = if x < 0.0 { half } else { 1.0 - half };
    let near = fma::<FMA>(0.5, erf_near::<FMA>(t), 0.5);
    x * if a > 0.92 { far } else { near }
}

#[inline(always)]
pub(super) fn gelu_tanh<const FMA: bool>(x: f32) -> f32 {
    // 0.5 (1 + tanh u) = sigmoid(2u)
    let inner = x * fma::<FMA>(x * x, 0.044715, 1.0);
    x * sigmoid::<FMA>(1.595_769 * inner)
}

#[inline(always)]
pub(super) fn softplus<const FMA: bool>(x: f32, beta: f32) -> f32 {
    let z = x * beta;
    let above = if z > 0.0 { z } else { 0.0 };
    let y = above + log1p::<FMA>(exp::<FMA>(-z.abs()));
    if z.is_nan() { z } else { y / beta }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest error in units of the last place of the result over floats spread evenly by their bits.
    fn worst(f: impl Fn(f32) -> f32, truth: impl Fn(f64) -> f64, range: (f32, f32)) -> f64 {
        let mut worst = 0.0f64;
        for i in (0..=u32::MAX).step_by(1009) {
            let x = f32::from_bits(i);
            if x.is_nan() || x < range.0 || x > range.1 {
                continue;
            }
            let (got, want) = (f(x), truth(x as f64));
            if want.abs() > f32::MAX as f64 {
                assert!(got.is_infinite() || got == f32::MAX, "{x}: {got} for {want}");
                continue;
            }
            let exponent = (want.abs().max(f32::MIN_POSITIVE as f64)).log2().floor() as i32;
            let ulp = 2f64.powi(exponent - 23);
            let error = (got as f64 - want).abs() / ulp;
            assert!(error.is_finite(), "{x}: {got} for {want}");
            worst = worst.max(error);
        }
        worst
    }

    #[track_caller]
    fn within(
        limit: f64,
        fused: impl Fn(f32) -> f32,
        plain: impl Fn(f32) -> f32,
        truth: impl Fn(f64) -> f64,
        range: (f32, f32),
    ) {
        let (a, b) = (worst(fused, &truth, range), worst(plain, &truth, range));
        assert!(a <= limit && b <= limit + 1.0, "with FMA {a:.2} ulp, without {b:.2}, allowed {limit}");
    }

    const ALL: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);

    #[test]
    fn exponential() {
        within(1.1, exp::<true>, exp::<false>, f64::exp, ALL);
        within(3.0, expm1::<true>, expm1::<false>, f64::exp_m1, ALL);
    }

    #[test]
    fn logarithm() {
        within(2.0, log::<true>, log::<false>, f64::ln, (f32::from_bits(1), f32::MAX));
        assert!(log::<true>(-1.0).is_nan() && log::<true>(f32::NAN).is_nan());
        assert_eq!(log::<true>(0.0), f32::NEG_INFINITY);
        assert_eq!(log::<true>(f32::INFINITY), f32::INFINITY);
    }

    #[test]
    fn sigmoids() {
        within(3.0, tanh::<true>, tanh::<false>, f64::tanh, ALL);
        within(3.0, sigmoid::<true>, sigmoid::<false>, |x| 1.0 / (1.0 + (-x).exp()), ALL);
        let softplus64 = |x: f64| if x > 0.0 { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() };
        within(4.0, |x| softplus::<true>(x, 1.0), |x| softplus::<false>(x, 1.0), softplus64, ALL);
    }

    #[test]
    fn error_function() {
        let truth = crate::cpu::oracle::erf;
        within(2.0, erf::<true>, erf::<false>, truth, ALL);
        // Where the result vanishes an absolute error counts.
        for i in -8000..8000 {
            let x = i as f32 / 1000.0;
            let want = 0.5 * x as f64 * (1.0 + truth(x as f64 * std::f64::consts::FRAC_1_SQRT_2));
            let error = (gelu::<true>(x) as f64 - want).abs();
            assert!(error <= 2e-6 * want.abs() + 3e-9, "gelu({x}) = {}, not {want}", gelu::<true>(x));
        }
        assert_eq!(gelu::<true>(-100.0), 0.0);
        assert_eq!(gelu::<true>(100.0), 100.0);
    }

    #[test]
    fn nan_stays() {
        let all: [fn(f32) -> f32; 8] = [
            exp::<true>,
            expm1::<true>,
            log::<true>,
            tanh::<true>,
            sigmoid::<true>,
            erf::<true>,
            gelu::<true>,
            gelu_tanh::<true>,
        ];
        assert!(all.iter().all(|f| f(f32::NAN).is_nan()));
        assert!(softplus::<true>(f32::NAN, 2.0).is_nan());
    }
}
