//! Attention.

use super::*;
use crate::ir::{SdpaAttrs, SdpaOperand as O, SdpaPart, ViewOp};

const TYPES: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

/// batch, query heads, heads of k, heads of v, queries, keys, width, width of v.
type Shape = [i64; 8];

/// Puts the arguments of an attention into a graph; all results are returned.
fn attention(shape: Shape, dtype: DType, layout: Layout, attrs: SdpaAttrs, bias: &[i64]) -> Graph {
    let [b, h, hk, hv, s, t, d, e] = shape;
    let mut g = Build::new();
    let mut operands = vec![
        g.arg(&[b, h, s, d], dtype, layout),
        g.arg(&[b, hk, t, d], dtype, layout),
        g.arg(&[b, hv, t, e], dtype, layout),
        g.0.add_const(0.37),
    ];
    for operand in attrs.operands() {
        operands.push(match operand {
            O::Softcap => g.0.add_const(1.5),
            O::Bias => g.arg(bias, dtype, Layout::Contiguous),
            O::SeqLenQ | O::SeqLenKv => g.arg(&[b], DType::I32, Layout::Contiguous),
            _ => g.arg(&[h], DType::F32, Layout::Contiguous),
        });
    }
    let results: Vec<ValueId> =
        SdpaPart::ALL.iter().map(|&part| g.op(Op::Sdpa(SdpaAttrs { part, ..attrs }), &operands)).collect();
    g.returns(&results)
}

#[track_caller]
fn compare(graph: Graph, what: &str) {
    let mut rng = rng(21);
    let mut lengths = 0;
    let tensors: Vec<Tensor> = graph
        .inputs()
        .map(|(_, v)| match v.dtype {
            DType::I32 => {
                lengths += 1;
                let all = graph.inputs().nth(if lengths == 1 { 0 } else { 1 }).unwrap().1.dims[2];
                let mut next = [all, 0, all - 1, all / 2 + 1].into_iter().cycle();
                filled(v, || next.next().unwrap() as f64)
            }
            _ => argument(v, &mut rng),
        })
        .collect();
    check_with(graph, &tensors, &[], what);
}

#[test]
fn attentions_of_all_shapes_types_and_layouts() {
    let shapes: [Shape; 8] = [
        [2, 4, 4, 4, 33, 33, 16, 16],
        [1, 6, 2, 2, 7, 300, 24, 8],
        [2, 6, 3, 2, 5, 9, 8, 40],
        [3, 8, 1, 1, 1, 70, 32, 32],
        [1, 2, 2, 2, 130, 17, 8, 8],
        [1, 2, 1, 1, 70, 600, 136, 24],
        [1, 1, 1, 1, 1, 1, 1, 1],
        [2, 3, 3, 3, 3, 5, 7, 5],
    ];
    for shape in shapes {
        for dtype in TYPES {
            for layout in LAYOUTS.into_iter().filter(|l| dtype == DType::F32 || *l == Layout::Strided) {
                let causal = SdpaAttrs { right: Some(0), ..SdpaAttrs::new() };
                let bottom = SdpaAttrs { bottom_right: true, ..causal };
                for attrs in [SdpaAttrs::new(), causal, bottom] {
                    compare(
                        attention(shape, dtype, layout, attrs, &[]),
                        &format!("{shape:?} {dtype} {layout:?} {attrs:?}"),
                    );
                }
            }
        }
    }
}

#[test]
fn every_option_and_all_of_them() {
    let shape: Shape = [3, 4, 2, 2, 21, 34, 16, 16];
    let bands = [(None, None), (Some(3), None), (None, Some(2)), (Some(5), Some(0)), (Some(0), Some(40))];
    let none = SdpaAttrs::new();
    let lengths = none.with(O::SeqLenQ).with(O::SeqLenKv);
    let all = lengths.with(O::Softcap).with(O::Bias).with(O::AlibiSlopes).with(O::Sink);
    for (left, right) in bands {
        for bottom_right in [false, true] {
            for with in [none, none.with(O::Softcap), none.with(O::AlibiSlopes), lengths, none.with(O::Sink), all] {
                let attrs = SdpaAttrs { left, right, bottom_right, ..with };
                compare(attention(shape, DType::F32, Layout::Contiguous, attrs, &[34]), &format!("{attrs:?}"));
            }
        }
    }
    for bias in [&[34][..], &[21, 1], &[4, 21, 34], &[3, 1, 1, 34], &[3, 4, 21, 34], &[1, 1, 1, 1], &[3, 1, 21, 34]] {
        compare(attention(shape, DType::BF16, Layout::Strided, none.with(O::Bias), bias), &format!("bias {bias:?}"));
    }
}

