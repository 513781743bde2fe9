//! `hold_until_body_end`: the lock goes with the body of the response.

use std::{
    convert::Infallible,
    future::ready,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Empty, Full};
use redlock_core::{LockError, Redlock};
use redlock_tower::{BoxError, RedlockLayer, body::ResponseBody, extract};
use tokio::sync::mpsc;
use tower::{Layer, ServiceExt};

use crate::support::{
    Running, Witness, current_resource, forget_locks, freed, is_free, keys, redlock, strict,
};

/// A body that sends what it is told to, under the lock of its request only.
struct Streamed {
    frames: mpsc::UnboundedReceiver<Result<Frame<Bytes>, &'static str>>,
    size: Option<u64>,
    running: Running,
}

impl Body for Streamed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        assert_eq!(current_resource().as_deref(), Some("/"));
        self.running.see_lock();
        self.frames.poll_recv(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn size_hint(&self) -> SizeHint {
        self.size.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

struct Sender(mpsc::UnboundedSender<Result<Frame<Bytes>, &'static str>>);

impl Sender {
    fn data(&self, data: &'static str) {
        self.0.send(Ok(Frame::data(data.into()))).unwrap();
    }
}

/// A response whose body is under way, and what feeds it.
async fn streamed(
    redlock: &Redlock,
    witness: &Witness,
    size: Option<u64>,
) -> (Sender, ResponseBody<Streamed>) {
    let (sender, frames) = mpsc::unbounded_channel();
    let body = Streamed { frames, size, running: witness.start() };
    (Sender(sender), held(redlock, body).await)
}

/// This body, as a layered service answers with it.
async fn held<B>(redlock: &Redlock, body: B) -> ResponseBody<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>>,
{
    answered(redlock, Request::new(()), Response::new(body)).await
}

/// The body of this response to this request.
async fn answered<B>(
    redlock: &Redlock,
    request: Request<()>,
    response: Response<B>,
) -> ResponseBody<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>>,
{
    let once = Arc::new(Mutex::new(Some(response)));
    let service = strict(move |_: Request<()>| {
        ready(Ok::<_, Infallible>(once.lock().unwrap().take().unwrap()))
    });
    let layer = RedlockLayer::http(redlock.clone(), extract::uri_path()).hold_until_body_end();
    layer.layer(service).oneshot(request).await.unwrap().into_body()
}

fn data(frame: Option<Result<Frame<Bytes>, BoxError>>) -> Bytes {
    frame.unwrap().unwrap().into_data().unwrap()
}

#[tokio::test(start_paused = true)]
async fn without_it_the_lock_is_gone_when_the_response_is_there() {
    let redlock = redlock();
    let service = strict(|_: Request<()>| {
        ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("done"))))
    });
    let response = RedlockLayer::http(redlock.clone(), extract::uri_path())
        .layer(service)
        .oneshot(Request::new(()))
        .await
        .unwrap();
    assert!(is_free(&redlock));
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "done");
}

