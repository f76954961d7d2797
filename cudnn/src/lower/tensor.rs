//! Tensor descriptors.

use super::frame::Shape;
use super::{Binding, Lowering, Refusal, Source};
use crate::descriptor::Descriptor;
use cudnn_sys::{AttributeName, DataType, DescriptorType};
use fused_graph_core::DType;
use fused_graph_core::fuse::{MemRef, is_scalar, resolve};
use fused_graph_core::ir::ValueId;
use fused_graph_core::layout::Dims;

/// The alignment beyond which no engine asks for more.
const ENOUGH: u32 = 16;

/// cuDNN's name of an element type. A `bool` is one byte here, so it is an INT8 of 0 or 1; cuDNN's BOOLEAN is packed.
pub(super) fn data_type(dtype: DType) -> Result<DataType, Refusal> {
    Ok(match dtype {
        DType::F32 => DataType::FLOAT,
        DType::F16 => DataType::HALF,
        DType::BF16 => DataType::BFLOAT16,
        DType::F64 => DataType::DOUBLE,
        DType::F8E4M3 => DataType::FP8_E4M3,
        DType::F8E5M2 => DataType::FP8_E5M2,
        DType::I8 | DType::Bool => DataType::INT8,
        DType::I32 => DataType::INT32,
        DType::I64 => DataType::INT64,
        other => return Err(Refusal::Unsupported(vec![format!("cuDNN has no {other}")])),
    })
}

/// How a tensor descriptor differs from a plain one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Memory { alignment: u32 },
    Virtual,
    ByValue,
}

