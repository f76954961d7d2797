//! Normalisations and softmax: a tensor as rows, each of which is read once, worked on in cache and written once.

mod arithmetic;

use super::lower::Output;
use super::registers::{Class, Register};
use super::run::Stored;
use super::space::collapse;
use crate::error::{Error, Result};
use crate::fuse::{Group, MemRef, resolve};
use crate::ir::{Graph, Node, NormPart, Op, ValueId};
use crate::layout::Dims;
use crate::tensor::{HostData, HostSliceMut, for_each_row, rearrange};
use arithmetic::{Element, Parameters, RowOp};
use rayon::prelude::*;

/// Below this many elements threads cost more than they give.
const SEQUENTIAL: usize = 1 << 14;

/// A tensor seen as rows: strides over the axes that tell rows apart and over those within a row.
#[derive(Clone, Debug)]
struct Operand {
    base: ValueId,
    offset: i64,
    across: Dims,
    within: Dims,
}

/// A kernel that works on rows.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    op: RowOp,
    class: Class,
    /// Extents of the axes that tell rows apart.
    across: Dims,
    /// Extents of the axes within a row.
    within: Dims,
    /// The tensor, γ and β.
    operands: Vec<Operand>,
    epsilon: Option<ValueId>,
    outputs: Vec<(NormPart, Output)>,
}

/// The kernel of a group whose core works on rows.
pub(super) fn lower(graph: &Graph, group: &Group, core: &Node) -> Result<Rows> {
    let x = graph.value(core.inputs[0]);
    let (op, epsilon, parameters) = match core.op {
        Op::Norm(a) => (RowOp::Norm { centered: a.is_centered() }, Some(a.epsilon()), 1..a.epsilon()),
        Op::Softmax(a) => (RowOp::Softmax { log: a.log }, None, 1..1),
        _ => return Err(Error::unsupported(format!("`{}` does not work on rows", core.op.name()))),
    };
    let inside = |axis: usize| match core.op {
        Op::Norm(a) => a.normalises(axis),
        Op::Softmax(a) => a.axis == axis,
        _ => false,
    };
    // From the outermost axis to the innermost as the result lies in memory.
    let mut order: Vec<usize> = (0..x.dims.len()).collect();
    let leader = graph.value(core.output);
    let leader = if leader.dims == x.dims { leader.strides } else { x.strides };
    order.sort_by_key(|&a| (inside(a), std::cmp::Reverse(leader[a]), a));
    let split = order.iter().filter(|&&a| !inside(a)).count();
    let pick = |d: &Dims| Dims::collect(order.iter().map(|&a| d[a]));

    let seen = [0].into_iter().chain(parameters).map(|i| expanded(&resolve(graph, core.inputs[i]), &x.dims));
    let seen: Vec<MemRef> = seen.collect();
    let mut within: Vec<Dims> = seen.iter().map(|m| Dims::collect(pick(&m.strides)[split..].iter().copied())).collect();
    let extents = Dims::collect(pick(&x.dims)[split..].iter().copied());
    let extents = collapse(&extents, &mut within, false);
    let operands = seen.iter().zip(within).map(|(m, within)| Operand {
        base: m.base,
        offset: m.offset,
        across: Dims::collect(pick(&m.strides)[..split].iter().copied()),
        within,
    });
    let inner_first: Vec<usize> = order.iter().rev().copied().collect();
    let output = |&v: &ValueId| {
        let value = graph.value(v);
        let part = match graph.producer(v).map(|n| graph.node(n).op) {
            Some(Op::Norm(a)) => a.part,
            _ => NormPart::Y,
        };
        let made = value.dims.strides_in_order(&inner_first);
        (part, Output { value: v, dtype: value.dtype, dims: value.dims, made, wanted: value.strides })
    };
    Ok(Rows {
        op,
        class: Class::of(x.dtype),
        across: Dims::collect(pick(&x.dims)[..split].iter().copied()),
        within: extents,
        operands: operands.collect(),
        epsilon: epsilon.map(|at| core.inputs[at]),
        outputs: group.outputs.iter().map(output).collect(),
    })
}

/// A value in memory repeated to larger dims.
pub(super) fn expanded(seen: &MemRef, dims: &Dims) -> MemRef {
    let lead = dims.len() - seen.dims.len();
    let stride = |a: usize| if a < lead || seen.dims[a - lead] == 1 { 0 } else { seen.strides[a - lead] };
    MemRef { dims: *dims, strides: Dims::collect((0..dims.len()).map(stride)), ..*seen }
}

/// Some rows, and where their results go.
struct Job<'a> {
    first: usize,
    rows: usize,
    outputs: Vec<HostSliceMut<'a>>,
}

/// The registers of one thread, as long as a row.
struct Frame {
    row: Register,
    parameters: Vec<Register>,
    /// A statistic on its way to memory.
    one: Register,
}

