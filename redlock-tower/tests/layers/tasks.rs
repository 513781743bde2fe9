//! Layers with another task between them. A `tower::buffer` calls the service behind it in a task of its own,
//! and the future of the service is polled by the caller.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use redlock_core::LockHandle;
use redlock_tower::{BoxError, RedlockLayer, extract};
use tower::{Layer, Service, ServiceExt, buffer::Buffer};

use crate::support::redlock;

type Body = Full<Bytes>;

/// Answers with the lock that a handler of axum finds.
async fn found(request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let (mut parts, _) = request.into_parts();
    let lock =
        <LockHandle as OptionalFromRequestParts<()>>::from_request_parts(&mut parts, &()).await;
    let lock = lock.unwrap().map_or("none".to_owned(), |lock| lock.resource().to_owned());
    let needed = <LockHandle as FromRequestParts<()>>::from_request_parts(&mut parts, &()).await;
    assert_eq!(needed.is_ok(), lock != "none");
    Ok(Response::new(lock.into()))
}

async fn answer<S, B>(service: S) -> Bytes
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>>,
    B: http_body::Body<Data = Bytes, Error: std::fmt::Debug>,
{
    let response = service.oneshot(Request::new(Body::default())).await;
    let response = response.map_err(Into::into).unwrap();
    response.into_body().collect().await.unwrap().to_bytes()
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_locks_nothing_hides_the_lock_around_it_behind_a_buffer_too() {
    let redlock = redlock();
    let outer = RedlockLayer::http(redlock.clone(), |_: &Request<Body>| Some("outer"));
    let posts = RedlockLayer::http(redlock.clone(), extract::uri_path()).methods([Method::POST]);
    let keyless = RedlockLayer::http(redlock.clone(), |_: &Request<Body>| None::<String>);
    let service = tower::service_fn(found);
    assert_eq!(answer(outer.layer(service)).await, "outer");
    assert_eq!(answer(outer.layer(posts.layer(service))).await, "none");
    assert_eq!(answer(outer.layer(Buffer::new(posts.layer(service), 1))).await, "none");
    assert_eq!(answer(outer.layer(Buffer::new(keyless.layer(service), 1))).await, "none");
}

/// It would end the task of the buffer, and with it the service for all requests.
#[tokio::test(start_paused = true)]
async fn an_extractor_that_panics_ends_its_own_request_alone() {
    let key = |request: &Request<Body>| Some(request.headers()["id"].to_str().unwrap().to_owned());
    let layer = RedlockLayer::http(redlock(), key);
    let service = Buffer::new(layer.layer(tower::service_fn(found)), 1);
    let other = service.clone();
    let panicked = tokio::spawn(async { drop(answer(other).await) }).await;
    assert!(panicked.unwrap_err().is_panic());
    let request = Request::builder().header("id", "7").body(Body::default()).unwrap();
    let response = service.oneshot(request).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "7");
}

#[tokio::test(start_paused = true)]
async fn a_layer_behind_a_buffer_joins_the_lock_around_it() {
    let redlock = redlock();
    let layer = RedlockLayer::http(redlock.clone(), extract::uri_path());
    let service = Buffer::new(layer.layer(tower::service_fn(found)), 1);
    assert_eq!(answer(layer.layer(service)).await, "/");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_a_spawned_task_takes_is_not_hidden_by_a_layer_outside_of_the_task() {
    let redlock = redlock();
    let outer = RedlockLayer::http(redlock.clone(), |_: &Request<Body>| Some("outer"));
    let keyless = RedlockLayer::http(redlock.clone(), |_: &Request<Body>| None::<String>);
    let inner = RedlockLayer::new(redlock, |_: &Request<Body>| Some("inner"));
    let spawning = |is_locked: bool| {
        let inner = inner.clone();
        tower::service_fn(move |request| {
            let inner = inner.clone();
            let handled = async move {
                let service = tower::service_fn(found);
                if is_locked {
                    inner.layer(service).oneshot(request).await
                } else {
                    found(request).await.map_err(BoxError::from)
                }
            };
            async { tokio::spawn(handled).await.unwrap() }
        })
    };
    assert_eq!(answer(outer.layer(keyless.layer(spawning(true)))).await, "inner");
    assert_eq!(answer(outer.layer(keyless.layer(spawning(false)))).await, "none");
    assert_eq!(answer(outer.layer(spawning(false))).await, "outer");
}
