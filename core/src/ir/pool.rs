//! Attributes of pooling.

use crate::layout::Dims;

/// What becomes of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PoolMode {
    /// The largest element; NaN if any is.
    Max,
    /// The mean, zeros of the padding included.
    Avg,
    /// The mean of the elements that are no padding.
    AvgExcludePadding,
}

/// Which result of a pooling a node gives. Nodes that differ in nothing else are one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PoolPart {
    /// The pooled tensor.
    Y,
    /// Of max pooling: where each largest element is, as its row-major position among the spatial axes, I32; the first of several.
    Index,
}

/// Pooling of N×C×spatial data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolAttrs {
    /// What becomes of a window.
    pub mode: PoolMode,
    /// Extents of the window, a spatial dim each.
    pub window: Dims,
    /// Distance of the windows, a spatial dim each.
    pub stride: Dims,
    /// Padding in front, a spatial dim each.
    pub pre_padding: Dims,
    /// Padding behind, a spatial dim each.
    pub post_padding: Dims,
    /// Which result.
    pub part: PoolPart,
}

impl PoolAttrs {
    /// Windows side by side, without padding.
    pub fn new(mode: PoolMode, window: Dims) -> Self {
        let none = Dims::splat(0, window.len());
        PoolAttrs { mode, window, stride: window, pre_padding: none, post_padding: none, part: PoolPart::Y }
    }

    /// Number of spatial dimensions: 1, 2 or 3.
    pub fn spatial(&self) -> usize {
        self.window.len()
    }

    /// Its name in user code, texts and the text form.
    pub fn name(&self) -> &'static str {
        let names = match self.mode {
            PoolMode::Max => ["max_pool1d", "max_pool2d", "max_pool3d"],
            _ => ["avg_pool1d", "avg_pool2d", "avg_pool3d"],
        };
        names[self.spatial().clamp(1, 3) - 1]
    }

    /// The elements of the data that window `at` covers along spatial dimension `axis` of `extent` elements.
    pub fn covered(&self, axis: usize, at: i64, extent: i64) -> std::ops::Range<i64> {
        let start = at * self.stride[axis] - self.pre_padding[axis];
        start.max(0)..(start + self.window[axis]).min(extent)
    }
}
