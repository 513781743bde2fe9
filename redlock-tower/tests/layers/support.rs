//! What the tests share: clients over nodes in this process, services that are strict about how
//! they are used, and a count of error events.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    future::{Future, Ready, ready},
    sync::{
        Arc, LazyLock, Mutex,
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
use tracing::{Dispatch, Level, Metadata, span, subscriber::NoSubscriber};

/// Five nodes in this process.
pub(crate) fn redlock() -> Redlock {
    Redlock::in_memory(5)
}

/// Five nodes in this process, for tests in real time: a busy machine may keep nodes from answering for
/// longer than a client waits for them by default.
pub(crate) fn patient() -> Redlock {
    another(&redlock())
}

/// Another client of the same nodes, as another process would be.
pub(crate) fn another(redlock: &Redlock) -> Redlock {
    let builder = Redlock::builder().nodes(redlock.memory_nodes());
    builder.node_timeout(Duration::from_secs(5)).build().unwrap()
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

/// No lock is held: a quorum of the nodes has no key. A release waits for no more than that.
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

/// Counts bodies, and looks at their lock when they are dropped.
#[derive(Clone)]
pub(crate) struct Witness {
    redlock: Redlock,
    counts: Arc<Mutex<Counts>>,
    /// The lock that each body had around it when it was dropped.
    dropped_in: Arc<Mutex<Vec<Option<String>>>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) started: usize,
    pub(crate) dropped: usize,
    /// Of those that were dropped: whose key had gone by then.
    pub(crate) after_the_key: usize,
    /// Of those that were dropped: whose lock was no longer theirs by then.
    pub(crate) after_the_lock: usize,
}

impl Witness {
    pub(crate) fn of(redlock: &Redlock) -> Self {
        Self { redlock: redlock.clone(), counts: Arc::default(), dropped_in: Arc::default() }
    }

    /// To be kept by a body: its drop is the body's.
    pub(crate) fn start(&self) -> Running {
        self.counts.lock().unwrap().started += 1;
        Running { witness: self.clone(), lock: LockHandle::current() }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts.lock().unwrap().clone()
    }

    pub(crate) fn started(&self) -> usize {
        self.counts().started
    }

    pub(crate) fn dropped(&self) -> usize {
        self.counts().dropped
    }

    pub(crate) fn dropped_in(&self) -> Vec<Option<String>> {
        self.dropped_in.lock().unwrap().clone()
    }

    /// One body ran, and its lock outlived it.
    pub(crate) fn assert_dropped_under_its_lock(&self) {
        let one = Counts { started: 1, dropped: 1, ..Counts::default() };
        assert_eq!(self.counts(), one);
    }
}

pub(crate) struct Running {
    witness: Witness,
    lock: Option<LockHandle>,
}

impl Running {
    /// For bodies that are made before they have a lock.
    pub(crate) fn see_lock(&mut self) {
        self.lock = LockHandle::current();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let key_gone = is_free(&self.witness.redlock);
        let lock_gone = !self.lock.as_ref().is_some_and(LockHandle::is_valid);
        self.witness.dropped_in.lock().unwrap().push(current_resource());
        let mut counts = self.witness.counts.lock().unwrap();
        counts.dropped += 1;
        counts.after_the_key += usize::from(key_gone);
        counts.after_the_lock += usize::from(lock_gone);
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

/// With a single live subscriber, tracing asks only the thread that meets an event first whether
/// the event is wanted, and keeps the answer. A thread without a subscriber says no for all others.
/// With a second subscriber, tracing asks every thread.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// Counts the error events of this thread while it lives.
pub(crate) struct ErrorEvents {
    count: Arc<AtomicUsize>,
    _default: tracing::subscriber::DefaultGuard,
}

impl ErrorEvents {
    pub(crate) fn watch() -> Self {
        let count = Arc::<AtomicUsize>::default();
        let counter = Counter(Arc::clone(&count));
        LazyLock::force(&SECOND);
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
