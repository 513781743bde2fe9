//! Extractors: functions that find the key of a request.
//!
//! An extractor is made by one of the functions below, or is a closure that names the type of its argument and
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
//! A closure cannot borrow its key from the request. Copy it: `.map(str::to_owned)`. A function,
//! `fn(&Transfer) -> Option<&str>`, can borrow it.
//!
//! A closure that does not name the type of its argument is tied to one lifetime. Around a service of a plain type
//! rustc then says ``implementation of `FindKey` is not general enough``, and for a router it asks for the type: write
//! `|transfer: &Transfer|`.
//!
//! `None` lets the request through without a lock. A key that is empty, is longer than 1024 bytes with its prefix, or
//! contains control characters is refused. It never lets a request through without a lock.
//!
//! # Beside axum
//!
//! axum has a module `extract`, too. Import this one by its name: a name goes before the names that a glob
//! imports. With two globs, `use axum::*;` and `use redlock_tower::*;`, the name `extract` is ambiguous, and does not
//! compile.
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
//! If you need both modules, rename one, or import single items of axum's:
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
//! # Keys from the body
//!
//! A layer reads the head of a request only. It would have to keep the whole body in memory, and parse it a second
//! time. To lock by a field of the body, annotate the handler in place of a layer: its arguments are there before the
//! lock is taken.
//!
#![cfg_attr(feature = "axum", doc = "```")]
#![cfg_attr(not(feature = "axum"), doc = "```ignore")]
//! use axum::{Json, Router, extract::State, routing::post};
//! use redlock_core::{Redlock, redlock};
//! use redlock_tower::http::LockRejection;
//!
//! #[derive(serde::Deserialize)]
//! struct Order { id: u64 }
//!
//! #[redlock(resource = "order:{order.id}", client = locks)]
//! async fn pay(
//!     State(locks): State<Redlock>,
//!     Json(order): Json<Order>,
//! ) -> Result<String, LockRejection> {
//!     Ok(format!("order {} is paid", order.id))
//! }
//!
//! let app: Router = Router::new().route("/pay", post(pay)).with_state(Redlock::in_memory(3));
//! ```
//!
//! So no client holds the lock while it sends its body. The refusals are those of the layer for http.
//!
//! # Keys that a client chooses
//!
//! The client chooses everything in a request. Without its own **prefix**, a layer lets
//! any client take any lock of the pool by naming it: a header `admin-job` locks
//! `admin-job`. Set a prefix with `.prefix(..)`. If a client could harm others by holding their lock, authenticate
//! before the layer.
//!
//! A name with **braces** can be the name of a key that belongs to another lock: its queue, one of
//! its permits, or its fencing counter. With the prefix `order:`, the text `7:{redlock:order:7}:fence` names the
//! counter of `order:7`, and `{redlock:order}:fence` the counter of `order`. While a client holds the former,
//! `order:7` gives no fencing token, and a fenced request for it is refused. Names are not encoded here,
//! because all code that locks an order has to use the same name for it. An id that is parsed, as below, has
//! no braces. Refuse braces in an id that is free text.
//!
//! # Ids in several spellings
//!
//! These functions use the text of the request as the key. In a path, percent-encoding is decoded. A handler
//! that parses the text accepts several spellings of one id: `Path<u64>` reads `42`, `042` and `+42` as the
//! same number, and a UUID may be in capitals. **Each spelling is a different lock: with another
//! spelling, a client bypasses the lock.** Build the key from the parsed value:
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
//! Without axum, parse in a closure. Return an empty key for a text that cannot be parsed: it is refused,
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
