//! Where the generated code finds the library: `::fused_graph`, or the path given with `crate = path`.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};

/// The path of the library crate.
#[derive(Clone, Default)]
pub(crate) struct Krate(Option<syn::Path>);

impl Krate {
    pub(crate) fn custom(path: syn::Path) -> Self {
        Self(Some(path))
    }

    /// Whether the path was written by a `macro_rules!` with `$crate`.
    pub(crate) fn is_anchored(&self) -> bool {
        self.0.as_ref().and_then(|path| path.segments.first()).is_some_and(|first| first.ident == "$crate")
    }

    /// The path, with every token located at `span`. The default path also resolves there; the tokens of a path that the user
    /// wrote keep their own hygiene (`$crate`).
    pub(crate) fn at(&self, span: Span) -> TokenStream {
        match &self.0 {
            None => {
                let name = Ident::new("fused_graph", span);
                relocate(quote!(:: #name), &|_| span)
            }
            Some(path) => relocate(path.to_token_stream(), &|own| own.located_at(span)),
        }
    }
}

impl ToTokens for Krate {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(match &self.0 {
            None => self.at(Span::mixed_site()),
            Some(path) => path.to_token_stream(),
        });
    }
}

/// Gives every token, also inside groups, the span that `place` makes of its own.
pub(crate) fn relocate(tokens: TokenStream, place: &dyn Fn(Span) -> Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Group(group) => {
                let mut moved = Group::new(group.delimiter(), relocate(group.stream(), place));
                moved.set_span(place(group.span()));
                TokenTree::Group(moved)
            }
            mut token => {
                token.set_span(place(token.span()));
                token
            }
        })
        .collect()
}
