//! Attention as the pattern of operations that cuDNN's engines recognise: q·kᵀ, what changes scores, softmax, the product with the values.

use super::Attention;
use crate::descriptor::Descriptor;
use crate::lower::frame::Shape;
use crate::lower::tensor::data_type;
use crate::lower::{Lowering, Refusal};
use cudnn_sys::{AttributeName, DataType, DescriptorType, PointwiseMode as Mode, ReductionOp};
use fused_graph_core::ir::{SdpaAttrs, SdpaOperand as O, SdpaPart};

const FLOAT: DataType = DataType::FLOAT;

impl Lowering<'_> {
    pub(super) fn composite(&mut self, a: Attention<'_>) -> Result<(), Refusal> {
        let inputs = &a.node.inputs;
        let keys = Some((a.first_key, a.scores[3]));
        let q = self.heads(inputs[0], None)?.0;
        let k = self.transposed(&a)?;
        let s = self.between(a.scores, FLOAT)?;
        self.product(&a, (&q, &k, &s), [Some(0), Some(1), None])?;
        let scale = self.by_value(inputs[SdpaAttrs::SCALE])?;
        let scaled = self.between(a.scores, FLOAT)?;
        self.pointwise_on((Mode::MUL, FLOAT), &[&s, &scale], None, &scaled)?;
        let s = self.changed_scores(&a, scaled)?;
        let s = self.padding(&a, s)?;
        let s = self.band(&a, s, false)?;
        let p = self.softmax(&a, &s)?;
        let v = self.heads(inputs[2], keys)?.0;
        let Some(o) = self.attention_result(&a.attrs, SdpaPart::Output)? else { return Ok(()) };
        let Some(o) = self.tensors.remove(&o) else { return Ok(()) };
        self.product(&a, (&p, &v, &o), [Some(0), None, Some(1)])
    }

    /// k with its last two axes exchanged.
    fn transposed(&mut self, a: &Attention<'_>) -> Result<Descriptor, Refusal> {
        let before = self.bindings.len();
        let v = a.node.inputs[1];
        let (_, shape) = self.heads(v, Some((a.first_key, a.scores[3])))?;
        let swap = |d: fused_graph_core::layout::Dims| d.with(2, d[3]).with(3, d[2]);
        let shape = Shape { dims: swap(shape.dims), strides: swap(shape.strides) };
        let uid = self.bindings[before].uid;
        let alignment = self.alignment(v, self.seen(v));
        let place = crate::lower::tensor::Place::Memory { alignment };
        self.make_tensor(uid, data_type(self.graph.value(v).dtype)?, shape, place)
    }

    /// A matrix product; `lengths`: which of the lengths count for its m, n and k.
    fn product(
        &mut self,
        a: &Attention<'_>,
        (left, right, y): (&Descriptor, &Descriptor, &Descriptor),
        lengths: [Option<usize>; 3],
    ) -> Result<(), Refusal> {
        let matmul =
            Descriptor::build(self.api, DescriptorType::MATMUL, |d| d.set(AttributeName::MATMUL_COMP_TYPE, &[FLOAT]))?;
        let names = [
            AttributeName::OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
            AttributeName::OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC,
            AttributeName::OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC,
        ];
        let operation = Descriptor::build(self.api, DescriptorType::OPERATION_MATMUL, |d| {
            d.set_descriptors(AttributeName::OPERATION_MATMUL_ADESC, &[left])?;
            d.set_descriptors(AttributeName::OPERATION_MATMUL_BDESC, &[right])?;
            d.set_descriptors(AttributeName::OPERATION_MATMUL_CDESC, &[y])?;
            d.set_descriptors(AttributeName::OPERATION_MATMUL_DESC, &[&matmul])?;
            let Some(lens) = &a.seq_lens else { return Ok(()) };
            let overrides = names.into_iter().zip(lengths).filter_map(|(name, at)| Some((name, at?)));
            overrides.into_iter().try_for_each(|(name, at)| d.set_descriptors(name, &[&lens[at]]))
        })?;
        self.operations.push(operation);
        Ok(())
    }

    fn softmax(&mut self, a: &Attention<'_>, s: &Descriptor) -> Result<Descriptor, Refusal> {
        let [b, h, queries, _] = a.scores;
        let row = [b, h, queries, 1];
        let sink = a.attrs.place(O::Sink).map(|at| self.list(a.node.inputs[at], 1)).transpose()?;
        let (statistic, of_max, of_sum) = (
            self.attention_result(&a.attrs, SdpaPart::LogSumExp)?,
            self.attention_result(&a.attrs, SdpaPart::Max)?,
            self.attention_result(&a.attrs, SdpaPart::SumExp)?,
        );
        if of_max.is_some() != of_sum.is_some() || (statistic.is_some() && of_max.is_some()) {
            let text = "before 9.21 cuDNN gives log_sum_exp, or max and sum_exp together, but no other statistics";
            return Err(super::unsupported(text));
        }
        let own = |this: &mut Self, v: Option<_>| match v.and_then(|v| this.tensors.remove(&v)) {
            Some(tensor) => Ok(tensor),
            None => this.between(row, FLOAT),
        };
        let (largest, sum) = (own(self, of_max)?, own(self, of_sum)?);
        match &sink {
            None => self.reduction(ReductionOp::MAX, s, &largest)?,
            Some(sink) => {
                let of_keys = self.between(row, FLOAT)?;
                self.reduction(ReductionOp::MAX, s, &of_keys)?;
                self.pointwise_on((Mode::MAX, FLOAT), &[&of_keys, sink], None, &largest)?;
            }
        }
        let (less, exp) = (self.between(a.scores, FLOAT)?, self.between(a.scores, FLOAT)?);
        self.pointwise_on((Mode::SUB, FLOAT), &[s, &largest], None, &less)?;
        self.pointwise_on((Mode::EXP, FLOAT), &[&less], None, &exp)?;
        match &sink {
            None => self.reduction(ReductionOp::ADD, &exp, &sum)?,
            Some(sink) => self.sum_with_sink(row, &exp, (sink, &largest), &sum)?,
        }
        if of_max.is_none() {
            // The engines look for it, also where nobody reads it.
            let statistic = own(self, statistic)?;
            let log = self.between(row, FLOAT)?;
            self.pointwise_on((Mode::LOG, FLOAT), &[&sum], None, &log)?;
            self.pointwise_on((Mode::ADD, FLOAT), &[&largest, &log], None, &statistic)?;
        }
        let p = self.between(a.scores, data_type(self.graph.value(a.node.inputs[0]).dtype)?)?;
        self.pointwise_on((Mode::DIV, FLOAT), &[&exp, &sum], None, &p)?;
        Ok(p)
    }

    /// Σ exp of the scores less the largest, and exp of the sink less it.
    fn sum_with_sink(
        &mut self,
        row: [i64; 4],
        exp: &Descriptor,
        (sink, largest): (&Descriptor, &Descriptor),
        sum: &Descriptor,
    ) -> Result<(), Refusal> {
        let [less, exp_of_sink, of_keys] =
            [self.between(row, FLOAT)?, self.between(row, FLOAT)?, self.between(row, FLOAT)?];
        self.pointwise_on((Mode::SUB, FLOAT), &[sink, largest], None, &less)?;
        self.pointwise_on((Mode::EXP, FLOAT), &[&less], None, &exp_of_sink)?;
        self.reduction(ReductionOp::ADD, exp, &of_keys)?;
        self.pointwise_on((Mode::ADD, FLOAT), &[&of_keys, &exp_of_sink], None, sum)
    }

    fn reduction(&mut self, op: ReductionOp, x: &Descriptor, y: &Descriptor) -> Result<(), Refusal> {
        let reduction = Descriptor::build(self.api, DescriptorType::REDUCTION, |d| {
            d.set(AttributeName::REDUCTION_OPERATOR, &[op])?;
            d.set(AttributeName::REDUCTION_COMP_TYPE, &[FLOAT])
        })?;
        let operation = Descriptor::build(self.api, DescriptorType::OPERATION_REDUCTION, |d| {
            d.set_descriptors(AttributeName::OPERATION_REDUCTION_XDESC, &[x])?;
            d.set_descriptors(AttributeName::OPERATION_REDUCTION_YDESC, &[y])?;
            d.set_descriptors(AttributeName::OPERATION_REDUCTION_DESC, &[&reduction])
        })?;
        self.operations.push(operation);
        Ok(())
    }
}
