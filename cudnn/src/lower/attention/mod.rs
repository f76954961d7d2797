//! Attention: cuDNN's own operation where its version takes all that is asked for (`unified`), else the pattern of matmuls, masks and a softmax that its
//! engines recognise (`composite`). What changes scores is the same in both (`scores`).

mod composite;
mod scores;
mod unified;

use super::frame::Shape;
use super::tensor::{Place, data_type};
use super::{Binding, Lowering, Refusal, Source};
use crate::descriptor::Descriptor;
use cudnn_sys::{AttributeName, DataType, DescriptorType, PointwiseMode as Mode};
use fused_graph_core::DType;
use fused_graph_core::fuse::{MemRef, is_scalar};
use fused_graph_core::ir::{Node, Op, SdpaAttrs, SdpaOperand as O, SdpaPart, ValueId};
use fused_graph_core::layout::Dims;

/// An attention as it is lowered.
struct Attention<'a> {
    attrs: SdpaAttrs,
    node: &'a Node,
    /// batch, query heads, queries, keys.
    scores: [i64; 4],
    /// The keys that are looked at: all, except of a single query whose band is a range of them.
    first_key: i64,
    /// The window that is left to be masked.
    left: Option<i64>,
    right: Option<i64>,
    seq_lens: Option<[Descriptor; 2]>,
}

/// From this version on cuDNN's own operation takes changed scores and statistics.
const UNIFIED_WITH_SCORES: (u32, u32) = (9, 21);
/// From this version on it takes lengths.
const UNIFIED: (u32, u32) = (9, 15);

