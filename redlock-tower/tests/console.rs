//! The page that shows the locks of a process: what it says, and what it refuses.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "these are tests, if not all of them are #[test]"
)]

use std::{future::IntoFuture, time::Duration};

use axum::{Router, body::Body, http::Request, http::Response};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use redlock_core::{MemoryNode, Redlock, Restarts};
use redlock_tower::console::{self, MAX_PAGES, MAX_ROWS};
use tokio::time::{Instant, sleep};
use tower::ServiceExt;

const SECOND: Duration = Duration::from_secs(1);

async fn ask(console: &Router, method: Method, uri: &str) -> Response<Body> {
    let request = Request::builder().method(method).uri(uri).body(Body::empty()).unwrap();
    console.clone().oneshot(request).await.unwrap()
}

async fn get(console: &Router, uri: &str) -> Response<Body> {
    ask(console, Method::GET, uri).await
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().into()).unwrap()
}

async fn page(console: &Router) -> String {
    let response = get(console, "/").await;
    assert_eq!(response.status(), StatusCode::OK);
    text(response).await
}

/// The text of a page without its markup, in one line.
fn words(html: &str) -> String {
    let parts = html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    parts.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// The next event of an answer. None when it has ended.
async fn event(events: &mut Response<Body>) -> Option<String> {
    let frame = events.body_mut().frame().await?.unwrap();
    let event = String::from_utf8(frame.into_data().unwrap().into()).unwrap();
    assert!(event.ends_with("\n\n") && event.matches("\n\n").count() == 1, "{event}");
    Some(event)
}

#[tokio::test(start_paused = true)]
async fn the_page_shows_locks_requests_and_nodes() {
    let nodes: [_; 3] = std::array::from_fn(|_| MemoryNode::new());
    let redlock = Redlock::builder()
        .nodes(&nodes)
        .client_name("checkout-1")
        .restarts(Restarts::Observed)
        .build()
        .unwrap();
    let console = console::router(redlock.clone());
    let empty = words(&page(&console).await);
    for told in ["Locks of checkout-1", "All 3 nodes give votes.", "Held locks (0) None."] {
        assert!(empty.contains(told), "{empty}");
    }

    let plain = redlock.lock("invoice:42").await.unwrap();
    let fenced = redlock.lock("stock:lamp").fenced().await.unwrap();
    let set = redlock.lock_all(["account:1", "account:2"]).await.unwrap();
    let waits = tokio::spawn(redlock.lock("invoice:42").wait(1000 * SECOND).into_future());
    sleep(5 * SECOND).await;
    let full = words(&page(&console).await);
    let token = fenced.fencing_token().unwrap();
    for told in [
        "Held locks (3)",
        "account:1 , account:2 5 s 24 s 3 none",
        "invoice:42 5 s 24 s 3 none",
        &format!("stock:lamp 5 s 24 s 3 {token}"),
        "Waiting for locks (1)",
        "invoice:42 1 5 s",
    ] {
        assert!(full.contains(told), "{told}: {full}");
    }

    nodes[0].stop();
    sleep(SECOND).await;
    let one_down = words(&page(&console).await);
    assert!(one_down.contains("2 of 3 nodes give votes: locks are given as usual."), "{one_down}");
    assert!(one_down.contains("down : connection refused"), "{one_down}");
    nodes[0].start();
    nodes[1].stop();
    sleep(10 * SECOND).await;
    let no_quorum = words(&page(&console).await);
    let verdict = "Only 1 of 3 nodes give votes, and a lock takes 2. No new lock is given.";
    assert!(no_quorum.contains(verdict), "{no_quorum}");
    assert!(no_quorum.contains("no , for "), "one sits out: {no_quorum}");
    waits.abort();
    drop((plain, set));
}

/// Whatever a resource is called, it adds no element and no attribute, and no line to an event.
#[tokio::test(start_paused = true)]
async fn names_are_text() {
    let redlock = Redlock::builder()
        .nodes([MemoryNode::new()])
        .client_name("<b title='\"'>&amp;</b>")
        .build()
        .unwrap();
    let console = console::router(redlock.clone());
    let kinds = |html: &str| ["<", ">", "\"", "'", "&"].map(|it| html.matches(it).count());
    let guard = redlock.lock("plain").await.unwrap();
    let plain = page(&console).await;
    drop(guard);
    for name in [
        "<script>alert(1)</script>",
        "\" autofocus onfocus=\"alert(1)",
        "</td></tr></table></main>",
        "a\r\n\r\ndata: <p>b",
        "\u{202e}txt.exe\u{2066}",
        "&lt;&#60;&amp;",
        "\0\u{7f}\u{85}\u{2028}",
    ] {
        let _guard = redlock.lock(name).await.unwrap();
        let hostile = page(&console).await;
        assert_eq!(kinds(&hostile)[..4], kinds(&plain)[..4], "{name:?}: {hostile}");
        assert_eq!(hostile.lines().count(), plain.lines().count(), "{name:?}");
        assert!(!hostile.chars().any(|it| it.is_control() && it != '\n'), "{name:?}");
        let mut events = get(&console, "/?events").await;
        let event = event(&mut events).await.unwrap();
        assert!(event.trim_end().lines().skip(1).all(|it| it.starts_with("data: <")), "{event}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_read_only_and_forbids_everything_from_elsewhere() {
    let console = console::router(Redlock::in_memory(3));
    for (uri, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/?script", "text/javascript; charset=utf-8"),
        ("/?style", "text/css; charset=utf-8"),
        ("/?events", "text/event-stream"),
        ("/?other", "text/plain; charset=utf-8"),
    ] {
        let response = get(&console, uri).await;
        let known = uri != "/?other";
        assert_eq!(response.status().is_success(), known, "{uri}");
        let header = |name| response.headers()[name].to_str().unwrap();
        assert_eq!(header("content-type"), kind);
        assert_eq!(header("cache-control"), "no-store");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert!(
            header("content-security-policy").starts_with("default-src 'none'; script-src 'self'")
        );
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
            let refused = ask(&console, method, uri).await;
            assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED, "{uri}");
        }
    }
    // Nothing is loaded from another host, in any part.
    for uri in ["/", "/?script", "/?style"] {
        let text = text(get(&console, uri).await).await;
        assert!(!text.contains("://") && !text.contains("@import"), "{uri}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_follow_the_locks_and_end_after_ten_seconds() {
    let redlock = Redlock::in_memory(3);
    let app = Router::new().nest("/locks", console::router(redlock.clone()));
    let mut events = get(&app, "/locks?events").await;
    let begun = Instant::now();
    let first = event(&mut events).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO, "the first comes at once");
    assert!(!first.contains("invoice:42"), "{first}");
    let guard = redlock.lock("invoice:42").await.unwrap();
    let second = event(&mut events).await.unwrap();
    assert!(second.contains("invoice:42"), "{second}");
    guard.release().await.unwrap();
    assert!(!event(&mut events).await.unwrap().contains("invoice:42"));
    while event(&mut events).await.is_some() {}
    assert!((10 * SECOND..=12 * SECOND).contains(&begun.elapsed()), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn places_and_rows_are_bounded() {
    let redlock = Redlock::in_memory(1);
    let console = console::router(redlock.clone());
    let mut open = Vec::new();
    for _ in 0..MAX_PAGES {
        let mut events = get(&console, "/?events").await;
        event(&mut events).await.unwrap();
        open.push(events);
    }
    let refused = get(&console, "/?events").await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(
        get(&console, "/").await.status(),
        StatusCode::OK,
        "without news, it is still there"
    );
    open.pop();
    assert_eq!(get(&console, "/?events").await.status(), StatusCode::OK, "one was closed");
    // The others do not read any more, and are never polled again.
    sleep(11 * SECOND).await;
    let mut again = Vec::new();
    for _ in 0..MAX_PAGES {
        again.push(get(&console, "/?events").await);
    }
    assert!(again.iter().all(|it| it.status() == StatusCode::OK), "their time is over");

    let mut guards = Vec::new();
    for number in 0..MAX_ROWS + 7 {
        guards.push(redlock.lock(format!("r{number}")).await.unwrap());
    }
    let page = page(&console).await;
    let (rows, count) = (page.matches("<bdi>r").count(), MAX_ROWS + 7);
    assert_eq!(rows, MAX_ROWS);
    let told = words(&page);
    let told =
        told.contains(&format!("Held locks ({count}) The first {rows} of {count} are shown."));
    assert!(told, "{page}");
}

#[tokio::test(start_paused = true)]
async fn all_requests_are_counted_where_only_some_are_shown() {
    let redlock = Redlock::builder().nodes([MemoryNode::new()]).build().unwrap();
    let console = console::router(redlock.clone());
    let mut guards = Vec::new();
    for number in 0..=MAX_ROWS {
        guards.push(redlock.lock(format!("r{number}")).await.unwrap());
        tokio::spawn(redlock.lock(format!("r{number}")).wait(1000 * SECOND).into_future());
    }
    sleep(SECOND).await;
    let text = words(&page(&console).await);
    let told = format!("Waiting for locks ({})", MAX_ROWS + 1);
    assert!(text.contains(&told), "{text}");
}
