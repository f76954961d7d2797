//! The table of pointwise operations: one line for each of cuDNN's modes.

use std::fmt;

/// How many tensors a pointwise mode takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arity {
    /// One operand.
    Unary,
    /// Two operands, broadcast against each other; the order matters.
    Binary,
    /// `select(condition, a, b)`.
    Ternary,
}

/// What a mode computes on and what it gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Numbers in, numbers out, any numeric type.
    Arithmetic,
    /// Floats only: `exp`, `tanh`, the activations, ….
    Float,
    /// Numbers in, truth values out.
    Compare,
    /// Truth values in and out.
    Logic,
    /// Truth value and two of a type.
    Select,
    /// Coordinates along an axis, I32.
    Index,
}

macro_rules! pointwise_table {
    ($($(#[$doc:meta])* $variant:ident, $name:literal, $code:literal, $arity:ident, $class:ident;)*) => {
        /// A pointwise operation; the names are cuDNN's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum PointwiseMode { $($(#[$doc])* $variant,)* }

        impl PointwiseMode {
            /// The whole table, a line for each mode.
            pub const TABLE: &'static [PointwiseInfo] = &[$(PointwiseInfo {
                mode: PointwiseMode::$variant, name: $name, cudnn: $code, arity: Arity::$arity, class: Class::$class,
            },)*];

            /// The line of this mode.
            pub const fn info(self) -> &'static PointwiseInfo { &Self::TABLE[self as usize] }
        }
    };
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct PointwiseInfo {
    /// The mode.
    pub mode: PointwiseMode,
    /// Its name in user code, texts and the text form.
    pub name: &'static str,
    /// The value of `cudnnPointwiseMode_t`.
    pub cudnn: i32,
    /// Number of operands.
    pub arity: Arity,
    /// What it computes on.
    pub class: Class,
}

pointwise_table! {
    /// `a + b`
    Add, "add", 0, Binary, Arithmetic;
    /// `a * b`
    Mul, "mul", 1, Binary, Arithmetic;
    /// `a - b`
    Sub, "sub", 9, Binary, Arithmetic;
    /// `a / b`; integers truncate
    Div, "div", 6, Binary, Arithmetic;
    /// The smaller; NaN if either is
    Min, "minimum", 2, Binary, Arithmetic;
    /// The larger; NaN if either is
    Max, "maximum", 3, Binary, Arithmetic;
    /// `a + b * b`
    AddSquare, "add_square", 5, Binary, Arithmetic;
    /// The remainder of `a / b` with the sign of `a` (C's `fmod`)
    Mod, "fmod", 7, Binary, Arithmetic;
    /// `a` to the power `b`
    Pow, "pow", 8, Binary, Float;
    /// The angle of the point `(b, a)`
    Atan2, "atan2", 23, Binary, Float;
    /// `a == b`
    CmpEq, "eq", 300, Binary, Compare;
    /// `a != b`
    CmpNeq, "ne", 301, Binary, Compare;
    /// `a > b`
    CmpGt, "gt", 302, Binary, Compare;
    /// `a >= b`
    CmpGe, "ge", 303, Binary, Compare;
    /// `a < b`
    CmpLt, "lt", 304, Binary, Compare;
    /// `a <= b`
    CmpLe, "le", 305, Binary, Compare;
    /// Both
    LogicalAnd, "logical_and", 400, Binary, Logic;
    /// Either
    LogicalOr, "logical_or", 401, Binary, Logic;
    /// Not
    LogicalNot, "logical_not", 402, Unary, Logic;
    /// Square root
    Sqrt, "sqrt", 4, Unary, Float;
    /// Absolute value
    Abs, "abs", 10, Unary, Arithmetic;
    /// Next integer towards +∞
    Ceil, "ceil", 11, Unary, Float;
    /// Cosine
    Cos, "cos", 12, Unary, Float;
    /// e to the power
    Exp, "exp", 13, Unary, Float;
    /// Next integer towards -∞
    Floor, "floor", 14, Unary, Float;
    /// Natural logarithm
    Log, "log", 15, Unary, Float;
    /// `-a`
    Neg, "neg", 16, Unary, Arithmetic;
    /// 1 / square root
    Rsqrt, "rsqrt", 17, Unary, Float;
    /// Sine
    Sin, "sin", 18, Unary, Float;
    /// Tangent
    Tan, "tan", 19, Unary, Float;
    /// Error function
    Erf, "erf", 20, Unary, Float;
    /// The operand itself
    Identity, "identity", 21, Unary, Arithmetic;
    /// `1 / a`
    Reciprocal, "reciprocal", 22, Unary, Float;
    /// max(a, 0) with lower and upper clip and the slope below: ReLU, clipped ReLU, leaky ReLU
    Relu, "relu", 100, Unary, Float;
    /// Hyperbolic tangent
    Tanh, "tanh", 101, Unary, Float;
    /// 1 / (1 + exp(-a))
    Sigmoid, "sigmoid", 102, Unary, Float;
    /// a above 0, alpha (exp(a) - 1) below
    Elu, "elu", 103, Unary, Float;
    /// a Φ(a), exact (by the error function)
    Gelu, "gelu", 104, Unary, Float;
    /// log(1 + exp(beta a)) / beta
    Softplus, "softplus", 105, Unary, Float;
    /// a sigmoid(beta a)
    Swish, "swish", 106, Unary, Float;
    /// GELU by its tanh approximation
    GeluTanh, "gelu_tanh", 107, Unary, Float;
    /// Coordinate along an axis
    GenIndex, "gen_index", 501, Unary, Index;
    /// `select(condition, a, b)`
    Select, "select", 601, Ternary, Select;
}

impl PointwiseMode {
    /// The mode with this name.
    pub fn from_name(name: &str) -> Option<PointwiseMode> {
        Self::TABLE.iter().find(|i| i.name == name).map(|i| i.mode)
    }
}

impl fmt::Display for PointwiseMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.info().name)
    }
}

/// The parameters of the activations and of `gen_index`, cuDNN's defaults where a mode does not use one.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// ReLU: results below it become it (through the slope).
    pub lower_clip: f64,
    /// ReLU: results above it become it.
    pub upper_clip: f64,
    /// ReLU: slope below the lower clip.
    pub slope: f64,
    /// ELU.
    pub elu_alpha: f64,
    /// Softplus.
    pub softplus_beta: f64,
    /// Swish.
    pub swish_beta: f64,
    /// `gen_index`.
    pub axis: i64,
}

impl Params {
    /// cuDNN's defaults.
    pub const DEFAULT: Params = Params {
        lower_clip: 0.0,
        upper_clip: f64::INFINITY,
        slope: 0.0,
        elu_alpha: 1.0,
        softplus_beta: 1.0,
        swish_beta: 1.0,
        axis: 0,
    };

    fn bits(&self) -> [u64; 7] {
        [
            self.lower_clip.to_bits(),
            self.upper_clip.to_bits(),
            self.slope.to_bits(),
            self.elu_alpha.to_bits(),
            self.softplus_beta.to_bits(),
            self.swish_beta.to_bits(),
            self.axis as u64,
        ]
    }
}

impl Default for Params {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// By bits: two scales that differ in the last bit, or 0 and -0, are different parameters.
impl PartialEq for Params {
    fn eq(&self, other: &Self) -> bool {
        self.bits() == other.bits()
    }
}

impl Eq for Params {}

impl std::hash::Hash for Params {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.bits().hash(state);
    }
}

pub use Class as PointwiseClass;
