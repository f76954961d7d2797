//! Every message of the macros, in one table with stable codes, and the collector that reports all mistakes at once.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// One row of the table. `{0}`, `{1}`, … stand for the user's own identifiers.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) code: &'static str,
    pub(crate) headline: &'static str,
    pub(crate) help: &'static str,
}

macro_rules! table {
    ($($name:ident = $code:literal, $headline:literal, $help:literal;)*) => {
        $(pub(crate) const $name: Row = Row { code: $code, headline: $headline, help: $help };)*
        #[cfg(test)]
        pub(crate) const ALL: &[&Row] = &[$(&$name),*];
    };
}

table! {
    // The item.
    NOT_A_FUNCTION = "FG001", "`#[fused_graph]` goes on a function, not on {0}",
        "annotate a function such as `fn f(x: &Tensor) -> Tensor { … }`";
    NO_BODY = "FG002", "`{0}` has no body", "an annotated function is traced by running its body: write one, outside a trait";
    METHOD = "FG003", "`{0}` takes `self`; an annotated function is a free function",
        "move it out of the `impl` or trait and pass what it needs of `self` as parameters";
    ASYNC = "FG004", "`{0}` is `async`; an annotated function is an ordinary one",
        "remove `async`: a call only enqueues its kernels and returns";
    CONST = "FG005", "`{0}` is `const`; an annotated function runs at run time", "remove `const`";
    EXTERN = "FG006", "`{0}` has a foreign ABI", "remove `extern`, and call this function from an `extern` one";
    VARIADIC = "FG007", "`{0}` is variadic", "name each parameter; a tensor that may be absent is an `Option<&Tensor>`";
    TWICE = "FG008", "`{0}` is annotated twice with `#[fused_graph]`", "keep one, with the options of both";
    SYNTAX = "FG009", "`#[fused_graph]` cannot read this signature: {0}", "";
    // Parameters.
    PATTERN = "FG010", "a parameter of an annotated function is a plain name", "take it apart in the body: `let … = name;`";
    IMPL_TRAIT = "FG011", "`impl Trait` parameters have no name to tell one instance from another",
        "use a type parameter: `fn {0}<T: …>(…: T)`";
    MUT_TENSOR = "FG012", "an annotated function never writes into its parameters", "take `&Tensor` and return the new value";
    OWNED_TENSOR = "FG013", "tensors are taken by reference", "write `{0}`";
    TENSORS_INSIDE = "FG014", "a tensor inside another type cannot be an operand of the graph",
        "make each tensor a parameter of its own: `&Tensor` or `Option<&Tensor>`";
    BORROWED = "FG015", "a parameter that is not a tensor is part of the plan key, so it is taken by value",
        "take it by value, text as `&'static str`";
    CFG_PARAM = "FG016", "a parameter of an annotated function cannot be conditional",
        "put the `cfg` on the whole function, or take an `Option<&Tensor>`";
    NO_TENSOR = "FG017", "`{0}` takes no tensor", "a fused function runs on the device of its inputs: take at least one `&Tensor`";
    // The return type.
    NO_OUTPUT = "FG020", "`{0}` returns nothing", "add `-> Tensor`, or a tuple or an array of tensors";
    BAD_OUTPUT = "FG021", "an annotated function returns `Tensor`, or a tuple or an array of them", "";
    RESULT_OUTPUT = "FG022", "write the tensors alone: the `Result` is added by `#[fused_graph]`",
        "declare `-> {0}`; callers get `fused_graph::Result<{0}>`";
    // Options of the attribute.
    UNKNOWN_SETTING = "FG030", "unknown option `{0}`{1}", "options of `#[fused_graph]`: {2}";
    SETTING_TWICE = "FG031", "option `{0}` is given twice", "keep one";
    SETTING_VALUE = "FG032", "option `{0}` takes {1}", "for example `{2}`";
    NOTE = "FG033", "unknown note `{0}`{1}",
        "notes: tensor_core, down_convert, reduced_precision_reduction, nondeterministic, fft, winograd, runtime_compilation, cuda_graph_native, cublaslt";
    SIZE = "FG034", "`{0}` is not a size: {1}", "write a whole number of bytes or a number with a unit, such as \"64MiB\" or \"1GB\"";
    HEURISTIC = "FG035", "unknown heuristic mode `{0}`{1}", "modes: A, B, Fallback, Instant";
    SETTING_SYNTAX = "FG036", "expected an option: `name` or `name = value`", "options of `#[fused_graph]`: {0}";
    // Named options of an operation.
    NOT_AN_OPERATION = "FG040", "`{0}` takes no named options{1}", "operations that do: {2}";
    UNKNOWN_OPTION = "FG041", "`{0}` has no option `{1}`{2}", "options of `{0}`: {3}";
    OPTION_TWICE = "FG042", "option `{1}` of `{0}` is given twice", "keep one";
    POSITIONAL_LAST = "FG043", "operands come before named options", "move this one to the front, or name it";
    OPERANDS = "FG044", "`{0}` takes {1} before its options: `{0}({2}, {3})`", "options of `{0}`: {4}";
    METHOD_OPTIONS = "FG045", "named options belong to the function, not to a method", "write `{0}({1}, {2} = …)`";
    // `#[derive(Attr)]`.
    DERIVE_UNION = "FG050", "`Attr` cannot be derived for a union", "which field is live is not known; implement `Attr` by hand";
    DERIVE_OPTION = "FG051", "unknown option of `#[attr(…)]`", "the one option is `#[attr(crate = path)]`";
    DERIVE_SYNTAX = "FG052", "`#[derive(Attr)]` cannot read this item: {0}", "";
    // Ourselves.
    BUG = "FG099", "this is a bug in fused-graph: its macro panicked{0}", "please report it with the annotated item";
}

