//! A lock that is lost while the service runs: the service is dropped, the client is told.

use std::{future::pending, io, time::Duration};

use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use redlock_core::{LockError, Redlock};
use redlock_tower::{RedlockLayer, extract};
use tower::{Layer, Service, ServiceExt};

use crate::support::{
    Answer, Strict, Witness, eventually, forget_locks, freed, redlock, stop_majority, strict,
};

type Body = Full<bytes::Bytes>;

/// Never answers.
fn stuck<Req, Res>(
    witness: &Witness,
) -> Strict<
    impl Fn(Req) -> futures_util::future::BoxFuture<'static, io::Result<Res>> + Clone + use<Req, Res>,
>
where
    Req: Send + 'static,
    Res: Send + 'static,
{
    let witness = witness.clone();
    strict(move |_: Req| {
        let running = witness.start();
        Box::pin(async move {
            let _running = running;
            pending().await
        }) as _
    })
}

/// Calls a service that is stuck, and gives what it answers once the lock has been taken away.
async fn call_and_lose<S, Req>(
    redlock: &Redlock,
    witness: &Witness,
    service: S,
    request: Req,
    lose: fn(&Redlock),
) -> Result<S::Response, S::Error>
where
    S: Service<Req> + Send + 'static,
    S::Future: Send,
    S::Response: Send,
    S::Error: Send,
    Req: Send + 'static,
{
    let call = tokio::spawn(service.oneshot(request));
    eventually("the service runs", || witness.started() == 1).await;
    lose(redlock);
    let day = Duration::from_secs(24 * 3600);
    let answer = tokio::time::timeout(day, call).await.expect("it goes on").unwrap();
    assert_eq!(witness.dropped(), 1);
    answer
}

#[tokio::test(start_paused = true)]
async fn any_service_fails_with_lost() {
    for lose in [forget_locks, stop_majority] {
        let redlock = redlock();
        let witness = Witness::of(&redlock);
        let service = RedlockLayer::new(redlock.clone(), |key: &&'static str| Some(*key))
            .layer(stuck::<&str, ()>(&witness));
        let error = call_and_lose(&redlock, &witness, service, "job", lose).await.unwrap_err();
        assert!(error.downcast_ref::<LockError>().unwrap().is_lost(), "{error}");
        assert_eq!(witness.dropped_in(), [Some("job".to_owned())]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_http_service_answers_503_and_promises_nothing() {
    let redlock = redlock();
    let witness = Witness::of(&redlock);
    let service = RedlockLayer::http(redlock.clone(), extract::uri_path())
        .layer(stuck::<Request<Body>, Response<Body>>(&witness));
    let request = Request::new(Body::default());
    let response = call_and_lose(&redlock, &witness, service, request, forget_locks).await.unwrap();

    let answer = Answer::read(response).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.header("retry-after"), None);
    assert_eq!(answer.problem()["code"], "lost");
}

#[tokio::test(start_paused = true)]
async fn a_grpc_service_answers_aborted() {
    let redlock = redlock();
    let witness = Witness::of(&redlock);
    let service = RedlockLayer::grpc(redlock.clone(), extract::grpc_method())
        .layer(stuck::<Request<Body>, Response<Body>>(&witness));
    let request = Request::builder().uri("/orders.Orders/Place").body(Body::default()).unwrap();
    let response = call_and_lose(&redlock, &witness, service, request, forget_locks).await.unwrap();

    let status = tonic::Status::from_header_map(response.headers()).unwrap();
    assert_eq!(status.code(), tonic::Code::Aborted);
    assert!(status.message().contains("lost"), "{status}");
}

#[tokio::test(start_paused = true)]
async fn on_reject_is_asked_once_the_service_is_gone() {
    let redlock = redlock();
    let witness = Witness::of(&redlock);
    let seen = witness.clone();
    let service = RedlockLayer::http(redlock.clone(), extract::uri_path())
        .on_reject(move |error| {
            assert!(error.is_lost(), "{error}");
            Response::new(seen.dropped().to_string())
        })
        .layer(stuck::<Request<Body>, Response<Body>>(&witness));
    let request = Request::new(Body::default());
    let response = call_and_lose(&redlock, &witness, service, request, forget_locks).await.unwrap();
    assert_eq!(Answer::read(response).await.text, "1");
}

#[tokio::test(start_paused = true)]
async fn on_reject_is_asked_once_the_stream_is_gone() {
    let redlock = redlock();
    let witness = Witness::of(&redlock);
    let (seen, started) = (witness.clone(), witness.clone());
    let service = RedlockLayer::grpc(redlock.clone(), extract::grpc_method())
        .hold_until_body_end()
        .on_reject(move |_| tonic::Status::data_loss(seen.dropped().to_string()))
        .layer(strict(move |_: Request<Body>| {
            let running = started.start();
            let frames = futures_util::stream::once(async move {
                let _running = running;
                pending::<io::Result<http_body::Frame<bytes::Bytes>>>().await
            });
            std::future::ready(Ok::<_, io::Error>(Response::new(StreamBody::new(Box::pin(frames)))))
        }));
    let request = Request::builder().uri("/orders.Orders/Place").body(Body::default()).unwrap();
    let mut body = service.oneshot(request).await.unwrap().into_body();
    assert!(body.frame().now_or_never().is_none());
    forget_locks(&redlock);
    let trailers = body.frame().await.unwrap().unwrap().into_trailers().unwrap();
    assert_eq!(tonic::Status::from_header_map(&trailers).unwrap().message(), "1");
}

/// As at the end of a grace period: the nodes are well, the body is dropped, then released.
#[tokio::test(start_paused = true)]
async fn release_all_drops_the_service_while_the_lock_still_stands() {
    let redlock = redlock();
    let witness = Witness::of(&redlock);
    let service = RedlockLayer::http(redlock.clone(), extract::uri_path())
        .layer(stuck::<Request<Body>, Response<Body>>(&witness));
    let call = tokio::spawn(service.oneshot(Request::new(Body::default())));
    eventually("the service runs", || witness.started() == 1).await;

    redlock.release_all().await;
    freed(&redlock).await;
    assert_eq!((witness.dropped(), witness.counts().after_the_key), (1, 0));
    assert_eq!(call.await.unwrap().unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(start_paused = true)]
async fn shutdown_lets_the_service_answer_within_the_grace_period() {
    let redlock = redlock();
    let witness = Witness::of(&redlock);
    let started = witness.clone();
    let service = RedlockLayer::new(redlock.clone(), |key: &&'static str| Some(*key)).layer(
        strict(move |_: &str| {
            let running = started.start();
            async move {
                tokio::time::sleep(Duration::from_secs(2)).await;
                drop(running);
                Ok::<_, io::Error>("done")
            }
        }),
    );
    let call = tokio::spawn(service.oneshot("job"));
    eventually("the service runs", || witness.started() == 1).await;

    redlock.shutdown(Duration::from_secs(10)).await;
    assert_eq!(call.await.unwrap().unwrap(), "done");
    freed(&redlock).await;
}
