//! What stands in for the function when the attribute is wrong.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Ident, Path};

use crate::{expand::krate, function::Function};

/// The function as the user wrote it, so that its callers still find it and the mistake in the
/// attribute stays the only error.
///
/// The body may use the variable that `lock` names: it is declared, and never made.
pub(crate) fn function(
    function: &Function,
    lock: Option<&Ident>,
    path: Option<&Path>,
) -> TokenStream {
    let Some(lock) = lock else { return function.to_token_stream() };
    let krate = krate(path);
    let content = function.body.stream();
    let declared = function.with_body(quote_mixed! {
        let #lock: #krate::LockHandle = loop {};
        #content
    });
    quote!(#[allow(unreachable_code, unused_variables)] #declared)
}
