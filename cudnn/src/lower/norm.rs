//! Normalisations: T rows of D elements, as cuDNN's `[T, D, 1, 1]`.

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
        let dims = self.graph.value(x).dims;
        let split = (0..dims.len()).find(|&a| attrs.normalises(a)).unwrap_or(0);
        let (rows, length) = (dims[..split].iter().product(), dims[split..].iter().product());
        let y = self
            .part(attrs, NormPart::Y)
            .ok_or_else(|| unsupported("cuDNN gives statistics only beside the result"))?;
        self.dense_rows(&self.seen(x), split)?;
        let value = self.graph.value(y);
        self.dense_rows(&MemRef { base: y, dims: value.dims, strides: value.strides, offset: 0 }, split)?;
        let full = packed([rows, length, 1, 1]);
        self.aligned_read(x, full)?;
        self.result(y, full)?;
        for &v in &node.inputs[1..attrs.epsilon()] {
            self.dense_rows(&self.seen(v), 0)?;
            self.aligned_read(v, packed([1, length, 1, 1]))?;
        }
        self.operand(node.inputs[attrs.epsilon()])?;
        let statistics = self.statistics(attrs, rows)?;
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
    fn statistics(&mut self, attrs: &NormAttrs, rows: i64) -> Result<Vec<(AttributeName, ValueId)>, Refusal> {
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
            self.result(v, packed([rows, 1, 1, 1]))?;
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

    /// Rows must be dense and lie one behind another.
    fn dense_rows(&self, seen: &MemRef, split: usize) -> Result<(), Refusal> {
        let dense = seen.dims.contiguous_strides();
        if (0..seen.dims.len()).all(|a| seen.dims[a] == 1 || seen.strides[a] == dense[a]) {
            return Ok(());
        }
        let what = if split == 0 { "γ and β that are dense" } else { "dense rows that lie one behind another" };
        Err(unsupported(&format!("cuDNN's normalisations read {what}")))
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

fn packed(dims: [i64; 4]) -> Shape {
    // Extents of 1 behind the rows are as wide as a row.
    let [_, d, ..] = dims;
    Shape { dims: Dims::collect(dims), strides: Dims::collect([d, 1, d, d]) }
}

fn unsupported(text: &str) -> Refusal {
    Refusal::Unsupported(vec![text.to_owned()])
}
