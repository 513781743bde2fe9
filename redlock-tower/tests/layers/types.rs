//! What has to compile: the layers go where they belong as they are, and are as `Send`, `Sync`
//! and `Clone` as what they go around.

use std::{convert::Infallible, io, marker::PhantomData, time::Duration};

use axum::{Router, body::Body, extract::Request, response::Response, routing::get};
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use redlock_core::{LockError, LockHandle, LockOptions, Redlock};
use redlock_tower::{
    BoxError, Plain, RedlockLayer, RedlockService,
    body::ResponseBody,
    extract::{self, FromParts, Header, PathParam, Target},
    future::ResponseFuture,
    grpc::Grpc,
    http::{Http, LockRejection},
};
use tower::{Layer, Service, ServiceBuilder, util::BoxCloneSyncService};

use crate::support::{answering, redlock, strict};

/// Neither, whatever it stands beside.
struct NotSendSync(#[allow(dead_code)] PhantomData<*const ()>);

fn send<T: Send>() {}
fn sync<T: Sync>() {}
fn unpin<T: Unpin>() {}
fn clone<T: Clone>() {}
fn debug<T: std::fmt::Debug>() {}

type Closure = fn(&Request) -> Option<String>;

#[test]
fn what_is_shared_is_send_sync_clone_and_debug() {
    macro_rules! all {
        ($($type:ty),* $(,)?) => { $(send::<$type>(); sync::<$type>(); clone::<$type>(); debug::<$type>();)* };
    }
    all!(
        RedlockLayer<Closure>,
        RedlockLayer<Header, Http>,
        RedlockLayer<Target, Grpc>,
        RedlockService<(), Closure, Plain>,
        RedlockService<(), PathParam, Http>,
        RedlockService<(), Header, Grpc>,
        // What an extractor finds need not be anything.
        FromParts<NotSendSync>,
        FromParts<NotSendSync, Redlock>,
        LockRejection,
    );
}

#[test]
fn bodies_are_as_their_inside_is() {
    send::<ResponseBody<Full<Bytes>>>();
    send::<ResponseBody<Body>>();
    unpin::<ResponseBody<Full<Bytes>>>();
    debug::<ResponseBody<NotSendSync>>();
}

/// Layers of tower-http that answer for themselves make an empty body of the same type.
#[tokio::test]
async fn a_body_can_be_made_of_nothing() {
    let body = ResponseBody::<Full<Bytes>>::default();
    assert!(body.is_end_stream());
    assert!(body.collect().await.unwrap().to_bytes().is_empty());
}

#[test]
fn futures_are_as_their_service_is() {
    type Echo = tower::util::BoxCloneSyncService<Request, Response, Infallible>;
    send::<ResponseFuture<Echo, Closure, Http, Request>>();
    send::<ResponseFuture<Echo, PathParam, Http, Request>>();
    send::<ResponseFuture<Echo, FromParts<axum::extract::MatchedPath>, Grpc, Request>>();
    debug::<ResponseFuture<Echo, Closure, Http, Request>>();
}

/// A layer must not ask more of services than it needs: this one is neither `Send` nor `Sync`.
#[tokio::test(start_paused = true)]
async fn a_service_of_one_thread_can_have_a_lock() {
    let counter = std::rc::Rc::new(std::cell::Cell::new(0));
    let mut service =
        RedlockLayer::new(redlock(), |key: &&'static str| Some(*key)).layer(strict({
            let counter = counter.clone();
            move |_: &str| {
                let counter = counter.clone();
                async move {
                    counter.set(counter.get() + 1);
                    Ok::<_, io::Error>(())
                }
            }
        }));
    std::future::poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
    service.call("job").await.unwrap();
    assert_eq!(counter.get(), 1);
}

/// The error of an http layer is the service's own, that of a plain one is boxed.
fn error_of<S, Req, E>(_: &S)
where
    S: Service<Req, Error = E>,
{
}

#[tokio::test]
async fn errors_are_what_they_should_be() {
    let redlock = redlock();
    let http = RedlockLayer::http(redlock.clone(), extract::uri_path());
    let grpc = RedlockLayer::grpc(redlock.clone(), extract::grpc_method());
    let plain = RedlockLayer::new(redlock, |_: &Request| Some("job"));
    let infallible = strict(answering::<Request, _>(http::Response::new(Full::<Bytes>::default())));
    error_of::<_, Request, Infallible>(&http.layer(infallible.clone()));
    error_of::<_, Request, Infallible>(&grpc.layer(infallible.clone()));
    error_of::<_, Request, BoxError>(&plain.layer(infallible));
}

#[tokio::test]
async fn they_stack() {
    let redlock = redlock();
    let stack = ServiceBuilder::new()
        .layer(RedlockLayer::http(redlock.clone(), extract::header("a").prefix("a:")))
        .concurrency_limit(10)
        .layer(RedlockLayer::http(redlock.clone(), extract::uri_path()).hold_until_body_end())
        .layer(RedlockLayer::new(redlock, |_: &Request| Some("b")));
    let service = stack
        .service(strict(answering::<Request, _>(http::Response::new(Full::<Bytes>::default()))));
    let _boxed: BoxCloneSyncService<Request, _, BoxError> = BoxCloneSyncService::new(service);
}

#[tokio::test]
async fn every_setting_is_on_every_layer() {
    fn options() -> LockOptions {
        LockOptions::default()
    }
    let redlock = redlock();
    let second = Duration::from_secs(1);
    let http = RedlockLayer::http(redlock.clone(), extract::header("a").prefix("a:").required())
        .ttl(second)
        .wait(second)
        .retry_count(3)
        .fenced()
        .max_hold(second)
        .options(options())
        .methods([http::Method::POST])
        .hold_until_body_end()
        .on_reject(|error: LockError| http::Response::new(Body::from(error.to_string())));
    let grpc = RedlockLayer::grpc(redlock.clone(), extract::metadata("a").prefix("a:"))
        .ttl(second)
        .wait(second)
        .retry_count(3)
        .fenced()
        .max_hold(second)
        .options(options())
        .hold_until_body_end()
        .on_reject(|error: LockError| tonic::Status::aborted(error.to_string()));
    let plain = RedlockLayer::new(redlock, |_: &Request| None::<String>)
        .ttl(second)
        .wait(second)
        .retry_count(3)
        .fenced()
        .max_hold(second)
        .options(options());
    let _ = (http, grpc, plain);
}

#[tokio::test]
async fn they_go_around_routers_with_state() {
    #[axum::debug_handler]
    async fn handler(
        axum::extract::State(_): axum::extract::State<Redlock>,
        _: LockHandle,
        _: Option<LockHandle>,
    ) -> Result<(), LockRejection> {
        Ok(())
    }
    let redlock = redlock();
    let by_id = RedlockLayer::http(redlock.clone(), extract::path_param("id").prefix("order:"));
    let by_closure = RedlockLayer::http(redlock.clone(), |request: &Request| {
        Some(request.uri().path().to_owned())
    });
    let by_type = RedlockLayer::http(
        redlock.clone(),
        extract::from_parts::<axum::extract::Path<u64>, _>(|id| Some(id.to_string())),
    );
    let _: Router = Router::new()
        .route("/orders/{id}", get(handler).layer(by_type))
        .route_layer(by_id.clone())
        .route_layer(ServiceBuilder::new().layer(by_id.clone()))
        .layer(by_closure)
        .with_state(redlock);
}
