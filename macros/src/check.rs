//! All checks on the signature. What passes is described by [`Param`]s; every mistake is reported, each at its own token.

use crate::diagnostics::{self as says, Errors, Row};
use crate::parse::Function;
use crate::types;
use proc_macro2::Ident;
use quote::{ToTokens, format_ident};
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{Attribute, FnArg, Pat, PatIdent, PatType, ReturnType, Type};

/// How a parameter takes part in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `&Tensor`.
    Tensor,
    /// `Option<&Tensor>`.
    Optional,
    /// `f32` or `f64`: a value handed over at each launch.
    Scalar,
    /// Anything else: part of the plan key.
    Attr,
}

/// One parameter.
pub(crate) struct Param {
    /// The user's attributes, for the traced body.
    pub(crate) attrs: Vec<Attribute>,
    /// The user's pattern, for the traced body: `x`, `mut x` or `_`.
    pub(crate) pattern: Pat,
    /// What the generated functions call it.
    pub(crate) name: Ident,
    /// What reports call it.
    pub(crate) label: String,
    pub(crate) ty: Type,
    pub(crate) kind: Kind,
}

/// The parameters of a function whose signature was looked at, and whether it can be expanded.
pub(crate) struct Checked {
    pub(crate) params: Vec<Param>,
    pub(crate) expandable: bool,
}

/// Checks the signature and takes away a second `#[fused_graph]`.
pub(crate) fn signature(function: &mut Function, errors: &mut Errors) -> Checked {
    repeated_attribute(function, errors);
    let mut found = Errors::default();
    qualifiers(function, &mut found);
    let params = params(function, &mut found);
    output(function, &mut found);
    let expandable = found.is_empty();
    errors.append(found);
    Checked { params, expandable }
}

fn repeated_attribute(function: &mut Function, errors: &mut Errors) {
    let name = function.name();
    let is_ours = |attr: &Attribute| attr.path().segments.last().is_some_and(|last| last.ident == "fused_graph");
    for attr in function.attrs.extract_if(.., |attr| is_ours(attr)) {
        errors.on(attr, &says::TWICE, &[&name]);
    }
}

fn qualifiers(function: &Function, errors: &mut Errors) {
    let (name, sig) = (function.name(), &function.sig);
    if let Some(token) = &sig.constness {
        errors.on(token, &says::CONST, &[&name]);
    }
    if let Some(token) = &sig.asyncness {
        errors.on(token, &says::ASYNC, &[&name]);
    }
    if let Some(abi) = &sig.abi {
        errors.on(abi, &says::EXTERN, &[&name]);
    }
    if let Some(variadic) = &sig.variadic {
        errors.on(variadic, &says::VARIADIC, &[&name]);
    }
}

fn params(function: &Function, errors: &mut Errors) -> Vec<Param> {
    let name = function.name();
    let mut params = Vec::new();
    for (index, input) in function.sig.inputs.iter().enumerate() {
        match input {
            FnArg::Receiver(receiver) => errors.on(receiver.self_token, &says::METHOD, &[&name]),
            FnArg::Typed(typed) => params.push(param(index, typed, &name, errors)),
        }
    }
    let is_method = function.sig.receiver().is_some();
    let all_attrs = params.iter().all(|param| matches!(param.kind, Kind::Scalar | Kind::Attr));
    if errors.is_empty() && !is_method && all_attrs {
        errors.on(&function.sig.ident, &says::NO_TENSOR, &[&name]);
    }
    params
}

fn param(index: usize, typed: &PatType, function: &str, errors: &mut Errors) -> Param {
    for attr in typed.attrs.iter().filter(|attr| attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr")) {
        errors.on(attr, &says::CFG_PARAM, &[]);
    }
    let (name, label) = match &*typed.pat {
        Pat::Ident(PatIdent { by_ref: None, subpat: None, ident, .. }) => (ident.clone(), ident.unraw().to_string()),
        Pat::Wild(_) => (unnamed(index), "_".to_owned()),
        pattern => {
            errors.on(pattern, &says::PATTERN, &[]);
            (unnamed(index), "_".to_owned())
        }
    };
    let kind = kind(&typed.ty).unwrap_or_else(|(row, remedy)| {
        errors.on(&typed.ty, row, &[if row.code == says::IMPL_TRAIT.code { function } else { remedy }]);
        Kind::Attr
    });
    let (attrs, pattern, ty) = (typed.attrs.clone(), (*typed.pat).clone(), (*typed.ty).clone());
    Param { attrs, pattern, name, label, ty, kind }
}

