//! The options of the attribute: `#[fused_graph(deterministic, tf32 = false, workspace_limit = "64MiB", …)]`.

use crate::diagnostics::{self as says, Errors};
use crate::krate::Krate;
use crate::spell;
use proc_macro2::{Ident, Literal, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Lit, LitBool, Token};

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
}

const NAMES: &[&str] = &["deterministic", "tf32", "workspace_limit", "heuristics", "crate"];
const FIELDS: usize = 4;
const MODES: &[&str] = &["A", "B", "Fallback", "Instant"];

/// Options of the contract that this version does not have, and what happens without each.
const LATER: &[(&str, &str)] = &[
    ("dynamic_shapes", "every shape gets a plan of its own"),
    ("autotune", "cuDNN's own heuristic chooses the engine"),
];

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
        if let Some((_, without)) = LATER.iter().find(|(later, _)| *later == text) {
            return errors.on(name, &says::LATER, &[text, without]);
        }
        let value = match text {
            "crate" => return self.take_crate(name, value, errors),
            "deterministic" | "tf32" => flag(name, value, errors),
            "workspace_limit" => bytes(name, value, errors),
            "heuristics" => modes(name, value, errors),
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

/// Reports a value of the wrong kind, at the value, or at the name where there is none.
fn wrong(name: &Ident, value: Option<TokenStream>, takes: &str, example: &str, errors: &mut Errors) {
    let place = value.filter(|value| !value.is_empty()).unwrap_or_else(|| name.to_token_stream());
    errors.on(place, &says::SETTING_VALUE, &[&name.to_string(), takes, example]);
}

fn flag(name: &Ident, value: Option<TokenStream>, errors: &mut Errors) -> Option<Value> {
    let Some(given) = value.clone() else { return Some(Value::Flag(LitBool::new(true, name.span()))) };
    let flag = syn::parse2::<LitBool>(given).ok();
    if flag.is_none() {
        wrong(name, value, "`true` or `false`", &format!("{name} = false"), errors);
    }
    flag.map(Value::Flag)
}

fn bytes(name: &Ident, value: Option<TokenStream>, errors: &mut Errors) -> Option<Value> {
    let size = match value.clone().map(syn::parse2::<Lit>) {
        Some(Ok(Lit::Str(text))) => size(&text.value()).map_err(|why| (text.value(), why)),
        Some(Ok(Lit::Int(number))) => {
            number.base10_parse().map_err(|_| (number.to_string(), "it does not fit in 64 bits".to_owned()))
        }
        _ => {
            wrong(name, value, "a size", "workspace_limit = \"64MiB\"", errors);
            return None;
        }
    };
    size.map_err(|(text, why)| errors.on(value, &says::SIZE, &[&text, &why])).ok().map(Value::Bytes)
}

/// Units by their usual meaning: powers of 1024 with an `i`, powers of 1000 without.
const UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("b", 1),
    ("kb", 1000),
    ("mb", 1000 * 1000),
    ("gb", 1000 * 1000 * 1000),
    ("tb", 1000 * 1000 * 1000 * 1000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, unit) = (text[..digits].replace('_', ""), text[digits..].trim().to_lowercase());
    if number.is_empty() {
        return Err("it does not start with a number".to_owned());
    }
    let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("`{}` is no unit", text[digits..].trim()));
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*factor));
    bytes.ok_or_else(|| "it does not fit in 64 bits".to_owned())
}

fn modes(name: &Ident, value: Option<TokenStream>, errors: &mut Errors) -> Option<Value> {
    let list = |input: ParseStream| {
        let content;
        syn::bracketed!(content in input);
        content.parse_terminated(Ident::parse_any, Token![,])
    };
    let modes = match list.parse2(value.clone().unwrap_or_default()) {
        Ok(modes) if !modes.is_empty() => modes,
        _ => {
            wrong(name, value, "a list of heuristic modes", "heuristics = [A, Fallback]", errors);
            return None;
        }
    };
    let (good, bad): (Vec<Ident>, Vec<Ident>) =
        modes.into_iter().partition(|mode| MODES.iter().any(|name| mode == name));
    for mode in &bad {
        let text = mode.to_string();
        errors.on(mode, &says::HEURISTIC, &[&text, &spell::hint(&text, MODES.iter().copied())]);
    }
    bad.is_empty().then_some(Value::Modes(good))
}

#[cfg(test)]
mod tests {
    use super::{parse, size};
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
        let all =
            options(quote!(tf32 = false, workspace_limit = "64MiB", heuristics = [A, Fallback], deterministic = true));
        let krate = quote!(::fused_graph::__private::Heuristics);
        let expected = quote!(Options {
            tf32: false,
            workspace_limit: ::core::option::Option::Some(67108864),
            heuristics: &[#krate::A, #krate::Fallback],
            deterministic: true
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
            dynamic_shapes,
            crate = 3,
            = 4
        ));
        let codes: Vec<&str> = found.iter().filter_map(|text| text.split('[').nth(1)?.split(']').next()).collect();
        assert_eq!(
            codes,
            ["FG030", "FG032", "FG031", "FG032", "FG035", "FG035", "FG033", "FG032", "FG036"],
            "{found:#?}"
        );
        assert!(found[0].contains("did you mean `deterministic`?"));
    }
}
