//! The pointwise part of a kernel: a list of steps that run on a block of elements at a time, each step a loop over a register.

use super::registers::{Class, Register};
use super::simd::{self, arch};
use super::space::{Access, Block, Space};
use super::{generic, reduce};
use crate::dtype::DType;
use crate::ir::{Params, PointwiseMode as M, ValueId};
use crate::tensor::{HostData, HostSliceMut};

/// The index of a register.
pub(super) type Reg = usize;

/// One step.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Loads an operand from memory.
    Load { to: Reg, source: usize },
    /// Takes the result of the core operation.
    Core { to: Reg },
    /// Coordinates along an axis: an access whose offsets are the coordinates.
    Index { to: Reg, access: Access },
    /// A pointwise operation of operands of one class.
    Pointwise { mode: M, params: Params, class: Class, to: Reg, operands: [Reg; 3] },
    /// To another class.
    Convert { to: Reg, from: Reg },
    /// Rounds to an element type.
    Round { to: Reg, from: Reg, dtype: DType },
    /// Writes a result, rounded.
    Store { from: Reg, output: usize },
    /// Feeds a reduction.
    Reduce { from: Reg, reduction: usize },
}

impl Step {
    /// Calls `f` with each register that is read.
    pub(super) fn reads(&self) -> Vec<Reg> {
        match self {
            Step::Load { .. } | Step::Core { .. } | Step::Index { .. } => vec![],
            Step::Pointwise { operands, mode, .. } => operands[..super::lower::arity(*mode)].to_vec(),
            Step::Convert { from, .. }
            | Step::Round { from, .. }
            | Step::Store { from, .. }
            | Step::Reduce { from, .. } => vec![*from],
        }
    }

    /// The registers, to be renamed.
    pub(super) fn registers(&mut self) -> Vec<&mut Reg> {
        match self {
            Step::Load { to, .. } | Step::Core { to } | Step::Index { to, .. } => vec![to],
            Step::Pointwise { to, operands, .. } => operands.iter_mut().chain([to]).collect(),
            Step::Convert { to, from } | Step::Round { to, from, .. } => vec![from, to],
            Step::Store { from, .. } | Step::Reduce { from, .. } => vec![from],
        }
    }
}

/// An operand in memory.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) value: ValueId,
    pub(super) access: Access,
}

/// What a scalar register holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar {
    Const(f64),
    /// The argument of this number; whether it is an `f32`.
    Argument(usize, bool),
}

/// The steps of a kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    pub(super) registers: Vec<Class>,
    /// Registers that hold the same number for the whole run.
    pub(super) scalars: Vec<(Reg, Scalar)>,
    /// Steps on scalars alone, run once.
    pub(super) once: Vec<Step>,
    pub(super) steps: Vec<Step>,
    pub(super) sources: Vec<Source>,
    /// Whether the steps are just: take the core's result, store it as it is.
    pub(super) stores_core: bool,
}

/// The result of the core operation for the rows that are being worked on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tile<'a> {
    None,
    F32(&'a [f32]),
    F64(&'a [f64]),
    Int(&'a [i32]),
}

/// The memory behind [`Source`]s, in their order, with the offset of the argument's own view.
pub(super) type Memory<'a> = [(&'a HostData, i64)];

/// The registers of one thread.
pub(super) struct Frame<'a> {
    program: &'a Program,
    space: &'a Space,
    memory: &'a Memory<'a>,
    registers: Vec<Register>,
}

