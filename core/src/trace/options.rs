//! Named options of the operations: `conv2d(x, w, padding = 1)` becomes `conv2d_with(x, w, ConvOptions::new().padding(1))`.

use super::Expr;
use smallvec::SmallVec;

/// Zeros round the data, for each spatial dimension in front and behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Padding {
    /// The same everywhere.
    Uniform(i64),
    /// One number a dimension, the same in front and behind.
    Symmetric(SmallVec<[i64; 3]>),
    /// (in front, behind) for each dimension.
    Sides(SmallVec<[(i64, i64); 3]>),
    /// As many as keep the extents at stride 1: `"same"`.
    Same,
    /// A word that is neither `"same"` nor `"valid"`.
    Unknown(String),
}

/// A stride or dilation: one number for all spatial dimensions or one for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extents(pub(super) Result<i64, SmallVec<[i64; 3]>>);

/// Axes of a reduction; negative ones count from the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axes(pub(super) SmallVec<[i64; 4]>);

macro_rules! from_integers {
    ($($t:ty),*) => {$(
        impl From<$t> for Padding { fn from(v: $t) -> Self { Padding::Uniform(saturate(v)) } }
        impl<const N: usize> From<[$t; N]> for Padding {
            fn from(v: [$t; N]) -> Self { Padding::Symmetric(v.iter().map(|&v| saturate(v)).collect()) }
        }
        impl<const N: usize> From<[($t, $t); N]> for Padding {
            fn from(v: [($t, $t); N]) -> Self { Padding::Sides(v.iter().map(|&(a, b)| (saturate(a), saturate(b))).collect()) }
        }
        impl From<$t> for Extents { fn from(v: $t) -> Self { Extents(Ok(saturate(v))) } }
        impl<const N: usize> From<[$t; N]> for Extents {
            fn from(v: [$t; N]) -> Self { Extents(Err(v.iter().map(|&v| saturate(v)).collect())) }
        }
        impl From<$t> for Axes { fn from(v: $t) -> Self { Axes(SmallVec::from_slice(&[saturate(v)])) } }
        impl<const N: usize> From<[$t; N]> for Axes {
            fn from(v: [$t; N]) -> Self { Axes(v.iter().map(|&v| saturate(v)).collect()) }
        }
    )*};
}
from_integers!(i32, i64, usize);

/// An out-of-range number stays out of range, so that inference refuses it.
fn saturate<T: TryInto<i64>>(v: T) -> i64 {
    v.try_into().unwrap_or(i64::MAX)
}

impl From<&str> for Padding {
    fn from(word: &str) -> Self {
        match word {
            "same" => Padding::Same,
            "valid" => Padding::Uniform(0),
            other => Padding::Unknown(other.to_owned()),
        }
    }
}

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident : $ty:ty = $default:expr, |$v:ident : $arg:ty| $set:expr;)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[must_use]
        pub struct $name { $(pub(super) $field: $ty,)* }
        impl $name {
            /// The defaults.
            #[allow(clippy::new_without_default)]
            pub fn new() -> Self { $name { $($field: $default,)* } }
            $($(#[$fdoc])* pub fn $field(mut self, $v: $arg) -> Self { self.$field = $set; self })*
        }
        impl Default for $name {
            fn default() -> Self { Self::new() }
        }
    )*};
}

