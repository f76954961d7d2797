//! `#[derive(Attr)]`: a value that is part of the plan key is written as the index of its variant and then every field.

use crate::diagnostics::{self as says, Errors};
use crate::krate::Krate;
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{format_ident, quote_spanned};
use syn::{Attribute, Data, DeriveInput, Fields, GenericParam, Generics, Member, Token};

/// The implementation of `Attr` for a struct or an enum.
pub(crate) fn attr(item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let item = match syn::parse2::<DeriveInput>(item) {
        Ok(item) => item,
        Err(error) => {
            errors.at(error.span(), &says::DERIVE_SYNTAX, &[&error.to_string()]);
            return errors.into_tokens();
        }
    };
    let krate = krate(&item.attrs, &mut errors);
    let body = match &item.data {
        Data::Struct(data) => variants(&krate, [(None, &data.fields)]),
        Data::Enum(data) => {
            variants(&krate, data.variants.iter().map(|variant| (Some(&variant.ident), &variant.fields)))
        }
        Data::Union(data) => {
            errors.on(data.union_token, &says::DERIVE_UNION, &[]);
            quote_spanned!(Span::mixed_site()=> {})
        }
    };
    let mut tokens = errors.into_tokens();
    tokens.extend(implementation(&krate, &item, &body));
    tokens
}

/// The path of the library: `#[attr(crate = path)]`.
fn krate(attrs: &[Attribute], errors: &mut Errors) -> Krate {
    let mut krate = Krate::default();
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("attr")) {
        let path = attr.parse_args_with(|input: syn::parse::ParseStream| {
            input.parse::<Token![crate]>()?;
            input.parse::<Token![=]>()?;
            input.call(syn::Path::parse_mod_style)
        });
        match path {
            Ok(path) => krate = Krate::custom(path),
            Err(_) => errors.on(attr, &says::DERIVE_OPTION, &[]),
        }
    }
    krate
}

fn implementation(krate: &Krate, item: &DeriveInput, body: &TokenStream) -> TokenStream {
    let (name, generics) = (&item.ident, bounded(&item.generics, krate));
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    quote_spanned! {Span::mixed_site()=>
        #[automatically_derived]
        impl #impl_generics #krate::Attr for #name #type_generics #where_clause {
            fn encode(&self, key: &mut #krate::__private::KeyWriter<'_>) #body
        }
    }
}

/// Every type parameter is an `Attr` itself, as with the standard derives.
fn bounded(generics: &Generics, krate: &Krate) -> Generics {
    let mut generics = generics.clone();
    for param in &mut generics.params {
        if let GenericParam::Type(ty) = param {
            let bound = quote_spanned!(Span::mixed_site()=> #krate::Attr);
            ty.bounds.push(syn::TypeParamBound::Verbatim(bound));
        }
    }
    generics
}

/// A `match` over all variants; a struct is its only one and has no index.
fn variants<'a>(krate: &Krate, variants: impl IntoIterator<Item = (Option<&'a Ident>, &'a Fields)>) -> TokenStream {
    let arms: Vec<TokenStream> =
        variants.into_iter().enumerate().map(|(index, (name, fields))| arm(krate, index, name, fields)).collect();
    // An empty enum has no arm, and a reference to it is not known to be uninhabited.
    let value = if arms.is_empty() {
        quote_spanned!(Span::mixed_site()=> *self)
    } else {
        quote_spanned!(Span::mixed_site()=> self)
    };
    quote_spanned!(Span::mixed_site()=> { match #value { #(#arms)* } })
}

fn arm(krate: &Krate, index: usize, name: Option<&Ident>, fields: &Fields) -> TokenStream {
    let path = name.map(|name| quote_spanned!(Span::mixed_site()=> ::#name));
    let index = name.map(|_| {
        let index = Literal::u64_suffixed(index as u64);
        quote_spanned!(Span::mixed_site()=> #krate::Attr::encode(&#index, key);)
    });
    let (patterns, values): (Vec<_>, Vec<_>) = fields
        .members()
        .zip(fields)
        .enumerate()
        .map(|(i, (member, field)): (usize, (Member, &syn::Field))| {
            let value = format_ident!("field{i}", span = Span::mixed_site());
            let place = Span::mixed_site().located_at(syn::spanned::Spanned::span(&field.ty));
            let (krate, value_there) = (krate.at(place), Ident::new(&value.to_string(), place));
            let write = quote_spanned!(place=> #krate::Attr::encode(#value_there, key););
            (quote_spanned!(Span::mixed_site()=> #member: #value), write)
        })
        .unzip();
    quote_spanned!(Span::mixed_site()=> Self #path { #(#patterns),* } => { #index #(#values)* })
}
