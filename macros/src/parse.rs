//! Reads the annotated item. The body stays tokens: it may be half-typed, and rustc checks it in the expansion.

use crate::diagnostics::{self as says, Errors};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Ident, Signature, Visibility};

/// An annotated function.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) body: Group,
}

impl Function {
    /// Its name as text, without `r#`.
    pub(crate) fn name(&self) -> String {
        self.sig.ident.unraw().to_string()
    }
}

/// The function, or `None` with the reason in `errors`.
pub(crate) fn function(item: TokenStream, errors: &mut Errors) -> Option<Function> {
    match syn::parse2::<Item>(item) {
        Ok(Item::Function(function)) => Some(*function),
        Ok(Item::Bodiless(name)) => {
            errors.on(&name, &says::NO_BODY, &[&name.unraw().to_string()]);
            None
        }
        Ok(Item::Other { keyword, what }) => {
            errors.on(keyword, &says::NOT_A_FUNCTION, &[what]);
            None
        }
        Err(error) => {
            errors.at(error.span(), &says::SYNTAX, &[&error.to_string()]);
            None
        }
    }
}

enum Item {
    Function(Box<Function>),
    Bodiless(Ident),
    Other { keyword: TokenStream, what: &'static str },
}

impl Parse for Item {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        if let Some(what) = other_item(input) {
            let keyword = input.parse::<TokenTree>()?.into_token_stream();
            input.parse::<TokenStream>()?;
            return Ok(Self::Other { keyword, what });
        }
        let sig: Signature = input.parse()?;
        let rest: TokenStream = input.parse()?;
        match body(rest) {
            Some(body) => Ok(Self::Function(Box::new(Function { attrs, vis, sig, body }))),
            None => Ok(Self::Bodiless(sig.ident)),
        }
    }
}

/// The braces at the start, also inside the invisible group that a `$body:block` of `macro_rules!` is.
fn body(rest: TokenStream) -> Option<Group> {
    match rest.into_iter().next()? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => body(group.stream()),
        _ => None,
    }
}

/// What an item is that plainly is no function.
fn other_item(input: ParseStream) -> Option<&'static str> {
    const ITEMS: &[(&str, &str)] = &[
        ("struct", "a struct"),
        ("enum", "an enum"),
        ("trait", "a trait"),
        ("impl", "an `impl` block"),
        ("mod", "a module"),
        ("type", "a type alias"),
        ("use", "an import"),
        ("static", "a static"),
        ("let", "a statement"),
        ("macro_rules", "a macro"),
    ];
    let fork = input.fork();
    if fork.is_empty() {
        return None;
    }
    let Ok(first) = fork.call(Ident::parse_any) else { return Some("this") };
    if first == "const" && fork.call(Ident::parse_any).is_ok_and(|next| !QUALIFIERS.contains(&&*next.to_string())) {
        return Some("a constant");
    }
    ITEMS.iter().find(|(keyword, _)| first == keyword).map(|(_, what)| *what)
}

/// What may stand between `const` and the name of a function.
const QUALIFIERS: &[&str] = &["fn", "async", "unsafe", "extern"];

#[cfg(test)]
mod tests {
    use super::function;
    use crate::diagnostics::Errors;
    use quote::quote;

    fn refusal(item: proc_macro2::TokenStream) -> String {
        let mut errors = Errors::default();
        assert!(function(item, &mut errors).is_none());
        errors.texts().remove(0)
    }

    #[test]
    fn reads_signature_and_leaves_the_body_alone() {
        let mut errors = Errors::default();
        let read = function(
            quote!(/** doc */ #[inline] pub(crate) unsafe fn r#type<T>(x: &Tensor) -> Tensor where T: A { let y = x. }),
            &mut errors,
        );
        let read = read.expect("a body that does not parse is no obstacle");
        assert_eq!((read.name().as_str(), read.attrs.len()), ("type", 2));
        assert_eq!(read.body.to_string(), "{ let y = x . }");
        assert!(errors.is_empty());
    }

    #[test]
    fn says_what_the_item_is() {
        assert!(
            refusal(quote!(
                pub struct S;
            ))
            .starts_with("`#[fused_graph]` goes on a function, not on a struct [FG001]")
        );
        assert!(
            refusal(quote!(
                const N: usize = 1;
            ))
            .contains("a constant")
        );
        assert!(
            refusal(quote!(
                fn f(x: &Tensor) -> Tensor;
            ))
            .starts_with("`f` has no body [FG002]")
        );
        assert!(refusal(quote!(fn f(x &Tensor) {})).contains("[FG009]"));
        assert!(refusal(quote!()).contains("[FG009]"));
        assert!(refusal(quote!({ 1 })).contains("FG001"));
    }
}
