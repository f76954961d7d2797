//! Normalisations: layer and RMS norm as T rows of D elements, which to cuDNN are `[T, D, 1, 1]`; batch and instance norm as N×C×….

use super::frame::Shape;
use super::tensor::Place;
use super::{Lowering, Refusal, Source};
use crate::descriptor::Descriptor;
use cudnn_sys::{AttributeName, DescriptorType, NormFwdPhase, NormMode as Code};
use fused_graph_core::fuse::MemRef;
use fused_graph_core::ir::{Node, NormAttrs, NormMode, NormPart, Op, ValueId};
use fused_graph_core::layout::Dims;

impl Lowering<'_> {
    pub(super) fn norm(&mut self, attrs: &NormAttrs, node: &Node) -> Result<(), Refusal> {
        if self.group.core.is_none_or(|c| self.graph.node(c).output != node.output) {
            return Ok(()); // a further result, which comes with the first
        }
        if attrs.mode == NormMode::Rms && attrs.bias {
            // Measured with 9.19 on an H200, F16, one row of four: β is left out of the first two elements.
            return Err(unsupported("cuDNN's RMS norm adds β to a part of some rows only"));
        }
        let x = node.inputs[0];
        let y = self
            .part(attrs, NormPart::Y)
            .ok_or_else(|| unsupported("cuDNN gives statistics only beside the result"))?;
        let value = self.graph.value(y);
        let result = MemRef { base: y, dims: value.dims, strides: value.strides, offset: 0 };
        let shapes = match attrs.mode {
            NormMode::Layer | NormMode::Rms => rows(attrs, [&self.seen(x), &result])?,
            NormMode::Batch | NormMode::Instance => channels(attrs, [&self.seen(x), &result])?,
            _ => return Err(unsupported("no engine of cuDNN runs a group norm")),
        };
        self.aligned_read(x, shapes.full)?;
        self.result(y, shapes.full)?;
        for &v in &node.inputs[1..attrs.epsilon()] {
            if !is_dense(&self.seen(v), Order::RowMajor) {
                return Err(unsupported("cuDNN's normalisations read γ and β that are dense"));
            }
            self.aligned_read(v, shapes.parameter)?;
        }
        self.operand(node.inputs[attrs.epsilon()])?;
        let statistics = self.statistics(attrs, shapes.statistic)?;
        let operation = self.norm_operation(attrs, node, y, &statistics)?;
        self.operations.push(operation);
        Ok(())
    }

    /// The value of the group that is this result.
    fn part(&self, attrs: &NormAttrs, part: NormPart) -> Option<ValueId> {
        let wanted = Op::Norm(NormAttrs { part, ..*attrs });
        let found = self.group.nodes.iter().map(|&n| self.graph.node(n)).find(|n| n.op == wanted);
        found.map(|n| n.output)
    }

    /// The statistics that leave the kernel; cuDNN gives all of them or none.
    fn statistics(&mut self, attrs: &NormAttrs, shape: Shape) -> Result<Vec<(AttributeName, ValueId)>, Refusal> {
        let wanted = [
            (NormPart::Mean, AttributeName::OPERATION_NORM_FWD_MEAN_DESC),
            (NormPart::InvStd, AttributeName::OPERATION_NORM_FWD_INV_VARIANCE_DESC),
        ];
        let wanted = wanted.into_iter().filter(|(part, _)| attrs.is_centered() || *part != NormPart::Mean);
        let found: Vec<_> = wanted.map(|(part, name)| Some((name, self.part(attrs, part)?))).collect();
        let Some(all) = found.iter().copied().collect::<Option<Vec<_>>>() else {
            return match found.iter().any(Option::is_some) {
                true => Err(unsupported("cuDNN gives the mean and the deviation together or neither")),
                false => Ok(Vec::new()),
            };
        };
        for &(_, v) in &all {
            self.result(v, shape)?;
        }
        Ok(all)
    }

    fn norm_operation(
        &self,
        attrs: &NormAttrs,
        node: &Node,
        y: ValueId,
        statistics: &[(AttributeName, ValueId)],
    ) -> Result<Descriptor, Refusal> {
        let mode = match attrs.mode {
            NormMode::Layer => Code::LAYER,
            NormMode::Rms => Code::RMS,
            NormMode::Batch => Code::BATCH,
            NormMode::Instance => Code::INSTANCE,
            _ => return Err(unsupported("cuDNN has no such normalisation")),
        };
        let phase = if statistics.is_empty() { NormFwdPhase::INFERENCE } else { NormFwdPhase::TRAINING };
        let tensor = |v: ValueId| &self.tensors[&v];
        let mut parts = vec![
            (AttributeName::OPERATION_NORM_FWD_XDESC, tensor(node.inputs[0])),
            (AttributeName::OPERATION_NORM_FWD_SCALE_DESC, tensor(node.inputs[1])),
            (AttributeName::OPERATION_NORM_FWD_EPSILON_DESC, tensor(node.inputs[attrs.epsilon()])),
            (AttributeName::OPERATION_NORM_FWD_YDESC, tensor(y)),
        ];
        parts.extend(attrs.beta().map(|at| (AttributeName::OPERATION_NORM_FWD_BIAS_DESC, tensor(node.inputs[at]))));
        parts.extend(statistics.iter().map(|&(name, v)| (name, tensor(v))));
        Ok(Descriptor::build(self.api, DescriptorType::OPERATION_NORM_FORWARD, |d| {
            d.set(AttributeName::OPERATION_NORM_FWD_MODE, &[mode])?;
            d.set(AttributeName::OPERATION_NORM_FWD_PHASE, &[phase])?;
            parts.iter().try_for_each(|(name, part)| d.set_descriptors(*name, &[part]))
        })?)
    }

    fn aligned_read(&mut self, v: ValueId, shape: Shape) -> Result<(), Refusal> {
        let seen = self.seen(v);
        let alignment = self.alignment(v, seen);
        if alignment < 16 {
            return Err(unsupported("cuDNN's normalisations read tensors that start at a multiple of 16 bytes"));
        }
        if self.tensors.contains_key(&v) {
            return Err(unsupported("an operand is there twice"));
        }
        let source = Source::Memory { base: seen.base, offset: seen.offset * self.graph.value(v).dtype.size() as i64 };
        self.bind(v, source, self.graph.value(v).dtype, shape, Place::Memory { alignment })
    }
}

