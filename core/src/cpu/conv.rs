//! Convolution as rows times panels, without writing the patches anywhere: the row of an output pixel is, for each tap of the filter, a slice of the
//! channels of an input pixel.

use super::gemm::{BLOCK, Left, Number, Right, RightSource, ZEROS};
use super::simd::arch;
use crate::fuse::MemRef;
use crate::ir::ConvAttrs;
use crate::layout::Dims;
use crate::tensor::{HostData, with_host};
use std::borrow::Cow;

/// Below this number of channels the taps of a filter row are taken together, from a padded copy of the data.
const FEW_CHANNELS: usize = 32;

/// A convolution of known shapes. Spatial lists have one entry for each spatial dimension.
#[derive(Clone, Debug)]
pub(super) struct Conv {
    attrs: ConvAttrs,
    x: MemRef,
    w: MemRef,
    /// Spatial extents of the result.
    out: Dims,
    groups: usize,
    /// Channels and filters of a group.
    channels: usize,
    filters: usize,
    depthwise: bool,
    /// Whether a segment is a whole row of the filter.
    merged: bool,
    /// Extents of the copy of the data, with padding where `merged`; strides N, spatial of what is read.
    padded: Dims,
    segments: Vec<Segment>,
    lens: Vec<usize>,
}

/// A slice of channels of an input pixel.
#[derive(Clone, Debug)]
struct Segment {
    /// Which tap: its place along each spatial dimension, in elements of the data.
    tap: Dims,
    channel: usize,
}

/// Data with contiguous channels.
#[derive(Debug)]
pub(super) struct PreparedData<'a, T: Clone> {
    data: Cow<'a, [T]>,
    offset: i64,
    /// Strides: N, then spatial.
    strides: Dims,
    zeros: Vec<T>,
    /// Depthwise: the weights, tap after tap.
    taps: Vec<T>,
}

/// Every index of some extents, row-major.
fn indices(dims: &[i64]) -> Vec<Dims> {
    let mut all = vec![Dims::EMPTY];
    for &d in dims {
        all = all.iter().flat_map(|i| (0..d).map(move |v| Dims::collect(i.iter().copied().chain([v])))).collect();
    }
    all
}

/// Whether a padded copy of the data has a reasonable size: padding may be larger than any memory.
fn is_worth_padding(attrs: &ConvAttrs, x: &Dims) -> bool {
    let padded = |i: usize| x[2 + i].saturating_add(attrs.pre_padding[i]).saturating_add(attrs.post_padding[i]);
    let size = Dims::collect((0..attrs.spatial).map(padded)).checked_numel();
    let data: i64 = x[2..].iter().product();
    size.is_some_and(|size| size <= data.saturating_mul(8).max(1 << 12))
}

impl Conv {
    pub(super) fn new(attrs: &ConvAttrs, x: &MemRef, w: &MemRef, out: &Dims) -> Conv {
        let (groups, channels) = (attrs.groups as usize, w.dims[1] as usize);
        let filters = w.dims[0] as usize / groups;
        let depthwise = channels == 1 && filters == 1 && groups > 1;
        let last = attrs.spatial - 1;
        let few = channels < FEW_CHANNELS && groups == 1 && attrs.dilation[last] == 1 && w.dims[2 + last] > 1;
        let merged = few && is_worth_padding(attrs, &x.dims);
        let pad = |i: usize| if merged { attrs.pre_padding[i] + attrs.post_padding[i] } else { 0 };
        let padded = Dims::collect((0..attrs.spatial).map(|i| x.dims[2 + i] + pad(i)));
        let mut taps = w.dims[2..].to_vec();
        if merged {
            taps[last] = 1;
        }
        let len = if merged { channels * w.dims[2 + last] as usize } else { channels };
        let mut segments = Vec::new();
        let mut lens = Vec::new();
        for tap in indices(&taps) {
            let tap = Dims::collect((0..attrs.spatial).map(|i| tap[i] * attrs.dilation[i]));
            for channel in (0..len).step_by(BLOCK) {
                segments.push(Segment { tap, channel });
                lens.push(BLOCK.min(len - channel));
            }
        }
        let out = Dims::collect(out[2..].iter().copied());
        Conv { attrs: *attrs, x: *x, w: *w, out, groups, channels, filters, depthwise, merged, padded, segments, lens }
    }

