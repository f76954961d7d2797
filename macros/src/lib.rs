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

/// Compiles the function into fused, cached kernels.
#[proc_macro_attribute]
pub fn fused_graph(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let (args, item) = (TokenStream::from(args), TokenStream::from(item));
    guard::guarded(&item, || annotated(args.clone(), item.clone())).into()
}

/// Implements `Attr`.
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
