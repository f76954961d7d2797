//! The options of the attribute: `#[fused_graph(deterministic, tf32 = false, workspace_limit = "64MiB", …)]`.

use crate::diagnostics::{self as says, Errors};
use crate::krate::Krate;
use crate::spell;
use proc_macro2::{Ident, Literal, TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{LitBool, LitStr, Token};

mod values;

use values::{bytes, count, engine, flag, modes, notes, numbers, wrong};

/// What the attribute said.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) krate: Krate,
    /// Field and value of each option of the library's `Options` that was given.
    fields: Vec<(Ident, Value)>,
}

enum Value {
    Flag(LitBool),
    Bytes(u64),
    Modes(Vec<Ident>),
    Notes(Vec<&'static str>),
    Numbers(Vec<i64>),
    Count(u32),
    Text(LitStr),
}

const NAMES: &[&str] = &[
    "dynamic_shapes",
    "autotune",
    "deterministic",
    "tf32",
    "workspace_limit",
    "heuristics",
    "engines",
    "deny_engines",
    "require",
    "deny",
    "engine",
    "sm_count",
    "crate",
];
const FIELDS: usize = 12;
impl Settings {
    /// The `Options` of the library, as a constant expression. `Options` must be in scope.
    pub(crate) fn options(&self) -> TokenStream {
        let krate = &self.krate;
        let fields = self.fields.iter().map(|(name, value)| match value {
            Value::Flag(flag) => quote!(#name: #flag),
            Value::Bytes(bytes) => {
                let bytes = Literal::u64_unsuffixed(*bytes);
                quote!(#name: ::core::option::Option::Some(#bytes))
            }
            Value::Modes(modes) => quote!(#name: &[#(#krate::__private::Heuristics::#modes),*]),
            Value::Notes(notes) => {
                let notes = notes.iter().map(|note| Ident::new(note, name.span()));
                quote!(#name: &[#(#krate::__private::Note::#notes),*])
            }
            Value::Numbers(numbers) => {
                let numbers = numbers.iter().map(|n| Literal::i64_unsuffixed(*n));
                quote!(#name: &[#(#numbers),*])
            }
            Value::Count(count) => {
                let count = Literal::u32_unsuffixed(*count);
                quote!(#name: ::core::option::Option::Some(#count))
            }
            Value::Text(text) => quote!(#name: ::core::option::Option::Some(#text)),
        });
        match self.fields.len() {
            0 => quote!(Options::DEFAULT),
            FIELDS => quote!(Options { #(#fields),* }),
            _ => quote!(Options { #(#fields,)* ..Options::DEFAULT }),
        }
    }

    /// Whether `Options` is needed beyond its default, for messages and tests.
    #[cfg(test)]
    pub(crate) fn is_default(&self) -> bool {
        self.fields.is_empty()
    }
}

/// Reads the arguments of the attribute. An option that is wrong is reported and left out.
pub(crate) fn parse(args: TokenStream, errors: &mut Errors) -> Settings {
    let mut settings = Settings::default();
    let mut seen: Vec<String> = Vec::new();
    for option in split_on_commas(args) {
        let Some((name, value)) = name_and_value(option, errors) else { continue };
        let text = name.unraw().to_string();
        if seen.contains(&text) {
            errors.on(&name, &says::SETTING_TWICE, &[&text]);
            continue;
        }
        settings.take(&name, &text, value, errors);
        seen.push(text);
    }
    settings
}

/// The chunks between commas; empty ones (a comma too many) are left out.
fn split_on_commas(tokens: TokenStream) -> Vec<TokenStream> {
    let mut chunks = vec![Vec::new()];
    for token in tokens {
        match token {
            TokenTree::Punct(comma) if comma.as_char() == ',' => chunks.push(Vec::new()),
            token => chunks.last_mut().into_iter().for_each(|chunk| chunk.push(token.clone())),
        }
    }
    chunks.into_iter().filter(|chunk| !chunk.is_empty()).map(TokenStream::from_iter).collect()
}

/// `name` or `name = value`; the value of the first kind is `None`.
fn name_and_value(option: TokenStream, errors: &mut Errors) -> Option<(Ident, Option<TokenStream>)> {
    let read = |input: ParseStream| {
        let name = input.call(Ident::parse_any)?;
        let value = input.parse::<Option<Token![=]>>()?.map(|_| input.parse::<TokenStream>()).transpose()?;
        Ok((name, value))
    };
    let read = read.parse2(option.clone()).ok();
    if read.is_none() {
        errors.on(option, &says::SETTING_SYNTAX, &[&NAMES.join(", ")]);
    }
    read
}

impl Settings {
    fn take(&mut self, name: &Ident, text: &str, value: Option<TokenStream>, errors: &mut Errors) {
        let value = match text {
            "crate" => return self.take_crate(name, value, errors),
            "dynamic_shapes" | "autotune" | "deterministic" | "tf32" => flag(name, value, errors),
            "workspace_limit" => bytes(name, value, errors),
            "heuristics" => modes(name, value, errors),
            "engines" | "deny_engines" => numbers(name, value, errors),
            "require" | "deny" => notes(name, value, errors),
            "engine" => engine(name, value, errors),
            "sm_count" => count(name, value, errors),
            _ => {
                let known = NAMES.iter().copied();
                return errors.on(name, &says::UNKNOWN_SETTING, &[text, &spell::hint(text, known), &NAMES.join(", ")]);
            }
        };
        self.fields.extend(value.map(|value| (name.clone(), value)));
    }

    fn take_crate(&mut self, name: &Ident, value: Option<TokenStream>, errors: &mut Errors) {
        let given = value.clone().unwrap_or_default();
        match syn::Path::parse_mod_style.parse2(given) {
            Ok(path) => self.krate = Krate::custom(path),
            Err(_) => wrong(name, value, "the path of the library", "crate = ::my_framework::fused_graph", errors),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;
    use super::values::size;
    use crate::diagnostics::Errors;
    use quote::{ToTokens, quote};

    fn options(args: proc_macro2::TokenStream) -> String {
        let mut errors = Errors::default();
        let settings = parse(args, &mut errors);
        assert!(errors.is_empty(), "{:?}", errors.texts());
        settings.options().to_string()
    }

    fn refusals(args: proc_macro2::TokenStream) -> Vec<String> {
        let mut errors = Errors::default();
        parse(args, &mut errors);
        errors.texts()
    }

    #[test]
    fn every_option() {
        assert_eq!(options(quote!()), "Options :: DEFAULT");
        assert_eq!(
            options(quote!(deterministic,)),
            quote!(Options { deterministic: true, ..Options::DEFAULT }).to_string()
        );
        let all = options(quote!(
            tf32 = false,
            workspace_limit = "64MiB",
            heuristics = [A, Fallback],
            deterministic = true,
            dynamic_shapes,
            autotune = false,
            engines = [4, 7],
            deny_engines = [0],
            require = [tensor_core],
            deny = [nondeterministic, cublaslt],
            engine = "eng4_k24=2",
            sm_count = 64
        ));
        let krate = quote!(::fused_graph::__private::Heuristics);
        let note = quote!(::fused_graph::__private::Note);
        let expected = quote!(Options {
            tf32: false,
            workspace_limit: ::core::option::Option::Some(67108864),
            heuristics: &[#krate::A, #krate::Fallback],
            deterministic: true,
            dynamic_shapes: true,
            autotune: false,
            engines: &[4, 7],
            deny_engines: &[0],
            require: &[#note::TensorCore],
            deny: &[#note::Nondeterministic, #note::CublasLt],
            engine: ::core::option::Option::Some("eng4_k24=2"),
            sm_count: ::core::option::Option::Some(64)
        });
        assert_eq!(all, expected.to_string());
    }

    #[test]
    fn crate_path() {
        let settings = parse(quote!(crate = crate::deep::fg), &mut Errors::default());
        assert!(settings.is_default());
        assert_eq!(settings.krate.to_token_stream().to_string(), "crate :: deep :: fg");
    }

    #[test]
    fn sizes() {
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size(" 1 GB "), Ok(1_000_000_000));
        assert_eq!(size("1_024"), Ok(1024));
        assert_eq!(size("0"), Ok(0));
        assert!(
            size("MiB").is_err() && size("1.5GiB").is_err() && size("64MX").is_err() && size("99999999TiB").is_err()
        );
    }

    #[test]
    fn all_mistakes_at_once() {
        let found = refusals(quote!(
            determinstic,
            tf32 = "no",
            tf32,
            workspace_limit = [1],
            heuristics = [A, Fallbck, C],
            deny = [tensor_cores],
            engine = "4",
            engines = [a],
            deny_engines = [0, -1],
            sm_count = 0,
            crate = 3,
            = 4
        ));
        let codes: Vec<&str> = found.iter().filter_map(|text| text.split('[').nth(1)?.split(']').next()).collect();
        assert_eq!(
            codes,
            [
                "FG030", "FG032", "FG031", "FG032", "FG035", "FG035", "FG033", "FG032", "FG032", "FG032", "FG032",
                "FG032", "FG036"
            ],
            "{found:#?}"
        );
        assert!(found[0].contains("did you mean `deterministic`?"));
    }
}
