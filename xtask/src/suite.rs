//! `cargo xtask test`: all that needs no GPU.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::{Executable, Role, Workspace};
use crate::harness::{self, Ignored, Need, Run};
use crate::table::Table;
use crate::wheels::{self, Which};

/// What of the suite to run.
pub(crate) struct Options {
    /// The versions of cuDNN; none with `--quick`.
    cudnn: Vec<Which>,
}

impl Options {
    pub(crate) fn parse(args: &[String]) -> Result<Self> {
        let mut cudnn = Which::ALL.to_vec();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--quick" => cudnn.clear(),
                "--cudnn" => cudnn = vec![Which::parse(args.next().context("--cudnn takes `9.19` or `newest`")?)?],
                other => bail!("`cargo xtask test` takes --quick and --cudnn 9.19|newest, not `{other}`"),
            }
        }
        Ok(Self { cudnn })
    }
}

/// Where the libraries of CUDA are looked for besides the system's folders.
const PLACES: [&str; 5] = ["FUSED_GRAPH_CUDNN_DIR", "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"];

/// Hides a machine's GPU and its CUDA libraries from a program that is run.
fn without_cuda(command: &mut Command) -> &mut Command {
    for place in PLACES {
        command.env_remove(place);
    }
    command.env("CUDA_VISIBLE_DEVICES", "-1")
}

/// The run so far.
#[derive(Default)]
struct Suite {
    table: Table,
    failures: Vec<String>,
}

impl Suite {
    /// Says how an executable fared, with its output if it failed, and returns how many of its tests passed.
    fn note(&mut self, what: &str, run: &Run) -> usize {
        let passed = run.report.passed.len();
        let Some(failure) = &run.failure else {
            println!("  ok      {what}  {passed} passed  {:.1} s", run.time.as_secs_f64());
            return passed;
        };
        println!("{}\n  FAILED  {what}: {failure}", run.output);
        self.failures.push(format!("{what}: {failure}"));
        passed
    }

    fn fail(&mut self, failure: String) {
        println!("  FAILED  {failure}");
        self.failures.push(failure);
    }
}

pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<()> {
    let mut suite = Suite::default();
    let start = Instant::now();
    let built = workspace.build(&[])?;
    let programs = built.iter().filter(|one| one.role != Role::Example).count();
    suite.table.row("build", programs, "programs", start.elapsed(), "");

    let tests = listed(&built, &mut suite)?;
    ordinary(&tests, &mut suite)?;
    doctests(workspace, &mut suite)?;
    with_cudnn(workspace, &tests, &options, &mut suite)?;
    examples(workspace, &built, &mut suite)?;
    let on_gpu = tests.iter().map(|(_, ignored)| ignored.of(Need::Gpu).len()).sum();
    suite.table.left_out("GPU", on_gpu, "tests", "they run on a GPU machine: cargo xtask bundle");

    println!("\n{}", suite.table.render());
    ensure!(suite.failures.is_empty(), "{} failed:\n  {}", suite.failures.len(), suite.failures.join("\n  "));
    Ok(())
}

/// The test executables with their ignored tests. A test ignored for no known reason fails the suite: nobody would ever run it.
fn listed<'a>(built: &'a [Executable], suite: &mut Suite) -> Result<Vec<(&'a Executable, Ignored)>> {
    let mut tests = Vec::new();
    for executable in built.iter().filter(|one| one.role == Role::Test) {
        let ignored = harness::ignored(executable)?;
        for (name, reason) in &ignored.unknown {
            let known = Need::ALL.map(|need| format!("\"{}\"", need.reason())).join(" or ");
            suite.fail(format!(
                "{}: `{name}` is ignored for the reason \"{reason}\"; it must be {known}",
                executable.name()
            ));
        }
        tests.push((executable, ignored));
    }
    Ok(tests)
}

/// The tests that are not ignored, on a machine as bare as can be made of this one.
fn ordinary(tests: &[(&Executable, Ignored)], suite: &mut Suite) -> Result<()> {
    println!("\ntests on the CPU");
    let (start, mut passed) = (Instant::now(), 0);
    for (executable, _) in tests {
        let run = harness::run(without_cuda(&mut executable.command()?))?;
        passed += suite.note(&executable.name(), &run);
    }
    suite.table.row("CPU", passed, "tests", start.elapsed(), format!("{} executables, CUDA hidden", tests.len()));
    Ok(())
}

