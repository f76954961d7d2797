//! The candidates of a kernel, built on several threads.

use super::super::{GpuStream, handle};
use crate::compile::{Copies, Lowerer};
use crate::plan::{self, Choice, KernelPlan, offers};
use crate::target::Target;
use fused_graph_core::Result;
use fused_graph_core::backend::{CompileRequest, Heuristics};
use fused_graph_core::fuse::{self, Group};
use indicatif::ProgressBar;
use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Instant;

/// Threads that build. More only wait for each other in the compiler.
const THREADS: usize = 8;

/// A candidate with its plan, or why there is none.
pub(super) struct Built {
    pub(super) form: u8,
    pub(super) choice: Choice,
    pub(super) notes: Vec<String>,
    pub(super) copies: Copies,
    pub(super) plan: Result<KernelPlan, String>,
}

/// What candidates are looked for.
pub(super) struct Search<'a> {
    pub(super) stream: &'a GpuStream,
    pub(super) request: &'a CompileRequest<'a>,
    pub(super) group: &'a Group,
    pub(super) deadline: Instant,
    pub(super) bar: &'a ProgressBar,
}

impl Search<'_> {
    /// All candidates in the order of the heuristics, and whether the budget ended before all were built.
    pub(super) fn run(&self) -> Result<(Vec<Built>, bool)> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
        let found = Mutex::new(Vec::new());
        let failed = Mutex::new(None);
        std::thread::scope(|scope| {
            for worker in 0..threads {
                let (found, failed) = (&found, &failed);
                scope.spawn(move || {
                    if let Err(error) = self.share(worker, threads, found) {
                        *failed.lock().unwrap_or_else(|e| e.into_inner()) = Some(error);
                    }
                });
            }
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(|e| e.into_inner()) {
            return Err(error);
        }
        let mut found: Vec<(usize, Option<Built>)> = found.into_inner().unwrap_or_else(|e| e.into_inner());
        found.sort_by_key(|(number, _)| *number);
        let out_of_budget = found.iter().any(|(_, built)| built.is_none());
        Ok((found.into_iter().filter_map(|(_, built)| built).collect(), out_of_budget))
    }

    /// Builds every `threads`th candidate with a handle of this thread's. Each thread lists them all, which is cheap.
    fn share(&self, worker: usize, threads: usize, found: &Mutex<Vec<(usize, Option<Built>)>>) -> Result<()> {
        let _current = self.stream.enter()?;
        let gpu = self.stream.gpu();
        let target = Target::live(handle::on(self.stream)?, gpu.sm);
        let api = gpu.library.api();
        let cx = Lowerer { api, target: &target, request: self.request };
        let forms = 1 + fuse::forms(self.request.graph, self.group).len() as u8;
        let mut number = 0;
        for form in 0..forms {
            let Ok((lowered, copies)) = cx.lower(self.group, form, false) else { continue };
            let wanted = cx.wanted(self.group, &copies);
            let mut seen = HashSet::new();
            for mode in [Heuristics::A, Heuristics::B, Heuristics::Fallback] {
                let sm_count = self.request.options.sm_count;
                for offer in offers(api, &target, &lowered.graph, mode, sm_count).unwrap_or_default() {
                    if !seen.insert(offer.choice.clone()) {
                        continue;
                    }
                    let mine = number % threads == worker;
                    number += 1;
                    if !mine {
                        continue;
                    }
                    self.bar.inc_length(1);
                    let built = if Instant::now() > self.deadline {
                        None
                    } else {
                        let plan = match wanted.refuses(&offer) {
                            Some(reason) => Err(reason),
                            None => {
                                plan::build_offer(api, &target, &lowered, &offer).map_err(|e| e.message().to_owned())
                            }
                        };
                        let notes = offer.notes.iter().map(|n| n.to_string()).collect();
                        Some(Built { form, choice: offer.choice, notes, copies: copies.clone(), plan })
                    };
                    self.bar.inc(1);
                    found.lock().unwrap_or_else(|e| e.into_inner()).push((number, built));
                }
            }
        }
        Ok(())
    }
}
