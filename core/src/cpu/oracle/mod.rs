//! The truth that everything else is compared with: naive loops over row-major `f64` arrays, in the order in which the function was
//! written. Slow on purpose, and independent of the code under test: its own indexing, its own formulas.
//!
//! Rounding is the contract's: values are exact between operations, rounded to their element type where they are returned, cast, or read by a
//! convolution or matmul.

mod attention;
mod core_ops;
mod norms;
mod pool;
mod scalar;
#[cfg(test)]
pub(crate) use scalar::erf;

use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::ir::{Graph, Node, Op, ReduceAttrs, ReduceMode, ValueId, ValueKind, ViewOp};
use crate::layout::{Dims, MAX_RANK};
use crate::tensor::Tensor;

/// A row-major array.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Extents.
    pub dims: Dims,
    /// Elements.
    pub data: Vec<f64>,
}

impl Array {
    /// The elements of a tensor.
    pub fn from_tensor(t: &Tensor) -> Result<Array> {
        let (host, offset, strides) = t.host_elements()?;
        let at = |index: &[i64]| offset + index.iter().zip(strides.iter()).map(|(i, s)| i * s).sum::<i64>();
        Ok(Self::build(*t.dims(), |index| host.get(at(index) as usize)))
    }

    fn build(dims: Dims, mut f: impl FnMut(&[i64]) -> f64) -> Array {
        let mut data = Vec::with_capacity(dims.numel());
        let mut index = [0i64; MAX_RANK];
        for mut flat in 0..dims.numel() as i64 {
            for axis in (0..dims.len()).rev() {
                index[axis] = flat % dims[axis];
                flat /= dims[axis];
            }
            data.push(f(&index[..dims.len()]));
        }
        Array { dims, data }
    }

    /// The element at an index, with extents of 1 repeated and missing leading axes ignored.
    fn at(&self, index: &[i64]) -> f64 {
        let skip = index.len() - self.dims.len();
        let mut flat = 0;
        for (axis, &extent) in self.dims.iter().enumerate() {
            flat = flat * extent + if extent == 1 { 0 } else { index[skip + axis] };
        }
        self.data[flat as usize]
    }

    fn rounded(&self, dtype: DType) -> Array {
        Array { dims: self.dims, data: self.data.iter().map(|&v| round(v, dtype)).collect() }
    }
}

/// A value rounded to an element type.
pub fn round(v: f64, dtype: DType) -> f64 {
    crate::tensor::with_type!(dtype, T => T::from_f64(v).to_f64())
}

/// Evaluates a graph. `tensors` are its inputs in order, `scalars` its host scalars; the results are rounded to their element types.
pub fn run(graph: &Graph, tensors: &[Array], scalars: &[f64]) -> Result<Vec<Array>> {
    let mut values: Vec<Option<Array>> = Vec::new();
    for (_, value) in graph.values() {
        let scalar = |v: f64| Array { dims: Dims::EMPTY, data: vec![v] };
        let missing = || Error::argument("an argument is missing");
        values.push(match value.kind {
            ValueKind::Input { index } => Some(tensors.get(index).cloned().ok_or_else(missing)?),
            ValueKind::Scalar { index, .. } => Some(scalar(*scalars.get(index).ok_or_else(missing)?)),
            ValueKind::Const(v) => Some(scalar(v)),
            ValueKind::Node(_) => None,
        });
    }
    for (_, node) in graph.nodes() {
        let result = evaluate(graph, node, &values)?;
        values[node.output.index()] = Some(result);
    }
    graph.outputs().iter().map(|&v| Ok(get(&values, v)?.rounded(graph.value(v).dtype))).collect()
}

/// The value of arithmetic of host scalars and literals alone; see [`crate::fuse::is_scalar`].
pub fn scalar_value(graph: &Graph, value: ValueId, scalars: &[f64]) -> f64 {
    match graph.value(value).kind {
        ValueKind::Const(v) => v,
        ValueKind::Scalar { index, .. } => scalars.get(index).copied().unwrap_or(0.0),
        ValueKind::Input { .. } => f64::NAN,
        ValueKind::Node(n) => {
            let node = graph.node(n);
            let args: Vec<f64> = node.inputs.iter().map(|&v| scalar_value(graph, v, scalars)).collect();
            match node.op {
                Op::Pointwise(mode, params) => scalar::pointwise(mode, &params, &args, &[0; MAX_RANK], false),
                Op::Cast(to) => round(args[0], to),
                _ => f64::NAN,
            }
        }
    }
}

fn get(values: &[Option<Array>], v: ValueId) -> Result<&Array> {
    values[v.index()].as_ref().ok_or_else(|| Error::argument("a value is used before it is computed"))
}