options! {
    /// Options of `conv1d`, `conv2d`, `conv3d`. What is applied to the result is applied in the order scale, bias, residual.
    ConvOptions {
        /// Added per channel (axis 1): K values.
        bias: Option<Expr> = None, |v: impl IntoOptional| v.into_optional();
        /// Multiplied per channel (axis 1): K values.
        scale: Option<Expr> = None, |v: impl IntoOptional| v.into_optional();
        /// Added element by element.
        residual: Option<Expr> = None, |v: impl IntoOptional| v.into_optional();
        /// Zeros round the data: `1`, `[1, 2]`, `[(0, 1), (2, 2)]`, `"same"`. Default 0.
        padding: Padding = Padding::Uniform(0), |v: impl Into<Padding>| v.into();
        /// Step of the filter. Default 1.
        stride: Extents = Extents(Ok(1)), |v: impl Into<Extents>| v.into();
        /// Distance of the taps. Default 1.
        dilation: Extents = Extents(Ok(1)), |v: impl Into<Extents>| v.into();
        /// Number of groups. Default 1.
        groups: i64 = 1, |v: impl Into<Count>| v.into().0;
    }
    /// Options of `matmul`.
    MatmulOptions {
        /// Whether the last two axes of the first operand are exchanged. Default false.
        transpose_a: bool = false, |v: bool| v;
        /// Whether the last two axes of the second operand are exchanged. Default false.
        transpose_b: bool = false, |v: bool| v;
        /// Added along the last axis.
        bias: Option<Expr> = None, |v: impl IntoOptional| v.into_optional();
    }
    /// Options of `leaky_relu`.
    LeakyReluOptions {
        /// Slope below 0. Default 0.01.
        slope: f64 = 0.01, |v: impl Into<Number>| v.into().0;
    }
    /// Options of `clipped_relu`.
    ClippedReluOptions {
        /// Lower clip. Default 0.
        lower: f64 = 0.0, |v: impl Into<Number>| v.into().0;
        /// Upper clip. Default 6, as in ReLU6.
        upper: f64 = 6.0, |v: impl Into<Number>| v.into().0;
    }
    /// Options of `elu`.
    EluOptions {
        /// Limit below. Default 1.
        alpha: f64 = 1.0, |v: impl Into<Number>| v.into().0;
    }
    /// Options of `swish`.
    SwishOptions {
        /// Factor inside the sigmoid. Default 1, which makes it SiLU.
        beta: f64 = 1.0, |v: impl Into<Number>| v.into().0;
    }
    /// Options of `softplus`.
    SoftplusOptions {
        /// Sharpness. Default 1.
        beta: f64 = 1.0, |v: impl Into<Number>| v.into().0;
    }
    /// Options of `gelu`.
    GeluOptions {
        /// `"none"` (exact, the default) or `"tanh"`.
        approximate: String = "none".to_owned(), |v: &str| v.to_owned();
    }
    /// Options of the reductions.
    ReduceOptions {
        /// Axes to reduce; negative ones count from the end. Default: all.
        axes: Option<Axes> = None, |v: impl Into<Axes>| Some(v.into());
        /// Whether reduced axes stay, with extent 1. Default false.
        keepdim: bool = false, |v: bool| v;
    }
    /// Options of `layer_norm` and `layer_norm_stats`.
    LayerNormOptions {
        /// Added to the variance. Default 1e-5.
        epsilon: Option<Expr> = None, |v: impl Into<Expr>| Some(v.into());
        /// Whether the factor is 1 + γ. Default false.
        zero_centered: bool = false, |v: bool| v;
    }
    /// Options of `rms_norm` and `rms_norm_stats`.
    RmsNormOptions {
        /// Added to the result.
        bias: Option<Expr> = None, |v: impl IntoOptional| v.into_optional();
        /// Added to the mean square. Default 1e-5.
        epsilon: Option<Expr> = None, |v: impl Into<Expr>| Some(v.into());
        /// Whether the factor is 1 + γ. Default false.
        zero_centered: bool = false, |v: bool| v;
    }
    /// Options of `batch_norm`.
    BatchNormOptions {
        /// Added to the variance. Default 1e-5.
        epsilon: Option<Expr> = None, |v: impl Into<Expr>| Some(v.into());
    }
    /// Options of `batch_norm_train`.
    BatchNormTrainOptions {
        /// Added to the variance. Default 1e-5.
        epsilon: Option<Expr> = None, |v: impl Into<Expr>| Some(v.into());
        /// The running mean, to be updated: C values.
        running_mean: Option<Expr> = None, |v: impl IntoOptional| v.into_optional();
        /// The running variance, to be updated: C values.
        running_var: Option<Expr> = None, |v: impl IntoOptional| v.into_optional();
        /// The weight of the batch in the update. Default 0.1.
        momentum: Option<Expr> = None, |v: impl Into<Expr>| Some(v.into());
    }
    /// Options of `instance_norm` and `group_norm`.
    InstanceNormOptions {
        /// Added to the variance. Default 1e-5.
        epsilon: Option<Expr> = None, |v: impl Into<Expr>| Some(v.into());
    }
    /// Options of `max_pool1d`, `max_pool2d`, `max_pool3d`, also with their index.
    MaxPoolOptions {
        /// Distance of the windows. Default: the window.
        stride: Option<Extents> = None, |v: impl Into<Extents>| Some(v.into());
        /// Padding round the data, which no window takes from. Default 0.
        padding: Padding = Padding::Uniform(0), |v: impl Into<Padding>| v.into();
    }
    /// Options of `avg_pool1d`, `avg_pool2d`, `avg_pool3d`.
    AvgPoolOptions {
        /// Distance of the windows. Default: the window.
        stride: Option<Extents> = None, |v: impl Into<Extents>| Some(v.into());
        /// Zeros round the data. Default 0.
        padding: Padding = Padding::Uniform(0), |v: impl Into<Padding>| v.into();
        /// Whether the zeros count. Default true.
        count_include_pad: bool = true, |v: bool| v;
    }
    /// Options of `sdpa` and `sdpa_stats`.
    SdpaOptions {
        /// Multiplied with the scores. Default 1/√width.
        scale: Option<Expr> = None, |v: impl Into<Expr>| Some(v.into());
        /// Whether a query sees only keys up to its own position: `right_window = 0`. Default false.
        causal: bool = false, |v: bool| v;
        /// How many keys before its own position a query sees. Default: all.
        left_window: Option<i64> = None, |v: impl Into<Count>| Some(v.into().0);
        /// How many keys behind its own position a query sees. Default: all.
        right_window: Option<i64> = None, |v: impl Into<Count>| Some(v.into().0);
        /// Whether the last query has the position of the last key. Default false: the first has that of the first.
        bottom_right: bool = false, |v: bool| v;
        /// Scores s become cap · tanh(s / cap).
        softcap: Option<Expr> = None, |v: impl Into<Expr>| Some(v.into());
        /// Added to the scores; broadcasts to batch × query heads × queries × keys.
        bias: Option<Expr> = None, |v: impl IntoOptional| v.into_optional();
        /// For each query head, what is added to a score for each position between query and key (F32).
        alibi_slopes: Option<Expr> = None, |v: impl IntoOptional| v.into_optional();
        /// How many queries each batch entry has (I32); what is behind them gives 0.
        seq_len_q: Option<Expr> = None, |v: impl IntoOptional| v.into_optional();
        /// How many keys each batch entry has (I32); what is behind them is not seen.
        seq_len_kv: Option<Expr> = None, |v: impl IntoOptional| v.into_optional();
        /// For each query head the score of one more key, whose value is 0 (F32).
        sink: Option<Expr> = None, |v: impl IntoOptional| v.into_optional();
    }
    /// Options of `slice`.
    SliceOptions {
        /// The axis; negative counts from the end. Default 0.
        axis: i64 = 0, |v: impl Into<Count>| v.into().0;
        /// First element; negative counts from the end. Default 0.
        start: i64 = 0, |v: impl Into<Count>| v.into().0;
        /// One past the last element; negative counts from the end. Default: the extent.
        end: Option<i64> = None, |v: impl Into<Count>| Some(v.into().0);
        /// Distance of the elements. Default 1.
        step: i64 = 1, |v: impl Into<Count>| v.into().0;
    }
}

/// A whole number of any usual type.
#[derive(Clone, Copy, Debug)]
pub struct Count(i64);

impl Count {
    pub(super) fn get(self) -> i64 {
        self.0
    }
}

/// A number of any usual type.
#[derive(Clone, Copy, Debug)]
pub struct Number(f64);

macro_rules! from_numbers {
    ($to:ident, $as:ty: $($t:ty),*) => {$( impl From<$t> for $to { fn from(v: $t) -> Self { $to(v as $as) } } )*};
}
from_numbers!(Count, i64: i32, i64, u32);
from_numbers!(Number, f64: f32, f64, i32);

impl From<usize> for Count {
    fn from(v: usize) -> Self {
        Count(saturate(v))
    }
}

/// An operand or none: `Expr` and `Option<Expr>`, so that an optional parameter can be handed on.
pub trait IntoOptional {
    /// The operand, if there is one.
    fn into_optional(self) -> Option<Expr>;
}

impl IntoOptional for Expr {
    fn into_optional(self) -> Option<Expr> {
        Some(self)
    }
}

impl IntoOptional for Option<Expr> {
    fn into_optional(self) -> Option<Expr> {
        self
    }
}