impl Row {
    /// The full text: headline, code, and what would work on the next line.
    pub(crate) fn text(&self, names: &[&str]) -> String {
        let mut text = format!("{} [{}]", fill(self.headline, names), self.code);
        if !self.help.is_empty() {
            text.push('\n');
            text.push_str(&fill(self.help, names));
        }
        text
    }
}

fn fill(template: &str, names: &[&str]) -> String {
    names.iter().enumerate().fold(template.to_owned(), |text, (i, name)| text.replace(&format!("{{{i}}}"), name))
}

/// Mistakes found so far in one item.
#[derive(Debug, Default)]
pub(crate) struct Errors(Vec<syn::Error>);

impl Errors {
    /// Reports `row` over the whole of `tokens`.
    pub(crate) fn on(&mut self, tokens: impl ToTokens, row: &Row, names: &[&str]) {
        self.0.push(syn::Error::new_spanned(tokens, row.text(names)));
    }

    /// Reports `row` at one place.
    pub(crate) fn at(&mut self, span: Span, row: &Row, names: &[&str]) {
        self.0.push(syn::Error::new(span, row.text(names)));
    }

    /// Takes over the mistakes of a later stage.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One `compile_error!` a mistake, in the order in which they were found.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.0.iter().map(syn::Error::to_compile_error).collect()
    }

    #[cfg(test)]
    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, NO_BODY};
    use std::collections::BTreeSet;

    #[test]
    fn codes_are_unique_and_every_placeholder_has_its_predecessor() {
        let codes: BTreeSet<&str> = ALL.iter().map(|row| row.code).collect();
        assert_eq!(codes.len(), ALL.len());
        for row in ALL {
            let text = format!("{} {}", row.headline, row.help);
            assert!(row.code.starts_with("FG") && row.code.len() == 5, "{}", row.code);
            for i in 1..6 {
                assert!(
                    !text.contains(&format!("{{{i}}}")) || text.contains(&format!("{{{}}}", i - 1)),
                    "{}",
                    row.code
                );
            }
        }
    }

    #[test]
    fn headline_code_and_remedy() {
        let text =
            "`f` has no body [FG002]\nan annotated function is traced by running its body: write one, outside a trait";
        assert_eq!(NO_BODY.text(&["f"]), text);
    }
}
