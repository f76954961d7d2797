//! What can be told from the syntax of a type.

use crate::krate::Krate;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{GenericArgument, PathArguments, Type, TypePath};

/// The type without parentheses and without the invisible groups that `macro_rules!` leaves round a `$t:ty`.
pub(crate) fn bare(mut ty: &Type) -> &Type {
    loop {
        ty = match ty {
            Type::Group(group) => &group.elem,
            Type::Paren(paren) => &paren.elem,
            _ => return ty,
        };
    }
}

/// [`bare`] of a type that is to be changed.
pub(crate) fn bare_mut(ty: &mut Type) -> &mut Type {
    match ty {
        Type::Group(group) => bare_mut(&mut group.elem),
        Type::Paren(paren) => bare_mut(&mut paren.elem),
        ty => ty,
    }
}

/// A path whose last segment is `Tensor`, also with type parameters, which it will take later.
pub(crate) fn is_tensor(ty: &Type) -> bool {
    matches!(bare(ty), Type::Path(path) if ends_in(path, "Tensor"))
}

pub(crate) fn ends_in(path: &TypePath, name: &str) -> bool {
    path.path.segments.last().is_some_and(|segment| segment.ident == name)
}

/// The first type argument of a path that ends in `name`: `T` of `Option<T>`.
pub(crate) fn argument_of<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let Type::Path(path) = bare(ty) else { return None };
    let segment = path.path.segments.last().filter(|segment| segment.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// [`argument_of`] for a type that is to be changed.
pub(crate) fn argument_of_mut<'a>(ty: &'a mut Type, name: &str) -> Option<&'a mut Type> {
    let Type::Path(path) = bare_mut(ty) else { return None };
    let segment = path.path.segments.last_mut().filter(|segment| segment.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &mut segment.arguments else { return None };
    arguments.args.iter_mut().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// Whether `Tensor` occurs anywhere in the type.
pub(crate) fn mentions_tensor(ty: &Type) -> bool {
    struct Finder(bool);
    impl Visit<'_> for Finder {
        fn visit_type_path(&mut self, path: &TypePath) {
            self.0 |= ends_in(path, "Tensor");
            visit::visit_type_path(self, path);
        }
    }
    let mut finder = Finder(false);
    finder.visit_type(ty);
    finder.0
}

/// The type as the trace sees it: every `Tensor` and `&Tensor` is an `Expr`.
pub(crate) fn traced(ty: &Type, krate: &Krate) -> Type {
    struct Replace<'a>(&'a Krate);
    impl VisitMut for Replace<'_> {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            match ty {
                Type::Reference(reference) if is_tensor(&reference.elem) => {
                    *ty = Type::Verbatim(expr(&reference.elem, self.0))
                }
                Type::Path(path) if ends_in(path, "Tensor") => *ty = Type::Verbatim(expr(path, self.0)),
                _ => visit_mut::visit_type_mut(self, ty),
            }
        }
    }
    let mut ty = ty.clone();
    Replace(krate).visit_type_mut(&mut ty);
    ty
}

/// `Expr`, located at the type it stands for so that a type error in the body shows the user's token.
pub(crate) fn expr(instead_of: impl ToTokens, krate: &Krate) -> TokenStream {
    let place = instead_of.to_token_stream().into_iter().last().map_or_else(Span::mixed_site, |token| token.span());
    let place = Span::mixed_site().located_at(place);
    let krate = krate.at(place);
    quote_spanned!(place=> #krate::Expr)
}
