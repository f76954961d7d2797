//! What tuning found out, as a value and as a table.

use serde::Serialize;
use std::cell::Cell;
use std::fmt;
use std::time::Duration;

/// How a function is tuned.
///
/// ```
/// # use fused_graph_core::tune::TuneOptions;
/// # use std::time::Duration;
/// let options = TuneOptions::default().budget(Duration::from_secs(5)).progress(false);
/// // let report = options.scope(|| conv_bias_relu::tune(&x, &w, &b))?;
/// assert_eq!(options.scope(|| TuneOptions::current().budget), Duration::from_secs(5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TuneOptions {
    /// When it is used up no further candidate is built; those that are built are still timed.
    pub budget: Duration,
    /// Whether a bar shows how far it is, where standard error is a terminal.
    pub progress: bool,
    /// Whether the L2 cache is overwritten before each launch that is timed. Otherwise launches follow each other on the same data.
    pub cold_l2: bool,
    /// Whether a kernel is also compared with its parts.
    pub cuts: bool,
}

impl Default for TuneOptions {
    /// A minute, with a bar, launches that follow each other, cuts included.
    fn default() -> Self {
        TuneOptions { budget: Duration::from_secs(60), progress: true, cold_l2: false, cuts: true }
    }
}

thread_local! {
    static CURRENT: Cell<Option<TuneOptions>> = const { Cell::new(None) };
}

impl TuneOptions {
    /// Sets the time budget.
    pub fn budget(self, budget: Duration) -> Self {
        TuneOptions { budget, ..self }
    }

    /// Turns the bar on or off.
    pub fn progress(self, progress: bool) -> Self {
        TuneOptions { progress, ..self }
    }

    /// Overwrites the L2 cache before each launch.
    pub fn cold_l2(self, cold_l2: bool) -> Self {
        TuneOptions { cold_l2, ..self }
    }

    /// Compares kernels with their parts, or not.
    pub fn cuts(self, cuts: bool) -> Self {
        TuneOptions { cuts, ..self }
    }

    /// Runs `f`; every `tune` that it calls on this thread uses these options.
    pub fn scope<R>(self, f: impl FnOnce() -> R) -> R {
        struct Restore(Option<TuneOptions>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0);
            }
        }
        let _restore = Restore(CURRENT.replace(Some(self)));
        f()
    }

    /// Those of the innermost [`scope`](Self::scope), else the default.
    pub fn current() -> TuneOptions {
        CURRENT.get().unwrap_or_default()
    }
}

/// What tuning found out for one signature. `Display` prints a table; iterating gives the kernels.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TuneReport {
    /// The function.
    pub function: String,
    /// The device and the versions of what was loaded.
    pub device: String,
    /// What the caches held when a launch was timed.
    pub cache_state: String,
    /// The kernels that were chosen, in the order in which they run.
    pub kernels: Vec<TunedKernel>,
    /// Divisions into kernels that were compared, with what each takes: (words, microseconds, whether it was chosen).
    pub divisions: Vec<Division>,
    /// Seconds that it took.
    pub seconds: f64,
    /// Whether the budget was used up before everything was tried.
    pub out_of_budget: bool,
}

/// A way to divide some operations into kernels.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Division {
    /// In words.
    pub words: String,
    /// Microseconds.
    pub micros: f64,
    /// Whether it was chosen.
    pub chosen: bool,
}

/// One kernel with everything that was tried for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TunedKernel {
    /// Its operations, in the user's words.
    pub operations: Vec<String>,
    /// What was tried, fastest first, then what was left out.
    pub candidates: Vec<Candidate>,
    /// Position of what the heuristic would have taken, if it was timed.
    pub default: Option<usize>,
    /// Position of what was chosen: the fastest, or the heuristic's choice where nothing is clearly faster.
    pub chosen: usize,
    /// Floating-point operations of one launch.
    pub flops: u64,
    /// Bytes that one launch reads and writes.
    pub bytes: u64,
    /// Microseconds below which the device cannot be: its arithmetic and its memory at their rates; 0 where they are not known.
    pub roofline_micros: f64,
}

