//! What the user's function becomes.

use super::{expanded, tokens};
use insta::assert_snapshot;

#[test]
fn every_kind_of_parameter() {
    assert_snapshot!(expanded(
        "deterministic, workspace_limit = \"64MiB\"",
        "
        /// One sentence.
        #[must_use]
        #[expect(clippy::many_single_char_names)]
        pub(crate) fn f<'a, T: Element, const R: bool>(
            mut x: &'a Tensor, b: Option<&Tensor>, #[allow(unused)] alpha: f32, _: bool, mode: crate::Mode,
        ) -> (Tensor, [Tensor; 2])
        where
            T: 'a,
        {
            let y = relu(conv2d(x, w, bias = b, padding = 1));
            x = alpha * y;
            (x, [x, y])
        }"
    ));
}

#[test]
fn plain_function() {
    assert_snapshot!(expanded("", "fn double(x: &Tensor) -> Tensor { x + x }"));
}

#[test]
fn other_crate_path_and_unsafe() {
    assert_snapshot!(expanded(
        "crate = ::my::fg, heuristics = [B]",
        "#[deprecated] #[doc(hidden)] pub unsafe fn r#type(x: &fg::Tensor<bf16, (M, K)>) -> fg::Tensor<bf16> { sum(x, axes = [1]) }"
    ));
}

#[test]
fn half_typed_bodies_keep_the_item() {
    for body in
        ["{ let y = x. }", "{ if x }", "{}", "{ conv2d(x, w, padding = }", "{ let }", "{ let y = ; matmul(x, x, bias"]
    {
        // What an editor hands over is balanced.
        let body = if body.parse::<proc_macro2::TokenStream>().is_ok() { body } else { "{ conv2d(x, w, padding =) }" };
        let out = crate::annotated(tokens(""), tokens(&format!("pub fn f(x: &Tensor) -> Tensor {body}"))).to_string();
        for kept in [
            "pub fn f (x : & Tensor) -> :: fused_graph :: Result < Tensor >",
            "pub enum f { }",
            "fn expr (x : :: fused_graph :: Expr)",
        ] {
            assert!(out.contains(kept), "{kept} is missing in {out}");
        }
    }
}

#[test]
fn named_options_everywhere() {
    assert_snapshot!(expanded(
        "",
        "fn f(x: &Tensor, w: &Tensor) -> Tensor {
            #![allow(unused)]
            let g = |a| ops::matmul(a, w, transpose_b = true,);
            for i in 0..3 { if sum(x, axes = [i]) == mean(x, keepdim = i == 1, axes = f::<A, B>(1)) {} }
            let w = self::deep::ops::min(w, axes = 0);
            let v = vec![::fused_graph::ops::slice(gelu(x, approximate = \"tanh\"), axis = 1)];
            #[cfg(feature = \"x\")]
            println!(\"{}\", foo(a = 1));
            matmul(x, w) + max(x, w)
        }"
    ));
}

#[test]
fn signature_mistakes_leave_stubs() {
    assert_snapshot!(expanded(
        "",
        "#[must_use] pub async fn f<T>((a, b): (&Tensor, T), x: Tensor, y: &Tensor) -> Result<Tensor, E> { a. }"
    ));
}

#[test]
fn what_is_no_function_stays_as_it_is() {
    assert_snapshot!(expanded("", "#[derive(Debug)] pub struct S { x: u8 }"));
}

#[test]
fn derived_attr() {
    let source = "#[attr(crate = fg)] pub enum Mode<T: Copy, const N: usize> where T: Send { Off, On(T, u8), #[x] Set { r#type: [u8; N] } }";
    let file = syn::parse2(crate::derive::attr(tokens(source))).expect("the implementation parses");
    assert_snapshot!(prettyplease::unparse(&file));
    let empty = crate::derive::attr(tokens("enum Never {}")).to_string();
    assert!(empty.contains("match * self { }"), "{empty}");
}

/// `examples/expand` shows a function and what becomes of it. `BLESS=1 cargo test -p fused-graph-macros` writes it anew.
#[test]
fn the_example_shows_what_the_macro_makes() {
    let source: syn::File =
        syn::parse2(tokens(include_str!("../../../examples/expand/source.rs"))).expect("valid Rust");
    let mut shown = "// Written by the test `the_example_shows_what_the_macro_makes` of the macros.\n".to_owned();
    for item in source.items {
        let syn::Item::Fn(mut function) = item else { panic!("the example is made of functions") };
        let ours = function.attrs.iter().position(|attr| attr.path().is_ident("fused_graph")).expect("annotated");
        let attribute = function.attrs.remove(ours);
        let args = attribute.meta.require_list().map(|list| list.tokens.clone()).unwrap_or_default();
        let expansion = crate::annotated(args, quote::ToTokens::into_token_stream(function));
        shown += &prettyplease::unparse(&syn::parse2(expansion).expect("valid Rust"));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/expand/expanded.rs");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &shown).expect("the repository can be written to");
    }
    let recorded = std::fs::read_to_string(path).expect("examples/expand/expanded.rs is there");
    assert!(recorded == shown, "the example no longer shows the expansion; BLESS=1 writes it anew:\n{shown}");
}
