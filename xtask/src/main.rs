//! Tasks of the repository, run as `cargo xtask <task>`.
//!
//! Tests name what they need in the reason of their `#[ignore]` (see [`harness::Need`]), so that every machine runs all it can and says
//! what it left out.

mod bench;
mod bundle;
mod cargo;
mod harness;
mod suite;
mod table;
mod wheels;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
cargo xtask test [--quick] [--cudnn 9.19|newest]
    Every test that needs no GPU, the doctests and the examples on the CPU. Fetches two versions of cuDNN (about 1 GB packed) into
    .wheels/ on the first run; the tests of the lowering run against each. No CUDA, driver or GPU is needed.
    --quick         leave out the tests that need cuDNN, and fetch nothing
    --cudnn WHICH   run them against this one version only
cargo xtask wheels
    Fetch the cuDNN versions and print where they are, for a `cargo test -- --ignored` by hand.
    `rm -r .wheels/cudnn-newest` makes the next run ask for the newest version again.
cargo xtask bundle [--out DIR]
    Build the GPU tests, the examples and the benchmarks, stripped, into one folder (.gpu/ unless told) that runs on a GPU machine
    without Rust: `bash .gpu/run.sh tests`, `… examples`, `… bench`.
cargo xtask bench [NAME] [-- ARGS]
    The benchmarks on this machine; with NAME, the one of that name.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let Some((task, rest)) = args.split_first() else {
        println!("{USAGE}");
        return Ok(());
    };
    let workspace = cargo::Workspace::find()?;
    match task.as_str() {
        "test" => suite::run(&workspace, suite::Options::parse(rest)?),
        "wheels" => wheels::print_all(&workspace.root),
        "bundle" => bundle::run(&workspace, rest),
        "bench" => bench::run(&workspace, rest),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        other => bail!("there is no task `{other}`\n\n{USAGE}"),
    }
}
