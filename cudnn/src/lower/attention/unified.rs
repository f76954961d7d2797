//! cuDNN's own operation for attention.

use super::Attention;
use crate::descriptor::Descriptor;
use crate::lower::{Lowering, Refusal};
use cudnn_sys::{AttributeName, DataType, DescriptorType};
use fused_graph_core::ir::{SdpaAttrs, SdpaOperand as O, SdpaPart, ValueId};

/// A part of the operation.
type Part<'a> = (AttributeName, &'a Descriptor);

impl Lowering<'_> {
    pub(super) fn unified(&mut self, a: Attention<'_>) -> Result<(), Refusal> {
        let inputs = &a.node.inputs;
        let keys = Some((a.first_key, a.scores[3]));
        let (q, k, v) =
            (self.heads(inputs[0], None)?.0, self.heads(inputs[1], keys)?.0, self.heads(inputs[2], keys)?.0);
        let scale = self.by_value(inputs[SdpaAttrs::SCALE])?;
        let Some(o) = self.attention_result(&a.attrs, SdpaPart::Output)? else { return Ok(()) };
        let subgraph = self.subgraph(&a)?;
        let softmax = self.softmax_operation(&a)?;
        let statistic = match softmax {
            Some(_) => None,
            None => self.attention_result(&a.attrs, SdpaPart::LogSumExp)?,
        };
        let mut parts: Vec<Part<'_>> = vec![
            (AttributeName::OPERATION_SDPA_FWD_QDESC, &q),
            (AttributeName::OPERATION_SDPA_FWD_KDESC, &k),
            (AttributeName::OPERATION_SDPA_FWD_VDESC, &v),
            (AttributeName::OPERATION_SDPA_FWD_ODESC, &self.tensors[&o]),
            (AttributeName::OPERATION_SDPA_FWD_SCALEDESC, &scale),
        ];
        if let Some([queries, keys]) = &a.seq_lens {
            parts.push((AttributeName::OPERATION_SDPA_FWD_SEQ_LEN_QDESC, queries));
            parts.push((AttributeName::OPERATION_SDPA_FWD_SEQ_LEN_KVDESC, keys));
        }
        parts.extend(softmax.as_ref().map(|d| (AttributeName::OPERATION_SDPA_FWD_SOFTMAX_DESC, d)));
        parts.extend(statistic.map(|v| (AttributeName::OPERATION_SDPA_FWD_STATSDESC, &self.tensors[&v])));
        parts.extend(subgraph.as_ref().map(|s| (AttributeName::OPERATION_SDPA_FWD_SUBGRAPH, &s.graph)));
        let operation = Descriptor::build(self.api, DescriptorType::OPERATION_SDPA_FWD, |d| {
            parts.iter().try_for_each(|(name, part)| d.set_descriptors(*name, &[part]))?;
            let Some(s) = &subgraph else { return Ok(()) };
            d.set(AttributeName::OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID, &[s.from])?;
            d.set(AttributeName::OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID, &[s.to])
        })?;
        self.kept.extend(subgraph.map(|s| s.graph));
        self.kept.extend(softmax);
        self.operations.push(operation);
        Ok(())
    }

    /// What changes the scores, if anything does.
    fn subgraph(&mut self, a: &Attention<'_>) -> Result<Option<Subgraph>, Refusal> {
        let scores = self.between(a.scores, DataType::FLOAT)?;
        let from = uid(&scores)?;
        let outer = std::mem::take(&mut self.operations);
        let changed = self.changed_scores(a, scores).and_then(|s| self.band(a, s, true));
        let operations = std::mem::replace(&mut self.operations, outer);
        let to = uid(&changed?)?;
        if operations.is_empty() {
            return Ok(None);
        }
        let operations: Vec<&Descriptor> = operations.iter().collect();
        let graph = Descriptor::build(self.api, DescriptorType::OPERATIONGRAPH, |d| {
            d.set_descriptors(AttributeName::OPERATIONGRAPH_OPS, &operations)
        })?;
        Ok(Some(Subgraph { graph, from, to }))
    }

    /// The softmax, where it has an operand or further results of its own (from 9.21 on).
    fn softmax_operation(&mut self, a: &Attention<'_>) -> Result<Option<Descriptor>, Refusal> {
        let version = self.api.version();
        if (version.major, version.minor) < super::UNIFIED_WITH_SCORES {
            return Ok(None);
        }
        let sink = a.attrs.place(O::Sink).map(|at| self.list(a.node.inputs[at], 1)).transpose()?;
        let results = [
            (SdpaPart::LogSumExp, AttributeName::OPERATION_SOFTMAX_STATS_DESC),
            (SdpaPart::Max, AttributeName::OPERATION_SOFTMAX_MAX_DESC),
            (SdpaPart::SumExp, AttributeName::OPERATION_SOFTMAX_SUM_EXP_DESC),
        ];
        let mut found: Vec<(AttributeName, ValueId)> = Vec::new();
        for (part, name) in results {
            found.extend(self.attention_result(&a.attrs, part)?.map(|v| (name, v)));
        }
        if sink.is_none() && found.is_empty() {
            return Ok(None);
        }
        let (x, y) = (self.between(a.scores, DataType::FLOAT)?, self.between(a.scores, DataType::FLOAT)?);
        let mut parts: Vec<Part<'_>> =
            vec![(AttributeName::OPERATION_SOFTMAX_XDESC, &x), (AttributeName::OPERATION_SOFTMAX_YDESC, &y)];
        parts.extend(sink.as_ref().map(|d| (AttributeName::OPERATION_SOFTMAX_SINK_DESC, d)));
        parts.extend(found.iter().map(|&(name, v)| (name, &self.tensors[&v])));
        let softmax = Descriptor::build(self.api, DescriptorType::OPERATION_SOFTMAX, |d| {
            parts.iter().try_for_each(|(name, part)| d.set_descriptors(*name, &[part]))
        })?;
        Ok(Some(softmax))
    }
}

fn uid(tensor: &Descriptor) -> Result<i64, Refusal> {
    let found = tensor.get::<i64>(AttributeName::TENSOR_UNIQUE_ID, 1)?;
    found.first().copied().ok_or_else(|| super::unsupported("a tensor without an id"))
}

/// Operations on scores as a graph of their own, between the ids of two virtual tensors.
struct Subgraph {
    graph: Descriptor,
    from: i64,
    to: i64,
}
