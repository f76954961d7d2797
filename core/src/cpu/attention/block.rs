//! One block of rows: scores against a piece of the keys, the softmax so far, and the values so far.

use super::super::gemm::{BLOCK, Left, Number, Right};
use super::super::real::{Real, larger, maximum, sum};
use super::super::simd::arch;
use super::{Attention, Memory, Piece};
use crate::ir::{SdpaOperand, SdpaPart};
use crate::tensor::{HostSliceMut, with_host};
use pulp::{Simd, WithSimd};

/// The state of a block between two pieces of the keys.
pub(super) struct Block<'a, T> {
    attention: &'a Attention,
    memory: &'a Memory<'a>,
    batch: usize,
    rows: Vec<Row<T>>,
    /// The queries, scaled, a row each.
    q: Vec<T>,
    scores: Vec<T>,
    bias: Vec<T>,
    product: Vec<T>,
    /// Σ exp(score - largest) · value so far.
    values: Vec<T>,
}

/// A row and what is known of its softmax so far.
#[derive(Clone, Debug)]
pub(super) struct Row<T> {
    head: usize,
    query: usize,
    /// The keys that it sees.
    seen: std::ops::Range<i64>,
    slope: T,
    largest: T,
    sum: f64,
    /// By what the values so far shrink since a larger score was found.
    shrink: T,
}

/// What of scores becomes exp(score - largest), piece by piece.
pub(super) struct Piecewise<'a, T> {
    scores: &'a mut [T],
    columns: usize,
    /// The first key of the piece.
    first: i64,
    bias: &'a [T],
    softcap: Option<T>,
    rows: &'a mut [Row<T>],
}

/// An element of scores.
pub(super) trait Scores: Real {
    fn soften(piece: Piecewise<'_, Self>);
    /// Values so far: shrunk, and those of a piece added.
    fn take_in(rows: &[Row<Self>], values: &mut [Self], product: &[Self]);
}

impl Scores for f32 {
    fn soften(piece: Piecewise<'_, f32>) {
        arch().dispatch(piece);
    }
    fn take_in(rows: &[Row<f32>], values: &mut [f32], product: &[f32]) {
        arch().dispatch(|| add(rows, values, product));
    }
}

impl Scores for f64 {
    fn soften(piece: Piecewise<'_, f64>) {
        soften::<f64, false>(piece);
    }
    fn take_in(rows: &[Row<f64>], values: &mut [f64], product: &[f64]) {
        add(rows, values, product);
    }
}

impl WithSimd for Piecewise<'_, f32> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let fma = S::F32_LANES > 1 && !cfg!(target_arch = "wasm32");
        if fma { soften::<f32, true>(self) } else { soften::<f32, false>(self) }
    }
}

#[inline(always)]
fn soften<T: Real, const FMA: bool>(piece: Piecewise<'_, T>) {
    let Piecewise { scores, columns, first, bias, softcap, rows } = piece;
    for (at, row) in rows.iter_mut().enumerate() {
        let scores = &mut scores[at * columns..][..columns];
        if let Some(cap) = softcap {
            scores.iter_mut().for_each(|s| *s = cap * (*s / cap).tanh::<FMA>());
        }
        if let Some(bias) = bias.get(at * columns..(at + 1) * columns) {
            scores.iter_mut().zip(bias).for_each(|(s, &b)| *s = *s + b);
        }
        if row.slope != T::default() {
            let start = T::narrow((first - row.query as i64) as f64);
            scores.iter_mut().enumerate().for_each(|(j, s)| *s = *s + row.slope * (start + T::narrow(j as f64)));
        }
        let visible = |key: i64| (key - first).clamp(0, columns as i64) as usize;
        let (from, to) = (visible(row.seen.start), visible(row.seen.end));
        scores[..from].fill(T::LOWEST);
        scores[to.max(from)..].fill(T::LOWEST);
        let largest = larger(row.largest, maximum(scores));
        if largest == T::LOWEST {
            // Nothing was seen yet.
            scores.fill(T::default());
            row.shrink = T::narrow(1.0);
            continue;
        }
        row.shrink = (row.largest - largest).exp::<FMA>();
        scores.iter_mut().for_each(|s| *s = (*s - largest).exp::<FMA>());
        row.sum = row.sum * row.shrink.wide() + sum(scores, |v| v);
        row.largest = largest;
    }
}

#[inline(always)]
fn add<T: Real>(rows: &[Row<T>], values: &mut [T], product: &[T]) {
    let width = values.len() / rows.len().max(1);
    for (at, row) in rows.iter().enumerate() {
        let product = &product[at * width..][..width];
        let values = &mut values[at * width..][..width];
        values.iter_mut().zip(product).for_each(|(v, &p)| *v = *v * row.shrink + p);
    }
}

