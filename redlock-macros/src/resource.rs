//! `resource`: a template, a text or an expression. `resources`: several of them.

use proc_macro2::Span;
use syn::{Expr, ExprLit, Ident, Lit, LitStr};

use crate::{
    braces, hole,
    template::{self, Piece},
    value::ungrouped,
};

/// The longest resource: `MAX_RESOURCE_BYTES` of redlock-core.
const MAX_RESOURCE_BYTES: usize = 1024;

/// The most resources that are locked as one set: `MAX_RESOURCES` of redlock-core.
const MAX_RESOURCES: usize = 64;

/// The value of `resource`.
#[derive(Debug)]
pub(crate) enum Resource {
    /// The same text at every call, braces unescaped.
    Text { text: String, span: Span },
    /// A template that the standard `format!` reads the same: each hole is the name of a
    /// variable. rustc shows such a name inside the text, and corrects it there.
    Inline(LitStr),
    /// Any other template with holes in it.
    Format { template: String, holes: Vec<Hole>, end: String, span: Span },
    /// Something that gives the text.
    Expr(Expr),
    /// Several at once. All or none of them are locked.
    All(Vec<Resource>),
    /// Something that gives several texts.
    AllOf(Expr),
}

/// A hole of a template with the text in front of it.
#[derive(Debug)]
pub(crate) struct Hole {
    /// The text and one placeholder, as a format string.
    pub(crate) format: String,
    pub(crate) argument: Expr,
}

impl Resource {
    /// Whether it names several, as far as the attribute can see.
    pub(crate) fn is_set(&self) -> bool {
        matches!(self, Self::All(each) if each.len() > 1)
    }

    /// The template as it was written: the same at every call.
    pub(crate) fn template(&self) -> Option<String> {
        match self {
            Self::Text { text, .. } => Some(text.clone()),
            Self::Inline(template) => Some(template.value()),
            Self::Format { template, .. } => Some(template.clone()),
            Self::All(each) => {
                let each: Option<Vec<String>> = each.iter().map(Self::template).collect();
                Some(each?.join(", "))
            }
            Self::Expr(_) | Self::AllOf(_) => None,
        }
    }
}

pub(crate) fn resource(_: &Ident, value: Expr) -> syn::Result<Resource> {
    match ungrouped(value) {
        value @ Expr::Array(_) => Err(syn::Error::new_spanned(
            value,
            "`resource` is one name: for several at once write `resources = [\"account:{from}\", \"account:{to}\"]`",
        )),
        value => one(value),
    }
}

pub(crate) fn resources(key: &Ident, value: Expr) -> syn::Result<Resource> {
    match ungrouped(value) {
        Expr::Array(each) if each.elems.is_empty() => Err(syn::Error::new_spanned(
            each,
            format!(
                "`{key}` is empty: name what to lock, `{key} = [\"account:{{from}}\", \"account:{{to}}\"]`"
            ),
        )),
        Expr::Array(each) => {
            let mut all = Vec::new();
            let mut problems: Option<syn::Error> = None;
            if let Some(over) = each.elems.get(MAX_RESOURCES) {
                let told = format!(
                    "`{key}` has {} names, and at most {MAX_RESOURCES} are locked at once: remove some, or write one name that stands for all of them, `resource = \"accounts\"`",
                    each.elems.len()
                );
                problems = Some(syn::Error::new_spanned(over, told));
            }
            for value in each.elems {
                match (one(ungrouped(value)), &mut problems) {
                    (Ok(resource), _) => all.push(resource),
                    (Err(error), Some(problems)) => problems.combine(error),
                    (Err(error), none) => *none = Some(error),
                }
            }
            problems.map_or(Ok(Resource::All(all)), Err)
        }
        value @ Expr::Lit(_) => Err(syn::Error::new_spanned(
            value,
            format!(
                "`{key}` are several names, `{key} = [\"account:{{from}}\", \"account:{{to}}\"]`; one is `resource = \"account:{{from}}\"`"
            ),
        )),
        value => Ok(Resource::AllOf(value)),
    }
}

fn one(value: Expr) -> syn::Result<Resource> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => template(&text),
        value @ (Expr::Lit(_) | Expr::Array(_)) => Err(syn::Error::new_spanned(
            value,
            "`resource` is one name: a template, `\"order:{order_id}\"`, or an expression that gives a `String` or a `&str`",
        )),
        value => match braces::in_text_of(&value) {
            Some(text) => Err(syn::Error::new(
                text.span(),
                "only a literal by itself is a template, and these braces would be part of the key: write one literal, `resource = \"order:{order_id}\"`, in which `{{` and `}}` are braces",
            )),
            None => Ok(Resource::Expr(value)),
        },
    }
}

fn template(literal: &LitStr) -> syn::Result<Resource> {
    let fail = |told: String| syn::Error::new(literal.span(), told);
    let pieces = template::parse(&literal.value()).map_err(fail)?;
    let text: String = pieces.iter().filter_map(Piece::text).collect();
    if text.len() > MAX_RESOURCE_BYTES {
        return Err(fail(format!(
            "the resource has {} bytes: at most {MAX_RESOURCE_BYTES} are allowed",
            text.len()
        )));
    }
    if is_inline(&pieces, &literal.value()) {
        return Ok(Resource::Inline(literal.clone()));
    }
    let mut holes = Vec::new();
    let mut format = String::new();
    for piece in &pieces {
        match piece {
            Piece::Text(text) => format.push_str(&escaped(text)),
            Piece::Hole { expression, spec } => {
                let argument = hole::expression(expression, literal.span()).map_err(fail)?;
                if matches!(argument, Expr::Lit(ExprLit { lit: Lit::Int(_), .. })) {
                    return Err(fail(format!(
                        "`{expression}` in the template counts arguments, which a template has not: name one, such as `{{order_id}}`"
                    )));
                }
                let colon = if spec.is_empty() { "" } else { ":" };
                format.push_str(&format!("{{{colon}{spec}}}"));
                let format = std::mem::take(&mut format);
                holes.push(Hole { format, argument });
            }
        }
    }
    let span = literal.span();
    if !holes.is_empty() {
        Ok(Resource::Format { template: literal.value(), holes, end: format, span })
    } else if text.is_empty() {
        Err(fail("the resource is empty: name what to lock, such as `\"order:{order_id}\"`".into()))
    } else {
        Ok(Resource::Text { text, span })
    }
}

/// Whether `format!` reads the template in the same way: it has holes, each hole is a name and no
/// keyword, and it uses nothing that `format!` does not know.
fn is_inline(pieces: &[Piece], template: &str) -> bool {
    let mut read = String::new();
    let mut holes = false;
    for piece in pieces {
        match piece {
            Piece::Text(text) => read.push_str(&escaped(text)),
            // Keywords do not parse, and `self` may have another name where the key is made.
            Piece::Hole { expression, spec } => {
                let name = syn::parse_str::<Ident>(expression);
                if name.is_err() || expression.starts_with("r#") {
                    return false;
                }
                let colon = if spec.is_empty() { "" } else { ":" };
                read.push_str(&format!("{{{expression}{colon}{spec}}}"));
                holes = true;
            }
        }
    }
    holes && read == template
}

/// The text, escaped for a format string.
fn escaped(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}
