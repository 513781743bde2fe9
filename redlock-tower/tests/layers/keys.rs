//! Where keys come from, and which requests have none.

use std::{convert::Infallible, future::ready};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use redlock_core::LockHandle;
use redlock_tower::{
    RedlockLayer,
    extract::{self, Extract},
};
use tower::{Layer, ServiceExt};

use crate::support::{Answer, ErrorEvents, redlock, strict};

type Body = Full<Bytes>;

/// The locked resource, `None` for no lock, or how the request was refused.
async fn key_of(
    extract: impl Extract<Request<Body>>,
    request: Request<Body>,
) -> Result<Option<String>, Answer> {
    let echo = strict(|request: Request<Body>| {
        let lock = request.extensions().get::<LockHandle>();
        let mut response = Response::new(Body::default());
        if let Some(lock) = lock {
            let resource = HeaderValue::from_bytes(lock.resource().as_bytes()).unwrap();
            response.headers_mut().insert("x-resource", resource);
        }
        ready(Ok::<_, Infallible>(response))
    });
    let service = RedlockLayer::http(redlock(), extract).layer(echo);
    let response = service.oneshot(request).await.unwrap();
    if response.status() != StatusCode::OK {
        return Err(Answer::read(response).await);
    }
    let resource = response.headers().get("x-resource");
    Ok(resource.map(|value| String::from_utf8(value.as_bytes().to_vec()).unwrap()))
}

fn to(uri: &str) -> Request<Body> {
    Request::builder().uri(uri).body(Body::default()).unwrap()
}

/// A request with these values of `Idempotency-Key`.
fn with<const N: usize>(values: [&[u8]; N]) -> Request<Body> {
    let mut request = to("/");
    for value in values {
        let value = HeaderValue::from_bytes(value).unwrap();
        request.headers_mut().append("Idempotency-Key", value);
    }
    request
}

