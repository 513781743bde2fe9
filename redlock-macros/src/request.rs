//! The code that asks for the lock.
//!
//! ```text
//! // Input:
//! #[redlock(resource = key(id).await, client = self.locks.lock().unwrap(), ttl = self.ttl())]
//!
//! // Output:
//! {
//!     let __redlock_client = client(&(self.locks.lock().unwrap()));
//!     let __redlock_resource = resource(key(id).await);
//!     let __redlock_options = LockOptions::new().ttl(self.ttl());
//!     let __redlock_options = &__redlock_options;
//!     of_client(&__redlock_client, __redlock_resource, __redlock_options)
//! }
//! ```
//!
//! Each value is a statement of its own, and gives something owned. What it borrows on its way, such as the
//! guard of a mutex, is given back before the next value asks for the same, and before that one awaits.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Expr, ExprAsync, ExprAwait, ExprClosure, spanned::Spanned, visit::Visit};

use crate::{
    function::with_content,
    nodes::{PoolName, PoolNames},
    paths::{Paths, mixed},
    resource::{Hole, Resource},
    setting::Settings,
    validate::Source,
};

/// What the lock is asked for with.
pub(crate) struct Request<'a> {
    pub(crate) source: &'a Source,
    pub(crate) resource: &'a Resource,
    pub(crate) settings: &'a Settings,
}

/// A value, after the statement that makes it, if it needs one.
struct Made {
    statement: TokenStream,
    value: TokenStream,
}

impl Made {
    /// A value that borrows nothing on its way.
    fn at_once(value: TokenStream) -> Self {
        Self { statement: TokenStream::new(), value }
    }
}

