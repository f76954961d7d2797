//! Element types.

use std::fmt;

pub use float8::{F8E4M3, F8E5M2};
pub use half::{bf16, f16};

/// The element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16: the upper half of an `F32`.
    BF16,
    /// IEEE double precision; on the CPU only.
    F64,
    /// 8-bit float, 4 exponent bits, no infinity (`e4m3fn`).
    F8E4M3,
    /// 8-bit float, 5 exponent bits.
    F8E5M2,
    /// Signed 8-bit integer.
    I8,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// Truth value, one byte an element.
    Bool,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 10] = [
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::F64,
        DType::F8E4M3,
        DType::F8E5M2,
        DType::I8,
        DType::I32,
        DType::I64,
        DType::Bool,
    ];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 => 8,
            DType::F32 | DType::I32 => 4,
            DType::F16 | DType::BF16 => 2,
            DType::F8E4M3 | DType::F8E5M2 | DType::I8 | DType::Bool => 1,
        }
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        !self.is_int() && !matches!(self, DType::Bool)
    }

    /// Whether this is an integer type (`Bool` is not).
    pub const fn is_int(self) -> bool {
        matches!(self, DType::I8 | DType::I32 | DType::I64)
    }

    /// The name used in texts and in the text form of a graph.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F64 => "f64",
            DType::F8E4M3 => "f8e4m3",
            DType::F8E5M2 => "f8e5m2",
            DType::I8 => "i8",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::Bool => "bool",
        }
    }

    /// The type with this [`name`](DType::name).
    pub fn from_name(name: &str) -> Option<DType> {
        Self::ALL.into_iter().find(|d| d.name() == name)
    }

    /// The type in which values of this type are held between two operations of one kernel and accumulated:
    /// F32 for every float up to 32 bits, F64 for F64, I32 for I8 and I32.
    pub const fn compute(self) -> DType {
        match self {
            DType::F64 => DType::F64,
            DType::I8 | DType::I32 => DType::I32,
            DType::I64 => DType::I64,
            DType::Bool => DType::Bool,
            _ => DType::F32,
        }
    }

    /// The type of a result of two operands of equal weight, as in PyTorch: a float wins over an integer, the wider over
    /// the narrower, and F32 is what F16 and BF16 have in common.
    pub fn promote(self, other: DType) -> DType {
        if self == other {
            return self;
        }
        let rank = |d: DType| match d {
            DType::Bool => 0,
            DType::I8 => 1,
            DType::I32 => 2,
            DType::I64 => 3,
            DType::F8E4M3 | DType::F8E5M2 => 4,
            DType::F16 | DType::BF16 => 5,
            DType::F32 => 6,
            DType::F64 => 7,
        };
        match rank(self).cmp(&rank(other)) {
            std::cmp::Ordering::Greater => self,
            std::cmp::Ordering::Less => other,
            std::cmp::Ordering::Equal => DType::F32,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that is the element of a tensor.
pub trait Element: Copy + Default + Send + Sync + fmt::Debug + PartialEq + sealed::Sealed + 'static {
    /// The element type it stands for.
    const DTYPE: DType;
    /// The value nearest to `v` (rounded to nearest even; floats that overflow become infinite, except F8E4M3, which
    /// saturates; integers saturate and NaN becomes 0).
    fn from_f64(v: f64) -> Self;
    /// The value as `f64`.
    fn to_f64(self) -> f64;
    /// The value nearest to `v`, rounded once.
    fn from_f32(v: f32) -> Self {
        Self::from_f64(v as f64)
    }
    /// The value as `f32`, rounded where `f32` is narrower.
    fn to_f32(self) -> f32 {
        self.to_f64() as f32
    }
}

macro_rules! element {
    ($($t:ty, $d:ident, |$v:ident| $from:expr, |$s:ident| $to:expr, |$v32:ident| $from32:expr, |$s32:ident| $to32:expr;)*) => {$(
        impl sealed::Sealed for $t {}
        impl Element for $t {
            const DTYPE: DType = DType::$d;
            #[inline]
            fn from_f64($v: f64) -> Self { $from }
            #[inline]
            fn to_f64(self) -> f64 { let $s = self; $to }
            #[inline]
            fn from_f32($v32: f32) -> Self { $from32 }
            #[inline]
            fn to_f32(self) -> f32 { let $s32 = self; $to32 }
        }
    )*};
}

element! {
    f32, F32, |v| v as f32, |s| s as f64, |v| v, |s| s;
    f64, F64, |v| v, |s| s, |v| v as f64, |s| s as f32;
    f16, F16, |v| f16::from_f64(v), |s| s.to_f64(), |v| f16::from_f32(v), |s| s.to_f32();
    bf16, BF16, |v| bf16::from_f64(v), |s| s.to_f64(), |v| bf16::from_f32(v), |s| s.to_f32();
    F8E4M3, F8E4M3, |v| F8E4M3::from_f64(v), |s| F8E4M3::to_f64(&s), |v| F8E4M3::from_f32(v), |s| F8E4M3::to_f32(&s);
    F8E5M2, F8E5M2, |v| F8E5M2::from_f64(v), |s| F8E5M2::to_f64(&s), |v| F8E5M2::from_f32(v), |s| F8E5M2::to_f32(&s);
    i8, I8, |v| v.round_ties_even() as i8, |s| s as f64, |v| v.round_ties_even() as i8, |s| s as f32;
    i32, I32, |v| v.round_ties_even() as i32, |s| s as f64, |v| v.round_ties_even() as i32, |s| s as f32;
    i64, I64, |v| v.round_ties_even() as i64, |s| s as f64, |v| v.round_ties_even() as i64, |s| s as f32;
    bool, Bool, |v| v != 0.0, |s| s as u8 as f64, |v| v != 0.0, |s| s as u8 as f32;
}
