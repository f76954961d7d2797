//! From the group of a partition to a kernel: its program, the order in which it visits elements, its core operation.

use super::conv::Conv;
use super::matmul::Matmul;
use super::program::{Program, Reg, Scalar, Source, Step};
use super::reduce::Reduction;
use super::registers::Class;
use super::space::{Space, collapse};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::fuse::{Group, is_scalar, resolve};
use crate::ir::{
    Arity, Graph, Node, Op, Params, PointwiseClass, PointwiseMode as M, ReduceAttrs, ScalarType, ValueId, ValueKind,
};
use crate::layout::Dims;
use crate::tensor::HostData;
use std::collections::HashMap;

/// A result that is written: made dense in the kernel's order, then brought to its own strides if they differ.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub(super) value: ValueId,
    pub(super) dtype: DType,
    pub(super) dims: Dims,
    pub(super) made: Dims,
    pub(super) wanted: Dims,
}

impl Output {
    /// Memory for it, from `spare` where that has some that fits.
    pub(super) fn memory(&self, spare: &mut Vec<HostData>) -> HostData {
        let fits = |d: &HostData| d.dtype() == self.dtype && d.len() == self.dims.numel();
        let found = spare.iter().position(fits);
        found.map_or_else(|| HostData::zeros(self.dtype, self.dims.numel()), |at| spare.swap_remove(at))
    }

    /// Whether it is made with the strides it has.
    pub(super) fn in_place(&self) -> bool {
        (0..self.dims.len()).all(|a| self.dims[a] == 1 || self.made[a] == self.wanted[a])
    }
}

/// The core operation of a kernel.
#[derive(Clone, Debug)]
pub(super) enum Core {
    Matmul(Matmul),
    Conv(Box<Conv>),
}

/// What one group does.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub(super) space: Space,
    pub(super) program: Program,
    pub(super) outputs: Vec<Output>,
    pub(super) reductions: Vec<(ValueId, Reduction)>,
    /// With the memory of its operands and what it computes in.
    pub(super) core: Option<(Core, [ValueId; 2], Class)>,
}

pub(super) fn arity(mode: M) -> usize {
    match mode.info().arity {
        Arity::Unary => 1,
        Arity::Binary => 2,
        Arity::Ternary => 3,
    }
}

/// Turns a group into a kernel.
pub(super) fn lower(graph: &Graph, group: &Group) -> Result<Kernel> {
    let dims = group
        .nodes
        .iter()
        .map(|&n| graph.node(n))
        .filter(|n| group.core.is_none_or(|c| graph.node(c).output == n.output))
        .filter(|n| !is_scalar(graph, n.output))
        .map(|n| match n.op {
            Op::Reduce(_) => graph.value(n.inputs[0]).dims,
            _ => graph.value(n.output).dims,
        })
        .max_by_key(|d| (d.numel(), d.len()))
        .unwrap_or(Dims::EMPTY);
    let mut lowering = Lowering {
        graph,
        group,
        dims,
        classes: Vec::new(),
        known: HashMap::new(),
        program: Program::default(),
        accesses: Vec::new(),
        outputs: Vec::new(),
        reductions: Vec::new(),
    };
    for &id in &group.nodes {
        lowering.node(graph.node(id))?;
    }
    lowering.finish()
}

struct Lowering<'a> {
    graph: &'a Graph,
    group: &'a Group,
    /// The shape that all operations of the group have.
    dims: Dims,
    classes: Vec<Class>,
    /// The registers that hold a value, one for each class it was asked for in.
    known: HashMap<(ValueId, Class), Reg>,
    program: Program,
    /// Strides and offsets over `dims` of sources, coordinates and reductions.
    accesses: Vec<(Dims, i64, Place)>,
    outputs: Vec<ValueId>,
    reductions: Vec<(ValueId, ReduceAttrs, Class)>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Source(usize),
    Index(Reg),
    Reduction,
}

