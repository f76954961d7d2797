//! Reductions at the end of a kernel. Within a block floats are combined in lanes of their own type, between blocks in `f64`, so that long
//! sums keep their digits.

use super::registers::{Class, Register};
use super::simd::arch;
use super::space::{Access, Block, Space};
use crate::dtype::{DType, Element};
use crate::ir::ReduceMode;
use crate::layout::Dims;
use crate::tensor::{HostData, HostElement, with_type};
use pulp::{Simd, WithSimd};

/// A reduction of a kernel.
#[derive(Clone, Debug)]
pub(super) struct Reduction {
    pub(super) mode: ReduceMode,
    pub(super) class: Class,
    /// Where each element goes, in the row-major result.
    pub(super) access: Access,
    pub(super) len: usize,
    /// Number of elements behind one result.
    pub(super) count: usize,
    pub(super) dtype: DType,
    /// Dims and strides of the result.
    pub(super) dims: Dims,
    pub(super) strides: Dims,
}

/// The partial results of one thread.
#[derive(Clone, Debug)]
pub(super) struct Accumulator {
    mode: ReduceMode,
    access: Access,
    float: Vec<f64>,
    int: Vec<i64>,
}

fn start(mode: ReduceMode) -> f64 {
    match mode {
        ReduceMode::Max => f64::NEG_INFINITY,
        ReduceMode::Min => f64::INFINITY,
        ReduceMode::Prod => 1.0,
        _ => 0.0,
    }
}

#[inline(always)]
fn larger(a: f64, b: f64) -> f64 {
    if b > a || b.is_nan() { b } else { a }
}

#[inline(always)]
fn smaller(a: f64, b: f64) -> f64 {
    if b < a || b.is_nan() { b } else { a }
}

/// Two partial results.
#[inline(always)]
fn combine(mode: ReduceMode, a: f64, b: f64) -> f64 {
    match mode {
        ReduceMode::Max | ReduceMode::Amax => larger(a, b),
        ReduceMode::Min => smaller(a, b),
        ReduceMode::Prod => a * b,
        _ => a + b,
    }
}

/// What an element contributes.
#[inline(always)]
fn term(mode: ReduceMode, v: f64) -> f64 {
    match mode {
        ReduceMode::Amax | ReduceMode::Norm1 => v.abs(),
        ReduceMode::Norm2 => v * v,
        _ => v,
    }
}

fn combine_int(mode: ReduceMode, a: i64, b: i64) -> i64 {
    match mode {
        ReduceMode::Max => a.max(b),
        ReduceMode::Amax => a.max(b.saturating_abs()),
        ReduceMode::Min => a.min(b),
        ReduceMode::Prod => a.saturating_mul(b),
        _ => a.saturating_add(b),
    }
}

impl Accumulator {
    pub(super) fn new(r: &Reduction) -> Accumulator {
        let int = if r.class == Class::Int { r.len } else { 0 };
        let first = match r.mode {
            ReduceMode::Max => i64::MIN,
            ReduceMode::Min => i64::MAX,
            mode => start(mode) as i64,
        };
        Accumulator { mode: r.mode, access: r.access, float: vec![start(r.mode); r.len - int], int: vec![first; int] }
    }

    /// Adds the elements of one block.
    pub(super) fn add(&mut self, space: &Space, block: &Block, from: &Register) {
        let Accumulator { mode, access, float, int } = self;
        if access.uniform {
            let at = access.offset as usize;
            return Self::fold(*mode, float, int, at, 0, from, 0, block.len());
        }
        let step = access.strides.last().copied().unwrap_or(0);
        space.for_each_row(block, access, |row, at| {
            Self::fold(*mode, float, int, at as usize, step, from, row * block.columns, block.columns);
        });
    }

    #[allow(clippy::too_many_arguments, reason = "the inner loop of `add`")]
    fn fold(
        mode: ReduceMode,
        float: &mut [f64],
        int: &mut [i64],
        at: usize,
        step: i64,
        from: &Register,
        first: usize,
        n: usize,
    ) {
        let place = |i: usize| (at as i64 + i as i64 * step) as usize;
        match from {
            Register::F32(v) if step == 0 => {
                float[at] = combine(mode, float[at], arch().dispatch(Lanes(mode, &v[first..first + n])));
            }
            Register::F32(v) => {
                for (i, &v) in v[first..first + n].iter().enumerate() {
                    let a = &mut float[place(i)];
                    *a = combine(mode, *a, term(mode, v as f64));
                }
            }
            Register::F64(v) => {
                for (i, &v) in v[first..first + n].iter().enumerate() {
                    let a = &mut float[place(i)];
                    *a = combine(mode, *a, term(mode, v));
                }
            }
            Register::Int(v) => {
                for (i, &v) in v[first..first + n].iter().enumerate() {
                    let a = &mut int[place(i)];
                    *a = combine_int(mode, *a, v);
                }
            }
            Register::Bool(_) => {}
        }
    }

    /// Takes in what another thread has.
    pub(super) fn merge(&mut self, other: &Accumulator) {
        for (a, &b) in self.float.iter_mut().zip(&other.float) {
            *a = combine(self.mode, *a, b);
        }
        for (a, &b) in self.int.iter_mut().zip(&other.int) {
            *a = combine_int(self.mode, *a, b);
        }
    }

    /// The row-major result.
    pub(super) fn finish(self, r: &Reduction) -> HostData {
        let float = |v: f64| match r.mode {
            ReduceMode::Mean => v / r.count as f64,
            ReduceMode::Norm2 => v.sqrt(),
            _ => v,
        };
        if r.class == Class::Int && r.dtype == DType::I64 {
            return HostData::I64(self.int);
        }
        let values = self.float.into_iter().map(float).chain(self.int.into_iter().map(|v| v as f64));
        with_type!(r.dtype, T => T::wrap(values.map(T::from_f64).collect()))
    }
}

/// Combines a run of floats in sixteen lanes.
struct Lanes<'a>(ReduceMode, &'a [f32]);

impl WithSimd for Lanes<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        let Lanes(mode, v) = self;
        match mode {
            ReduceMode::Sum | ReduceMode::Mean => lanes(v, 0.0, |a, v| a + v, |a, b| a + b),
            ReduceMode::Norm1 => lanes(v, 0.0, |a, v| a + v.abs(), |a, b| a + b),
            ReduceMode::Norm2 => v.iter().map(|&v| v as f64 * v as f64).sum(),
            ReduceMode::Prod => v.iter().map(|&v| v as f64).product(),
            ReduceMode::Max => lanes(v, f32::NEG_INFINITY, |a, v| if v > a || v.is_nan() { v } else { a }, larger),
            ReduceMode::Min => lanes(v, f32::INFINITY, |a, v| if v < a || v.is_nan() { v } else { a }, smaller),
            ReduceMode::Amax => lanes(v, 0.0, |a, v| if v.abs() > a || v.is_nan() { v.abs() } else { a }, larger),
        }
    }
}

#[inline(always)]
fn lanes(v: &[f32], start: f32, f: impl Fn(f32, f32) -> f32, join: impl Fn(f64, f64) -> f64) -> f64 {
    let mut acc = [start; 16];
    let chunks = v.chunks_exact(16);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (a, &v) in acc.iter_mut().zip(chunk) {
            *a = f(*a, v);
        }
    }
    for (a, &v) in acc.iter_mut().zip(rest) {
        *a = f(*a, v);
    }
    acc.iter().fold(start as f64, |a, &b| join(a, b as f64))
}
