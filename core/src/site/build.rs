//! A plan that is not in memory yet: trace, look for stored answers, compile.

use super::cache::Entry;
use super::call::{Inputs, Param};
use super::key::Key;
use super::{Returns, Site};
use crate::backend::{CompileRequest, Executable, Identity, Launch, Options};
use crate::device::Device;
use crate::error::Result;
use crate::explain::PlanSource;
use crate::ir::{Graph, ValueId};
use crate::layout::normalise_strides;
use crate::record::{RecordedCall, Recorder};
use crate::store;
use crate::tensor::Tensor;
use crate::trace;
use crate::tune::{TuneOptions, TuneReport};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Instant;

pub(super) static CPU: Device = Device::CPU;

/// What a plan is built for.
pub(super) struct Build<'a> {
    pub(super) site: &'static Site,
    pub(super) params: &'a [Param],
    pub(super) tensors: &'a [&'a Tensor],
    pub(super) scalars: &'a [f64],
    pub(super) device: &'a Device,
}

impl Build<'_> {
    /// The entry of a key, traced and compiled once however many threads ask; true if by this call.
    #[cold]
    pub(super) fn entry<F, R>(&self, key: Key, body: F) -> Result<(Arc<Entry>, bool)>
    where
        F: FnOnce(&Inputs) -> R,
        R: Returns,
    {
        self.site.get_or_build(key, || {
            let start = Instant::now();
            let (graph, order) = trace_graph(self.site, self.params, self.tensors, body)?;
            let graph = Arc::new(graph);
            if let Some(recorder) = Recorder::of_environment() {
                recorder.add(&self.recorded(&graph));
            }
            let key = self.stored_key(&graph);
            let found = self.device.accelerator().and_then(|_| store::find(&key));
            let tune = self.site.meta().options.autotune && !found.as_ref().is_some_and(|(e, _)| e.tuned);
            let (executable, source, tuned) = if tune {
                (self.tuned(&graph, &TuneOptions::current())?.0, PlanSource::Built, true)
            } else {
                let known = found.as_ref().map(|(e, _)| e.payload.as_slice());
                let executable = self.compile(&graph, known)?;
                match &found {
                    Some((e, source)) if executable.compiled() == 0 => (executable, *source, e.tuned),
                    _ => (executable, PlanSource::Built, false),
                }
            };
            let entry = Entry { graph, executable, order, source, key, tuned, build: start.elapsed() };
            tracing::debug!(function = entry.graph.name(), ms = entry.build.as_secs_f64() * 1e3, %source, "plan");
            self.keep(&entry);
            Ok(entry)
        })
    }

    /// Tunes and puts the winner in the place of what the key had.
    pub(super) fn tune<F, R>(&self, key: Key, body: F) -> Result<TuneReport>
    where
        F: FnOnce(&Inputs) -> R,
        R: Returns,
    {
        let start = Instant::now();
        let (graph, order) = trace_graph(self.site, self.params, self.tensors, body)?;
        let graph = Arc::new(graph);
        let (executable, report) = self.tuned(&graph, &TuneOptions::current())?;
        let (source, stored) = (PlanSource::Built, self.stored_key(&graph));
        let entry = Entry { graph, executable, order, source, key: stored, tuned: true, build: start.elapsed() };
        self.keep(&entry);
        self.site.replace(key, entry);
        Ok(report)
    }

    /// The call as a GPU sees it: there memory starts at multiples of 256 bytes, so that the offset of a view decides its alignment.
    fn recorded(&self, graph: &Arc<Graph>) -> RecordedCall {
        let of = |t: &&Tensor| match t.device().is_cpu() {
            true => 1 << ((t.offset().unsigned_abs() * t.dtype().size() as u64) | 256).trailing_zeros(),
            false => t.alignment(),
        };
        RecordedCall {
            function: self.site.meta().name.to_owned(),
            options: self.site.meta().options,
            alignments: self.tensors.iter().map(of).collect(),
            graph: Arc::clone(graph),
        }
    }

    /// Writes what was built here to the store.
    fn keep(&self, entry: &Entry) {
        if entry.source != PlanSource::Built || self.device.is_cpu() {
            return;
        }
        match entry.stored() {
            Ok(stored) => store::put(&stored),
            Err(error) => tracing::debug!(%error, "a plan is not stored"),
        }
    }

    /// What the plan of a graph is stored under.
    fn stored_key(&self, graph: &Graph) -> store::Key {
        let Identity { device, library } = Identity::of(self.device);
        store::Key { device, library, text: key_text(&self.site.meta().options, &self.alignments(), graph) }
    }

    fn compile(&self, graph: &Arc<Graph>, known: Option<&[u8]>) -> Result<Arc<dyn Executable>> {
        let alignments = self.alignments();
        let request = CompileRequest { known, ..CompileRequest::new(graph, &self.site.meta().options, &alignments) };
        match self.device.accelerator() {
            None => crate::cpu::compile(&request),
            Some(accelerator) => accelerator.compile(&request),
        }
    }

    fn tuned(&self, graph: &Arc<Graph>, options: &TuneOptions) -> Result<(Arc<dyn Executable>, TuneReport)> {
        let alignments = self.alignments();
        let request = CompileRequest::new(graph, &self.site.meta().options, &alignments);
        let launch = Launch { device: self.device, tensors: self.tensors, scalars: self.scalars };
        match self.device.accelerator() {
            None => crate::cpu::tune(&request, &launch),
            Some(accelerator) => accelerator.tune(&request, &launch, options),
        }
    }

    fn alignments(&self) -> SmallVec<[u32; 8]> {
        self.tensors.iter().map(|t| t.alignment()).collect()
    }
}

