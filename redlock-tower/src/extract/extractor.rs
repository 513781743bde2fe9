//! The trait of extractors, and the checks of every key.

use std::future::{Future, Ready, ready};

use redlock_core::__private as core;

use crate::protocol::Refusal;

/// The key that an extractor found, unless it has control characters: with a line break in a key, a
/// client could write lines into a log.
pub(crate) fn checked(key: Option<String>) -> Result<Option<String>, Refusal> {
    match key {
        Some(key) if key.contains(char::is_control) => {
            Err(core::invalid_resource(key, "it contains control characters").into())
        }
        key => Ok(key),
    }
}

/// An extractor: it finds the keys of requests of type `Req`. It cannot be implemented outside this
/// crate, but every closure `Fn(&Req) -> Option<impl Into<String>>` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no extractor for requests of type `{Req}`",
    label = "this layer cannot find the key of its requests",
    note = "write a closure that names its argument's type and returns an `Option` of text, such as \
            `|request: &{Req}| Some(format!(\"order:{{}}\", ..))`; text that is borrowed from the \
            request is copied, `.map(str::to_owned)`",
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

/// A request and its key. `None` stands for no lock. The type is private, so that no other crate can
/// implement the trait.
pub(crate) type Found<Req> = (Req, Result<Option<String>, Refusal>);

/// A closure as it sees a request for `'a`: its key may be borrowed from the request.
///
/// `Request` is there for what it implies, that `Req` lives for `'a`. A bound that says so would
/// ask for a `'static` request where the trait is asked for every `'a`.
pub trait FindKey<'a, Req, Request = &'a Req> {
    type Key: Into<String>;

    fn find_key(&self, request: &'a Req) -> Option<Self::Key>;
}

#[diagnostic::do_not_recommend]
impl<'a, F, Req, K> FindKey<'a, Req> for F
where
    F: Fn(&'a Req) -> Option<K>,
    K: Into<String>,
{
    type Key = K;

    fn find_key(&self, request: &'a Req) -> Option<K> {
        self(request)
    }
}

// The message of the trait above says more than an unmet bound of a closure would.
#[diagnostic::do_not_recommend]
impl<F, Req> Extract<Req> for F
where
    F: for<'a> FindKey<'a, Req>,
{
    type Future = Ready<Found<Req>>;

    fn extract(&self, request: Req) -> Self::Future {
        let key = self.find_key(&request).map(Into::into);
        ready((request, Ok(key)))
    }
}
