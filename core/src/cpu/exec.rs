//! A compiled graph on the CPU.

use super::attention::{self, Attention};
use super::bound::CpuCall;
use super::lower::{Core, Kernel, lower};
use super::oracle;
use super::pool::{self, Pool};
use super::registers::Class;
use super::rows::{self, Rows};
use super::run::{Stored, copy};
use crate::backend::{BoundLaunch, CompileRequest, Executable, Launch, Results};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::explain::{Explain, KernelReport, PlanSource};
use crate::fuse::{Group, GroupKind, MemRef, Partition, RuleTarget, partition, report, resolve};
use crate::ir::{Graph, Op, Value, ValueId, ValueKind};
use crate::tensor::{HostData, HostElement, HostMemory, Storage, Tensor, room, with_type};
use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

/// Turns a graph into something that runs on this CPU.
pub fn compile(request: &CompileRequest<'_>) -> Result<Arc<dyn Executable>> {
    let graph = Arc::clone(request.graph);
    let partition = partition(&graph, &RuleTarget::CPU);
    let mut steps = Vec::new();
    for group in &partition.groups {
        check_room(&graph, group)?;
        let started = Instant::now();
        let work = match group.kind {
            GroupKind::Copy => Work::Copy(copied(&graph, group)?),
            GroupKind::Kernel => kernel(&graph, group)?,
        };
        steps.push(Step { work, build_ms: started.elapsed().as_secs_f64() * 1e3 });
    }
    Ok(Arc::new(CpuExecutable { graph, partition, steps }))
}

/// An error for a kernel whose results, or whose operands once they are packed, no memory can be had for.
fn check_room(graph: &Graph, group: &Group) -> Result<()> {
    let operands = group.core.iter().flat_map(|&n| graph.node(n).inputs.iter());
    group.outputs.iter().chain(operands).try_for_each(|&v| {
        let Value { dims, dtype, .. } = graph.value(v);
        room(dims, *dtype).map_err(|e| e.context(format!("`{}` in `{}`", graph.label(v), graph.name())))
    })
}

fn kernel(graph: &Graph, group: &Group) -> Result<Work> {
    let core = group.core.map(|n| graph.node(n));
    Ok(match core.map(|n| (n, n.op)) {
        Some((core, Op::Norm(_) | Op::Softmax(_))) => Work::Rows(Box::new(rows::lower(graph, group, core)?)),
        Some((core, Op::Pool(attrs))) => Work::Pool(Box::new(pool::lower(graph, group, core, attrs))),
        Some((core, Op::Sdpa(attrs))) => Work::Attention(Box::new(attention::lower(graph, group, core, attrs))),
        _ => Work::Kernel(Box::new(lower(graph, group)?)),
    })
}

/// What a view that needs a copy looks at, and the view.
fn copied(graph: &Graph, group: &Group) -> Result<(MemRef, ValueId)> {
    let view = group.nodes.iter().map(|&n| graph.node(n)).find(|n| matches!(n.op, Op::View(_)));
    let view = view.ok_or_else(|| Error::unsupported("a copy without a view"))?;
    Ok((resolve(graph, view.inputs[0]), view.output))
}

#[derive(Debug)]
enum Work {
    Kernel(Box<Kernel>),
    Rows(Box<Rows>),
    Attention(Box<Attention>),
    Pool(Box<Pool>),
    Copy((MemRef, ValueId)),
}

#[derive(Debug)]
struct Step {
    work: Work,
    build_ms: f64,
}

#[derive(Debug)]
pub(super) struct CpuExecutable {
    pub(super) graph: Arc<Graph>,
    partition: Partition,
    steps: Vec<Step>,
}

/// The memory of each value that has some, with the offset of its first element.
pub(super) type Table = Vec<Option<(Arc<HostData>, i64)>>;

impl CpuExecutable {
    /// The arguments in their places.
    fn arguments(&self, launch: &Launch<'_>) -> Result<Table> {
        let mut table: Table = vec![None; self.graph.values().len()];
        for (id, value) in self.graph.values() {
            table[id.index()] = match value.kind {
                ValueKind::Input { index } => {
                    let missing = || Error::argument(format!("tensor `{}` is missing", self.graph.label(id)));
                    Some(host(launch.tensors.get(index).ok_or_else(missing)?)?)
                }
                ValueKind::Const(v) => Some((Arc::new(scalar(value.dtype, v)), 0)),
                ValueKind::Scalar { index, .. } => {
                    let missing = || Error::argument(format!("scalar `{}` is missing", self.graph.label(id)));
                    let v = launch.scalars.get(index).ok_or_else(missing)?;
                    Some((Arc::new(scalar(value.dtype, *v)), 0))
                }
                ValueKind::Node(_) => None,
            };
        }
        Ok(table)
    }

    /// Runs the kernels; all values are in the table then. Memory is taken from `spare` where it fits.
    pub(super) fn execute(&self, launch: &Launch<'_>, spare: &mut Vec<HostData>) -> Result<Table> {
        let mut table = self.arguments(launch)?;
        let empty = HostData::Bool(Vec::new());
        let scalar = |v: ValueId| oracle::scalar_value(&self.graph, v, launch.scalars);
        for step in &self.steps {
            let memory = |v: ValueId| -> Stored<'_> { table[v.index()].as_ref().map_or((&empty, 0), |(d, o)| (d, *o)) };
            let results = match &step.work {
                Work::Kernel(kernel) => kernel.run(&memory, launch.scalars, spare),
                Work::Rows(rows) => rows.run(&memory, &scalar, spare),
                Work::Pool(pool) => pool.run(&memory, spare),
                Work::Attention(attention) => attention.run(&memory, &scalar, spare),
                Work::Copy((seen, view)) => {
                    let v = self.graph.value(*view);
                    vec![(*view, copy(memory(seen.base), seen, &v.dims, &v.strides))]
                }
            };
            for (value, data) in results {
                table[value.index()] = Some((Arc::new(data), 0));
            }
        }
        Ok(table)
    }

