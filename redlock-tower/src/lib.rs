//! Locks around [tower] services: one request at a time for each key, over all instances of a
//! service. The locks are those of [`redlock_core`].
//!
#![cfg_attr(feature = "axum", doc = "```")]
#![cfg_attr(not(feature = "axum"), doc = "```ignore")]
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use std::time::Duration;
//! use axum::{Router, body::Body, extract::Request, routing::post};
//! use axum::http::{Method, StatusCode};
//! use redlock_core::{LockHandle, Redlock};
//! use redlock_tower::{RedlockLayer, extract}; // this `extract` is not axum's
//! # use tower::ServiceExt;
//!
//! async fn pay(lock: LockHandle) -> String {
//!     format!("{} is paid", lock.resource())
//! }
//!
//! let redlock = Redlock::in_memory(3); // or Redlock::connect(["redis://..", ..]).await?
//! let by_order = RedlockLayer::http(redlock.clone(), extract::path_param("id").prefix("order:"))
//!     .methods([Method::POST])
//!     .wait(Duration::from_millis(500));
//! let app = Router::new().route("/orders/{id}/pay", post(pay)).route_layer(by_order);
//!
//! # let app = async |uri| {
//! #     app.clone().oneshot(Request::post(uri).body(Body::empty()).unwrap()).await.unwrap()
//! # };
//! assert_eq!(app("/orders/42/pay").await.status(), StatusCode::OK);
//!
//! // While the order is locked elsewhere, its requests wait, and are refused after half a second.
//! let guard = redlock.lock("order:42").await?;
//! assert_eq!(app("/orders/42/pay").await.status(), StatusCode::LOCKED);
//! assert_eq!(app("/orders/43/pay").await.status(), StatusCode::OK);
//! # Ok::<(), redlock_tower::BoxError>(()) }).unwrap();
//! ```
//!
//! There are three layers, which differ in how they refuse a request:
//!
//! | layer | for | a refusal is |
//! |---|---|---|
//! | [`RedlockLayer::new`] | any service that is [`Clone`] | an error |
//! | [`RedlockLayer::http`] | axum and other http services | 423, 503, 400 or 500 |
//! | [`RedlockLayer::grpc`] | tonic | `ABORTED`, `UNAVAILABLE`, `INVALID_ARGUMENT` or `INTERNAL` |
//!
//! # What a request goes through
//!
//! The [extractor](extract) finds the key. A request without a key passes without a lock. The layer
//! waits for the lock, calls the service, releases the lock, and only then gives the answer: a
//! client that has the answer finds the lock free, unless a `min_hold` keeps it or the nodes did not confirm
//! the release. With `hold_until_body_end` the same is true of
//! the end of the body, but for [a stream with a `Content-Length`][held body] over HTTP/1.
//!
//! If the lock is lost meanwhile, the service's future is dropped and the client is told. If the
//! client goes away, or the service panics, the future is dropped, then the lock is released. The
//! layer cannot stop work that the service has spawned: such work watches [`LockHandle::lost`].
//!
//! A server sees over HTTP/1 that its client has gone away only once the body of the request has been read, and
//! a chunked or large one is read by the handler. Until then `wait` and [`max_hold`](RedlockLayer::max_hold)
//! bound the request.
//!
//! A graceful shutdown calls [`Redlock::shutdown`] first, then stops the server. Handlers finish within
//! the grace period, and requests that still come are refused as shutting down.
//!
//! # Where to put the layer
//!
//! As far inside as the lock is needed, since everything inside it runs while others wait:
//!
//! - *Outside* of it: authentication, since a request makes others wait; validation, rate and
//!   concurrency limits, load shedding. A limit inside is used up by requests that only wait for
//!   their lock.
//! - *Outside* of it, too: timeouts and retries. A timeout outside bounds the wait for the lock as
//!   well, and releases it; `wait` should be shorter than it. A timeout inside bounds the handler.
//! - Compression and tracing may be on either side. What reads a whole body before it calls on
//!   belongs outside, or a slow client holds the lock while it uploads.
//! - A handler that reads the body itself does so under the lock, and the lock renews itself for
//!   as long as that takes. **Give such a layer a [`max_hold`](RedlockLayer::max_hold)**: otherwise
//!   a client that sends one byte a second holds the lock for as long as it likes.
//! - In axum, `Router::layer` also goes around the fallback, `Router::route_layer` around routes
//!   only. The last layer added is the outermost.
//! - In axum, both go around every method of a route: requests that end in 405 and the preflights
//!   of CORS are locked as well. Name the methods with `RedlockLayer::methods`, as above, or put
//!   the layer on the handlers alone: `post(pay).route_layer(layer)`.
//! - In tonic, [`RedlockLayer::grpc`] goes inside of `tonic_web::GrpcWebLayer`:
//!   `Server::builder().layer(GrpcWebLayer::new()).layer(redlock)`. In the other order refusals are
//!   gRPC, which a browser cannot read.
//!
//! # WebSockets and other upgrades
//!
//! The answer to an upgrade, 101, has no body. A layer releases its lock with that answer, before
//! the first message, and so it does after `hold_until_body_end`. Take the lock in the handler
//! instead, and move its guard into the task of the socket:
//!
#![cfg_attr(feature = "axum", doc = "```")]
#![cfg_attr(not(feature = "axum"), doc = "```ignore")]
//! use axum::{
//!     Router,
//!     extract::{Path, State, ws::{WebSocket, WebSocketUpgrade}},
//!     response::Response,
//!     routing::get,
//! };
//! use redlock_core::Redlock;
//! use redlock_tower::http::LockRejection;
//!
//! async fn join(
//!     State(redlock): State<Redlock>,
//!     Path(id): Path<u64>,
//!     upgrade: WebSocketUpgrade,
//! ) -> Result<Response, LockRejection> {
//!     // Held elsewhere: 423, as from a layer.
//!     let guard = redlock.lock(format!("room:{id}")).await?;
//!     Ok(upgrade.on_upgrade(async move |socket| {
//!         tokio::select! {
//!             () = guard.lost() => {} // the socket is closed
//!             () = serve(socket) => {}
//!         }
//!         let _ = guard.release().await;
//!     }))
//! }
//!
//! async fn serve(mut socket: WebSocket) {
//!     while let Some(Ok(message)) = socket.recv().await {
//!         let _ = socket.send(message).await;
//!     }
//! }
//!
//! let redlock = Redlock::in_memory(3);
//! let app: Router = Router::new().route("/rooms/{id}", get(join)).with_state(redlock);
//! ```
//!
//! # Keys that clients choose
//!
//! A key out of a header, a path or metadata is chosen by the client. **Give every layer a prefix
//! of its own**: without one, a client can take any lock of the pool by naming it, and block what
//! has nothing to do with it. See [`extract`].
//!
//! **Lock the id that the handler acts on.** `042` and `42` are one number and two keys: where a handler
//! parses, [make the key of what was parsed](extract#ids-in-several-spellings).
//!
//! **A lock does not deduplicate.** Requests with one `idempotency-key` run one after the other,
//! but each of them runs. What recognizes a repetition is a record of the answer to this user:
//! `extract::header` shows it.
//!
//! # Several locks around one handler
//!
//! A layer and a `#[redlock]` annotation, or two layers, around the same handler may have the same key:
//! the inner one joins the lock of the outer one, which the last of them releases. The lock is as the outer one asked
//! for it: a `max_hold` inside counts for nothing, and what the outer lock is not, `fenced` or held for as long as a
//! `min_hold` inside, is a [`Config`](redlock_core::LockError::Config) error. A writer inside of a reader is refused as
//! held. With different keys,
//! every handler takes them in the same order, or two requests can wait for each other. Nothing joins across a
//! task: in one that is spawned between two layers, the inner layer waits for the outer one in vain. A
//! `tower::buffer` spawns none for the request.
//!
//! **The handler's lock is that of the innermost layer.** An http or grpc layer that lets a request
//! through without a lock hides the locks around it: the handler finds none in the extensions of its
//! request, and an axum handler that asks for a [`LockHandle`] answers 500. It would take a lock of
//! another key, and its fencing token, for its own. [`RedlockLayer::new`] goes around requests of any
//! type and has no extensions: a request that it lets through keeps the lock that is around it.
//! [`LockHandle::current`] hides nothing. It is the innermost lock that is held, whichever layer took
//! it.
//!
//! # Features
//!
//! | feature | default | what for |
//! |---|---|---|
//! | `http` | yes | [`RedlockLayer::http`], keys from headers and paths |
//! | `axum` | no | keys from path parameters and axum extractors, [`LockHandle`] and `http::LockRejection` in handlers |
//! | `tonic` | no | [`RedlockLayer::grpc`], `grpc::status` |
//! | `console` | no | `console::router`: a page that shows the locks of this process |
//!
//! [tower]: https://docs.rs/tower
//! [`LockHandle`]: redlock_core::LockHandle
//! [`LockHandle::current`]: redlock_core::LockHandle::current
//! [`LockHandle::lost`]: redlock_core::LockHandle::lost
//! [`Redlock::shutdown`]: redlock_core::Redlock::shutdown
#![cfg_attr(feature = "http", doc = "[held body]: body::ResponseBody")]
#![cfg_attr(not(feature = "http"), doc = "[held body]: RedlockLayer")]
#![cfg_attr(not(feature = "http"), doc = "[`RedlockLayer::http`]: RedlockLayer")]
#![cfg_attr(not(feature = "tonic"), doc = "[`RedlockLayer::grpc`]: RedlockLayer")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(feature = "http")]
pub mod body;
#[cfg(feature = "console")]
pub mod console;
pub mod extract;
pub mod future;
#[cfg(feature = "tonic")]
pub mod grpc;
#[cfg(feature = "http")]
pub mod http;
mod layer;
mod plain;
#[cfg(feature = "http")]
mod problem;
mod protocol;
#[cfg(feature = "http")]
mod report;
mod service;
mod settings;

pub use layer::RedlockLayer;
pub use plain::Plain;
pub use protocol::{BoxError, Protocol};
pub use service::RedlockService;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
