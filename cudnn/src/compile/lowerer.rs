//! From a group to cuDNN's operation graph, and what is known of the group for the choice of an engine.

use crate::lower::{self, Lowered, Memory, Refusal};
use crate::plan::{Facts, Wanted};
use crate::target::Target;
use cudnn_sys::Api;
use fused_graph_core::backend::CompileRequest;
use fused_graph_core::fuse::{self, Group};
use fused_graph_core::ir::{Graph, Op, ValueId, ValueKind};
use fused_graph_core::layout::{Dims, is_channels_last};
use fused_graph_core::{DType, Error};

/// A dense copy of an operand that is made before a kernel runs.
#[derive(Clone, Debug)]
pub(crate) struct Copied {
    pub(crate) dims: Dims,
    pub(crate) strides: Dims,
    pub(crate) reason: String,
}

/// Operands of a kernel that are copied, in the order in which that was found out.
pub(crate) type Copies = Vec<(ValueId, Copied)>;

/// What a graph is lowered for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lowerer<'a> {
    pub(crate) api: &'static Api,
    pub(crate) target: &'a Target,
    pub(crate) request: &'a CompileRequest<'a>,
}

impl<'a> Lowerer<'a> {
    /// The operation graph of a group in one of its forms, and the copies of operands that it reads.
    pub(crate) fn lower(&self, group: &Group, form: u8, dynamic: bool) -> Result<(Lowered, Copies), Refusal> {
        let forms;
        let graph: &Graph = match form {
            0 => self.request.graph,
            n => {
                forms = fuse::forms(self.request.graph, group);
                let form = forms.get(n as usize - 1);
                form.ok_or_else(|| Error::cache(format!("a stored plan has form {n}, which its graph does not")))?
            }
        };
        let mut copies = Copies::new();
        loop {
            let alignment = |v: ValueId| match graph.value(v).kind {
                ValueKind::Input { index } => self.request.alignments.get(index).copied().unwrap_or(1),
                _ => 256,
            };
            let layouts = copies.iter().map(|(v, c)| (*v, (c.dims, c.strides))).collect();
            let memory = Memory { alignment: &alignment, copies: &layouts, dynamic };
            match lower::lower(self.api, self.target, graph, group, &memory) {
                Ok(lowered) => return Ok((lowered, copies)),
                Err(Refusal::Layout { value, reason }) if !copies.iter().any(|(v, _)| *v == value) => {
                    let (dims, strides) = self.dense(group, value);
                    copies.push((value, Copied { dims, strides, reason }));
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// Whether it multiplies F32 matrices that must not be rounded to TF32.
    pub(crate) fn exact_matmul(&self, group: &Group) -> bool {
        let matmul = group.core.is_some_and(|n| self.request.graph.node(n).op == Op::Matmul);
        matmul && self.f32_core(group) && !self.request.options.tf32
    }

    /// What the engines of a group must satisfy.
    pub(crate) fn wanted(&self, group: &Group, copies: &Copies) -> Wanted<'a> {
        Wanted::new(self.api, self.request.options, self.facts(group, copies))
    }

    /// Dims and strides of a dense copy: a convolution's operands follow its data, a matmul's are repeated to its batch.
    fn dense(&self, group: &Group, value: ValueId) -> (Dims, Dims) {
        let graph = self.request.graph;
        let dims = graph.value(value).dims;
        let Some(core) = group.core.map(|n| graph.node(n)).filter(|n| n.inputs.contains(&value)) else {
            return (dims, dims.contiguous_strides());
        };
        if core.op == Op::Matmul {
            let out = graph.value(core.output).dims;
            let batch = out[..out.len() - 2].iter().copied();
            let dims = Dims::collect(batch.chain(dims[dims.len() - 2..].iter().copied()));
            return (dims, dims.contiguous_strides());
        }
        if !matches!(core.op, Op::Conv(_)) {
            return (dims, dims.contiguous_strides());
        }
        let x = fuse::resolve(graph, core.inputs[0]);
        let last = dims.len() >= 3 && is_channels_last(&x.dims, &x.strides);
        (dims, if last { dims.channels_last_strides() } else { dims.contiguous_strides() })
    }

    fn facts(&self, group: &Group, copies: &Copies) -> Facts {
        let graph = self.request.graph;
        let core = group.core.map(|n| graph.node(n)).filter(|n| n.op == Op::Matmul);
        let batch = |v: ValueId| {
            if let Some((_, copy)) = copies.iter().find(|(copied, _)| *copied == v) {
                return copy.dims[..copy.dims.len() - 2].iter().product();
            }
            let seen = fuse::resolve(graph, v);
            let axes = seen.dims.len() - 2;
            (0..axes).filter(|&a| seen.strides[a] != 0).map(|a| seen.dims[a]).product::<i64>()
        };
        let repeated = core.is_some_and(|n| {
            let out = graph.value(n.output).dims;
            let whole: i64 = out[..out.len() - 2].iter().product();
            n.inputs.iter().any(|&v| batch(v) != whole)
        });
        Facts { matmul: core.is_some(), f32_core: self.f32_core(group), aligned: self.aligned(group, copies), repeated }
    }

    /// Whether all that a group reads starts at a multiple of 16 bytes.
    fn aligned(&self, group: &Group, copies: &Copies) -> bool {
        let graph = self.request.graph;
        let read = |v: &&ValueId| !fuse::is_scalar(graph, **v) && !copies.iter().any(|(copied, _)| copied == *v);
        group.inputs.iter().filter(read).all(|&v| {
            let seen = fuse::resolve(graph, v);
            let offset = seen.offset * graph.value(v).dtype.size() as i64;
            let base = match graph.value(seen.base).kind {
                ValueKind::Input { index } => self.request.alignments.get(index).copied().unwrap_or(1),
                _ => 256,
            };
            base >= 16 && offset % 16 == 0
        })
    }

    fn f32_core(&self, group: &Group) -> bool {
        let graph = self.request.graph;
        group.core.is_some_and(|n| graph.value(graph.node(n).inputs[0]).dtype == DType::F32)
    }
}