impl Lowering<'_> {
    fn register(&mut self, class: Class) -> Reg {
        self.classes.push(class);
        self.classes.len() - 1
    }

    fn push(&mut self, once: bool, step: Step) {
        if once { self.program.once.push(step) } else { self.program.steps.push(step) }
    }

    /// The strides of an operand over the shape of the group.
    fn strides(&self, dims: &Dims, strides: &Dims) -> Result<Dims> {
        let skip = self.dims.len().checked_sub(dims.len()).ok_or_else(|| {
            Error::unsupported(format!("an operand of shape {dims} in a kernel of shape {}", self.dims))
        })?;
        let at = |a: usize| if a < skip || dims[a - skip] == 1 { 0 } else { strides[a - skip] };
        Ok(Dims::collect((0..self.dims.len()).map(at)))
    }

    /// A register with a value in a class.
    fn operand(&mut self, value: ValueId, class: Class) -> Result<Reg> {
        if let Some(&r) = self.known.get(&(value, class)) {
            return Ok(r);
        }
        // What was computed here is converted; what lies in memory is loaded again, as what it is.
        let computed = self.graph.producer(value).is_some_and(|n| !matches!(self.graph.node(n).op, Op::View(_)));
        let from = [Class::F64, Class::Int, Class::F32, Class::Bool]
            .into_iter()
            .filter(|_| computed)
            .find_map(|c| self.known.get(&(value, c)).copied());
        let seen = resolve(self.graph, value);
        let reg = if let Some(from) = from {
            let to = self.register(class);
            self.push(is_scalar(self.graph, seen.base), Step::Convert { to, from });
            to
        } else if is_scalar(self.graph, seen.base) {
            self.scalar(seen.base, class)?
        } else {
            let to = self.register(class);
            let strides = self.strides(&seen.dims, &seen.strides)?;
            let source = self.program.sources.len();
            let access = Space { dims: Dims::EMPTY }.access(Dims::EMPTY, 0);
            self.program.sources.push(Source { value: seen.base, access });
            self.accesses.push((strides, seen.offset, Place::Source(source)));
            self.push(false, Step::Load { to, source });
            to
        };
        self.known.insert((value, class), reg);
        Ok(reg)
    }

    /// A register for a host scalar, a literal or arithmetic of them.
    fn scalar(&mut self, value: ValueId, class: Class) -> Result<Reg> {
        let held = match self.graph.value(value).kind {
            ValueKind::Const(v) => Scalar::Const(v),
            ValueKind::Scalar { index, ty } => Scalar::Argument(index, ty == ScalarType::F32),
            ValueKind::Node(n) => {
                self.node(self.graph.node(n))?;
                return self.operand(value, class);
            }
            ValueKind::Input { .. } => return Err(Error::unsupported("a tensor where a scalar was expected")),
        };
        let to = self.register(class);
        self.program.scalars.push((to, held));
        Ok(to)
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        let once = is_scalar(self.graph, node.output);
        let out = self.graph.value(node.output);
        let class = Class::of(out.dtype);
        if self.known.contains_key(&(node.output, class)) {
            return Ok(());
        }
        let reg = match node.op {
            Op::Pointwise(M::GenIndex, params) => self.coordinates(&out.dims, params.axis as usize),
            Op::Pointwise(mode, params) => self.pointwise(node, mode, params, once)?,
            Op::Cast(to) => self.cast(node, to, once)?,
            Op::Conv(_) | Op::Matmul => {
                let to = self.register(class);
                self.push(false, Step::Core { to });
                to
            }
            Op::Reduce(attrs) => return self.reduce(node, attrs),
            Op::View(_) | Op::Norm(_) | Op::Softmax(_) | Op::Sdpa(_) | Op::Pool(_) => {
                return Err(Error::unsupported(format!("`{}` inside another kernel", node.op.name())));
            }
        };
        self.known.insert((node.output, class), reg);
        if self.group.outputs.contains(&node.output) {
            self.push(false, Step::Store { from: reg, output: self.outputs.len() });
            self.outputs.push(node.output);
        }
        Ok(())
    }

    fn coordinates(&mut self, dims: &Dims, axis: usize) -> Reg {
        let to = self.register(Class::Int);
        let axis = axis + self.dims.len() - dims.len();
        let repeated = dims[axis + dims.len() - self.dims.len()] == 1;
        let strides = Dims::splat(0, self.dims.len()).with(axis, if repeated { 0 } else { 1 });
        let access = Space { dims: Dims::EMPTY }.access(Dims::EMPTY, 0);
        self.accesses.push((strides, 0, Place::Index(to)));
        self.push(false, Step::Index { to, access });
        to
    }

    /// What a pointwise operation computes in.
    fn class(&self, node: &Node, mode: M) -> Class {
        let out = Class::of(self.graph.value(node.output).dtype);
        if mode.info().class != PointwiseClass::Compare {
            return out;
        }
        let values = node.inputs.iter().map(|&v| self.graph.value(v));
        let tensors = values.clone().filter(|v| !v.is_scalar()).map(|v| v.dtype).reduce(DType::promote);
        let any = values.map(|v| v.dtype).reduce(DType::promote);
        tensors.or(any).map_or(Class::F32, Class::of)
    }

    fn pointwise(&mut self, node: &Node, mode: M, params: Params, once: bool) -> Result<Reg> {
        let class = self.class(node, mode);
        let mut operands = [0; 3];
        for (i, &v) in node.inputs.iter().enumerate().take(3) {
            let condition = mode == M::Select && i == 0;
            operands[i] = self.operand(v, if condition { Class::Bool } else { class })?;
        }
        for i in node.inputs.len()..3 {
            operands[i] = operands[0];
        }
        let to = self.register(Class::of(self.graph.value(node.output).dtype));
        self.push(once, Step::Pointwise { mode, params, class, to, operands });
        Ok(to)
    }

    fn cast(&mut self, node: &Node, dtype: DType, once: bool) -> Result<Reg> {
        let (input, class) = (node.inputs[0], Class::of(dtype));
        let native = Class::of(self.graph.value(input).dtype);
        let float = |c: Class| matches!(c, Class::F32 | Class::F64);
        let mut from = self.operand(input, native)?;
        let held = matches!(dtype, DType::F32 | DType::F64 | DType::I64 | DType::Bool);
        if !held && float(class) && float(native) {
            // Round first, then convert exactly: once.
            let to = self.register(native);
            self.push(once, Step::Round { to, from, dtype });
            from = to;
        }
        let to = self.register(class);
        if held || float(class) && float(native) {
            self.push(once, Step::Convert { to, from });
        } else {
            self.push(once, Step::Round { to, from, dtype });
        }
        Ok(to)
    }

    fn reduce(&mut self, node: &Node, attrs: ReduceAttrs) -> Result<()> {
        let class = Class::of(self.graph.value(node.inputs[0]).dtype);
        let from = self.operand(node.inputs[0], class)?;
        let kept = Dims::collect((0..self.dims.len()).map(|a| if attrs.reduces(a) { 1 } else { self.dims[a] }));
        let strides = self.strides(&kept, &kept.contiguous_strides())?;
        self.accesses.push((strides, 0, Place::Reduction));
        self.push(false, Step::Reduce { from, reduction: self.reductions.len() });
        self.reductions.push((node.output, attrs, class));
        Ok(())
    }

    /// The axes from the outermost to the innermost.
    fn order(&self) -> Vec<usize> {
        let rank = self.dims.len();
        match self.group.core.map(|c| self.graph.node(c).op) {
            Some(Op::Conv(_)) => [0].into_iter().chain(2..rank).chain([1]).collect(),
            Some(_) => (0..rank).collect(),
            None => {
                let fits = |s: &Dims| (0..rank).all(|a| self.dims[a] == 1 || s[a] > 0);
                let output = self.outputs.first().map(|&v| self.graph.value(v).strides);
                let read = self.accesses.iter().filter(|a| matches!(a.2, Place::Source(_))).map(|a| a.0).find(fits);
                let leader = output.or(read).unwrap_or_else(|| self.dims.contiguous_strides());
                let mut order: Vec<usize> = (0..rank).collect();
                order.sort_by_key(|&a| (std::cmp::Reverse(if self.dims[a] == 1 { i64::MAX } else { leader[a] }), a));
                order
            }
        }
    }

    fn finish(mut self) -> Result<Kernel> {
        let order = self.order();
        let pick = |d: &Dims| Dims::collect(order.iter().map(|&a| d[a]));
        let mut strides: Vec<Dims> = self.accesses.iter().map(|a| pick(&a.0)).collect();
        let space = Space { dims: collapse(&pick(&self.dims), &mut strides, self.group.core.is_some()) };
        let mut reductions = Vec::new();
        for ((_, offset, place), strides) in self.accesses.iter().zip(strides) {
            let access = space.access(strides, *offset);
            match *place {
                Place::Source(i) => self.program.sources[i].access = access,
                Place::Index(reg) => {
                    for step in &mut self.program.steps {
                        if let Step::Index { to, access: a } = step
                            && *to == reg
                        {
                            *a = access;
                        }
                    }
                }
                Place::Reduction => reductions.push(self.reduction(reductions.len(), access)),
            }
        }
        let inner_first: Vec<usize> = order.iter().rev().copied().collect();
        let made = self.dims.strides_in_order(&inner_first);
        let outputs = self.outputs.iter().map(|&value| {
            let v = self.graph.value(value);
            Output { value, dtype: v.dtype, dims: v.dims, made, wanted: v.strides }
        });
        let outputs = outputs.collect();
        let core = self.core();
        allocate(&mut self.program, &self.classes);
        Ok(Kernel { space, program: self.program, outputs, reductions, core })
    }

    fn reduction(&self, index: usize, access: super::space::Access) -> (ValueId, Reduction) {
        let (value, attrs, class) = self.reductions[index];
        let v = self.graph.value(value);
        let len = v.dims.numel();
        let count = self.dims.numel() / len.max(1);
        let reduction =
            Reduction { mode: attrs.mode, class, access, len, count, dtype: v.dtype, dims: v.dims, strides: v.strides };
        (value, reduction)
    }

    fn core(&self) -> Option<(Core, [ValueId; 2], Class)> {
        let node = self.graph.node(self.group.core?);
        let [a, b] = [resolve(self.graph, node.inputs[0]), resolve(self.graph, node.inputs[1])];
        let core = match &node.op {
            Op::Conv(attrs) => Core::Conv(Box::new(Conv::new(attrs, &a, &b, &self.dims))),
            _ => Core::Matmul(Matmul::new(&a, &b, &self.dims)),
        };
        Some((core, [a.base, b.base], Class::of(self.graph.value(node.output).dtype)))
    }
}

