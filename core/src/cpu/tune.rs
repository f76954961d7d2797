//! Tuning on the CPU: there is one way to run a graph, and it is timed.

use super::compile;
use crate::backend::{CompileRequest, Executable, Launch};
use crate::error::Result;
use crate::tune::{Candidate, Outcome, TuneReport, TunedKernel};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Launches that are timed take about so long.
const TIME: Duration = Duration::from_millis(100);

/// Compiles and times a graph on the arguments of a launch.
pub fn tune(request: &CompileRequest<'_>, launch: &Launch<'_>) -> Result<(Arc<dyn Executable>, TuneReport)> {
    let start = Instant::now();
    let executable = compile(request)?;
    let mut micros = Vec::new();
    executable.run(launch)?;
    let timing = Instant::now();
    while micros.len() < 3 || (timing.elapsed() < TIME && micros.len() < 100) {
        let one = Instant::now();
        executable.run(launch)?;
        micros.push(one.elapsed().as_secs_f64() * 1e6);
    }
    micros.sort_by(f64::total_cmp);
    let median = micros[micros.len() / 2];
    let spread = (micros[micros.len() * 3 / 4] - micros[micros.len() / 4]) / median;
    let explain = executable.explain();
    let operations = explain.kernels.iter().flat_map(|k| k.operations.iter().cloned()).collect();
    let candidate = Candidate::new("cpu".into(), String::new(), 0, Vec::new(), Outcome::Timed { median, spread });
    let kernel = TunedKernel::new(operations, vec![candidate], Some(0), (explain.flops(), explain.bytes()), 0.0);
    let state = "calls following each other on the same data".to_owned();
    let mut report = TuneReport::new(explain.function.clone(), explain.device.clone(), state, vec![kernel]);
    report.seconds = start.elapsed().as_secs_f64();
    Ok((executable, report))
}