fn unnamed(index: usize) -> Ident {
    format_ident!("__fg_arg{index}", span = proc_macro2::Span::mixed_site())
}

/// The kind of a parameter of this type, or the rule it breaks and the type to write instead.
fn kind(ty: &Type) -> Result<Kind, (&'static Row, &'static str)> {
    match types::bare(ty) {
        ty if has_impl_trait(ty) => Err((&says::IMPL_TRAIT, "")),
        Type::Reference(reference) if types::is_tensor(&reference.elem) => match reference.mutability {
            Some(_) => Err((&says::MUT_TENSOR, "")),
            None => Ok(Kind::Tensor),
        },
        ty if types::is_tensor(ty) => Err((&says::OWNED_TENSOR, "&Tensor")),
        ty => match types::argument_of(ty, "Option").map(types::bare) {
            Some(Type::Reference(inner)) if types::is_tensor(&inner.elem) => match inner.mutability {
                Some(_) => Err((&says::MUT_TENSOR, "")),
                None => Ok(Kind::Optional),
            },
            Some(inner) if types::is_tensor(inner) => Err((&says::OWNED_TENSOR, "Option<&Tensor>")),
            _ => plain_kind(ty),
        },
    }
}

fn plain_kind(ty: &Type) -> Result<Kind, (&'static Row, &'static str)> {
    match ty {
        ty if types::mentions_tensor(ty) => Err((&says::TENSORS_INSIDE, "")),
        Type::Reference(reference) => {
            let is_static = reference.lifetime.as_ref().is_some_and(|lifetime| lifetime.ident == "static");
            if is_static && reference.mutability.is_none() { Ok(Kind::Attr) } else { Err((&says::BORROWED, "")) }
        }
        Type::Path(path) if types::ends_in(path, "f32") || types::ends_in(path, "f64") => Ok(Kind::Scalar),
        _ => Ok(Kind::Attr),
    }
}

fn has_impl_trait(ty: &Type) -> bool {
    struct Finder(bool);
    impl Visit<'_> for Finder {
        fn visit_type_impl_trait(&mut self, ty: &syn::TypeImplTrait) {
            self.0 = true;
            visit::visit_type_impl_trait(self, ty);
        }
    }
    let mut finder = Finder(false);
    finder.visit_type(ty);
    finder.0
}

fn output(function: &Function, errors: &mut Errors) {
    match &function.sig.output {
        ReturnType::Default => errors.on(&function.sig.ident, &says::NO_OUTPUT, &[&function.name()]),
        ReturnType::Type(_, ty) => match types::argument_of(ty, "Result") {
            Some(inner) => errors.on(ty, &says::RESULT_OUTPUT, &[&spelled(inner)]),
            None => tensors(ty, errors),
        },
    }
}

/// Reports every part of a return type that is neither a tensor nor a tuple or an array of them.
fn tensors(ty: &Type, errors: &mut Errors) {
    match types::bare(ty) {
        ty if types::is_tensor(ty) => {}
        Type::Tuple(tuple) if !tuple.elems.is_empty() => tuple.elems.iter().for_each(|ty| tensors(ty, errors)),
        Type::Array(array) => tensors(&array.elem, errors),
        ty => errors.on(ty, &says::BAD_OUTPUT, &[]),
    }
}

/// A type as one would write it.
fn spelled(ty: &Type) -> String {
    let text = ty.to_token_stream().to_string();
    [(" ,", ","), (" ;", ";"), (" < ", "<"), (" >", ">"), (" :: ", "::"), ("& ", "&")]
        .iter()
        .fold(text, |text, (from, to)| text.replace(from, to))
}
