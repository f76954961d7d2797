//! Softmax, which cuDNN has no engine for on its own, and normalisations that no engine takes: a warp or a block for each row.

use super::emit::Emitter;
use super::{BLOCK, Launch, Source};
use fused_graph_core::fuse::Group;
use fused_graph_core::ir::{Graph, Node, NormAttrs, NormPart, Op, ReduceAttrs, ReduceMode, SoftmaxAttrs, ValueId};
use fused_graph_core::{Error, Result};
use std::fmt::Write;

/// Longest row that a warp takes, and most elements that a thread keeps in registers.
const WARP_ROW: usize = 256;
const KEPT: usize = 16;

/// What a thread does with its elements of a row.
struct Row<'a> {
    /// The type they are held in.
    acc: &'static str,
    index: &'static str,
    count: usize,
    threads: usize,
    /// Coordinates of element `r`, and the statements that load it.
    load: String,
    /// The loaded element.
    x: String,
    inner: &'a str,
}

impl Row<'_> {
    /// Elements of a thread if it keeps them all, else they are loaded again for each pass.
    fn kept(&self) -> Option<usize> {
        Some(self.count.div_ceil(self.threads)).filter(|&n| n <= KEPT)
    }

    /// A loop over the thread's elements: `x` is each, `r` its place.
    fn each(&self, body: &str) -> String {
        let Row { index, count, threads, load, x, acc, inner, .. } = self;
        match self.kept() {
            Some(n) => format!(
                "  #pragma unroll\n  for (int i = 0; i < {n}; i++) {{\n    {index} r = lane + i * {threads};\n    if (r < ({index}){count}) {{ \
                 {acc} x = kept[i];\n{body}    }}\n  }}\n"
            ),
            None => format!(
                "  for ({index} r = lane; r < ({index}){count}; r += {threads}) {{\n{inner}{load}    {acc} x = {x};\n{body}  }}\n"
            ),
        }
    }

    /// Loads the elements that are kept.
    fn first(&self) -> String {
        let Row { index, count, threads, load, x, acc, inner, .. } = self;
        let Some(n) = self.kept() else { return String::new() };
        format!(
            "  {acc} kept[{n}];\n  #pragma unroll\n  for (int i = 0; i < {n}; i++) {{\n    {index} r = lane + i * {threads};\n    \
             if (r < ({index}){count}) {{\n{inner}{load}    kept[i] = {x};\n    }}\n  }}\n"
        )
    }

    /// Keeps what `x` became in the loop, for the passes behind it.
    fn keep(&self) -> &'static str {
        if self.kept().is_some() { "    kept[i] = x;\n" } else { "" }
    }

    fn all(&self, what: &str) -> String {
        format!("{}_{what}", if self.threads == 32 { "warp" } else { "block" })
    }
}

/// The kernel of a group whose core works on rows.
pub(super) fn generate(source: &mut Source, graph: &Graph, group: &Group, core: &Node) -> Result<()> {
    let dims = graph.value(core.inputs[0]).dims;
    let inside = |axis: usize| match core.op {
        Op::Norm(a) => a.normalises(axis),
        Op::Softmax(a) => a.axis == axis,
        _ => false,
    };
    let (within, across): (Vec<usize>, Vec<usize>) = (0..dims.len()).partition(|&a| inside(a));
    let extent = |axes: &[usize]| axes.iter().map(|&a| dims[a] as usize).product::<usize>();
    let (count, rows) = (extent(&within), extent(&across));
    let mut e = Emitter::new(graph, group, dims);
    let acc = e.c_type(graph.value(core.inputs[0]).dtype.compute())?;
    let epsilon = match core.op {
        Op::Norm(a) => e.value(core.inputs[a.epsilon()])?,
        _ => String::new(),
    };
    let head = e.take_body();
    let x = e.value(core.inputs[0])?;
    let load = e.take_body();
    let inner = e.axes("r", &within, "    ");
    let threads = if count <= WARP_ROW { 32 } else { BLOCK as usize };
    let row = Row { acc, index: e.index_type(), count, threads, load, x, inner: &inner };
    let body = match core.op {
        Op::Norm(a) => norm(&mut e, &row, &a, (graph, group, core), &epsilon)?,
        Op::Softmax(a) => softmax(&mut e, &row, &a, group)?,
        _ => return Err(Error::unsupported(format!("`{}` does not work on rows", core.op.name()))),
    };
    let index = row.index;
    let per_block = BLOCK as usize / threads;
    let entry = format!("k{}", source.launches.len());
    source.code.push_str(include_str!("rows.cu"));
    let code = &mut source.code;
    let _ = writeln!(code, "extern \"C\" __global__ void __launch_bounds__({BLOCK}) {entry}({}) {{", e.parameters());
    let _ = writeln!(code, "  {index} lane = threadIdx.x % {threads};");
    let _ = writeln!(code, "  {index} o = ({index})blockIdx.x * {per_block} + threadIdx.x / {threads};");
    let _ = writeln!(code, "  if (o >= ({index}){rows}) return;");
    code.push_str(&e.axes("o", &across, "  "));
    code.push_str(&head);
    code.push_str(&row.first());
    code.push_str(&body);
    code.push_str("}\n");
    let grid = super::blocks(rows.div_ceil(per_block));
    source.launches.push(Launch { entry, arguments: e.arguments.clone(), grid });
    Ok(())
}

