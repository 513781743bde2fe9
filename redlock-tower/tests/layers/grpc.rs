//! What the client of a gRPC service is told, without a server around it.

use std::{convert::Infallible, future::ready, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use redlock_core::{LockError, LockHandle, Redlock, pools};
use redlock_tower::{
    RedlockLayer,
    extract::{self, Extract},
    grpc::{self, Grpc},
};
use tonic::{Code, Status};
use tower::{Layer, ServiceExt};

use crate::support::{ErrorEvents, held_elsewhere, redlock, stop_majority, strict};

type Body = Full<Bytes>;

const KEY: &str = "secret-of-another-client";

fn key(_: &Request<Body>) -> Option<&'static str> {
    Some(KEY)
}

fn layer<X>(redlock: &Redlock, extract: X) -> RedlockLayer<X, Grpc> {
    RedlockLayer::grpc(redlock.clone(), extract).wait(Duration::ZERO)
}

/// The status with the code that tells it from others of its kind.
fn codes(status: &Status) -> (Code, &str) {
    (status.code(), status.metadata().get("redlock-code").unwrap().to_str().unwrap())
}

/// Told from a lock that is held, also by the client's policy for retries.
pub(crate) fn assert_lost(status: &Status) {
    assert_eq!(codes(status), (Code::Aborted, "lost"));
    assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "-1");
}

/// The status of the refusal; a response of trailers only, as the protocol wants it.
async fn refused(layer: RedlockLayer<impl Extract<Request<Body>>, Grpc>) -> Status {
    let service = layer.layer(strict(|_: Request<Body>| {
        ready(Ok::<Response<Body>, Infallible>(Response::new("served".into())))
    }));
    let response = service.oneshot(Request::new(Body::default())).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/grpc");
    let status = Status::from_header_map(response.headers()).expect("it was served");
    assert!(!status.message().contains(KEY), "{status}");
    assert!(status.metadata().get("grpc-retry-pushback-ms").is_none(), "{status:?}");
    let body = response.into_body().collect().await.unwrap();
    assert!(body.trailers().is_none() && body.to_bytes().is_empty());
    status
}

#[tokio::test(start_paused = true)]
async fn served_the_lock_is_in_the_extensions() {
    let service = layer(&redlock(), key).layer(strict(|request: Request<Body>| {
        let resource = request.extensions().get::<LockHandle>().unwrap().resource().to_owned();
        ready(Ok::<Response<Body>, Infallible>(Response::new(resource.into())))
    }));
    let response = service.oneshot(Request::new(Body::default())).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), KEY);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_lock_does_not_find_the_one_around_its_layer() {
    let redlock = redlock();
    let service = strict(|request: Request<Body>| {
        let found = request.extensions().get::<LockHandle>().is_some();
        let held = LockHandle::current().is_some();
        let text = format!("found: {found}, held: {held}");
        ready(Ok::<Response<Body>, Infallible>(Response::new(text.into())))
    });
    let inner = layer(&redlock, |_: &Request<Body>| None::<String>).layer(service);
    let service = layer(&redlock, key).layer(inner);
    let response = service.oneshot(Request::new(Body::default())).await.unwrap();
    let text = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(text, "found: false, held: true");
}

#[tokio::test(start_paused = true)]
async fn held_elsewhere_is_aborted() {
    let redlock = redlock();
    let _held = held_elsewhere(&redlock, KEY).await;
    assert_eq!(codes(&refused(layer(&redlock, key)).await), (Code::Aborted, "held"));
}

#[tokio::test(start_paused = true)]
async fn no_quorum_and_shutting_down_are_unavailable() {
    let redlock = redlock();
    stop_majority(&redlock);
    let status = refused(layer(&redlock, key)).await;
    assert_eq!(codes(&status), (Code::Unavailable, "no_quorum"));
    let error = redlock.try_lock(KEY).await.unwrap_err();
    let LockError::NoQuorum { nodes, .. } = error else { panic!("{error}") };
    assert!(nodes.iter().all(|failed| !status.message().contains(&*failed.node)), "{status}");

    redlock.shutdown(Duration::ZERO).await;
    let status = refused(layer(&redlock, key)).await;
    assert_eq!(codes(&status), (Code::Unavailable, "shutting_down"));
    assert!(status.message().contains("shutting down"), "{status}");
}

#[tokio::test(start_paused = true)]
async fn an_unusable_key_is_an_invalid_argument() {
    let events = ErrorEvents::watch();
    let required = extract::metadata("order-id").required();
    let status = refused(layer(&redlock(), required)).await;
    assert_eq!(codes(&status), (Code::InvalidArgument, "invalid_key"));
    assert!(status.message().contains("order-id"), "{status}");
    assert_eq!(events.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_mistake_in_the_program_is_internal_and_an_error_event() {
    let events = ErrorEvents::watch();
    let status = refused(layer(&redlock(), key).ttl(Duration::from_millis(1))).await;
    assert_eq!(codes(&status), (Code::Internal, "internal"));
    assert!(!status.message().contains("ttl"), "{status}");
    assert_eq!(events.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn on_reject_gives_another_status() {
    let redlock = redlock();
    let _held = held_elsewhere(&redlock, KEY).await;
    let layer = layer(&redlock, key).on_reject(|error: LockError| {
        assert!(error.is_held());
        let mut status = Status::resource_exhausted("come back tomorrow");
        status.metadata_mut().insert("x-day", "tomorrow".parse().unwrap());
        status
    });
    let status = refused(layer).await;
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "come back tomorrow");
    assert_eq!(status.metadata().get("x-day").unwrap(), "tomorrow");
}

/// The layer has reported it when `on_reject` falls back to the status of this crate.
#[tokio::test(start_paused = true)]
async fn a_mistake_is_one_event_also_where_on_reject_gives_the_usual_status() {
    let events = ErrorEvents::watch();
    let mistaken = layer(&redlock(), key).ttl(Duration::from_millis(1));
    let status = refused(mistaken.on_reject(grpc::status)).await;
    assert_eq!(codes(&status), (Code::Internal, "internal"));
    assert_eq!(events.count(), 1);
    // The next one is reported again.
    let missing = pools::quorum_of(["nowhere"]).map_err(grpc::status).unwrap_err();
    assert_eq!((missing.code(), events.count()), (Code::Internal, 2));
}

#[tokio::test(start_paused = true)]
async fn a_status_by_hand_is_the_one_of_the_layer() {
    let redlock = redlock();
    let _held = held_elsewhere(&redlock, KEY).await;
    let by_layer = refused(layer(&redlock, key)).await;
    let by_hand = redlock.try_lock(KEY).await.map_err(grpc::status).unwrap_err();
    assert_eq!((codes(&by_hand), by_hand.message()), (codes(&by_layer), by_layer.message()));

    let events = ErrorEvents::watch();
    let missing = pools::quorum_of(["nowhere"]).map_err(grpc::status).unwrap_err();
    assert_eq!(missing.code(), Code::Internal);
    assert_eq!(events.count(), 1);
}
