//! The names of `let` bindings with the place of their initialisers, so that reports can call a value of the graph by the name the
//! user gave it.

use crate::calls::{is_attribute, is_punct};
use proc_macro2::{LineColumn, TokenStream, TokenTree};
use syn::ext::IdentExt;

/// `let name = …;`: lines and columns count from 1, as those of `core::panic::Location` do; `end` is just past the initialiser.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) name: String,
    pub(crate) start: (u32, u32),
    pub(crate) end: (u32, u32),
}

/// Every binding of a plain name in the body, also in nested blocks and closures, in source order.
pub(crate) fn bindings(body: TokenStream) -> Vec<Binding> {
    let mut found = Vec::new();
    collect(&body.into_iter().collect::<Vec<_>>(), &mut found);
    found
}

fn collect(tokens: &[TokenTree], found: &mut Vec<Binding>) {
    for (i, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(keyword) if keyword == "let" && !is_condition(&tokens[..i]) => {
                found.extend(binding(&tokens[i + 1..]));
            }
            TokenTree::Group(group) if !is_attribute(&tokens[..i], group) => {
                collect(&group.stream().into_iter().collect::<Vec<_>>(), found);
            }
            _ => {}
        }
    }
}

/// `if let`, `while let` and the `&& let` of a chain: these have no initialiser of their own that ends in `;`.
fn is_condition(before: &[TokenTree]) -> bool {
    match before.last() {
        Some(TokenTree::Ident(keyword)) => keyword == "if" || keyword == "while",
        Some(token) => is_punct(token, '&'),
        None => false,
    }
}

/// The binding whose tokens follow a `let`.
fn binding(mut tokens: &[TokenTree]) -> Option<Binding> {
    if let [TokenTree::Ident(keyword), rest @ ..] = tokens
        && keyword == "mut"
    {
        tokens = rest;
    }
    let [TokenTree::Ident(name), rest @ ..] = tokens else { return None };
    let statement = &rest[..rest.iter().position(|token| is_punct(token, ';')).unwrap_or(rest.len())];
    let value = initialiser(statement).filter(|value| !is_closure(value))?;
    let (start, end) = (value.first()?.span().start(), value.last()?.span().end());
    Some(Binding { name: name.unraw().to_string(), start: one_based(start), end: one_based(end) })
}

/// A closure is no value of the graph: what it computes belongs to the bindings inside it.
fn is_closure(value: &[TokenTree]) -> bool {
    match value.first() {
        Some(TokenTree::Ident(word)) => word == "move",
        Some(token) => is_punct(token, '|'),
        None => false,
    }
}

/// What follows the `=` of `= value` or `: Type = value`.
fn initialiser(statement: &[TokenTree]) -> Option<&[TokenTree]> {
    if !statement.first().is_some_and(|token| is_punct(token, ':') || is_punct(token, '=')) {
        return None;
    }
    let mut angles = 0_i32;
    for (i, token) in statement.iter().enumerate() {
        let is_arrow = i > 0 && is_punct(&statement[i - 1], '-');
        match token {
            token if is_punct(token, '<') => angles += 1,
            token if is_punct(token, '>') && !is_arrow => angles -= 1,
            token if is_punct(token, '=') && angles == 0 => return Some(&statement[i + 1..]),
            _ => {}
        }
    }
    None
}

/// `proc_macro2` counts lines from 1 and columns from 0.
fn one_based(place: LineColumn) -> (u32, u32) {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    (number(place.line), number(place.column.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::{Binding, bindings};

    type Found = (String, (u32, u32), (u32, u32));

    fn found(source: &str) -> Vec<Found> {
        let parsed = source.parse().expect("the test's source has balanced brackets");
        bindings(parsed).into_iter().map(|Binding { name, start, end }| (name, start, end)).collect()
    }

    #[test]
    fn places_of_initialisers() {
        let source = "let y = gelu(alpha * m + b);\nlet mut z: Vec<A<B = C>> =\n  f(y);\n y";
        assert_eq!(found(source), [("y".to_owned(), (1, 9), (1, 28)), ("z".to_owned(), (3, 3), (3, 7))]);
    }

    #[test]
    fn nested_and_raw() {
        let names: Vec<String> =
            found("if a { let r#in = x; } let f: fn(A) -> B = |q| { let w = q; w }; let g = move || 1;")
                .into_iter()
                .map(|b| b.0)
                .collect();
        assert_eq!(names, ["in", "w"]);
    }

    #[test]
    fn only_plain_names_with_initialisers() {
        assert_eq!(
            found("let (a, b) = t; let c; let S { d } = s; if let e = f {} while let g = h {} #[x(let i = 1;)] let"),
            []
        );
    }

    #[test]
    fn columns_count_characters() {
        assert_eq!(found("/* äöü */ let y = x;"), [("y".to_owned(), (1, 19), (1, 20))]);
    }
}