/// All that a plan depends on besides device and library, as text.
pub fn key_text(options: &Options, alignments: &[u32], graph: &Graph) -> String {
    format!("options {options}\nalignments {alignments:?}\n{}", graph.canonical_text())
}

/// The graph of a function for these arguments, and for each result its position among the graph's outputs (each of which is there once).
pub(super) fn trace_graph<F, R>(
    site: &Site,
    params: &[Param],
    tensors: &[&Tensor],
    body: F,
) -> Result<(Graph, Vec<usize>)>
where
    F: FnOnce(&Inputs) -> R,
    R: Returns,
{
    let meta = site.meta();
    let declare = |graph: &mut Graph| declare(graph, meta.params, params, tensors);
    let run = |trace, values| body(&Inputs { trace, values });
    let mut graph = trace::trace(meta.name, declare, run, R::exprs, meta.bindings, meta.file)?;
    let mut unique = Vec::new();
    let order = graph.outputs().iter().map(|id| position_or_push(&mut unique, *id)).collect();
    graph.set_outputs(unique);
    #[cfg(debug_assertions)]
    crate::verify::check(&graph)?;
    Ok((graph, order))
}

fn position_or_push(list: &mut Vec<ValueId>, id: ValueId) -> usize {
    list.iter().position(|&v| v == id).unwrap_or_else(|| {
        list.push(id);
        list.len() - 1
    })
}

fn declare(graph: &mut Graph, names: &[&str], params: &[Param], tensors: &[&Tensor]) -> SmallVec<[Option<ValueId>; 8]> {
    let mut values = SmallVec::new();
    for (position, param) in params.iter().enumerate() {
        let name = names.get(position).copied().unwrap_or("?");
        values.push(match param {
            Param::Tensor(i) => {
                let t = tensors[*i as usize];
                Some(graph.add_input(name, t.dtype(), *t.dims(), normalise_strides(t.dims(), t.strides())))
            }
            Param::Scalar(ty) => Some(graph.add_scalar(name, *ty)),
            Param::Absent | Param::Attr => None,
        });
    }
    values
}