/// How cuDNN sees the tensors of a normalisation.
struct Shapes {
    full: Shape,
    parameter: Shape,
    statistic: Shape,
}

/// Dense rows that lie one behind another.
fn rows(attrs: &NormAttrs, tensors: [&MemRef; 2]) -> Result<Shapes, Refusal> {
    if tensors.iter().any(|t| !is_dense(t, Order::RowMajor)) {
        return Err(unsupported("cuDNN's normalisations read dense rows that lie one behind another"));
    }
    let dims = tensors[0].dims;
    let split = (0..dims.len()).find(|&a| attrs.normalises(a)).unwrap_or(0);
    let (rows, length) = (dims[..split].iter().product(), dims[split..].iter().product());
    // Extents of 1 behind the rows are as wide as a row.
    let packed = |rows: i64, length: i64| Shape {
        dims: Dims::collect([rows, length, 1, 1]),
        strides: Dims::collect([length, 1, length, length]),
    };
    Ok(Shapes { full: packed(rows, length), parameter: packed(1, length), statistic: packed(rows, 1) })
}

/// N×C×… of rank 4 or 5, channels-last or row-major.
fn channels(attrs: &NormAttrs, tensors: [&MemRef; 2]) -> Result<Shapes, Refusal> {
    let order = [Order::ChannelsLast, Order::RowMajor].into_iter().find(|o| tensors.iter().all(|t| is_dense(t, *o)));
    let order =
        order.ok_or_else(|| unsupported("cuDNN's batch norm reads dense tensors, channels-last or row-major"))?;
    let dims = tensors[0].dims;
    // Spatial axes of extent 1 in front, up to rank 4.
    let missing = 4usize.saturating_sub(dims.len());
    let ones = std::iter::repeat_n(1, missing);
    let full = Dims::collect(dims[..2].iter().copied().chain(ones).chain(dims[2..].iter().copied()));
    let shape = |dims: Dims| Shape { dims, strides: order.strides(&dims) };
    let ones = Dims::splat(1, full.len());
    let parameter = ones.with(1, dims[1]);
    let statistic = if attrs.mode == NormMode::Batch { parameter } else { parameter.with(0, dims[0]) };
    Ok(Shapes { full: shape(full), parameter: shape(parameter), statistic: shape(statistic) })
}

/// An order in memory.
#[derive(Clone, Copy)]
enum Order {
    RowMajor,
    ChannelsLast,
}

impl Order {
    fn strides(self, dims: &Dims) -> Dims {
        match self {
            Order::RowMajor => dims.contiguous_strides(),
            Order::ChannelsLast => dims.channels_last_strides(),
        }
    }
}

fn is_dense(seen: &MemRef, order: Order) -> bool {
    let dense = order.strides(&seen.dims);
    (0..seen.dims.len()).all(|a| seen.dims[a] == 1 || seen.strides[a] == dense[a])
}

fn unsupported(text: &str) -> Refusal {
    Refusal::Unsupported(vec![text.to_owned()])
}
