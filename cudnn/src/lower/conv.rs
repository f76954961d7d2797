//! Convolution forward.

use super::tensor::data_type;
use super::{Lowering, Refusal};
use crate::descriptor::Descriptor;
use cudnn_sys::{AttributeName, ConvolutionMode, DataType, DescriptorType};
use fused_graph_core::ir::{ConvAttrs, Node, ValueId};
use fused_graph_core::layout::{Dims, is_channels_last};

impl Lowering<'_> {
    pub(super) fn conv(&mut self, attrs: &ConvAttrs, node: &Node) -> Result<(), Refusal> {
        let (x, w, y) = (node.inputs[0], node.inputs[1], node.output);
        let last = {
            let seen = self.seen(x);
            is_channels_last(&seen.dims, &seen.strides)
        };
        for v in [x, w] {
            self.conv_operand(v, last)?;
        }
        let shape = self.frame.full(&self.graph.value(y).strides).map_err(|e| Refusal::Unsupported(vec![e]))?;
        self.result(y, shape)?;
        let conv = self.conv_descriptor(attrs, y)?;
        let (x, w, y) = (&self.tensors[&x], &self.tensors[&w], &self.tensors[&y]);
        let operation = Descriptor::build(self.api, DescriptorType::OPERATION_CONVOLUTION_FORWARD, |d| {
            d.set_descriptors(AttributeName::OPERATION_CONVOLUTION_FORWARD_X, &[x])?;
            d.set_descriptors(AttributeName::OPERATION_CONVOLUTION_FORWARD_W, &[w])?;
            d.set_descriptors(AttributeName::OPERATION_CONVOLUTION_FORWARD_Y, &[y])?;
            d.set_descriptors(AttributeName::OPERATION_CONVOLUTION_FORWARD_CONV_DESC, &[&conv])?;
            d.set(AttributeName::OPERATION_CONVOLUTION_FORWARD_ALPHA, &[1.0f32])?;
            d.set(AttributeName::OPERATION_CONVOLUTION_FORWARD_BETA, &[0.0f32])
        })?;
        self.operations.push(operation);
        Ok(())
    }

    /// Data and weights must be dense, both channels-last or both row-major.
    fn conv_operand(&mut self, v: ValueId, last: bool) -> Result<(), Refusal> {
        if self.tensors.contains_key(&v) {
            return Ok(()); // computed in front of it in this kernel
        }
        let seen = self.seen(v);
        let wanted = if last { seen.dims.channels_last_strides() } else { seen.dims.contiguous_strides() };
        if (0..seen.dims.len()).any(|a| seen.dims[a] != 1 && seen.strides[a] != wanted[a]) {
            let order = if last { "channels-last" } else { "row-major" };
            let reason = format!("a convolution reads dense tensors in one order, here {order}");
            return Err(Refusal::Layout { value: v, reason });
        }
        if self.alignment(v, seen) < 16 {
            // Engines for 2-byte alignment are offered and build, but gave wrong values with cuDNN 9.19 on an H200 (F16, 1×1, + bias + GELU).
            let reason = "a convolution reads tensors that start at a multiple of 16 bytes".to_owned();
            return Err(Refusal::Layout { value: v, reason });
        }
        let shape = self.frame.lift(&seen.dims, &wanted).map_err(|e| Refusal::Unsupported(vec![e]))?;
        self.read(v, seen, shape)
    }

    fn conv_descriptor(&self, attrs: &ConvAttrs, y: ValueId) -> Result<Descriptor, Refusal> {
        // A 1-D convolution has an H of 1 in front.
        let widen = |d: &Dims, h: i64| if attrs.spatial == 1 { Dims::collect([h, d[0]]) } else { *d };
        let compute = compute_type(self, y)?;
        Ok(Descriptor::build(self.api, DescriptorType::CONVOLUTION, |d| {
            d.set(AttributeName::CONVOLUTION_COMP_TYPE, &[compute])?;
            d.set(AttributeName::CONVOLUTION_CONV_MODE, &[ConvolutionMode::CROSS_CORRELATION])?;
            d.set(AttributeName::CONVOLUTION_SPATIAL_DIMS, &[attrs.spatial.max(2) as i64])?;
            d.set(AttributeName::CONVOLUTION_PRE_PADDINGS, &widen(&attrs.pre_padding, 0))?;
            d.set(AttributeName::CONVOLUTION_POST_PADDINGS, &widen(&attrs.post_padding, 0))?;
            d.set(AttributeName::CONVOLUTION_DILATIONS, &widen(&attrs.dilation, 1))?;
            d.set(AttributeName::CONVOLUTION_FILTER_STRIDES, &widen(&attrs.stride, 1))
        })?)
    }
}

/// The type a core operation accumulates in.
pub(super) fn compute_type(cx: &Lowering<'_>, result: ValueId) -> Result<DataType, Refusal> {
    data_type(cx.graph.value(result).dtype.compute())
}