impl Lowering<'_> {
    pub(super) fn attention(&mut self, attrs: &SdpaAttrs, node: &Node) -> Result<(), Refusal> {
        if self.group.core.is_none_or(|c| self.graph.node(c).output != node.output) {
            return Ok(()); // a further result, which comes with the first
        }
        if self.attention_part(attrs, SdpaPart::Output).is_none() {
            return Err(unsupported("cuDNN gives the statistics of an attention only beside its output"));
        }
        let attention = self.attention_of(attrs, node)?;
        let plain = attention.left.is_none()
            && attention.right.is_none()
            && attrs.operands().all(|o| matches!(o, O::SeqLenQ | O::SeqLenKv))
            && self.group.nodes.len() - self.scalar_nodes() == 1;
        let version = (self.api.version().major, self.api.version().minor);
        if version >= UNIFIED_WITH_SCORES || (version >= UNIFIED && plain) {
            self.unified(attention)
        } else {
            self.composite(attention)
        }
    }

    fn scalar_nodes(&self) -> usize {
        self.group.nodes.iter().filter(|n| is_scalar(self.graph, self.graph.node(**n).output)).count()
    }

    fn attention_of<'a>(&mut self, attrs: &SdpaAttrs, node: &'a Node) -> Result<Attention<'a>, Refusal> {
        let (q, k) = (self.graph.value(node.inputs[0]).dims, self.graph.value(node.inputs[1]).dims);
        let mut this = Attention {
            attrs: *attrs,
            node,
            scores: [q[0], q[1], q[2], k[2]],
            first_key: 0,
            left: attrs.left,
            right: attrs.right,
            seq_lens: None,
        };
        if q[2] == 1 && !attrs.has(O::SeqLenQ) {
            // The band of a single query is a range of keys. Masked, cuDNN 9.18 is wrong about it where heads are grouped.
            let seen = attrs.visible(0, 1, k[2]);
            (this.first_key, this.scores[3]) = (seen.start, seen.end - seen.start);
            (this.left, this.right) = (None, None);
        } else if q[2] == 1 && attrs.bottom_right {
            this.right = None;
        }
        if let (Some(queries), Some(keys)) = (attrs.place(O::SeqLenQ), attrs.place(O::SeqLenKv)) {
            this.seq_lens = Some([self.list(node.inputs[queries], 0)?, self.list(node.inputs[keys], 0)?]);
        }
        Ok(this)
    }

    /// The value of the group that is this result.
    fn attention_part(&self, attrs: &SdpaAttrs, part: SdpaPart) -> Option<ValueId> {
        let wanted = Op::Sdpa(SdpaAttrs { part, ..*attrs });
        let found = self.group.nodes.iter().map(|&n| self.graph.node(n)).find(|n| n.op == wanted);
        found.map(|n| n.output)
    }

    /// The descriptor of a result, if it is asked for.
    fn attention_result(&mut self, attrs: &SdpaAttrs, part: SdpaPart) -> Result<Option<ValueId>, Refusal> {
        let Some(v) = self.attention_part(attrs, part) else { return Ok(None) };
        let value = self.graph.value(v);
        self.result(v, dense_ones(value.dims, value.strides))?;
        Ok(Some(v))
    }

    /// q, k or v: its heads must be dense and start at multiples of 16 bytes. `keys`: of k and v, those that are looked at.
    fn heads(&mut self, v: ValueId, keys: Option<(i64, i64)>) -> Result<(Descriptor, Shape), Refusal> {
        let size = self.graph.value(v).dtype.size() as i64;
        let seen = self.seen(v);
        let refuse = |reason: &str| Err(Refusal::Layout { value: v, reason: reason.to_owned() });
        let own = (0..4).filter(|&a| seen.dims[a] > 1);
        if seen.dims[3] > 1 && seen.strides[3] != 1 {
            return refuse("cuDNN's attention reads heads whose elements lie one behind another");
        }
        if own.clone().any(|a| seen.strides[a] == 0) {
            return refuse("cuDNN's attention does not repeat a batch, heads or positions");
        }
        if own.filter(|&a| a < 3).any(|a| seen.strides[a] * size % 16 != 0) || self.alignment(v, seen) < 16 {
            return refuse("cuDNN's attention reads heads that start at a multiple of 16 bytes");
        }
        let (first, count) = keys.unwrap_or((0, seen.dims[2]));
        let seen = MemRef { dims: seen.dims.with(2, count), offset: seen.offset + first * seen.strides[2], ..seen };
        let shape = dense_ones(seen.dims, seen.strides);
        Ok((self.input(v, seen, shape)?, shape))
    }

    /// One element for each entry of an axis.
    fn list(&mut self, v: ValueId, axis: usize) -> Result<Descriptor, Refusal> {
        let seen = self.seen(v);
        let n = seen.dims.numel() as i64;
        if seen.dims.iter().zip(seen.strides.iter()).any(|(&d, &s)| d > 1 && s != 1) {
            return Err(Refusal::Layout { value: v, reason: "cuDNN reads lists that are dense".to_owned() });
        }
        let dims = Dims::splat(1, 4).with(axis, n);
        self.input(v, seen, dense_ones(dims, dims.contiguous_strides()))
    }

    /// A descriptor of its own of an operand in memory, under an id of its own: the same value may be there twice.
    fn input(&mut self, v: ValueId, seen: MemRef, shape: Shape) -> Result<Descriptor, Refusal> {
        let dtype = self.graph.value(v).dtype;
        let offset = seen.offset * dtype.size() as i64;
        let source = match self.memory.copies.contains_key(&v) {
            true => Source::Copy { value: v, offset },
            false => Source::Memory { base: seen.base, offset },
        };
        let uid = self.fresh_uid();
        let place = Place::Memory { alignment: self.alignment(v, seen) };
        self.bindings.push(Binding { uid, source, dtype });
        self.make_tensor(uid, data_type(dtype)?, shape, place)
    }

    /// A host scalar, under an id of its own.
    fn by_value(&mut self, v: ValueId) -> Result<Descriptor, Refusal> {
        if !is_scalar(self.graph, v) {
            return Err(unsupported("scale and softcap go by value"));
        }
        let uid = self.fresh_uid();
        let ones = Dims::splat(1, 4);
        self.bindings.push(Binding { uid, source: Source::Scalar(v), dtype: DType::F32 });
        self.make_tensor(uid, DataType::FLOAT, Shape { dims: ones, strides: ones }, Place::ByValue)
    }

    /// A number that goes by value.
    fn number(&mut self, value: f64, dtype: DType) -> Result<Descriptor, Refusal> {
        let uid = self.fresh_uid();
        let ones = Dims::splat(1, 4);
        self.bindings.push(Binding { uid, source: Source::Number(value), dtype });
        self.make_tensor(uid, data_type(dtype)?, Shape { dims: ones, strides: ones }, Place::ByValue)
    }

    /// A virtual tensor in row-major order.
    fn between(&mut self, dims: [i64; 4], dtype: DataType) -> Result<Descriptor, Refusal> {
        let dims = Dims::collect(dims);
        self.scratch(dtype, Shape { dims, strides: dims.contiguous_strides() })
    }

    /// A pointwise operation: `t` chooses between two inputs.
    fn pointwise_on(
        &mut self,
        (mode, precision): (Mode, DataType),
        inputs: &[&Descriptor],
        t: Option<&Descriptor>,
        y: &Descriptor,
    ) -> Result<(), Refusal> {
        self.pointwise_along((mode, precision, None), inputs, t, y)
    }

    /// The same, of coordinates along an axis.
    fn pointwise_along(
        &mut self,
        (mode, precision, axis): (Mode, DataType, Option<i64>),
        inputs: &[&Descriptor],
        t: Option<&Descriptor>,
        y: &Descriptor,
    ) -> Result<(), Refusal> {
        let pointwise = Descriptor::build(self.api, DescriptorType::POINTWISE, |d| {
            d.set(AttributeName::POINTWISE_MODE, &[mode])?;
            d.set(AttributeName::POINTWISE_MATH_PREC, &[precision])?;
            axis.map_or(Ok(()), |axis| d.set(AttributeName::POINTWISE_AXIS, &[axis]))
        })?;
        let names = [AttributeName::OPERATION_POINTWISE_XDESC, AttributeName::OPERATION_POINTWISE_BDESC];
        let operation = Descriptor::build(self.api, DescriptorType::OPERATION_POINTWISE, |d| {
            d.set_descriptors(AttributeName::OPERATION_POINTWISE_PW_DESCRIPTOR, &[&pointwise])?;
            for (name, tensor) in names.iter().zip(inputs) {
                d.set_descriptors(*name, &[tensor])?;
            }
            if let Some(t) = t {
                d.set_descriptors(AttributeName::OPERATION_POINTWISE_TDESC, &[t])?;
            }
            d.set_descriptors(AttributeName::OPERATION_POINTWISE_YDESC, &[y])
        })?;
        self.operations.push(operation);
        Ok(())
    }
}

/// Extents of 1 with the strides that they would have in row-major order.
fn dense_ones(dims: Dims, strides: Dims) -> Shape {
    let (mut inner, mut out) = (1i64, strides);
    for axis in (0..dims.len()).rev() {
        if dims[axis] == 1 {
            out = out.with(axis, inner);
        } else {
            inner = inner.max(strides[axis].saturating_mul(dims[axis]));
        }
    }
    Shape { dims, strides: out }
}

fn unsupported(text: &str) -> Refusal {
    Refusal::Unsupported(vec![text.to_owned()])
}
