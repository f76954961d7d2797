//! The frame of a kernel: the rank that cuDNN wants, and how axes of the graph map to its axes.

use super::Refusal;
use fused_graph_core::fuse::{Group, resolve};
use fused_graph_core::ir::{Graph, NormMode, Op, ValueId};
use fused_graph_core::layout::{Dims, is_channels_last};
use std::collections::HashMap;

/// Dims and strides in cuDNN's rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) dims: Dims,
    pub(super) strides: Dims,
}

/// How a kernel's tensors are seen by cuDNN.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    kind: Kind,
    /// Dims of the core's result in the graph.
    pub(super) dims: Dims,
    channels_last: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// N C spatial; 1-D gets an H of 1.
    Conv,
    /// Batch, M, N.
    Matmul,
    /// Nothing is fused to the core, which sees its tensors in this rank.
    Alone(usize),
}

impl Frame {
    pub(super) fn new(graph: &Graph, group: &Group, copies: &HashMap<ValueId, (Dims, Dims)>) -> Result<Frame, Refusal> {
        let Some(core) = group.core.map(|n| graph.node(n)) else {
            return Err(Refusal::Unsupported(vec!["a kernel without a convolution or matmul".into()]));
        };
        let dims = graph.value(core.output).dims;
        let x = resolve(graph, core.inputs[0]);
        let x_strides = copies.get(&core.inputs[0]).map_or(x.strides, |c| c.1);
        match core.op {
            Op::Matmul => Ok(Frame { kind: Kind::Matmul, dims, channels_last: false }),
            Op::Norm(a) if matches!(a.mode, NormMode::Batch | NormMode::Instance) => {
                Ok(Frame { kind: Kind::Alone(dims.len().max(4)), dims, channels_last: false })
            }
            Op::Pool(_) => Ok(Frame { kind: Kind::Alone(dims.len().max(4)), dims, channels_last: false }),
            Op::Norm(_) | Op::Sdpa(_) => Ok(Frame { kind: Kind::Alone(4), dims, channels_last: false }),
            _ => Ok(Frame { kind: Kind::Conv, dims, channels_last: is_channels_last(&x.dims, &x_strides) }),
        }
    }

    /// The number of axes that cuDNN sees.
    pub(super) fn rank(&self) -> usize {
        match self.kind {
            Kind::Matmul => 3,
            Kind::Alone(rank) => rank,
            Kind::Conv => self.dims.len().max(4),
        }
    }

    /// Axes of the frame from the innermost to the outermost.
    fn order(&self) -> Vec<usize> {
        if self.channels_last {
            std::iter::once(1).chain((2..self.rank()).rev()).chain([0]).collect()
        } else {
            (0..self.rank()).rev().collect()
        }
    }

    /// The axis of the frame for an axis of the graph's result.
    pub(super) fn axis(&self, axis: usize) -> usize {
        match self.kind {
            Kind::Matmul => (axis + 3).saturating_sub(self.dims.len()),
            Kind::Conv if self.dims.len() == 3 && axis == 2 => 3,
            Kind::Conv | Kind::Alone(_) => axis,
        }
    }

    /// A tensor that meets the result: dims aligned from the right, repeated axes as extent 1.
    pub(super) fn operand(&self, dims: &Dims, strides: &Dims) -> Result<Shape, String> {
        let lead = self.dims.len() - dims.len();
        let at = |d: &Dims, i: usize, missing: i64| if i < lead { missing } else { d[i - lead] };
        let dims = Dims::collect((0..self.dims.len()).map(|i| at(dims, i, 1)));
        let strides = Dims::collect((0..self.dims.len()).map(|i| at(strides, i, 0)));
        let seen = Dims::collect((0..dims.len()).map(|i| if strides[i] == 0 { 1 } else { dims[i] }));
        self.lift(&seen, &strides)
    }

    /// Dims and strides of full rank in the frame.
    pub(super) fn lift(&self, dims: &Dims, strides: &Dims) -> Result<Shape, String> {
        let shape = match self.kind {
            Kind::Conv if dims.len() == 3 => {
                let widen = |d: &Dims, h: i64| Dims::collect([d[0], d[1], h, d[2]]);
                Shape { dims: widen(dims, 1), strides: widen(strides, 1) }
            }
            Kind::Conv | Kind::Alone(_) => Shape { dims: *dims, strides: *strides },
            Kind::Matmul => collapse_batch(dims, strides)?,
        };
        Ok(self.dense_ones(shape))
    }

    /// Extents of 1 get the stride they would have in a dense tensor of this frame.
    pub(super) fn dense_ones(&self, shape: Shape) -> Shape {
        let mut strides = shape.strides;
        let mut inner = 1i64;
        for axis in self.order() {
            if shape.dims[axis] == 1 {
                strides = strides.with(axis, inner);
            } else {
                inner = inner.max(strides[axis].saturating_mul(shape.dims[axis]));
            }
        }
        Shape { dims: shape.dims, strides }
    }

    /// A dense tensor of the result's shape, laid out as the core's result is.
    pub(super) fn full(&self, strides: &Dims) -> Result<Shape, String> {
        self.lift(&self.dims, strides)
    }
}

/// `[…batch, m, n]` as `[b, m, n]`.
fn collapse_batch(dims: &Dims, strides: &Dims) -> Result<Shape, String> {
    let split = dims.len() - 2;
    let batch: Vec<(i64, i64)> = (0..split).map(|i| (dims[i], strides[i])).filter(|&(d, _)| d != 1).collect();
    if batch.windows(2).any(|w| w[0].1 != w[1].0 * w[1].1) {
        return Err("its batch axes do not lie behind each other, and cuDNN's matmul has one batch axis".into());
    }
    let extent: i64 = batch.iter().map(|b| b.0).product();
    let step = batch.last().map_or(1, |b| b.1);
    Ok(Shape {
        dims: Dims::collect([extent, dims[split], dims[split + 1]]),
        strides: Dims::collect([step, strides[split], strides[split + 1]]),
    })
}