/// Gives the steps as few registers as their lifetimes allow, so that all blocks stay in cache. Scalars keep theirs.
fn allocate(program: &mut Program, classes: &[Class]) {
    let mut last = vec![0; classes.len()];
    for (i, step) in program.steps.iter().enumerate() {
        step.reads().into_iter().for_each(|r| last[r] = i + 1);
    }
    let mut registers = Vec::new();
    let mut real: Vec<Option<Reg>> = vec![None; classes.len()];
    let mut assign = |v: Reg, real: &mut Vec<Option<Reg>>, free: &mut Vec<Reg>| {
        if real[v].is_none() {
            let found = free.iter().position(|&r| registers[r] == classes[v]);
            real[v] = Some(found.map(|i| free.swap_remove(i)).unwrap_or_else(|| {
                registers.push(classes[v]);
                registers.len() - 1
            }));
        }
        real[v].unwrap_or(0)
    };
    let mut none = Vec::new();
    for (reg, _) in &mut program.scalars {
        *reg = assign(*reg, &mut real, &mut none);
    }
    for step in &mut program.once {
        step.registers().into_iter().for_each(|r| *r = assign(*r, &mut real, &mut none));
    }
    let permanent: Vec<bool> = real.iter().map(Option::is_some).collect();
    let mut free = Vec::new();
    for (i, step) in program.steps.iter_mut().enumerate() {
        let mut virtuals: Vec<Reg> = Vec::new();
        for r in step.registers() {
            virtuals.push(*r);
            *r = assign(*r, &mut real, &mut free);
        }
        virtuals.sort();
        virtuals.dedup();
        for v in virtuals {
            if last[v] <= i + 1 && !permanent[v] {
                free.extend(real[v]);
            }
        }
    }
    program.registers = registers;
    program.stores_core = matches!(&program.steps[..], [Step::Core { to }, Step::Store { from, .. }] if to == from);
}
