//! The process of one client: everything in it stops, goes on and dies together.

use std::{
    any::Any,
    cell::RefCell,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use futures_util::{FutureExt, future::BoxFuture};
use redlock_core::seam::simulation::adopt_by;

use super::locked;

thread_local! {
    /// The process whose code runs.
    static CURRENT: RefCell<Option<Process>> = const { RefCell::new(None) };
}

/// A process. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Process(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    standing: Standing,
    /// Everything that has run in it.
    tasks: Vec<Waker>,
    /// The futures that ran when it crashed. They are kept, because a killed process runs no destructors.
    grave: Vec<Box<dyn Any + Send>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Standing {
    #[default]
    Running,
    Stopped,
    Dead,
}

impl Process {
    /// A process that runs.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Runs a future in this process, and whatever tasks the library starts from it. None when
    /// the process has crashed.
    pub(crate) fn inside<F>(&self, future: F) -> Inside<F>
    where
        F: Future + Send + 'static,
    {
        adopt_by(inherited);
        Inside { process: self.clone(), future: Some(Box::pin(future)), known: false }
    }

    /// Stops everything in it, as SIGSTOP does.
    pub(crate) fn stop(&self) {
        let mut inner = locked(&self.0);
        if inner.standing == Standing::Running {
            inner.standing = Standing::Stopped;
        }
    }

    /// Goes on after [`stop`](Self::stop).
    pub(crate) fn resume(&self) {
        let tasks = {
            let mut inner = locked(&self.0);
            if inner.standing != Standing::Stopped {
                return;
            }
            inner.standing = Standing::Running;
            inner.tasks.clone()
        };
        tasks.into_iter().for_each(Waker::wake);
    }

    /// Ends it where it is. No destructor runs.
    pub(crate) fn crash(&self) {
        let tasks = {
            let mut inner = locked(&self.0);
            inner.standing = Standing::Dead;
            std::mem::take(&mut inner.tasks)
        };
        tasks.into_iter().for_each(Waker::wake);
    }

    /// Whether it has crashed.
    #[must_use]
    pub(crate) fn is_dead(&self) -> bool {
        locked(&self.0).standing == Standing::Dead
    }

    /// Frees the futures that a crash has left. Call it once the runtime is gone.
    pub(crate) fn bury(&self) {
        let grave = std::mem::take(&mut locked(&self.0).grave);
        drop(grave);
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Process").field(&locked(&self.0).standing).finish()
    }
}

/// A future in a [`Process`]. For one task: it does not move to another once polled.
#[must_use = "futures do nothing unless polled"]
pub(crate) struct Inside<F> {
    process: Process,
    future: Option<Pin<Box<F>>>,
    known: bool,
}

impl<F: Future + Send + 'static> Future for Inside<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        {
            let mut inner = locked(&this.process.0);
            if inner.standing == Standing::Dead {
                if let Some(future) = this.future.take() {
                    inner.grave.push(Box::new(future));
                }
                return Poll::Ready(None);
            }
            if !std::mem::replace(&mut this.known, true) {
                inner.tasks.push(cx.waker().clone());
            }
            if inner.standing == Standing::Stopped {
                return Poll::Pending;
            }
        }
        let Some(future) = &mut this.future else { return Poll::Ready(None) };
        let _entered = Entered::enter(&this.process);
        let polled = future.as_mut().poll(cx);
        if polled.is_ready() {
            this.future = None;
        }
        polled.map(Some)
    }
}

impl<F> fmt::Debug for Inside<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inside").field("process", &self.process).finish_non_exhaustive()
    }
}

/// Makes a process the current one until dropped.
struct Entered(Option<Process>);

impl Entered {
    fn enter(process: &Process) -> Self {
        Self(CURRENT.with(|current| current.borrow_mut().replace(process.clone())))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.0.take();
        CURRENT.with(|current| *current.borrow_mut() = before);
    }
}

/// A task of the library, in the process of the task that starts it.
fn inherited(task: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
    match CURRENT.with(|current| current.borrow().clone()) {
        Some(process) => process.inside(task).map(drop).boxed(),
        None => task,
    }
}
