//! The `#[redlock]` attribute. Use it through redlock-core, which re-exports it.

/// As `quote!`, with names of its own: locals neither clash with the user's nor capture them.
macro_rules! quote_mixed {
    ($($tokens:tt)*) => {
        ::quote::quote_spanned!(::proc_macro2::Span::mixed_site()=> $($tokens)*)
    };
}

mod args;
mod braces;
mod debug_handler;
mod duration;
mod errors;
mod exit;
mod expand;
mod fallback;
mod function;
mod hole;
mod keys;
mod nodes;
mod output;
mod paths;
mod request;
mod resource;
mod returned_future;
mod setting;
mod suggest;
mod template;
mod validate;
mod value;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::{ReturnType, Signature};

use crate::{
    args::Args, errors::Errors, function::Function, output::Output, paths::Paths,
    returned_future::ReturnedFuture, validate::Plan,
};

// Its examples need redlock-core, on which this package cannot depend: they are tested in `tests`.
#[cfg_attr(not(doctest), doc = include_str!("redlock.md"))]
#[cfg_attr(doctest, doc = "")]
#[proc_macro_attribute]
pub fn redlock(
    attribute: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    expand(attribute.into(), item.into()).into()
}

fn expand(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let function: Function = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => return [error.into_compile_error(), item].into_iter().collect(),
    };
    let mut errors = Errors::default();
    let args = Args::parse(attribute.clone(), &mut errors);
    let lock = args.lock.as_ref().map(|arg| arg.value.clone());
    let paths = Paths(args.krate.as_ref().map(|arg| arg.value.clone()));
    if let Some(lock) = &lock {
        errors.catch(debug_handler::above(lock, Span::call_site(), &function));
    }
    let expanded = errors.catch(future(&function)).and_then(|(returned, output)| {
        let plan = Plan::new(args, &function, &output, &mut errors)?;
        Some(expand::function(&function, returned, &plan, &output, &paths))
    });
    match (expanded, errors.into_error()) {
        (Some(expanded), None) => expanded,
        (_, error) => {
            let error = error.unwrap_or_else(args::no_resource).into_compile_error();
            let lock = lock.or_else(|| args::lock_in(attribute));
            let function = fallback::function(&function, lock.as_ref(), &paths);
            quote::quote!(#error #function)
        }
    }
}

/// How the function makes its future, and the type of its output.
fn future(function: &Function) -> syn::Result<(Option<ReturnedFuture>, Output)> {
    let signature = &function.signature;
    let Signature { constness, asyncness, abi, fn_token, .. } = signature;
    if let Some(constness) = constness {
        let told = "a `const fn` cannot wait for a lock: write `async fn`";
        return Err(syn::Error::new_spanned(constness, told));
    }
    if let Some(abi) = abi {
        let told = "an `extern` function cannot wait for a lock: annotate an `async fn` and call it from here";
        return Err(syn::Error::new_spanned(abi, told));
    }
    if asyncness.is_some() {
        return Ok((None, Output::of_async(signature)));
    }
    let returned = ReturnedFuture::recognise(&function.body);
    if let Some(place) = returned.as_ref().and_then(ReturnedFuture::early_return) {
        let told = "this `return` leaves the function without its lock, which is taken inside the async block at the end: move it into that block";
        return Err(syn::Error::new(place, told));
    }
    match (returned, Output::of_future(signature), &signature.output) {
        (Some(returned), Some(output), _) => Ok((Some(returned), output)),
        (Some(_), None, ReturnType::Type(_, ty)) => {
            let told = "`#[redlock]` cannot see what this future gives: write it out, `Pin<Box<dyn Future<Output = Result<..>> + Send>>` or `BoxFuture<'static, Result<..>>`";
            Err(syn::Error::new_spanned(ty, told))
        }
        _ if output::is_future(signature) => {
            let told = "`#[redlock]` takes the lock inside the async block that the function ends in, and this is none: end in `Box::pin(async move { .. })` or in `async move { .. }`, and await this in there, or write an `async fn`";
            let end = ReturnedFuture::end_of_another(&function.body)
                .unwrap_or_else(|| fn_token.to_token_stream());
            Err(syn::Error::new_spanned(end, told))
        }
        _ => {
            let told = "`#[redlock]` needs an `async fn`. When an attribute above it, such as `#[tokio::main]`, has taken the `async` away, write `#[redlock]` above that one";
            Err(syn::Error::new_spanned(fn_token, told))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Kind;
    use quote::quote;

    fn expanded(attribute: &str) -> String {
        let item = quote!(
            async fn f() -> Result<(), E> {
                work()
            }
        );
        expand(attribute.parse().unwrap(), item).to_string()
    }

    #[test]
    fn each_setting_reaches_the_setter_of_its_own_name() {
        for (key, kind, _) in keys::SETTINGS {
            let (written, passed) = match kind {
                Kind::Time | Kind::PositiveTime | Kind::Expiry | Kind::PositiveExpiry => {
                    ("7", "from_millis (7u64)")
                }
                Kind::Count | Kind::Permits => ("7", "(7u32)"),
                Kind::Factor => ("0.7", "(0.7f64)"),
                Kind::Toggle => ("false", "(false)"),
                Kind::Label => ("\"x\"", "(\"x\")"),
                Kind::Word => continue,
            };
            let code = expanded(&format!("resource = \"a\", {key} = {written}"));
            let setters = code.split("LockOptions :: new ()").nth(1).unwrap();
            let setters = setters.split(" ;").next().unwrap();
            assert!(setters.starts_with(&format!(" . {key} (")), "{key}: {setters}");
            assert!(setters.contains(passed), "{key}: {setters}");
        }
    }

    #[test]
    fn a_word_alone_calls_its_setter() {
        for (key, kind, _) in keys::SETTINGS {
            let setter = format!("LockOptions :: new () . {key} ()");
            let is_word = matches!(kind, Kind::Word);
            assert_eq!(expanded(&format!("resource = \"a\", {key}")).contains(&setter), is_word);
            assert!(!expanded("resource = \"a\"").contains(&setter), "{key}");
        }
    }

    #[test]
    fn the_documentation_has_a_row_for_each_key() {
        for (key, _) in keys::all().chain([keys::CRATE]) {
            assert!(include_str!("redlock.md").contains(&format!("\n| `{key}` | ")), "{key}");
        }
    }

    #[test]
    fn a_mistake_that_hides_on_reject_is_the_only_one_told() {
        let item = quote!(
            async fn f() -> u8 {
                1
            }
        );
        for wrong in ["on_reject = 5", "on_reject", "tll = 5, on_reject = |_| 1", "on_reject = ,"] {
            let attribute = format!("resource = \"a\", {wrong}").parse().unwrap();
            let code = expand(attribute, item.clone()).to_string();
            assert_eq!(code.matches("compile_error").count(), 1, "{wrong}: {code}");
        }
    }

    #[test]
    fn a_function_is_never_left_without_a_lock_and_without_an_error() {
        for wrong in
            ["", "ttl = 1", "resource = \"\"", "resource", "x = 1", "resource = \"a\", lock = _"]
        {
            let code = expanded(wrong);
            assert!(
                code.contains("compile_error") && code.contains("async fn f"),
                "{wrong}: {code}"
            );
        }
        assert!(!expanded("resource = \"a\"").contains("compile_error"));
    }
}