impl Rows {
    /// Runs the kernel; gives its results with the values they are. Memory for them is taken from `spare` where it fits.
    pub(super) fn run<'a>(
        &self,
        memory: &impl Fn(ValueId) -> Stored<'a>,
        scalar: &impl Fn(ValueId) -> f64,
        spare: &mut Vec<HostData>,
    ) -> Vec<(ValueId, HostData)> {
        let stored: Vec<Stored<'_>> = self.operands.iter().map(|o| memory(o.base)).collect();
        let epsilon = self.epsilon.map_or(0.0, scalar);
        let mut outputs: Vec<HostData> = self.outputs.iter().map(|(_, o)| o.memory(spare)).collect();
        let jobs = self.jobs(&mut outputs);
        let sequential = jobs.len() == 1;
        let work = |frame: &mut Frame, job: Job<'_>| self.work(frame, job, &stored, epsilon);
        if sequential {
            let mut frame = self.frame();
            jobs.into_iter().for_each(|job| work(&mut frame, job));
        } else {
            jobs.into_par_iter().with_max_len(1).for_each_init(|| self.frame(), work);
        }
        let finished = self.outputs.iter().zip(outputs).map(|((_, o), data)| {
            let data = if o.in_place() { data } else { rearrange(&data, 0, &o.dims, &o.made, &o.wanted, o.dtype) };
            (o.value, data)
        });
        finished.collect()
    }

    /// Whether a result is brought to its layout by a copy.
    pub(super) fn copied(&self) -> impl Iterator<Item = ValueId> {
        self.outputs.iter().filter(|(_, o)| !o.in_place()).map(|(_, o)| o.value)
    }

    fn jobs<'a>(&self, outputs: &'a mut [HostData]) -> Vec<Job<'a>> {
        let (rows, length) = (self.across.numel(), self.within.numel());
        let parts = if rows * length < SEQUENTIAL { 1 } else { rayon::current_num_threads() * 4 };
        let per = rows.div_ceil(parts).max(1);
        let mut rest: Vec<HostSliceMut<'a>> = outputs.iter_mut().map(HostData::as_mut).collect();
        let job = |first: usize| {
            let count = per.min(rows - first);
            let sizes = self.outputs.iter().map(|(part, _)| if *part == NormPart::Y { count * length } else { count });
            let outputs = rest.iter_mut().zip(sizes).map(|(o, n)| o.take(n)).collect();
            Job { first, rows: count, outputs }
        };
        (0..rows).step_by(per).map(job).collect()
    }

    fn frame(&self) -> Frame {
        let n = self.within.numel();
        let register = |n: usize| match self.class {
            Class::F64 => Register::F64(vec![0.0; n]),
            _ => Register::F32(vec![0.0; n]),
        };
        Frame {
            row: register(n),
            parameters: vec![register(n); self.operands.len() - 1],
            one: Register::F64(vec![0.0]),
        }
    }

    fn work(&self, frame: &mut Frame, mut job: Job<'_>, stored: &[Stored<'_>], epsilon: f64) {
        let n = self.within.numel();
        for at in 0..job.rows {
            let Frame { row, parameters, one } = &mut *frame;
            self.load(row, 0, stored, job.first + at);
            for (i, register) in parameters.iter_mut().enumerate() {
                // Usually all rows have the same.
                if at == 0 || self.operands[i + 1].across.iter().any(|&s| s != 0) {
                    self.load(register, i + 1, stored, job.first + at);
                }
            }
            let (mean, inv_std) = transform(self.op, row, parameters, epsilon);
            for ((part, _), out) in self.outputs.iter().zip(&mut job.outputs) {
                match part {
                    NormPart::Y => row.store(n, out, at * n),
                    part => {
                        one.fill(if *part == NormPart::Mean { mean } else { inv_std });
                        one.store(1, out, at);
                    }
                }
            }
        }
    }

    /// Gathers a row of an operand.
    fn load(&self, to: &mut Register, operand: usize, stored: &[Stored<'_>], row: usize) {
        let (o, (data, base)) = (&self.operands[operand], stored[operand]);
        let mut start = base + o.offset;
        let mut rest = row as i64;
        for axis in (0..self.across.len()).rev() {
            start += rest % self.across[axis] * o.across[axis];
            rest /= self.across[axis];
        }
        let mut at = 0;
        for_each_row(&self.within, &o.within, |offset, n, step| {
            to.load(at, n as usize, data, start + offset, step);
            at += n as usize;
        });
    }
}

fn transform(op: RowOp, row: &mut Register, parameters: &[Register], epsilon: f64) -> (f64, f64) {
    let at = |i: usize| parameters.get(i);
    match row {
        Register::F64(row) => {
            let of = |i: usize| at(i).map_or(&[][..], Register::f64);
            f64::row(op, row, &Parameters { gamma: of(0), beta: of(1), epsilon })
        }
        Register::F32(row) => {
            let of = |i: usize| at(i).map_or(&[][..], Register::f32);
            f32::row(op, row, &Parameters { gamma: of(0), beta: of(1), epsilon })
        }
        _ => (0.0, 0.0),
    }
}
