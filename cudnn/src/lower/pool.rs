//! Pooling, which is one of cuDNN's resamplings.

use super::frame::Shape;
use super::tensor::Place;
use super::{Lowering, Refusal, Source};
use crate::descriptor::Descriptor;
use cudnn_sys::{AttributeName, DataType, DescriptorType, NanPropagation, PaddingMode, ResampleMode};
use fused_graph_core::ir::{Node, PoolAttrs, PoolMode, PoolPart};
use fused_graph_core::layout::Dims;

/// Measured: plans of every mode build, channels-last and row-major, and the values are wrong. Until it is known why, a kernel of our own runs.
const TRUSTED: bool = false;

impl Lowering<'_> {
    pub(super) fn pool(&mut self, attrs: &PoolAttrs, node: &Node) -> Result<(), Refusal> {
        if !TRUSTED {
            return Err(unsupported(
                "cuDNN's resampling gave wrong values for max and average pooling on an H200 (9.19)",
            ));
        }
        if attrs.part == PoolPart::Index || self.group.nodes.len() > 1 {
            // cuDNN's index counts inside the window.
            return Err(unsupported("the index of a pooling comes from a kernel of our own"));
        }
        let (x, y) = (node.inputs[0], node.output);
        let (seen, value) = (self.seen(x), self.graph.value(y));
        let is_dense = |dims: &Dims, strides: &Dims, wanted: fn(&Dims) -> Dims| {
            (0..dims.len()).all(|a| dims[a] == 1 || strides[a] == wanted(dims)[a])
        };
        let orders: [fn(&Dims) -> Dims; 2] = [Dims::channels_last_strides, Dims::contiguous_strides];
        let both = |o: &fn(&Dims) -> Dims| {
            is_dense(&seen.dims, &seen.strides, *o) && is_dense(&value.dims, &value.strides, *o)
        };
        let order = orders.into_iter().find(both);
        let order = order.ok_or_else(|| unsupported("cuDNN pools dense tensors, channels-last or row-major"))?;
        let alignment = self.alignment(x, seen);
        if alignment < 16 {
            return Err(unsupported("cuDNN pools tensors that start at a multiple of 16 bytes"));
        }
        let shape = |dims: &Dims| {
            let dims = lifted(dims);
            Shape { dims, strides: order(&dims) }
        };
        let dtype = self.graph.value(x).dtype;
        let source = Source::Memory { base: seen.base, offset: seen.offset * dtype.size() as i64 };
        self.bind(x, source, dtype, shape(&seen.dims), Place::Memory { alignment })?;
        self.result(y, shape(&value.dims))?;
        let resample = self.resample_descriptor(attrs)?;
        let operation = Descriptor::build(self.api, DescriptorType::OPERATION_RESAMPLE_FWD, |d| {
            d.set_descriptors(AttributeName::OPERATION_RESAMPLE_FWD_XDESC, &[&self.tensors[&x]])?;
            d.set_descriptors(AttributeName::OPERATION_RESAMPLE_FWD_YDESC, &[&self.tensors[&y]])?;
            d.set(AttributeName::OPERATION_RESAMPLE_FWD_ALPHA, &[1.0f64])?;
            d.set(AttributeName::OPERATION_RESAMPLE_FWD_BETA, &[0.0f64])?;
            d.set_descriptors(AttributeName::OPERATION_RESAMPLE_FWD_DESC, &[&resample])
        })?;
        self.operations.push(operation);
        Ok(())
    }

    fn resample_descriptor(&self, attrs: &PoolAttrs) -> Result<Descriptor, Refusal> {
        let (mode, padding) = match attrs.mode {
            PoolMode::Max => (ResampleMode::MAXPOOL, PaddingMode::NEG_INF),
            PoolMode::Avg => (ResampleMode::AVGPOOL_INCLUDE_PADDING, PaddingMode::ZERO),
            PoolMode::AvgExcludePadding => (ResampleMode::AVGPOOL_EXCLUDE_PADDING, PaddingMode::ZERO),
            _ => return Err(unsupported("cuDNN has no such pooling")),
        };
        // A 1-D pooling has an H of 1 in front.
        let widen = |d: &Dims, h: i64| if attrs.spatial() == 1 { Dims::collect([h, d[0]]) } else { *d };
        Ok(Descriptor::build(self.api, DescriptorType::RESAMPLE, |d| {
            d.set(AttributeName::RESAMPLE_MODE, &[mode])?;
            d.set(AttributeName::RESAMPLE_COMP_TYPE, &[DataType::FLOAT])?;
            d.set(AttributeName::RESAMPLE_NAN_PROPAGATION, &[NanPropagation::PROPAGATE_NAN])?;
            d.set(AttributeName::RESAMPLE_PADDING_MODE, &[padding])?;
            d.set(AttributeName::RESAMPLE_SPATIAL_DIMS, &[attrs.spatial().max(2) as i64])?;
            d.set(AttributeName::RESAMPLE_WINDOW_DIMS, &widen(&attrs.window, 1))?;
            d.set(AttributeName::RESAMPLE_PRE_PADDINGS, &widen(&attrs.pre_padding, 0))?;
            d.set(AttributeName::RESAMPLE_POST_PADDINGS, &widen(&attrs.post_padding, 0))?;
            d.set(AttributeName::RESAMPLE_STRIDES, &widen(&attrs.stride, 1))
        })?)
    }
}

/// N×C×W as N×C×1×W.
fn lifted(dims: &Dims) -> Dims {
    match dims.len() {
        3 => Dims::collect([dims[0], dims[1], 1, dims[2]]),
        _ => *dims,
    }
}

fn unsupported(text: &str) -> Refusal {
    Refusal::Unsupported(vec![text.to_owned()])
}
