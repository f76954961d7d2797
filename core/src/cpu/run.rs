//! Runs one kernel: its elements are divided among the threads, each part of the core's result gets its epilogue while it is in cache.

use super::conv::PreparedData;
use super::gemm::{Number, Right};
use super::lower::{Core, Kernel};
use super::matmul::PreparedLeft;
use super::program::{Frame, Memory, Tile};
use super::reduce::{Accumulator, Reduction};
use super::registers::Class;
use crate::ir::ValueId;
use crate::layout::Dims;
use crate::tensor::{HostData, HostSliceMut, rearrange};
use rayon::prelude::*;
use std::ops::Range;

/// Below this many elements (times the depth of a core) threads cost more than they give.
const SEQUENTIAL: usize = 1 << 14;
/// Rows and bytes of a tile: it stays in the second-level cache together with a panel.
const TILE_ROWS: usize = 96;
const TILE_BYTES: usize = 1 << 19;

/// The memory of a value: the elements and the offset of the first one.
pub(super) type Stored<'a> = (&'a HostData, i64);

/// Calls `f` with each item, on all threads if there is more than a handful.
pub(super) fn parallel<I: Send>(items: Vec<I>, f: impl Fn(I) + Sync + Send) {
    if items.len() < 4 || rayon::current_num_threads() == 1 {
        items.into_iter().for_each(f);
    } else {
        items.into_par_iter().for_each(f);
    }
}

/// A part of a kernel's work: a range of blocks, or of rows of a core operation.
struct Job<'a> {
    range: Range<usize>,
    /// Which right operand the rows have.
    right: usize,
    outputs: Vec<HostSliceMut<'a>>,
}

