//! Normalisations and softmax on any device: the matrix against the oracle, and the functions as a user writes them.

use super::matrix::{Case, LAYOUTS, Layout, Maker, SIZES, TYPES, graph_of, limit, op};
use super::{close, tensor};
use fused_graph::prelude::*;
use fused_graph_core::ir::*;

/// Every norm and softmax × element type × layout × size.
pub fn matrix(device: &Device) -> Vec<Case> {
    let mut m = Maker::new(device, 5000);
    let mut cases = Vec::new();
    for dtype in TYPES {
        for layout in LAYOUTS {
            for channels in [3, 16] {
                for mode in [NormMode::Batch, NormMode::Instance, NormMode::Group] {
                    for parameters in [dtype, DType::F32] {
                        cases.push(channel_norm(&mut m, mode, channels, (dtype, parameters), layout));
                    }
                }
            }
            for size in SIZES {
                for parameters in [dtype, DType::F32] {
                    cases.push(norm(&mut m, NormMode::Layer, &[3, 2, size, size + 1], 1, (dtype, parameters), layout));
                    cases.push(norm(
                        &mut m,
                        NormMode::Rms,
                        &[3, 2, size, 2 * size + 6],
                        2,
                        (dtype, parameters),
                        layout,
                    ));
                }
                for (axis, log) in [(3, false), (3, true), (1, false), (0, true)] {
                    cases.push(softmax_case(&mut m, &[3, size, 2, size + 1], (axis, log), dtype, layout));
                }
            }
        }
        for length in [256, 257, 4096, 5000, 40_000] {
            cases.push(norm(&mut m, NormMode::Layer, &[5, length], 1, (dtype, dtype), Layout::Contiguous));
            cases.push(norm(&mut m, NormMode::Rms, &[5, length], 1, (dtype, dtype), Layout::Strided));
            cases.push(norm(&mut m, NormMode::Layer, &[5, length], 1, (dtype, dtype), Layout::Strided));
            cases.push(softmax_case(&mut m, &[5, length], (1, false), dtype, Layout::Contiguous));
            cases.push(softmax_case(&mut m, &[5, length], (1, true), dtype, Layout::Contiguous));
        }
    }
    cases
}

/// A norm with all its results, and one of which only the deviation is wanted.
fn norm(m: &mut Maker, mode: NormMode, dims: &[i64], n: usize, types: (DType, DType), layout: Layout) -> Case {
    let (shape, bias) = (&dims[dims.len() - n..], mode == NormMode::Layer);
    let axes = (dims.len() - n..dims.len()).fold(0, |bits, a| bits | 1 << a);
    let parameter = |m: &mut Maker| m.tensor(shape, types.1, Layout::Contiguous, false);
    let tensors = vec![m.tensor(dims, types.0, layout, false), parameter(m), parameter(m)];
    let graph = graph_of(&tensors, |g, v| {
        let operands = |epsilon| [&v[..2 + bias as usize], &[epsilon][..]].concat();
        let (first, second) = (operands(g.add_const(1e-3)), operands(g.add_const(0.5)));
        let node =
            |g: &mut Graph, part, operands: &[ValueId]| op(g, Op::Norm(NormAttrs { mode, axes, bias, part }), operands);
        let mut results = vec![node(g, NormPart::Y, &first)?, node(g, NormPart::InvStd, &first)?];
        if mode == NormMode::Layer {
            results.push(node(g, NormPart::Mean, &first)?);
        }
        results.extend([node(g, NormPart::InvStd, &second)?, node(g, NormPart::Y, &second)?]);
        Ok(results)
    });
    let name = format!("{} {dims:?} over {n}, {} with {}, {layout:?}", mode.name(), types.0, types.1);
    Case { name, tensors, graph: graph.unwrap(), options: Default::default(), tolerance: limit(types.0, true) }
}

/// Batch, instance and group norm of channels, with all results.
fn channel_norm(m: &mut Maker, mode: NormMode, channels: i64, types: (DType, DType), layout: Layout) -> Case {
    let (dims, list) = match mode {
        NormMode::Group => (vec![3, 2, channels, 7, 5], vec![2, channels, 1, 1]),
        _ => (vec![3, channels, 7, 5], vec![channels, 1, 1]),
    };
    let parameter = |m: &mut Maker| m.tensor(&list, types.1, Layout::Contiguous, false);
    let tensors = vec![m.tensor(&dims, types.0, layout, false), parameter(m), parameter(m)];
    let graph = graph_of(&tensors, |g, v| {
        let operands = [v[0], v[1], v[2], g.add_const(1e-3)];
        let axes = mode.axes(dims.len(), 0);
        let parts = [NormPart::Y, NormPart::Mean, NormPart::InvStd];
        parts.iter().map(|&part| op(g, Op::Norm(NormAttrs { mode, axes, bias: true, part }), &operands)).collect()
    });
    let name = format!("{} {dims:?}, {} with {}, {layout:?}", mode.name(), types.0, types.1);
    Case { name, tensors, graph: graph.unwrap(), options: Default::default(), tolerance: limit(types.0, true) }
}

fn softmax_case(m: &mut Maker, dims: &[i64], (axis, log): (usize, bool), dtype: DType, layout: Layout) -> Case {
    let tensors = vec![m.tensor(dims, dtype, layout, false)];
    let graph = graph_of(&tensors, |g, v| Ok(vec![op(g, Op::Softmax(SoftmaxAttrs { axis, log }), v)?]));
    let name = format!("softmax {dims:?} along {axis}, log {log}, {dtype} {layout:?}");
    Case { name, tensors, graph: graph.unwrap(), options: Default::default(), tolerance: limit(dtype, true) }
}

