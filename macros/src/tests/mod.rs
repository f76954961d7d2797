//! Whole expansions as snapshots, mistakes as the list of their texts, and random input.

mod expansions;
mod mistakes;
mod random;

use proc_macro2::TokenStream;

/// Source text as tokens.
fn tokens(source: &str) -> TokenStream {
    source.parse().expect("the test's source has balanced brackets")
}

/// What the attribute with these arguments makes of the item, formatted if it is valid Rust.
fn expanded(args: &str, item: &str) -> String {
    let expansion = crate::annotated(tokens(args), tokens(item));
    match syn::parse2::<syn::File>(expansion.clone()) {
        Ok(file) => prettyplease::unparse(&file),
        Err(error) => format!("// does not parse: {error}\n{expansion}"),
    }
}