    /// Filters.
    pub(super) fn columns(&self) -> usize {
        self.groups * self.filters
    }

    /// Products that are added for one element.
    pub(super) fn depth(&self) -> usize {
        self.channels * self.w.dims[2..].iter().product::<i64>() as usize
    }

    /// Number of right operands: one for each group, none where the weights are applied directly.
    pub(super) fn rights(&self) -> usize {
        if self.depthwise { 0 } else { self.groups }
    }

    pub(super) fn name(&self) -> &'static str {
        match (self.depthwise, self.merged) {
            (true, _) => "direct depthwise convolution",
            (_, true) => "implicit-gemm convolution, filter rows",
            _ => "implicit-gemm convolution, taps",
        }
    }

    /// Why the data is copied first, if it is.
    pub(super) fn copies(&self, same_type: bool) -> Option<&'static str> {
        match () {
            _ if self.merged => Some("data copied once, padded, to channels-last order (few channels)"),
            _ if !same_type => Some("data converted to f32 once"),
            _ if !self.channels_contiguous() => Some("data copied once to channels-last order"),
            _ => None,
        }
    }

    fn channels_contiguous(&self) -> bool {
        self.x.strides[1] == 1 || self.x.dims[1] == 1
    }

    /// Packs the weights of a group.
    pub(super) fn pack<T: Number>(
        &self,
        group: usize,
        data: &HostData,
        base: i64,
        into: &mut Right<T>,
        parallel: bool,
    ) {
        let w = &self.w;
        let start = base + w.offset + (group * self.filters) as i64 * w.strides[0];
        let tap_start = |t: &Dims| start + (0..t.len()).map(|i| t[i] * w.strides[2 + i]).sum::<i64>();
        let pieces: Vec<(i64, usize)> = indices(&w.dims[2..]).iter().map(|t| (tap_start(t), self.channels)).collect();
        let (step_k, step_n) = (w.strides[1], w.strides[0]);
        into.pack(&RightSource { data, pieces: &pieces, step_k, step_n, n: self.filters }, parallel);
    }

    /// The data with contiguous channels: itself, or a copy.
    pub(super) fn prepare<'a, T: Number>(&self, x: (&'a HostData, i64), w: (&HostData, i64)) -> PreparedData<'a, T> {
        let zeros = vec![T::default(); self.lens.iter().copied().max().unwrap_or(1).max(self.columns())];
        let taps = if self.depthwise { self.depthwise_weights(w) } else { Vec::new() };
        if let (Some(v), true, false) = (T::elements(x.0), self.channels_contiguous(), self.merged) {
            let strides = Dims::collect([self.x.strides[0]].into_iter().chain(self.x.strides[2..].iter().copied()));
            return PreparedData { data: Cow::Borrowed(v), offset: x.1 + self.x.offset, strides, zeros, taps };
        }
        let channels = self.x.dims[1];
        let dims = Dims::collect([self.x.dims[0]].into_iter().chain(self.padded.iter().copied()));
        let dense = Dims::collect(dims.contiguous_strides().iter().map(|s| s * channels));
        let data = self.copy(x.0, x.1 + self.x.offset, &dims);
        PreparedData { data: Cow::Owned(data), offset: 0, strides: dense, zeros, taps }
    }

    /// A padded, dense, channels-last copy of the data, line by line.
    fn copy<T: Number>(&self, data: &HostData, base: i64, dims: &Dims) -> Vec<T> {
        let (rank, channels) = (dims.len(), self.x.dims[1] as usize);
        let mut out = vec![T::default(); dims.numel() * channels];
        let line = dims[rank - 1] as usize * channels;
        let pre = |i: usize| if self.merged { self.attrs.pre_padding[i] } else { 0 };
        let lines: Vec<(usize, &mut [T])> = out.chunks_mut(line).enumerate().collect();
        super::parallel(lines, |(index, to)| {
            let mut rest = index as i64;
            let mut from = base;
            for axis in (1..rank - 1).rev() {
                let at = rest % dims[axis] - pre(axis - 1);
                rest /= dims[axis];
                if at < 0 || at >= self.x.dims[axis + 1] {
                    return;
                }
                from += at * self.x.strides[axis + 1];
            }
            if rank > 1 {
                from += rest * self.x.strides[0];
            }
            let to = &mut to[pre(rank - 2) as usize * channels..];
            let (width, step) = (self.x.dims[rank] as usize, self.x.strides[rank]);
            with_host!(data, v => {
                for c in 0..channels {
                    let from = from + c as i64 * self.x.strides[1];
                    for (i, pixel) in to.chunks_mut(channels).take(width).enumerate() {
                        pixel[c] = T::of(v[(from + i as i64 * step) as usize]);
                    }
                }
            });
        });
        out
    }

    fn depthwise_weights<T: Number>(&self, (data, base): (&HostData, i64)) -> Vec<T> {
        let w = &self.w;
        let mut taps = Vec::new();
        for tap in indices(&w.dims[2..]) {
            let start = base + w.offset + (0..tap.len()).map(|i| tap[i] * w.strides[2 + i]).sum::<i64>();
            with_host!(data, v => {
                taps.extend((0..self.groups as i64).map(|g| T::of(v[(start + g * w.strides[0]) as usize])));
            });
        }
        taps
    }

    /// For each segment and each of some rows, where its slice starts (channels of group 0).
    fn starts<T: Clone>(&self, x: &PreparedData<'_, T>, rows: std::ops::Range<usize>) -> Vec<usize> {
        let spatial = self.attrs.spatial;
        let padding = |i: usize| if self.merged { 0 } else { self.attrs.pre_padding[i] };
        let corners: Vec<(i64, Dims)> = rows
            .map(|row| {
                let mut rest = row as i64;
                let mut corner = Dims::splat(0, spatial);
                for i in (0..spatial).rev() {
                    corner = corner.with(i, rest % self.out[i] * self.attrs.stride[i] - padding(i));
                    rest /= self.out[i];
                }
                (x.offset + rest * x.strides[0], corner)
            })
            .collect();
        let mut starts = Vec::with_capacity(corners.len() * self.segments.len());
        for segment in &self.segments {
            for (image, corner) in &corners {
                let mut at = image + segment.channel as i64;
                let mut inside = true;
                for i in 0..spatial {
                    let p = corner[i] + segment.tap[i];
                    inside &= p >= 0 && p < self.padded[i];
                    // Far outside, where only `inside` counts, this may pass any limit.
                    at = at.wrapping_add(p.wrapping_mul(x.strides[1 + i]));
                }
                starts.push(if inside { at as usize } else { ZEROS });
            }
        }
        starts
    }

    /// Computes some rows: pixels × filters.
    pub(super) fn tile<T: Number>(
        &self,
        x: &PreparedData<'_, T>,
        rights: &[Right<T>],
        rows: std::ops::Range<usize>,
        tile: &mut [T],
    ) {
        let mut starts = self.starts(x, rows.clone());
        let count = rows.len();
        if self.depthwise {
            return arch().dispatch(|| depthwise(x, &starts, count, self.groups, tile));
        }
        for (group, right) in rights.iter().enumerate() {
            if group > 0 {
                starts.iter_mut().filter(|s| **s != ZEROS).for_each(|s| *s += self.channels);
            }
            let left = Left { data: &x.data, zeros: &x.zeros, starts: &starts, rows: count, segments: &self.lens };
            T::multiply(&left, right, tile, self.columns(), group * self.filters);
        }
    }
}

/// Each channel with its own filter.
#[inline(always)]
fn depthwise<T: Number>(x: &PreparedData<'_, T>, starts: &[usize], rows: usize, channels: usize, tile: &mut [T]) {
    for (row, to) in tile.chunks_exact_mut(channels).enumerate() {
        to.fill(T::default());
        for (tap, w) in x.taps.chunks_exact(channels).enumerate() {
            let start = starts[tap * rows + row];
            if start != ZEROS {
                for ((c, &a), &w) in to.iter_mut().zip(&x.data[start..start + channels]).zip(w) {
                    *c = a.multiply_add(w, *c);
                }
            }
        }
    }
}
