//! Attention on any device: the matrix against the oracle, and the functions as a user writes them.

use super::matrix::{Case, Layout, Maker, graph_of, op};
use super::{close, tensor, values};
use fused_graph::prelude::*;
use fused_graph_core::ir::{SdpaOperand as O, *};
use fused_graph_core::layout::Dims;

/// batch, query heads, key heads, queries, keys, width, width of v.
type Shape = [i64; 7];

/// How q, k and v lie in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    /// batch × heads × positions × width.
    Heads,
    /// batch × positions × heads × width.
    Positions,
    /// One behind another in one tensor: batch × positions × all heads × width.
    Packed,
    /// Every second element, which cuDNN does not read.
    Strided,
}

const ORDERS: [Order; 4] = [Order::Heads, Order::Positions, Order::Packed, Order::Strided];
const USUAL: Shape = [2, 4, 4, 128, 128, 64, 64];

/// q, k and v.
fn heads(m: &mut Maker, shape: Shape, dtype: DType, order: Order) -> Vec<Tensor> {
    let [b, h, hk, s, t, d, e] = shape;
    let all = [[b, h, s, d], [b, hk, t, d], [b, hk, t, e]];
    match order {
        Order::Heads => all.iter().map(|dims| m.tensor(dims, dtype, Layout::Contiguous, false)).collect(),
        Order::Strided => all.iter().map(|dims| m.tensor(dims, dtype, Layout::Strided, false)).collect(),
        Order::Positions => {
            let one = |&[b, h, s, d]: &[i64; 4]| {
                let t = m.tensor(&[b, s, h, d], dtype, Layout::Contiguous, false);
                t.permute([0, 2, 1, 3]).unwrap()
            };
            all.iter().map(one).collect()
        }
        Order::Packed => {
            let packed = m.tensor(&[b, s, h + 2 * hk, d], dtype, Layout::Contiguous, false);
            let part = |from: i64, n: i64| {
                packed.slice(2, from as usize..(from + n) as usize).unwrap().permute([0, 2, 1, 3]).unwrap()
            };
            vec![part(0, h), part(h, hk), part(h + hk, hk)]
        }
    }
}

/// One case: attributes with the operands that they name; `bias` are its dims, all results but one are returned too where `statistics` says so.
struct Sdpa<'a> {
    what: &'a str,
    shape: Shape,
    attrs: SdpaAttrs,
    bias: &'a [i64],
    statistics: &'a [SdpaPart],
}

impl Sdpa<'_> {
    fn case(&self, m: &mut Maker, device: &Device, dtype: DType, order: Order) -> Case {
        let [b, h, _, s, t, ..] = self.shape;
        let mut tensors = heads(m, self.shape, dtype, order);
        for operand in self.attrs.operands() {
            tensors.push(match operand {
                O::Softcap => continue,
                O::Bias => m.tensor(self.bias, dtype, Layout::Contiguous, false),
                O::SeqLenQ => lengths(b, s, device),
                O::SeqLenKv => lengths(b, t, device),
                _ => m.tensor(&[h], DType::F32, Layout::Contiguous, false),
            });
        }
        let graph = graph_of(&tensors, |g, v| {
            let mut operands = vec![v[0], v[1], v[2], g.add_const(0.2)];
            let mut next = v[3..].iter();
            for operand in self.attrs.operands() {
                operands.push(if operand == O::Softcap { g.add_const(1.5) } else { *next.next().unwrap() });
            }
            let parts = [SdpaPart::Output].iter().chain(self.statistics);
            parts.map(|&part| op(g, Op::Sdpa(SdpaAttrs { part, ..self.attrs }), &operands)).collect()
        });
        let tolerance = match dtype {
            DType::BF16 => 2e-2,
            DType::F16 => 5e-3,
            _ => 1e-5,
        };
        let name = format!("{}, {:?}, {dtype}, {order:?}", self.what, self.shape);
        Case { name, tensors, graph: graph.unwrap(), options: Default::default(), tolerance }
    }
}

/// All, a few, one, none, …
fn lengths(b: i64, all: i64, device: &Device) -> Tensor {
    let list: Vec<i32> = [all, all / 2 + 1, 1, 0].iter().cycle().take(b as usize).map(|&n| n as i32).collect();
    Tensor::from_vec(list, [b], &Device::CPU).unwrap().to(device).unwrap()
}

