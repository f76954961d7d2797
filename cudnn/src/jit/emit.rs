//! Expressions: a value of the graph at the coordinates of a thread.

use super::Argument;
use fused_graph_core::fuse::{Group, resolve};
use fused_graph_core::ir::{Graph, Node, Op, Params, PointwiseMode as M, ReduceAttrs, ScalarType, ValueId, ValueKind};
use fused_graph_core::layout::{Dims, span};
use fused_graph_core::{DType, Error, Result};
use std::collections::HashMap;
use std::fmt::Write;

/// Writes the body of a kernel whose threads run over `dims`.
pub(super) struct Emitter<'a> {
    graph: &'a Graph,
    group: &'a Group,
    dims: Dims,
    body: String,
    named: HashMap<ValueId, String>,
    declared: Vec<String>,
    pub(super) arguments: Vec<Argument>,
    wide: bool,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(graph: &'a Graph, group: &'a Group, dims: Dims) -> Self {
        let far = |v: ValueId| {
            let r = resolve(graph, v);
            span(&r.dims, &r.strides).is_none_or(|s| s > i32::MAX as i64)
        };
        let wide = dims.numel() > i32::MAX as usize / 2 || group.inputs.iter().chain(&group.outputs).any(|&v| far(v));
        Emitter {
            graph,
            group,
            dims,
            body: String::new(),
            named: HashMap::new(),
            declared: Vec::new(),
            arguments: Vec::new(),
            wide,
        }
    }

    pub(super) fn index_type(&self) -> &'static str {
        if self.wide { "i64" } else { "u32" }
    }

    pub(super) fn parameters(&self) -> String {
        self.declared.join(", ")
    }

    pub(super) fn body(&self) -> &str {
        &self.body
    }

    /// Goes on with other coordinates: nothing is computed there yet.
    pub(super) fn start(&mut self, dims: Dims) {
        self.dims = dims;
        self.body.clear();
        self.named.clear();
    }

    /// Says what a value is called at these coordinates.
    pub(super) fn name(&mut self, v: ValueId, text: &str) {
        self.named.insert(v, text.to_owned());
    }

    /// The statements so far, for whoever puts them in another place.
    pub(super) fn take_body(&mut self) -> String {
        std::mem::take(&mut self.body)
    }

    pub(super) fn dtype(&self, v: ValueId) -> DType {
        self.graph.value(v).dtype
    }

    /// Coordinates `c0`, `c1`, … of a row-major index.
    pub(super) fn coordinates(&self, index: &str, indent: &str) -> String {
        let all: Vec<usize> = (0..self.dims.len()).collect();
        self.axes(index, &all, indent)
    }

    /// Coordinates of some axes out of a row-major index over them.
    pub(super) fn axes(&self, index: &str, axes: &[usize], indent: &str) -> String {
        Self::axes_of(self.index_type(), &self.dims, index, axes, indent)
    }

    /// The same of any dims.
    pub(super) fn axes_of(ty: &str, dims: &Dims, index: &str, axes: &[usize], indent: &str) -> String {
        let mut out = String::new();
        if !axes.is_empty() {
            let _ = writeln!(out, "{indent}{ty} q{index} = {index};");
        }
        for (at, &axis) in axes.iter().enumerate().rev() {
            if at == 0 {
                let _ = writeln!(out, "{indent}{ty} c{axis} = q{index};");
            } else {
                let extent = dims[axis];
                let _ = writeln!(out, "{indent}{ty} c{axis} = q{index} % ({ty}){extent}; q{index} /= ({ty}){extent};");
            }
        }
        out
    }

    /// The C type in which a value of this element type is held.
    pub(super) fn c_type(&self, compute: DType) -> Result<&'static str> {
        Ok(match compute {
            DType::F32 => "float",
            DType::F64 => "double",
            DType::I32 | DType::Bool => "int",
            DType::I64 => "i64",
            other => return Err(Error::unsupported(format!("no kernel computes in {other}"))),
        })
    }

    /// An expression for a value at the coordinates.
    pub(super) fn value(&mut self, v: ValueId) -> Result<String> {
        if let Some(name) = self.named.get(&v) {
            return Ok(name.clone());
        }
        let value = self.graph.value(v);
        let inside = self.graph.producer(v).filter(|n| self.group.nodes.contains(n)).map(|n| self.graph.node(n));
        let (ty, text) = match (value.kind, inside) {
            (ValueKind::Const(c), _) => return Ok(literal(c)),
            (ValueKind::Scalar { index, ty }, _) => (scalar_type(ty), self.scalar(index, ty)),
            (_, Some(node)) => (self.c_type(value.dtype.compute())?, self.operation(node)?),
            (_, None) => (self.c_type(value.dtype.compute())?, self.load(v)?),
        };
        let name = format!("v{}", v.index());
        let _ = writeln!(self.body, "    {ty} {name} = {text};");
        self.named.insert(v, name.clone());
        Ok(name)
    }

    fn scalar(&mut self, index: usize, ty: ScalarType) -> String {
        let name = format!("s{index}");
        let argument = Argument::Scalar { index, ty };
        if !self.arguments.contains(&argument) {
            self.arguments.push(argument);
            self.declared.push(format!("{} {name}", scalar_type(ty)));
        }
        name
    }

    fn load(&mut self, v: ValueId) -> Result<String> {
        let dtype = self.graph.value(v).dtype;
        let seen = resolve(self.graph, v);
        let name = format!("p{}", v.index());
        let declared = format!("const {}* __restrict__ {name}", storage(dtype)?);
        // At other coordinates it may have been read before.
        if !self.declared.contains(&declared) {
            self.declared.push(declared);
            self.arguments.push(Argument::Read { base: seen.base, offset: seen.offset * dtype.size() as i64 });
        }
        let element = format!("{name}[{}]", self.offset(&seen.dims, &seen.strides));
        Ok(match dtype {
            DType::F16 => format!("load_f16({element})"),
            DType::BF16 => format!("load_bf16({element})"),
            DType::F8E4M3 => format!("load_e4m3({element})"),
            DType::F8E5M2 => format!("load_e5m2({element})"),
            _ => element,
        })
    }

    /// The offset of the element at the coordinates, for a tensor that broadcasts to the kernel's dims.
    fn offset(&self, dims: &Dims, strides: &Dims) -> String {
        let lead = self.dims.len() - dims.len().min(self.dims.len());
        let terms: Vec<String> = (0..dims.len())
            .filter(|&a| dims[a] != 1 && strides[a] != 0)
            .map(|a| format!("c{} * ({}){}", a + lead, self.index_type(), strides[a]))
            .collect();
        if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") }
    }

    pub(super) fn store(&mut self, v: ValueId, value: &str) -> Result<()> {
        let out = self.graph.value(v);
        let target = self.parameter_out(v)?;
        let place = self.offset(&out.dims, &out.strides);
        let stored = self.stored(out.dtype, value)?;
        let _ = writeln!(self.body, "    {target}[{place}] = {stored};");
        Ok(())
    }

    pub(super) fn parameter_out(&mut self, v: ValueId) -> Result<String> {
        storage(self.graph.value(v).dtype)?;
        self.declared.push(self.parameter_of(v));
        self.arguments.push(Argument::Write(v));
        Ok(format!("o{}", v.index()))
    }

    /// The declaration of a result's parameter.
    pub(super) fn parameter_of(&self, v: ValueId) -> String {
        format!("{}* __restrict__ o{}", storage(self.graph.value(v).dtype).unwrap_or("void"), v.index())
    }

    /// Where a reduction's result lies, by the coordinates of the axes that are kept.
    pub(super) fn reduced_offset(&self, v: ValueId, attrs: &ReduceAttrs) -> Result<String> {
        let out = self.graph.value(v);
        let mut terms = Vec::new();
        let mut at = 0;
        for axis in 0..self.dims.len() {
            if !attrs.reduces(axis) {
                terms.push(format!("c{axis} * ({}){}", self.index_type(), out.strides[at]));
                at += 1;
            } else if attrs.keepdim {
                at += 1;
            }
        }
        Ok(if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") })
    }

    /// An expression as it is stored.
    pub(super) fn stored(&self, dtype: DType, value: &str) -> Result<String> {
        Ok(match dtype {
            DType::F32 => format!("(float)({value})"),
            DType::F64 => format!("(double)({value})"),
            DType::F16 => format!("store_f16((float)({value}))"),
            DType::BF16 => format!("store_bf16((float)({value}))"),
            DType::F8E4M3 => format!("store_e4m3((float)({value}))"),
            DType::F8E5M2 => format!("store_e5m2((float)({value}))"),
            DType::I8 => format!("(i8)to_i8({value})"),
            DType::I32 => format!("to_i32({value})"),
            DType::I64 => format!("to_i64({value})"),
            DType::Bool => format!("(u8)(({value}) != 0)"),
            other => return Err(Error::unsupported(format!("no kernel stores {other}"))),
        })
    }

    fn operation(&mut self, node: &Node) -> Result<String> {
        match &node.op {
            Op::Pointwise(mode, params) => self.pointwise(*mode, params, node),
            Op::Cast(to) => {
                let x = self.value(node.inputs[0])?;
                let stored = self.stored(*to, &x)?;
                Ok(match to {
                    DType::F16 => format!("load_f16({stored})"),
                    DType::BF16 => format!("load_bf16({stored})"),
                    DType::F8E4M3 => format!("load_e4m3({stored})"),
                    DType::F8E5M2 => format!("load_e5m2({stored})"),
                    _ => stored,
                })
            }
            other => {
                Err(Error::unsupported(format!("`{}` cannot be followed by anything in its kernel", other.name())))
            }
        }
    }

    fn pointwise(&mut self, mode: M, p: &Params, node: &Node) -> Result<String> {
        if mode == M::GenIndex {
            let x = self.graph.value(node.inputs[0]);
            let axis = p.axis as usize;
            let lead = self.dims.len() - x.dims.len();
            return Ok(if x.dims[axis] == 1 { "0".to_owned() } else { format!("(int)c{}", axis + lead) });
        }
        let args = node.inputs.iter().map(|&v| self.value(v)).collect::<Result<Vec<_>>>()?;
        let ty = self.compute_type(mode, node)?;
        let arg = |i: usize| format!("({ty})({})", args[i]);
        let (a, b) = (arg(0), if args.len() > 1 { arg(1) } else { String::new() });
        let number = |v: f64| format!("({ty}){}", literal(v));
        Ok(match mode {
            M::Add => format!("{a} + {b}"),
            M::Sub => format!("{a} - {b}"),
            M::Mul => format!("{a} * {b}"),
            M::Div => format!("divide({a}, {b})"),
            M::Min => format!("min_of({a}, {b})"),
            M::Max => format!("max_of({a}, {b})"),
            M::AddSquare => format!("{a} + {b} * {b}"),
            M::Mod => format!("modulo({a}, {b})"),
            M::Pow => format!("pow({a}, {b})"),
            M::Atan2 => format!("atan2({a}, {b})"),
            M::CmpEq => format!("{a} == {b}"),
            M::CmpNeq => format!("{a} != {b}"),
            M::CmpGt => format!("{a} > {b}"),
            M::CmpGe => format!("{a} >= {b}"),
            M::CmpLt => format!("{a} < {b}"),
            M::CmpLe => format!("{a} <= {b}"),
            M::LogicalAnd => format!("({a} != 0 && {b} != 0)"),
            M::LogicalOr => format!("({a} != 0 || {b} != 0)"),
            M::LogicalNot => format!("{a} == 0"),
            M::Select => format!("({}) != 0 ? {b} : {}", args[0], arg(2)),
            M::Sqrt => format!("sqrt({a})"),
            M::Abs => format!("abs_of({a})"),
            M::Ceil => format!("ceil({a})"),
            M::Cos => format!("cos({a})"),
            M::Exp => format!("exp({a})"),
            M::Floor => format!("floor({a})"),
            M::Log => format!("log({a})"),
            M::Neg => format!("-{a}"),
            M::Rsqrt => format!("({ty})1 / sqrt({a})"),
            M::Sin => format!("sin({a})"),
            M::Tan => format!("tan({a})"),
            M::Erf => format!("erf({a})"),
            M::Identity => a,
            M::Reciprocal => format!("({ty})1 / {a}"),
            M::Relu => {
                format!("relu({a}, {}, {}, {})", number(p.lower_clip), number(p.upper_clip), number(p.slope))
            }
            M::Tanh => format!("tanh({a})"),
            M::Sigmoid => format!("sigmoid({a})"),
            M::Elu => format!("({a} > 0 ? {a} : {} * expm1({a}))", number(p.elu_alpha)),
            M::Gelu => format!("gelu({a})"),
            M::GeluTanh => format!("gelu_tanh({a})"),
            M::Softplus => format!("softplus({a}, {})", number(p.softplus_beta)),
            M::Swish => format!("{a} * sigmoid({} * {a})", number(p.swish_beta)),
            _ => return Err(Error::unsupported(format!("`{mode}` has no kernel"))),
        })
    }

    /// The C type an operation computes in: that of its result, for comparisons the one its operands have in common.
    fn compute_type(&self, mode: M, node: &Node) -> Result<&'static str> {
        use fused_graph_core::ir::PointwiseClass as C;
        let out = self.graph.value(node.output).dtype;
        let dtype = match mode.info().class {
            C::Compare => {
                let tensors = node.inputs.iter().map(|&v| self.graph.value(v)).filter(|v| !v.is_scalar());
                tensors.map(|v| v.dtype).reduce(DType::promote).unwrap_or(DType::F32)
            }
            _ => out,
        };
        self.c_type(dtype.compute())
    }
}

fn scalar_type(ty: ScalarType) -> &'static str {
    match ty {
        ScalarType::F32 => "float",
        ScalarType::F64 => "double",
    }
}

/// The C type of an element in memory.
fn storage(dtype: DType) -> Result<&'static str> {
    Ok(match dtype {
        DType::F32 => "float",
        DType::F64 => "double",
        DType::F16 | DType::BF16 => "u16",
        DType::F8E4M3 | DType::F8E5M2 | DType::Bool => "u8",
        DType::I8 => "i8",
        DType::I32 => "int",
        DType::I64 => "i64",
        other => return Err(Error::unsupported(format!("no kernel reads {other}"))),
    })
}

/// A number as C writes it, to the last bit.
fn literal(v: f64) -> String {
    if v.fract() == 0.0 && v.abs() < 1e9 && !(v == 0.0 && v.is_sign_negative()) {
        return format!("({})", v as i64);
    }
    if v.is_finite() && v as f32 as f64 == v {
        return format!("__int_as_float({})", (v as f32).to_bits() as i32);
    }
    format!("__longlong_as_double({}LL)", v.to_bits() as i64)
        .replace("(-9223372036854775808LL)", "(-9223372036854775807LL - 1)")
}
