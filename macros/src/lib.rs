//! The attribute macro of fused-graph.
//!
//! Use it through the `fused-graph` crate; the generated code refers to that crate.
//!
//! The stages, each a file: `parse` reads the item, `check` its signature, `settings` the attribute's options, `calls` rewrites named
//! options, `names` notes the `let` bindings, `expand` writes the result, `fallback` what stands in where a signature cannot be used.
//! The messages are one table, `diagnostics`.

mod calls;
mod check;
mod derive;
mod diagnostics;
mod expand;
mod fallback;
mod generics;
mod guard;
mod krate;
mod names;
mod options;
mod parse;
mod settings;
mod spell;
#[cfg(test)]
mod tests;
mod types;

use proc_macro2::TokenStream;

/// Makes a function over tensors one that runs as fused, cached kernels.
///
/// ```
/// use fused_graph::prelude::*;
///
/// /// y = relu(a·b + bias), and its largest magnitude.
/// #[fused_graph]
/// pub fn linear_relu_amax(a: &Tensor, b: &Tensor, bias: Option<&Tensor>, alpha: f32) -> (Tensor, Tensor) {
///     let y = relu(alpha * matmul(a, b, bias = bias));
///     (y, amax(y, axes = [0, 1]))
/// }
///
/// # fn main() -> fused_graph::Result<()> {
/// let a = Tensor::from_slice(&[1.0_f32, 2.0], [1, 2], &Device::cpu())?;
/// let b = Tensor::from_slice(&[3.0_f32, 4.0], [2, 1], &Device::cpu())?;
/// let graph = linear_relu_amax::graph(&a, &b, None, 0.5)?;
/// assert_eq!(graph.outputs().len(), 2);
/// # Ok(())
/// # }
/// ```
///
/// The body runs once for every new signature, with symbolic tensors (`Expr`, which is `Copy`), and leaves a graph. From it a plan is
/// built and kept; later calls with the same signature look it up and launch it. The function itself returns
/// `fused_graph::Result` of what it declares.
///
/// # Parameters
///
/// | type | role |
/// |---|---|
/// | `&Tensor` | an operand; its dims, strides, element type and alignment are part of the plan's key |
/// | `Option<&Tensor>` | an operand that may be absent; its presence is part of the key, in the body it is an `Option<Expr>` |
/// | `f32`, `f64`, by these names | a host scalar: an `Expr` in the body, handed over by value at each launch, never part of a plan |
/// | `bool`, integers, `&'static str`, types with `#[derive(Attr)]` | a plain value in the body; each value has a plan of its own |
///
/// Type parameters (`'static`) and const parameters work; each instance has plans of its own. A parameter is a plain name, `mut name` or
/// `_`. The function takes at least one tensor.
///
/// # Body
///
/// Ordinary Rust: `if`, `match` and `for` over what is no tensor, closures, macros, helper functions over `Expr`, tuples and arrays.
/// Operators and literals work on either side. A `let` gives a value its name in reports and errors.
///
/// Options of an operation are named in the call, after its operands, and checked at compile time:
/// `conv2d(x, w, padding = 1, stride = [2, 1])`. That works wherever the call stands in the body. Outside of annotated functions the
/// same is written `conv2d_with(x, w, ConvOptions::new().padding(1))`.
///
/// # Result
///
/// `Tensor`, or tuples and arrays of it, however nested.
///
/// # Beside the function
///
/// A type of the same name carries
///
/// - `f::bind(…)`: a call with fixed arguments and results of its own, `Bound<…>`, for launches without look-up and for CUDA graphs;
/// - `f::plan(…)`, `f::explain(…)`, `f::graph(…)`: the plan, the report and the traced graph for the given arguments;
/// - `f::expr(…)`: the body, to be called in another annotated function, of which it becomes a part;
/// - `f::tune(…)`: times every engine for these arguments and keeps the fastest;
/// - `f::load(&device, &bytes)`: makes a plan known that `f::plan(…)?.to_bytes()?` wrote in another process;
/// - `f::stats()`, `f::clear()`: counts over all calls; forgets all plans.
///
/// Type and const parameters belong to the methods: `f::<bf16, true>(&x)?`, `f::plan::<bf16, true>(&x)?`, `f::stats()`.
///
/// It takes the name `f` among types and modules too, so `mod f` and `fn f` cannot stand side by side.
///
/// # Options
///
/// | option | meaning |
/// |---|---|
/// | `autotune` | the first call for a signature times every engine, as `f::tune` does |
/// | `dynamic_shapes` | a kernel that was compiled for one size serves others |
/// | `deterministic` | only engines that give the same bits every time |
/// | `tf32 = false` | no rounding of F32 operands to TF32 |
/// | `workspace_limit = "64MiB"` | the most workspace a plan may take; also `"1GB"` or a number of bytes |
/// | `heuristics = [A, B, Fallback]` | which of cuDNN's heuristic modes are asked, in this order; also `Instant` |
/// | `engine = "eng4_k24=2"` | this engine with these knobs, as reports and cudnn-frontend write it |
/// | `engines = [4, 7]`, `deny_engines = [0]` | only engines, or none, of these numbers |
/// | `require = [cuda_graph_native]`, `deny = [tensor_core]` | only engines with, or without, these notes of cuDNN's |
/// | `sm_count = 64` | how many multiprocessors a kernel may use |
/// | `crate = path` | where the library is, if not at `::fused_graph`: a renamed dependency, a re-export, `$crate::…` in a macro |
///
/// # What it leaves alone
///
/// Attributes, documentation, visibility, generics and lints are the user's. `#[expect(…)]` acts as `#[allow(…)]`, because signature and
/// body end up in different functions. `async`, `const`, `extern` and methods are refused. All mistakes of a function are reported at
/// once, each at its own token with a code (`FG041`), and the function stays there for its callers.
#[proc_macro_attribute]
pub fn fused_graph(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let (args, item) = (TokenStream::from(args), TokenStream::from(item));
    guard::guarded(&item, || annotated(args.clone(), item.clone())).into()
}

