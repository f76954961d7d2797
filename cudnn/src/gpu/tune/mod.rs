//! Tuning: every engine that offers itself is built, checked and timed on memory of its own, and a kernel is compared with its parts.

mod bench;
mod candidates;
mod roofline;

use super::executable::CudaExecutable;
use super::kernels::Kernel;
use super::{Gpu, GpuStream};
use crate::compile::{Program, Step};
use crate::plan::{Answer, Choice, KernelPlan, Known, KnownKernel, StoredPlan};
use bench::Bench;
use candidates::Search;
use fused_graph_core::backend::{CompileRequest, Launch};
use fused_graph_core::explain::KernelReport;
use fused_graph_core::fuse::{Group, report};
use fused_graph_core::tune::{Candidate, Division, Outcome, TuneOptions, TuneReport, TunedKernel, WORTH};
use fused_graph_core::{Error, ErrorKind, Result};
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Arc;
use std::time::Instant;

/// What is not faster than this is not worth another division into kernels.
const WORTH_CUTTING: f64 = 0.98;

/// Tunes a function for the arguments of a launch, which are only read.
pub(super) fn tune(
    stream: &GpuStream,
    request: &CompileRequest<'_>,
    launch: &Launch<'_>,
    options: &TuneOptions,
) -> Result<(CudaExecutable, TuneReport)> {
    let start = Instant::now();
    let fresh = CompileRequest { known: None, ..request.clone() };
    let default = CudaExecutable::compile(stream, &fresh)?;
    let program = default.program();
    let _current = stream.enter()?;
    let mut tuner = Tuner {
        stream,
        request: &fresh,
        bench: Bench::new(stream, &program.graph, launch, options.cold_l2)?,
        options,
        deadline: start + options.budget,
        bar: bar(options, program),
        known: Known { tuned: true, ..Known::default() },
        report: TuneReport::new(
            program.graph.name().to_owned(),
            stream.gpu().description.clone(),
            cache_state(stream.gpu(), options),
            Vec::new(),
        ),
    };
    for step in &program.steps {
        tuner.step(step)?;
    }
    tuner.bar.finish_and_clear();
    let (mut known, mut report) = (tuner.known, tuner.report);
    report.seconds = start.elapsed().as_secs_f64();
    known.code = program.known(|kernel| kernel.code())?.code;
    let bytes = known.to_bytes()?;
    let tuned = CudaExecutable::compile(stream, &CompileRequest { known: Some(&bytes), ..request.clone() })?;
    Ok((tuned, report))
}

fn bar<J>(options: &TuneOptions, program: &Program<J>) -> ProgressBar {
    if !options.progress {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0).with_message(format!("tuning {}", program.graph.name()));
    match ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} candidates, {elapsed}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn cache_state(gpu: &Gpu, options: &TuneOptions) -> String {
    let name = &gpu.name;
    match options.cold_l2 {
        true => format!("the L2 cache of the {name} overwritten before each launch"),
        false => "launches following each other in a CUDA graph on the same data (a warm L2 cache)".to_owned(),
    }
}

struct Tuner<'a> {
    stream: &'a GpuStream,
    request: &'a CompileRequest<'a>,
    bench: Bench<'a>,
    options: &'a TuneOptions,
    deadline: Instant,
    bar: ProgressBar,
    known: Known,
    report: TuneReport,
}

/// What was chosen for some operations: kernels, and what they take together.
struct Chosen {
    micros: f64,
    kernels: Vec<TunedKernel>,
    answers: Vec<KnownKernel>,
}

/// What was tried for a kernel so far.
#[derive(Default)]
struct Tried {
    candidates: Vec<Candidate>,
    default: Option<usize>,
    best: Option<(f64, KnownKernel)>,
}

impl Tried {
    /// Stays with the heuristic's choice where nothing is clearly faster.
    fn prefer_default(&mut self, group: &Group, plan: &KernelPlan) -> Result<()> {
        let micros = self.default.and_then(|at| self.candidates.get(at)).and_then(Candidate::micros);
        if let (Some(micros), Some((best, answer))) = (micros, &mut self.best)
            && *best > WORTH * micros
        {
            (*best, *answer) = (micros, KnownKernel::new(group, Answer::Plan(StoredPlan::of(plan)?)));
        }
        Ok(())
    }

    fn add(
        &mut self,
        group: &Group,
        form: u8,
        choice: &Choice,
        notes: &[String],
        plan: Option<&KernelPlan>,
        outcome: Result<(f64, f64), String>,
    ) -> Result<()> {
        if let (Ok((median, _)), Some(plan)) = (&outcome, plan)
            && self.best.as_ref().is_none_or(|(time, _)| median < time)
        {
            let stored = StoredPlan { form, ..StoredPlan::of(plan)? };
            self.best = Some((*median, KnownKernel::new(group, Answer::Plan(stored))));
        }
        let outcome = outcome.map_or_else(Outcome::Excluded, |(median, spread)| Outcome::Timed { median, spread });
        let order = if form == 0 { "" } else { "additions in the other order" };
        let workspace = plan.map_or(0, |p| p.workspace);
        self.candidates.push(Candidate::new(choice.to_string(), order.to_owned(), workspace, notes.to_vec(), outcome));
        Ok(())
    }
}

