//! Pooling that no engine takes: a thread for each result.

use super::emit::Emitter;
use super::{BLOCK, Launch, Source};
use fused_graph_core::Result;
use fused_graph_core::fuse::Group;
use fused_graph_core::ir::{Graph, Node, Op, PoolAttrs, PoolMode, PoolPart};
use std::fmt::Write;

/// The kernel of a group whose core is a pooling.
pub(super) fn generate(
    source: &mut Source,
    graph: &Graph,
    group: &Group,
    core: &Node,
    attrs: &PoolAttrs,
) -> Result<()> {
    let (x, out) = (graph.value(core.inputs[0]), graph.value(core.output).dims);
    let mut e = Emitter::new(graph, group, out);
    let (acc, index) = (e.c_type(x.dtype.compute())?, e.index_type());
    let element = e.value(core.inputs[0])?;
    let load = e.take_body();
    let start = if attrs.mode == PoolMode::Max && matches!(acc, "float" | "double") { "-INF_F" } else { "0" };
    let mut body = format!("    {acc} a = {start}; i64 count = 0; int place = 0;\n");
    for axis in 0..attrs.spatial() {
        let _ = writeln!(
            body,
            "    i64 from{axis} = (i64)c{} * {} - {};",
            2 + axis,
            attrs.stride[axis],
            attrs.pre_padding[axis]
        );
    }
    let mut flat = "0LL".to_owned();
    for axis in 0..attrs.spatial() {
        let (window, extent) = (attrs.window[axis], x.dims[2 + axis]);
        let _ = writeln!(
            body,
            "    for (i64 t{axis} = from{axis} < 0 ? 0 : from{axis}; t{axis} < from{axis} + {window} && t{axis} < {extent}; t{axis}++)"
        );
        flat = format!("({flat} * {extent} + t{axis})");
    }
    body.push_str("    {\n");
    for axis in 0..attrs.spatial() {
        let _ = writeln!(body, "      {index} c{} = ({index})t{axis};", 2 + axis);
    }
    let _ = writeln!(body, "{load}      {acc} x = {element};");
    body.push_str(match attrs.mode {
        PoolMode::Max => "      if (count == 0 || x > a || (x != x && a == a)) { a = x; place = (int)",
        _ => "      a += x; (void)",
    });
    let _ = writeln!(body, "{flat}; {}\n      count++;\n    }}", if attrs.mode == PoolMode::Max { "}" } else { "" });
    let result = match attrs.mode {
        PoolMode::Avg => format!("(a / ({acc}){})", attrs.window.numel()),
        PoolMode::AvgExcludePadding => format!("(a / ({acc})count)"),
        _ => "a".to_owned(),
    };
    for &v in &group.outputs {
        let index =
            matches!(graph.producer(v).map(|n| graph.node(n).op), Some(Op::Pool(p)) if p.part == PoolPart::Index);
        e.store(v, if index { "place" } else { &result })?;
    }
    body.push_str(&e.take_body());
    let (n, entry) = (out.numel(), format!("k{}", source.launches.len()));
    let code = &mut source.code;
    let _ = writeln!(code, "extern \"C\" __global__ void __launch_bounds__({BLOCK}) {entry}({}) {{", e.parameters());
    let _ = writeln!(
        code,
        "  for ({index} i = ({index})blockIdx.x * {BLOCK} + threadIdx.x; i < ({index}){n}; i += ({index})gridDim.x * {BLOCK}) {{"
    );
    let _ = writeln!(code, "{}{body}  }}\n}}", e.coordinates("i", "    "));
    let grid = n.div_ceil(BLOCK as usize).clamp(1, 132 * 64) as u32;
    source.launches.push(Launch { entry, arguments: e.arguments, grid });
    Ok(())
}