/// What is not faster than this share of the heuristic's choice does not replace it: windows differ by as much.
pub const WORTH: f64 = 0.98;

/// One engine with knobs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Candidate {
    /// Engine and knobs: `eng4_k24=2`.
    pub engine: String,
    /// Other than as written: `residual before bias`, ….
    pub form: String,
    /// Bytes of workspace.
    pub workspace: u64,
    /// What the engine says of itself.
    pub notes: Vec<String>,
    /// Microseconds of a launch, or why it is out.
    pub outcome: Outcome,
}

/// What became of a candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Outcome {
    /// It was timed.
    Timed {
        /// Median of the windows, microseconds a launch.
        median: f64,
        /// The range of the middle half of the windows, over the median.
        spread: f64,
    },
    /// It was left out.
    Excluded(String),
}

impl Candidate {
    /// What was tried.
    pub fn new(engine: String, form: String, workspace: u64, notes: Vec<String>, outcome: Outcome) -> Self {
        Candidate { engine, form, workspace, notes, outcome }
    }

    /// Microseconds of a launch, if it was timed.
    pub fn micros(&self) -> Option<f64> {
        match self.outcome {
            Outcome::Timed { median, .. } => Some(median),
            Outcome::Excluded(_) => None,
        }
    }
}

impl TunedKernel {
    /// A kernel, its candidates put in order. `default` is the position of the heuristic's choice among those given.
    pub fn new(
        operations: Vec<String>,
        candidates: Vec<Candidate>,
        default: Option<usize>,
        work: (u64, u64),
        roofline_micros: f64,
    ) -> Self {
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        let time = |i: &usize| candidates[*i].micros().unwrap_or(f64::INFINITY);
        order.sort_by(|a, b| time(a).total_cmp(&time(b)));
        let default = default.and_then(|d| order.iter().position(|&i| i == d));
        let candidates: Vec<Candidate> = order.into_iter().map(|i| candidates[i].clone()).collect();
        let micros = |at: usize| candidates.get(at).and_then(Candidate::micros);
        let stay = default.filter(|&d| micros(d).zip(micros(0)).is_some_and(|(d, best)| best > WORTH * d));
        let chosen = stay.unwrap_or(0);
        TunedKernel { operations, candidates, default, chosen, flops: work.0, bytes: work.1, roofline_micros }
    }

    /// What was chosen.
    pub fn best(&self) -> Option<&Candidate> {
        self.candidates.get(self.chosen).filter(|c| c.micros().is_some())
    }

    /// Its time over the time of the heuristic's choice.
    pub fn over_default(&self) -> Option<f64> {
        Some(self.best()?.micros()? / self.candidates.get(self.default?)?.micros()?)
    }

    /// How many were timed.
    pub fn timed(&self) -> usize {
        self.candidates.iter().filter(|c| c.micros().is_some()).count()
    }
}

impl TuneReport {
    /// A report of these kernels.
    pub fn new(function: String, device: String, cache_state: String, kernels: Vec<TunedKernel>) -> Self {
        TuneReport { function, device, cache_state, kernels, divisions: Vec::new(), seconds: 0.0, out_of_budget: false }
    }

    /// The kernels.
    pub fn iter(&self) -> std::slice::Iter<'_, TunedKernel> {
        self.kernels.iter()
    }

    /// How many candidates were timed.
    pub fn timed(&self) -> usize {
        self.kernels.iter().map(TunedKernel::timed).sum()
    }
}

