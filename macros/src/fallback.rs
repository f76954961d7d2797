//! What takes the place of a function whose signature cannot be expanded: the same names with the signature as far as it makes sense,
//! so that the only errors are the ones reported here, and callers and editors still find the function.

use crate::check::Checked;
use crate::expand::{Parts, QUERIES};
use crate::krate::Krate;
use crate::parse::Function;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{FnArg, ReturnType, Type};

/// Stubs for the function and its companion, or the item as it was where no free function can be made of it.
pub(crate) fn item(mut function: Function, checked: &Checked, krate: &Krate) -> TokenStream {
    if function.sig.inputs.iter().any(|input| matches!(input, FnArg::Receiver(_))) {
        return unchanged(&function);
    }
    function.attrs.clear();
    if let ReturnType::Type(_, ty) = &mut function.sig.output {
        **ty = returned(ty, krate);
    }
    let parts = Parts::new(&function, &checked.params, krate);
    let body = stub_body();
    let signature = parts.signature(&function.sig.ident, &parts.result(&parts.output));
    let (companion, expr, name) = (parts.companion(), parts.expr(&body), parts.companion_name());
    let queries = QUERIES.iter().map(|query| parts.query(query));
    let vis = &function.vis;
    quote_spanned! {Span::mixed_site()=>
        #[allow(unused, missing_docs)]
        #signature #body
        #companion
        #[allow(unused)]
        impl #name {
            #expr
            #(#queries #body)*
            #[doc(hidden)]
            #vis fn stats() -> #krate::Stats #body
            #[doc(hidden)]
            #vis fn load(_device: &#krate::Device, _bytes: &[u8]) -> #krate::Result<()> #body
            #[doc(hidden)]
            #vis fn clear() {}
        }
    }
}

fn unchanged(function: &Function) -> TokenStream {
    let Function { attrs, vis, sig, body } = function;
    quote!(#(#attrs)* #vis #sig #body)
}

fn stub_body() -> proc_macro2::Group {
    proc_macro2::Group::new(proc_macro2::Delimiter::Brace, quote_spanned!(Span::mixed_site()=> loop {}))
}

/// What callers most likely expect: `T` of `Result<T>`; a tensor where an opaque type has no stub.
fn returned(ty: &Type, krate: &Krate) -> Type {
    match crate::types::argument_of(ty, "Result") {
        Some(inner) => inner.clone(),
        None if matches!(ty, Type::ImplTrait(_)) => Type::Verbatim(quote!(#krate::Tensor)),
        None => ty.clone(),
    }
}
