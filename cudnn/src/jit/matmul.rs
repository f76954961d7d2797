//! Matrix products that no engine of cuDNN's computes as asked: F32 without TF32.
//!
//! A block computes a tile of the result in registers from tiles of the operands in shared memory, adding up along k in order, and applies what
//! follows to each element. Operands are read through their views and whatever stands in front of the product.

use super::emit::Emitter;
use super::{BLOCK, Launch, Source};
use fused_graph_core::fuse::{Group, resolve};
use fused_graph_core::ir::{Graph, Node, Op, ValueId};
use fused_graph_core::layout::Dims;
use fused_graph_core::{Error, Result};
use std::fmt::Write;

/// Threads along each side of a block.
const SIDE: usize = 16;
/// Elements along k in shared memory.
const DEPTH: usize = 16;

/// Sizes and names that the parts of a kernel share.
struct Tile {
    /// Elements of the result along each side that a thread computes.
    each: usize,
    m: i64,
    n: i64,
    k: i64,
    rank: usize,
    acc: &'static str,
    index: &'static str,
}

impl Tile {
    fn side(&self) -> usize {
        SIDE * self.each
    }
}

/// The kernel of a group round a matrix product without reductions.
pub(super) fn generate(source: &mut Source, graph: &Graph, group: &Group, core: &Node) -> Result<()> {
    let reduces = |v: &ValueId| graph.producer(*v).is_some_and(|n| matches!(graph.node(n).op, Op::Reduce(_)));
    if group.outputs.iter().any(reduces) {
        return Err(Error::unsupported("a reduction is a kernel of its own behind a generated matrix product"));
    }
    let dims = graph.value(core.output).dims;
    let k = graph.value(core.inputs[0]).dims.last().copied().unwrap_or(1);
    let mut e = Emitter::new(graph, group, dims);
    let rank = dims.len();
    let (m, n) = (dims[rank - 2], dims[rank - 1]);
    let batch: i64 = dims[..rank - 2].iter().product();
    // Large tiles where they still give every multiprocessor of a large GPU something to do.
    let blocks = |side: i64| batch * ((m + side - 1) / side) * ((n + side - 1) / side);
    let each = if blocks(128) >= 132 { 8 } else { 4 };
    let acc = e.c_type(graph.value(core.output).dtype.compute())?;
    let tile = Tile { each, m, n, k, rank, acc, index: e.index_type() };
    let with = |axis: usize, extent: i64| dims.with(axis, extent);
    let a = load(&mut e, graph, &tile, core.inputs[0], with(rank - 1, k), ("as", "m0", rank - 2, m))?;
    let b = load(&mut e, graph, &tile, core.inputs[1], with(rank - 2, k), ("bs", "n0", rank - 1, n))?;
    let end = epilogue(&mut e, &tile, group, core, dims)?;
    write_kernel(source, &e, &tile, dims, (&a, &b, &end), blocks(tile.side() as i64));
    Ok(())
}

/// Statements that fill a tile of an operand in shared memory. `outer` is the axis that is not k, from `start` on, of `extent`.
fn load(
    e: &mut Emitter<'_>,
    graph: &Graph,
    tile: &Tile,
    operand: ValueId,
    dims: Dims,
    (shared, start, outer, extent): (&str, &str, usize, i64),
) -> Result<String> {
    let inner = if outer + 1 == tile.rank { tile.rank - 2 } else { tile.rank - 1 };
    let seen = resolve(graph, operand);
    // Neighbouring threads read neighbouring elements.
    let k_is_dense = seen.strides.get(seen.strides.len() - if inner + 1 == tile.rank { 1 } else { 2 }) == Some(&1);
    let (side, index) = (tile.side(), tile.index);
    let (fast, slow) = if k_is_dense { ("kk", DEPTH) } else { ("at", side) };
    let other = if fast == "kk" { "at" } else { "kk" };
    e.start(dims);
    let value = e.value(operand)?;
    let mut code = String::new();
    let _ = writeln!(code, "    for (u32 l = threadIdx.x; l < {}u; l += {BLOCK}u) {{", side * DEPTH);
    let _ = writeln!(code, "      u32 {fast} = l % {slow}u, {other} = l / {slow}u;");
    let _ = writeln!(code, "      {index} c{outer} = {start} + at, c{inner} = k0 + kk;");
    let _ = writeln!(code, "      {} x = 0;", tile.acc);
    let _ = writeln!(code, "      if (c{outer} < ({index}){extent} && c{inner} < ({index}){}) {{", tile.k);
    let _ = writeln!(code, "{}      x = {value};\n      }}", e.take_body());
    let _ = writeln!(code, "      {shared}[kk][at] = x;\n    }}");
    Ok(code)
}

