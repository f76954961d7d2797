//! The inner part of convolutions and matmuls: rows of the left operand times packed panels of the right one, into a tile that stays in cache.
//!
//! The left operand is never packed: a row is a list of slices (for a convolution one for each tap of the filter, for a matmul pieces of the row),
//! which is what makes the convolution implicit. The right operand is packed once into panels as wide as the kernel. `K` is walked in blocks, so
//! that a panel's block stays in the first-level cache while the rows of the tile pass by.

use super::program::Tile;
use super::simd::arch;
use crate::dtype::Element;
use crate::tensor::{HostData, HostElement, with_host};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

/// Rows that the kernel works on at once: with four vectors of columns they take 24 of 32 registers.
const MR: usize = 6;
/// Elements of `K` in a block: 128 × 64 floats are two thirds of a first-level cache.
pub(super) const BLOCK: usize = 128;
/// Stands for a slice of zeros.
pub(super) const ZEROS: usize = usize::MAX;

/// An element that cores compute with.
pub(super) trait Number: HostElement {
    fn of<E: Element>(e: E) -> Self;
    fn multiply_add(self, b: Self, c: Self) -> Self;
    /// Width of a panel and of its smallest part, for `n` columns.
    fn panel(n: usize) -> (usize, usize);
    /// `tile[row][column + …] = left × right`.
    fn multiply(left: &Left<'_, Self>, right: &Right<Self>, tile: &mut [Self], stride: usize, column: usize);
    fn tile(tile: &[Self]) -> Tile<'_>;
}

impl Number for f32 {
    fn of<E: Element>(e: E) -> f32 {
        e.to_f32()
    }
    fn multiply_add(self, b: f32, c: f32) -> f32 {
        self * b + c
    }
    fn panel(_: usize) -> (usize, usize) {
        struct Shape;
        impl WithSimd for Shape {
            type Output = (usize, usize);
            #[inline(always)]
            fn with_simd<S: Simd>(self, _: S) -> (usize, usize) {
                (S::F32_LANES * if S::REGISTER_COUNT >= 32 { 4 } else { 2 }, S::F32_LANES)
            }
        }
        arch().dispatch(Shape)
    }
    fn multiply(left: &Left<'_, f32>, right: &Right<f32>, tile: &mut [f32], stride: usize, column: usize) {
        arch().dispatch(Multiply { left, right, tile, stride, column });
    }
    fn tile(tile: &[f32]) -> Tile<'_> {
        Tile::F32(tile)
    }
}

macro_rules! plain_number {
    ($t:ty, $tile:ident, $of:expr, $fma:expr) => {
        impl Number for $t {
            fn of<E: Element>(e: E) -> $t {
                $of(e.to_f64())
            }
            fn multiply_add(self, b: $t, c: $t) -> $t {
                $fma(self, b, c)
            }
            fn panel(n: usize) -> (usize, usize) {
                (n, n)
            }
            fn multiply(left: &Left<'_, $t>, right: &Right<$t>, tile: &mut [$t], stride: usize, column: usize) {
                arch().dispatch(|| plain(left, right, tile, stride, column));
            }
            fn tile(tile: &[$t]) -> Tile<'_> {
                Tile::$tile(tile)
            }
        }
    };
}
plain_number!(f64, F64, |v| v, |a: f64, b: f64, c: f64| a * b + c);
plain_number!(i32, Int, |v: f64| v as i32, |a: i32, b: i32, c: i32| c.wrapping_add(a.wrapping_mul(b)));

/// Rows of the left operand: for each segment of `K` and each row the start of a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left<'a, T> {
    pub(super) data: &'a [T],
    pub(super) zeros: &'a [T],
    /// `starts[segment * rows + row]`; [`ZEROS`] for a slice of zeros.
    pub(super) starts: &'a [usize],
    pub(super) rows: usize,
    /// Lengths of the segments.
    pub(super) segments: &'a [usize],
}

