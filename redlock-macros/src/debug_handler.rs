//! Finds axum's `#[debug_handler]` above `#[redlock(.., lock = guard)]`, and says that the order is wrong.
//!
//! `debug_handler` is expanded first and copies the bare body into a check of its own, where the
//! name that `lock` declares does not exist. rustc then shows "cannot find value `guard`" and no
//! way out. No expansion of ours reaches that copy, and what is above has left no trace in the
//! tokens. So this module reads the source around the attribute. It adds an error, and changes no code
//! that compiles. Where no file can be read, as in rust-analyzer, it adds nothing.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::{Attribute, ReturnType, Type, parse::Parser};

use crate::function::Function;

/// The mistake, if the source has it. `lock` is the name, `attribute` the place of `#[redlock]`.
pub(crate) fn above(lock: &Ident, attribute: Span, function: &Function) -> syn::Result<()> {
    if !is_copied(&function.signature.output)
        || !mentions(function.body.stream(), &lock.to_string())
        || !source_before(attribute).is_some_and(|source| ends_in_debug_handler(&source))
    {
        return Ok(());
    }
    let told = format!(
        "`#[debug_handler]` copies the body without the `{lock}` that the attributes below it declare: write `#[redlock(..)]` above `#[debug_handler]`"
    );
    Err(syn::Error::new_spanned(lock, told))
}

/// Whether `debug_handler` copies the body, which it does to check the returned type. A tuple is
/// checked by its parts instead.
fn is_copied(output: &ReturnType) -> bool {
    match output {
        ReturnType::Default => false,
        ReturnType::Type(_, ty) => !matches!(&**ty, Type::Tuple(tuple) if !tuple.elems.is_empty()),
    }
}

/// Whether the name is used, also in a format string.
fn mentions(tokens: TokenStream, name: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => mentions(group.stream(), name),
        TokenTree::Ident(ident) => ident == name,
        TokenTree::Literal(literal) => literal.to_string().contains(&format!("{{{name}")),
        TokenTree::Punct(_) => false,
    })
}

/// The source file up to this place.
fn source_before(place: Span) -> Option<String> {
    // Outside a compiler, as in unit tests, there are no places.
    let place = proc_macro::is_available().then(|| place.unwrap())?;
    let source = std::fs::read_to_string(place.local_file()?).ok()?;
    let (line, column) = (place.start().line(), place.start().column());
    let mut lines = source.split_inclusive('\n');
    let mut before: String = lines.by_ref().take(line.checked_sub(1)?).collect();
    before.extend(lines.next()?.chars().take(column.checked_sub(1)?));
    Some(before)
}

/// Whether one of the attributes at the end of this source is `debug_handler` or
/// `debug_middleware`, by whatever path.
fn ends_in_debug_handler(mut source: &str) -> bool {
    loop {
        source = source.trim_end();
        let line = source.rfind('\n').map_or(0, |end| end + 1);
        if source[line..].trim_start().starts_with("//") {
            source = &source[..line];
            continue;
        }
        let Some((rest, attribute)) = last_attribute(source) else { return false };
        let last = attribute.path().segments.last().map(|segment| segment.ident.to_string());
        if last.is_some_and(|name| matches!(&*name, "debug_handler" | "debug_middleware")) {
            return true;
        }
        source = rest;
    }
}

/// The attribute at the end of this source, and what is before it.
fn last_attribute(source: &str) -> Option<(&str, Attribute)> {
    source.ends_with(']').then_some(())?;
    // The shortest piece that reads as one attribute: brackets in it may be in a string.
    source.rmatch_indices("#[").find_map(|(start, _)| {
        let mut read = Attribute::parse_outer.parse_str(&source[start..]).ok()?;
        (read.len() == 1).then(|| read.pop().map(|attribute| (&source[..start], attribute)))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_among_the_attributes_directly_above() {
        for source in [
            "#[debug_handler]\n",
            "fn other() {}\n\n    #[axum::debug_handler]\r\n    ",
            "#[axum::debug_handler(state = App)] ",
            "#[axum_macros::debug_handler(\n    state = App,\n)]\n",
            "#[axum::debug_middleware]\n/// Pays [twice]\n// or not]\n#[doc = \"a] #[b\"]\n\n",
        ] {
            assert!(ends_in_debug_handler(source), "{source}");
        }
    }

    #[test]
    fn nothing_else_is_taken_for_it() {
        for source in [
            "",
            "#[axum::debug_handler]\nasync fn other() {}\n",
            "// #[debug_handler]\n",
            "/// #[debug_handler]\n#[instrument]\n",
            "#[doc = \"debug_handler\"]\n",
            "#[cfg_attr(never, debug_handler)]\n",
            "#![debug_handler]\n",
            "/* #[debug_handler] */\n",
            "]\n",
        ] {
            assert!(!ends_in_debug_handler(source), "{source}");
        }
    }

    #[test]
    fn a_name_is_used_in_code_and_in_format_strings() {
        for (body, used) in [
            ("guard.lost()", true),
            ("{ ready(&[guard]) }", true),
            ("format!(\"{guard:?}\")", true),
            ("\"guard\"", false),
            ("guards()", false),
        ] {
            assert_eq!(mentions(body.parse().unwrap(), "guard"), used, "{body}");
        }
    }
}
