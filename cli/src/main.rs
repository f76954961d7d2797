//! `fused-graph`: what is on this machine, and plans for GPUs that are elsewhere.

mod bake;
mod cache;
mod doctor;

use clap::{Parser, Subcommand};
use fused_graph_core::Error;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "fused-graph",
    version,
    about = "Fused, cached cuDNN graphs: look at a machine, compile plans ahead of time"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Driver, GPU, cuDNN with its parts: what was found where, and whether a small fused function works
    Doctor {
        /// Write the properties of the GPU to this file (`-`: standard output), for `bake --target FILE`
        #[arg(long, value_name = "FILE")]
        device_json: Option<PathBuf>,
    },
    /// Compile the calls of a record (FUSED_GRAPH_RECORD=file) for GPUs, which need not be here
    Bake {
        /// The record
        record: PathBuf,
        /// The bundle to write
        #[arg(short, long, value_name = "BUNDLE")]
        output: PathBuf,
        /// h200, b200, a100, rtx4090, or files that `doctor --device-json` wrote
        #[arg(short, long, value_delimiter = ',', required = true, value_name = "GPU,…")]
        target: Vec<String>,
    },
    /// What becomes of the calls of a record on a GPU: kernels, engines, cuts
    Explain {
        /// The record
        record: PathBuf,
        /// h200, b200, a100, rtx4090, or a file that `doctor --device-json` wrote
        #[arg(short, long, default_value = "h200", value_name = "GPU")]
        target: String,
    },
    /// The store of plans on this machine
    Cache {
        #[command(subcommand)]
        what: cache::What,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Doctor { device_json } => doctor::run(device_json.as_deref()),
        Command::Bake { record, output, target } => bake::run(&record, &output, &target),
        Command::Explain { record, target } => bake::explain(&record, &target),
        Command::Cache { what } => cache::run(&what),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fused-graph: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all went well, or why the command could not do its work.
type Outcome = Result<bool, Error>;

/// A number of bytes as people write it.
fn bytes(n: usize) -> String {
    match n {
        0..=9_999 => format!("{n} B"),
        10_000..=9_999_999 => format!("{} KiB", n >> 10),
        _ => format!("{} MiB", n >> 20),
    }
}
