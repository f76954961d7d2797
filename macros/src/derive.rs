//! `#[derive(Attr)]`: a value that is part of the plan key is written as the index of its variant and then every field.

use crate::diagnostics::{self as says, Errors};
use crate::krate::Krate;
use proc_macro2::{Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::{Attribute, Data, DeriveInput, Field, Fields, Generics, Member, Token, WherePredicate, parse_quote};

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
    let (name, generics) = (&item.ident, bounded(item, krate));
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    quote_spanned! {Span::mixed_site()=>
        #[automatically_derived]
        impl #impl_generics #krate::Attr for #name #type_generics #where_clause {
            fn encode(&self, key: &mut #krate::__private::KeyWriter<'_>) #body
        }
    }
}

/// Where a field's type mentions a type parameter, that type is bound, not the parameter: of `PhantomData<T>` nothing is asked of `T`.
fn bounded(item: &DeriveInput, krate: &Krate) -> Generics {
    let mut generics = item.generics.clone();
    let names: Vec<Ident> = generics.type_params().map(|param| param.ident.clone()).collect();
    let open = fields(&item.data).filter(|field| mentions(field.ty.to_token_stream(), &names));
    let bounds: Vec<WherePredicate> =
        open.map(|Field { ty, .. }| parse_quote!(#ty: #krate::__private::Field)).collect();
    if !bounds.is_empty() {
        generics.make_where_clause().predicates.extend(bounds);
    }
    generics
}

fn fields(data: &Data) -> Box<dyn Iterator<Item = &Field> + '_> {
    match data {
        Data::Struct(data) => Box::new(data.fields.iter()),
        Data::Enum(data) => Box::new(data.variants.iter().flat_map(|variant| &variant.fields)),
        Data::Union(_) => Box::new(std::iter::empty()),
    }
}

fn mentions(tokens: TokenStream, names: &[Ident]) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => names.contains(&ident),
        TokenTree::Group(group) => mentions(group.stream(), names),
        _ => false,
    })
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
        .map(|(i, (member, field)): (usize, (Member, &Field))| {
            let value = format_ident!("field{i}", span = Span::mixed_site());
            let place = Span::mixed_site().located_at(syn::spanned::Spanned::span(&field.ty));
            let (krate, value_there) = (krate.at(place), Ident::new(&value.to_string(), place));
            let write = quote_spanned!(place=> #krate::__private::Field::encode_field(#value_there, key););
            (quote_spanned!(Span::mixed_site()=> #member: #value), write)
        })
        .unzip();
    quote_spanned!(Span::mixed_site()=> Self #path { #(#patterns),* } => { #index #(#values)* })
}
