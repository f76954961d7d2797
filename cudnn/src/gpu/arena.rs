//! Where intermediates lie within the scratch memory of a call: those that are not alive at the same time share their place.

/// Something that lives from one step to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// Bytes.
    pub(super) bytes: u64,
    /// The step that writes it.
    pub(super) from: usize,
    /// The last step that reads it.
    pub(super) to: usize,
}

const ALIGNMENT: u64 = 256;

/// An offset for each need, and the size of the whole.
pub(super) fn place(needs: &[Need]) -> (Vec<u64>, u64) {
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
    use super::{Need, place};

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
}
