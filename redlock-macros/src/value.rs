//! What may stand to the right of each `=`.
//!
//! A literal is checked here, where its mistake can be shown; any other expression is left to
//! rustc, which knows its type.

use proc_macro2::Span;
use syn::{Expr, ExprArray, ExprLit, ExprPath, ExprUnary, Ident, Lit, LitStr, Path, UnOp};

use crate::{
    duration,
    template::{self, Piece},
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

/// A duration.
#[derive(Debug)]
pub(crate) enum Time {
    Millis(u64),
    Expr(Expr),
}

/// A `u32`.
#[derive(Debug)]
pub(crate) enum Count {
    Number(u32),
    Expr(Expr),
}

/// An `f64`.
#[derive(Debug)]
pub(crate) enum Factor {
    Number(f64),
    Expr(Expr),
}

/// The name of an installed pool.
#[derive(Debug)]
pub(crate) enum PoolName {
    Text(LitStr),
    Expr(Expr),
}

/// The names of several installed pools: an array or anything to iterate over.
#[derive(Debug)]
pub(crate) struct PoolNames(pub(crate) Expr);

/// What happens to a body whose lock is lost.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OnLost {
    Cancel,
    Continue,
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

pub(crate) fn time(key: &Ident, value: Expr) -> syn::Result<Time> {
    let value = ungrouped(value);
    let told = match &value {
        Expr::Lit(ExprLit { lit: Lit::Str(words), .. }) => match duration::millis(&words.value()) {
            Ok(millis) => return Ok(Time::Millis(millis)),
            Err(told) => told,
        },
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => match number.suffix() {
            "" | "u8" | "u16" | "u32" | "u64" => return Ok(Time::Millis(number.base10_parse()?)),
            _ => format!(
                "a bare number is in milliseconds and has no unit: write `{key} = \"{number}\"` for a duration in words"
            ),
        },
        Expr::Lit(_) => format!(
            "`{key}` is in whole milliseconds, `{key} = 1500`, or in words, `{key} = \"30s\"`"
        ),
        value if is_negative(value) => format!("`{key}` cannot be negative"),
        _ => return Ok(Time::Expr(value)),
    };
    Err(syn::Error::new_spanned(value, told))
}

/// A duration of which zero makes no sense.
pub(crate) fn positive_time(key: &Ident, value: Expr) -> syn::Result<Time> {
    let place = syn::Error::new_spanned(
        &value,
        format!("`{key}` is zero: leave it away for the default, or write a positive duration"),
    );
    match time(key, value)? {
        Time::Millis(0) => Err(place),
        time => Ok(time),
    }
}

pub(crate) fn count(key: &Ident, value: Expr) -> syn::Result<Count> {
    let value = ungrouped(value);
    match &value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. })
            if matches!(number.suffix(), "" | "u32") =>
        {
            Ok(Count::Number(number.base10_parse()?))
        }
        value if is_negative(value) || matches!(value, Expr::Lit(_)) => {
            Err(syn::Error::new_spanned(
                value,
                format!("`{key}` is how often: a whole number, `{key} = 5`"),
            ))
        }
        _ => Ok(Count::Expr(value)),
    }
}

pub(crate) fn factor(key: &Ident, value: Expr) -> syn::Result<Factor> {
    let value = ungrouped(value);
    let number = match &value {
        Expr::Lit(ExprLit { lit: Lit::Float(number), .. }) => number.base10_parse()?,
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse()?,
        value if is_negative(value) || matches!(value, Expr::Lit(_)) => f64::NAN,
        _ => return Ok(Factor::Expr(value)),
    };
    if (0.0..1.0).contains(&number) {
        Ok(Factor::Number(number))
    } else {
        let told =
            format!("`{key}` is a fraction of the ttl, from 0 to below 1: usually `{key} = 0.01`");
        Err(syn::Error::new_spanned(value, told))
    }
}

/// A `bool`: a literal or an expression.
pub(crate) fn toggle(key: &Ident, value: Expr) -> syn::Result<Expr> {
    match ungrouped(value) {
        value @ Expr::Lit(ExprLit { lit: Lit::Bool(_), .. }) => Ok(value),
        value @ Expr::Lit(_) => Err(syn::Error::new_spanned(
            value,
            format!("`{key}` is `true` or `false`, without quotes"),
        )),
        value => Ok(value),
    }
}

