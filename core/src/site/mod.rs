//! An annotated function at run time: its key, its cache of plans, and the call.
//!
//! `Site` is the static that the macro puts beside a function; `Call` is one call with its arguments; `Returns` ties what the body gives
//! (`Expr`s) to what the function gives (`Tensor`s).

mod attr;
mod bound;
mod build;
mod building;
mod cache;
mod call;
mod captured;
mod fits;
mod key;
mod plan;
mod returns;

pub use attr::{Attr, Field};
pub use bound::{Bound, BoundCall};
pub use build::key_text;
pub use cache::{Site, Stats};
pub use call::{Call, Inputs};
pub use captured::Captured;
pub use key::KeyWriter;
pub use plan::Plan;
pub use returns::Returns;

use fits::fits;

use crate::backend::Options;
use crate::trace::Binding;

/// What the macro knows of a function.
#[derive(Clone, Copy, Debug)]
pub struct Meta {
    /// Name.
    pub name: &'static str,
    /// `module_path!()`.
    pub module: &'static str,
    /// `file!()`.
    pub file: &'static str,
    /// Line of the name.
    pub line: u32,
    /// Names of the parameters.
    pub params: &'static [&'static str],
    /// The `let` bindings of the body.
    pub bindings: &'static [Binding],
    /// The options of the attribute.
    pub options: Options,
}