impl<'a, T> Left<'a, T> {
    #[inline(always)]
    fn slice(&self, segment: usize, row: usize, len: usize) -> &'a [T] {
        let start = self.starts[segment * self.rows + row];
        if start == ZEROS { &self.zeros[..len] } else { &self.data[start..start + len] }
    }
}

/// The right operand as panels: panel after panel, in each all of `K`, in each the columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Right<T> {
    k: usize,
    n: usize,
    width: usize,
    part: usize,
    data: Vec<T>,
}

/// Where the right operand lies: pieces of `K` in order, and the distance of columns.
#[derive(Clone, Debug)]
pub(super) struct RightSource<'a> {
    pub(super) data: &'a HostData,
    /// Start of each piece (its first element of column 0) and its length.
    pub(super) pieces: &'a [(i64, usize)],
    pub(super) step_k: i64,
    pub(super) step_n: i64,
    pub(super) n: usize,
}

impl<T: Number> Right<T> {
    /// Packs into the memory that `self` has. `parallel`: with all threads.
    pub(super) fn pack(&mut self, source: &RightSource<'_>, parallel: bool) {
        self.k = source.pieces.iter().map(|p| p.1).sum();
        self.n = source.n;
        (self.width, self.part) = T::panel(source.n);
        self.data.resize(self.k * source.n.next_multiple_of(self.part), T::default());
        let width = self.width;
        let one = |(p, panel): (usize, &mut [T])| pack_panel(panel, source, p * width, width.min(source.n - p * width));
        if parallel {
            self.data.par_chunks_mut(width * self.k).enumerate().for_each(one);
        } else {
            self.data.chunks_mut(width * self.k).enumerate().for_each(one);
        }
    }

    /// Columns of panel `p`, how far apart its rows are, and its elements.
    fn panel(&self, p: usize) -> (usize, usize, &[T]) {
        let columns = self.width.min(self.n - p * self.width);
        let stride = columns.next_multiple_of(self.part);
        (columns, stride, &self.data[p * self.width * self.k..][..self.k * stride])
    }
}

fn pack_panel<T: Number>(panel: &mut [T], source: &RightSource<'_>, column: usize, columns: usize) {
    let k: usize = source.pieces.iter().map(|p| p.1).sum();
    let stride = panel.len() / k.max(1);
    if let (Some(v), 1) = (T::elements(source.data), source.step_n) {
        let mut rows = panel.chunks_mut(stride);
        for &(start, len) in source.pieces {
            for (i, row) in rows.by_ref().take(len).enumerate() {
                let from = (start + i as i64 * source.step_k) as usize + column;
                row[..columns].copy_from_slice(&v[from..from + columns]);
                row[columns..].fill(T::default());
            }
        }
        return;
    }
    with_host!(source.data, v => {
        let mut at = 0;
        for &(start, len) in source.pieces {
            for c in 0..columns {
                let from = start + (column + c) as i64 * source.step_n;
                for i in 0..len {
                    panel[(at + i) * stride + c] = T::of(v[(from + i as i64 * source.step_k) as usize]);
                }
            }
            for row in panel[at * stride..(at + len) * stride].chunks_mut(stride) {
                row[columns..].fill(T::default());
            }
            at += len;
        }
    });
}

/// Segments that make up a block each.
fn blocks(segments: &[usize]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut first = 0;
    std::iter::from_fn(move || {
        let start = first;
        let mut k = 0;
        while first < segments.len() && (first == start || k + segments[first] <= BLOCK) {
            k += segments[first];
            first += 1;
        }
        (first > start).then_some(start..first)
    })
}

/// For the types without a kernel of their own.
#[inline(always)]
fn plain<T: Number>(left: &Left<'_, T>, right: &Right<T>, tile: &mut [T], stride: usize, column: usize) {
    for row in 0..left.rows {
        let to = &mut tile[row * stride + column..][..right.n];
        to.fill(T::default());
        let mut b = right.data.chunks_exact(right.n);
        for (segment, &len) in left.segments.iter().enumerate() {
            for (&a, b) in left.slice(segment, row, len).iter().zip(b.by_ref().take(len)) {
                for (c, &b) in to.iter_mut().zip(b) {
                    *c = a.multiply_add(b, *c);
                }
            }
        }
    }
}

