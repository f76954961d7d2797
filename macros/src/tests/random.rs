//! Random tokens: the macros answer every input, and without panic.

use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

/// xorshift64*: enough to draw tokens, and the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap_or(0) % n
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn stream(&mut self, depth: usize) -> TokenStream {
        (0..self.below(12)).map(|_| self.token(depth)).collect()
    }

    fn token(&mut self, depth: usize) -> TokenTree {
        const WORDS: &[&str] = &[
            "fn",
            "pub",
            "let",
            "mut",
            "if",
            "const",
            "async",
            "unsafe",
            "extern",
            "self",
            "crate",
            "impl",
            "where",
            "for",
            "struct",
            "enum",
            "Tensor",
            "Option",
            "f32",
            "f",
            "x",
            "w",
            "conv2d",
            "matmul",
            "sum",
            "bias",
            "padding",
            "axes",
            "macro_rules",
            "tf32",
            "heuristics",
            "workspace_limit",
            "_",
            "union",
            "dyn",
            "static",
            "type",
            "relu",
        ];
        let delimiters = [Delimiter::Parenthesis, Delimiter::Brace, Delimiter::Bracket, Delimiter::None];
        match self.below(if depth == 0 { 8 } else { 12 }) {
            0..=3 => Ident::new(self.pick(WORDS), Span::call_site()).into(),
            4 => Literal::i64_unsuffixed(1).into(),
            5 => Literal::string("64MiB").into(),
            6 | 7 => {
                let spacing = self.pick(&[Spacing::Alone, Spacing::Joint]);
                Punct::new(self.pick(&['=', ',', ':', ';', '&', '<', '>', '-', '.', '!', '#', '|', '\'']), spacing)
                    .into()
            }
            _ => Group::new(self.pick(&delimiters), self.stream(depth - 1)).into(),
        }
    }

    /// A function of which one part is random.
    fn nearly_valid(&mut self) -> TokenStream {
        let (params, output, body) = (self.stream(1), self.stream(1), self.stream(3));
        match self.below(3) {
            0 => quote::quote!(pub fn f(x: &Tensor, #params) -> Tensor { body }),
            1 => quote::quote!(fn f(x: &Tensor) -> #output { body }),
            _ => quote::quote!(fn f(x: &Tensor) -> Tensor { let y = conv2d(x, #body); y }),
        }
    }
}

#[test]
fn no_panic_on_random_tokens() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut expanded = 0;
    for round in 0..6_000 {
        let args = if round % 2 == 0 { TokenStream::new() } else { random.stream(1) };
        let item = if round % 3 == 0 { random.stream(4) } else { random.nearly_valid() };
        let output = crate::annotated(args, item.clone()).to_string();
        let answered = output.contains("__call") || output.contains("compile_error");
        assert!(answered, "no expansion and no error for {item}");
        expanded += usize::from(output.contains("__call"));
        crate::derive::attr(item);
    }
    assert!(expanded > 500, "most inputs were refused before they were looked at: {expanded}");
}
