//! The code that replaces the function when the attribute has a mistake.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Ident;

use crate::{function::Function, paths::Paths};

/// The function as the user wrote it. Its callers still find it, so that the mistake in the attribute
/// is the only error.
///
/// The body may use the variable that `lock` names: it is declared, and never made. An argument
/// may be there for the attribute only.
pub(crate) fn function(function: &Function, lock: Option<&Ident>, paths: &Paths) -> TokenStream {
    let declared = lock.filter(|lock| !function.argument_names().contains(lock)).map(|lock| {
        let krate = paths.krate();
        quote_mixed!(let #lock: #krate::LockHandle = loop {};)
    });
    let content = function.body.stream();
    let function = function.with_body(quote!(#declared #content));
    quote!(#[allow(unreachable_code, unused_variables)] #function)
}
