//! "Did you mean": the valid name that is nearest to a misspelt one.

/// `; did you mean `…`?`, or nothing where no name is near.
pub(crate) fn hint<'a>(wrong: &str, valid: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wrong, valid).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

fn nearest<'a>(wrong: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    valid
        .into_iter()
        .map(|name| (distance(&wrong, &name.to_lowercase()), name))
        .filter(|(d, name)| *d <= limit(&wrong, name) || is_abbreviation(&wrong, name))
        .min_by_key(|(d, _)| *d)
        .map(|(_, name)| name)
}

fn limit(wrong: &str, name: &str) -> usize {
    (wrong.chars().count().max(name.chars().count()) / 3).max(1)
}

/// `pad` for `padding`, `dims` is none of `dimension`.
fn is_abbreviation(wrong: &str, name: &str) -> bool {
    wrong.len() >= 3 && name.to_lowercase().starts_with(wrong)
}

/// Edits between two words: insert, delete, replace, or swap two neighbours (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, hint};

    #[test]
    fn edits() {
        assert_eq!(distance("epilouge", "epilogue"), 1, "two neighbours swapped");
        assert_eq!(distance("paddng", "padding"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("bias", "bias"), 0);
    }

    #[test]
    fn near_names_only() {
        let options = ["bias", "scale", "padding", "stride"];
        assert_eq!(hint("pad", options), "; did you mean `padding`?");
        assert_eq!(hint("Strides", options), "; did you mean `stride`?");
        assert_eq!(hint("causal", options), "");
    }
}