fn evaluate(graph: &Graph, node: &Node, values: &[Option<Array>]) -> Result<Array> {
    let operand = |i: usize| get(values, node.inputs[i]);
    let dtype = |i: usize| graph.value(node.inputs[i]).dtype;
    let out = graph.value(node.output);
    Ok(match &node.op {
        Op::Conv(attrs) => {
            core_ops::conv(attrs, &operand(0)?.rounded(dtype(0)), &operand(1)?.rounded(dtype(1)), out.dims)
        }
        Op::Matmul => core_ops::matmul(&operand(0)?.rounded(dtype(0)), &operand(1)?.rounded(dtype(1)), out.dims),
        Op::Norm(attrs) => {
            let parameters =
                (1..attrs.epsilon()).map(|i| Ok(operand(i)?.rounded(dtype(i)))).collect::<Result<Vec<_>>>()?;
            let epsilon = operand(attrs.epsilon())?.data[0];
            norms::norm(attrs, &operand(0)?.rounded(dtype(0)), &parameters, epsilon)
        }
        Op::Pool(attrs) => pool::pool(attrs, &operand(0)?.rounded(dtype(0)), out.dims),
        Op::Sdpa(attrs) => {
            let exact = |i: usize| node.op.by_value().any(|at| at == i);
            let read = |i: usize| Ok(if exact(i) { operand(i)?.clone() } else { operand(i)?.rounded(dtype(i)) });
            let operands = (0..node.inputs.len()).map(read).collect::<Result<Vec<_>>>()?;
            attention::sdpa(attrs, &operands, out.dims)
        }
        Op::Softmax(attrs) => norms::softmax(attrs, &operand(0)?.rounded(dtype(0))),
        Op::Pointwise(mode, params) => {
            let operands = (0..node.inputs.len()).map(operand).collect::<Result<Vec<_>>>()?;
            // What the operation computes in: integers truncate in a division, floats do not.
            let computed = node.inputs.iter().map(|&v| graph.value(v)).filter(|v| !v.is_scalar());
            let integral = computed.clone().count() > 0 && computed.clone().all(|v| !v.dtype.is_float());
            Array::build(out.dims, |index| {
                let args: Vec<f64> = operands.iter().map(|a| a.at(index)).collect();
                scalar::pointwise(*mode, params, &args, index, integral)
            })
        }
        Op::Cast(to) => operand(0)?.rounded(*to),
        Op::Reduce(attrs) => reduce(attrs, operand(0)?, out.dims),
        Op::View(view) => see(view, operand(0)?, out.dims),
    })
}

fn reduce(attrs: &ReduceAttrs, x: &Array, out: Dims) -> Array {
    let start = match attrs.mode {
        ReduceMode::Max => f64::NEG_INFINITY,
        ReduceMode::Min => f64::INFINITY,
        ReduceMode::Prod => 1.0,
        _ => 0.0,
    };
    let kept = Dims::collect((0..x.dims.len()).map(|a| if attrs.reduces(a) { 1 } else { x.dims[a] }));
    let mut result = Array { dims: kept, data: vec![start; kept.numel()] };
    let walk = Array::build(x.dims, |index| {
        let mut flat = 0;
        for (axis, &extent) in kept.iter().enumerate() {
            flat = flat * extent + if attrs.reduces(axis) { 0 } else { index[axis] };
        }
        flat as f64
    });
    for (&to, &v) in walk.data.iter().zip(&x.data) {
        let acc = &mut result.data[to as usize];
        *acc = match attrs.mode {
            ReduceMode::Sum | ReduceMode::Mean => *acc + v,
            ReduceMode::Norm1 => *acc + v.abs(),
            ReduceMode::Norm2 => *acc + v * v,
            ReduceMode::Prod => *acc * v,
            ReduceMode::Max => scalar::maximum(*acc, v),
            ReduceMode::Min => scalar::minimum(*acc, v),
            ReduceMode::Amax => scalar::maximum(*acc, v.abs()),
        };
    }
    let count = (x.data.len() / result.data.len().max(1)) as f64;
    for v in &mut result.data {
        match attrs.mode {
            ReduceMode::Mean => *v /= count,
            ReduceMode::Norm2 => *v = v.sqrt(),
            _ => {}
        }
    }
    Array { dims: out, data: result.data }
}

fn see(view: &ViewOp, x: &Array, out: Dims) -> Array {
    match view {
        ViewOp::Reshape(_) | ViewOp::Squeeze(_) | ViewOp::Unsqueeze(_) => Array { dims: out, data: x.data.clone() },
        ViewOp::Expand(_) => Array::build(out, |index| x.at(index)),
        ViewOp::Permute(perm) => Array::build(out, |index| {
            let mut from = [0i64; MAX_RANK];
            for (axis, &p) in perm.iter().enumerate() {
                from[p as usize] = index[axis];
            }
            x.at(&from[..index.len()])
        }),
        ViewOp::Slice { axis, start, step, .. } => Array::build(out, |index| {
            let mut from = [0i64; MAX_RANK];
            from[..index.len()].copy_from_slice(index);
            from[*axis] = start + step * index[*axis];
            let mut flat = 0;
            for (a, &extent) in x.dims.iter().enumerate() {
                flat = flat * extent + from[a];
            }
            x.data[flat as usize]
        }),
    }
}
