//! Where the key of a request comes from.
//!
//! An extractor is one of the functions below, or a closure that names its argument's type and
//! returns an `Option` of the key:
//!
//! ```
//! # use redlock_core::Redlock;
//! # use redlock_tower::RedlockLayer;
//! # let redlock = Redlock::in_memory(3);
//! struct Transfer { from: u64 }
//!
//! let layer = RedlockLayer::new(redlock, |transfer: &Transfer| {
//!     (transfer.from != 0).then(|| format!("account:{}", transfer.from))
//! });
//! ```
//!
//! The key outlives the request: it is owned or `'static`, and what is borrowed from the request
//! is copied, `.map(str::to_owned)`. `None` lets the request through without a lock. A key that is
//! empty, is longer than 1024 bytes with its prefix, or contains control characters is refused: it
//! never becomes "no lock".
//!
//! # Beside axum
//!
//! axum has a module `extract`, too. Where one name is to mean this module, import it by that name,
//! as in `use redlock_tower::extract;`: that also works beside `use axum::*;`. Two globs,
//! `use axum::*;` and `use redlock_tower::*;`, leave `extract` ambiguous, which is an error. Where
//! both modules are needed, rename one, or write axum's items out:
//!
#![cfg_attr(feature = "axum", doc = "```")]
#![cfg_attr(not(feature = "axum"), doc = "```ignore")]
//! use axum::extract::{Path, State};
//! use redlock_tower::extract as lock_key;
//!
//! let by_order = lock_key::from_parts::<Path<u64>, _>(|Path(id)| Some(id.to_string()));
//! # let _ = by_order;
//! ```
//!
//! # Keys that a client chooses
//!
//! Everything in a request is chosen by its client. Without a **prefix** of its own a layer lets
//! any client take any lock of the pool, only by naming it: a header `admin-job` locks
//! `admin-job`. Put `.prefix(..)` in front, and authenticate before the layer where holding
//! a lock against other clients would harm them.

#[cfg(feature = "http")]
mod header;
#[cfg(feature = "http")]
mod key;
#[cfg(feature = "axum")]
mod parts;
#[cfg(feature = "http")]
mod target;

use std::future::{Future, Ready, ready};

use redlock_core::__private as core;

use crate::reject::Refusal;

#[cfg(feature = "tonic")]
pub use header::metadata;
#[cfg(feature = "http")]
pub use header::{Header, header};
#[cfg(feature = "axum")]
pub use parts::{FromParts, PathParam, from_parts, from_parts_with_state, path_param};
#[cfg(feature = "tonic")]
pub use target::grpc_method;
#[cfg(feature = "axum")]
pub use target::original_uri_path;
#[cfg(feature = "http")]
pub use target::{Target, method_and_path, uri_path};

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
