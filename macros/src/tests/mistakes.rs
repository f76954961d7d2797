//! Every mistake of one item is reported at once, each at its own token.

use super::tokens;
use proc_macro2::{TokenStream, TokenTree};

/// Place and text of each `compile_error!`, as `line:column text`.
fn errors(args: &str, item: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect(crate::annotated(tokens(args), tokens(item)), &mut found);
    found
}

fn collect(stream: TokenStream, found: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    for window in tokens.windows(3) {
        if let [TokenTree::Ident(name), TokenTree::Punct(bang), TokenTree::Group(group)] = window
            && name == "compile_error"
            && bang.as_char() == '!'
        {
            let text = syn::parse2::<syn::LitStr>(group.stream()).expect("a text").value();
            let place = name.span().start();
            found.push(format!("{}:{} {}", place.line, place.column + 1, text.replace('\n', " / ")));
        }
    }
}

#[test]
fn in_named_options() {
    let item = "fn f(x: &Tensor, w: &Tensor) -> Tensor {
    let a = conv2d(x, w, paddng = 1, stride = 2, stride = 1);
    let b = relu(a, inplace = true);
    let b = conv3(b, w, padding = 1);
    let c = matmul(x, bias = w);
    let d = gelu(approximate = \"tanh\", a);
    let e = conv1d(x, w, w, padding = 1);
    x.sum(axes = [1])
}";
    insta::assert_snapshot!(errors("", item).join("\n"));
}

#[test]
fn in_the_signature() {
    let item = "#[fused_graph(tf32)]
pub const async extern \"C\" fn f<T>(
    a: Tensor,
    b: &mut Tensor,
    c: Option<Tensor>,
    d: &[Tensor],
    e: &str,
    (g, h): (u8, u8),
    i: impl Attr,
    #[cfg(x)] j: &'static str,
) -> (Tensor, Vec<Tensor>, &Tensor) {
    matmul(x, w, transpose = true)
}";
    insta::assert_snapshot!(errors("dynamic_shapes, tf23 = true", item).join("\n"));
}

#[test]
fn in_other_signatures() {
    let items = [
        "fn f(&self, x: &Tensor) -> Tensor {}",
        "fn f(x: &Tensor) {}",
        "fn f(alpha: f32) -> Tensor {}",
        "fn f(x: &Tensor) -> Result<(Tensor, Tensor)> {}",
        "fn f(x: &Tensor) -> () {}",
        "unsafe extern fn f(x: &Tensor, ...) -> Tensor {}",
        "fn f(x: Option<&mut Tensor>) -> impl Sized {}",
        "fn f(x: &Tensor) -> Tensor;",
        "struct S;",
    ];
    insta::assert_snapshot!(items.map(|item| format!("{item}\n  {}", errors("", item).join("\n  "))).join("\n"));
}