fn tensor(values: Vec<f32>, d: &[i64]) -> Tensor {
    Tensor::from_vec(values, dims(d), &Device::CPU).unwrap()
}

/// With queries of zero every key weighs the same: the result is the mean of the values that are seen, the statistic ln of their number.
/// Who sees nothing gives 0 and -∞.
#[test]
fn queries_of_zero_give_means() {
    let (s, t) = (5, 3);
    let attrs = SdpaAttrs { right: Some(0), bottom_right: true, left: Some(1), ..SdpaAttrs::new() };
    let graph = Arc::new(attention([1, 1, 1, 1, s, t, 8, 8], DType::F32, Layout::Contiguous, attrs, &[]));
    let v: Vec<f32> = (0..t * 8).map(|i| (i / 8 + 1) as f32).collect();
    let arguments = [
        tensor(vec![0.0; (s * 8) as usize], &[1, 1, s, 8]),
        tensor(v.clone(), &[1, 1, t, 8]),
        tensor(v, &[1, 1, t, 8]),
    ];
    let (results, _) = run(&graph, &arguments, &[]);
    let first = |t: &Tensor, every: usize| t.to_vec::<f32>().unwrap().into_iter().step_by(every).collect::<Vec<f32>>();
    // Positions of the queries are -2, -1, 0, 1, 2.
    assert_eq!(first(&results[0], 8), [0.0, 0.0, 1.0, 1.5, 2.5]);
    let inf = f32::NEG_INFINITY;
    assert_eq!(first(&results[1], 1), [inf, inf, 0.0, 2f32.ln(), 2f32.ln()]);
    assert_eq!(first(&results[2], 1), [inf, inf, 0.0, 0.0, 0.0]);
    assert_eq!(first(&results[3], 1), [0.0, 0.0, 1.0, 2.0, 2.0]);
}

/// A bias of -∞ hides a key as a mask does.
#[test]
fn a_bias_of_minus_infinity_hides() {
    let inf = f32::NEG_INFINITY;
    let attrs = SdpaAttrs::new().with(O::Bias);
    let graph = Arc::new(attention([1, 1, 1, 1, 2, 2, 8, 8], DType::F32, Layout::Contiguous, attrs, &[2, 2]));
    let v: Vec<f32> = (0..16).map(|i| (i / 8 + 1) as f32).collect();
    let bias = tensor(vec![inf, inf, 0.0, inf], &[2, 2]);
    let arguments =
        [tensor(vec![0.5; 16], &[1, 1, 2, 8]), tensor(v.clone(), &[1, 1, 2, 8]), tensor(v, &[1, 1, 2, 8]), bias];
    let (results, _) = run(&graph, &arguments, &[]);
    assert_eq!(results[0].to_vec::<f32>().unwrap(), [vec![0.0; 8], vec![1.0; 8]].concat());
    assert_eq!(results[1].to_vec::<f32>().unwrap()[0], inf);
}

/// q, k and v as views of one packed tensor; the result lies as q does.
#[test]
fn views_of_one_packed_tensor() {
    let mut g = Build::new();
    let (b, s, h, d) = (2, 11, 4, 16);
    let packed = g.arg(&[b, s, 3, h, d], DType::BF16, Layout::Contiguous);
    let mut part = |start: i64| {
        let one = g.op(Op::View(ViewOp::Slice { axis: 2, start, end: start + 1, step: 1 }), &[packed]);
        let one = g.op(Op::View(ViewOp::Squeeze(2)), &[one]);
        g.op(Op::View(ViewOp::Permute(dims(&[0, 2, 1, 3]))), &[one])
    };
    let (q, k, v) = (part(0), part(1), part(2));
    let scale = g.0.add_const(0.25);
    let y = g.op(Op::Sdpa(SdpaAttrs { right: Some(0), ..SdpaAttrs::new() }), &[q, k, v, scale]);
    assert_eq!(&*g.0.value(y).strides, [s * h * d, d, h * d, 1]);
    check(g.returns(&[y]), 5, "packed");
}
