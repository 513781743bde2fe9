//! What an extractor is, and what is checked of every key.

use std::future::{Future, Ready, ready};

use redlock_core::__private as core;

use crate::protocol::Refusal;

/// The key as an extractor found it, unless no log and no terminal could show it as it is: a line
/// break in a key would write log lines of the client's choice.
pub(crate) fn checked(key: Option<String>) -> Result<Option<String>, Refusal> {
    if !key.as_deref().is_some_and(|key| key.contains(char::is_control)) {
        return Ok(key);
    }
    let shown: String = key.iter().flat_map(|key| key.chars()).take(64).collect();
    Err(core::invalid_resource(shown, "it contains control characters").into())
}

/// Something that finds the keys of requests of type `Req`. It cannot be implemented outside this
/// crate; a closure `Fn(&Req) -> Option<impl Into<String>>` is one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no extractor for requests of type `{Req}`",
    label = "this layer cannot find the key of its requests",
    note = "write a closure that names its argument's type and returns an `Option` of text, such as \
            `|request: &{Req}| Some(format!(\"order:{{}}\", ..))`; the text is owned or `'static`: \
            `.map(str::to_owned)`",
    note = "or take one of `redlock_tower::extract`, such as `extract::header(\"order-id\")`; most of \
            them read an `http::Request`"
)]
pub trait Extract<Req> {
    /// [`Ready`] for those that need not wait: they cost no allocation.
    #[doc(hidden)]
    type Future: Future<Output = Found<Req>>;

    /// Takes the request, since some have to take it apart to look into it.
    #[doc(hidden)]
    fn extract(&self, request: Req) -> Self::Future;
}

/// A request and its key, `None` for no lock. What it names is private, so that nothing outside can
/// implement the trait.
pub(crate) type Found<Req> = (Req, Result<Option<String>, Refusal>);

// What the trait says of itself above helps more than a bound of closures that is not met.
#[diagnostic::do_not_recommend]
impl<F, Req, K> Extract<Req> for F
where
    F: Fn(&Req) -> Option<K>,
    K: Into<String>,
{
    type Future = Ready<Found<Req>>;

    fn extract(&self, request: Req) -> Self::Future {
        let key = self(&request).map(Into::into);
        ready((request, Ok(key)))
    }
}
