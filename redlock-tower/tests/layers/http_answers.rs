//! What the client of an http service is told.

use std::{convert::Infallible, future::ready, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use redlock_core::{LockError, LockHandle, Redlock, pools};
use redlock_tower::{RedlockLayer, http::LockRejection};
use tower::{Layer, ServiceExt};

use crate::support::{
    Answer, ErrorEvents, answering, held_elsewhere, is_free, redlock, stop_majority, strict,
};

type Body = Full<Bytes>;

const KEY: &str = "secret-of-another-client";

fn request() -> Request<Body> {
    Request::new(Body::default())
}

fn key(_: &Request<Body>) -> Option<&'static str> {
    Some(KEY)
}

fn layer<X>(redlock: &Redlock, extract: X) -> RedlockLayer<X, redlock_tower::http::Http> {
    RedlockLayer::http(redlock.clone(), extract).wait(Duration::ZERO)
}

async fn answer<X>(layer: RedlockLayer<X, redlock_tower::http::Http>) -> Answer
where
    X: redlock_tower::extract::Extract<Request<Body>>,
{
    let service = layer.layer(strict(answering(Response::new(Body::from("done")))));
    Answer::read(service.oneshot(request()).await.unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn served_the_answer_is_the_services_own_and_the_lock_is_in_the_extensions() {
    let redlock = redlock();
    let service =
        RedlockLayer::http(redlock.clone(), key).layer(strict(|request: Request<Body>| {
            let lock = request.extensions().get::<LockHandle>().unwrap();
            let response = Response::builder()
                .status(StatusCode::CREATED)
                .header("x-resource", lock.resource())
                .body(Body::from("done"));
            ready(Ok::<_, Infallible>(response.unwrap()))
        }));
    let answer = Answer::read(service.oneshot(request()).await.unwrap()).await;
    assert_eq!(answer.status, StatusCode::CREATED);
    assert_eq!(answer.header("x-resource"), Some(KEY));
    assert_eq!(answer.text, "done");
    assert!(is_free(&redlock));
}

#[tokio::test(start_paused = true)]
async fn held_elsewhere_is_423_with_retry_after() {
    let redlock = redlock();
    let _held = held_elsewhere(&redlock, KEY).await;
    let answer = answer(layer(&redlock, key)).await;
    assert_eq!(answer.status, StatusCode::LOCKED);
    // The retry delay, a fraction of a second, rounded up.
    assert_eq!(answer.header("retry-after"), Some("1"));
    let problem = answer.problem();
    assert_eq!((&problem["title"], &problem["code"]), (&"Locked".into(), &"held".into()));
    assert_eq!(problem["type"], "about:blank");
    assert!(!answer.text.contains(KEY), "{}", answer.text);
}

#[tokio::test(start_paused = true)]
async fn no_quorum_is_503_with_retry_after_and_names_no_node() {
    let redlock = redlock();
    stop_majority(&redlock);
    let error = redlock.try_lock(KEY).await.unwrap_err();
    let LockError::NoQuorum { nodes, .. } = error else { panic!("{error}") };

    let answer = answer(layer(&redlock, key)).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.problem()["code"], "no_quorum");
    assert!(nodes.iter().all(|failed| !answer.text.contains(&*failed.node)), "{}", answer.text);
    assert!(!answer.text.contains(KEY), "{}", answer.text);
}

#[tokio::test(start_paused = true)]
async fn shutting_down_is_503_with_retry_after() {
    let redlock = redlock();
    redlock.shutdown(Duration::ZERO).await;
    let answer = answer(layer(&redlock, key)).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.problem()["code"], "shutting_down");
}

