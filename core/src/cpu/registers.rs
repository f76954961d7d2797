//! The typed registers of a program, and how elements get in and out of them.

use super::simd::{Narrow, Widen, arch, narrow_f16, widen_f16};
use super::space::CHUNK;
use crate::dtype::{DType, Element};
use crate::tensor::{HostData, HostSliceMut, with_host};

/// What a value is held in between two operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Class {
    F32,
    F64,
    Int,
    Bool,
}

impl Class {
    pub(super) fn of(dtype: DType) -> Class {
        match dtype.compute() {
            DType::F64 => Class::F64,
            DType::I32 | DType::I64 => Class::Int,
            DType::Bool => Class::Bool,
            _ => Class::F32,
        }
    }
}

/// A register: one block of elements.
#[derive(Clone, Debug)]
pub(super) enum Register {
    F32(Vec<f32>),
    F64(Vec<f64>),
    Int(Vec<i64>),
    Bool(Vec<bool>),
}

impl Default for Register {
    fn default() -> Self {
        Register::Bool(Vec::new())
    }
}

/// Runs `$body` with `$v` bound to the typed vector of a register.
macro_rules! with_register {
    ($r:expr, $v:ident => $body:expr) => {
        match $r {
            Register::F32($v) => $body,
            Register::F64($v) => $body,
            Register::Int($v) => $body,
            Register::Bool($v) => $body,
        }
    };
}

/// An element of a register.
pub(super) trait Held: Copy + Default {
    fn from_held_f64(v: f64) -> Self;
    fn from_held_i64(v: i64) -> Self;
    fn held_f64(self) -> f64;
    fn held_i64(self) -> i64;
    /// From an element in memory.
    fn load<E: Element>(e: E) -> Self;
    /// To an element in memory, rounded.
    fn store<E: Element>(self) -> E;
}

macro_rules! held {
    ($t:ty, $from:expr, $from_int:expr, $to:expr, $int:expr, $load:ident, $store:ident) => {
        impl Held for $t {
            fn from_held_f64(v: f64) -> Self {
                $from(v)
            }
            fn from_held_i64(v: i64) -> Self {
                $from_int(v)
            }
            fn held_f64(self) -> f64 {
                $to(self)
            }
            fn held_i64(self) -> i64 {
                $int(self)
            }
            fn load<E: Element>(e: E) -> Self {
                e.$load() as $t
            }
            fn store<E: Element>(self) -> E {
                E::$store(self as _)
            }
        }
    };
}

held!(f32, |v| v as f32, |v| v as f32, |v: f32| v as f64, |v: f32| v.round_ties_even() as i64, to_f32, from_f32);
held!(f64, |v| v, |v| v as f64, |v| v, |v: f64| v.round_ties_even() as i64, to_f64, from_f64);

impl Held for i64 {
    fn from_held_f64(v: f64) -> Self {
        v.round_ties_even() as i64
    }
    fn from_held_i64(v: i64) -> Self {
        v
    }
    fn held_f64(self) -> f64 {
        self as f64
    }
    fn held_i64(self) -> i64 {
        self
    }
    fn load<E: Element>(e: E) -> Self {
        e.to_f64() as i64
    }
    fn store<E: Element>(self) -> E {
        E::from_f64(self as f64)
    }
}

impl Held for bool {
    fn from_held_f64(v: f64) -> Self {
        v != 0.0
    }
    fn from_held_i64(v: i64) -> Self {
        v != 0
    }
    fn held_f64(self) -> f64 {
        self as u8 as f64
    }
    fn held_i64(self) -> i64 {
        self as i64
    }
    fn load<E: Element>(e: E) -> Self {
        e.to_f64() != 0.0
    }
    fn store<E: Element>(self) -> E {
        E::from_f64(self as u8 as f64)
    }
}

impl Register {
    pub(super) fn new(class: Class) -> Register {
        match class {
            Class::F32 => Register::F32(vec![0.0; CHUNK]),
            Class::F64 => Register::F64(vec![0.0; CHUNK]),
            Class::Int => Register::Int(vec![0; CHUNK]),
            Class::Bool => Register::Bool(vec![false; CHUNK]),
        }
    }

    pub(super) fn f32(&self) -> &[f32] {
        if let Register::F32(v) = self { v } else { &[] }
    }

    pub(super) fn f64(&self) -> &[f64] {
        if let Register::F64(v) = self { v } else { &[] }
    }

    pub(super) fn int(&self) -> &[i64] {
        if let Register::Int(v) = self { v } else { &[] }
    }

    pub(super) fn bool(&self) -> &[bool] {
        if let Register::Bool(v) = self { v } else { &[] }
    }

