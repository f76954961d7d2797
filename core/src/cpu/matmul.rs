//! Matmul as rows times panels.

use super::gemm::{BLOCK, Left, Number, Right, RightSource};
use crate::fuse::MemRef;
use crate::layout::Dims;
use crate::tensor::{HostData, with_host};
use std::borrow::Cow;
use std::collections::HashMap;

/// A matmul of known shapes: where each matrix of the batch lies.
#[derive(Clone, Debug)]
pub(super) struct Matmul {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    /// Offset of the left matrix of each batch entry.
    left: Vec<i64>,
    /// Offsets of the different right matrices.
    right: Vec<i64>,
    /// Which of them each batch entry has.
    right_of: Vec<usize>,
    left_steps: (i64, i64),
    right_steps: (i64, i64),
}

/// The offsets of the matrices of a batch.
fn batch_offsets(r: &MemRef, batch: &[i64]) -> Vec<i64> {
    let own = r.dims.len() - 2;
    let skip = batch.len() - own;
    let stride = |a: usize| if a < skip || r.dims[a - skip] == 1 { 0 } else { r.strides[a - skip] };
    let strides = Dims::collect((0..batch.len()).map(stride));
    let mut offsets = Vec::new();
    let dims = Dims::collect(batch.iter().copied().chain([1]));
    let strides = Dims::collect(strides.iter().copied().chain([0]));
    crate::tensor::for_each_row(&dims, &strides, |at, _, _| offsets.push(r.offset + at));
    offsets
}

impl Matmul {
    pub(super) fn new(a: &MemRef, b: &MemRef, out: &Dims) -> Matmul {
        let rank = out.len();
        let last = |r: &MemRef| (r.strides[r.dims.len() - 2], r.strides[r.dims.len() - 1]);
        let offsets = batch_offsets(b, &out[..rank - 2]);
        let mut right = Vec::new();
        let mut right_of = Vec::with_capacity(offsets.len());
        // Broadcast batches repeat an offset.
        let mut known = HashMap::new();
        for offset in offsets {
            right_of.push(*known.entry(offset).or_insert_with(|| {
                right.push(offset);
                right.len() - 1
            }));
        }
        Matmul {
            m: out[rank - 2] as usize,
            n: out[rank - 1] as usize,
            k: a.dims[a.dims.len() - 1] as usize,
            left: batch_offsets(a, &out[..rank - 2]),
            right,
            right_of,
            left_steps: last(a),
            right_steps: last(b),
        }
    }

    /// Why the left operand is copied first, if it is.
    pub(super) fn copies(&self, same_type: bool) -> Option<&'static str> {
        match () {
            _ if !same_type => Some("left operand converted once"),
            _ if self.left_steps.1 != 1 && self.k > 1 => Some("left operand copied once to row-major order"),
            _ => None,
        }
    }

    pub(super) fn rights(&self) -> usize {
        self.right.len()
    }

    /// Runs of rows that have one right operand: (rows, right).
    pub(super) fn runs(&self) -> Vec<(std::ops::Range<usize>, usize)> {
        if self.right.len() == 1 {
            return vec![(0..self.left.len() * self.m, 0)];
        }
        self.right_of.iter().enumerate().map(|(b, &r)| (b * self.m..(b + 1) * self.m, r)).collect()
    }

    pub(super) fn pack<T: Number>(
        &self,
        index: usize,
        data: &HostData,
        base: i64,
        into: &mut Right<T>,
        parallel: bool,
    ) {
        let start = base + self.right[index];
        let pieces = [(start, self.k)];
        let (step_k, step_n) = self.right_steps;
        into.pack(&RightSource { data, pieces: &pieces, step_k, step_n, n: self.n }, parallel);
    }

    /// The left operand with rows that are contiguous: itself, or a row-major copy (then with its own offsets).
    pub(super) fn left<'a, T: Number>(&self, data: &'a HostData, base: i64) -> PreparedLeft<'a, T> {
        let (step_m, step_k) = self.left_steps;
        if let (Some(v), true) = (T::elements(data), step_k == 1 || self.k == 1) {
            let starts = self.left.iter().map(|&o| (base + o) as usize).collect();
            return PreparedLeft { data: Cow::Borrowed(v), starts, step: step_m as usize };
        }
        let mut distinct: Vec<i64> = Vec::new();
        let mut starts = Vec::with_capacity(self.left.len());
        let mut known = HashMap::new();
        for &o in &self.left {
            let index = *known.entry(o).or_insert_with(|| {
                distinct.push(o);
                distinct.len() - 1
            });
            starts.push(index * self.m * self.k);
        }
        let mut copy = vec![T::default(); distinct.len() * self.m * self.k];
        let rows: Vec<(usize, &mut [T])> = copy.chunks_mut(self.k).enumerate().collect();
        super::parallel(rows, |(row, to)| {
            let at = base + distinct[row / self.m] + (row % self.m) as i64 * step_m;
            with_host!(data, v => {
                for (i, d) in to.iter_mut().enumerate() {
                    *d = T::of(v[(at + i as i64 * step_k) as usize]);
                }
            });
        });
        PreparedLeft { data: Cow::Owned(copy), starts, step: self.k }
    }

    /// Computes some rows, all with the same right operand.
    pub(super) fn tile<T: Number>(
        &self,
        left: &PreparedLeft<'_, T>,
        right: &Right<T>,
        rows: std::ops::Range<usize>,
        tile: &mut [T],
    ) {
        let segments: Vec<usize> = (0..self.k).step_by(BLOCK).map(|k| BLOCK.min(self.k - k)).collect();
        let row_start = |r: usize| left.starts[r / self.m] + (r % self.m) * left.step;
        let starts: Vec<usize> = (0..segments.len())
            .flat_map(|s| rows.clone().map(move |r| (s, r)))
            .map(|(s, r)| row_start(r) + s * BLOCK)
            .collect();
        let rows = rows.len();
        let left = Left { data: &left.data, zeros: &[], starts: &starts, rows, segments: &segments };
        T::multiply(&left, right, tile, self.n, 0);
    }
}

/// The left operand, ready.
#[derive(Debug)]
pub(super) struct PreparedLeft<'a, T: Clone> {
    data: Cow<'a, [T]>,
    starts: Vec<usize>,
    step: usize,
}
