//! Kernels of our own, for what cuDNN has no engine for: copies between layouts, and pointwise operations and reductions without a core.
//!
//! A group becomes CUDA C, which NVRTC (cuDNN's own compiler) turns into code for the GPU. A kernel for each shape of results, and one or two for
//! each reduction; results do not depend on how threads are scheduled.

mod emit;
mod matmul;
pub mod nvrtc;
mod pool;
mod rows;

use emit::Emitter;
use fused_graph_core::fuse::{self, Group};
use fused_graph_core::ir::{Graph, Op, ReduceMode, ScalarType, ValueId};
use fused_graph_core::layout::Dims;
use fused_graph_core::{DType, Error, Result};
use std::fmt::Write;

/// Threads of a block.
pub const BLOCK: u32 = 256;

/// What a kernel's parameter is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument {
    /// Address of a value that is read: that of its base, plus the bytes its view starts behind it.
    Read {
        /// Whose memory.
        base: ValueId,
        /// Bytes.
        offset: i64,
    },
    /// Address of a value that is written.
    Write(ValueId),
    /// A host scalar, as `float` or `double`.
    Scalar {
        /// Position among the scalars of the call.
        index: usize,
        /// Its C type.
        ty: ScalarType,
    },
    /// Address of the scratch memory of a reduction in two stages.
    Scratch,
}

/// One launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Name of the kernel in the source.
    pub entry: String,
    /// Its parameters.
    pub arguments: Vec<Argument>,
    /// Number of blocks, each of [`BLOCK`] threads.
    pub grid: u32,
}

/// The source of a group's kernels and how to launch them, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// CUDA C.
    pub code: String,
    /// The launches.
    pub launches: Vec<Launch>,
    /// Bytes of scratch memory they share.
    pub scratch: u64,
}

/// Whether there is a kernel here for a core operation that no engine of cuDNN takes.
pub(crate) fn does(op: &Op) -> bool {
    matches!(op, Op::Norm(_) | Op::Softmax(_) | Op::Pool(_))
}

/// Writes the kernels of a group whose core operation, if it has one, is one of those that have a kernel here.
pub fn generate(graph: &Graph, group: &Group) -> Result<Source> {
    const MOST_BLOCKS: u32 = i32::MAX as u32;
    let source = written(graph, group)?;
    match source.launches.iter().all(|launch| launch.grid <= MOST_BLOCKS) {
        true => Ok(source),
        false => {
            Err(Error::unsupported(format!("`{}` has more rows or results than a launch has blocks", graph.name())))
        }
    }
}

/// Blocks of a launch; what does not fit is more than any launch has.
fn blocks(n: impl TryInto<u32>) -> u32 {
    n.try_into().unwrap_or(u32::MAX)
}

fn written(graph: &Graph, group: &Group) -> Result<Source> {
    let mut source = Source { code: include_str!("preamble.cu").to_owned(), launches: Vec::new(), scratch: 0 };
    if let Some(core) = group.core.map(|n| graph.node(n)).filter(|n| does(&n.op)) {
        match &core.op {
            Op::Pool(attrs) => pool::generate(&mut source, graph, group, core, attrs)?,
            _ => rows::generate(&mut source, graph, group, core)?,
        }
        return Ok(source);
    }
    if let Some(core) = group.core.map(|n| graph.node(n)).filter(|n| n.op == Op::Matmul) {
        matmul::generate(&mut source, graph, group, core)?;
        return Ok(source);
    }
    let (mut plain, mut reductions) = (Vec::new(), Vec::new());
    for &v in &group.outputs {
        match graph.producer(v).map(|n| &graph.node(n).op) {
            Some(Op::Reduce(_)) => reductions.push(v),
            Some(op) if op.is_core() => return Err(Error::unsupported(format!("`{}` is cuDNN's", op.name()))),
            _ => plain.push(v),
        }
    }
    // Results of one shape share a kernel.
    while let Some(&first) = plain.first() {
        let dims = graph.value(first).dims;
        let (same, others) = plain.into_iter().partition(|&v| graph.value(v).dims == dims);
        plain = others;
        pointwise(&mut source, graph, group, &dims, &same)?;
    }
    for v in reductions {
        reduction(&mut source, graph, group, v)?;
    }
    Ok(source)
}

