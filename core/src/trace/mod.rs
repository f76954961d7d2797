//! Tracing: the body of an annotated function runs once over [`Expr`] and leaves a graph.

mod expr;
pub mod ops;
mod options;

pub use expr::Expr;
pub use options::{
    AvgPoolOptions, Axes, BatchNormOptions, BatchNormTrainOptions, ClippedReluOptions, ConvOptions, EluOptions,
    Extents, GeluOptions, InstanceNormOptions, LayerNormOptions, LeakyReluOptions, MatmulOptions, MaxPoolOptions,
    Padding, ReduceOptions, RmsNormOptions, SdpaOptions, SliceOptions, SoftplusOptions, SwishOptions,
};

use crate::error::{Error, Result};
use crate::ir::{Graph, Op, SourceLoc, ValueId, ValueKind};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};

/// A `let` binding of the traced function: the name and the place of the expression that is bound, so that results are called what the user calls them.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// The name.
    pub name: &'static str,
    /// Line and column, both from 1, of the first token of the expression.
    pub start: (u32, u32),
    /// Line and column just behind its last token.
    pub end: (u32, u32),
}

/// The graph under construction on this thread.
struct Tracer {
    serial: u32,
    graph: Graph,
    errors: Vec<Error>,
}

thread_local! {
    static TRACER: RefCell<Option<Tracer>> = const { RefCell::new(None) };
}

/// Runs `body` over a new graph: `declare` adds the arguments, `body` gives the results.
pub(crate) fn trace<A, R>(
    name: &str,
    declare: impl FnOnce(&mut Graph) -> A,
    body: impl FnOnce(u32, A) -> R,
    exprs: impl FnOnce(&R, &mut Vec<Expr>),
    bindings: &[Binding],
    file: &str,
) -> Result<Graph> {
    static SERIAL: AtomicU32 = AtomicU32::new(1);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let mut graph = Graph::new(name);
    let arguments = declare(&mut graph);
    // A tracer that is already there belongs to a function whose body calls another one on real tensors: it comes back afterwards, also
    // when the body panics.
    let _restore = Restore(TRACER.replace(Some(Tracer { serial, graph, errors: Vec::new() })));
    let result = body(serial, arguments);
    let mut outputs = Vec::new();
    exprs(&result, &mut outputs);
    let ids: Vec<Option<ValueId>> = outputs.iter().map(|e| e.finish()).collect();
    let Some(mut tracer) = TRACER.take() else {
        return Err(Error::argument(format!("`{name}`: the trace was lost")));
    };
    if !tracer.errors.is_empty() {
        return Err(join(tracer.errors));
    }
    let mut ids = ids.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| {
        Error::argument(format!("`{name}` returns an expression that does not come from its own parameters"))
    })?;
    for (position, id) in ids.iter_mut().enumerate() {
        *id = returned(&mut tracer.graph, *id, position)?;
    }
    name_values(&mut tracer.graph, bindings, file);
    tracer.graph.set_outputs(ids);
    Ok(tracer.graph)
}

struct Restore(Option<Tracer>);

impl Drop for Restore {
    fn drop(&mut self) {
        TRACER.set(self.0.take());
    }
}

/// Several mistakes of one body in one error of the first one's kind.
fn join(errors: Vec<Error>) -> Error {
    let text: Vec<&str> = errors.iter().map(|e| e.message()).collect();
    Error::new(errors[0].kind(), text.join("\n"))
}

/// A result must be computed: an argument that is returned as it came (or seen through a view) is copied.
fn returned(graph: &mut Graph, id: ValueId, position: usize) -> Result<ValueId> {
    if crate::fuse::is_scalar(graph, id) {
        return Err(Error::argument(format!(
            "result {} of `{}` is the scalar {}; return a tensor",
            position + 1,
            graph.name(),
            graph.describe(id)
        )));
    }
    let base = crate::fuse::resolve(graph, id).base;
    if matches!(graph.value(base).kind, ValueKind::Input { .. }) {
        let identity = Op::Pointwise(crate::ir::PointwiseMode::Identity, Default::default());
        return graph.add_node(identity, &[id], SourceLoc::NONE);
    }
    Ok(id)
}

/// Gives each value that a `let` bound its name: the last one computed within the bound expression.
fn name_values(graph: &mut Graph, bindings: &[Binding], file: &str) {
    let place = |loc: &SourceLoc| {
        let at = (loc.line, loc.column);
        let inside = |b: &&Binding| loc.file == file && b.start <= at && at < b.end;
        bindings.iter().filter(inside).max_by_key(|b| b.start)
    };
    let named: Vec<(ValueId, Option<&Binding>)> = graph.nodes().map(|(_, n)| (n.output, place(&n.loc))).collect();
    for (i, (value, binding)) in named.iter().enumerate() {
        let Some(binding) = binding else { continue };
        let next = named.get(i + 1).and_then(|(_, b)| *b);
        if next.is_none_or(|n| !std::ptr::eq(n, *binding)) {
            graph.set_name(*value, binding.name);
        }
    }
}

/// Adds an operation to the graph of this thread. A mistake is kept and gives a value whose users are silent, so that one mistake is one text.
fn emit(op: Op, operands: &[Expr], loc: SourceLoc) -> Expr {
    with_tracer(|t| {
        let mut ids = smallvec::SmallVec::<[ValueId; 3]>::new();
        for e in operands {
            match e.id(t.serial) {
                Ok(id) => ids.push(id),
                Err(None) => return Expr::POISON,
                Err(Some(error)) => return t.fail(op.name(), error, loc),
            }
        }
        match t.graph.add_node(op, &ids, loc) {
            Ok(id) => Expr::new(id, t.serial),
            Err(error) => {
                t.errors.push(error);
                Expr::POISON
            }
        }
    })
}

/// Records a mistake that is found before there is an operation.
fn fail(op: &str, error: Error, loc: SourceLoc) -> Expr {
    with_tracer(|t| t.fail(op, error, loc))
}

fn with_tracer(f: impl FnOnce(&mut Tracer) -> Expr) -> Expr {
    TRACER.with_borrow_mut(|t| t.as_mut().map_or(Expr::POISON, f))
}

/// What is known of a value while tracing.
fn with_value<R>(e: Expr, f: impl FnOnce(&crate::ir::Value) -> R) -> Option<R> {
    TRACER.with_borrow(|t| {
        let t = t.as_ref()?;
        Some(f(t.graph.value(e.id(t.serial).ok()?)))
    })
}

/// Whether an expression is a literal, a host scalar or arithmetic of them. Mistakes count, having been recorded.
fn is_scalar(e: Expr) -> bool {
    TRACER.with_borrow(|t| {
        let found = t.as_ref().and_then(|t| Some(crate::fuse::is_scalar(&t.graph, e.id(t.serial).ok()?)));
        found.unwrap_or(true)
    })
}

/// A value as texts show it.
fn describe(e: Expr) -> String {
    TRACER.with_borrow(|t| t.as_ref().and_then(|t| Some(t.graph.describe(e.id(t.serial).ok()?))).unwrap_or_default())
}

impl Tracer {
    fn fail(&mut self, op: &str, error: Error, loc: SourceLoc) -> Expr {
        let text = format!("`{op}` in `{}` at {loc}: {}", self.graph.name(), error.message());
        self.errors.push(Error::new(error.kind(), text));
        Expr::POISON
    }
}
