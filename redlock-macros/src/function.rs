//! The annotated function. Only the parts that are needed are read.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::quote;
use syn::{
    Attribute, Ident, Pat, PatIdent, Signature, Token, Visibility,
    parse::{Parse, ParseStream},
    visit::Visit,
};

/// A function whose body is kept as it was written. A body that does not parse yet, because it is being
/// typed, must not cause errors elsewhere in the file.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    /// `#![..]` at the start of the body: they are about the whole function.
    pub(crate) inner_attributes: Vec<Attribute>,
    /// The body in its braces, without the inner attributes.
    pub(crate) body: Group,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        if !starts_function(input) {
            let told = "`#[redlock]` goes on an `async fn`: a lock is held while a function runs";
            return Err(input.error(if input.peek(Token![impl]) || input.peek(Token![unsafe]) {
                format!("{told}. Write it on each method of this `impl` that needs one")
            } else if input.peek(Token![trait]) {
                format!("{told}. Write it on the methods where they have a body")
            } else {
                told.to_owned()
            }));
        }
        let signature: Signature = input.parse()?;
        if input.peek(Token![;]) {
            return Err(syn::Error::new_spanned(
                &signature.ident,
                "this function has no body to run under a lock: put `#[redlock]` where it is implemented",
            ));
        }
        let body = braces(input.parse()?)?;
        let split = |body: ParseStream<'_>| {
            Ok((body.call(Attribute::parse_inner)?, body.parse::<TokenStream>()?))
        };
        let (inner_attributes, rest) = syn::parse::Parser::parse2(split, body.stream())?;
        let body = with_content(&body, rest);
        Ok(Self { attributes, visibility, signature, inner_attributes, body })
    }
}

/// The body in its braces, without the invisible group that a `macro_rules!` puts around a `block`.
fn braces(body: TokenTree) -> syn::Result<Group> {
    match body {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Ok(group),
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            syn::parse2(group.stream()).and_then(braces)
        }
        other => Err(syn::Error::new(other.span(), "expected the body of the function")),
    }
}

/// Whether a function comes next, whatever stands in front of its `fn`.
fn starts_function(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    while !ahead.is_empty() {
        if ahead.peek(Token![fn]) {
            return true;
        }
        let qualifier = ahead.peek(Token![async])
            || ahead.peek(Token![const])
            || ahead.peek(Token![unsafe])
            || ahead.peek(Token![extern])
            || ahead.peek(syn::LitStr);
        if !qualifier || ahead.parse::<TokenTree>().is_err() {
            return false;
        }
    }
    false
}

/// A group with the same brackets at the same place around something else.
pub(crate) fn with_content(group: &Group, content: TokenStream) -> Group {
    let mut new = Group::new(group.delimiter(), content);
    new.set_span(group.span());
    new
}

impl Function {
    /// The function with another body; the braces stay where they were.
    pub(crate) fn with_body(&self, content: TokenStream) -> TokenStream {
        let Self { attributes, visibility, signature, inner_attributes, body } = self;
        let body = with_content(body, quote!(#(#inner_attributes)* #content));
        quote!(#(#attributes)* #visibility #signature #body)
    }

    /// The variables that the arguments bind.
    pub(crate) fn argument_names(&self) -> Vec<&Ident> {
        struct Names<'a>(Vec<&'a Ident>);
        impl<'a> Visit<'a> for Names<'a> {
            fn visit_pat_ident(&mut self, pattern: &'a PatIdent) {
                self.0.push(&pattern.ident);
                syn::visit::visit_pat_ident(self, pattern);
            }
        }
        let mut names = Names(Vec::new());
        for argument in &self.signature.inputs {
            if let syn::FnArg::Typed(argument) = argument {
                let pattern: &Pat = &argument.pat;
                names.visit_pat(pattern);
            }
        }
        names.0
    }
}
