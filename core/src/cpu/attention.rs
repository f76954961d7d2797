//! Attention: queries in blocks that pass over the keys in pieces, so that scores stay in cache (FlashAttention's order). The query heads that share a key
//! head are rows of the same block.

mod block;

use super::gemm::{Number, Right, RightSource};
use super::lower::Output;
use super::real::Real;
use super::registers::Class;
use super::run::Stored;
use crate::fuse::{Group, MemRef, resolve};
use crate::ir::{Graph, Node, Op, SdpaAttrs, SdpaOperand, SdpaPart, ValueId};
use crate::layout::Dims;
use crate::tensor::{HostData, HostSliceMut, rearrange};
use block::{Block, Scores};
use rayon::prelude::*;

/// Rows of a block, and keys of a piece: 64 × 256 scores and as many keys 64 wide fill a second-level cache to a quarter.
const ROWS: usize = 64;
const KEYS: usize = 256;

/// An attention of known shapes.
#[derive(Clone, Debug)]
pub(super) struct Attention {
    attrs: SdpaAttrs,
    class: Class,
    /// q, k and v, of rank 4.
    tensors: [MemRef; 3],
    /// The optional operands, those with scores' dims repeated to them.
    optional: Vec<(SdpaOperand, MemRef)>,
    scale: ValueId,
    softcap: Option<ValueId>,
    sizes: Sizes,
    outputs: Vec<(SdpaPart, Output)>,
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    /// Query heads that have key and value heads in common, and how many such groups there are.
    group: usize,
    groups: usize,
    queries: usize,
    keys: usize,
    width: usize,
    value_width: usize,
}

impl Sizes {
    fn new(q: &Dims, k: &Dims, v: &Dims) -> Sizes {
        let group = gcd(q[1] / k[1], q[1] / v[1]);
        Sizes {
            batch: q[0] as usize,
            group: group as usize,
            groups: (q[1] / group) as usize,
            queries: q[2] as usize,
            keys: k[2] as usize,
            width: q[3] as usize,
            value_width: v[3] as usize,
        }
    }

    fn heads(&self) -> usize {
        self.group * self.groups
    }

    /// Rows of a group: its queries, the heads of each together.
    fn rows(&self) -> usize {
        self.queries * self.group
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The kernel of a group whose core is an attention.
pub(super) fn lower(graph: &Graph, group: &Group, core: &Node, attrs: SdpaAttrs) -> Attention {
    let seen = |at: usize| resolve(graph, core.inputs[at]);
    let tensors = [seen(0), seen(1), seen(2)];
    let dims = |at: usize| tensors[at].dims;
    let scores = dims(0).with(3, dims(1)[2]);
    let optional = attrs.operands().filter(|&o| o != SdpaOperand::Softcap).filter_map(|o| {
        let operand = seen(attrs.place(o)?);
        Some((o, if o == SdpaOperand::Bias { super::rows::expanded(&operand, &scores) } else { operand }))
    });
    let output = |&v: &ValueId| {
        let value = graph.value(v);
        let part = match graph.producer(v).map(|n| graph.node(n).op) {
            Some(Op::Sdpa(a)) => a.part,
            _ => SdpaPart::Output,
        };
        let made = value.dims.contiguous_strides();
        (part, Output { value: v, dtype: value.dtype, dims: value.dims, made, wanted: value.strides })
    };
    Attention {
        attrs,
        class: Class::of(graph.value(core.inputs[0]).dtype),
        optional: optional.collect(),
        scale: core.inputs[SdpaAttrs::SCALE],
        softcap: attrs.place(SdpaOperand::Softcap).map(|at| core.inputs[at]),
        sizes: Sizes::new(&dims(0), &dims(1), &dims(2)),
        outputs: group.outputs.iter().map(output).collect(),
        tensors,
    }
}

/// The memory of the operands, and numbers that came by value.
struct Memory<'a> {
    tensors: [Stored<'a>; 3],
    optional: Vec<Stored<'a>>,
    scale: f64,
    softcap: Option<f64>,
}

/// A head group of a batch entry, and where its results go.
struct Task<'a> {
    batch: usize,
    group: usize,
    outputs: Vec<HostSliceMut<'a>>,
}

/// A piece of the keys of a group with their values, packed.
struct Piece<T> {
    first: usize,
    keys: usize,
    k: Right<T>,
    v: Right<T>,
}

impl Attention {
    /// Runs the kernel; gives its results with the values they are. Memory for them is taken from `spare` where it fits.
    pub(super) fn run<'a>(
        &self,
        memory: &impl Fn(ValueId) -> Stored<'a>,
        scalar: &impl Fn(ValueId) -> f64,
        spare: &mut Vec<HostData>,
    ) -> Vec<(ValueId, HostData)> {
        let memory = Memory {
            tensors: self.tensors.map(|t| memory(t.base)),
            optional: self.optional.iter().map(|(_, m)| memory(m.base)).collect(),
            scale: scalar(self.scale),
            softcap: self.softcap.map(scalar),
        };
        let mut outputs: Vec<HostData> = self.outputs.iter().map(|(_, o)| o.memory(spare)).collect();
        match self.class {
            Class::F64 => self.tasks::<f64>(&memory, &mut outputs),
            _ => self.tasks::<f32>(&memory, &mut outputs),
        }
        self.outputs.iter().zip(outputs).map(|((_, o), data)| (o.value, self.in_order(o, data))).collect()
    }

