//! Where intermediates lie within the scratch memory of a call: those that are not alive at the same time share their place.

use super::executable::bytes;
use super::kernels::Kernel;
use crate::compile::{Program, Step};
use fused_graph_core::fuse;
use fused_graph_core::ir::{Graph, ValueId};
use std::sync::Arc;

/// What has a place in the scratch memory of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    /// A value between two kernels.
    Value(ValueId),
    /// The dense copy of an operand.
    Copy(ValueId),
    /// cuDNN's workspace or a reduction's scratch memory in this step.
    Workspace(usize),
}

/// Places for everything between the kernels.
pub(super) fn plan_memory(program: &Program<Arc<Kernel>>, written: &[ValueId]) -> (Vec<(Place, u64)>, u64) {
    let graph = &*program.graph;
    let mut found: Vec<(Place, Need)> = Vec::new();
    let mut add = |place, bytes, at| add(&mut found, place, bytes, at);
    for (at, step) in program.steps.iter().enumerate() {
        let outputs: &[ValueId] = match step {
            Step::Cudnn { group, plan } => {
                add(Place::Workspace(at), plan.workspace, at);
                &group.outputs
            }
            Step::Own { group, kernel, .. } => {
                add(Place::Workspace(at), kernel.scratch(), at);
                &group.outputs
            }
            Step::View { group, .. } => &group.outputs,
            Step::Copy { value, dims, .. } => {
                add(Place::Copy(*value), (dims.numel() * graph.value(*value).dtype.size()) as u64, at);
                &[]
            }
        };
        for &v in outputs.iter().filter(|v| !written.contains(v)) {
            add(Place::Value(v), bytes(graph, v) as u64, at);
        }
    }
    for (at, step) in program.steps.iter().enumerate() {
        for read in reads(graph, step) {
            for (_, need) in found.iter_mut().filter(|(place, _)| *place == read) {
                need.to = need.to.max(at);
            }
        }
    }
    let needs: Vec<Need> = found.iter().map(|f| f.1).collect();
    let (offsets, size) = place(&needs);
    (found.iter().map(|f| f.0).zip(offsets).collect(), size)
}

/// Notes that a step writes to a place. Two copies of one operand, which two kernels may want in different dims, share theirs.
fn add(found: &mut Vec<(Place, Need)>, place: Place, bytes: u64, at: usize) {
    match found.iter_mut().find(|(known, _)| *known == place) {
        Some((_, need)) => (need.bytes, need.to) = (need.bytes.max(bytes), at),
        None if bytes > 0 => found.push((place, Need { bytes, from: at, to: at })),
        None => {}
    }
}

/// What a step reads of the scratch memory.
fn reads(graph: &Graph, step: &Step<Arc<Kernel>>) -> Vec<Place> {
    let base = |v: &ValueId| Place::Value(fuse::resolve(graph, *v).base);
    match step {
        Step::Copy { value, .. } => vec![base(value)],
        Step::View { group, .. } | Step::Own { group, .. } | Step::Cudnn { group, .. } => {
            let views = group.nodes.iter().flat_map(|n| graph.node(*n).inputs.iter());
            group.inputs.iter().chain(views).flat_map(|v| [base(v), Place::Copy(*v)]).collect()
        }
    }
}

/// Something that lives from one step to another.
#[derive(Clone, Copy, Debug)]
struct Need {
    /// Bytes.
    bytes: u64,
    /// The step that writes it.
    from: usize,
    /// The last step that reads it.
    to: usize,
}

const ALIGNMENT: u64 = 256;

/// An offset for each need, and the size of the whole.
fn place(needs: &[Need]) -> (Vec<u64>, u64) {
    let mut offsets = vec![0; needs.len()];
    let mut order: Vec<usize> = (0..needs.len()).collect();
    // Large ones first: the others fit between.
    order.sort_by_key(|&i| (std::cmp::Reverse(needs[i].bytes), i));
    let mut placed: Vec<usize> = Vec::new();
    let mut size = 0;
    for i in order {
        let need = needs[i];
        let mut taken: Vec<(u64, u64)> = placed
            .iter()
            .filter(|&&j| needs[j].from <= need.to && need.from <= needs[j].to)
            .map(|&j| (offsets[j], offsets[j] + needs[j].bytes))
            .collect();
        taken.sort();
        let mut at = 0;
        for (start, end) in taken {
            if at + need.bytes <= start {
                break;
            }
            at = at.max(end.next_multiple_of(ALIGNMENT));
        }
        offsets[i] = at;
        size = size.max(at + need.bytes);
        placed.push(i);
    }
    (offsets, size)
}

#[cfg(test)]
mod tests {
    use super::{Need, Place, add, place};
    use fused_graph_core::ir::ValueId;

    #[test]
    fn places_are_shared_in_time_only() {
        let need = |bytes, from, to| Need { bytes, from, to };
        let needs = [need(1000, 0, 1), need(1000, 1, 2), need(1000, 2, 3), need(10, 0, 3)];
        let (at, size) = place(&needs);
        assert_eq!(at[0], at[2]);
        assert!(size <= 3 * 1024);
        for (i, a) in needs.iter().enumerate() {
            for (j, b) in needs.iter().enumerate().filter(|(j, b)| *j != i && a.from <= b.to && b.from <= a.to) {
                assert!(at[i] + a.bytes <= at[j] || at[j] + b.bytes <= at[i], "{i} and {j} overlap");
            }
        }
        assert_eq!(place(&[]), (vec![], 0));
    }

    #[test]
    fn copies_of_one_operand_have_room_for_the_largest() {
        let (mut found, copy) = (Vec::new(), Place::Copy(ValueId::from_index(1)));
        add(&mut found, copy, 1000, 0);
        add(&mut found, copy, 4000, 2);
        add(&mut found, Place::Workspace(2), 0, 2);
        let needs: Vec<_> = found.iter().map(|(place, n)| (*place, n.bytes, n.from, n.to)).collect();
        assert_eq!(needs, [(copy, 4000, 0, 2)]);
    }
}