struct Multiply<'a> {
    left: &'a Left<'a, f32>,
    right: &'a Right<f32>,
    tile: &'a mut [f32],
    stride: usize,
    column: usize,
}

impl WithSimd for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Multiply { left, right, tile, stride, column } = self;
        let mut k0 = 0;
        for segments in blocks(left.segments) {
            let k: usize = left.segments[segments.clone()].iter().sum();
            for p in 0..right.n.div_ceil(right.width) {
                let (columns, width, panel) = right.panel(p);
                let block = Block {
                    left,
                    segments: segments.clone(),
                    panel: &panel[k0 * width..(k0 + k) * width],
                    columns,
                    first: k0 == 0,
                };
                let tile = &mut tile[column + p * right.width..];
                match width / S::F32_LANES {
                    1 => block.rows::<S, 1>(simd, tile, stride),
                    2 => block.rows::<S, 2>(simd, tile, stride),
                    3 => block.rows::<S, 3>(simd, tile, stride),
                    _ => block.rows::<S, 4>(simd, tile, stride),
                }
            }
            k0 += k;
        }
    }
}

/// A block of `K` of one panel.
struct Block<'a> {
    left: &'a Left<'a, f32>,
    segments: std::ops::Range<usize>,
    panel: &'a [f32],
    columns: usize,
    /// Nothing has been added to the tile yet.
    first: bool,
}

impl Block<'_> {
    #[inline(always)]
    fn rows<S: Simd, const NV: usize>(&self, simd: S, tile: &mut [f32], stride: usize) {
        let mut row = 0;
        while row < self.left.rows {
            let tile = &mut tile[row * stride..];
            match self.left.rows - row {
                1 => self.kernel::<S, 1, NV>(simd, row, tile, stride),
                2 => self.kernel::<S, 2, NV>(simd, row, tile, stride),
                3 => self.kernel::<S, 3, NV>(simd, row, tile, stride),
                4 => self.kernel::<S, 4, NV>(simd, row, tile, stride),
                5 => self.kernel::<S, 5, NV>(simd, row, tile, stride),
                _ => self.kernel::<S, MR, NV>(simd, row, tile, stride),
            }
            row += MR;
        }
    }

    #[inline(always)]
    fn kernel<S: Simd, const M: usize, const NV: usize>(&self, simd: S, row: usize, tile: &mut [f32], stride: usize) {
        let part = |j: usize| (j * S::F32_LANES).min(self.columns)..((j + 1) * S::F32_LANES).min(self.columns);
        let mut sum = [[simd.splat_f32s(0.0); NV]; M];
        if !self.first {
            for (i, sum) in sum.iter_mut().enumerate() {
                for (j, v) in sum.iter_mut().enumerate() {
                    *v = simd.partial_load_f32s(&tile[i * stride..][part(j)]);
                }
            }
        }
        let (mut panel, _) = S::as_simd_f32s(self.panel);
        for segment in self.segments.clone() {
            let len = self.left.segments[segment];
            let rows: [&[f32]; M] = std::array::from_fn(|i| self.left.slice(segment, row + i, len));
            let (b, rest) = panel.split_at(len * NV);
            panel = rest;
            for (k, b) in b.chunks_exact(NV).enumerate() {
                for i in 0..M {
                    let a = simd.splat_f32s(rows[i][k]);
                    for j in 0..NV {
                        sum[i][j] = simd.mul_add_e_f32s(a, b[j], sum[i][j]);
                    }
                }
            }
        }
        for (i, sum) in sum.iter().enumerate() {
            for (j, &v) in sum.iter().enumerate() {
                simd.partial_store_f32s(&mut tile[i * stride..][part(j)], v);
            }
        }
    }
}