impl Tuner<'_> {
    /// Runs a step as the heuristic would have it, so that what follows has its operands, and looks for something faster.
    fn step(&mut self, step: &Step<Arc<Kernel>>) -> Result<()> {
        self.bench.run(step)?;
        if let Step::Own { group, .. } = step {
            let own = self.own(group, step)?;
            self.report.kernels.push(own);
        }
        let Step::Cudnn { group, plan } = step else { return Ok(()) };
        let mut chosen = self.kernel(group, plan)?;
        if self.options.cuts && group.nodes.len() > 1 {
            // Parts of which one has no right engine are no alternative.
            let parts =
                self.parts(group).or_else(|e| if e.kind() == ErrorKind::Unsupported { Ok(None) } else { Err(e) })?;
            if let Some((parts, words)) = parts {
                let cut = parts.micros < WORTH_CUTTING * chosen.micros;
                let label = |words: &str, n: usize| format!("{words}, {n} kernel{}", if n == 1 { "" } else { "s" });
                let whole = label("in one", chosen.kernels.len());
                self.report.divisions.push(Division { words: whole, micros: chosen.micros, chosen: !cut });
                let words = label(&words, parts.kernels.len());
                self.report.divisions.push(Division { words, micros: parts.micros, chosen: cut });
                if cut {
                    let why =
                        format!("tuning: {:.2} µs as one kernel, {:.2} µs as its parts", chosen.micros, parts.micros);
                    chosen = parts;
                    chosen.answers.push(KnownKernel::new(group, Answer::Slower(why)));
                }
            }
        }
        self.known.kernels.append(&mut chosen.answers);
        self.report.kernels.append(&mut chosen.kernels);
        Ok(())
    }

    /// The fastest of the engines that run a group in one kernel, of which `default` is the heuristic's choice.
    fn kernel(&mut self, group: &Group, default: &KernelPlan) -> Result<Chosen> {
        let search =
            Search { stream: self.stream, request: self.request, group, deadline: self.deadline, bar: &self.bar };
        let (built, out_of_budget) = search.run()?;
        self.report.out_of_budget |= out_of_budget;
        let mut tried = Tried::default();
        for b in &built {
            let outcome = match &b.plan {
                Err(why) => Err(why.clone()),
                Ok(plan) => self.bench.candidate(group, plan, &b.copies).map_err(|e| e.message().to_owned()),
            };
            tried.add(group, b.form, &b.choice, &b.notes, b.plan.as_ref().ok(), outcome)?;
            if b.form == 0 && b.choice == default.choice {
                tried.default = Some(tried.candidates.len() - 1);
            }
        }
        if tried.default.is_none() {
            // The budget was used up before its turn.
            let outcome = self.bench.candidate(group, default, &Vec::new()).map_err(|e| e.message().to_owned());
            tried.add(group, default.form, &default.choice, &default.notes, Some(default), outcome)?;
            tried.default = Some(tried.candidates.len() - 1);
        }
        tried.prefer_default(group, default)?;
        let Some((micros, answer)) = tried.best else {
            return Err(Error::unsupported("no candidate ran and gave right values"));
        };
        let r: KernelReport = report::kernel(self.request.graph, group);
        let roofline = roofline::micros(self.stream.gpu(), self.request.graph, group, r.flops, r.bytes);
        let kernel = TunedKernel::new(r.operations, tried.candidates, tried.default, (r.flops, r.bytes), roofline);
        Ok(Chosen { micros, kernels: vec![kernel], answers: vec![answer] })
    }

    /// A kernel of our own, of which there is one.
    fn own(&self, group: &Group, step: &Step<Arc<Kernel>>) -> Result<TunedKernel> {
        let (median, spread) = self.bench.time_step(step)?;
        let outcome = Outcome::Timed { median, spread };
        let only = Candidate::new("generated".to_owned(), String::new(), 0, Vec::new(), outcome);
        let r = report::kernel(self.request.graph, group);
        let roofline = roofline::micros(self.stream.gpu(), self.request.graph, group, r.flops, r.bytes);
        Ok(TunedKernel::new(r.operations, vec![only], Some(0), (r.flops, r.bytes), roofline))
    }

    /// The same operations as more kernels: where the group would be cut if no engine took it. Each of its parts is tuned.
    fn parts(&mut self, group: &Group) -> Result<Option<(Chosen, String)>> {
        if Instant::now() > self.deadline {
            self.report.out_of_budget = true;
            return Ok(None);
        }
        let slower = Known {
            kernels: vec![KnownKernel::new(group, Answer::Slower("compared with its parts".to_owned()))],
            ..Known::default()
        };
        let bytes = slower.to_bytes()?;
        let request = CompileRequest { known: Some(&bytes), ..self.request.clone() };
        // A core alone has no parts.
        let Ok(cut) = CudaExecutable::compile(self.stream, &request) else { return Ok(None) };
        let mut chosen = Chosen { micros: 0.0, kernels: Vec::new(), answers: Vec::new() };
        let mut words = Vec::new();
        for step in &cut.program().steps {
            if matches!(step, Step::Copy { .. }) {
                // Operands that are copied are so in both divisions.
                self.bench.run(step)?;
            }
            let Some(of) = step.group().filter(|g| g.nodes.iter().any(|n| group.nodes.contains(n))) else { continue };
            words.push(format!("[{}]", report::kernel(self.request.graph, of).operations.join(", ")));
            self.bench.run(step)?;
            match step {
                Step::Cudnn { plan, .. } => {
                    let part = self.kernel(of, plan)?;
                    chosen.micros += part.micros;
                    chosen.kernels.extend(part.kernels);
                    chosen.answers.extend(part.answers);
                }
                _ => {
                    let own = self.own(of, step)?;
                    chosen.micros += own.candidates[0].micros().unwrap_or(0.0);
                    chosen.kernels.push(own);
                }
            }
        }
        Ok((chosen.kernels.len() > 1).then(|| (chosen, words.join(" "))))
    }
}
