//! Named options: `conv2d(x, w, padding = 1)` becomes a call with an options struct, wherever it stands in the body.
//!
//! Works on tokens, not on syntax trees: a half-typed body goes through, and every token the user wrote keeps its span, on which
//! type errors, completion and the source lines in reports rest.

use crate::diagnostics::{self as says, Errors};
use crate::krate::{Krate, relocate};
use crate::options::{self, Operation};
use crate::spell;
use proc_macro2::{Delimiter, Group, Ident, Punct, Spacing, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::Token;
use syn::buffer::Cursor;
use syn::parse::{Parse, ParseStream};

/// The body with its named options rewritten; mistakes in them are reported and left out. A body without any comes back as it was,
/// down to the spans of its braces, so that rustc recognises a syntax error in it as the one that it has reported already.
pub(crate) fn rewrite(body: &Group, krate: &Krate, errors: &mut Errors) -> Group {
    let mut rewriter = Rewriter { krate, errors, in_macro: false, changed: false };
    rewriter.nested(body.clone())
}

struct Rewriter<'a> {
    krate: &'a Krate,
    errors: &'a mut Errors,
    /// Inside the tokens of a macro call nobody knows what `name(a = b)` means: only known operations are touched there.
    in_macro: bool,
    changed: bool,
}

impl Rewriter<'_> {
    fn stream(&mut self, tokens: TokenStream) -> TokenStream {
        let mut out: Vec<TokenTree> = Vec::new();
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.group(&mut out, group),
                token => out.push(token),
            }
        }
        out.into_iter().collect()
    }

    fn group(&mut self, out: &mut Vec<TokenTree>, group: Group) {
        if is_attribute(out, &group) {
            out.push(group.into());
        } else if is_macro_call(out) {
            let outside = std::mem::replace(&mut self.in_macro, true);
            out.push(self.nested(group).into());
            self.in_macro = outside;
        } else if let Some(callee) = callee(out, &group) {
            match arguments(group.stream()) {
                arguments if arguments.iter().any(|argument| argument.name.is_some()) => {
                    self.call(out, &callee, arguments, group);
                }
                _ => out.push(self.nested(group).into()),
            }
        } else {
            out.push(self.nested(group).into());
        }
    }

    /// The group with its content rewritten; the very same group where there was nothing to rewrite.
    fn nested(&mut self, group: Group) -> Group {
        let before = std::mem::replace(&mut self.changed, false);
        let content = self.stream(group.stream());
        let rebuilt = if self.changed { regroup(&group, content) } else { group };
        self.changed |= before;
        rebuilt
    }

    fn call(&mut self, out: &mut Vec<TokenTree>, callee: &Ident, arguments: Vec<Argument>, group: Group) {
        let name = callee.to_string();
        match options::find(&name) {
            Some(operation) if is_method(out) => {
                let option = arguments.iter().find_map(|argument| argument.name.as_ref());
                let (operands, option) =
                    (operation.operands.join(", "), option.map_or_else(String::new, Ident::to_string));
                self.errors.on(callee, &says::METHOD_OPTIONS, &[&name, &operands, &option]);
                self.without_options(out, arguments, &group);
            }
            Some(operation) => self.operation(out, callee, operation, arguments, &group),
            None if self.in_macro => out.push(self.nested(group).into()),
            None => {
                let option = arguments.iter().find_map(|argument| argument.name.as_ref());
                let hint = spell::hint(&name, takers(&arguments));
                self.errors.on(option, &says::NOT_AN_OPERATION, &[&name, &hint, &options::names()]);
                self.without_options(out, arguments, &group);
            }
        }
    }

    /// After a mistake: the call with its operands alone, so that it gives no second error.
    fn without_options(&mut self, out: &mut Vec<TokenTree>, arguments: Vec<Argument>, group: &Group) {
        let operands = arguments.into_iter().filter(|argument| argument.name.is_none());
        let operands: Vec<TokenStream> = operands.map(|argument| self.stream(argument.value)).collect();
        self.changed = true;
        out.push(regroup(group, quote!(#(#operands),*)).into());
    }

    fn operation(
        &mut self,
        out: &mut Vec<TokenTree>,
        callee: &Ident,
        operation: &Operation,
        arguments: Vec<Argument>,
        group: &Group,
    ) {
        check(callee, operation, &arguments, self.errors);
        let mut operands = Vec::new();
        let mut setters = TokenStream::new();
        let mut given: Vec<String> = Vec::new();
        for Argument { name, value } in arguments {
            let value = self.stream(value);
            match name {
                None => operands.push(value),
                Some(name) => {
                    let text = name.to_string();
                    // No value is a syntax error, which rustc has reported.
                    if operation.options.contains(&&*text) && !given.contains(&text) && !value.is_empty() {
                        setters.extend(quote_spanned!(name.span()=> .#name(#value)));
                    }
                    given.push(text);
                }
            }
        }
        self.changed = true;
        let given = operands.len();
        operands.extend(operation.operands.iter().skip(given).map(|operand| missing(operand, self.krate)));
        operands.truncate(operation.operands.len());
        let path = take_path(out);
        // The span of the name as it is, not mixed-site: `Location::caller()` of a call with our own hygiene would be the attribute.
        let here = callee.span();
        let krate = self.krate.at(here);
        let function = Ident::new(&format!("{}_with", operation.name), here);
        let options_type = Ident::new(operation.options_type, here);
        let used = used(&path, here);
        let options = quote_spanned!(here=> #krate::ops::#options_type::new()#setters);
        let options = if used.is_some() { quote_spanned!(here=> { #used #options }) } else { options };
        let content = quote_spanned!(here=> #(#operands,)* #options);
        let arguments = regroup(group, content);
        out.extend(call(&krate, &function, &arguments, self.krate.is_anchored()));
    }
}

/// `krate::ops::function(arguments)`, of which the line in reports is that of the user's call.
///
/// A path with `$crate` takes its place from the `macro_rules!` that wrote it, and rustc would give the call that place. Such a path
/// goes into an import in front.
fn call(krate: &TokenStream, function: &Ident, arguments: &Group, is_anchored: bool) -> TokenStream {
    let here = function.span();
    if !is_anchored {
        return quote_spanned!(here=> #krate::ops::#function #arguments);
    }
    let (site, alias) = (Span::mixed_site().located_at(here), Ident::new("__fg_op", here));
    quote_spanned!(site=> ({ use #krate::ops::#function as #alias; #alias #arguments }))
}

/// An import of the callee, where the user may have imported it too: it makes that one count as used. Its hygiene is ours, so that it
/// is no unused import itself.
fn used(path: &TokenStream, here: Span) -> Option<TokenStream> {
    let Some(TokenTree::Ident(first)) = path.clone().into_iter().next() else { return None };
    if ["$crate", "crate", "self", "super"].iter().any(|anchor| first == anchor) {
        return None;
    }
    let path = relocate(path.clone(), &|own| Span::mixed_site().located_at(own));
    Some(quote_spanned!(Span::mixed_site().located_at(here)=> use #path as _;))
}

/// Stands in for an operand that was reported missing, so that the type of the call is still right.
fn missing(operand: &str, krate: &Krate) -> TokenStream {
    if operand == "window" {
        return quote_spanned!(Span::mixed_site()=> 1);
    }
    quote_spanned!(Span::mixed_site()=> { fn missing() -> #krate::Expr { loop {} } missing() })
}

/// The operations that take every named option of these arguments: `relu(x, inplace = true)` does not mean `elu`.
fn takers(arguments: &[Argument]) -> impl Iterator<Item = &'static str> {
    let given: Vec<String> =
        arguments.iter().filter_map(|argument| Some(argument.name.as_ref()?.to_string())).collect();
    let takes_all = move |operation: &&Operation| given.iter().all(|name| operation.options.contains(&name.as_str()));
    options::OPERATIONS.iter().filter(takes_all).map(|operation| operation.name)
}

/// Reports what is wrong with the arguments of a call of a known operation.
fn check(callee: &Ident, operation: &Operation, arguments: &[Argument], errors: &mut Errors) {
    let options = operation.options.join(", ");
    let mut given: Vec<String> = Vec::new();
    let mut operands = 0;
    for Argument { name, value } in arguments {
        let Some(name) = name else {
            operands += 1;
            if !given.is_empty() {
                errors.on(value, &says::POSITIONAL_LAST, &[]);
            } else if operands == operation.operands.len() + 1 {
                arity(value, operation, arguments, errors);
            }
            continue;
        };
        let text = name.to_string();
        if !operation.options.contains(&&*text) {
            let hint = spell::hint(&text, operation.options.iter().copied());
            errors.on(name, &says::UNKNOWN_OPTION, &[operation.name, &text, &hint, &options]);
        } else if given.contains(&text) {
            errors.on(name, &says::OPTION_TWICE, &[operation.name, &text]);
        }
        given.push(text);
    }
    if operands < operation.operands.len() {
        arity(&TokenTree::from(callee.clone()).into(), operation, arguments, errors);
    }
}

fn arity(place: &TokenStream, operation: &Operation, arguments: &[Argument], errors: &mut Errors) {
    let number = match operation.operands.len() {
        1 => "one operand",
        2 => "two operands",
        3 => "three operands",
        4 => "four operands",
        _ => "five operands",
    };
    let option = arguments.iter().find_map(|argument| argument.name.as_ref());
    let option = option.map_or_else(String::new, |name| format!("{name} = …"));
    let (operands, options) = (operation.operands.join(", "), operation.options.join(", "));
    errors.on(place, &says::OPERANDS, &[operation.name, number, &operands, &option, &options]);
}

/// An argument of a call: `value` or `name = value`.
struct Argument {
    name: Option<Ident>,
    value: TokenStream,
}

/// The arguments of a call. Where they do not parse, commas decide, which is right but for generic arguments.
fn arguments(tokens: TokenStream) -> Vec<Argument> {
    let by_commas = split_on_commas(tokens.clone());
    if by_commas.iter().all(|argument| argument.name.is_none()) {
        return Vec::new();
    }
    syn::parse2::<Arguments>(tokens).map_or(by_commas, |arguments| arguments.0)
}

struct Arguments(Vec<Argument>);

impl Parse for Arguments {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let mut arguments = Vec::new();
        while !input.is_empty() {
            let is_named = input.peek(syn::Ident) && input.peek2(Token![=]);
            let name = if is_named && !input.peek2(Token![==]) && !input.peek2(Token![=>]) {
                let name = input.parse()?;
                input.parse::<Token![=]>()?;
                Some(name)
            } else {
                None
            };
            let start = input.cursor();
            if !(name.is_some() && (input.is_empty() || input.peek(Token![,]))) {
                input.parse::<syn::Expr>()?;
            }
            arguments.push(Argument { name, value: between(start, input.cursor()) });
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(Self(arguments))
    }
}

fn between(start: Cursor, end: Cursor) -> TokenStream {
    let mut tokens = TokenStream::new();
    let mut at = start;
    while at != end {
        let Some((token, next)) = at.token_tree() else { break };
        tokens.extend([token]);
        at = next;
    }
    tokens
}

fn split_on_commas(tokens: TokenStream) -> Vec<Argument> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut chunks: Vec<&[TokenTree]> = tokens.split(|token| is_punct(token, ',')).collect();
    if chunks.last().is_some_and(|last| last.is_empty()) {
        chunks.pop();
    }
    chunks.into_iter().map(argument).collect()
}

fn argument(tokens: &[TokenTree]) -> Argument {
    let collect = |tokens: &[TokenTree]| tokens.iter().cloned().collect();
    match tokens {
        [TokenTree::Ident(name), TokenTree::Punct(equals), rest @ ..] if is_assignment(equals, rest.first()) => {
            Argument { name: Some(name.clone()), value: collect(rest) }
        }
        _ => Argument { name: None, value: collect(tokens) },
    }
}

/// `=`, but not the start of `==` or `=>`.
fn is_assignment(equals: &Punct, next: Option<&TokenTree>) -> bool {
    let joined =
        equals.spacing() == Spacing::Joint && next.is_some_and(|next| is_punct(next, '=') || is_punct(next, '>'));
    equals.as_char() == '=' && !joined
}

pub(crate) fn is_punct(token: &TokenTree, c: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == c)
}

/// `#[…]` and `#![…]`, whose `name(a = b)` is none of our business.
pub(crate) fn is_attribute(before: &[TokenTree], group: &Group) -> bool {
    group.delimiter() == Delimiter::Bracket
        && match before {
            [.., hash, bang] if is_punct(bang, '!') => is_punct(hash, '#'),
            [.., hash] => is_punct(hash, '#'),
            [] => false,
        }
}

/// `name!` or `macro_rules! name`.
fn is_macro_call(before: &[TokenTree]) -> bool {
    match before {
        [.., TokenTree::Ident(_), bang, TokenTree::Ident(_)] | [.., TokenTree::Ident(_), bang] => is_punct(bang, '!'),
        _ => false,
    }
}

/// The last segment of the path that is called with this group, if it is a call.
fn callee(before: &[TokenTree], group: &Group) -> Option<Ident> {
    let Some(TokenTree::Ident(name)) = before.last() else { return None };
    let declared = matches!(before, [.., TokenTree::Ident(keyword), _] if keyword == "fn");
    // `if (a = b)`, `return (a = b)`: a keyword calls nothing.
    let is_name = syn::parse2::<Ident>(TokenTree::from(name.clone()).into()).is_ok();
    (group.delimiter() == Delimiter::Parenthesis && is_name && !declared).then(|| name.clone())
}

/// `receiver.name`, and not the end of a range: `0..name`.
fn is_method(before: &[TokenTree]) -> bool {
    match before {
        [.., first, second, _] if is_punct(second, '.') => !is_punct(first, '.'),
        [second, _] => is_punct(second, '.'),
        _ => false,
    }
}

/// Takes the path at the end of the tokens: `conv2d`, `ops::conv2d`, `::fused_graph::ops::conv2d`, `$crate::ops::conv2d`.
fn take_path(out: &mut Vec<TokenTree>) -> TokenStream {
    let mut start = out.len().saturating_sub(1);
    while start >= 2 && is_punct(&out[start - 1], ':') && is_punct(&out[start - 2], ':') {
        let is_segment = start >= 3 && matches!(&out[start - 3], TokenTree::Ident(_));
        start -= if is_segment { 3 } else { 2 };
        if !is_segment {
            break;
        }
    }
    out.drain(start..).collect()
}

fn regroup(group: &Group, content: TokenStream) -> Group {
    let mut rebuilt = Group::new(group.delimiter(), content);
    rebuilt.set_span(group.span());
    rebuilt
}
