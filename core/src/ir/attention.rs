//! Attributes of scaled dot-product attention.

/// Which result of an attention a node gives. Nodes that differ in nothing else are one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SdpaPart {
    /// softmax(q·kᵀ)·v, batch × query heads × queries × width of v.
    Output,
    /// ln Σ exp of the scores of each query, F32, batch × query heads × queries × 1.
    LogSumExp,
    /// The largest score of each query, F32.
    Max,
    /// Σ exp of the scores less the largest one, F32.
    SumExp,
}

impl SdpaPart {
    /// Every result.
    pub const ALL: [SdpaPart; 4] = [SdpaPart::Output, SdpaPart::LogSumExp, SdpaPart::Max, SdpaPart::SumExp];

    /// Its name in texts and the text form.
    pub const fn name(self) -> &'static str {
        match self {
            SdpaPart::Output => "output",
            SdpaPart::LogSumExp => "log_sum_exp",
            SdpaPart::Max => "max_score",
            SdpaPart::SumExp => "sum_exp",
        }
    }

    /// The result with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }
}

/// An operand that an attention may have beside q, k, v and the scale, which come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SdpaOperand {
    /// Scores s become cap · tanh(s / cap): a number or a host scalar.
    Softcap,
    /// Added to the scores; broadcasts to batch × query heads × queries × keys.
    Bias,
    /// For each query head what is added to its scores for each position between query and key, F32.
    AlibiSlopes,
    /// For each batch entry how many queries there are, I32.
    SeqLenQ,
    /// For each batch entry how many keys there are, I32.
    SeqLenKv,
    /// For each query head the score of one more key, whose value is 0, F32.
    Sink,
}

impl SdpaOperand {
    /// All of them, in the order in which they follow the scale.
    pub const ALL: [SdpaOperand; 6] = [
        SdpaOperand::Softcap,
        SdpaOperand::Bias,
        SdpaOperand::AlibiSlopes,
        SdpaOperand::SeqLenQ,
        SdpaOperand::SeqLenKv,
        SdpaOperand::Sink,
    ];

    /// Its name in user code, texts and the text form.
    pub const fn name(self) -> &'static str {
        match self {
            SdpaOperand::Softcap => "softcap",
            SdpaOperand::Bias => "bias",
            SdpaOperand::AlibiSlopes => "alibi_slopes",
            SdpaOperand::SeqLenQ => "seq_len_q",
            SdpaOperand::SeqLenKv => "seq_len_kv",
            SdpaOperand::Sink => "sink",
        }
    }

    /// The operand with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|o| o.name() == name)
    }
}

/// Scaled dot-product attention: operands q, k, v, scale, and those of [`SdpaOperand`] that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SdpaAttrs {
    /// Which result.
    pub part: SdpaPart,
    /// A query sees as many keys before its own position as this.
    pub left: Option<i64>,
    /// A query sees as many keys behind its own position as this; 0 is causal.
    pub right: Option<i64>,
    /// Whether the last query has the position of the last key, not the first that of the first.
    pub bottom_right: bool,
    /// Bit `i` is set when there is operand `i` of [`SdpaOperand::ALL`]; see [`with`](Self::with).
    pub operands: u16,
}

impl SdpaAttrs {
    /// Operands before the optional ones.
    pub const FIXED: usize = 4;
    /// The place of the scale.
    pub const SCALE: usize = 3;

    /// The plain attention of q, k, v and a scale.
    pub const fn new() -> Self {
        SdpaAttrs { part: SdpaPart::Output, left: None, right: None, bottom_right: false, operands: 0 }
    }

    /// The same with another operand, which stands where [`place`](Self::place) says.
    pub const fn with(mut self, operand: SdpaOperand) -> Self {
        self.operands |= 1 << operand as u16;
        self
    }

    /// Whether there is an operand.
    pub const fn has(&self, operand: SdpaOperand) -> bool {
        self.operands & (1 << operand as u16) != 0
    }

    /// The place of an operand among all operands, if it is there.
    pub fn place(&self, operand: SdpaOperand) -> Option<usize> {
        let before = self.operands & ((1 << operand as u16) - 1);
        self.has(operand).then_some(Self::FIXED + before.count_ones() as usize)
    }

    /// The optional operands that are there, in order.
    pub fn operands(&self) -> impl Iterator<Item = SdpaOperand> + use<> {
        let attrs = *self;
        SdpaOperand::ALL.into_iter().filter(move |&o| attrs.has(o))
    }

    /// The number of operands.
    pub fn arity(&self) -> usize {
        Self::FIXED + self.operands.count_ones() as usize
    }

    /// Whether some keys are hidden from some queries by their positions.
    pub fn is_banded(&self) -> bool {
        self.left.is_some() || self.right.is_some()
    }

    /// The keys that query `i` of `queries` sees of `keys`, by their positions.
    pub fn visible(&self, i: i64, queries: i64, keys: i64) -> std::ops::Range<i64> {
        let own = i + if self.bottom_right { keys - queries } else { 0 };
        let first = self.left.map_or(0, |n| own.saturating_sub(n).clamp(0, keys));
        let end = self.right.map_or(keys, |n| own.saturating_add(n).saturating_add(1).clamp(0, keys));
        if i < queries && first < end { first..end } else { 0..0 }
    }
}

impl Default for SdpaAttrs {
    fn default() -> Self {
        Self::new()
    }
}