impl<'a> Frame<'a> {
    pub(super) fn new(program: &'a Program, space: &'a Space, memory: &'a Memory<'a>, scalars: &[f64]) -> Frame<'a> {
        let registers = program.registers.iter().map(|&c| Register::new(c)).collect();
        let mut frame = Frame { program, space, memory, registers };
        for &(reg, scalar) in &program.scalars {
            frame.registers[reg].fill(match scalar {
                Scalar::Const(v) => v,
                Scalar::Argument(i, single) => {
                    let v = scalars.get(i).copied().unwrap_or(0.0);
                    if single { v as f32 as f64 } else { v }
                }
            });
        }
        let all = Block { row: 0, rows: 1, column: 0, columns: super::space::CHUNK };
        for step in &program.once {
            frame.step(step, &all, (0, 0), Tile::None, &mut [], &mut []);
        }
        frame
    }

    /// Runs the program on one block. `start`: elements before it in the tile and in the outputs.
    pub(super) fn run(
        &mut self,
        block: &Block,
        start: (usize, usize),
        tile: Tile<'_>,
        outputs: &mut [HostSliceMut<'_>],
        accumulators: &mut [reduce::Accumulator],
    ) {
        let program = self.program;
        for step in &program.steps {
            self.step(step, block, start, tile, outputs, accumulators);
        }
    }

    fn step(
        &mut self,
        step: &Step,
        block: &Block,
        start: (usize, usize),
        tile: Tile<'_>,
        outputs: &mut [HostSliceMut<'_>],
        accumulators: &mut [reduce::Accumulator],
    ) {
        let n = block.len();
        match *step {
            Step::Load { to, source } => self.load(to, source, block),
            Step::Core { to } => core_result(&mut self.registers[to], tile, start.0, n),
            Step::Index { to, ref access } => self.index(to, access, block),
            Step::Pointwise { mode, ref params, class, to, operands } => {
                self.write(to, |to, r| pointwise(mode, params, class, n, to, operands, r));
            }
            Step::Convert { to, from } => self.write(to, |to, r| to.convert(n, &r[from])),
            Step::Round { to, from, dtype } => self.write(to, |to, r| {
                to.convert(n, &r[from]);
                to.round(n, dtype);
            }),
            Step::Store { from, output } => self.registers[from].store(n, &mut outputs[output], start.1),
            Step::Reduce { from, reduction } => {
                accumulators[reduction].add(self.space, block, &self.registers[from]);
            }
        }
    }

    /// Takes a register out while the others are read.
    fn write(&mut self, to: Reg, f: impl FnOnce(&mut Register, &[Register])) {
        let mut taken = std::mem::take(&mut self.registers[to]);
        f(&mut taken, &self.registers);
        self.registers[to] = taken;
    }

    fn load(&mut self, to: Reg, source: usize, block: &Block) {
        let access = &self.program.sources[source].access;
        let (data, base) = self.memory[source];
        let register = &mut self.registers[to];
        if access.uniform {
            return register.load(0, block.len(), data, base + access.offset, 0);
        }
        if access.dense {
            let first = block.row * self.space.inner() + block.column;
            return register.load(0, block.len(), data, base + access.offset + first as i64, 1);
        }
        let step = access.strides.last().copied().unwrap_or(0);
        self.space.for_each_row(block, access, |row, at| {
            register.load(row * block.columns, block.columns, data, base + at, step);
        });
    }

    fn index(&mut self, to: Reg, access: &Access, block: &Block) {
        let Register::Int(register) = &mut self.registers[to] else { return };
        let step = access.strides.last().copied().unwrap_or(0);
        self.space.for_each_row(block, access, |row, at| {
            for (i, v) in register[row * block.columns..][..block.columns].iter_mut().enumerate() {
                *v = at + i as i64 * step;
            }
        });
    }
}

fn core_result(to: &mut Register, tile: Tile<'_>, start: usize, n: usize) {
    match (to, tile) {
        (Register::F32(r), Tile::F32(t)) => r[..n].copy_from_slice(&t[start..start + n]),
        (Register::F64(r), Tile::F64(t)) => r[..n].copy_from_slice(&t[start..start + n]),
        (Register::Int(r), Tile::Int(t)) => {
            r.iter_mut().zip(&t[start..start + n]).for_each(|(d, &s)| *d = s as i64);
        }
        _ => {}
    }
}

fn pointwise(mode: M, params: &Params, class: Class, n: usize, to: &mut Register, [a, b, c]: [Reg; 3], r: &[Register]) {
    match (class, to) {
        (_, to) if mode == M::Select => generic::select(n, to, r[a].bool(), &r[b], &r[c]),
        (Class::F32, Register::F32(dst)) => {
            let (dst, a, b) = (&mut dst[..n], &r[a].f32()[..n], r[b].f32());
            arch().dispatch(simd::Float { mode, params, dst, a, b });
        }
        (Class::F32, Register::Bool(dst)) => {
            arch().dispatch(simd::Compare { mode, dst: &mut dst[..n], a: r[a].f32(), b: r[b].f32() });
        }
        (Class::F64, to) => generic::f64(mode, params, to, &r[a].f64()[..n], r[b].f64()),
        (Class::Int, to) => generic::int(mode, params, to, &r[a].int()[..n], r[b].int()),
        (_, to) => generic::bool(mode, to, &r[a].bool()[..n], r[b].bool()),
    }
}
