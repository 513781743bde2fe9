//! The functions that find the key of a request.
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
//! A closure cannot borrow its key from the request: copy it, `.map(str::to_owned)`. A function,
//! `fn(&Transfer) -> Option<&str>`, can. `None` lets the request through without a lock. A key that
//! is empty, is longer than 1024 bytes with its prefix, or contains control characters is refused:
//! it never becomes "no lock".
//!
//! # Beside axum
//!
//! axum has a module `extract`, too. Import this one by its name, which goes before what a glob
//! imports. Two globs, `use axum::*;` and `use redlock_tower::*;`, leave `extract` ambiguous, which
//! is an error.
//!
#![cfg_attr(feature = "axum", doc = "```")]
#![cfg_attr(not(feature = "axum"), doc = "```ignore")]
//! use axum::*;
//! use redlock_tower::extract; // not axum's
//!
//! let by_order = extract::header("order-id").prefix("order:");
//! # let _ = by_order;
//! # let _: Router = Router::new();
//! ```
//!
//! Where both modules are needed, rename one, or write axum's items out:
//!
#![cfg_attr(feature = "axum", doc = "```")]
#![cfg_attr(not(feature = "axum"), doc = "```ignore")]
//! use axum::extract::{Path, State};
//! use redlock_tower::extract as lock_key;
//!
//! let by_order = lock_key::from_parts::<Path<u64>, _>(|Path(id)| Some(id.to_string()));
//! # let _ = by_order;
//! # let _: Option<State<()>> = None;
//! ```
//!
//! # Keys that a client chooses
//!
//! Everything in a request is chosen by its client. Without a **prefix** of its own a layer lets
//! any client take any lock of the pool, only by naming it: a header `admin-job` locks
//! `admin-job`. Put `.prefix(..)` in front, and authenticate before the layer where holding
//! a lock against other clients would harm them.
//!
//! A name with **braces** can be that of a key which a lock keeps beside itself: its queue, one of
//! its permits, its fencing counter. Behind `order:`, the text `7:{redlock:order:7}:fence` names the
//! counter of `order:7`, and `{redlock:order}:fence` that of `order`. While a client holds the former,
//! `order:7` gives no fencing token, and a request for one is refused. Nothing is encoded here,
//! since all code that locks an order has to use one name for it. An id that is parsed, as below, has
//! no braces. Refuse them in one that is free text.
//!
//! # Ids in several spellings
//!
//! These functions lock the text of the request, with percent-encoding decoded in a path. A handler
//! that parses it takes several spellings for one id: `Path<u64>` reads `42`, `042` and `+42` as the
//! same number, and a UUID may be in capitals. **Each spelling is a lock of its own: by another
//! spelling a client gets around the lock.** Make the key of what was parsed:
//!
#![cfg_attr(feature = "axum", doc = "```")]
#![cfg_attr(not(feature = "axum"), doc = "```ignore")]
//! use axum::extract::Path;
//! use redlock_tower::extract;
//!
//! let by_order = extract::from_parts::<Path<u64>, _>(|Path(id)| Some(id.to_string()))
//!     .prefix("order:");
//! # let _ = by_order;
//! ```
//!
//! Without axum a closure parses. Let it give an empty key for what it cannot parse: that is refused,
//! and `None` would pass without a lock.
//!
#![cfg_attr(feature = "http", doc = "```")]
#![cfg_attr(not(feature = "http"), doc = "```ignore")]
//! # use redlock_core::Redlock;
//! # use redlock_tower::RedlockLayer;
//! # let redlock = Redlock::in_memory(3);
//! # type Body = ();
//! let by_order = |request: &http::Request<Body>| {
//!     let text = request.headers().get("order-id").and_then(|text| text.to_str().ok());
//!     let id = text.and_then(|text| text.parse::<u64>().ok());
//!     Some(id.map_or_else(String::new, |id| format!("order:{id}")))
//! };
//! let layer = RedlockLayer::http(redlock, by_order);
//! # let _ = layer;
//! ```

mod extractor;
#[cfg(feature = "http")]
mod header;
#[cfg(feature = "http")]
mod key;
#[cfg(feature = "axum")]
mod parts;
#[cfg(feature = "http")]
mod target;

pub use extractor::Extract;
pub(crate) use extractor::checked;
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