/// Mean and deviation, and a pass that writes.
fn norm(
    e: &mut Emitter<'_>,
    row: &Row<'_>,
    attrs: &NormAttrs,
    (graph, group, core): (&Graph, &Group, &Node),
    epsilon: &str,
) -> Result<String> {
    let (acc, count, sum) = (row.acc, row.count, row.all("sum"));
    let mut body = format!("  {acc} mean = 0;\n");
    if attrs.is_centered() {
        let pass = row.each("      mean += x;\n");
        let _ = writeln!(body, "{pass}  mean = {sum}(mean) / ({acc}){count};");
    }
    let pass = row.each("      square += (x - mean) * (x - mean);\n");
    let _ = write!(body, "  {acc} square = 0;\n{pass}");
    let _ = writeln!(body, "  {acc} inv_std = ({acc})1 / sqrt({sum}(square) / ({acc}){count} + ({acc}){epsilon});");
    for &v in &group.outputs {
        match part_of(graph, v) {
            NormPart::Y => body.push_str(&written(e, row, attrs, core, v)?),
            part => {
                let value = if part == NormPart::Mean { "mean" } else { "inv_std" };
                let reduced = ReduceAttrs { mode: ReduceMode::Sum, axes: attrs.axes, keepdim: true };
                let (target, place) = (e.parameter_out(v)?, e.reduced_offset(v, &reduced)?);
                let stored = e.stored(e.dtype(v), value)?;
                let _ = writeln!(body, "  if (lane == 0) {target}[{place}] = {stored};");
            }
        }
    }
    Ok(body)
}

fn part_of(graph: &Graph, v: ValueId) -> NormPart {
    match graph.producer(v).map(|n| graph.node(n).op) {
        Some(Op::Norm(a)) => a.part,
        _ => NormPart::Y,
    }
}

/// The pass that writes the normalised row.
fn written(e: &mut Emitter<'_>, row: &Row<'_>, attrs: &NormAttrs, core: &Node, v: ValueId) -> Result<String> {
    let mut y = format!("(x - mean) * inv_std * ({}){}", row.acc, e.value(core.inputs[1])?);
    if let Some(beta) = attrs.beta() {
        let beta = e.value(core.inputs[beta])?;
        let _ = write!(y, " + ({}){beta}", row.acc);
    }
    e.store(v, &y)?;
    let tail = e.take_body();
    // Where elements are kept, the coordinates are needed only here.
    let inner = if row.kept().is_some() { row.inner } else { "" };
    Ok(row.each(&format!("{inner}{tail}")))
}

fn softmax(e: &mut Emitter<'_>, row: &Row<'_>, attrs: &SoftmaxAttrs, group: &Group) -> Result<String> {
    let Row { acc, .. } = row;
    let largest = row.each("      largest = max_of(largest, x);\n");
    let mut body = format!("  {acc} largest = -INF_F;\n{largest}  largest = {}(largest);\n", row.all("max"));
    let keep = if attrs.log { "" } else { row.keep() };
    let step =
        if attrs.log { "      total += exp(x - largest);\n" } else { "      x = exp(x - largest); total += x;\n" };
    let pass = row.each(&format!("{step}{keep}"));
    let _ = writeln!(body, "  {acc} total = 0;\n{pass}  total = {}(total);", row.all("sum"));
    let y = match (attrs.log, row.kept().is_some()) {
        (true, _) => "x - largest - shift",
        (false, true) => "x * shift",
        (false, false) => "exp(x - largest) * shift",
    };
    let shift = if attrs.log { "log(total)".to_owned() } else { format!("({acc})1 / total") };
    let _ = writeln!(body, "  {acc} shift = {shift};");
    for &v in &group.outputs {
        e.store(v, y)?;
        let tail = e.take_body();
        let inner = if row.kept().is_some() { row.inner } else { "" };
        body.push_str(&row.each(&format!("{inner}{tail}")));
    }
    Ok(body)
}