    pub(super) fn fill(&mut self, v: f64) {
        with_register!(self, r => r.fill(Held::from_held_f64(v)));
    }

    /// Loads `n` elements from `offset` on, `step` apart, to `at`.
    pub(super) fn load(&mut self, at: usize, n: usize, data: &HostData, offset: i64, step: i64) {
        let from = offset as usize;
        if step == 1 {
            match (&mut *self, data) {
                (Register::F32(r), HostData::F32(v)) => return r[at..at + n].copy_from_slice(&v[from..from + n]),
                (Register::F32(r), HostData::BF16(v)) => {
                    return arch().dispatch(Widen(&v[from..from + n], &mut r[at..at + n]));
                }
                (Register::F32(r), HostData::F16(v)) => return widen_f16(&v[from..from + n], &mut r[at..at + n]),
                (Register::Int(r), HostData::I64(v)) => return r[at..at + n].copy_from_slice(&v[from..from + n]),
                _ => {}
            }
        }
        if let (Register::Int(r), HostData::I64(v)) = (&mut *self, data) {
            // Through `f64`, as all others go, large ones would lose digits.
            for (i, d) in r[at..at + n].iter_mut().enumerate() {
                *d = v[(offset + i as i64 * step) as usize];
            }
            return;
        }
        with_register!(self, r => with_host!(data, v => {
            if step == 0 {
                r[at..at + n].fill(Held::load(v[from]));
            } else {
                for (i, d) in r[at..at + n].iter_mut().enumerate() {
                    *d = Held::load(v[(offset + i as i64 * step) as usize]);
                }
            }
        }));
    }

    /// Stores the first `n` elements to `out[at..]`, rounded to its type.
    pub(super) fn store(&self, n: usize, out: &mut HostSliceMut<'_>, at: usize) {
        match (self, &mut *out) {
            (Register::F32(r), HostSliceMut::F32(o)) => return o[at..at + n].copy_from_slice(&r[..n]),
            (Register::F32(r), HostSliceMut::BF16(o)) => return arch().dispatch(Narrow(&r[..n], &mut o[at..at + n])),
            (Register::F32(r), HostSliceMut::F16(o)) => return narrow_f16(&r[..n], &mut o[at..at + n]),
            (Register::Int(r), HostSliceMut::I64(o)) => return o[at..at + n].copy_from_slice(&r[..n]),
            (Register::Bool(r), HostSliceMut::Bool(o)) => return o[at..at + n].copy_from_slice(&r[..n]),
            _ => {}
        }
        macro_rules! each {
            ($($variant:ident)*) => {
                with_register!(self, r => match out { $(HostSliceMut::$variant(o) => {
                    for (d, &s) in o[at..at + n].iter_mut().zip(r) {
                        *d = s.store();
                    }
                })* })
            };
        }
        each!(F32 F16 BF16 F64 F8E4M3 F8E5M2 I8 I32 I64 Bool);
    }

    /// Converts the first `n` elements of another register.
    pub(super) fn convert(&mut self, n: usize, from: &Register) {
        match (&mut *self, from) {
            (Register::Int(d), Register::Int(s)) => d[..n].copy_from_slice(&s[..n]),
            (Register::F64(d), Register::Int(s)) => {
                d.iter_mut().zip(&s[..n]).for_each(|(d, &s)| *d = s as f64);
            }
            (d, Register::Int(s)) => with_register!(d, r => {
                r.iter_mut().zip(&s[..n]).for_each(|(d, &s)| *d = Held::from_held_i64(s));
            }),
            (Register::Int(d), s) => with_register!(s, r => {
                d.iter_mut().zip(&r[..n]).for_each(|(d, &s)| *d = s.held_i64());
            }),
            (d, s) => with_register!(s, s => with_register!(d, r => {
                r.iter_mut().zip(&s[..n]).for_each(|(d, &s)| *d = Held::from_held_f64(s.held_f64()));
            })),
        }
    }

    /// Rounds the first `n` elements to an element type, in place.
    pub(super) fn round(&mut self, n: usize, dtype: DType) {
        crate::tensor::with_type!(dtype, T => match self {
            Register::F32(r) => r[..n].iter_mut().for_each(|v| *v = T::from_f32(*v).to_f32()),
            Register::F64(r) => r[..n].iter_mut().for_each(|v| *v = T::from_f64(*v).to_f64()),
            Register::Int(r) => r[..n].iter_mut().for_each(|v| *v = match dtype {
                DType::I8 => (*v).clamp(i8::MIN as i64, i8::MAX as i64),
                DType::I32 => (*v).clamp(i32::MIN as i64, i32::MAX as i64),
                _ => *v,
            }),
            Register::Bool(_) => {}
        });
    }
}
