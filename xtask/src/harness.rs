//! Running test executables of the standard harness, and reading what they say.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::Executable;

/// What a test needs that not every machine has. A test says it in the reason of its `#[ignore]`, word for word:
///
/// - `#[ignore = "needs cuDNN; cargo xtask test brings it"]`
/// - `#[ignore = "needs a GPU; cargo xtask bundle"]`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    Cudnn,
    Gpu,
}

impl Need {
    pub(crate) const ALL: [Self; 2] = [Self::Cudnn, Self::Gpu];

    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Cudnn => "needs cuDNN; cargo xtask test brings it",
            Self::Gpu => "needs a GPU; cargo xtask bundle",
        }
    }
}

/// The ignored tests of one executable, by what they need.
#[derive(Default)]
pub(crate) struct Ignored {
    pub(crate) cudnn: Vec<String>,
    pub(crate) gpu: Vec<String>,
    /// Tests ignored for another reason than [`Need`] knows, or for none, with that reason.
    pub(crate) unknown: Vec<(String, String)>,
}

impl Ignored {
    pub(crate) fn of(&self, need: Need) -> &[String] {
        match need {
            Need::Cudnn => &self.cudnn,
            Need::Gpu => &self.gpu,
        }
    }
}

/// What the harness said of a run.
#[derive(Default, Debug)]
pub(crate) struct Report {
    pub(crate) passed: Vec<String>,
    pub(crate) failed: Vec<String>,
    pub(crate) ignored: Vec<(String, String)>,
}

/// A finished run of one executable.
pub(crate) struct Run {
    pub(crate) report: Report,
    pub(crate) time: Duration,
    /// Why the run counts as failed, if it does.
    pub(crate) failure: Option<String>,
    pub(crate) output: String,
}

/// Runs a test executable or `cargo test --doc`, holding its output back.
pub(crate) fn run(command: &mut Command) -> Result<Run> {
    let start = Instant::now();
    let output = command.output().with_context(|| format!("running {}", command.get_program().display()))?;
    let time = start.elapsed();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let report = parse(&stdout);
    let failure = if !report.failed.is_empty() {
        Some(format!("{} failed: {}", report.failed.len(), report.failed.join(", ")))
    } else if output.status.code().is_none() {
        Some(format!("died ({}); `-- --test-threads=1 --nocapture` shows in which test", output.status))
    } else if !output.status.success() {
        Some(format!("{}", output.status))
    } else {
        None
    };
    let output = format!("{stdout}{}", String::from_utf8_lossy(&output.stderr));
    Ok(Run { report, time, failure, output })
}

/// Reads lines such as `test tensor::strides ... ok` and `test plan::h200 ... ignored, needs cuDNN; …`.
pub(crate) fn parse(output: &str) -> Report {
    let mut report = Report::default();
    for line in output.lines() {
        let Some((name, result)) = line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... ")) else {
            continue;
        };
        // The harness tells what a test or doctest expects after its name.
        let name = [" - should panic", " - compile fail", " - compile"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name);
        let name = name.to_owned();
        if result == "ok" {
            report.passed.push(name);
        } else if result.starts_with("FAILED") {
            report.failed.push(name);
        } else if let Some(reason) = result.strip_prefix("ignored") {
            report.ignored.push((name, reason.strip_prefix(", ").unwrap_or_default().to_owned()));
        }
    }
    report
}

/// The ignored tests of an executable, by the reason of each.
///
/// The harness's list has no reasons; its report of a run has. So the ignored tests alone are asked for without `--ignored`: none of them
/// runs and each is reported.
pub(crate) fn ignored(executable: &Executable) -> Result<Ignored> {
    let mut list = executable.command()?;
    let output = list.args(["--list", "--format", "terse", "--ignored"]).output()?;
    ensure!(output.status.success(), "{} --list: {}", executable.name(), String::from_utf8_lossy(&output.stderr));
    let listing = String::from_utf8_lossy(&output.stdout);
    let names: Vec<&str> = listing.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let mut found = Ignored::default();
    if names.is_empty() {
        return Ok(found);
    }
    let run = run(executable.command()?.arg("--exact").args(&names))?;
    if run.report.ignored.len() != names.len() {
        bail!("{} lists {} ignored tests and reports others:\n{}", executable.name(), names.len(), run.output);
    }
    for (name, reason) in run.report.ignored {
        match Need::ALL.into_iter().find(|need| need.reason() == reason) {
            Some(Need::Cudnn) => found.cudnn.push(name),
            Some(Need::Gpu) => found.gpu.push(name),
            None => found.unknown.push((name, reason)),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_line_by_line() {
        let report = parse(
            "\nrunning 5 tests\ntest a::b ... ok\ntest c - should panic ... ok\ntest d ... FAILED\ntest e ... ignored\n\
             test f ... ignored, needs a GPU; cargo xtask bundle\ntest src/lib.rs - g (line 3) - compile ... ok\n\n\
             test result: FAILED. 2 passed; 1 failed; 2 ignored\n",
        );
        assert_eq!(report.passed, ["a::b", "c", "src/lib.rs - g (line 3)"]);
        assert_eq!(report.failed, ["d"]);
        assert_eq!(report.ignored, [("e".into(), String::new()), ("f".into(), Need::Gpu.reason().into())]);
    }
}