/// Every option × element type × order in memory, and shapes.
pub fn matrix(device: &Device) -> Vec<Case> {
    let mut m = Maker::new(device, 6000);
    let mut cases = Vec::new();
    let none = SdpaAttrs::new();
    let causal = SdpaAttrs { right: Some(0), ..none };
    let bottom = SdpaAttrs { bottom_right: true, ..causal };
    let lens = |a: SdpaAttrs| a.with(O::SeqLenQ).with(O::SeqLenKv);
    let lse: &[SdpaPart] = &[SdpaPart::LogSumExp];
    let case = |what, shape, attrs| Sdpa { what, shape, attrs, bias: &[], statistics: lse };
    let biased = |what, shape, attrs: SdpaAttrs, bias| Sdpa { bias, ..case(what, shape, attrs.with(O::Bias)) };
    let four: Shape = [4, 4, 2, 96, 128, 64, 64];
    let all = [
        case("full", USUAL, none),
        case("causal", USUAL, causal),
        Sdpa { statistics: &[], ..case("causal, output alone", USUAL, causal) },
        Sdpa { statistics: &[SdpaPart::Max, SdpaPart::SumExp], ..case("max and sum", USUAL, causal) },
        case("bottom right", [2, 4, 4, 64, 192, 64, 64], bottom),
        case("left window", USUAL, SdpaAttrs { left: Some(20), ..none }),
        case("causal window", USUAL, SdpaAttrs { left: Some(20), ..causal }),
        case("window", USUAL, SdpaAttrs { left: Some(20), right: Some(9), ..none }),
        case("window, bottom right", [2, 4, 4, 64, 192, 64, 64], SdpaAttrs { left: Some(20), ..bottom }),
        case("softcap", USUAL, causal.with(O::Softcap)),
        case("slopes", USUAL, causal.with(O::AlibiSlopes)),
        case("sink", USUAL, causal.with(O::Sink)),
        case("lengths", four, lens(none)),
        case("lengths, causal", four, lens(causal)),
        case("lengths, bottom right", four, lens(bottom)),
        case("lengths, bottom right, window", four, lens(SdpaAttrs { left: Some(20), ..bottom })),
        biased("bias", USUAL, none, &[2, 4, 128, 128]),
        biased("bias of heads, causal", USUAL, causal, &[4, 128, 128]),
        biased("bias of queries and keys", USUAL, none, &[128, 128]),
        biased("bias of batch, queries and keys", USUAL, none, &[2, 1, 128, 128]),
        biased("bias of batch and keys", USUAL, none, &[2, 1, 1, 128]),
        biased("bias of keys", USUAL, none, &[128]),
        biased("bias of queries", USUAL, none, &[128, 1]),
        case("grouped", [2, 8, 2, 80, 80, 64, 64], causal),
        case("one key head", [2, 8, 1, 80, 80, 64, 64], causal),
        case("decode", [3, 8, 2, 1, 333, 64, 64], none),
        case("decode, causal", [3, 8, 2, 1, 333, 64, 64], causal),
        case("decode, bottom right", [3, 8, 2, 1, 333, 64, 64], bottom),
        case("decode, window", [3, 8, 2, 1, 333, 64, 64], SdpaAttrs { left: Some(70), ..bottom }),
        biased("decode, window, bias", [3, 8, 2, 1, 336, 64, 64], SdpaAttrs { left: Some(71), ..bottom }, &[8, 1, 336]),
        case("decode, lengths", [3, 8, 2, 1, 333, 64, 64], lens(bottom)),
        case("odd", [1, 3, 3, 37, 101, 64, 64], none),
        case("odd, causal", [2, 3, 1, 101, 101, 64, 64], causal),
        case("few", [1, 2, 2, 3, 5, 32, 32], none),
        case("unequal widths", [2, 4, 4, 128, 128, 192, 128], causal),
    ];
    let types: &[DType] =
        if device.is_cpu() { &[DType::F32, DType::BF16, DType::F16] } else { &[DType::BF16, DType::F16] };
    // Refused on a GPU by R64, which cudnn/tests/attention.rs holds to.
    let refused = |sdpa: &Sdpa<'_>| !device.is_cpu() && sdpa.what == "decode, window, bias";
    for sdpa in all.iter().filter(|sdpa| !refused(sdpa)) {
        for &dtype in types {
            for order in ORDERS {
                let [_, _, _, s, t, d, e] = sdpa.shape;
                if order != Order::Packed || (s == t && d == e) {
                    cases.push(sdpa.case(&mut m, device, dtype, order));
                }
            }
        }
    }
    for width in [32, 40, 80, 96, 128, 192, 256] {
        for &dtype in types {
            let sdpa = case("width", [1, 2, 1, 70, 70, width, width], causal);
            cases.push(sdpa.case(&mut m, device, dtype, Order::Heads));
        }
    }
    cases
}

