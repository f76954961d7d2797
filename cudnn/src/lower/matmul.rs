//! Matrix product.

use super::conv::compute_type;
use super::frame::Shape;
use super::{Lowering, Refusal};
use crate::descriptor::Descriptor;
use cudnn_sys::{AttributeName, DescriptorType};
use fused_graph_core::ir::{Node, ValueId};
use fused_graph_core::layout::Dims;

impl Lowering<'_> {
    pub(super) fn matmul(&mut self, node: &Node) -> Result<(), Refusal> {
        let (a, b, y) = (node.inputs[0], node.inputs[1], node.output);
        self.batch_is_somewhere(a, b)?;
        self.matmul_operand(a)?;
        // cuDNN tells tensors apart by their ids: the same matrix twice is two tensors at one place.
        let first = if a == b { self.tensors.remove(&a) } else { None };
        if first.is_some() {
            let uid = self.fresh_uid();
            self.matmul_operand(b)?;
            if let Some(binding) = self.bindings.last_mut() {
                binding.uid = uid;
            }
            let shape = self.matmul_shape(b)?;
            let tensor = self.tensor_in_memory(uid, b, shape)?;
            self.tensors.insert(b, tensor);
        } else {
            self.matmul_operand(b)?;
        }
        let shape = self.frame.full(&self.graph.value(y).strides).map_err(|e| Refusal::Unsupported(vec![e]))?;
        self.result(y, shape)?;
        let compute = compute_type(self, y)?;
        let matmul = Descriptor::build(self.api, DescriptorType::MATMUL, |d| {
            d.set(AttributeName::MATMUL_COMP_TYPE, &[compute])
        })?;
        let parts = [
            (AttributeName::OPERATION_MATMUL_ADESC, first.as_ref().unwrap_or(&self.tensors[&a])),
            (AttributeName::OPERATION_MATMUL_BDESC, &self.tensors[&b]),
            (AttributeName::OPERATION_MATMUL_CDESC, &self.tensors[&y]),
            (AttributeName::OPERATION_MATMUL_DESC, &matmul),
        ];
        let operation = Descriptor::build(self.api, DescriptorType::OPERATION_MATMUL, |d| {
            parts.iter().try_for_each(|(name, part)| d.set_descriptors(*name, &[part]))
        })?;
        self.operations.push(operation);
        Ok(())
    }

    /// A batch that is repeated on both sides is extent 1 on both, and then not that of the result.
    fn batch_is_somewhere(&self, a: ValueId, b: ValueId) -> Result<(), Refusal> {
        let inside = |v: &ValueId| self.group.nodes.iter().any(|n| self.graph.node(*n).output == *v);
        let batch: i64 = self.frame.dims[..self.frame.dims.len() - 2].iter().product();
        if batch == 1 || [a, b].iter().any(inside) {
            return Ok(());
        }
        let (x, y) = (self.matmul_shape(a)?, self.matmul_shape(b)?);
        if x.dims[0] == 1 && y.dims[0] == 1 {
            let reason = "both operands repeat their batch, and cuDNN takes its extent from one of them".to_owned();
            let smaller = if x.dims.numel() < y.dims.numel() { a } else { b };
            return Err(Refusal::Layout { value: smaller, reason });
        }
        Ok(())
    }

    fn matmul_operand(&mut self, v: ValueId) -> Result<(), Refusal> {
        if self.tensors.contains_key(&v) {
            return Ok(()); // computed in front of it in this kernel
        }
        let shape = self.matmul_shape(v)?;
        let seen = self.seen(v);
        self.read(v, seen, shape)
    }

    /// One batch axis (or none, repeated), and one of the last two axes dense.
    fn matmul_shape(&self, v: ValueId) -> Result<Shape, Refusal> {
        let seen = self.seen(v);
        let refuse = |reason: &str| Refusal::Layout { value: v, reason: reason.to_owned() };
        let rank = self.frame.dims.len();
        let lead = rank - seen.dims.len();
        let n = seen.dims.len();
        // Repeated batch axes are extents of 1 to cuDNN, which repeats either all of them or none.
        let batch = |i: usize| if i < lead || seen.strides[i - lead] == 0 { 1 } else { seen.dims[i - lead] };
        let dims: Vec<i64> = (0..rank - 2).map(batch).chain([seen.dims[n - 2], seen.dims[n - 1]]).collect();
        let step = |i: usize| if i < lead { 1 } else { seen.strides[i - lead] };
        let strides = Dims::collect((0..rank).map(step));
        let whole = dims[..rank - 2].iter().zip(self.frame.dims.iter()).all(|(a, b)| a == b);
        if !whole && dims[..rank - 2].iter().any(|&d| d != 1) {
            return Err(refuse(
                "some of its batch axes are repeated and some are not; cuDNN's matmul repeats all or none",
            ));
        }
        let dims = Dims::collect(dims.iter().copied());
        let shape = self.frame.lift(&dims, &strides).map_err(|reason| Refusal::Layout { value: v, reason })?;
        unit_stride(shape).ok_or_else(|| refuse("neither its rows nor its columns are dense"))
    }
}

/// The strides of a matrix with one of them 1 where that is true or, at extent 1, can be said.
fn unit_stride(shape: Shape) -> Option<Shape> {
    let (rows, columns) = (shape.dims[1], shape.dims[2]);
    let (down, across) = (shape.strides[1], shape.strides[2]);
    let with = |down: i64, across: i64| {
        let strides = shape.strides.with(1, down).with(2, across);
        let step = if shape.dims[0] == 1 { rows.max(1) * down.max(1) * columns.max(1) } else { strides[0] };
        Shape { dims: shape.dims, strides: strides.with(0, step) }
    };
    if across == 1 || columns == 1 {
        // Row-major; a single row may follow at any distance.
        let down = if rows == 1 { columns } else { down };
        return (down >= columns && down > 0).then(|| with(down, 1));
    }
    if down == 1 || rows == 1 {
        let across = if columns == 1 { rows } else { across };
        return (across >= rows && across > 0).then(|| with(1, across));
    }
    None
}
