//! A page that shows the locks of this process while it runs (feature `console`).
//!
//! [`router`] serves one page with the locks that this process holds, the requests that wait, and the
//! state of each node. The page updates itself with server-sent events. It loads nothing from
//! other servers, changes nothing, and works on a phone and with a screen reader. Without scripts it shows the state at
//! the time when it was loaded.
//!
//! ```
//! use axum::{Router, routing::get};
//! use redlock_core::Redlock;
//! use redlock_tower::console;
//!
//! let redlock = Redlock::in_memory(5); // or Redlock::connect(["redis://..", ..]).await?
//! let internal: Router = Router::new()
//!     .route("/health", get(async || "ok"))
//!     .nest("/locks", console::router(redlock));
//! ```
//!
//! **Make it reachable for operators only.** It shows resources, names of nodes and fencing tokens to every visitor that
//! can load it. Serve it on its own port, or behind authentication. Names are escaped, and a content
//! security policy forbids inline scripts and scripts from other servers.
//!
//! Each open page costs each node one `PING` a second. At most [`MAX_PAGES`] pages are kept up to date
//! at once. A page reconnects every ten seconds, so a graceful shutdown of the server waits about that long
//! for a browser that reads the stream. A table shows at most [`MAX_ROWS`] rows, and the number of all rows.

mod live;
mod page;
mod snapshot;
mod text;

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::RawQuery,
    http::{HeaderName, HeaderValue, Response, StatusCode, header},
    routing::get,
};
use redlock_core::Redlock;
use tokio::sync::Semaphore;

pub use self::snapshot::MAX_ROWS;
use self::snapshot::Snapshot;

/// The most pages that are kept up to date at once. Further pages are asked to try again later.
pub const MAX_PAGES: usize = 16;

/// Script and style from where the page is from, and nothing else. Names that are not escaped could do no more than
/// look odd.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const SCRIPT: &str = include_str!("console.js");
const STYLE: &str = include_str!("console.css");

/// Returns a router with the page of this client. Nest it in a router without a state, or after `with_state`.
///
/// It answers only `GET` and `HEAD`, and changes nothing.
pub fn router(redlock: Redlock) -> Router {
    let pages = Arc::new(Semaphore::new(MAX_PAGES));
    let answer = move |RawQuery(query): RawQuery| {
        let (redlock, pages) = (redlock.clone(), Arc::clone(&pages));
        async move { answer(redlock, &pages, query.as_deref()).await }
    };
    Router::new().route("/", get(answer))
}

/// All parts have one path and differ in the query, so that they find each other wherever the router is
/// nested, and behind any proxy.
async fn answer(redlock: Redlock, pages: &Arc<Semaphore>, query: Option<&str>) -> Response<Body> {
    match query.unwrap_or_default() {
        "" => {
            let page = page::page(redlock.client_name(), &Snapshot::take(&redlock).await);
            respond("text/html; charset=utf-8", page.into())
        }
        "script" => respond("text/javascript; charset=utf-8", SCRIPT.into()),
        "style" => respond("text/css; charset=utf-8", STYLE.into()),
        "events" => match Arc::clone(pages).try_acquire_owned() {
            Ok(place) => respond("text/event-stream", live::events(redlock, place)),
            Err(_) => refuse(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open\n"),
        },
        _ => refuse(StatusCode::NOT_FOUND, "there is no such part of the console\n"),
    }
}

fn respond(kind: &'static str, body: Body) -> Response<Body> {
    const HEADERS: [(HeaderName, &str); 6] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        // A proxy must not collect events before it passes them on.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refuse(status: StatusCode, why: &'static str) -> Response<Body> {
    let mut response = respond("text/plain; charset=utf-8", why.into());
    *response.status_mut() = status;
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    }
    response
}
