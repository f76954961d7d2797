//! Reductions at the exit of a kernel.

use super::frame::Shape;
use super::{Lowering, Refusal};
use crate::descriptor::Descriptor;
use cudnn_sys::{AttributeName, DataType, DescriptorType, ReductionOp};
use fused_graph_core::ir::{Node, Params, PointwiseMode, ReduceAttrs, ReduceMode, ValueId};
use fused_graph_core::layout::Dims;

impl Lowering<'_> {
    pub(super) fn reduce(&mut self, attrs: &ReduceAttrs, node: &Node) -> Result<(), Refusal> {
        let (x, y) = (node.inputs[0], node.output);
        let refuse = |text: &str| Err(Refusal::Unsupported(vec![text.to_owned()]));
        let op = match attrs.mode {
            ReduceMode::Sum | ReduceMode::Norm1 => ReductionOp::ADD,
            ReduceMode::Max => ReductionOp::MAX,
            ReduceMode::Min => ReductionOp::MIN,
            ReduceMode::Amax => ReductionOp::AMAX,
            ReduceMode::Prod => ReductionOp::MUL,
            ReduceMode::Mean => return refuse("cuDNN has no mean in a fusion"),
            ReduceMode::Norm2 => return refuse("the square root of norm2 would read a reduction inside its kernel"),
            _ => return refuse("cuDNN has no such reduction"),
        };
        self.operand(x)?;
        let shape = self.reduced_shape(attrs, y)?;
        self.result(y, shape)?;
        let absolute = match attrs.mode {
            ReduceMode::Norm1 => Some(self.absolute(x)?),
            _ => None,
        };
        let reduction = Descriptor::build(self.api, DescriptorType::REDUCTION, |d| {
            d.set(AttributeName::REDUCTION_OPERATOR, &[op])?;
            d.set(AttributeName::REDUCTION_COMP_TYPE, &[DataType::FLOAT])
        })?;
        let parts = [
            (AttributeName::OPERATION_REDUCTION_XDESC, absolute.as_ref().unwrap_or(&self.tensors[&x])),
            (AttributeName::OPERATION_REDUCTION_YDESC, &self.tensors[&y]),
            (AttributeName::OPERATION_REDUCTION_DESC, &reduction),
        ];
        let operation = Descriptor::build(self.api, DescriptorType::OPERATION_REDUCTION, |d| {
            parts.iter().try_for_each(|(name, part)| d.set_descriptors(*name, &[part]))
        })?;
        self.operations.push(operation);
        Ok(())
    }

    fn absolute(&mut self, x: ValueId) -> Result<Descriptor, Refusal> {
        let shape = self.frame.full(&self.graph.value(x).strides).map_err(|e| Refusal::Unsupported(vec![e]))?;
        let middle = self.scratch(DataType::FLOAT, shape)?;
        let operation = self.operation_of(PointwiseMode::Abs, &Params::DEFAULT, &[&self.tensors[&x]], &middle)?;
        self.operations.push(operation);
        Ok(middle)
    }

    /// The result with every axis of the frame: reduced ones of extent 1, the others with the strides they have in memory.
    fn reduced_shape(&self, attrs: &ReduceAttrs, y: ValueId) -> Result<Shape, Refusal> {
        let value = self.graph.value(y);
        let mut kept = value.dims.iter().zip(value.strides.iter());
        let (mut dims, mut strides) = (self.frame.dims, Dims::splat(1, self.frame.dims.len()));
        for axis in 0..dims.len() {
            if attrs.reduces(axis) {
                dims = dims.with(axis, 1);
                if attrs.keepdim {
                    kept.next();
                }
            } else if let Some((_, &stride)) = kept.next() {
                strides = strides.with(axis, stride);
            }
        }
        self.frame.lift(&dims, &strides).map_err(|e| Refusal::Unsupported(vec![e]))
    }
}