impl<'a, T: Number + Scores> Block<'a, T> {
    /// Rows `first..first + n` of a group, of which the batch entry has so many queries and keys.
    pub(super) fn new(
        attention: &'a Attention,
        memory: &'a Memory<'a>,
        (batch, group): (usize, usize),
        (first, n): (usize, usize),
        (queries, keys): (i64, i64),
    ) -> Self {
        let s = &attention.sizes;
        let row = |at: usize| {
            let (query, head) = (at / s.group, group * s.group + at % s.group);
            let listed = |o: SdpaOperand| attention.listed(memory, o, head);
            let sink = listed(SdpaOperand::Sink);
            Row {
                head,
                query,
                seen: attention.attrs.visible(query as i64, queries, keys),
                slope: T::narrow(listed(SdpaOperand::AlibiSlopes).unwrap_or(0.0)),
                largest: sink.map_or(T::LOWEST, T::narrow),
                sum: if sink.is_some_and(|s| s > f64::NEG_INFINITY) { 1.0 } else { 0.0 },
                shrink: T::default(),
            }
        };
        let rows: Vec<Row<T>> = (first..first + n).map(row).collect();
        let mut q = Vec::with_capacity(n * s.width);
        let scale = T::narrow(memory.scale);
        let (stride, step) = (attention.tensors[0].strides[2], attention.tensors[0].strides[3]);
        for row in &rows {
            let (data, start) = attention.head(memory, 0, batch, row.head);
            let start = start + row.query as i64 * stride;
            with_host!(data, v => q.extend((0..s.width as i64).map(|d| T::of(v[(start + d * step) as usize]) * scale)));
        }
        let values = vec![T::default(); n * s.value_width];
        let (scores, bias, product) = (Vec::new(), Vec::new(), values.clone());
        Block { attention, memory, batch, rows, q, scores, bias, product, values }
    }

    /// Takes in a piece of the keys.
    pub(super) fn pass(&mut self, piece: &Piece<T>) {
        let keys = piece.first as i64..(piece.first + piece.keys) as i64;
        if !self.rows.iter().any(|r| r.seen.start < keys.end && keys.start < r.seen.end) {
            return;
        }
        let s = &self.attention.sizes;
        self.scores.resize(self.rows.len() * piece.keys, T::default());
        multiply(&self.q, s.width, self.rows.len(), &piece.k, &mut self.scores, piece.keys);
        self.load_bias(piece);
        T::soften(Piecewise {
            scores: &mut self.scores,
            columns: piece.keys,
            first: keys.start,
            bias: &self.bias,
            softcap: self.memory.softcap.map(T::narrow),
            rows: &mut self.rows,
        });
        multiply(&self.scores, piece.keys, self.rows.len(), &piece.v, &mut self.product, s.value_width);
        T::take_in(&self.rows, &mut self.values, &self.product);
    }

    fn load_bias(&mut self, piece: &Piece<T>) {
        let Some(at) = self.attention.optional.iter().position(|(o, _)| *o == SdpaOperand::Bias) else { return };
        let (m, (data, base)) = (&self.attention.optional[at].1, self.memory.optional[at]);
        self.bias.clear();
        for row in &self.rows {
            let index = [self.batch, row.head, row.query, piece.first].map(|i| i as i64);
            let start = base + m.offset + index.iter().zip(m.strides.iter()).map(|(i, s)| i * s).sum::<i64>();
            let step = m.strides[3];
            let keys = 0..piece.keys as i64;
            with_host!(data, v => self.bias.extend(keys.map(|j| T::of(v[(start + j * step) as usize]))));
        }
    }

    /// Writes the results of the block.
    pub(super) fn store(self, outputs: &mut [HostSliceMut<'_>]) {
        let Block { attention, rows, mut values, .. } = self;
        let width = attention.sizes.value_width;
        for (row, values) in rows.iter().zip(values.chunks_mut(width)) {
            let factor = T::narrow(if row.sum == 0.0 { 0.0 } else { 1.0 / row.sum });
            values.iter_mut().for_each(|v| *v = *v * factor);
        }
        let n = values.len();
        let values = T::register(values);
        let statistic = |f: fn(&Row<T>) -> f64| f64::register(rows.iter().map(f).collect());
        for ((part, _), out) in attention.outputs.iter().zip(outputs) {
            match part {
                SdpaPart::Output => values.store(n, out, 0),
                SdpaPart::LogSumExp => statistic(|r| r.largest.wide() + r.sum.ln()).store(rows.len(), out, 0),
                SdpaPart::Max => statistic(|r| r.largest.wide()).store(rows.len(), out, 0),
                SdpaPart::SumExp => statistic(|r| r.sum).store(rows.len(), out, 0),
            }
        }
    }
}

/// Rows of `k` elements times a packed right operand.
fn multiply<T: Number>(left: &[T], k: usize, rows: usize, right: &Right<T>, tile: &mut [T], stride: usize) {
    let segments: Vec<usize> = (0..k).step_by(BLOCK).map(|at| BLOCK.min(k - at)).collect();
    let starts: Vec<usize> = (0..segments.len()).flat_map(|s| (0..rows).map(move |r| r * k + s * BLOCK)).collect();
    let left = Left { data: left, zeros: &[], starts: &starts, rows, segments: &segments };
    T::multiply(&left, right, tile, stride, 0);
}
