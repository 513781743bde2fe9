//! What the tests share: clients over nodes in this process, services that are strict about how
//! they are used, and a count of error events.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    future::{Future, Ready, ready},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use redlock_core::{LockGuard, LockHandle, Redlock};
use tower::Service;
use tracing::{Level, Metadata, span};

/// Five nodes in this process.
pub(crate) fn redlock() -> Redlock {
    Redlock::in_memory(5)
}

/// Another client of the same nodes, as another process would be.
pub(crate) fn another(redlock: &Redlock) -> Redlock {
    Redlock::builder().nodes(redlock.memory_nodes()).build().unwrap()
}

/// Takes a lock as another process would.
pub(crate) async fn held_elsewhere(redlock: &Redlock, resource: &str) -> LockGuard {
    another(redlock).lock(resource).await.unwrap()
}

/// The keys on any node, each once.
pub(crate) fn keys(redlock: &Redlock) -> Vec<String> {
    let keys: BTreeSet<_> = redlock.memory_nodes().iter().flat_map(|node| node.keys()).collect();
    keys.into_iter().collect()
}

/// Nobody has a lock: a quorum of the nodes has no key. What a release is done with; it does not
/// wait for the others.
pub(crate) fn is_free(redlock: &Redlock) -> bool {
    let nodes = redlock.memory_nodes();
    nodes.iter().filter(|node| node.keys().is_empty()).count() > nodes.len() / 2
}

/// Waits for something that is going to happen.
pub(crate) async fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if happened() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never happened that {what}");
}

/// Waits until every lock is gone from every node.
pub(crate) async fn freed(redlock: &Redlock) {
    eventually("every lock is gone", || keys(redlock).is_empty()).await;
}

/// Makes the nodes forget every lock, as an operator's FLUSHALL would.
pub(crate) fn forget_locks(redlock: &Redlock) {
    redlock.memory_nodes().iter().for_each(|node| node.clear());
}

/// Stops so many nodes that no quorum is left.
pub(crate) fn stop_majority(redlock: &Redlock) {
    redlock.memory_nodes().iter().take(3).for_each(|node| node.stop());
}

/// A service that panics when it is called without having been polled ready on that very
/// instance, like those that reserve something for the call.
pub(crate) struct Strict<F> {
    handler: F,
    ready: bool,
}

/// A strict service that answers by this function.
pub(crate) fn strict<F>(handler: F) -> Strict<F> {
    Strict { handler, ready: false }
}

impl<F: Clone> Clone for Strict<F> {
    fn clone(&self) -> Self {
        strict(self.handler.clone())
    }
}

impl<F, Req, Fut, Res, Err> Service<Req> for Strict<F>
where
    F: FnMut(Req) -> Fut,
    Fut: Future<Output = Result<Res, Err>>,
{
    type Response = Res;
    type Error = Err;
    type Future = Fut;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Err>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Fut {
        assert!(std::mem::take(&mut self.ready), "called without having been polled ready");
        (self.handler)(request)
    }
}

/// Answers every request with its argument.
pub(crate) fn answering<Req, Res: Clone>(
    response: Res,
) -> impl Fn(Req) -> Ready<Result<Res, Infallible>> + Clone {
    move |_| ready(Ok(response.clone()))
}

/// Counts calls and drops, and whether each drop came while the lock still stood.
#[derive(Clone)]
pub(crate) struct Witness {
    redlock: Redlock,
    started: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
    dropped_unlocked: Arc<AtomicUsize>,
}

impl Witness {
    pub(crate) fn of(redlock: &Redlock) -> Self {
        let zero = Arc::<AtomicUsize>::default;
        Self {
            redlock: redlock.clone(),
            started: zero(),
            dropped: zero(),
            dropped_unlocked: zero(),
        }
    }

    /// To be kept by a body: its drop is the body's.
    pub(crate) fn start(&self) -> Running {
        self.started.fetch_add(1, Ordering::SeqCst);
        Running(self.clone())
    }

    pub(crate) fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }

    pub(crate) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }

    /// Bodies that were still there after their lock had been released.
    pub(crate) fn dropped_unlocked(&self) -> usize {
        self.dropped_unlocked.load(Ordering::SeqCst)
    }
}

pub(crate) struct Running(Witness);

impl Drop for Running {
    fn drop(&mut self) {
        let Witness { redlock, dropped, dropped_unlocked, .. } = &self.0;
        dropped.fetch_add(1, Ordering::SeqCst);
        if is_free(redlock) {
            dropped_unlocked.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// The resource of the innermost lock, as the code that is running sees it.
pub(crate) fn current_resource() -> Option<String> {
    LockHandle::current().map(|lock| lock.resource().to_owned())
}

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) async fn read<B: Body<Data = Bytes>>(response: Response<B>) -> Self
    where
        B::Error: std::fmt::Debug,
    {
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        Self { status: head.status, headers: head.headers, text }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The problem document, whose status is that of the response.
    pub(crate) fn problem(&self) -> serde_json::Value {
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem: serde_json::Value = serde_json::from_str(&self.text).unwrap();
        assert_eq!(problem["status"], self.status.as_u16());
        problem
    }
}

/// Counts the error events of this thread while it lives.
pub(crate) struct ErrorEvents {
    count: Arc<AtomicUsize>,
    _default: tracing::subscriber::DefaultGuard,
}

impl ErrorEvents {
    pub(crate) fn watch() -> Self {
        let count = Arc::<AtomicUsize>::default();
        let counter = Counter(Arc::clone(&count));
        Self { count, _default: tracing::subscriber::set_default(counter) }
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

struct Counter(Arc<AtomicUsize>);

impl tracing::Subscriber for Counter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
