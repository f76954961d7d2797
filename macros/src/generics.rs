//! The generics of the function, as the items beside it need them.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{GenericParam, Generics};

/// `::<T, N>`; lifetimes are left to inference.
pub(crate) fn turbofish(generics: &Generics) -> Option<TokenStream> {
    let mut names = generics.params.iter().filter_map(|param| match param {
        GenericParam::Type(ty) => Some(&ty.ident),
        GenericParam::Const(constant) => Some(&constant.ident),
        GenericParam::Lifetime(_) => None,
    });
    let first = names.next()?;
    Some(quote_spanned!(Span::mixed_site()=> ::<#first #(, #names)*>))
}

/// The generics without the lifetimes that only tensors had: unused ones would be a warning at the user's own token.
pub(crate) fn with_used_lifetimes(generics: &Generics, uses: TokenStream) -> Generics {
    let mut generics = generics.clone();
    let others = generics.params.iter().filter(|param| !matches!(param, GenericParam::Lifetime(_)));
    let mut used = lifetimes(uses);
    used.extend(lifetimes(quote!(#(#others)*)));
    used.extend(lifetimes(generics.where_clause.to_token_stream()));
    let declared = std::mem::take(&mut generics.params);
    // A lifetime that is kept keeps those it outlives.
    for _ in 0..declared.len() {
        for param in declared.iter() {
            if let GenericParam::Lifetime(lifetime) = param
                && used.contains(&lifetime.lifetime.ident)
            {
                used.extend(lifetimes(lifetime.bounds.to_token_stream()));
            }
        }
    }
    let is_used = |param: &GenericParam| match param {
        GenericParam::Lifetime(lifetime) => used.contains(&lifetime.lifetime.ident),
        _ => true,
    };
    generics.params = declared.into_iter().filter(is_used).collect();
    generics
}

/// The names of all lifetimes in the tokens.
fn lifetimes(tokens: TokenStream) -> Vec<Ident> {
    let mut found = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => found.extend(lifetimes(group.stream())),
            TokenTree::Punct(quote) if quote.as_char() == '\'' => {
                if let Some(TokenTree::Ident(name)) = tokens.peek() {
                    found.push(name.clone());
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::with_used_lifetimes;
    use quote::{ToTokens, quote};

    #[test]
    fn lifetimes_stay_as_long_as_something_needs_them() {
        let item: syn::Signature = syn::parse_quote!(fn f<'a, 'b: 'c, 'c: 'd, 'd, T: X<'b>>() where T: 'd);
        assert_eq!(
            with_used_lifetimes(&item.generics, quote!()).to_token_stream().to_string(),
            "< 'b : 'c , 'c : 'd , 'd , T : X < 'b > >"
        );
        let item: syn::Signature = syn::parse_quote!(fn f<'a, 'b: 'a>());
        assert_eq!(with_used_lifetimes(&item.generics, quote!(S<'a>)).to_token_stream().to_string(), "< 'a >");
        assert!(with_used_lifetimes(&item.generics, quote!()).params.is_empty());
    }
}