impl Kernel {
    /// Runs the kernel; gives its results with the values they are. Memory for them is taken from `spare` where it fits.
    pub(super) fn run<'a>(
        &self,
        memory: &impl Fn(ValueId) -> Stored<'a>,
        scalars: &[f64],
        spare: &mut Vec<HostData>,
    ) -> Vec<(ValueId, HostData)> {
        let sources: Vec<Stored<'_>> = self.program.sources.iter().map(|s| memory(s.value)).collect();
        let mut outputs: Vec<HostData> = self.outputs.iter().map(|o| o.memory(spare)).collect();
        let partial = match &self.core {
            None => self.run_pointwise(&sources, scalars, &mut outputs),
            Some((core, operands, class)) => {
                let operands = [memory(operands[0]), memory(operands[1])];
                match class {
                    Class::F64 => self.run_core::<f64>(core, operands, &sources, scalars, &mut outputs),
                    Class::Int => self.run_core::<i32>(core, operands, &sources, scalars, &mut outputs),
                    _ => self.run_core::<f32>(core, operands, &sources, scalars, &mut outputs),
                }
            }
        };
        let mut results = Vec::new();
        for (o, data) in self.outputs.iter().zip(outputs) {
            let data = if o.in_place() { data } else { rearrange(&data, 0, &o.dims, &o.made, &o.wanted, o.dtype) };
            results.push((o.value, data));
        }
        results.extend(self.reduced(partial));
        results
    }

    fn reduced(&self, partial: Vec<Vec<Accumulator>>) -> Vec<(ValueId, HostData)> {
        let mut totals: Vec<Accumulator> = self.reductions.iter().map(|(_, r)| Accumulator::new(r)).collect();
        for part in &partial {
            totals.iter_mut().zip(part).for_each(|(t, p)| t.merge(p));
        }
        let finished = |((value, r), total): (&(ValueId, Reduction), Accumulator)| {
            let (data, made) = (total.finish(r), r.dims.contiguous_strides());
            let data = if made == r.strides { data } else { rearrange(&data, 0, &r.dims, &made, &r.strides, r.dtype) };
            (*value, data)
        };
        self.reductions.iter().zip(totals).map(finished).collect()
    }

    fn accumulators(&self) -> Vec<Accumulator> {
        self.reductions.iter().map(|(_, r)| Accumulator::new(r)).collect()
    }

    /// Divides the outputs among jobs. `elements`: of each range.
    fn jobs<'a>(
        outputs: &'a mut [HostData],
        ranges: Vec<(Range<usize>, usize)>,
        elements: impl Fn(&Range<usize>) -> usize,
    ) -> Vec<Job<'a>> {
        let mut rest: Vec<HostSliceMut<'a>> = outputs.iter_mut().map(HostData::as_mut).collect();
        let mut jobs = Vec::with_capacity(ranges.len());
        for (range, right) in ranges {
            let n = elements(&range);
            jobs.push(Job { range, right, outputs: rest.iter_mut().map(|o| o.take(n)).collect() });
        }
        jobs
    }

    fn run_pointwise(&self, sources: &Memory<'_>, scalars: &[f64], outputs: &mut [HostData]) -> Vec<Vec<Accumulator>> {
        let (blocks, total) = (self.space.block_count(), self.space.dims.numel());
        let threads = rayon::current_num_threads();
        // Every job has partial results of its own: few jobs where these are large.
        let large = self.reductions.iter().any(|(_, r)| r.len > 1 << 14);
        let parts = if total < SEQUENTIAL { 1 } else { threads * if large { 1 } else { 4 } };
        let per = blocks.div_ceil(parts);
        let ranges = (0..blocks).step_by(per.max(1)).map(|b| (b..(b + per).min(blocks), 0)).collect();
        let start = |block: usize| {
            if block == blocks { total } else { self.space.block(block).start(&self.space) }
        };
        let jobs = Self::jobs(outputs, ranges, |r| start(r.end) - start(r.start));
        let work = |frame: &mut Frame<'_>, mut job: Job<'_>| {
            let mut accumulators = self.accumulators();
            let first = start(job.range.start);
            for i in job.range {
                let block = self.space.block(i);
                let at = block.start(&self.space) - first;
                frame.run(&block, (0, at), Tile::None, &mut job.outputs, &mut accumulators);
            }
            accumulators
        };
        let frame = || Frame::new(&self.program, &self.space, sources, scalars);
        if jobs.len() == 1 {
            let mut frame = frame();
            return jobs.into_iter().map(|j| work(&mut frame, j)).collect();
        }
        jobs.into_par_iter().with_max_len(1).map_init(frame, work).collect()
    }

    fn run_core<T: Number>(
        &self,
        core: &Core,
        operands: [Stored<'_>; 2],
        sources: &Memory<'_>,
        scalars: &[f64],
        outputs: &mut [HostData],
    ) -> Vec<Vec<Accumulator>> {
        let prepared = Prepared::<T>::new(core, operands);
        let columns = self.space.inner();
        let rows = self.space.dims.numel() / columns;
        let sequential = rows * columns * prepared.depth() < SEQUENTIAL * 64;
        let tile_rows =
            tile_rows(rows, columns, size_of::<T>(), if sequential { 1 } else { rayon::current_num_threads() });
        let (rights, ranges) = prepared.divide(operands[1], rows, tile_rows, sequential);
        let jobs = Self::jobs(outputs, ranges, |r| r.len() * columns);
        let state = || State {
            frame: Frame::new(&self.program, &self.space, sources, scalars),
            tile: vec![T::default(); tile_rows.min(rows) * columns],
            right: Right::default(),
        };
        let work = |state: &mut State<'_, T>, mut job: Job<'_>| {
            let mut accumulators = self.accumulators();
            let State { frame, tile, right } = state;
            if rights.is_empty() {
                prepared.pack(job.right, operands[1], right, false);
            }
            let own = std::slice::from_ref(right);
            let rights = if rights.is_empty() { own } else { &rights };
            for first in job.range.clone().step_by(tile_rows) {
                let rows = first..(first + tile_rows).min(job.range.end);
                let tile = &mut tile[..rows.len() * columns];
                prepared.tile(rights, job.right, rows.clone(), tile);
                for block in self.space.blocks(rows) {
                    let in_tile = (block.row - first) * columns + block.column;
                    let in_job = in_tile + (first - job.range.start) * columns;
                    frame.run(&block, (in_tile, in_job), T::tile(tile), &mut job.outputs, &mut accumulators);
                }
            }
            accumulators
        };
        if jobs.len() == 1 || sequential {
            let mut state = state();
            return jobs.into_iter().map(|j| work(&mut state, j)).collect();
        }
        jobs.into_par_iter().with_max_len(1).map_init(state, work).collect()
    }
}