#[tokio::test(start_paused = true)]
async fn an_unusable_key_is_400_and_no_event() {
    let events = ErrorEvents::watch();
    for key in [String::new(), "x".repeat(1025)] {
        let extract = move |_: &Request<Body>| Some(key.clone());
        let answer = answer(layer(&redlock(), extract)).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        assert_eq!(answer.header("retry-after"), None);
        assert_eq!(answer.problem()["code"], "invalid_key");
        assert!(!answer.text.contains("xxx"), "{}", answer.text);
    }
    assert_eq!(events.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_mistake_in_the_program_is_500_and_an_error_event() {
    let events = ErrorEvents::watch();
    let answer = answer(layer(&redlock(), key).ttl(Duration::from_millis(1))).await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(answer.header("retry-after"), None);
    assert_eq!(answer.problem()["code"], "internal");
    assert!(!answer.text.contains("ttl"), "{}", answer.text);
    assert_eq!(events.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn on_reject_answers_for_every_refusal_with_a_body_of_its_own() {
    let answered = |error: LockError| {
        let code = match error {
            LockError::Held { .. } => "held",
            LockError::InvalidResource { .. } => "invalid",
            LockError::Config { .. } => "config",
            LockError::ShuttingDown { .. } => "shutting down",
            other => panic!("{other}"),
        };
        Response::builder().status(StatusCode::IM_A_TEAPOT).body(code.to_owned()).unwrap()
    };
    let empty = |_: &Request<Body>| Some("");
    let redlock = redlock();
    let held = held_elsewhere(&redlock, KEY).await;

    let events = ErrorEvents::watch();
    let ttl = Duration::from_millis(1);
    let refused = [
        (answer(layer(&redlock, key).on_reject(answered)).await, "held"),
        (answer(layer(&redlock, empty).on_reject(answered)).await, "invalid"),
        (answer(layer(&redlock, key).ttl(ttl).on_reject(answered)).await, "config"),
        (
            {
                drop(held);
                redlock.shutdown(Duration::ZERO).await;
                answer(layer(&redlock, key).on_reject(answered)).await
            },
            "shutting down",
        ),
    ];
    for (answer, text) in refused {
        assert_eq!(answer.status, StatusCode::IM_A_TEAPOT);
        assert_eq!(answer.text, text);
    }
    // The mistake is reported although `on_reject` answers the client.
    assert_eq!(events.count(), 1);
}

/// The layer has reported it when `on_reject` falls back to the response of this crate.
#[tokio::test(start_paused = true)]
async fn a_mistake_is_one_event_also_where_on_reject_gives_the_usual_response() {
    let usual = |error: LockError| Response::<Full<Bytes>>::from(LockRejection::from(error));
    let events = ErrorEvents::watch();
    let mistaken = layer(&redlock(), key).ttl(Duration::from_millis(1));
    assert_eq!(answer(mistaken.on_reject(usual)).await.problem()["code"], "internal");
    assert_eq!(events.count(), 1);
    // The next one is reported again.
    usual(pools::quorum_of(["nowhere"]).unwrap_err());
    assert_eq!(events.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_rejection_by_hand_is_the_one_of_the_layer() {
    let redlock = redlock();
    let _held = held_elsewhere(&redlock, KEY).await;
    let by_layer = answer(layer(&redlock, key)).await;

    let rejection = LockRejection::from(redlock.try_lock(KEY).await.unwrap_err());
    assert_eq!(rejection.status(), StatusCode::LOCKED);
    assert!(rejection.error().is_held());
    let by_hand = Answer::read(Response::<Full<Bytes>>::from(rejection)).await;
    assert_eq!(by_hand.status, by_layer.status);
    assert_eq!(by_hand.headers, by_layer.headers);
    assert_eq!(by_hand.text, by_layer.text);
}

#[tokio::test(start_paused = true)]
async fn a_rejection_over_a_pool_that_is_missing_is_500_and_an_error_event() {
    let events = ErrorEvents::watch();
    let error = pools::quorum_of(["nowhere"]).unwrap_err();
    assert!(matches!(error, LockError::UnknownPool { .. }), "{error}");
    let answer = Answer::read(Response::<Full<Bytes>>::from(LockRejection::from(error))).await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(!answer.text.contains("nowhere"), "{}", answer.text);
    assert_eq!(events.count(), 1);
}
