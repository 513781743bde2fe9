//! `client`, `pool`, `pools`: the clients whose nodes are asked for the lock.

use syn::{Expr, ExprArray, ExprLit, Ident, Lit, LitStr};

use crate::value::ungrouped;

/// The name of an installed pool.
#[derive(Debug)]
pub(crate) enum PoolName {
    Text(LitStr),
    Expr(Expr),
}

/// The names of several installed pools: an array or anything to iterate over.
#[derive(Debug)]
pub(crate) struct PoolNames(pub(crate) Expr);

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
        value @ Expr::Lit(_) => Err(not_a_name(key, value)),
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
        let name = match ungrouped(name.clone()) {
            Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) => pool_literal(name)?,
            value @ Expr::Lit(_) => return Err(not_a_name(key, value)),
            _ => continue,
        };
        if seen.contains(&name.value()) {
            let told = format!("the pool {:?} is named twice: one node has one vote", name.value());
            return Err(syn::Error::new(name.span(), told));
        }
        seen.push(name.value());
    }
    Ok(())
}

fn not_a_name(key: &Ident, value: Expr) -> syn::Error {
    let example = if key == "pools" { "[\"a\", \"b\"]" } else { "\"orders\"" };
    let told = format!(
        "a pool goes by the name that `pools::install` was given: `{key} = {example}`, or an expression that gives it"
    );
    syn::Error::new_spanned(value, told)
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