impl Lowering<'_> {
    /// Makes sure that the operand of a pointwise operation or reduction has a descriptor.
    pub(super) fn operand(&mut self, v: ValueId) -> Result<(), Refusal> {
        if self.tensors.contains_key(&v) {
            return Ok(());
        }
        if is_scalar(self.graph, v) {
            return self.scalar(v);
        }
        let seen = self.seen(v);
        let shape = self.frame.operand(&seen.dims, &seen.strides);
        let shape = shape.map_err(|reason| Refusal::Layout { value: v, reason })?;
        self.read(v, seen, shape)
    }

    /// A value in memory as this kernel reads it: through its views, or the copy that was made of it.
    pub(super) fn seen(&self, v: ValueId) -> MemRef {
        match self.memory.copies.get(&v) {
            Some((dims, strides)) => MemRef { base: v, dims: *dims, strides: *strides, offset: 0 },
            None => resolve(self.graph, v),
        }
    }

    /// The descriptor of a value that is read from memory.
    pub(super) fn read(&mut self, v: ValueId, seen: MemRef, shape: Shape) -> Result<(), Refusal> {
        let dtype = self.graph.value(v).dtype;
        let source = match self.memory.copies.contains_key(&v) {
            true => Source::Copy { value: v, offset: 0 },
            false => Source::Memory { base: seen.base, offset: seen.offset * dtype.size() as i64 },
        };
        self.bind(v, source, dtype, shape, Place::Memory { alignment: self.alignment(v, seen) })
    }

    pub(super) fn alignment(&self, v: ValueId, seen: MemRef) -> u32 {
        if self.memory.copies.contains_key(&v) {
            return ENOUGH;
        }
        let offset = seen.offset * self.graph.value(v).dtype.size() as i64;
        let base = (self.memory.alignment)(seen.base).min(ENOUGH);
        if offset == 0 { base } else { base.min(1 << offset.trailing_zeros().min(4)) }
    }

    /// Another descriptor, under its own id, of a value that is read from memory.
    pub(super) fn tensor_in_memory(&self, uid: i64, v: ValueId, shape: Shape) -> Result<Descriptor, Refusal> {
        let place = Place::Memory { alignment: self.alignment(v, self.seen(v)) };
        self.make_tensor(uid, data_type(self.graph.value(v).dtype)?, shape, place)
    }

    fn scalar(&mut self, v: ValueId) -> Result<(), Refusal> {
        let ones = Dims::splat(1, self.frame.rank());
        let dtype = if self.integral() { DType::I32 } else { DType::F32 };
        self.bind(v, Source::Scalar(v), dtype, Shape { dims: ones, strides: ones }, Place::ByValue)
    }

    /// The descriptor of a value, under its index as id, and what is behind it at launch.
    pub(super) fn bind(
        &mut self,
        v: ValueId,
        source: Source,
        dtype: DType,
        shape: Shape,
        place: Place,
    ) -> Result<(), Refusal> {
        let uid = v.index() as i64 + 1;
        let tensor = self.make_tensor(uid, data_type(dtype)?, shape, place)?;
        self.tensors.insert(v, tensor);
        self.bindings.push(Binding { uid, source, dtype });
        Ok(())
    }

    /// Whether the kernel computes in integers.
    pub(super) fn integral(&self) -> bool {
        let core = self.group.core.map(|n| self.graph.node(n).output);
        core.is_some_and(|v| self.graph.value(v).dtype.is_int())
    }

    /// The descriptor of a result of the kernel: in memory if it leaves the kernel, else virtual. `shape` is that of its elements in the frame,
    /// laid out as the value lies in memory.
    pub(super) fn result(&mut self, v: ValueId, shape: Shape) -> Result<(), Refusal> {
        let value = self.graph.value(v);
        if self.group.outputs.contains(&v) {
            let dtype = value.dtype;
            let alignment = (self.memory.alignment)(v).min(ENOUGH);
            let source = Source::Memory { base: v, offset: 0 };
            return self.bind(v, source, dtype, shape, Place::Memory { alignment });
        }
        let cast =
            self.graph.producer(v).is_some_and(|n| matches!(self.graph.node(n).op, fused_graph_core::ir::Op::Cast(_)));
        // What a core operation reads is rounded to the element type it reads.
        let feeds_core = self.group.core.is_some_and(|n| self.graph.node(n).inputs.contains(&v));
        let held = match value.dtype {
            DType::Bool => DataType::BOOLEAN,
            d if cast || feeds_core => data_type(d)?,
            d => data_type(d.compute())?,
        };
        let tensor = self.make_tensor(v.index() as i64 + 1, held, shape, Place::Virtual)?;
        self.tensors.insert(v, tensor);
        Ok(())
    }

    /// A virtual tensor of the result's shape that has no value of the graph.
    pub(super) fn scratch(&mut self, dtype: DataType, shape: Shape) -> Result<Descriptor, Refusal> {
        let uid = self.fresh_uid();
        self.make_tensor(uid, dtype, shape, Place::Virtual)
    }

    pub(super) fn fresh_uid(&mut self) -> i64 {
        self.next_uid += 1;
        self.next_uid
    }

    pub(super) fn make_tensor(
        &self,
        uid: i64,
        dtype: DataType,
        shape: Shape,
        place: Place,
    ) -> Result<Descriptor, Refusal> {
        Ok(Descriptor::build(self.api, DescriptorType::TENSOR, |d| {
            d.set(AttributeName::TENSOR_DATA_TYPE, &[dtype])?;
            d.set(AttributeName::TENSOR_DIMENSIONS, &shape.dims)?;
            d.set(AttributeName::TENSOR_STRIDES, &shape.strides)?;
            d.set(AttributeName::TENSOR_UNIQUE_ID, &[uid])?;
            let alignment = if let Place::Memory { alignment } = place { alignment } else { ENOUGH };
            d.set(AttributeName::TENSOR_BYTE_ALIGNMENT, &[alignment as i64])?;
            match place {
                Place::Virtual => d.set(AttributeName::TENSOR_IS_VIRTUAL, &[true]),
                Place::ByValue => d.set(AttributeName::TENSOR_IS_BY_VALUE, &[true]),
                Place::Memory { .. } => Ok(()),
            }
        })?)
    }
}