    fn tasks<T: Number + Real + Scores>(&self, memory: &Memory<'_>, outputs: &mut [HostData]) {
        let Sizes { batch, groups, .. } = self.sizes;
        let mut rest: Vec<HostSliceMut<'_>> = outputs.iter_mut().map(HostData::as_mut).collect();
        let task = |at: usize| {
            let outputs = rest
                .iter_mut()
                .zip(&self.outputs)
                .map(|(r, (part, _))| r.take(self.elements(*part, self.sizes.rows())));
            Task { batch: at / groups, group: at % groups, outputs: outputs.collect() }
        };
        let tasks: Vec<Task<'_>> = (0..batch * groups).map(task).collect();
        let alone = tasks.len() < rayon::current_num_threads();
        tasks.into_par_iter().with_max_len(1).for_each(|task| self.task::<T>(memory, task, alone));
    }

    /// Elements of a result for so many rows.
    fn elements(&self, part: SdpaPart, rows: usize) -> usize {
        if part == SdpaPart::Output { rows * self.sizes.value_width } else { rows }
    }

    /// `alone`: there are threads that have no other task.
    fn task<T: Number + Real + Scores>(&self, memory: &Memory<'_>, task: Task<'_>, alone: bool) {
        let rows = self.sizes.rows();
        let (queries, keys) = (
            self.length(memory, SdpaOperand::SeqLenQ, task.batch),
            self.length(memory, SdpaOperand::SeqLenKv, task.batch),
        );
        let pieces: Vec<Piece<T>> = (0..keys as usize)
            .step_by(KEYS)
            .map(|first| self.pack(memory, &task, first, KEYS.min(keys as usize - first), alone))
            .collect();
        let mut rest = task.outputs;
        let blocks: Vec<(usize, usize, Vec<HostSliceMut<'_>>)> = (0..rows)
            .step_by(ROWS)
            .map(|first| {
                let n = ROWS.min(rows - first);
                let outputs = rest.iter_mut().zip(&self.outputs).map(|(r, (part, _))| r.take(self.elements(*part, n)));
                (first, n, outputs.collect())
            })
            .collect();
        let (batch, group) = (task.batch, task.group);
        blocks.into_par_iter().with_max_len(1).for_each(|(first, n, mut outputs)| {
            let mut block = Block::<T>::new(self, memory, (batch, group), (first, n), (queries, keys));
            pieces.iter().for_each(|piece| block.pass(piece));
            block.store(&mut outputs);
        });
    }

    /// How many queries or keys a batch entry has.
    fn length(&self, memory: &Memory<'_>, operand: SdpaOperand, batch: usize) -> i64 {
        let all = if operand == SdpaOperand::SeqLenQ { self.sizes.queries } else { self.sizes.keys } as i64;
        self.listed(memory, operand, batch).map_or(all, |n| (n as i64).clamp(0, all))
    }

    /// Element `at` of an operand that is a list.
    fn listed(&self, memory: &Memory<'_>, operand: SdpaOperand, at: usize) -> Option<f64> {
        let found = self.optional.iter().position(|(o, _)| *o == operand)?;
        let (m, (data, base)) = (&self.optional[found].1, memory.optional[found]);
        // A list of n elements has n on one axis and 1 on the others.
        let step = m.dims.iter().zip(m.strides.iter()).find(|(d, _)| **d != 1).map_or(0, |(_, s)| *s);
        Some(data.get((base + m.offset + at as i64 * step) as usize))
    }

    fn pack<T: Number>(
        &self,
        memory: &Memory<'_>,
        task: &Task<'_>,
        first: usize,
        keys: usize,
        parallel: bool,
    ) -> Piece<T> {
        let head = task.group * self.sizes.group;
        let [_, (k_data, k), (v_data, v)] = [0, 1, 2].map(|at| self.head(memory, at, task.batch, head));
        let (mut packed_k, mut packed_v) = (Right::default(), Right::default());
        let [_, ks, vs] = self.tensors.map(|t| t.strides);
        let pieces = [(k + first as i64 * ks[2], self.sizes.width)];
        packed_k.pack(&RightSource { data: k_data, pieces: &pieces, step_k: ks[3], step_n: ks[2], n: keys }, parallel);
        let pieces = [(v + first as i64 * vs[2], keys)];
        let n = self.sizes.value_width;
        packed_v.pack(&RightSource { data: v_data, pieces: &pieces, step_k: vs[2], step_n: vs[3], n }, parallel);
        Piece { first, keys, k: packed_k, v: packed_v }
    }

    /// The memory of q, k or v and where the head that goes with a query head begins in it.
    fn head<'a>(&self, memory: &Memory<'a>, at: usize, batch: usize, head: usize) -> Stored<'a> {
        let (t, (data, base)) = (&self.tensors[at], memory.tensors[at]);
        let own = head as i64 / (self.sizes.heads() as i64 / t.dims[1]);
        (data, base + t.offset + batch as i64 * t.strides[0] + own * t.strides[1])
    }

    /// From the order of the tasks, batch × groups × queries × heads of a group × width, to that of the result.
    fn in_order(&self, o: &Output, data: HostData) -> HostData {
        let Sizes { batch, group, groups, queries, .. } = self.sizes;
        let dims = Dims::collect([batch, groups, queries, group].map(|n| n as i64).into_iter().chain([o.dims[3]]));
        let [b, h, s, d] = [0, 1, 2, 3].map(|a| o.wanted[a]);
        let (made, wanted) = (dims.contiguous_strides(), Dims::collect([b, h * group as i64, s, h, d]));
        let same = (0..dims.len()).all(|a| dims[a] == 1 || made[a] == wanted[a]);
        if same { data } else { rearrange(&data, 0, &dims, &made, &wanted, o.dtype) }
    }
}