impl<'a> IntoIterator for &'a TuneReport {
    type Item = &'a TunedKernel;
    type IntoIter = std::slice::Iter<'a, TunedKernel>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for TuneReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {}", self.function, self.device)?;
        write!(f, "{} candidates timed in {:.1} s, {}", self.timed(), self.seconds, self.cache_state)?;
        writeln!(f, "{}", if self.out_of_budget { "; the budget ended before all were tried" } else { "" })?;
        for (i, kernel) in self.kernels.iter().enumerate() {
            writeln!(f, "\nkernel {} of {}: {}", i + 1, self.kernels.len(), kernel.operations.join(", "))?;
            write_kernel(f, kernel)?;
        }
        if !self.divisions.is_empty() {
            writeln!(f, "\ndivisions into kernels")?;
        }
        for division in &self.divisions {
            let mark = if division.chosen { '▶' } else { ' ' };
            writeln!(f, "{mark} {:>9.2} µs  {}", division.micros, division.words)?;
        }
        Ok(())
    }
}

fn write_kernel(f: &mut fmt::Formatter<'_>, kernel: &TunedKernel) -> fmt::Result {
    if kernel.timed() > 0 {
        writeln!(f, "        µs  spread  TFLOP/s    TB/s  roofline  workspace  engine")?;
    }
    for (i, c) in kernel.candidates.iter().enumerate() {
        let Outcome::Timed { median, spread } = c.outcome else { continue };
        let mark = if i == kernel.chosen { '▶' } else { ' ' };
        let rate = |work: u64| work as f64 / median / 1e6;
        let roofline = match kernel.roofline_micros {
            0.0 => "-".to_owned(),
            bound => format!("{:.0} %", bound / median * 100.0),
        };
        write!(
            f,
            "{mark} {median:>8.2}  {:>4.1} %  {:>7.1}  {:>6.2}  {roofline:>8}  {:>9}  {}",
            spread * 100.0,
            rate(kernel.flops),
            rate(kernel.bytes),
            bytes(c.workspace),
            c.engine
        )?;
        if !c.form.is_empty() {
            write!(f, ", {}", c.form)?;
        }
        if kernel.default == Some(i) {
            let over = kernel.over_default().unwrap_or(1.0);
            write!(f, "  (the heuristic's choice; what was chosen takes {over:.2} of it)")?;
        }
        writeln!(f)?;
    }
    for c in &kernel.candidates {
        if let Outcome::Excluded(why) = &c.outcome {
            writeln!(f, "  left out: {}: {}", c.engine, why.lines().next().unwrap_or_default())?;
        }
    }
    Ok(())
}

fn bytes(n: u64) -> String {
    match n {
        0 => "none".to_owned(),
        1..=1023 => format!("{n} B"),
        1024..=1_048_575 => format!("{} KiB", n >> 10),
        _ => format!("{} MiB", n >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_one_can_read() {
        let timed = |engine: &str, median| {
            let outcome = Outcome::Timed { median, spread: 0.012 };
            Candidate::new(engine.into(), String::new(), 4096, vec![], outcome)
        };
        let out = Candidate::new("eng1".into(), String::new(), 0, vec![], Outcome::Excluded("wrong values".into()));
        let candidates = vec![timed("eng7_k24=21", 20.0), out, timed("eng4_k24=2", 10.0)];
        let kernel = TunedKernel::new(
            vec!["matmul x, w".into(), "relu".into()],
            candidates,
            Some(0),
            (2_000_000_000, 40_000_000),
            8.0,
        );
        assert_eq!(kernel.over_default(), Some(0.5));
        let mut report = TuneReport::new("f".into(), "a GPU".into(), "launches follow each other".into(), vec![kernel]);
        report.seconds = 1.25;
        report.divisions = vec![Division { words: "one kernel".into(), micros: 10.0, chosen: true }];
        let expected = "\
f on a GPU
2 candidates timed in 1.2 s, launches follow each other

kernel 1 of 1: matmul x, w, relu
        µs  spread  TFLOP/s    TB/s  roofline  workspace  engine
▶    10.00   1.2 %    200.0    4.00      80 %      4 KiB  eng4_k24=2
     20.00   1.2 %    100.0    2.00      40 %      4 KiB  eng7_k24=21  (the heuristic's choice; what was chosen takes 0.50 of it)
  left out: eng1: wrong values

divisions into kernels
▶     10.00 µs  one kernel
";
        assert_eq!(report.to_string(), expected);
        assert_eq!((&report).into_iter().count(), 1);
    }
}
