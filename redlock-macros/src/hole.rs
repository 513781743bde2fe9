//! The expression in a hole of a template.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{Expr, Ident, LitStr, ext::IdentExt, parse::Parser, visit::Visit};

use crate::exit::Exit;

/// Keywords that have no raw form, or that begin an expression.
const NOT_A_NAME: [&str; 6] = ["self", "Self", "super", "crate", "true", "false"];

/// The expression, with all its tokens at `place`, or what is wrong with it and what to write instead.
pub(crate) fn expression(source: &str, place: Span) -> Result<Expr, String> {
    let expression: Expr = LitStr::new(source, place).parse().map_err(|error| {
        keyword(source)
            .unwrap_or_else(|| format!("`{source}` in the template is not an expression: {error}"))
    })?;
    let mut exit = Exit::default();
    exit.visit_expr(&expression);
    let exit = exit.by_return.map(|_| "return").or(exit.by_question_mark.map(|_| "?"));
    match exit {
        Some(exit) => Err(format!(
            "`{exit}` in `{{{source}}}` would leave the function before it has asked for the lock: write what always gives a value, such as `{{id.unwrap_or_default()}}`, or take the key as an argument"
        )),
        None => Ok(expression),
    }
}

/// The error for a keyword where a name should be: alone, or after a dot.
fn keyword(source: &str) -> Option<String> {
    let mut named = true;
    for token in source.parse::<TokenStream>().ok()? {
        if let TokenTree::Ident(word) = &token
            && named
            && let Some(word) = raw(word)
        {
            let fixed = if source == word { format!("{{r#{word}}}") } else { format!("r#{word}") };
            return Some(format!("`{word}` is a keyword: write `{fixed}` for the name"));
        }
        named = matches!(&token, TokenTree::Punct(dot) if dot.as_char() == '.');
    }
    None
}

/// The word, if it is a keyword that has a raw form.
fn raw(word: &Ident) -> Option<String> {
    let text = word.to_string();
    let keyword = syn::parse_str::<Ident>(&text).is_err()
        && !NOT_A_NAME.contains(&text.as_str())
        && Ident::parse_any.parse_str(&format!("r#{text}")).is_ok();
    keyword.then_some(text)
}