fn pointwise(source: &mut Source, graph: &Graph, group: &Group, dims: &Dims, outputs: &[ValueId]) -> Result<()> {
    let mut e = Emitter::new(graph, group, *dims);
    for &v in outputs {
        let value = e.value(v)?;
        e.store(v, &value)?;
    }
    let n = dims.numel();
    let (index, body) = (e.index_type(), e.body());
    let entry = format!("k{}", source.launches.len());
    let code = &mut source.code;
    let _ = writeln!(code, "extern \"C\" __global__ void __launch_bounds__({BLOCK}) {entry}({}) {{", e.parameters());
    let _ = writeln!(
        code,
        "  for ({index} i = ({index})blockIdx.x * {BLOCK} + threadIdx.x; i < ({index}){n}; i += ({index})gridDim.x * {BLOCK}) {{"
    );
    let _ = writeln!(code, "{}{body}  }}\n}}", e.coordinates("i", "    "));
    let grid = n.div_ceil(BLOCK as usize).clamp(1, 132 * 16) as u32;
    source.launches.push(Launch { entry, arguments: e.arguments, grid });
    Ok(())
}

/// Reduced elements from which on several blocks work on one result.
const SPLIT_FROM: usize = 1 << 15;

fn reduction(source: &mut Source, graph: &Graph, group: &Group, output: ValueId) -> Result<()> {
    let Some(node) = graph.producer(output).map(|n| graph.node(n)) else { return Ok(()) };
    let Op::Reduce(attrs) = node.op else { return Ok(()) };
    let x = node.inputs[0];
    let dims = graph.value(x).dims;
    let kept: Vec<usize> = (0..dims.len()).filter(|&a| !attrs.reduces(a)).collect();
    let reduced: Vec<usize> = (0..dims.len()).filter(|&a| attrs.reduces(a)).collect();
    let results: usize = kept.iter().map(|&a| dims[a] as usize).product();
    let count: usize = reduced.iter().map(|&a| dims[a] as usize).product();
    let split = if count >= SPLIT_FROM && results < 512 { (count / (SPLIT_FROM / 4)).clamp(1, 512) } else { 1 };

    let mut e = Emitter::new(graph, group, dims);
    let value = e.value(x)?;
    let acc = e.c_type(graph.value(output).dtype.compute())?;
    let (start, step, finish) = combine(attrs.mode, acc, count);
    let target = e.parameter_out(output)?;
    let place = e.reduced_offset(output, &attrs)?;
    let stored = e.stored(graph.value(output).dtype, &finish)?;

    let first = format!("k{}", source.launches.len());
    let scratch = if split > 1 { format!(", {acc}* scratch") } else { String::new() };
    let index = e.index_type();
    let code = &mut source.code;
    let _ = writeln!(
        code,
        "extern \"C\" __global__ void __launch_bounds__({BLOCK}) {first}({}{scratch}) {{",
        e.parameters()
    );
    let _ =
        writeln!(code, "  {index} o = ({index})blockIdx.x / {split}; {index} part = ({index})blockIdx.x % {split};");
    code.push_str(&e.axes("o", &kept, "  "));
    let _ = writeln!(code, "  {acc} a = {start};");
    let _ = writeln!(
        code,
        "  for ({index} r = part * {BLOCK} + threadIdx.x; r < ({index}){count}; r += ({index}){split} * {BLOCK}) {{"
    );
    code.push_str(&e.axes("r", &reduced, "    "));
    let _ = writeln!(code, "{}    {acc} x = {value};\n    a = {step};\n  }}", e.body());
    code.push_str(&tree(acc, &pair(attrs.mode)));
    if split > 1 {
        let _ = writeln!(code, "  if (threadIdx.x == 0) scratch[blockIdx.x] = shared[0];\n}}");
    } else {
        let _ = writeln!(code, "  if (threadIdx.x == 0) {{ a = shared[0]; {target}[{place}] = {stored}; }}\n}}");
    }
    let mut arguments = e.arguments.clone();
    if split > 1 {
        arguments.push(Argument::Scratch);
    }
    source.launches.push(Launch { entry: first, arguments, grid: blocks(results * split) });
    if split > 1 {
        second_stage(
            source,
            &e,
            (acc, &start, &pair(attrs.mode)),
            (split, results),
            (&target, &place, &stored),
            &kept,
            output,
        );
    }
    Ok(())
}