/// The name that the lock has in the body.
pub(crate) fn name(key: &Ident, value: Expr) -> syn::Result<Ident> {
    let value = ungrouped(value);
    match &value {
        Expr::Path(ExprPath { path, .. }) => path.get_ident().filter(|name| *name != "self"),
        _ => None,
    }
    .cloned()
    .ok_or_else(|| {
        let told = format!(
            "`{key}` names a variable of the body: `{key} = guard` makes `guard: LockHandle`"
        );
        syn::Error::new_spanned(&value, told)
    })
}

/// A function of one `LockError`.
pub(crate) fn function(key: &Ident, value: Expr) -> syn::Result<Expr> {
    match ungrouped(value) {
        value @ Expr::Lit(_) => {
            let told = format!("`{key}` is a function of the error: `{key} = |error| ..`");
            Err(syn::Error::new_spanned(value, told))
        }
        value => Ok(value),
    }
}

pub(crate) fn client(key: &Ident, value: Expr) -> syn::Result<Expr> {
    match ungrouped(value) {
        Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) => {
            let told = format!(
                "`{key}` is an expression that gives a `Redlock`: for an installed one write `pool = {:?}`",
                name.value()
            );
            Err(syn::Error::new(name.span(), told))
        }
        value => Ok(value),
    }
}

pub(crate) fn pool(key: &Ident, value: Expr) -> syn::Result<PoolName> {
    match ungrouped(value) {
        Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) => Ok(PoolName::Text(pool_literal(name)?)),
        value @ Expr::Array(_) => {
            let told =
                format!("`{key}` is one pool: for a quorum over several write `pools = [..]`");
            Err(syn::Error::new_spanned(value, told))
        }
        value => Ok(PoolName::Expr(value)),
    }
}

pub(crate) fn pools(key: &Ident, value: Expr) -> syn::Result<PoolNames> {
    let value = ungrouped(value);
    match &value {
        Expr::Lit(_) => {
            let told = format!(
                "`{key}` are several pools, `{key} = [\"a\", \"b\"]`; one is `pool = \"a\"`"
            );
            return Err(syn::Error::new_spanned(value, told));
        }
        Expr::Array(names) => distinct_names(key, names)?,
        _ => {}
    }
    Ok(PoolNames(value))
}

fn distinct_names(key: &Ident, names: &ExprArray) -> syn::Result<()> {
    if names.elems.is_empty() {
        let told = format!("`{key}` is empty: name the pools, `{key} = [\"a\", \"b\"]`");
        return Err(syn::Error::new_spanned(names, told));
    }
    let mut seen: Vec<String> = Vec::new();
    for name in &names.elems {
        let Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) = ungrouped(name.clone()) else {
            continue;
        };
        let name = pool_literal(name)?;
        if seen.contains(&name.value()) {
            let told = format!("the pool {:?} is named twice: one node has one vote", name.value());
            return Err(syn::Error::new(name.span(), told));
        }
        seen.push(name.value());
    }
    Ok(())
}

fn pool_literal(name: LitStr) -> syn::Result<LitStr> {
    let text = name.value();
    let told = if text.is_empty() {
        "the name of a pool is what `pools::install` was given: it is not empty".into()
    } else if text.contains(['{', '}']) {
        format!("the name of a pool is no template: write `format!({text:?})`")
    } else {
        return Ok(name);
    };
    Err(syn::Error::new(name.span(), told))
}

pub(crate) fn on_lost(key: &Ident, value: Expr) -> syn::Result<OnLost> {
    let value = ungrouped(value);
    if let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &value {
        match text.value().as_str() {
            "cancel" => return Ok(OnLost::Cancel),
            "continue" => return Ok(OnLost::Continue),
            _ => {}
        }
    }
    let told = format!(
        "`{key}` is \"cancel\" (drop the body when the lock is lost, the default) or \"continue\" (let it finish)"
    );
    Err(syn::Error::new_spanned(value, told))
}

pub(crate) fn path(key: &Ident, value: Expr) -> syn::Result<Path> {
    match ungrouped(value) {
        Expr::Path(ExprPath { qself: None, path, .. }) => Ok(path),
        value => {
            let told = format!(
                "`{key}` is the path of redlock-core, without quotes: `{key} = redlock_core`"
            );
            Err(syn::Error::new_spanned(value, told))
        }
    }
}

/// The expression itself, when a `macro_rules!` put invisible brackets around it.
fn ungrouped(value: Expr) -> Expr {
    match value {
        Expr::Group(group) => ungrouped(*group.expr),
        value => value,
    }
}

fn is_negative(value: &Expr) -> bool {
    matches!(value, Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) if matches!(**expr, Expr::Lit(_)))
}
