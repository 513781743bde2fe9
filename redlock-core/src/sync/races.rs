//! The same names over shuttle, and runtimes whose tasks any thread may run, stop and end.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, PoisonError, TryLockError},
    task::{Context, Poll, Waker},
};

use shuttle::sync::MutexGuard;
pub(crate) use shuttle::sync::atomic;
use tokio::{runtime::Id, sync::futures::Notified};

/// A mutex that does not poison.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A waker that is registered and taken at moments of shuttle's choice.
#[derive(Debug, Default)]
pub(crate) struct AtomicWaker(Mutex<Option<Waker>>);

impl AtomicWaker {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn register(&self, waker: &Waker) {
        *self.0.lock() = Some(waker.clone());
    }

    pub(crate) fn take(&self) -> Option<Waker> {
        self.0.lock().take()
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = self.take() {
            waker.wake();
        }
    }
}

/// A signal that is listened to and given at moments of shuttle's choice.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    signal: tokio::sync::Notify,
    turn: Mutex<()>,
}

impl Notify {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        drop(self.turn.lock());
        self.signal.notified()
    }

    pub(crate) fn notify_one(&self) {
        drop(self.turn.lock());
        self.signal.notify_one();
    }

    pub(crate) fn notify_waiters(&self) {
        drop(self.turn.lock());
        self.signal.notify_waiters();
    }
}

shuttle::thread_local! {
    /// The runtime on which this thread or task runs.
    static CURRENT: std::cell::RefCell<Option<Runtime>> = std::cell::RefCell::new(None);
}

/// A runtime whose tasks run whenever shuttle says so. Clones are the same one.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

struct Inner {
    /// What gives it an id and timers. It is never driven: shuttle polls the tasks.
    tokio: tokio::runtime::Runtime,
    state: std::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    ended: bool,
    blocked: bool,
    tasks: Vec<Waker>,
    /// How many tasks there are.
    alive: usize,
    /// How many tasks there have been.
    started: usize,
}

impl Default for Runtime {
    fn default() -> Self {
        Self::new()
    }
}

impl Runtime {
    /// A runtime that runs.
    #[must_use]
    #[allow(clippy::missing_panics_doc, clippy::unwrap_used)] // it is a test that is without one
    pub fn new() -> Self {
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        Self(Arc::new(Inner { tokio, state: std::sync::Mutex::default() }))
    }

    /// Runs a future in this runtime on the caller's thread.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let before = CURRENT.with(|current| current.replace(Some(self.clone())));
        let output = shuttle::future::block_on(future);
        CURRENT.with(|current| *current.borrow_mut() = before);
        output
    }

    /// Lets none of its tasks run, as a blocking call does.
    pub fn block(&self) {
        self.change(|state| state.blocked = true);
    }

    /// Lets its tasks go on.
    pub fn unblock(&self) {
        self.change(|state| state.blocked = false);
    }

    /// Drops its tasks, wherever they are.
    pub fn end(&self) {
        self.change(|state| state.ended = true);
    }

    /// Whether all its tasks are gone.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state().alive == 0
    }

    /// How many tasks were started here so far.
    #[must_use]
    pub fn started(&self) -> usize {
        self.state().started
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let tasks = {
            let mut state = self.state();
            change(&mut state);
            std::mem::take(&mut state.tasks)
        };
        tasks.into_iter().for_each(Waker::wake);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Runtime").field(&self.0.tokio.handle().id()).finish()
    }
}

/// The runtime of the caller.
#[derive(Debug)]
pub(crate) struct Handle(Runtime);

impl Handle {
    pub(crate) fn try_current() -> Result<Self, ()> {
        CURRENT.with(|current| current.borrow().clone().map(Self)).ok_or(())
    }

    pub(crate) fn id(&self) -> Id {
        self.0.0.tokio.handle().id()
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        {
            let mut state = self.0.state();
            state.alive += 1;
            state.started += 1;
        }
        let task = Task { runtime: self.0.clone(), future: Some(Box::pin(task)) };
        // Its handle is dropped: no test waits for a task of the library.
        drop(shuttle::future::spawn(task));
    }
}

/// A task of a [`Runtime`].
struct Task {
    runtime: Runtime,
    future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        CURRENT.with(|current| *current.borrow_mut() = Some(self.runtime.clone()));
        let (ended, blocked) = {
            let mut state = self.runtime.state();
            state.tasks.push(cx.waker().clone());
            (state.ended, state.blocked)
        };
        let polled = match &mut self.future {
            Some(_) if !ended && blocked => Poll::Pending,
            Some(future) if !ended => future.as_mut().poll(cx),
            Some(_) | None => Poll::Ready(()),
        };
        if polled.is_ready() && self.future.take().is_some() {
            self.runtime.state().alive -= 1;
        }
        polled
    }
}
