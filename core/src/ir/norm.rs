//! Attributes of normalisations and softmax.

use crate::layout::MAX_RANK;

/// Which normalisation, by cuDNN's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NormMode {
    /// Mean and variance over the last axes.
    Layer,
    /// Mean square over the last axes; nothing is subtracted.
    Rms,
    /// Mean and variance of each channel (axis 1) of the batch.
    Batch,
    /// Mean and variance of each channel (axis 1) of each batch entry.
    Instance,
    /// Mean and variance of each group of channels of each batch entry: of batch × groups × channels of a group × …, all but the first two axes.
    Group,
}

/// Which result of a normalisation a node gives. Nodes that differ in nothing else are one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NormPart {
    /// The normalised tensor.
    Y,
    /// The mean; normalised axes have extent 1.
    Mean,
    /// 1 / √(variance + ε), of RMS norm 1 / √(mean square + ε); normalised axes have extent 1.
    InvStd,
}

/// A normalisation: operands x, γ, β if there is one, ε.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NormAttrs {
    /// Which.
    pub mode: NormMode,
    /// Bit `i` is set when the statistics are taken over axis `i`.
    pub axes: u8,
    /// Whether there is a β.
    pub bias: bool,
    /// Which result.
    pub part: NormPart,
}

impl NormAttrs {
    /// Whether the statistics are taken over `axis`.
    pub fn normalises(&self, axis: usize) -> bool {
        axis < MAX_RANK && self.axes & (1 << axis) != 0
    }

    /// Whether the mean is subtracted.
    pub fn is_centered(&self) -> bool {
        self.mode != NormMode::Rms
    }

    /// The place of β among the operands.
    pub fn beta(&self) -> Option<usize> {
        self.bias.then_some(2)
    }

    /// The place of ε among the operands.
    pub fn epsilon(&self) -> usize {
        2 + self.bias as usize
    }
}

impl NormMode {
    /// Every mode.
    pub const ALL: [NormMode; 5] =
        [NormMode::Layer, NormMode::Rms, NormMode::Batch, NormMode::Instance, NormMode::Group];

    /// The mode with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }

    /// The axes over which it takes its statistics of a tensor of this rank, if it normalises `last` of them at the end (layer and RMS norm).
    pub fn axes(self, rank: usize, last: usize) -> u8 {
        let inside = |axis: &usize| match self {
            NormMode::Layer | NormMode::Rms => last <= rank && *axis >= rank - last,
            NormMode::Batch => *axis != 1,
            NormMode::Instance | NormMode::Group => *axis >= 2,
        };
        (0..rank.min(MAX_RANK)).filter(inside).fold(0, |bits, axis| bits | 1 << axis)
    }

    /// Its name in user code, texts and the text form.
    pub const fn name(self) -> &'static str {
        match self {
            NormMode::Layer => "layer_norm",
            NormMode::Rms => "rms_norm",
            NormMode::Batch => "batch_norm",
            NormMode::Instance => "instance_norm",
            NormMode::Group => "group_norm",
        }
    }
}

impl NormPart {
    /// Every result.
    pub const ALL: [NormPart; 3] = [NormPart::Y, NormPart::Mean, NormPart::InvStd];

    /// The result with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }

    /// Its name in texts and the text form.
    pub const fn name(self) -> &'static str {
        match self {
            NormPart::Y => "y",
            NormPart::Mean => "mean",
            NormPart::InvStd => "inv_std",
        }
    }
}

/// exp(x) over its sum along an axis, or the logarithm of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SoftmaxAttrs {
    /// The axis.
    pub axis: usize,
    /// Whether the logarithm is given.
    pub log: bool,
}