fn refusal(result: Result<Option<String>, Answer>) -> (StatusCode, String) {
    let answer = result.expect_err("it was not refused");
    (answer.status, answer.problem()["detail"].as_str().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_header_is_a_key_behind_its_prefix() {
    let header = extract::header("idempotency-key").prefix("idem:");
    assert_eq!(key_of(header, with([b"42"])).await.unwrap().as_deref(), Some("idem:42"));
    let bare = extract::header(String::from("IDEMPOTENCY-KEY"));
    assert_eq!(key_of(bare, with([b"42"])).await.unwrap().as_deref(), Some("42"));
}

#[tokio::test(start_paused = true)]
async fn a_header_that_is_absent_passes_unless_it_is_required() {
    let header = extract::header("idempotency-key").prefix("idem:");
    assert_eq!(key_of(header.clone(), with([])).await.unwrap(), None);
    let (status, detail) = refusal(key_of(header.required(), with([])).await);
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(detail.contains(r#"header "idempotency-key" is missing"#), "{detail}");
}

#[tokio::test(start_paused = true)]
async fn a_header_that_cannot_be_one_key_is_refused() {
    for (request, why) in [
        (with([b"42", b"42"]), "more than once"),
        (with([b""]), "empty"),
        (with([b"caf\xe9"]), "not ASCII"),
        (with(["锁".as_bytes()]), "not ASCII"),
        (with([b"4\t2"]), "control characters"),
        (with([&[b'x'; 1020]]), "1024"),
    ] {
        let header = extract::header("idempotency-key").prefix("idem:");
        let (status, detail) = refusal(key_of(header, request).await);
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(detail.contains(why), "{detail}");
    }
    // The prefix counts: 1019 bytes and the five of `idem:` are just right.
    let header = extract::header("idempotency-key").prefix("idem:");
    let key = key_of(header, with([&[b'x'; 1019]])).await.unwrap().unwrap();
    assert_eq!(key.len(), 1024);
}

#[tokio::test(start_paused = true)]
async fn metadata_is_a_key_too() {
    let metadata = extract::metadata("idempotency-key").prefix("order:");
    assert_eq!(key_of(metadata.clone(), with([b"42"])).await.unwrap().as_deref(), Some("order:42"));
    assert_eq!(key_of(metadata.clone(), with([])).await.unwrap(), None);
    let (_, detail) = refusal(key_of(metadata.clone().required(), with([])).await);
    assert!(detail.contains("metadata"), "{detail}");
    let (_, detail) = refusal(key_of(metadata, with([b"1", b"2"])).await);
    assert!(detail.contains("more than once"), "{detail}");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_cannot_be_one_is_a_mistake_in_the_program() {
    let events = ErrorEvents::watch();
    for (index, header) in [
        extract::header("not a name"),
        extract::header(""),
        extract::metadata("order id"),
        extract::metadata("order-bin"),
    ]
    .into_iter()
    .enumerate()
    {
        let (status, _) = refusal(key_of(header, with([b"42"])).await);
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(events.count(), index + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_path_is_a_key() {
    let key = async |extract, uri: &str| key_of(extract, to(uri)).await.unwrap().unwrap();
    assert_eq!(key(extract::uri_path(), "/orders/42?page=2").await, "/orders/42");
    assert_eq!(key(extract::uri_path().prefix("shop:"), "/").await, "shop:/");
    assert_eq!(key(extract::method_and_path(), "/orders/42").await, "GET /orders/42");
    assert_eq!(
        key(extract::grpc_method(), "/orders.v1.Orders/Place").await,
        "orders.v1.Orders/Place"
    );
    let prefixed = extract::grpc_method().prefix("call:");
    assert_eq!(key(prefixed, "/orders.v1.Orders/Place").await, "call:orders.v1.Orders/Place");

    let mut post = to("/orders/42");
    *post.method_mut() = Method::POST;
    let extract = extract::method_and_path().prefix("shop:");
    assert_eq!(key_of(extract, post).await.unwrap().unwrap(), "shop:POST /orders/42");
}

/// It is for a host. Tunnels to different hosts must not exclude each other.
#[tokio::test(start_paused = true)]
async fn a_request_without_a_path_has_no_key() {
    for target in [extract::uri_path(), extract::method_and_path(), extract::grpc_method()] {
        let mut connect = to("/");
        *connect.method_mut() = Method::CONNECT;
        *connect.uri_mut() = "example.com:443".parse().unwrap();
        let (status, detail) = refusal(key_of(target, connect).await);
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(detail.contains("no path"), "{detail}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_path_is_one_key_however_it_is_written() {
    for uri in ["/orders/42", "/orders/%34%32", "/%6frders/4%32", "/%6Frders/42"] {
        let key = key_of(extract::uri_path(), to(uri)).await.unwrap();
        assert_eq!(key.as_deref(), Some("/orders/42"));
    }
    let (status, _) = refusal(key_of(extract::uri_path(), to("/orders/%ff")).await);
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn a_closure_gives_any_text_or_none() {
    fn function(request: &Request<Body>) -> Option<&'static str> {
        (request.method() == Method::GET).then_some("get")
    }
    assert_eq!(key_of(function, to("/")).await.unwrap().as_deref(), Some("get"));
    let boxed = |_: &Request<Body>| Some(Box::<str>::from("boxed"));
    assert_eq!(key_of(boxed, to("/")).await.unwrap().as_deref(), Some("boxed"));
    let none = |_: &Request<Body>| None::<String>;
    assert_eq!(key_of(none, to("/")).await.unwrap(), None);
}

/// The header check above is of the only control character that may be in one, a tab.
#[tokio::test(start_paused = true)]
async fn control_characters_are_refused_wherever_the_key_comes_from() {
    for uri in ["/orders/4%0a2", "/%00", "/%7f", "/%C2%85"] {
        for target in [extract::uri_path(), extract::method_and_path(), extract::grpc_method()] {
            let (status, detail) = refusal(key_of(target.prefix("p:"), to(uri)).await);
            assert_eq!(status, StatusCode::BAD_REQUEST, "{uri}");
            assert!(detail.contains("control characters"), "{detail}");
        }
    }
    for key in ["\0", "a\nb", "\u{1b}[31mred", "\u{85}"] {
        let (_, detail) = refusal(key_of(move |_: &Request<Body>| Some(key), to("/")).await);
        assert!(detail.contains("control characters") && !detail.contains("red"), "{detail}");
    }
    // Spaces and letters beyond ASCII are none.
    let key = key_of(|_: &Request<Body>| Some("a b 锁\u{a0}"), to("/")).await.unwrap();
    assert_eq!(key.as_deref(), Some("a b 锁\u{a0}"));
}