#[fused_graph]
fn seen(q: &Tensor, k: &Tensor, v: &Tensor) -> (Tensor, Tensor) {
    let a = sdpa_stats(q, k, v, causal = true, left_window = 3);
    (a.output, a.log_sum_exp)
}

#[fused_graph]
fn padded(q: &Tensor, k: &Tensor, v: &Tensor, n: &Tensor) -> (Tensor, Tensor) {
    let a = sdpa_stats(q, k, v, seq_len_kv = n, seq_len_q = n);
    (a.output, a.log_sum_exp)
}

#[fused_graph]
fn scaled(q: &Tensor, k: &Tensor, v: &Tensor, scale: f32) -> Tensor {
    sdpa(q, k, v, scale = scale)
}

/// With queries of zero each row is the mean of the values it sees and log-sum-exp is ln of their number. Rows that see nothing give 0 and -∞.
pub fn exact_probes(device: &Device) {
    for dtype in [DType::BF16, DType::F16] {
        let (s, d) = (64usize, 32usize);
        let dims = [1, 2, s as i64, d as i64];
        let zeros = tensor(&vec![0.0; 2 * s * d], &dims, dtype, device);
        // Sums and means of a few small numbers are exact.
        let v: Vec<f32> = (0..2 * s * d).map(|i| ((i / d) % 8) as f32).collect();
        let v = tensor(&v, &dims, dtype, device);
        let mean = |from: usize, to: usize| (from..to).map(|j| (j % 8) as f64).sum::<f64>() / (to - from) as f64;

        let (o, lse) = seen(&zeros, &zeros, &v).unwrap();
        let rows = |f: &dyn Fn(usize) -> f64| (0..2).flat_map(|_| (0..s).map(f)).collect::<Vec<f64>>();
        let wanted = rows(&|i| mean(i.saturating_sub(3), i + 1));
        let first: Vec<f64> = values(&o).into_iter().step_by(d).collect();
        for (got, want) in first.iter().zip(&wanted) {
            assert!((got - want).abs() <= 4e-3 * want.abs().max(1.0), "{dtype}: {got} is not the mean {want}");
        }
        close(&lse, &rows(&|i| ((i + 1).min(4) as f64).ln()));

        let lengths = Tensor::from_vec(vec![20i32], [1], &Device::CPU).unwrap().to(device).unwrap();
        let (o, lse) = padded(&zeros, &zeros, &v, &lengths).unwrap();
        let (o, lse) = (values(&o), values(&lse));
        assert!(o.iter().all(|v| !v.is_nan()) && lse.iter().all(|v| !v.is_nan()), "{dtype}: NaN where nothing is seen");
        for (row, (o, lse)) in o.chunks(d).zip(&lse).enumerate() {
            if row % s >= 20 {
                assert!(o.iter().all(|&v| v == 0.0), "{dtype}: row {row} sees nothing and gives {}", o[0]);
                assert_eq!(*lse, f64::NEG_INFINITY, "{dtype}: row {row} sees nothing");
            } else {
                assert!((o[0] - mean(0, 20)).abs() < 2e-2 && (lse - 20f64.ln()).abs() < 1e-3, "{dtype}: row {row}");
            }
        }
    }
}

/// The scale goes by value, and one plan serves all.
pub fn scale_by_value(device: &Device) {
    let mut m = Maker::new(device, 7000);
    let [q, k, v] = [0, 1, 2].map(|_| m.tensor(&[1, 2, 16, 32], DType::BF16, Layout::Contiguous, false));
    let plans = scaled::stats().plans_built;
    // Not 0: cuDNN hides keys by -∞ before it scales, and 0 · -∞ is NaN.
    let mean = scaled(&q, &k, &v, 1e-6).unwrap();
    let sharp = scaled(&q, &k, &v, 1.0).unwrap();
    assert_eq!(scaled::stats().plans_built, plans + 1);
    let (mean, sharp, v) = (values(&mean), values(&sharp), values(&v));
    let wanted: f64 = (0..16).map(|j| v[j * 32]).sum::<f64>() / 16.0;
    assert!((mean[0] - wanted).abs() < 2e-2 && (sharp[0] - mean[0]).abs() > 1e-3, "{} {wanted}", mean[0]);
    assert_eq!(Dims::new(&[1, 2, 16, 32]).unwrap().numel(), mean.len());
}
