//! Vector loops. Everything here is compiled once for each level of the processor's vector units and picked at run time by `pulp`.
//!
//! Why `pulp`: the kernels of this crate hold no `unsafe`, and `pulp` is the kept crate that offers the vector units and their detection behind a safe
//! interface. The matrix crates (`gemm`, `matrixmultiply`) only have `unsafe` entry points over raw pointers, and cannot run an epilogue on a tile.

use super::math;
use crate::dtype::{bf16, f16};
use crate::ir::{Params, PointwiseMode as M};
use pulp::{Arch, Simd, WithSimd};

/// The vector units of this machine.
pub(super) fn arch() -> Arch {
    static ARCH: std::sync::OnceLock<Arch> = std::sync::OnceLock::new();
    *ARCH.get_or_init(Arch::new)
}

/// Their name.
pub(super) fn name() -> String {
    format!("{:?}", arch()).split(['(', ' ', '{']).next().unwrap_or("scalar").to_owned()
}

#[inline(always)]
fn map1(dst: &mut [f32], a: &[f32], f: impl Fn(f32) -> f32) {
    for (d, &a) in dst.iter_mut().zip(a) {
        *d = f(a);
    }
}

#[inline(always)]
fn map2<T: Copy>(dst: &mut [T], a: &[f32], b: &[f32], f: impl Fn(f32, f32) -> T) {
    for ((d, &a), &b) in dst.iter_mut().zip(a).zip(b) {
        *d = f(a, b);
    }
}

/// One pointwise operation of floats on a block.
pub(super) struct Float<'a> {
    pub(super) mode: M,
    pub(super) params: &'a Params,
    pub(super) dst: &'a mut [f32],
    pub(super) a: &'a [f32],
    pub(super) b: &'a [f32],
}

impl WithSimd for Float<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        // Every level with vectors that is dispatched to has fused multiply-add; WebAssembly has not.
        if S::F32_LANES > 1 && !cfg!(target_arch = "wasm32") { self.run::<true>() } else { self.run::<false>() }
    }
}

impl Float<'_> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Float { mode, params: p, dst, a, b } = self;
        match mode {
            M::Add => map2(dst, a, b, |a, b| a + b),
            M::Sub => map2(dst, a, b, |a, b| a - b),
            M::Mul => map2(dst, a, b, |a, b| a * b),
            M::Div => map2(dst, a, b, |a, b| a / b),
            M::Min => map2(dst, a, b, |a, b| if a < b || a.is_nan() { a } else { b }),
            M::Max => map2(dst, a, b, |a, b| if a > b || a.is_nan() { a } else { b }),
            M::AddSquare => map2(dst, a, b, |a, b| a + b * b),
            M::Mod => map2(dst, a, b, |a, b| a % b),
            M::Pow => map2(dst, a, b, |a, b| (a as f64).powf(b as f64) as f32),
            M::Atan2 => map2(dst, a, b, f32::atan2),
            M::Sqrt => map1(dst, a, f32::sqrt),
            M::Abs => map1(dst, a, f32::abs),
            M::Ceil => map1(dst, a, f32::ceil),
            M::Floor => map1(dst, a, f32::floor),
            M::Cos => map1(dst, a, f32::cos),
            M::Sin => map1(dst, a, f32::sin),
            M::Tan => map1(dst, a, f32::tan),
            M::Neg => map1(dst, a, |a| -a),
            M::Rsqrt => map1(dst, a, |a| 1.0 / a.sqrt()),
            M::Reciprocal => map1(dst, a, |a| 1.0 / a),
            M::Exp => map1(dst, a, math::exp::<FMA>),
            M::Log => map1(dst, a, math::log::<FMA>),
            M::Erf => map1(dst, a, math::erf::<FMA>),
            M::Tanh => map1(dst, a, math::tanh::<FMA>),
            M::Sigmoid => map1(dst, a, math::sigmoid::<FMA>),
            M::Gelu => map1(dst, a, math::gelu::<FMA>),
            M::GeluTanh => map1(dst, a, math::gelu_tanh::<FMA>),
            M::Softplus => {
                let beta = p.softplus_beta as f32;
                map1(dst, a, |a| math::softplus::<FMA>(a, beta));
            }
            M::Swish => {
                let beta = p.swish_beta as f32;
                map1(dst, a, |a| a * math::sigmoid::<FMA>(a * beta));
            }
            M::Elu => {
                let alpha = p.elu_alpha as f32;
                map1(dst, a, |a| if a > 0.0 { a } else { alpha * math::expm1::<FMA>(a) });
            }
            M::Relu => relu(dst, a, p),
            // The others give truth values, coordinates or a choice, and have loops of their own.
            _ => map1(dst, a, |a| a),
        }
    }
}

#[inline(always)]
fn relu(dst: &mut [f32], a: &[f32], p: &Params) {
    let (lower, upper, slope) = (p.lower_clip as f32, p.upper_clip as f32, p.slope as f32);
    if lower == 0.0 && upper == f32::INFINITY && slope == 0.0 {
        return map1(dst, a, |a| if a < 0.0 { 0.0 } else { a });
    }
    map1(dst, a, |a| {
        // Without a slope nothing is multiplied: minus infinity becomes the clip, not NaN.
        let below = if slope == 0.0 { lower } else { lower + slope * (a - lower) };
        let above = if a > upper { upper } else { a };
        if a < lower { below } else { above }
    });
}

/// A comparison of floats.
pub(super) struct Compare<'a> {
    pub(super) mode: M,
    pub(super) dst: &'a mut [bool],
    pub(super) a: &'a [f32],
    pub(super) b: &'a [f32],
}

impl WithSimd for Compare<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Compare { mode, dst, a, b } = self;
        match mode {
            M::CmpEq => map2(dst, a, b, |a, b| a == b),
            M::CmpNeq => map2(dst, a, b, |a, b| a != b),
            M::CmpGt => map2(dst, a, b, |a, b| a > b),
            M::CmpGe => map2(dst, a, b, |a, b| a >= b),
            M::CmpLt => map2(dst, a, b, |a, b| a < b),
            _ => map2(dst, a, b, |a, b| a <= b),
        }
    }
}

/// `bf16` to `f32`.
pub(super) struct Widen<'a>(pub(super) &'a [bf16], pub(super) &'a mut [f32]);

impl WithSimd for Widen<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (d, s) in self.1.iter_mut().zip(self.0) {
            *d = f32::from_bits((s.to_bits() as u32) << 16);
        }
    }
}

/// `f32` to `bf16`, to nearest even.
pub(super) struct Narrow<'a>(pub(super) &'a [f32], pub(super) &'a mut [bf16]);

impl WithSimd for Narrow<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (d, s) in self.1.iter_mut().zip(self.0) {
            let bits = s.to_bits();
            let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
            *d = bf16::from_bits(if s.is_nan() { (bits >> 16 | 0x40) as u16 } else { rounded as u16 });
        }
    }
}

/// `f16` to `f32`.
pub(super) fn widen_f16(from: &[f16], to: &mut [f32]) {
    use half::slice::HalfFloatSliceExt;
    from.convert_to_f32_slice(to);
}

/// `f32` to `f16`, to nearest even.
pub(super) fn narrow_f16(from: &[f32], to: &mut [f16]) {
    use half::slice::HalfFloatSliceExt;
    to.convert_from_f32_slice(from);
}