fn doctests(workspace: &Workspace, suite: &mut Suite) -> Result<()> {
    println!("\ndoctests");
    let mut command = workspace.cargo(&["test", "--doc", "--workspace", "--no-fail-fast"]);
    let run = harness::run(command.env("CUDA_VISIBLE_DEVICES", "-1").env_remove("FUSED_GRAPH_CUDNN_DIR"))?;
    let passed = suite.note("doctests", &run);
    for (name, _) in &run.report.ignored {
        suite.fail(format!("doctest `{name}` is ignored; mark it `no_run`, `compile_fail` or `text` instead"));
    }
    suite.table.row("doctests", passed, "tests", run.time, "");
    Ok(())
}

/// The tests that need cuDNN, once for each version: a process can load but one.
fn with_cudnn(
    workspace: &Workspace,
    tests: &[(&Executable, Ignored)],
    options: &Options,
    suite: &mut Suite,
) -> Result<()> {
    let wanted: usize = tests.iter().map(|(_, ignored)| ignored.of(Need::Cudnn).len()).sum();
    ensure!(wanted > 0, "no test says \"{}\": the tests of the lowering are gone from the build", Need::Cudnn.reason());
    if options.cudnn.is_empty() {
        suite.table.left_out("cuDNN", wanted, "tests", "left out by --quick");
        return Ok(());
    }
    // All of them, whichever are asked for: a test of mixed versions takes a file of another one.
    Which::ALL.into_iter().try_for_each(|which| wheels::ensure(&workspace.root, which).map(drop))?;
    for &which in &options.cudnn {
        let cudnn = wheels::ensure(&workspace.root, which)?;
        println!("\ntests with cuDNN {}", cudnn.version);
        let (start, mut passed) = (Instant::now(), 0);
        for (executable, ignored) in tests {
            let names = ignored.of(Need::Cudnn);
            if names.is_empty() {
                continue;
            }
            let mut command = executable.command()?;
            command.args(["--ignored", "--exact"]).args(names);
            let run = harness::run(without_cuda(&mut command).env("FUSED_GRAPH_CUDNN_DIR", &cudnn.folder))?;
            let what = format!("{} with cuDNN {}", executable.name(), cudnn.version);
            passed += suite.note(&what, &run);
            let lost = not_run(names, &run);
            if !lost.is_empty() {
                suite.fail(format!("{what}: {} of {} tests did not run: {}", lost.len(), names.len(), lost.join(", ")));
            }
        }
        suite.table.row(format!("cuDNN {}", cudnn.version), passed, "tests", start.elapsed(), "no GPU");
    }
    Ok(())
}

/// Those of the tests that the harness does not report as run.
fn not_run<'a>(names: &'a [String], run: &Run) -> Vec<&'a str> {
    let ran: BTreeSet<&str> = run.report.passed.iter().chain(&run.report.failed).map(String::as_str).collect();
    names.iter().map(String::as_str).filter(|name| !ran.contains(name)).collect()
}

/// Every example on the CPU. They check their own numbers and fail by their exit status.
fn examples(workspace: &Workspace, built: &[Executable], suite: &mut Suite) -> Result<()> {
    let examples: Vec<&Executable> = built.iter().filter(|one| one.role == Role::Example).collect();
    println!("\nexamples on the CPU");
    let mut total = Duration::ZERO;
    let mut passed = 0;
    for example in &examples {
        let mut command = example.command()?;
        command.current_dir(&workspace.root);
        let run = harness::run(without_cuda(&mut command))?;
        total += run.time;
        if let Some(failure) = &run.failure {
            println!("{}", run.output);
            suite.fail(format!("example {}: {failure}", example.target));
        } else {
            println!("  ok      {}  {:.1} s", example.target, run.time.as_secs_f64());
            passed += 1;
        }
    }
    suite.table.row("examples", passed, "examples", total, "CUDA hidden");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Report;

    #[test]
    fn a_test_that_was_named_and_did_not_run_is_told() {
        let report = Report { passed: vec!["a".into()], failed: vec!["b".into()], ignored: Vec::new() };
        let run = Run { report, time: Duration::ZERO, failure: None, output: String::new() };
        assert_eq!(not_run(&["a".into(), "b".into(), "c".into()], &run), ["c"]);
    }

    #[test]
    fn options() {
        let parse = |args: &[&str]| Options::parse(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>());
        assert_eq!(parse(&[]).unwrap().cudnn, Which::ALL);
        assert_eq!(parse(&["--quick"]).unwrap().cudnn, []);
        assert_eq!(parse(&["--cudnn", "newest"]).unwrap().cudnn, [Which::Newest]);
        assert!(parse(&["--cudnn"]).is_err());
        assert!(parse(&["--fast"]).is_err());
    }
}
