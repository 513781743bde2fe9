//! The paths into redlock-core, and the places that the code of an expansion has.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// The way to redlock-core: its usual name, or the path that the user gave.
#[derive(Debug)]
pub(crate) struct Paths(pub(crate) Option<syn::Path>);

impl Paths {
    pub(crate) fn krate(&self) -> TokenStream {
        self.0.as_ref().map_or_else(|| quote_mixed!(::redlock_core), ToTokens::to_token_stream)
    }

    pub(crate) fn private(&self) -> TokenStream {
        let krate = self.krate();
        quote_mixed!(#krate::__private)
    }

    /// All of the path at one place, or rustc would point at everything in between.
    pub(crate) fn private_at(&self, place: Span) -> TokenStream {
        self.private()
            .into_iter()
            .map(|mut token| {
                token.set_span(token.span().located_at(place));
                token
            })
            .collect()
    }
}

/// This place, with names that the user's code neither sees nor shadows.
pub(crate) fn mixed(place: Span) -> Span {
    Span::mixed_site().located_at(place)
}
