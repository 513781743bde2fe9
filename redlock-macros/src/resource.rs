//! `resource`: a template, a text or an expression.

use proc_macro2::Span;
use syn::{Expr, ExprLit, Ident, Lit, LitStr};

use crate::{
    template::{self, Piece},
    value::ungrouped,
};

/// The longest resource that core takes, in bytes.
const LONGEST_RESOURCE: usize = 1024;

/// What is locked.
#[derive(Debug)]
pub(crate) enum Resource {
    /// The same text at every call, braces unescaped.
    Text { text: String, span: Span },
    /// A format string with one placeholder for each expression.
    Format { format: String, arguments: Vec<Expr>, span: Span },
    /// Something that gives the text.
    Expr(Expr),
}

pub(crate) fn resource(_: &Ident, value: Expr) -> syn::Result<Resource> {
    match ungrouped(value) {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => template(&text),
        value @ (Expr::Lit(_) | Expr::Array(_)) => Err(syn::Error::new_spanned(
            value,
            "`resource` is one name: a template, `\"order:{order_id}\"`, or an expression that gives a `String` or a `&str`",
        )),
        value => Ok(Resource::Expr(value)),
    }
}

fn template(literal: &LitStr) -> syn::Result<Resource> {
    let fail = |told: String| syn::Error::new(literal.span(), told);
    let pieces = template::parse(&literal.value()).map_err(fail)?;
    let text: String = pieces.iter().filter_map(Piece::text).collect();
    if text.len() > LONGEST_RESOURCE {
        return Err(fail(format!(
            "the resource has {} bytes: at most {LONGEST_RESOURCE} are allowed",
            text.len()
        )));
    }
    let mut format = String::new();
    let mut arguments = Vec::new();
    for piece in &pieces {
        match piece {
            Piece::Text(text) => format.push_str(&text.replace('{', "{{").replace('}', "}}")),
            Piece::Hole { expression, spec } => {
                let argument =
                    LitStr::new(expression, literal.span()).parse().map_err(|error| {
                        fail(format!(
                            "`{expression}` in the template is not an expression: {error}"
                        ))
                    })?;
                if matches!(argument, Expr::Lit(ExprLit { lit: Lit::Int(_), .. })) {
                    return Err(fail(format!(
                        "`{expression}` in the template counts arguments, which a template has not: name one, such as `{{order_id}}`"
                    )));
                }
                arguments.push(argument);
                let colon = if spec.is_empty() { "" } else { ":" };
                format.push_str(&format!("{{{colon}{spec}}}"));
            }
        }
    }
    let span = literal.span();
    if !arguments.is_empty() {
        Ok(Resource::Format { format, arguments, span })
    } else if text.is_empty() {
        Err(fail("the resource is empty: name what to lock, such as `\"order:{order_id}\"`".into()))
    } else {
        Ok(Resource::Text { text, span })
    }
}
