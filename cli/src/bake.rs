//! `bake` and `explain`.

use crate::{Outcome, bytes};
use fused_graph_core::Error;
use fused_graph_core::record::Record;
use fused_graph_cudnn::bake;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::Path;
use std::time::Instant;

/// Compiles, shows how far it is, and sums up what each GPU got.
pub(crate) fn run(record: &Path, output: &Path, targets: &[String]) -> Outcome {
    let record = read(record)?;
    let gpus = targets.iter().map(|t| gpu(t)).collect::<Result<Vec<String>, Error>>()?;
    let bar = ProgressBar::new((record.calls.len() * gpus.len()) as u64);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} plans, {elapsed}") {
        bar.set_style(style);
    }
    let start = Instant::now();
    let baked = bake::bake(&record, &gpus, |done| bar.set_position(done as u64))?;
    bar.finish_and_clear();
    baked.bundle.write(output)?;
    println!("{:<44} {:>6} {:>12}", "GPU", "plans", "bytes");
    let mut devices: Vec<&str> = baked.bundle.entries().iter().map(|e| e.key.device.as_str()).collect();
    devices.dedup();
    for device in devices {
        let entries = || baked.bundle.entries().iter().filter(|e| e.key.device == device);
        let size = entries().map(|e| e.payload.len()).sum();
        println!("{device:<44} {:>6} {:>12}", entries().count(), bytes(size));
    }
    for (gpu, function, error) in &baked.refused {
        println!("refused for {}: `{function}`: {}", short(gpu), error.message().lines().next().unwrap_or_default());
    }
    let file = std::fs::metadata(output).map_or(0, |m| m.len() as usize);
    println!("{} in {:.1} s, {}", output.display(), start.elapsed().as_secs_f64(), bytes(file));
    println!("a process reads it with FUSED_GRAPH_BUNDLE={} or `fused_graph::load_bundle`", output.display());
    Ok(true)
}

/// Prints the report of every call.
pub(crate) fn explain(record: &Path, target: &str) -> Outcome {
    let record = read(record)?;
    let gpu = gpu(target)?;
    let mut all = true;
    for call in &record.calls {
        match bake::explain(call, &gpu) {
            Ok(explain) => println!("{explain}"),
            Err(error) => {
                println!("{}: {error}\n", call.function);
                all = false;
            }
        }
    }
    Ok(all)
}

fn read(path: &Path) -> Result<Record, Error> {
    let record = Record::read(path)?;
    for problem in &record.problems {
        eprintln!("fused-graph: {}: {problem}", path.display());
    }
    if record.calls.is_empty() {
        let text =
            format!("{} holds no calls; run a program with FUSED_GRAPH_RECORD={}", path.display(), path.display());
        return Err(Error::argument(text));
    }
    Ok(record)
}

/// The name of a GPU of the built-in table, or the content of a file with properties.
fn gpu(target: &str) -> Result<String, Error> {
    if bake::targets().any(|known| known == target) {
        return Ok(target.to_owned());
    }
    let known = bake::targets().collect::<Vec<_>>().join(", ");
    std::fs::read_to_string(target).map_err(|e| {
        Error::argument(format!(
            "{target:?} is neither a GPU that is known here ({known}) nor a file of device properties: {e}"
        ))
    })
}

/// Device properties are too long to show.
fn short(gpu: &str) -> &str {
    if gpu.trim_start().starts_with('{') { "the GPU of the file" } else { gpu }
}