/// Combines the parts of each result in their order.
fn second_stage(
    source: &mut Source,
    e: &Emitter<'_>,
    (acc, start, pair): (&str, &str, &str),
    (split, results): (usize, usize),
    (target, place, stored): (&str, &str, &str),
    kept: &[usize],
    output: ValueId,
) {
    let entry = format!("k{}", source.launches.len());
    let index = e.index_type();
    let code = &mut source.code;
    let declared = e.parameter_of(output);
    let _ = writeln!(
        code,
        "extern \"C\" __global__ void __launch_bounds__({BLOCK}) {entry}({declared}, const {acc}* scratch) {{"
    );
    let _ = writeln!(code, "  {index} o = blockIdx.x;");
    code.push_str(&e.axes("o", kept, "  "));
    let _ = writeln!(code, "  {acc} a = {start};");
    let _ = writeln!(
        code,
        "  for (u32 r = threadIdx.x; r < {split}u; r += {BLOCK}) {{ {acc} x = scratch[o * {split} + r]; a = {pair}; }}"
    );
    code.push_str(&tree(acc, pair));
    let _ = writeln!(code, "  if (threadIdx.x == 0) {{ a = shared[0]; {target}[{place}] = {stored}; }}\n}}");
    source.scratch = source.scratch.max((results * split * 8) as u64);
    let arguments = vec![Argument::Write(output), Argument::Scratch];
    source.launches.push(Launch { entry, arguments, grid: blocks(results) });
}

/// Combines `a` of the threads of a block into `shared[0]`.
fn tree(acc: &str, pair: &str) -> String {
    format!(
        "  __shared__ {acc} shared[{BLOCK}];\n  shared[threadIdx.x] = a;\n  __syncthreads();\n  for (u32 half = {}; half > 0; half >>= 1) {{\n    \
         if (threadIdx.x < half) {{ {acc} x = shared[threadIdx.x + half]; a = shared[threadIdx.x]; shared[threadIdx.x] = {pair}; }}\n    \
         __syncthreads();\n  }}\n",
        BLOCK / 2
    )
}

/// Start, step with an element `x`, and the end of a reduction, all in terms of `a`.
fn combine(mode: ReduceMode, acc: &str, count: usize) -> (String, String, String) {
    let float = matches!(acc, "float" | "double");
    let lowest = match acc {
        "int" => "(-2147483647 - 1)".to_owned(),
        "i64" => "(-9223372036854775807LL - 1)".to_owned(),
        _ => "-INF_F".to_owned(),
    };
    let highest = match acc {
        "int" => "2147483647".to_owned(),
        "i64" => "9223372036854775807LL".to_owned(),
        _ => "INF_F".to_owned(),
    };
    let start = match mode {
        ReduceMode::Max => lowest,
        ReduceMode::Min => highest,
        ReduceMode::Prod => "1".to_owned(),
        _ => "0".to_owned(),
    };
    let step = match mode {
        ReduceMode::Norm1 => "a + abs_of(x)".to_owned(),
        ReduceMode::Norm2 => "a + x * x".to_owned(),
        ReduceMode::Amax => "max_of(a, abs_of(x))".to_owned(),
        _ => pair(mode),
    };
    let finish = match mode {
        ReduceMode::Mean if float => format!("(a / ({acc}){count})"),
        ReduceMode::Norm2 => "sqrt(a)".to_owned(),
        _ => "a".to_owned(),
    };
    (format!("({acc}){start}"), step, finish)
}

/// How two partial results become one.
fn pair(mode: ReduceMode) -> String {
    match mode {
        ReduceMode::Max | ReduceMode::Amax => "max_of(a, x)",
        ReduceMode::Min => "min_of(a, x)",
        ReduceMode::Prod => "a * x",
        _ => "a + x",
    }
    .to_owned()
}

/// A graph that copies one tensor to dense strides and another element type, for [`generate`].
pub fn copy_graph(dims: &Dims, from: &Dims, to: &Dims, source: DType, dtype: DType) -> Result<(Graph, Group)> {
    let mut graph = Graph::new("copy");
    let x = graph.add_input("x", source, *dims, *from);
    let op = if source == dtype {
        Op::Pointwise(fused_graph_core::ir::PointwiseMode::Identity, Default::default())
    } else {
        Op::Cast(dtype)
    };
    let y = graph.add_node(op, &[x], fused_graph_core::ir::SourceLoc::NONE)?;
    graph.set_strides(y, *to);
    graph.set_outputs([y]);
    let nodes: Vec<_> = graph.nodes().map(|(id, _)| id).collect();
    let group = fuse::group_of(&graph, fuse::GroupKind::Kernel, &nodes);
    Ok((graph, group))
}