#[tokio::test(start_paused = true)]
async fn the_lock_stands_until_the_body_has_ended() {
    let redlock = redlock();
    let witness = Witness::of(&redlock);
    let (sender, mut body) = streamed(&redlock, &witness, None).await;
    assert_eq!(keys(&redlock), ["redlock:/"]);

    assert!(body.frame().now_or_never().is_none());
    sender.data("one");
    assert_eq!(data(body.frame().await), "one");
    assert_eq!(keys(&redlock), ["redlock:/"]);
    sender.data("two");
    assert_eq!(data(body.frame().await), "two");
    assert!(!is_free(&redlock) && !body.is_end_stream());

    drop(sender);
    assert!(body.frame().await.is_none());
    // At once: a server that has asked for the end finds the lock free.
    assert!(is_free(&redlock));
    assert!(body.is_end_stream());
    witness.assert_dropped_under_its_lock();
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn it_is_renewed_for_as_long_as_the_body_takes() {
    let redlock = redlock();
    let witness = Witness::of(&redlock);
    let (sender, mut body) = streamed(&redlock, &witness, None).await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(30)).await;
        sender.data("more");
        assert_eq!(data(body.frame().await), "more");
        assert!(!is_free(&redlock));
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_over_from_the_start_holds_nothing() {
    let redlock = redlock();
    let body = held(&redlock, Empty::new()).await;
    assert!(is_free(&redlock));
    assert!(body.is_end_stream());
    assert!(body.collect().await.unwrap().to_bytes().is_empty());
}

/// A server drops it unseen: the client has all of the answer before the lock would be released.
#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_sent_holds_nothing() {
    let redlock = redlock();
    let request = |method: Method| Request::builder().method(method).body(()).unwrap();
    let response = |status: StatusCode| {
        Response::builder().status(status).body(Full::<Bytes>::from("done")).unwrap()
    };
    for (method, status, is_held) in [
        (Method::GET, StatusCode::OK, true),
        (Method::HEAD, StatusCode::OK, false),
        (Method::CONNECT, StatusCode::OK, false),
        (Method::CONNECT, StatusCode::BAD_GATEWAY, true),
        (Method::GET, StatusCode::NO_CONTENT, false),
        (Method::GET, StatusCode::NOT_MODIFIED, false),
        (Method::GET, StatusCode::SWITCHING_PROTOCOLS, false),
    ] {
        let body = answered(&redlock, request(method.clone()), response(status)).await;
        assert_eq!(is_free(&redlock), !is_held, "{method}, {status}");
        assert_eq!(body.collect().await.unwrap().to_bytes(), "done");
        assert!(is_free(&redlock));
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_is_known_to_be_the_last_ends_the_lock() {
    let redlock = redlock();
    // `Full` says with its only frame that no other will come. It is not polled again then.
    let mut body = held(&redlock, Full::<Bytes>::from("done")).await;
    assert!(!is_free(&redlock) && !body.is_end_stream());
    assert_eq!(body.size_hint().exact(), Some(4));
    assert_eq!(data(body.frame().await), "done");
    assert!(is_free(&redlock));
    assert!(body.is_end_stream());
    assert_eq!(body.size_hint().exact(), Some(0));
}

#[tokio::test(start_paused = true)]
async fn trailers_end_the_lock() {
    let redlock = redlock();
    let witness = Witness::of(&redlock);
    let (sender, mut body) = streamed(&redlock, &witness, None).await;
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "42".parse().unwrap());
    sender.0.send(Ok(Frame::trailers(trailers.clone()))).unwrap();
    assert_eq!(body.frame().await.unwrap().unwrap().into_trailers().unwrap(), trailers);
    // The sender is still there: a body is not polled again after trailers.
    assert!(is_free(&redlock));
    assert_eq!(witness.dropped(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_body_goes_through_and_ends_the_lock() {
    let redlock = redlock();
    let witness = Witness::of(&redlock);
    let (sender, mut body) = streamed(&redlock, &witness, None).await;
    sender.0.send(Err("no more paper")).unwrap();
    assert_eq!(body.frame().await.unwrap().unwrap_err().to_string(), "no more paper");
    assert!(is_free(&redlock));
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_last_frame_waits_for_a_slow_release_and_is_not_lost() {
    let redlock = redlock();
    let body = held(&redlock, Full::<Bytes>::from("done")).await;
    for node in redlock.memory_nodes() {
        node.slow(Duration::from_millis(20));
    }
    let mut body = pin!(body);
    assert!(body.frame().now_or_never().is_none());
    // Nothing is over before the client has it.
    assert!(!body.is_end_stream());
    assert_eq!(body.size_hint().exact(), Some(4));
    assert_eq!(data(body.frame().await), "done");
    assert!(body.is_end_stream());
    freed(&redlock).await;
}

/// A server that is told of the end asks no more. It drops the body, and the client may be back before the release.
#[tokio::test(start_paused = true)]
async fn a_body_does_not_say_that_it_is_over_while_its_lock_stands() {
    /// Ends after its only frame, which is not known to be the last until later.
    struct EndsUnseen {
        frame: Option<&'static str>,
        is_over: Arc<AtomicBool>,
    }

    impl Body for EndsUnseen {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.frame.take().map(|it| Ok(Frame::data(it.into()))))
        }

        fn is_end_stream(&self) -> bool {
            self.is_over.load(Relaxed)
        }
    }

    let redlock = redlock();
    let is_over = Arc::new(AtomicBool::new(false));
    let inner = EndsUnseen { frame: Some("done"), is_over: Arc::clone(&is_over) };
    let mut body = held(&redlock, inner).await;
    assert_eq!(data(body.frame().await), "done");
    is_over.store(true, Relaxed);
    assert!(!body.is_end_stream() && !is_free(&redlock));
    for node in redlock.memory_nodes() {
        node.slow(Duration::from_millis(20));
    }
    assert!(body.frame().now_or_never().is_none());
    assert!(!body.is_end_stream(), "the release is on its way");
    assert!(body.frame().await.is_none());
    assert!(body.is_end_stream() && is_free(&redlock));
}

#[tokio::test(start_paused = true)]
async fn dropped_midway_the_body_goes_first_and_then_the_lock() {
    let redlock = redlock();
    let witness = Witness::of(&redlock);
    let (sender, mut body) = streamed(&redlock, &witness, None).await;
    sender.data("one");
    assert_eq!(data(body.frame().await), "one");
    drop(body);
    freed(&redlock).await;
    witness.assert_dropped_under_its_lock();
}

/// It is dropped when it is polled, and a server does not poll it.
#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_read_keeps_the_lock_over_a_shutdown() {
    let redlock = redlock();
    let witness = Witness::of(&redlock);
    let (_sender, body) = streamed(&redlock, &witness, None).await;
    redlock.shutdown(Duration::from_secs(1)).await;
    assert!(!is_free(&redlock));
    drop(body);
    freed(&redlock).await;

    let redlock = Redlock::in_memory(3);
    let (_sender, _body) = streamed(&redlock, &witness, None).await;
    redlock.shutdown(Duration::from_secs(1)).await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(is_free(&redlock), "its ttl has ended");
}

#[tokio::test(start_paused = true)]
async fn lost_midway_the_body_is_dropped_and_ends_with_an_error() {
    let redlock = redlock();
    let witness = Witness::of(&redlock);
    let (sender, mut body) = streamed(&redlock, &witness, None).await;
    sender.data("one");
    assert_eq!(data(body.frame().await), "one");

    forget_locks(&redlock);
    // The body is waited for, and woken: nothing was sent.
    let error = body.frame().await.unwrap().unwrap_err();
    assert!(error.downcast_ref::<LockError>().unwrap().is_lost(), "{error}");
    assert_eq!((witness.dropped(), witness.dropped_in()), (1, vec![Some("/".to_owned())]));
    assert!(body.frame().await.is_none());
    drop(sender);
}

#[tokio::test(start_paused = true)]
async fn the_size_is_the_one_of_the_body_inside() {
    let redlock = redlock();
    let witness = Witness::of(&redlock);
    let (_sender, body) = streamed(&redlock, &witness, Some(7)).await;
    assert_eq!(body.size_hint().exact(), Some(7));
    let (_sender, body) = streamed(&Redlock::in_memory(3), &witness, None).await;
    assert_eq!(body.size_hint().upper(), None);
}
