//! A compiled graph on the CPU.

use super::lower::{Core, Kernel, lower};
use super::registers::Class;
use super::run::{Stored, copy};
use crate::backend::{CompileRequest, Executable, Launch, Results};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::explain::{Explain, KernelReport, PlanSource};
use crate::fuse::{Group, GroupKind, MemRef, Partition, RuleTarget, partition, report, resolve};
use crate::ir::{Graph, Op, ValueId, ValueKind};
use crate::tensor::{HostData, HostElement, Storage, Tensor, with_type};
use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

/// Turns a graph into something that runs on this CPU.
pub fn compile(request: &CompileRequest<'_>) -> Result<Arc<dyn Executable>> {
    let graph = Arc::clone(request.graph);
    let partition = partition(&graph, &RuleTarget::CPU);
    let mut steps = Vec::new();
    for group in &partition.groups {
        let started = Instant::now();
        let work = match group.kind {
            GroupKind::Copy => Work::Copy(copied(&graph, group)?),
            GroupKind::Kernel => Work::Kernel(Box::new(lower(&graph, group)?)),
        };
        steps.push(Step { work, build_ms: started.elapsed().as_secs_f64() * 1e3 });
    }
    Ok(Arc::new(CpuExecutable { graph, partition, steps }))
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
    Copy((MemRef, ValueId)),
}

#[derive(Debug)]
struct Step {
    work: Work,
    build_ms: f64,
}

#[derive(Debug)]
struct CpuExecutable {
    graph: Arc<Graph>,
    partition: Partition,
    steps: Vec<Step>,
}

/// The memory of each value that has some, with the offset of its first element.
type Table = Vec<Option<(Arc<HostData>, i64)>>;

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

    fn result(&self, table: &Table, value: ValueId) -> Result<Tensor> {
        let seen = resolve(&self.graph, value);
        let (data, offset) = table[seen.base.index()]
            .clone()
            .ok_or_else(|| Error::unsupported(format!("no kernel computes `{}`", self.graph.label(value))))?;
        let dtype = data.dtype();
        let storage = Storage::Host(data);
        Ok(Tensor::from_parts(Device::CPU, storage, dtype, seen.dims, seen.strides, offset + seen.offset))
    }
}

fn scalar(dtype: DType, v: f64) -> HostData {
    use crate::dtype::Element;
    with_type!(dtype, T => T::wrap(vec![T::from_f64(v)]))
}

fn host(tensor: &Tensor) -> Result<(Arc<HostData>, i64)> {
    match tensor.storage() {
        Storage::Host(data) => Ok((Arc::clone(data), tensor.offset())),
        Storage::Device(_) => {
            Err(Error::device(format!("{tensor:?} is not in host memory; move it with `.to(&Device::cpu())`")))
        }
    }
}

impl Executable for CpuExecutable {
    fn run(&self, launch: &Launch<'_>) -> Result<Results> {
        let mut table = self.arguments(launch)?;
        let empty = HostData::Bool(Vec::new());
        for step in &self.steps {
            let memory = |v: ValueId| -> Stored<'_> { table[v.index()].as_ref().map_or((&empty, 0), |(d, o)| (d, *o)) };
            let results = match &step.work {
                Work::Kernel(kernel) => kernel.run(&memory, launch.scalars),
                Work::Copy((seen, view)) => {
                    let v = self.graph.value(*view);
                    vec![(*view, copy(memory(seen.base), seen, &v.dims, &v.strides))]
                }
            };
            for (value, data) in results {
                table[value.index()] = Some((Arc::new(data), 0));
            }
        }
        self.graph.outputs().iter().map(|&v| self.result(&table, v)).collect()
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
            report.notes.push(format!("{} brought to its layout by a copy", self.graph.label(o.value)));
        }
    }
}
