//! Handlers behind `.fenced()` find a token, and it grows from request to request.

use std::{convert::Infallible, future::ready};

use axum::{Router, routing::get};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use redlock_core::{FencingToken, LockHandle};
use redlock_tower::{RedlockLayer, extract};
use tower::{Layer, ServiceExt};

use crate::support::{redlock, strict};

/// Of the extension, and of the task: the same.
fn token_of(extensions: &http::Extensions) -> Option<FencingToken> {
    let lock = extensions.get::<LockHandle>()?;
    assert_eq!(LockHandle::current()?.fencing_token(), lock.fencing_token());
    lock.fencing_token()
}

#[tokio::test(start_paused = true)]
async fn an_axum_handler_finds_a_token_that_grows() {
    async fn token(lock: LockHandle) -> String {
        lock.fencing_token().map_or_else(|| "none".to_owned(), |token| token.to_string())
    }
    let redlock = redlock();
    let by_id = || extract::path_param("id").prefix("order:");
    let fenced = RedlockLayer::http(redlock.clone(), by_id()).fenced();
    let plain = RedlockLayer::http(redlock, by_id());
    let app = Router::new()
        .route("/fenced/{id}", get(token).layer(fenced))
        .route("/plain/{id}", get(token).layer(plain));
    let ask = async |uri: &str| {
        let request = Request::get(uri).body(axum::body::Body::empty()).unwrap();
        let body = app.clone().oneshot(request).await.unwrap().into_body();
        String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    };
    assert_eq!(ask("/plain/42").await, "none");
    let mut last = 0;
    for _ in 0..3 {
        let token: u64 = ask("/fenced/42").await.parse().unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}

#[tokio::test(start_paused = true)]
async fn a_grpc_handler_and_any_other_find_a_token_too() {
    let redlock = redlock();
    let key = |_: &Request<Full<Bytes>>| Some("a");
    let serve = |request: Request<Full<Bytes>>| {
        let token = token_of(request.extensions());
        ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(format!("{token:?}")))))
    };
    let grpc = RedlockLayer::grpc(redlock.clone(), key).fenced().layer(strict(serve));
    let response = grpc.oneshot(Request::new(Full::default())).await.unwrap();
    let told = response.into_body().collect().await.unwrap().to_bytes();
    assert!(told.starts_with(b"Some(FencingToken("), "{told:?}");

    let plain = RedlockLayer::new(redlock, |_: &()| Some("a")).fenced();
    let plain = plain.layer(strict(|()| {
        ready(Ok::<_, Infallible>(LockHandle::current().and_then(|lock| lock.fencing_token())))
    }));
    assert!(plain.oneshot(()).await.unwrap().is_some());
}
