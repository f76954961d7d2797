//! Pointwise operations and casts.

use super::{Lowering, Refusal};
use crate::descriptor::Descriptor;
use cudnn_sys::{AttributeName, DataType, DescriptorType, NanPropagation, PointwiseMode as Code};
use fused_graph_core::ir::{Node, Params, PointwiseClass, PointwiseMode as Mode, ValueId};

impl Lowering<'_> {
    pub(super) fn pointwise(&mut self, mode: Mode, params: &Params, node: &Node) -> Result<(), Refusal> {
        if mode == Mode::Relu
            && params.slope != 0.0
            && (params.lower_clip != 0.0 || params.upper_clip < f32::MAX as f64)
        {
            // Built, but wrong on an H200 with cuDNN 9.19: with a slope the upper clip does not clip.
            return Err(Refusal::Unsupported(vec!["cuDNN's ReLU has either a slope or clips".to_owned()]));
        }
        for &v in &node.inputs {
            self.operand(v)?;
        }
        self.full_result(node.output)?;
        let first = node.inputs[0];
        let second = node.inputs.get(1).copied();
        match second {
            // The full-size operand stands first; where the order matters the operation is turned round with it.
            Some(b) if node.inputs.len() == 2 && !self.is_full(first) && self.is_full(b) => {
                self.turned(mode, params, first, b, node.output)
            }
            _ => {
                let inputs: Vec<&Descriptor> = node.inputs.iter().map(|v| &self.tensors[v]).collect();
                let operation = self.operation_of(mode, params, &inputs, &self.tensors[&node.output])?;
                self.operations.push(operation);
                Ok(())
            }
        }
    }

    pub(super) fn cast(&mut self, node: &Node) -> Result<(), Refusal> {
        self.operand(node.inputs[0])?;
        self.full_result(node.output)?;
        self.push(Mode::Identity, &[node.inputs[0]], node.output)
    }

    fn full_result(&mut self, v: ValueId) -> Result<(), Refusal> {
        if self.graph.value(v).dims != self.frame.dims {
            // A smaller tensor worked out beside the main one.
            let value = self.graph.value(v);
            let shape = self.frame.operand(&value.dims, &value.strides).map_err(|e| Refusal::Unsupported(vec![e]))?;
            return self.result(v, shape);
        }
        let shape = self.frame.full(&self.graph.value(v).strides).map_err(|e| Refusal::Unsupported(vec![e]))?;
        self.result(v, shape)
    }

    fn is_full(&self, v: ValueId) -> bool {
        self.graph.value(v).dims == self.frame.dims
    }

    /// `mode(a, b)` where `b` has the full size and `a` is repeated.
    fn turned(&mut self, mode: Mode, params: &Params, a: ValueId, b: ValueId, y: ValueId) -> Result<(), Refusal> {
        let mirrored = match mode {
            Mode::Add | Mode::Mul | Mode::Min | Mode::Max | Mode::CmpEq | Mode::CmpNeq => Some(mode),
            Mode::LogicalAnd | Mode::LogicalOr => Some(mode),
            Mode::CmpGt => Some(Mode::CmpLt),
            Mode::CmpGe => Some(Mode::CmpLe),
            Mode::CmpLt => Some(Mode::CmpGt),
            Mode::CmpLe => Some(Mode::CmpGe),
            _ => None,
        };
        if let Some(mode) = mirrored {
            return self.push(mode, &[b, a], y);
        }
        let through = match mode {
            Mode::Sub => Some((Mode::Neg, Mode::Add)),
            Mode::Div => Some((Mode::Reciprocal, Mode::Mul)),
            _ => None,
        };
        let Some((inner, outer)) = through else {
            let operation =
                self.operation_of(mode, params, &[&self.tensors[&a], &self.tensors[&b]], &self.tensors[&y])?;
            self.operations.push(operation);
            return Ok(());
        };
        let shape = self.frame.full(&self.graph.value(b).strides).map_err(|e| Refusal::Unsupported(vec![e]))?;
        let middle = self.scratch(DataType::FLOAT, shape)?;
        let params = Params::DEFAULT;
        let first = self.operation_of(inner, &params, &[&self.tensors[&b]], &middle)?;
        let second = self.operation_of(outer, &params, &[&middle, &self.tensors[&a]], &self.tensors[&y])?;
        self.operations.push(first);
        self.operations.push(second);
        Ok(())
    }

    pub(super) fn push(&mut self, mode: Mode, inputs: &[ValueId], y: ValueId) -> Result<(), Refusal> {
        let inputs: Vec<&Descriptor> = inputs.iter().map(|v| &self.tensors[v]).collect();
        let operation = self.operation_of(mode, &Params::DEFAULT, &inputs, &self.tensors[&y])?;
        self.operations.push(operation);
        Ok(())
    }

    /// A pointwise operation between descriptors.
    pub(super) fn operation_of(
        &self,
        mode: Mode,
        params: &Params,
        inputs: &[&Descriptor],
        y: &Descriptor,
    ) -> Result<Descriptor, Refusal> {
        let pointwise = self.pointwise_descriptor(mode, params)?;
        // select(condition, a, b): cuDNN's X is a, B is b, T is the condition.
        let names: &[AttributeName] = match inputs.len() {
            3 => &[
                AttributeName::OPERATION_POINTWISE_TDESC,
                AttributeName::OPERATION_POINTWISE_XDESC,
                AttributeName::OPERATION_POINTWISE_BDESC,
            ],
            _ => &[AttributeName::OPERATION_POINTWISE_XDESC, AttributeName::OPERATION_POINTWISE_BDESC],
        };
        Ok(Descriptor::build(self.api, DescriptorType::OPERATION_POINTWISE, |d| {
            d.set_descriptors(AttributeName::OPERATION_POINTWISE_PW_DESCRIPTOR, &[&pointwise])?;
            for (name, tensor) in names.iter().zip(inputs) {
                d.set_descriptors(*name, &[tensor])?;
            }
            d.set_descriptors(AttributeName::OPERATION_POINTWISE_YDESC, &[y])
        })?)
    }

    fn pointwise_descriptor(&self, mode: Mode, p: &Params) -> Result<Descriptor, Refusal> {
        let info = mode.info();
        let float =
            if self.integral() && info.class == PointwiseClass::Arithmetic { DataType::INT32 } else { DataType::FLOAT };
        let precision = match info.class {
            PointwiseClass::Logic => DataType::BOOLEAN,
            PointwiseClass::Index => DataType::INT32,
            _ => float,
        };
        Ok(Descriptor::build(self.api, DescriptorType::POINTWISE, |d| {
            d.set(AttributeName::POINTWISE_MODE, &[Code(info.cudnn)])?;
            d.set(AttributeName::POINTWISE_MATH_PREC, &[precision])?;
            match mode {
                Mode::Relu => {
                    d.set(AttributeName::POINTWISE_NAN_PROPAGATION, &[NanPropagation::PROPAGATE_NAN])?;
                    d.set(AttributeName::POINTWISE_RELU_LOWER_CLIP, &[p.lower_clip])?;
                    d.set(AttributeName::POINTWISE_RELU_UPPER_CLIP, &[p.upper_clip.min(f32::MAX as f64)])?;
                    d.set(AttributeName::POINTWISE_RELU_LOWER_CLIP_SLOPE, &[p.slope])
                }
                Mode::Elu => d.set(AttributeName::POINTWISE_ELU_ALPHA, &[p.elu_alpha]),
                Mode::Softplus => d.set(AttributeName::POINTWISE_SOFTPLUS_BETA, &[p.softplus_beta]),
                Mode::Swish => d.set(AttributeName::POINTWISE_SWISH_BETA, &[p.swish_beta]),
                Mode::GenIndex => d.set(AttributeName::POINTWISE_AXIS, &[self.frame.axis(p.axis as usize) as i64]),
                _ => Ok(()),
            }
        })?)
    }
}
