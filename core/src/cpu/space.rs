//! The elements that a kernel visits, in the order in which it visits them.

use crate::layout::{Dims, MAX_RANK};

/// Most elements that go through the registers of a program at once: a few kilobytes each, so a dozen stay in the first-level cache.
pub(super) const CHUNK: usize = 1024;

/// Where an operand of every element lies: strides along the axes of a [`Space`], 0 where it repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) strides: Dims,
    pub(super) offset: i64,
    /// The elements of any block lie behind each other, in its own order.
    pub(super) dense: bool,
    /// The same element everywhere.
    pub(super) uniform: bool,
}

/// Extents from the outermost axis to the innermost, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) dims: Dims,
}

/// Whole rows of a space, or a part of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) row: usize,
    pub(super) rows: usize,
    pub(super) column: usize,
    pub(super) columns: usize,
}

impl Block {
    pub(super) fn len(&self) -> usize {
        self.rows * self.columns
    }

    /// The elements of the space before it.
    pub(super) fn start(&self, space: &Space) -> usize {
        self.row * space.inner() + self.column
    }
}

impl Space {
    /// The innermost extent.
    pub(super) fn inner(&self) -> usize {
        self.dims.last().map_or(1, |&d| d as usize)
    }

    pub(super) fn rows(&self) -> usize {
        self.dims[..self.dims.len().saturating_sub(1)].iter().product::<i64>() as usize
    }

    /// How many blocks the whole space has.
    pub(super) fn block_count(&self) -> usize {
        let inner = self.inner();
        self.rows().div_ceil((CHUNK / inner).max(1)) * inner.div_ceil(CHUNK)
    }

    /// The elements before block `index`, and the block.
    pub(super) fn block(&self, index: usize) -> Block {
        let inner = self.inner();
        let (together, pieces) = ((CHUNK / inner).max(1), inner.div_ceil(CHUNK));
        let (row, column) = (index / pieces * together, index % pieces * CHUNK);
        Block { row, rows: together.min(self.rows() - row), column, columns: CHUNK.min(inner - column) }
    }

    /// The blocks of `rows`, each at most [`CHUNK`] elements.
    pub(super) fn blocks(&self, rows: std::ops::Range<usize>) -> impl Iterator<Item = Block> + use<> {
        let inner = self.inner();
        let together = (CHUNK / inner).max(1);
        rows.clone().step_by(together).flat_map(move |row| {
            let count = together.min(rows.end - row);
            (0..inner).step_by(CHUNK).map(move |column| Block {
                row,
                rows: count,
                column,
                columns: CHUNK.min(inner - column),
            })
        })
    }

    /// For each row of a block, the offset of its first element.
    pub(super) fn for_each_row(&self, block: &Block, access: &Access, mut f: impl FnMut(usize, i64)) {
        let outer = self.dims.len().saturating_sub(1);
        let inner = access.strides.last().copied().unwrap_or(0);
        let mut index = [0i64; MAX_RANK];
        let mut rest = block.row as i64;
        for axis in (0..outer).rev() {
            index[axis] = rest % self.dims[axis];
            rest /= self.dims[axis];
        }
        let mut at = access.offset + block.column as i64 * inner;
        at += (0..outer).map(|a| index[a] * access.strides[a]).sum::<i64>();
        for row in 0..block.rows {
            f(row, at);
            for axis in (0..outer).rev() {
                index[axis] += 1;
                at += access.strides[axis];
                if index[axis] < self.dims[axis] {
                    break;
                }
                at -= access.strides[axis] * self.dims[axis];
                index[axis] = 0;
            }
        }
    }

    /// The access with this space's axes.
    pub(super) fn access(&self, strides: Dims, offset: i64) -> Access {
        let dense = self.dims.contiguous_strides();
        let same = |want: &Dims| (0..self.dims.len()).all(|a| self.dims[a] == 1 || strides[a] == want[a]);
        let zero = Dims::splat(0, self.dims.len());
        Access { strides, offset, dense: same(&dense), uniform: same(&zero) }
    }
}

/// Merges neighbouring axes that all operands walk through in one go. `keep_inner`: the innermost axis stays what it is.
pub(super) fn collapse(dims: &Dims, accesses: &mut [Dims], keep_inner: bool) -> Dims {
    let rank = dims.len();
    let mut groups: Vec<(i64, Vec<i64>)> = Vec::new();
    for axis in 0..rank {
        let strides: Vec<i64> = accesses.iter().map(|a| a[axis]).collect();
        let last = keep_inner && axis + 1 == rank;
        if dims[axis] == 1 && !last {
            continue;
        }
        match groups.last_mut() {
            Some((extent, outer)) if !last && outer.iter().zip(&strides).all(|(&o, &s)| o == s * dims[axis]) => {
                *extent *= dims[axis];
                *outer = strides;
            }
            _ => groups.push((dims[axis], strides)),
        }
    }
    if groups.is_empty() {
        groups.push((1, vec![0; accesses.len()]));
    }
    for (i, access) in accesses.iter_mut().enumerate() {
        *access = Dims::collect(groups.iter().map(|g| g.1[i]));
    }
    Dims::collect(groups.iter().map(|g| g.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_lie_behind_each_other_merge() {
        let d = |v: &[i64]| Dims::collect(v.iter().copied());
        let mut accesses = [d(&[12, 4, 1]), d(&[0, 4, 1])];
        assert_eq!(collapse(&d(&[2, 3, 4]), &mut accesses, false), d(&[2, 12]));
        assert_eq!(accesses, [d(&[12, 1]), d(&[0, 1])]);
        let mut accesses = [d(&[12, 4, 1])];
        assert_eq!(collapse(&d(&[2, 3, 4]), &mut accesses, true), d(&[6, 4]));
        assert_eq!(collapse(&Dims::EMPTY, &mut [Dims::EMPTY], false), d(&[1]));
    }

    #[test]
    fn blocks_cover_everything_once() {
        for dims in [vec![5, 3], vec![2, 3000], vec![1], vec![3, 1024], vec![7, 1]] {
            let space = Space { dims: Dims::collect(dims.iter().copied()) };
            let total: usize = space.blocks(0..space.rows()).map(|b| b.len()).sum();
            assert_eq!(total as i64, dims.iter().product::<i64>());
            assert!(space.blocks(0..space.rows()).all(|b| b.len() <= CHUNK));
            let counted: Vec<Block> = (0..space.block_count()).map(|i| space.block(i)).collect();
            assert!(counted.into_iter().eq(space.blocks(0..space.rows())));
        }
    }

    #[test]
    fn rows_of_a_strided_operand() {
        let space = Space { dims: Dims::collect([2, 3, 4]) };
        let access = space.access(Dims::collect([100, 10, 1]), 5);
        let mut seen = Vec::new();
        space.for_each_row(&Block { row: 1, rows: 4, column: 2, columns: 2 }, &access, |r, at| seen.push((r, at)));
        assert_eq!(seen, [(0, 17), (1, 27), (2, 107), (3, 117)]);
    }
}