struct State<'a, T: Number> {
    frame: Frame<'a>,
    tile: Vec<T>,
    right: Right<T>,
}

/// Rows of a tile, so that the tiles divide evenly among the threads.
fn tile_rows(rows: usize, columns: usize, size: usize, threads: usize) -> usize {
    let most = (TILE_BYTES / (columns * size)).clamp(6, TILE_ROWS);
    let tiles = rows.div_ceil(most).next_multiple_of(threads);
    rows.div_ceil(tiles).next_multiple_of(6)
}

/// A core operation with its operands as the inner kernels want them.
enum Prepared<'a, T: Number> {
    Matmul(&'a super::matmul::Matmul, PreparedLeft<'a, T>),
    Conv(&'a super::conv::Conv, PreparedData<'a, T>),
}

impl<'a, T: Number> Prepared<'a, T> {
    fn new(core: &'a Core, [a, b]: [Stored<'a>; 2]) -> Self {
        match core {
            Core::Matmul(m) => Prepared::Matmul(m, m.left(a.0, a.1)),
            Core::Conv(c) => Prepared::Conv(c, c.prepare(a, b)),
        }
    }

    /// Products that are added for one element.
    fn depth(&self) -> usize {
        match self {
            Prepared::Matmul(m, _) => m.k,
            Prepared::Conv(c, _) => c.depth(),
        }
    }

    fn pack(&self, index: usize, (data, base): Stored<'_>, right: &mut Right<T>, parallel: bool) {
        match self {
            Prepared::Matmul(m, _) => m.pack(index, data, base, right, parallel),
            Prepared::Conv(c, _) => c.pack(index, data, base, right, parallel),
        }
    }

    /// The right operands, unless each job packs its own, and the rows of each job with its right operand.
    #[allow(clippy::type_complexity, reason = "two lists")]
    fn divide(
        &self,
        b: Stored<'_>,
        rows: usize,
        tile_rows: usize,
        sequential: bool,
    ) -> (Vec<Right<T>>, Vec<(Range<usize>, usize)>) {
        let all = |count: usize| {
            let mut rights = vec![Right::default(); count];
            for (i, right) in rights.iter_mut().enumerate() {
                self.pack(i, b, right, !sequential);
            }
            rights
        };
        let tiles = |run: Range<usize>, right: usize| {
            let end = run.end;
            run.step_by(tile_rows).map(move |r| (r..(r + tile_rows).min(end), right))
        };
        match self {
            Prepared::Conv(c, _) => (all(c.rights()), tiles(0..rows, 0).collect()),
            // Many right operands: each thread packs one and uses it at once, while it is in its cache.
            Prepared::Matmul(m, _) if m.rights() >= 2 * rayon::current_num_threads() => (Vec::new(), m.runs()),
            Prepared::Matmul(m, _) => {
                (all(m.rights()), m.runs().into_iter().flat_map(|(run, right)| tiles(run, right)).collect())
            }
        }
    }

    fn tile(&self, rights: &[Right<T>], right: usize, rows: Range<usize>, tile: &mut [T]) {
        match self {
            Prepared::Matmul(m, left) => {
                let right = rights.get(right).unwrap_or(&rights[0]);
                m.tile(left, right, rows, tile);
            }
            Prepared::Conv(c, data) => c.tile(data, rights, rows, tile),
        }
    }
}

/// A copy of what a view that strides cannot express looks at, in row-major order.
pub(super) fn copy((data, base): Stored<'_>, seen: &crate::fuse::MemRef, dims: &Dims, wanted: &Dims) -> HostData {
    let dense = seen.dims.contiguous_strides();
    let rows = rearrange(data, base + seen.offset, &seen.dims, &seen.strides, &dense, data.dtype());
    let made = dims.contiguous_strides();
    if made == *wanted { rows } else { rearrange(&rows, 0, dims, &made, wanted, data.dtype()) }
}