    /// Tensors for the results, given the elements of what they look at and where these begin. Those that look at the same memory share it.
    fn tensors(&self, mut elements: impl FnMut(ValueId) -> Result<(Arc<HostData>, i64)>) -> Result<Results> {
        let mut memories: Vec<(ValueId, Storage, i64)> = Vec::new();
        let mut results = Results::new();
        for &value in self.graph.outputs() {
            let seen = resolve(&self.graph, value);
            let at = match memories.iter().position(|(base, ..)| *base == seen.base) {
                Some(at) => at,
                None => {
                    let (data, start) = elements(seen.base)?;
                    memories.push((seen.base, Storage::Host(Arc::new(HostMemory::new(data))), start));
                    memories.len() - 1
                }
            };
            let (_, storage, start) = &memories[at];
            let (dtype, storage) = (self.graph.value(value).dtype, storage.clone());
            results.push(Tensor::from_parts(Device::CPU, storage, dtype, seen.dims, seen.strides, start + seen.offset));
        }
        Ok(results)
    }
}

/// What a kernel has computed.
pub(super) fn computed(graph: &Graph, table: &Table, base: ValueId) -> Result<(Arc<HostData>, i64)> {
    let found = table[base.index()].clone();
    found.ok_or_else(|| Error::unsupported(format!("no kernel computes `{}`", graph.label(base))))
}

fn scalar(dtype: DType, v: f64) -> HostData {
    use crate::dtype::Element;
    with_type!(dtype, T => T::wrap(vec![T::from_f64(v)]))
}

fn host(tensor: &Tensor) -> Result<(Arc<HostData>, i64)> {
    match tensor.storage() {
        Storage::Host(memory) => Ok((memory.load(), tensor.offset())),
        Storage::Device(_) => {
            Err(Error::device(format!("{tensor:?} is not in host memory; move it with `.to(&Device::cpu())`")))
        }
    }
}

impl Executable for CpuExecutable {
    fn run(&self, launch: &Launch<'_>) -> Result<Results> {
        let table = self.execute(launch, &mut Vec::new())?;
        self.tensors(|base| computed(&self.graph, &table, base))
    }

    fn results(&self, _device: &Device) -> Result<Results> {
        let zeros = |v: ValueId| HostData::zeros(self.graph.value(v).dtype, self.graph.value(v).dims.numel());
        self.tensors(|base| Ok((Arc::new(zeros(base)), 0)))
    }

    fn bind(self: Arc<Self>, launch: &Launch<'_>, results: &[Tensor]) -> Result<Box<dyn BoundLaunch>> {
        Ok(Box::new(CpuCall::new(self, launch, results)))
    }

    fn explain(&self) -> Explain {
        let kernels = self.partition.groups.iter().zip(&self.steps);
        Explain {
            function: self.graph.name().to_owned(),
            device: format!("CPU, {} threads, {}", rayon::current_num_threads(), super::simd::name()),
            arguments: report::arguments(&self.graph),
            kernels: kernels.map(|(g, s)| self.report(g, s)).collect(),
            cuts: report::cuts(&self.graph, &self.partition.cuts),
            source: PlanSource::Built,
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl CpuExecutable {
    fn report(&self, group: &Group, step: &Step) -> KernelReport {
        let mut report = report::kernel(&self.graph, group);
        report.provider = "cpu";
        report.build_ms = step.build_ms;
        match &step.work {
            Work::Copy(_) => report.engine = "strided copy".to_owned(),
            Work::Kernel(kernel) => self.describe(kernel, &mut report),
            Work::Pool(_) => report.engine = "window by window".to_owned(),
            Work::Attention(_) => report.engine = "queries in blocks, keys in pieces".to_owned(),
            Work::Rows(rows) => {
                report.engine = "row by row".to_owned();
                rows.copied().for_each(|v| report.notes.push(self.brought(v)));
            }
        }
        report
    }

    fn describe(&self, kernel: &Kernel, report: &mut KernelReport) {
        let Some((core, operands, class)) = &kernel.core else {
            report.engine = "pointwise program".to_owned();
            return;
        };
        let data = self.graph.value(operands[0]).dtype;
        let held = match class {
            Class::F64 => DType::F64,
            Class::Int => DType::I32,
            _ => DType::F32,
        };
        let (engine, note) = match core {
            Core::Conv(c) => (c.name(), c.copies(data == held)),
            Core::Matmul(m) => ("matmul by tiles", m.copies(data == held)),
        };
        report.engine = format!("{engine}, {held} accumulation");
        report.notes.extend(note.map(str::to_owned));
        for o in kernel.outputs.iter().filter(|o| !o.in_place()) {
            report.notes.push(self.brought(o.value));
        }
    }

    fn brought(&self, value: ValueId) -> String {
        format!("{} brought to its layout by a copy", self.graph.label(value))
    }
}