/// Statements for one element of the result, `acc[i][j]`.
fn epilogue(e: &mut Emitter<'_>, tile: &Tile, group: &Group, core: &Node, dims: Dims) -> Result<String> {
    let (row, column, index) = (tile.rank - 2, tile.rank - 1, tile.index);
    e.start(dims);
    e.name(core.output, "acc[i][j]");
    for &v in &group.outputs {
        let value = e.value(v)?;
        e.store(v, &value)?;
    }
    let mut code = String::new();
    let _ = writeln!(code, "  for (u32 i = 0; i < {}u; i++) for (u32 j = 0; j < {}u; j++) {{", tile.each, tile.each);
    let _ = writeln!(code, "    {index} c{row} = m0 + i * {SIDE}u + ty, c{column} = n0 + j * {SIDE}u + tx;");
    let _ = writeln!(code, "    if (c{row} >= ({index}){} || c{column} >= ({index}){}) continue;", tile.m, tile.n);
    let _ = writeln!(code, "{}  }}", e.take_body());
    Ok(code)
}

fn write_kernel(
    source: &mut Source,
    e: &Emitter<'_>,
    tile: &Tile,
    dims: Dims,
    (a, b, end): (&str, &str, &str),
    blocks: i64,
) {
    let Tile { each, acc, index, .. } = *tile;
    let (side, k) = (tile.side(), tile.k);
    let across = (tile.n as usize).div_ceil(side);
    let down = (tile.m as usize).div_ceil(side);
    let entry = format!("k{}", source.launches.len());
    let batch: Vec<usize> = (0..tile.rank - 2).collect();
    let code = &mut source.code;
    let _ = writeln!(code, "extern \"C\" __global__ void __launch_bounds__({BLOCK}) {entry}({}) {{", e.parameters());
    let _ = writeln!(code, "  __shared__ {acc} as[{DEPTH}][{side} + 1], bs[{DEPTH}][{side} + 1];");
    let _ = writeln!(code, "  u32 tx = threadIdx.x % {SIDE}u, ty = threadIdx.x / {SIDE}u;");
    let _ = writeln!(code, "  {index} n0 = ({index})(blockIdx.x % {across}u) * {side}u;");
    let _ = writeln!(code, "  {index} m0 = ({index})(blockIdx.x / {across}u % {down}u) * {side}u;");
    let _ = writeln!(code, "  {index} o = blockIdx.x / {}u;", across * down);
    code.push_str(&Emitter::axes_of(index, &dims, "o", &batch, "  "));
    let _ = writeln!(code, "  {acc} acc[{each}][{each}] = {{}};");
    let _ = writeln!(code, "  for ({index} k0 = 0; k0 < ({index}){k}; k0 += {DEPTH}u) {{");
    let _ = write!(code, "{a}{b}    __syncthreads();\n    for (u32 kk = 0; kk < {DEPTH}u; kk++) {{\n");
    let _ = writeln!(code, "      {acc} x[{each}], y[{each}];");
    let _ = writeln!(code, "      for (u32 i = 0; i < {each}u; i++) x[i] = as[kk][i * {SIDE}u + ty];");
    let _ = writeln!(code, "      for (u32 j = 0; j < {each}u; j++) y[j] = bs[kk][j * {SIDE}u + tx];");
    let _ = writeln!(
        code,
        "      for (u32 i = 0; i < {each}u; i++) for (u32 j = 0; j < {each}u; j++) acc[i][j] = fma(x[i], y[j], acc[i][j]);"
    );
    let _ = writeln!(code, "    }}\n    __syncthreads();\n  }}\n{end}}}");
    source.launches.push(Launch { entry, arguments: e.arguments.clone(), grid: super::blocks(blocks) });
}
