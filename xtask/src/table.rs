//! The summary that ends a run.

use std::time::Duration;

/// What ran, how much of it, and how long it took.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<[String; 4]>,
}

impl Table {
    /// `unit` names what `count` counts: "tests", "examples".
    pub(crate) fn row(
        &mut self,
        what: impl Into<String>,
        count: usize,
        unit: &str,
        time: Duration,
        note: impl Into<String>,
    ) {
        let seconds = format!("{:.1} s", time.as_secs_f64());
        self.rows.push([what.into(), format!("{count} {unit}"), seconds, note.into()]);
    }

    /// A line for what was not run, so that a reader of the summary does not take it for passed.
    pub(crate) fn left_out(&mut self, what: impl Into<String>, count: usize, unit: &str, note: impl Into<String>) {
        self.rows.push([what.into(), format!("{count} {unit}"), "not run".into(), note.into()]);
    }

    pub(crate) fn render(&self) -> String {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let (what, count, time) = (width(0), width(1), width(2));
        let mut text = String::new();
        for row in &self.rows {
            let line = format!("  {:<what$}  {:>count$}  {:>time$}  {}", row[0], row[1], row[2], row[3]);
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::default();
        table.row("CPU", 431, "tests", Duration::from_millis(1250), "");
        table.left_out("GPU", 7, "tests", "cargo xtask bundle");
        assert_eq!(table.render(), "  CPU  431 tests    1.2 s\n  GPU    7 tests  not run  cargo xtask bundle\n");
    }
}
