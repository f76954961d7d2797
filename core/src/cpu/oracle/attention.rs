//! Attention by its definition: one query after another, one key after another.

use super::Array;
use crate::ir::{SdpaAttrs, SdpaOperand, SdpaPart};
use crate::layout::Dims;

/// What a query comes to.
struct Row {
    scores: Vec<f64>,
    largest: f64,
    sum: f64,
}

/// One result of an attention. `operands` are q, k, v, scale and the others, in order.
pub(super) fn sdpa(attrs: &SdpaAttrs, operands: &[Array], out: Dims) -> Array {
    let [q, k, v] = [&operands[0], &operands[1], &operands[2]];
    let optional = |o: SdpaOperand| attrs.place(o).map(|at| &operands[at]);
    let (queries, keys) = (q.dims[2], k.dims[2]);
    let length =
        |o: SdpaOperand, b: i64, all: i64| optional(o).map_or(all, |l| (l.data[b as usize] as i64).clamp(0, all));
    let seen = |b: i64, i: i64| {
        attrs.visible(i, length(SdpaOperand::SeqLenQ, b, queries), length(SdpaOperand::SeqLenKv, b, keys))
    };
    let softmax = |b: i64, h: i64, i: i64| {
        let scores: Vec<f64> = seen(b, i).map(|j| score(attrs, operands, [b, h, i, j])).collect();
        let sink = optional(SdpaOperand::Sink).map(|s| s.data[h as usize]);
        let largest = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
        let sum = scores.iter().copied().chain(sink).map(|s| weight(s, largest)).sum();
        Row { scores, largest, sum }
    };
    let mut last: Option<([i64; 3], Row)> = None;
    Array::build(out, |index| {
        let &[b, h, i, column] = index else { return f64::NAN };
        if last.as_ref().is_none_or(|(at, _)| *at != [b, h, i]) {
            last = Some(([b, h, i], softmax(b, h, i)));
        }
        let Some((_, Row { scores, largest, sum })) = &last else { return f64::NAN };
        match attrs.part {
            SdpaPart::Max => *largest,
            SdpaPart::SumExp => *sum,
            SdpaPart::LogSumExp => largest + sum.ln(),
            SdpaPart::Output if *sum == 0.0 => 0.0,
            SdpaPart::Output => {
                let kv = h / (q.dims[1] / v.dims[1]);
                let weighted =
                    seen(b, i).zip(scores).map(|(j, s)| weight(*s, *largest) * row(v, [b, kv, j])[column as usize]);
                weighted.sum::<f64>() / sum
            }
        }
    })
}

/// The elements of a head at a position.
fn row(x: &Array, [b, h, i]: [i64; 3]) -> &[f64] {
    let width = x.dims[3] as usize;
    let at = ((b * x.dims[1] + h) * x.dims[2] + i) as usize;
    &x.data[at * width..][..width]
}

/// exp(score - largest); a key of score -∞ is not seen, also where that is the largest.
fn weight(score: f64, largest: f64) -> f64 {
    if score == f64::NEG_INFINITY { 0.0 } else { (score - largest).exp() }
}

/// The score of a key for a query.
fn score(attrs: &SdpaAttrs, operands: &[Array], [b, h, i, j]: [i64; 4]) -> f64 {
    let optional = |o: SdpaOperand| attrs.place(o).map(|at| &operands[at]);
    let (q, k) = (&operands[0], &operands[1]);
    let kv = h / (q.dims[1] / k.dims[1]);
    let dot: f64 = row(q, [b, h, i]).iter().zip(row(k, [b, kv, j])).map(|(q, k)| q * k).sum();
    let mut s = dot * operands[SdpaAttrs::SCALE].data[0];
    if let Some(cap) = optional(SdpaOperand::Softcap) {
        s = cap.data[0] * (s / cap.data[0]).tanh();
    }
    if let Some(bias) = optional(SdpaOperand::Bias) {
        s += bias.at(&[b, h, i, j]);
    }
    if let Some(slopes) = optional(SdpaOperand::AlibiSlopes) {
        s += slopes.data[h as usize] * (j - i) as f64;
    }
    s
}
