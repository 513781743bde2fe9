//! What may stand to the right of each `=`.
//!
//! A literal is checked here, where its mistake can be shown; any other expression is left to
//! rustc, which knows its type.

use syn::{Expr, ExprLit, ExprPath, ExprUnary, Ident, Lit, LitInt, Path, Stmt, UnOp};

use crate::duration;

/// The longest `max_ttl` that a client can have, in milliseconds: `MAX_CONFIGURABLE_TTL` of redlock-core.
/// `tests/annotations/tests/promises/settings.rs` compares the limits of the attribute with those of core.
const MAX_CONFIGURABLE_TTL_MS: u64 = 365 * 24 * 60 * 60 * 1000;

/// The most permits of one resource: `MAX_PERMITS` of redlock-core.
const MAX_PERMITS: u32 = 1024;

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

/// What happens to a body whose lock is lost.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OnLost {
    Cancel,
    Continue,
}

pub(crate) fn time(key: &Ident, value: Expr) -> syn::Result<Time> {
    let value = ungrouped(value);
    let read = match &value {
        Expr::Lit(ExprLit { lit: Lit::Str(words), .. }) => duration::millis(&words.value()),
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => millis(key, number),
        Expr::Lit(_) => Err(format!(
            "`{key}` is in whole milliseconds, `{key} = 1500`, or in words, `{key} = \"30s\"`"
        )),
        negative if is_negative(negative) => {
            Err(format!("`{key}` cannot be negative: write how long, such as `{key} = \"30s\"`"))
        }
        _ => return Ok(Time::Expr(value)),
    };
    read.map(Time::Millis).map_err(|told| syn::Error::new_spanned(value, told))
}

fn millis(key: &Ident, number: &LitInt) -> Result<u64, String> {
    let digits = number.base10_digits();
    match number.suffix() {
        "" | "u8" | "u16" | "u32" | "u64" => number
            .base10_parse()
            .map_err(|_| format!("`{key}` is too long: it must fit 64 bits of milliseconds")),
        unit if duration::is_unit(unit) => Err(format!(
            "a bare number is in milliseconds and has no unit: write `{key} = \"{digits}{unit}\"` for a duration in words"
        )),
        suffix => Err(format!(
            "`{key}` is in whole milliseconds: omit `{suffix}`, `{key} = {digits}`, or write a duration in words, such as `{key} = \"30s\"`"
        )),
    }
}

/// A duration of which zero makes no sense.
pub(crate) fn positive_time(key: &Ident, value: Expr) -> syn::Result<Time> {
    let zero = syn::Error::new_spanned(
        &value,
        format!("`{key}` is zero: omit it for the default, or write a positive duration"),
    );
    match time(key, value)? {
        Time::Millis(0) => Err(zero),
        time => Ok(time),
    }
}

/// A duration for which a key lives.
pub(crate) fn expiry(key: &Ident, value: Expr) -> syn::Result<Time> {
    let too_long = syn::Error::new_spanned(
        &value,
        format!(
            "`{key}` is over 365 days, the longest `max_ttl` that a client can have: write at most the client's, 60 s by default, such as `{key} = \"30s\"`"
        ),
    );
    match time(key, value)? {
        Time::Millis(millis) if millis > MAX_CONFIGURABLE_TTL_MS => Err(too_long),
        time => Ok(time),
    }
}

/// A duration for which a key lives, and of which zero makes no sense.
pub(crate) fn positive_expiry(key: &Ident, value: Expr) -> syn::Result<Time> {
    positive_time(key, value.clone())?;
    expiry(key, value)
}

/// How many hold the lock at once.
pub(crate) fn permits(key: &Ident, value: Expr) -> syn::Result<Count> {
    let wrong = syn::Error::new_spanned(
        &value,
        format!(
            "`{key}` is how many hold the lock at once: a whole number from 1 to {MAX_PERMITS}, `{key} = 3`"
        ),
    );
    match count(key, value) {
        Ok(read @ (Count::Number(1..=MAX_PERMITS) | Count::Expr(_))) => Ok(read),
        _ => Err(wrong),
    }
}

