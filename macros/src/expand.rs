//! The expansion: the function, and beside it a type of the same name that carries `expr`, `bind`, `plan`, `explain`, `graph`,
//! `stats` and `clear`. It stays short: logic lives in the library.
//!
//! The companion is an empty enum and not a module, because a module would see neither the imports round the function nor the items
//! of an enclosing function (tests, doctests).

use crate::check::{Checked, Kind, Param};
use crate::generics::{turbofish, with_used_lifetimes};
use crate::krate::Krate;
use crate::names::Binding;
use crate::parse::Function;
use crate::settings::Settings;
use crate::types;
use proc_macro2::{Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Attribute, GenericParam, Lifetime, LifetimeParam, ReturnType, Safety, Type, Visibility};

/// The parts of an annotated function from which every generated item is put together.
pub(crate) struct Parts<'a> {
    pub(crate) function: &'a Function,
    pub(crate) params: &'a [Param],
    pub(crate) krate: &'a Krate,
    /// `(Tensor, Tensor)`, as the user wrote it.
    pub(crate) output: Type,
    pub(crate) is_unsafe: bool,
}

/// The whole expansion of a function without mistakes in its signature.
pub(crate) fn item(
    function: &Function,
    checked: &Checked,
    settings: &Settings,
    body: &Group,
    bindings: &[Binding],
) -> TokenStream {
    let parts = Parts::new(function, &checked.params, &settings.krate);
    let expr = parts.expr(body);
    let queries = parts.queries();
    let site = parts.site(settings, bindings);
    let call = parts.call();
    let (visible, companion, name) = (parts.visible(), parts.companion(), parts.companion_name());
    let underscore = parts.underscore();
    quote_spanned! {Span::mixed_site()=>
        #visible
        #companion
        #underscore
        impl #name {
            #expr
            #queries
            #site
            #call
        }
    }
}

