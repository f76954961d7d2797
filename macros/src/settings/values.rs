//! The values of options.

use super::Value;
use crate::diagnostics::{self as says, Errors};
use crate::spell;
use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Lit, LitBool, LitInt, LitStr, Token};

const MODES: &[&str] = &["A", "B", "Fallback", "Instant"];

/// Notes by their names in the attribute and in the library.
const NOTES: &[(&str, &str)] = &[
    ("tensor_core", "TensorCore"),
    ("down_convert", "DownConvert"),
    ("reduced_precision_reduction", "ReducedPrecisionReduction"),
    ("nondeterministic", "Nondeterministic"),
    ("fft", "Fft"),
    ("winograd", "Winograd"),
    ("runtime_compilation", "RuntimeCompilation"),
    ("cuda_graph_native", "CudaGraphNative"),
    ("cublaslt", "CublasLt"),
];

/// Reports a value of the wrong kind, at the value, or at the name where there is none.
pub(super) fn wrong(name: &Ident, value: Option<TokenStream>, takes: &str, example: &str, errors: &mut Errors) {
    let place = value.filter(|value| !value.is_empty()).unwrap_or_else(|| name.to_token_stream());
    errors.on(place, &says::SETTING_VALUE, &[&name.to_string(), takes, example]);
}

pub(super) fn flag(name: &Ident, value: Option<TokenStream>, errors: &mut Errors) -> Option<Value> {
    let Some(given) = value.clone() else { return Some(Value::Flag(LitBool::new(true, name.span()))) };
    let flag = syn::parse2::<LitBool>(given).ok();
    if flag.is_none() {
        wrong(name, value, "`true` or `false`", &format!("{name} = false"), errors);
    }
    flag.map(Value::Flag)
}

pub(super) fn bytes(name: &Ident, value: Option<TokenStream>, errors: &mut Errors) -> Option<Value> {
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

pub(super) fn size(text: &str) -> Result<u64, String> {
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

pub(super) fn modes(name: &Ident, value: Option<TokenStream>, errors: &mut Errors) -> Option<Value> {
    let takes = ("a list of heuristic modes", "heuristics = [A, Fallback]");
    let modes = words(name, value, takes, errors)?;
    known(&modes, &says::HEURISTIC, MODES, errors).then_some(Value::Modes(modes))
}

pub(super) fn notes(name: &Ident, value: Option<TokenStream>, errors: &mut Errors) -> Option<Value> {
    let example = format!("{name} = [tensor_core]");
    let given = words(name, value, ("a list of notes", &example), errors)?;
    let names: Vec<&str> = NOTES.iter().map(|(name, _)| *name).collect();
    let variant = |note: &Ident| NOTES.iter().find(|(name, _)| note == name).map(|(_, variant)| *variant);
    known(&given, &says::NOTE, &names, errors).then(|| Value::Notes(given.iter().filter_map(variant).collect()))
}

/// `[a, b]` with at least one word.
fn words(
    name: &Ident,
    value: Option<TokenStream>,
    (takes, example): (&str, &str),
    errors: &mut Errors,
) -> Option<Vec<Ident>> {
    let list = |input: ParseStream| {
        let content;
        syn::bracketed!(content in input);
        content.parse_terminated(Ident::parse_any, Token![,])
    };
    match list.parse2(value.clone().unwrap_or_default()) {
        Ok(words) if !words.is_empty() => Some(words.into_iter().collect()),
        _ => {
            wrong(name, value, takes, example, errors);
            None
        }
    }
}

/// Whether all words are known; those that are not are reported.
fn known(words: &[Ident], says: &says::Row, names: &[&str], errors: &mut Errors) -> bool {
    let unknown: Vec<&Ident> = words.iter().filter(|word| !names.iter().any(|name| word == name)).collect();
    for word in &unknown {
        let text = word.to_string();
        errors.on(*word, says, &[&text, &spell::hint(&text, names.iter().copied())]);
    }
    unknown.is_empty()
}

pub(super) fn numbers(name: &Ident, value: Option<TokenStream>, errors: &mut Errors) -> Option<Value> {
    let list = |input: ParseStream| {
        let content;
        syn::bracketed!(content in input);
        content.parse_terminated(<LitInt as syn::parse::Parse>::parse, Token![,])
    };
    let numbers = list.parse2(value.clone().unwrap_or_default()).ok();
    let numbers = numbers.and_then(|list| list.iter().map(|n| n.base10_parse().ok()).collect::<Option<Vec<i64>>>());
    match numbers.filter(|list| !list.is_empty() && list.iter().all(|n| *n >= 0)) {
        Some(numbers) => Some(Value::Numbers(numbers)),
        None => {
            wrong(name, value, "a list of engine numbers", &format!("{name} = [4, 7]"), errors);
            None
        }
    }
}

pub(super) fn count(name: &Ident, value: Option<TokenStream>, errors: &mut Errors) -> Option<Value> {
    let given = value.clone().and_then(|v| syn::parse2::<LitInt>(v).ok()).and_then(|n| n.base10_parse::<u32>().ok());
    match given.filter(|n| *n > 0) {
        Some(count) => Some(Value::Count(count)),
        None => {
            wrong(name, value, "a number of multiprocessors", &format!("{name} = 64"), errors);
            None
        }
    }
}

/// `"eng4_k24=2"`: checked here as far as its form goes.
pub(super) fn engine(name: &Ident, value: Option<TokenStream>, errors: &mut Errors) -> Option<Value> {
    let knob = |part: &str| {
        let pair = part.strip_prefix('k').and_then(|part| part.split_once('='));
        pair.is_some_and(|(knob, value)| knob.parse::<i32>().is_ok() && value.parse::<i64>().is_ok())
    };
    let well_formed = |text: &LitStr| {
        let text = text.value();
        let mut parts = text.split('_');
        let engine = parts.next().and_then(|part| part.strip_prefix("eng")).and_then(|n| n.parse::<i64>().ok());
        engine.is_some() && parts.all(knob)
    };
    match value.clone().and_then(|v| syn::parse2::<LitStr>(v).ok()).filter(well_formed) {
        Some(text) => Some(Value::Text(text)),
        None => {
            wrong(name, value, "an engine with its knobs, as reports print it", "engine = \"eng4_k24=2\"", errors);
            None
        }
    }
}