pub(crate) fn count(key: &Ident, value: Expr) -> syn::Result<Count> {
    let value = ungrouped(value);
    let number = match &value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. })
            if matches!(number.suffix(), "" | "u32") =>
        {
            number.base10_parse().ok()
        }
        wrong if is_negative(wrong) || matches!(wrong, Expr::Lit(_)) => None,
        _ => return Ok(Count::Expr(value)),
    };
    number.map(Count::Number).ok_or_else(|| {
        let told =
            format!("`{key}` is how often: a whole number, `{key} = 5`, at most {}", u32::MAX);
        syn::Error::new_spanned(value, told)
    })
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
        Expr::Path(ExprPath { path, .. }) => path.get_ident().filter(|name| is_variable(name)),
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

/// Whether a name can be that of a variable. `Self`, `None` and constants cannot.
pub(crate) fn is_variable(name: &Ident) -> bool {
    let is_keyword = ["self", "crate", "super"].iter().any(|keyword| name == keyword);
    !is_keyword && !name.to_string().starts_with(char::is_uppercase)
}

/// A function of one `LockError`.
pub(crate) fn function(key: &Ident, value: Expr) -> syn::Result<Expr> {
    match ungrouped(value) {
        value @ (Expr::Lit(_)
        | Expr::Array(_)
        | Expr::Binary(_)
        | Expr::Range(_)
        | Expr::Repeat(_)
        | Expr::Struct(_)
        | Expr::Tuple(_)
        | Expr::Unary(ExprUnary { op: UnOp::Neg(_) | UnOp::Not(_), .. })) => {
            let told = format!(
                "`{key}` is a function of the error: write `{key} = |error| ..`, or `|_| ..` to ignore the error"
            );
            Err(syn::Error::new_spanned(value, told))
        }
        value if is_made(&value) => {
            let told = format!(
                "`{key}` is a function of the error, and this is a value: write `{key} = |error| ..` with it"
            );
            Err(syn::Error::new_spanned(value, told))
        }
        value => Ok(value),
    }
}

/// Whether this makes a value: of a variant or a struct, as `AppError::Locked(error)` does, the
/// default, or out of a literal.
fn is_made(value: &Expr) -> bool {
    match value {
        Expr::Call(call) => {
            let Expr::Path(function) = &*call.func else { return false };
            function.path.segments.last().is_some_and(|last| {
                last.ident == "default" || last.ident.to_string().starts_with(char::is_uppercase)
            })
        }
        Expr::MethodCall(call) => matches!(&*call.receiver, Expr::Lit(_)),
        _ => false,
    }
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

/// A text that is the same at every call: each value is a time series of its own.
pub(crate) fn label(key: &Ident, value: Expr) -> syn::Result<Expr> {
    let told = match ungrouped(value) {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if text.value().is_empty() => {
            syn::Error::new(
                text.span(),
                format!(
                    "`{key}` is empty: omit it, or name a kind of resource, `{key} = \"invoice\"`"
                ),
            )
        }
        value @ (Expr::Lit(ExprLit { lit: Lit::Str(_), .. }) | Expr::Path(_)) => return Ok(value),
        value => syn::Error::new_spanned(
            value,
            format!(
                "`{key}` is one text for all calls, since each value is a time series of its own: write `{key} = \"invoice\"`, or name a constant"
            ),
        ),
    };
    Err(told)
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

/// The error of a key that stands alone and was given a value.
pub(crate) fn is_not_taken(key: &Ident, value: Expr) -> syn::Error {
    let told = format!("`{key}` takes no value: write it alone, or omit it");
    syn::Error::new_spanned(value, told)
}

/// The expression itself: without the invisible brackets that a `macro_rules!` puts around it,
/// and a literal without the parentheses and braces around it.
pub(crate) fn ungrouped(value: Expr) -> Expr {
    let value = match value {
        Expr::Group(group) => return ungrouped(*group.expr),
        value => value,
    };
    match inside(&value) {
        Some(literal @ Expr::Lit(_)) => literal.clone(),
        _ => value,
    }
}

/// What is inside all brackets around it; `None` for a block that does more.
fn inside(value: &Expr) -> Option<&Expr> {
    match value {
        Expr::Group(group) => inside(&group.expr),
        Expr::Paren(paren) => inside(&paren.expr),
        Expr::Block(block) if block.label.is_none() => match block.block.stmts.as_slice() {
            [Stmt::Expr(value, None)] => inside(value),
            _ => None,
        },
        value => Some(value),
    }
}

fn is_negative(value: &Expr) -> bool {
    matches!(value, Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) if matches!(**expr, Expr::Lit(_)))
}