impl<'a> Parts<'a> {
    pub(crate) fn new(function: &'a Function, params: &'a [Param], krate: &'a Krate) -> Self {
        let output = match &function.sig.output {
            ReturnType::Type(_, ty) => (**ty).clone(),
            ReturnType::Default => Type::Verbatim(quote_spanned!(Span::mixed_site()=> #krate::Tensor)),
        };
        Self { function, params, krate, output, is_unsafe: matches!(function.sig.safety, Safety::Unsafe(_)) }
    }

    /// `fn f(x: &Tensor, …) -> Result<Tensor>` with all that the user put on it.
    fn visible(&self) -> TokenStream {
        let call = self.through_call(&self.function.sig.ident, "run");
        let attrs = self.function.attrs.iter().map(expect_to_allow);
        let signature = self.signature(&self.function.sig.ident, &self.result(&self.output));
        // The user's attribute was for a `Tensor`; a `Result` has its own.
        let must_use = self.has("must_use").then(|| quote!(#[allow(clippy::double_must_use)]));
        // A function that is used through its companion alone is not dead.
        let dead_code = (!matches!(self.function.vis, Visibility::Public(_))).then(|| quote!(#[allow(dead_code)]));
        let underscore = self.underscore();
        quote_spanned!(Span::mixed_site()=> #(#attrs)* #must_use #dead_code #underscore #signature { #call })
    }

    /// The type beside the function.
    pub(crate) fn companion(&self) -> TokenStream {
        let (vis, name) = (&self.function.vis, self.companion_name());
        let doc =
            format!(" Bound calls, plans, reports and the traced graph of [`{0}`](fn@{0}).", self.function.name());
        let attrs = self.function.attrs.iter().filter(|attr| attr.path().is_ident("cfg") || is_doc_hidden(attr));
        quote_spanned! {Span::mixed_site()=>
            #(#attrs)*
            #[doc = #doc]
            #vis enum #name {}
        }
    }

    /// The user's body over symbolic tensors.
    pub(crate) fn expr(&self, body: &Group) -> TokenStream {
        let doc = format!(
            " The body of `{}` over symbolic tensors. Called inside another annotated function it becomes part of that one.",
            self.function.name()
        );
        let (vis, krate) = (&self.function.vis, self.krate);
        let (safety, where_clause) = (&self.function.sig.safety, &self.function.sig.generics.where_clause);
        let lints = self.function.attrs.iter().filter(|attr| is_lint(attr)).map(expect_to_allow);
        let (deprecated, safety_doc) = (self.deprecated(), self.safety_doc());
        let output = types::traced(&self.output, krate);
        // Located at the user's name: rustc shows it where the body does not give what the signature promises.
        let name = Ident::new("expr", Span::mixed_site().located_at(self.function.sig.ident.span()));
        let params = self.params.iter().map(|Param { attrs, pattern, ty, kind, .. }| {
            let ty = match kind {
                Kind::Scalar => types::expr(ty, krate),
                Kind::Tensor | Kind::Optional => types::traced(ty, krate).into_token_stream(),
                Kind::Attr => ty.into_token_stream(),
            };
            quote_spanned!(Span::mixed_site()=> #(#attrs)* #pattern: #ty)
        });
        let params: Vec<TokenStream> = params.collect();
        let generics = with_used_lifetimes(&self.function.sig.generics, quote!(#(#params)* #body));
        quote_spanned! {Span::mixed_site()=>
            #[doc = #doc]
            #safety_doc
            #(#lints)*
            #deprecated
            #[must_use]
            #vis #safety fn #name #generics(#(#params),*) -> #output #where_clause #body
        }
    }

    /// `bind`, `plan`, `explain` and `graph`, which take the arguments of the function.
    fn queries(&self) -> TokenStream {
        let deprecated = self.deprecated();
        let methods = QUERIES.iter().map(|query| {
            let call = self.through_call(&Ident::new("Self", Span::mixed_site()), query.method);
            let signature = self.query(query);
            quote_spanned!(Span::mixed_site()=> #deprecated #signature { #call })
        });
        methods.collect()
    }

    /// Documentation and signature of one query.
    pub(crate) fn query(&self, query: &Query) -> TokenStream {
        let capitals = self.capitals();
        let (krate, answer) = (self.krate, format_ident!("{}", query.answer, span = Span::mixed_site()));
        let method = Ident::new(query.method, Span::mixed_site());
        let output =
            query.of_output.then_some(&self.output).map(|output| quote_spanned!(Span::mixed_site()=> <#output>));
        let answer = Type::Verbatim(quote_spanned!(Span::mixed_site()=> #krate::#answer #output));
        let signature = self.signature(&method, &self.result(&answer));
        let doc = query.doc;
        let safety = self.safety_doc();
        quote_spanned!(Span::mixed_site()=> #[doc = #doc] #capitals #safety #signature)
    }

    fn site(&self, settings: &Settings, bindings: &[Binding]) -> TokenStream {
        let (vis, krate, deprecated) = (&self.function.vis, self.krate, self.deprecated());
        let (name, options) = (self.function.name(), settings.options());
        let labels = self.params.iter().map(|param| &param.label);
        let line = Literal::usize_unsuffixed(self.function.sig.ident.span().start().line);
        let binding_type = (!bindings.is_empty()).then(|| quote!(Binding,));
        quote_spanned! {Span::mixed_site()=>
            /// Calls, cache hits and plans built so far, over all instances of the function.
            #deprecated
            #vis fn stats() -> #krate::Stats {
                Self::__site().stats()
            }
            /// Makes a plan that another process wrote with `to_bytes` known to this one: the next call with its signature compiles nothing.
            #deprecated
            #vis fn load(device: &#krate::Device, bytes: &[u8]) -> #krate::Result<()> {
                Self::__site().load(device, bytes)
            }
            /// Drops the cached plans of the function; the next call builds its plan anew.
            #deprecated
            #vis fn clear() {
                Self::__site().clear()
            }
            #[doc(hidden)]
            fn __site() -> &'static #krate::__private::Site {
                use #krate::__private::{#binding_type Meta, Options, Site};
                static SITE: Site = Site::new(Meta {
                    name: #name,
                    module: ::core::module_path!(),
                    file: ::core::file!(),
                    line: #line,
                    params: &[#(#labels),*],
                    bindings: &[#(#bindings),*],
                    options: #options,
                });
                &SITE
            }
        }
    }

    /// Hands every argument to the library; both the launch and the queries go through it.
    fn call(&self) -> TokenStream {
        let (krate, site) = (self.krate, Span::mixed_site());
        let tensors = Lifetime::new("'__fg", site);
        let params = self.params.iter().map(|param| {
            let (name, ty) = (&param.name, borrowed_for(&param.ty, param.kind, &tensors));
            quote_spanned!(site=> #name: #ty)
        });
        let params: Vec<TokenStream> = params.collect();
        let mut generics = with_used_lifetimes(&self.function.sig.generics, quote!(#(#params)*));
        generics.params.insert(0, GenericParam::Lifetime(LifetimeParam::new(tensors.clone())));
        let (safety, where_clause) = (&self.function.sig.safety, &generics.where_clause);
        let (output, steps, trace) = (types::traced(&self.output, krate), self.steps(), self.trace());
        let allow = self.has("deprecated").then(|| quote!(#[allow(deprecated)]));
        let capitals = self.capitals();
        quote_spanned! {site=>
            #[doc(hidden)]
            #allow
            #capitals
            #safety fn __call #generics(#(#params),*)
                -> #krate::__private::Call<#tensors, impl ::core::ops::FnOnce(&#krate::__private::Inputs) -> #output>
            #where_clause
            {
                #krate::__private::Call::new(Self::__site()) #steps .trace(#trace)
            }
        }
    }

    /// One step a parameter, then one a type or const parameter: in this order they make up the plan key.
    fn steps(&self) -> TokenStream {
        let params = self.params.iter().map(|Param { name, kind, .. }| {
            let site = Span::mixed_site().located_at(name.span());
            match kind {
                Kind::Tensor => quote_spanned!(site=> .tensor(#name)),
                Kind::Optional => quote_spanned!(site=> .optional(#name)),
                Kind::Scalar => quote_spanned!(site=> .scalar(#name)),
                Kind::Attr => quote_spanned!(site=> .attr(&#name)),
            }
        });
        let generics = self.function.sig.generics.params.iter().filter_map(|param| match param {
            GenericParam::Type(ty) => {
                let name = &ty.ident;
                Some(quote_spanned!(Span::mixed_site().located_at(name.span())=> .type_param::<#name>()))
            }
            GenericParam::Const(constant) => {
                let name = &constant.ident;
                Some(quote_spanned!(Span::mixed_site().located_at(name.span())=> .attr(&#name)))
            }
            GenericParam::Lifetime(_) => None,
        });
        params.chain(generics).collect()
    }

    /// The closure that runs the body once for a new signature. Tensors and scalars come by the position of their parameter.
    fn trace(&self) -> TokenStream {
        let inputs = Ident::new("inputs", Span::mixed_site());
        let arguments = self.params.iter().enumerate().map(|(index, Param { name, kind, .. })| {
            let index = Literal::usize_unsuffixed(index);
            match kind {
                Kind::Tensor => quote_spanned!(Span::mixed_site()=> #inputs.tensor(#index)),
                Kind::Optional => quote_spanned!(Span::mixed_site()=> #inputs.optional(#index)),
                Kind::Scalar => quote_spanned!(Span::mixed_site()=> #inputs.scalar(#index)),
                Kind::Attr => name.to_token_stream(),
            }
        });
        let turbofish = turbofish(&self.function.sig.generics);
        let body = quote_spanned!(Span::mixed_site()=> Self::expr #turbofish(#(#arguments),*));
        let body = self.allowed(&body);
        quote_spanned!(Span::mixed_site()=> move |#inputs| #body)
    }

    /// `f::__call(x, w).run()`.
    fn through_call(&self, companion: &Ident, method: &str) -> TokenStream {
        let names = self.params.iter().map(|param| &param.name);
        let (turbofish, method) = (turbofish(&self.function.sig.generics), Ident::new(method, Span::mixed_site()));
        self.allowed(&quote_spanned!(Span::mixed_site()=> #companion::__call #turbofish(#(#names),*).#method()))
    }

    /// The companion's name, which is the function's. Its hygiene is ours, so that lints on the names of types leave it alone.
    pub(crate) fn companion_name(&self) -> Ident {
        let name = &self.function.sig.ident;
        let mut companion = name.clone();
        companion.set_span(Span::mixed_site().located_at(name.span()));
        companion
    }

    /// A parameter that the body ignores (`_x`) is still handed on.
    fn underscore(&self) -> Option<TokenStream> {
        let ignored = self.params.iter().any(|param| param.label.len() > 1 && param.label.starts_with('_'));
        ignored.then(|| quote!(#[allow(clippy::used_underscore_binding)]))
    }

    /// Whether a parameter is called `X` is a matter between its author and rustc in one place, the function itself.
    fn capitals(&self) -> Option<TokenStream> {
        let capitals = self.params.iter().any(|param| param.label.contains(char::is_uppercase));
        capitals.then(|| quote!(#[allow(non_snake_case)]))
    }

    /// A call of something that is `unsafe` if the user's function is.
    fn allowed(&self, call: &TokenStream) -> TokenStream {
        if self.is_unsafe { quote_spanned!(Span::mixed_site()=> unsafe { #call }) } else { call.clone() }
    }

    /// Visibility, generics and parameters of the function under another name and with another return type.
    pub(crate) fn signature(&self, name: &Ident, output: &TokenStream) -> TokenStream {
        let (vis, safety) = (&self.function.vis, &self.function.sig.safety);
        let (fn_token, generics) = (&self.function.sig.fn_token, &self.function.sig.generics);
        let where_clause = &generics.where_clause;
        let params = self.params.iter().map(|Param { name, ty, .. }| quote_spanned!(Span::mixed_site()=> #name: #ty));
        quote_spanned!(Span::mixed_site()=> #vis #safety #fn_token #name #generics(#(#params),*) -> #output #where_clause)
    }

    pub(crate) fn result(&self, output: &Type) -> TokenStream {
        let krate = self.krate;
        quote_spanned!(Span::mixed_site()=> #krate::Result<#output>)
    }

    /// What the companion's functions document if the user's function is `unsafe`.
    fn safety_doc(&self) -> Option<TokenStream> {
        let doc = format!(" As for `{}` itself.", self.function.name());
        let lines = ["", " # Safety", "", &doc];
        // Clippy does not read documentation that a macro wrote.
        let allow = quote_spanned!(Span::mixed_site()=> #[allow(clippy::missing_safety_doc)]);
        self.is_unsafe.then(|| quote_spanned!(Span::mixed_site()=> #(#[doc = #lines])* #allow))
    }

    fn has(&self, attribute: &str) -> bool {
        self.function.attrs.iter().any(|attr| attr.path().is_ident(attribute))
    }

    fn deprecated(&self) -> Option<&Attribute> {
        self.function.attrs.iter().find(|attr| attr.path().is_ident("deprecated"))
    }
}

/// A companion function that takes the arguments of the annotated one.
pub(crate) struct Query {
    pub(crate) method: &'static str,
    answer: &'static str,
    /// Whether the answer is generic over what the function returns.
    of_output: bool,
    doc: &'static str,
}

pub(crate) const QUERIES: &[Query] = &[
    Query {
        method: "bind",
        answer: "Bound",
        of_output: true,
        doc: " A call with these arguments fixed and results of its own, to be launched many times or captured in a CUDA graph.",
    },
    Query {
        method: "plan",
        answer: "Plan",
        of_output: false,
        doc: " The plan for these arguments, built and cached if it was not there yet. Nothing is launched.",
    },
    Query {
        method: "tune",
        answer: "TuneReport",
        of_output: false,
        doc: " Times every engine for these arguments, which are only read, and keeps the fastest for the calls that follow.",
    },
    Query {
        method: "explain",
        answer: "Explain",
        of_output: false,
        doc: " Which operations went into which kernel for these arguments, and why.",
    },
    Query {
        method: "graph",
        answer: "Graph",
        of_output: false,
        doc: " The traced graph for these arguments, before it is divided into kernels.",
    },
];

impl ToTokens for Binding {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let name = &self.name;
        let pair = |(line, column): (u32, u32)| {
            let (line, column) = (Literal::u32_unsuffixed(line), Literal::u32_unsuffixed(column));
            quote!((#line, #column))
        };
        let (start, end) = (pair(self.start), pair(self.end));
        tokens.extend(quote!(Binding { name: #name, start: #start, end: #end }));
    }
}

/// `&Tensor` and `Option<&Tensor>` with the given lifetime, other types as they are.
fn borrowed_for(ty: &Type, kind: Kind, lifetime: &Lifetime) -> Type {
    let mut ty = ty.clone();
    let borrow = match kind {
        Kind::Tensor => Some(&mut ty),
        Kind::Optional => types::argument_of_mut(&mut ty, "Option"),
        Kind::Scalar | Kind::Attr => None,
    };
    if let Some(Type::Reference(reference)) = borrow.map(types::bare_mut) {
        reference.lifetime = Some(lifetime.clone());
    }
    ty
}

fn is_lint(attr: &Attribute) -> bool {
    ["allow", "warn", "deny", "forbid", "expect"].iter().any(|lint| attr.path().is_ident(lint))
}

/// The body and the signature end up in different functions, so a lint that one expects the other would miss.
fn expect_to_allow(attr: &Attribute) -> Attribute {
    let mut attr = attr.clone();
    if let syn::Meta::List(list) = &mut attr.meta
        && let Some(name) = list.path.get_ident().filter(|name| *name == "expect")
    {
        list.path = Ident::new("allow", name.span()).into();
    }
    attr
}

fn is_doc_hidden(attr: &Attribute) -> bool {
    let hidden = |tokens: TokenStream| {
        tokens.into_iter().any(|token| matches!(token, TokenTree::Ident(word) if word == "hidden"))
    };
    matches!(&attr.meta, syn::Meta::List(list) if list.path.is_ident("doc") && hidden(list.tokens.clone()))
}
