//! Locks around [tower] services: one request at a time for each key, over all instances of a
//! service. The locks and their guarantee are those of [`redlock_core`].
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
//! let redlock = Redlock::in_memory(3); // in a service: Redlock::builder().nodes([..]).build()?
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
//! There are three layers. They differ in how they refuse a request:
//!
//! | layer | for | a refusal is |
//! |---|---|---|
//! | [`RedlockLayer::new`] | any service that is [`Clone`] | an error |
//! | [`RedlockLayer::http`] | axum and other http services | 423, 503, 400 or 500 |
//! | [`RedlockLayer::grpc`] | tonic | `ABORTED`, `UNAVAILABLE`, `INVALID_ARGUMENT` or `INTERNAL` |
//!
//! # What a request goes through
//!
//! The [extractor](extract) finds the key. A request without a key passes without a lock. Otherwise the layer
//! waits for the lock, calls the service, releases the lock, and only then returns the answer. So a
//! client that has the answer finds the lock free, unless a `min_hold` keeps it or the nodes did not confirm
//! the release. With `hold_until_body_end` the same is true for the end of the body, except for
//! [a stream with a `Content-Length`][held body] over HTTP/1.
//!
//! If the lock is lost while the service runs, its future is dropped and the client gets an error. If the
//! client disconnects, or the service panics, the future is dropped first, and then the lock is released. The
//! layer cannot stop work that the service has spawned. Such work can watch [`LockHandle::lost`].
//!
//! Over HTTP/1 a server notices that its client has disconnected only after it has read the whole request. The body of
//! a request may be chunked or large, and is then read by the handler. Until then only `wait` and
//! [`max_hold`](RedlockLayer::max_hold) bound the request.
//!
//! Over gRPC, a tonic client may drop its `Streaming` response while its own request stream is still open. The server
//! notices this only when the request stream ends. With `hold_until_body_end`, the call keeps the lock until the client
//! drops the sender of that stream. Set `max_hold`.
//!
//! For a graceful shutdown, call [`Redlock::shutdown`] first and stop the server then. Handlers finish within
//! the grace period. Requests that still come are refused with the error for shutting down.
//!
//! # Where to put the layer
//!
//! Put the layer as far inside as the work under the lock allows, since everything inside it runs while other requests
//! wait:
//!
//! - *Outside* the layer: authentication, since a request makes others wait; validation, rate and
//!   concurrency limits, and load shedding. The layer waits until the service inside is ready before it waits for the
//!   lock, so a limit inside is used up by requests that only wait for their lock.
//! - *Outside*, too: timeouts and retries. A timeout outside also bounds the wait for the lock. When it ends, the lock
//!   is released. Choose a shorter `wait`. A timeout inside bounds the handler.
//! - Compression and tracing may be on either side. A layer that reads a whole body before it calls the next service
//!   belongs outside: inside, a slow client holds the lock while it uploads.
//! - A handler that reads the body itself does so under the lock, and the lock renews itself for
//!   as long as that takes. **Give such a layer a [`max_hold`](RedlockLayer::max_hold)**: otherwise
//!   a client that sends one byte a second holds the lock for as long as it likes.
//! - In axum, `Router::layer` also wraps the fallback, and `Router::route_layer` only the routes.
//!   The last layer added is the outermost.
//! - In axum, both wrap every method of a route: requests that end in 405 and CORS preflights
//!   take the lock as well. Name the methods with `RedlockLayer::methods`, as above, or put
//!   the layer on single handlers: `post(pay).route_layer(layer)`.
//! - In tonic, [`RedlockLayer::grpc`] goes inside `tonic_web::GrpcWebLayer`:
//!   `Server::builder().layer(GrpcWebLayer::new()).layer(redlock)`. In the other order, refusals are
//!   plain gRPC, which a browser cannot read.
//!
//! # WebSockets and other upgrades
//!
//! The answer to an upgrade, 101, has no body. A layer releases its lock with that answer, before
//! the first message, even with `hold_until_body_end`. Take the lock in the handler
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
//! The client chooses a key that comes from a header, a path or metadata. **Give every layer its own
//! prefix**: without one, a client can name any lock of the pool, and block work that
//! has nothing to do with its request. See [`extract`].
//!
//! **Lock the id that the handler acts on.** `042` and `42` are one number and two keys. If the handler
//! parses the id, [build the key from the parsed value](extract#ids-in-several-spellings).
//!
//! **A lock does not deduplicate.** Requests with the same `idempotency-key` run one after the other,
//! but each of them runs. To recognize a repetition, keep a record of the answer to this user:
//! `extract::header` has an example.
//!
//! # Several locks around one handler
//!
//! Two layers around the same handler, or a layer and a `#[redlock]` annotation, may have the same key.
//! The inner one joins the lock of the outer one, and the outermost one releases it. The lock has the settings of the
//! outer one. The inner `max_hold` has no effect. If the inner one asks for `fenced` and the outer one is not fenced,
//! or for a longer `min_hold` than the outer one has, the request fails with [`Config`](redlock_core::LockError::Config). A writer inside a reader is
//! refused as held.
//!
//! With different keys, every handler must take them in the same order: otherwise two requests can wait for each other.
//! A lock is not joined from another task. If a task is spawned between two layers with the same key, the inner layer
//! waits for the outer one in vain. `tower::buffer` spawns no task for the request.
//!
//! **The handler gets the lock of the innermost layer.** If an http or grpc layer lets a request
//! through without a lock, it hides the locks around it. The handler then finds none in the extensions of its
//! request, and an axum handler that asks for a [`LockHandle`] answers 500. Otherwise the handler could mistake the
//! lock of an outer layer, and its token, for its own. [`RedlockLayer::new`] accepts requests of any
//! type, which have no extensions: a request that it lets through keeps the lock that is around it.
//! [`LockHandle::current`] hides nothing. It is the innermost lock that is held, whichever layer took
//! it.
//!
//! # Features
//!
//! | feature | default | what for |
//! |---|---|---|
//! | `http` | yes | [`RedlockLayer::http`], keys from headers and from the path |
//! | `axum` | no | keys from path parameters and axum extractors, [`LockHandle`] and `http::LockRejection` in handlers |
//! | `tonic` | no | [`RedlockLayer::grpc`], `grpc::status` |
//! | `console` | no | `console::router`: a page that shows the locks of this process |
//!
//! The interface of this crate uses types of tower-layer 0.3 and tower-service 0.3 (tower 0.5), and with these features
//! types of http 1, http-body 1, axum 0.8 and tonic 0.14.
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