/// Makes a struct or an enum a static parameter of annotated functions: each value has plans of its own.
///
/// ```
/// use fused_graph::prelude::*;
///
/// #[derive(Attr, Clone, Copy)]
/// enum Activation {
///     Relu,
///     LeakyRelu { percent: u8 },
/// }
///
/// #[fused_graph]
/// fn activated(x: &Tensor, activation: Activation) -> Tensor {
///     match activation {
///         Activation::Relu => relu(x),
///         Activation::LeakyRelu { percent } => leaky_relu(x, slope = f64::from(percent) / 100.0),
///     }
/// }
/// ```
///
/// The variant and every field are written into the key. Fields are `Attr` themselves, or floats, which are baked into the plan: only a plain
/// parameter `f32` or `f64` is a host scalar. With `#[attr(crate = path)]` the library is looked for at `path` instead of `::fused_graph`.
#[proc_macro_derive(Attr, attributes(attr))]
pub fn derive_attr(item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let item = TokenStream::from(item);
    // A derive adds to the item, so nothing is lost with it.
    guard::guarded(&TokenStream::new(), || derive::attr(item.clone())).into()
}

/// The attribute: all mistakes as errors, followed by the best expansion that there is.
fn annotated(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = diagnostics::Errors::default();
    let settings = settings::parse(args, &mut errors);
    let Some(mut function) = parse::function(item.clone(), &mut errors) else {
        let mut tokens = errors.into_tokens();
        tokens.extend(item);
        return tokens;
    };
    let checked = check::signature(&mut function, &mut errors);
    let body = calls::rewrite(&function.body, &settings.krate, &mut errors);
    let expansion = if checked.expandable {
        let bindings = names::bindings(function.body.stream());
        expand::item(&function, &checked, &settings, &body, &bindings)
    } else {
        fallback::item(function, &checked, &settings.krate)
    };
    let mut tokens = errors.into_tokens();
    tokens.extend(expansion);
    tokens
}