#[fused_graph]
fn layer(x: &Tensor, gamma: &Tensor, beta: &Tensor, eps: f32) -> (Tensor, Tensor, Tensor) {
    layer_norm_stats(x, gamma, beta, epsilon = eps)
}

#[fused_graph]
fn rms_of_centered(x: &Tensor, gamma: &Tensor, beta: Option<&Tensor>) -> Tensor {
    rms_norm(x, gamma, bias = beta, zero_centered = true, epsilon = 0.0)
}

#[fused_graph]
fn probabilities(x: &Tensor) -> (Tensor, Tensor) {
    (softmax(x, -1), log_softmax(x, -1))
}

#[fused_graph]
fn batch(x: &Tensor, gamma: &Tensor, beta: &Tensor, mean: &Tensor, var: &Tensor) -> Tensor {
    batch_norm(x, gamma, beta, mean, var, epsilon = 3.0)
}

#[fused_graph]
fn trained(x: &Tensor, gamma: &Tensor, beta: &Tensor, mean: &Tensor, var: &Tensor) -> (Tensor, Tensor, Tensor) {
    let n = batch_norm_train(x, gamma, beta, running_mean = mean, running_var = var, momentum = 0.5, epsilon = 3.0);
    (n.y, n.running_mean, n.running_var)
}

#[fused_graph]
fn of_groups(x: &Tensor, gamma: &Tensor, beta: &Tensor) -> (Tensor, Tensor) {
    (group_norm(x, 2, gamma, beta, epsilon = 3.0), instance_norm(x, gamma, beta, epsilon = 0.0))
}

/// Channels whose results can be worked out in the head.
pub fn known_channels(device: &Device) {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let t = |v: &[f32], dims: &[i64]| tensor(v, dims, dtype, device);
        let x = t(&[1.0, 3.0, 5.0, 9.0], &[1, 2, 1, 2]);
        let (gamma, beta) = (t(&[2.0, 4.0], &[2]), t(&[0.5, 1.0], &[2]));
        // (x - 1) / 2 · γ + β for both channels.
        let y = batch(&x, &gamma, &beta, &t(&[1.0, 1.0], &[2]), &t(&[1.0, 1.0], &[2])).unwrap();
        close(&y, &[0.5, 2.5, 9.0, 17.0]);
        // Means 2 and 7, variances 1 and 4 (unbiased 2 and 8).
        let (y, mean, var) = trained(&x, &gamma, &beta, &t(&[0.0, 1.0], &[2]), &t(&[4.0, 2.0], &[2])).unwrap();
        let second = 4.0 * 2.0 / 7f64.sqrt();
        close(&y, &[-0.5, 1.5, 1.0 - second, 1.0 + second]);
        close(&mean, &[1.0, 4.0]);
        close(&var, &[3.0, 5.0]);
        let (groups, instances) = of_groups(&x, &gamma, &beta).unwrap();
        close(&groups, &[-0.5, 1.5, 1.0 - second, 1.0 + second]);
        close(&instances, &[-1.5, 2.5, -3.0, 5.0]);
        assert_eq!(groups.dims(), x.dims());
    }
}

/// Rows whose results can be worked out in the head.
pub fn known_values(device: &Device) {
    let third: f64 = 1.0 / 3.0;
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let x = tensor(&[1.0, 3.0, 1.0, 3.0, 8.0, 8.0, 8.0, 8.0], &[2, 4], dtype, device);
        let (gamma, beta) =
            (tensor(&[1.0, 2.0, 3.0, 4.0], &[4], dtype, device), tensor(&[0.5; 4], &[4], dtype, device));
        // Variance 1 and ε 3: half of ±1.
        let (y, mean, inv_std) = layer(&x, &gamma, &beta, 3.0).unwrap();
        close(&y, &[0.0, 1.5, -1.0, 2.5, 0.5, 0.5, 0.5, 0.5]);
        close(&mean, &[2.0, 8.0]);
        close(&inv_std, &[0.5, 1.0 / 3f64.sqrt()]);
        assert_eq!((&mean.dims()[..], mean.dtype()), (&[2, 1][..], DType::F32));
        // ε goes by value: no other plan.
        let (y, ..) = layer(&x, &gamma, &beta, 8.0).unwrap();
        close(&y, &[0.5 - third, 0.5 + 2.0 * third, 0.5 - 3.0 * third, 0.5 + 4.0 * third, 0.5, 0.5, 0.5, 0.5]);

        let x = tensor(&[3.0, -3.0, 3.0, 3.0], &[1, 4], dtype, device);
        close(&rms_of_centered(&x, &gamma, None).unwrap(), &[2.0, -3.0, 4.0, 5.0]);
        close(&rms_of_centered(&x, &gamma, Some(&beta)).unwrap(), &[2.5, -2.5, 4.5, 5.5]);

        let x = tensor(&[0.0, 3f32.ln(), -1e4, 2.0, 2.0, 2.0], &[2, 3], dtype, device);
        let (p, log_p) = probabilities(&x).unwrap();
        close(&p, &[0.25, 0.75, 0.0, third, third, third]);
        close(&log_p.slice(0, 1..2).unwrap(), &[third.ln(); 3]);
    }
    assert_eq!(layer::stats().plans_built % 3, 0, "one plan a type: {}", layer::stats());
}
