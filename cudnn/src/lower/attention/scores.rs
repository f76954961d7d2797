//! What changes scores: softcap, bias, slopes, lengths, the band. The pointwise operations are those that the engines recognise, in their order.

use super::{Attention, dense_ones};
use crate::descriptor::Descriptor;
use crate::lower::{Lowering, Refusal};
use cudnn_sys::{AttributeName, DataType, DescriptorType, PointwiseMode as Mode};
use fused_graph_core::DType;
use fused_graph_core::fuse::MemRef;
use fused_graph_core::ir::{SdpaOperand as O, ValueId};
use fused_graph_core::layout::Dims;

const FLOAT: DataType = DataType::FLOAT;
const INT: DataType = DataType::INT32;
const BOOL: DataType = DataType::BOOLEAN;

impl Lowering<'_> {
    /// The scores after softcap, bias and slopes.
    pub(super) fn changed_scores(&mut self, a: &Attention<'_>, mut s: Descriptor) -> Result<Descriptor, Refusal> {
        if let Some(at) = a.attrs.place(O::Softcap) {
            s = self.softcap(a, a.node.inputs[at], s)?;
        }
        if let Some(at) = a.attrs.place(O::Bias) {
            let bias = self.bias(a, a.node.inputs[at])?;
            let y = self.between(a.scores, FLOAT)?;
            self.pointwise_on((Mode::ADD, FLOAT), &[&s, &bias], None, &y)?;
            s = y;
        }
        if let Some(at) = a.attrs.place(O::AlibiSlopes) {
            s = self.alibi(a, a.node.inputs[at], s)?;
        }
        Ok(s)
    }

    /// cap · tanh(s / cap)
    fn softcap(&mut self, a: &Attention<'_>, cap: ValueId, s: Descriptor) -> Result<Descriptor, Refusal> {
        let cap = self.by_value(cap)?;
        let (divided, bent, y) =
            (self.between(a.scores, FLOAT)?, self.between(a.scores, FLOAT)?, self.between(a.scores, FLOAT)?);
        self.pointwise_on((Mode::DIV, FLOAT), &[&s, &cap], None, &divided)?;
        self.pointwise_on((Mode::TANH_FWD, FLOAT), &[&divided], None, &bent)?;
        self.pointwise_on((Mode::MUL, FLOAT), &[&bent, &cap], None, &y)?;
        Ok(y)
    }

    /// The bias with all four axes, of the keys that are looked at.
    fn bias(&mut self, a: &Attention<'_>, v: ValueId) -> Result<Descriptor, Refusal> {
        let seen = self.seen(v);
        let lead = 4 - seen.dims.len();
        let at = |d: &Dims, missing: i64| {
            let axis = |i: usize| if i < lead { missing } else { d[i - lead] };
            Dims::collect((0..4).map(axis))
        };
        let (mut dims, strides) = (at(&seen.dims, 1), at(&seen.strides, 1));
        // What repeats through its strides repeats as an extent of 1.
        for axis in (0..4).filter(|&axis| strides[axis] == 0) {
            dims = dims.with(axis, 1);
        }
        if dims[3] > 1 && strides[3] != 1 {
            let reason = "cuDNN's attention reads a bias whose keys lie one behind another".to_owned();
            return Err(Refusal::Layout { value: v, reason });
        }
        let moved = if dims[3] > 1 { a.first_key * strides[3] } else { 0 };
        dims = if dims[3] > 1 { dims.with(3, a.scores[3]) } else { dims };
        let seen = MemRef { dims, strides, offset: seen.offset + moved, ..seen };
        let shape = dense_ones(dims, strides);
        self.input(v, seen, shape)
    }

    /// A coordinate of each score: its query (axis 2) or its key (axis 3).
    fn coordinate(&mut self, a: &Attention<'_>, s: &Descriptor, axis: i64) -> Result<Descriptor, Refusal> {
        let y = self.between(a.scores, INT)?;
        self.pointwise_along((Mode::GEN_INDEX, INT, Some(axis)), &[s], None, &y)?;
        Ok(y)
    }

    /// Slope times (key - query).
    fn alibi(&mut self, a: &Attention<'_>, slopes: ValueId, s: Descriptor) -> Result<Descriptor, Refusal> {
        let (row, column) = (self.coordinate(a, &s, 2)?, self.coordinate(a, &s, 3)?);
        let distance = self.between(a.scores, INT)?;
        self.pointwise_on((Mode::SUB, INT), &[&column, &row], None, &distance)?;
        let slopes = self.list(slopes, 1)?;
        let (sloped, y) = (self.between(a.scores, FLOAT)?, self.between(a.scores, FLOAT)?);
        self.pointwise_on((Mode::MUL, FLOAT), &[&distance, &slopes], None, &sloped)?;
        self.pointwise_on((Mode::ADD, FLOAT), &[&s, &sloped], None, &y)?;
        Ok(y)
    }

    /// What stands for a score that is not seen.
    fn hidden(&mut self) -> Result<Descriptor, Refusal> {
        let version = self.api.version();
        let lowest = if (version.major, version.minor) < (9, 10) { f32::MIN } else { f32::NEG_INFINITY };
        self.number(f64::from(lowest), DType::F32)
    }

    /// `s` where `seen`, else -∞.
    fn choose(&mut self, a: &Attention<'_>, s: &Descriptor, seen: &Descriptor) -> Result<Descriptor, Refusal> {
        let (hidden, y) = (self.hidden()?, self.between(a.scores, FLOAT)?);
        self.pointwise_on((Mode::BINARY_SELECT, FLOAT), &[s, &hidden], Some(seen), &y)?;
        Ok(y)
    }

    /// Hides what is behind the lengths of a batch entry.
    pub(super) fn padding(&mut self, a: &Attention<'_>, s: Descriptor) -> Result<Descriptor, Refusal> {
        let Some([queries, keys]) = &a.seq_lens else { return Ok(s) };
        let (row, column) = (self.coordinate(a, &s, 2)?, self.coordinate(a, &s, 3)?);
        let [below, before, both] =
            [self.between(a.scores, BOOL)?, self.between(a.scores, BOOL)?, self.between(a.scores, BOOL)?];
        self.pointwise_on((Mode::CMP_LT, BOOL), &[&row, queries], None, &below)?;
        self.pointwise_on((Mode::CMP_LT, BOOL), &[&column, keys], None, &before)?;
        self.pointwise_on((Mode::LOGICAL_AND, BOOL), &[&below, &before], None, &both)?;
        self.choose(a, &s, &both)
    }

    /// Hides what is outside the band, one side after the other. `one_operation`: there is an operation for it (cuDNN 9.21).
    pub(super) fn band(
        &mut self,
        a: &Attention<'_>,
        mut s: Descriptor,
        one_operation: bool,
    ) -> Result<Descriptor, Refusal> {
        if let Some(n) = a.right {
            s = if one_operation { self.right_side(a, n, s)? } else { self.right_by_hand(a, n, s)? };
        }
        if let Some(n) = a.left {
            // A query sees itself as well; cuDNN's bound is the first position that is hidden.
            let bound = n.saturating_add(1).min(i64::from(i32::MAX));
            s = if one_operation { self.left_side(a, bound, s)? } else { self.left_by_hand(a, bound, s)? };
        }
        Ok(s)
    }

    /// The numbers of queries and keys that place the band: lengths where there are some.
    fn placed<'a>(&mut self, a: &'a Attention<'_>) -> Result<[Placed<'a>; 2], Refusal> {
        if let Some([queries, keys]) = &a.seq_lens {
            return Ok([Placed::Lengths(queries), Placed::Lengths(keys)]);
        }
        let mut number = |n: i64| Ok::<_, Refusal>(Placed::Number(self.number(n as f64, DType::I32)?));
        Ok([number(a.scores[2])?, number(a.scores[3])?])
    }

    fn right_side(&mut self, a: &Attention<'_>, right: i64, s: Descriptor) -> Result<Descriptor, Refusal> {
        let placed = if a.attrs.bottom_right { Some(self.placed(a)?) } else { None };
        let shift = if right != 0 { Some(self.number(right as f64, DType::I32)?) } else { None };
        let shift = shift.as_ref().map(|d| (AttributeName::OPERATION_DIAGONAL_BAND_MASK_SHIFT_RIGHT_BOUND_DESC, d));
        self.band_operation(a, s, Mode::CMP_GE, placed.as_ref(), shift)
    }

    fn left_side(&mut self, a: &Attention<'_>, bound: i64, s: Descriptor) -> Result<Descriptor, Refusal> {
        let (bound, placed) = match (a.attrs.bottom_right, &a.seq_lens) {
            (false, _) => (self.number(bound as f64, DType::F32)?, None),
            (true, None) => (self.number((bound - a.scores[3] + a.scores[2]) as f64, DType::F32)?, None),
            (true, Some(_)) => (self.number(bound as f64, DType::I32)?, Some(self.placed(a)?)),
        };
        let bound = (AttributeName::OPERATION_DIAGONAL_BAND_MASK_LEFT_BOUND_DESC, &bound);
        self.band_operation(a, s, Mode::CMP_GT, placed.as_ref(), Some(bound))
    }

    fn band_operation(
        &mut self,
        a: &Attention<'_>,
        s: Descriptor,
        mode: Mode,
        placed: Option<&[Placed<'_>; 2]>,
        bound: Option<(AttributeName, &Descriptor)>,
    ) -> Result<Descriptor, Refusal> {
        let (hidden, y) = (self.hidden()?, self.between(a.scores, FLOAT)?);
        let names = [
            AttributeName::OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_QDESC,
            AttributeName::OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_KVDESC,
        ];
        let operation = Descriptor::build(self.api, DescriptorType::OPERATION_DIAGONAL_BAND_MASK, |d| {
            d.set_descriptors(AttributeName::OPERATION_DIAGONAL_BAND_MASK_XDESC, &[&s])?;
            d.set_descriptors(AttributeName::OPERATION_DIAGONAL_BAND_MASK_BDESC, &[&hidden])?;
            for (name, place) in names.into_iter().zip(placed.into_iter().flatten()) {
                d.set_descriptors(name, &[place.get()])?;
            }
            if let Some((name, bound)) = bound {
                d.set_descriptors(name, &[bound])?;
            }
            d.set(AttributeName::OPERATION_DIAGONAL_BAND_MASK_COMPARISON_MODE, &[mode])?;
            d.set_descriptors(AttributeName::OPERATION_DIAGONAL_BAND_MASK_YDESC, &[&y])
        })?;
        self.operations.push(operation);
        Ok(y)
    }

    /// query + keys - queries + right ≥ key
    fn right_by_hand(&mut self, a: &Attention<'_>, right: i64, s: Descriptor) -> Result<Descriptor, Refusal> {
        let (mut row, column) = (self.coordinate(a, &s, 2)?, self.coordinate(a, &s, 3)?);
        if a.attrs.bottom_right {
            let [queries, keys] = self.placed(a)?;
            row = self.step(a, Mode::ADD, INT, &row, keys.get())?;
            row = self.step(a, Mode::SUB, INT, &row, queries.get())?;
        }
        if right != 0 {
            let right = self.number(right as f64, DType::I32)?;
            row = self.step(a, Mode::ADD, INT, &row, &right)?;
        }
        let seen = self.between(a.scores, BOOL)?;
        self.pointwise_on((Mode::CMP_GE, BOOL), &[&row, &column], None, &seen)?;
        self.choose(a, &s, &seen)
    }

    /// key + left - keys + queries > query
    fn left_by_hand(&mut self, a: &Attention<'_>, bound: i64, s: Descriptor) -> Result<Descriptor, Refusal> {
        let (row, mut column) = (self.coordinate(a, &s, 2)?, self.coordinate(a, &s, 3)?);
        if a.attrs.bottom_right && a.seq_lens.is_some() {
            let (bound, [queries, keys]) = (self.number(bound as f64, DType::I32)?, self.placed(a)?);
            column = self.step(a, Mode::ADD, INT, &column, &bound)?;
            column = self.step(a, Mode::SUB, INT, &column, keys.get())?;
            column = self.step(a, Mode::ADD, INT, &column, queries.get())?;
        } else {
            let moved = if a.attrs.bottom_right { a.scores[2] - a.scores[3] } else { 0 };
            let bound = self.number((bound + moved) as f64, DType::F32)?;
            column = self.step(a, Mode::ADD, FLOAT, &column, &bound)?;
        }
        let seen = self.between(a.scores, BOOL)?;
        self.pointwise_on((Mode::CMP_GT, BOOL), &[&column, &row], None, &seen)?;
        self.choose(a, &s, &seen)
    }

    fn step(
        &mut self,
        a: &Attention<'_>,
        mode: Mode,
        of: DataType,
        x: &Descriptor,
        b: &Descriptor,
    ) -> Result<Descriptor, Refusal> {
        let y = self.between(a.scores, of)?;
        self.pointwise_on((mode, of), &[x, b], None, &y)?;
        Ok(y)
    }
}

/// A number that places the band: one for all, or the lengths.
enum Placed<'a> {
    Lengths(&'a Descriptor),
    Number(Descriptor),
}

impl Placed<'_> {
    fn get(&self) -> &Descriptor {
        match self {
            Placed::Lengths(d) => d,
            Placed::Number(d) => d,
        }
    }
}