impl Request<'_> {
    /// A block of the type `Call`. `arguments` are those of the function.
    pub(crate) fn call(&self, paths: &Paths, arguments: &[&Ident]) -> TokenStream {
        let private = paths.private();
        let (function, client) = self.nodes(paths);
        let resource = Keys { paths, arguments }.made(self.resource);
        let options = local("__redlock_options");
        let set = self.settings.options(&options, paths);
        let Made { statement: connected, value: client } = client;
        let Made { statement: named, value: resource } = resource;
        quote_mixed!({
            #connected
            #named
            #set
            #private::#function(#client, #resource, #options)
        })
    }

    /// The function that asks, and the client or the pools that it asks.
    fn nodes(&self, paths: &Paths) -> (Ident, Made) {
        let private = paths.private();
        let client = local("__redlock_client");
        let (function, made) = match self.source {
            Source::DefaultPool => ("of_pool", Made::at_once(quote!("default"))),
            Source::Pool(PoolName::Text(name)) => {
                ("of_pool", Made::at_once(name.to_token_stream()))
            }
            Source::Pool(PoolName::Expr(name)) => {
                let name = borrowed(name);
                let statement = quote_mixed!(let #client = #private::pool(#name););
                ("of_pool", Made { statement, value: client.into_token_stream() })
            }
            Source::Pools(PoolNames(Expr::Array(names)))
                if names.elems.iter().all(|name| matches!(name, Expr::Lit(_))) =>
            {
                ("of_pools", Made::at_once(names.to_token_stream()))
            }
            Source::Pools(PoolNames(Expr::Array(names))) => {
                let each = names.elems.iter().map(|name| {
                    let name = borrowed(name);
                    quote_mixed!(#private::pool(#name))
                });
                ("of_pools", one_by_one("__redlock_pool", each))
            }
            Source::Pools(PoolNames(names)) => {
                let statement = quote_mixed!(let #client = #private::pools(#names););
                ("of_pools", Made { statement, value: client.into_token_stream() })
            }
            // Borrowed there, so that a client in a field of `self` stays there; the reference
            // coerces from whatever dereferences to a client.
            Source::Client(it) => {
                let it = borrowed(it);
                let statement = quote_mixed!(let #client = #private::client(#it););
                ("of_client", Made { statement, value: quote_mixed!(&#client) })
            }
        };
        (Ident::new(function, Span::mixed_site()), made)
    }
}

/// The code of resources.
struct Keys<'a> {
    paths: &'a Paths,
    /// Of the function.
    arguments: &'a [&'a Ident],
}

impl Keys<'_> {
    fn made(&self, resource: &Resource) -> Made {
        let private = self.paths.private();
        let made = match resource {
            Resource::Text { .. } => return Made::at_once(self.text(resource)),
            Resource::Inline(_) | Resource::Format { .. } => self.text(resource),
            Resource::Expr(_) => {
                let given = self.text(resource);
                quote_mixed!(#private::resource(#given))
            }
            // The resources may be of different types, such as `&str` and `String`: each is made a
            // text by itself.
            Resource::All(each) => {
                let each = each.iter().map(|resource| {
                    let given = self.text(resource);
                    quote_mixed!(#private::name(#given))
                });
                let Made { statement, value } = one_by_one("__redlock_name", each);
                return Made { statement, value: quote_mixed!(#private::all(#value)) };
            }
            Resource::AllOf(resources) => quote_mixed!(#private::all(#resources)),
        };
        let resource = local("__redlock_resource");
        Made {
            statement: quote_mixed!(let #resource = #made;),
            value: resource.into_token_stream(),
        }
    }

    /// One resource, as the user's expression or as a text.
    fn text(&self, resource: &Resource) -> TokenStream {
        let private = self.paths.private();
        match resource {
            Resource::Text { text, span } => {
                let text = proc_macro2::Literal::string(text);
                quote_spanned!(mixed(*span)=> #text)
            }
            // The literal is the user's own, its place and its scope included.
            Resource::Inline(template) => {
                quote_spanned!(mixed(template.span())=> #private::format!(#template))
            }
            Resource::Format { holes, end, span, .. } => self.filled(holes, end, *span),
            Resource::Expr(given) | Resource::AllOf(given) => given.to_token_stream(),
            // A list has no lists in it.
            Resource::All(_) => TokenStream::new(),
        }
    }

    /// A template with its holes filled. All in one, unless two of them may borrow the same on their way, or what one
    /// borrows would live while another one awaits.
    fn filled(&self, holes: &[Hole], end: &str, span: Span) -> TokenStream {
        let private = self.paths.private();
        let computed = holes.iter().filter(|hole| !is_place(&hole.argument)).count();
        let awaits = holes.len() > 1 && holes.iter().any(|hole| awaits(&hole.argument));
        if computed < 2 && !awaits {
            return self.format(holes, end, span);
        }
        let last = holes.len() - 1;
        let each = holes.iter().enumerate().map(|(at, hole)| {
            let end = if at == last { end } else { "" };
            self.format(std::slice::from_ref(hole), end, span)
        });
        // `format!` itself ends what its arguments borrow.
        quote_spanned!(mixed(start(span))=> #private::joined([#(#each),*]))
    }

    fn format(&self, holes: &[Hole], end: &str, span: Span) -> TokenStream {
        let private = self.paths.private();
        let format: String = holes.iter().map(|hole| hole.format.as_str()).chain([end]).collect();
        // The literal keeps the user's scope: a spec may name a variable, as in `width$`.
        let mut format = proc_macro2::Literal::string(&format);
        format.set_span(span);
        let arguments = holes.iter().map(|hole| self.in_template(hole.argument.to_token_stream()));
        // The tokens of a hole all have the place of the template, so a suggestion of rustc
        // about a part would replace the whole template. The code of a `macro_rules!` gets
        // no such suggestion, and names in it still mean what they mean here. A type that
        // cannot be written is shown at the template.
        quote_spanned!(mixed(start(span))=> {
            macro_rules! __redlock_template {
                () => { #private::format!(#format, #((#arguments)),*) };
            }
            __redlock_template!()
        })
    }

    /// The tokens of a hole. All but the arguments take no room: where rustc corrects a macro too,
    /// the correction then stands beside the template, where it cannot be missed, and not in its
    /// place.
    fn in_template(&self, tokens: TokenStream) -> TokenStream {
        tokens
            .into_iter()
            .map(|mut token| {
                if let TokenTree::Group(group) = &token {
                    token = with_content(group, self.in_template(group.stream())).into();
                }
                let argument = matches!(&token, TokenTree::Ident(name) if name == "self" || self.arguments.contains(&name));
                if !argument {
                    token.set_span(start(token.span()));
                }
                token
            })
            .collect()
    }
}

/// An array of values, each made by a statement of its own.
fn one_by_one(name: &str, values: impl Iterator<Item = TokenStream>) -> Made {
    let (names, statements): (Vec<Ident>, TokenStream) = values
        .enumerate()
        .map(|(at, value)| {
            let name = local(&format!("{name}_{at}"));
            let statement = quote_mixed!(let #name = #value;);
            (name, statement)
        })
        .unzip();
    Made { statement: statements, value: quote_mixed!([#(#names),*]) }
}

/// A variable that the user's code neither sees nor shadows.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

fn borrowed(value: &Expr) -> TokenStream {
    quote_spanned!(mixed(value.span())=> &(#value))
}

/// Whether this names something that is there, and borrows nothing else on its way.
fn is_place(value: &Expr) -> bool {
    match value {
        Expr::Path(_) | Expr::Lit(_) => true,
        Expr::Field(field) => is_place(&field.base),
        Expr::Group(group) => is_place(&group.expr),
        Expr::Paren(paren) => is_place(&paren.expr),
        Expr::Reference(reference) => is_place(&reference.expr),
        _ => false,
    }
}

/// Whether the value is waited for. A body inside of it waits by itself.
fn awaits(value: &Expr) -> bool {
    struct Find(bool);
    impl Visit<'_> for Find {
        fn visit_expr_await(&mut self, _: &ExprAwait) {
            self.0 = true;
        }
        fn visit_expr_async(&mut self, _: &ExprAsync) {}
        fn visit_expr_closure(&mut self, _: &ExprClosure) {}
    }
    let mut find = Find(false);
    find.visit_expr(value);
    find.0
}

/// The empty place before this one.
fn start(place: Span) -> Span {
    // Outside a compiler, as in unit tests, there are no places.
    if proc_macro::is_available() { place.unwrap().start().into() } else { place }
}
