//! A client: it increments the counter under the lock.

use std::{cell::RefCell, fmt, io, path::Path, str::FromStr, thread, time::Duration};

use futures_util::future::join_all;
use redlock_core::{LockError, Redlock};
use rustix::process::{Signal, getpid, kill_process};

use super::{RESOURCE, store::Store};
use crate::LIMIT;

/// How long a write takes to reach the store.
const WAY: Duration = Duration::from_millis(2);

/// The task of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Orders {
    /// How often each task increments the counter.
    pub(super) count: usize,
    /// How many tasks do.
    pub(super) tasks: usize,
    pub(super) ttl: Duration,
    /// The process stands still between the check and the write.
    pub(super) stops: bool,
    /// The store looks at tokens.
    pub(super) fenced: bool,
}

impl fmt::Display for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, tasks, ttl, stops, fenced } = self;
        write!(f, "{count} {tasks} {} {stops} {fenced}", ttl.as_millis())
    }
}

impl FromStr for Orders {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let mut words = text.split(' ');
            let (count, tasks) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            let ttl = Duration::from_millis(words.next()?.parse().ok()?);
            let (stops, fenced) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some(Self { count, tasks, ttl, stops, fenced })
        };
        read().ok_or_else(|| format!("not the orders of a client: {text:?}"))
    }
}

/// Increments the counter the requested number of times, or until standard input ends, and prints
/// how many writes were refused.
pub(super) async fn run(orders: Orders, store: &Path, urls: &[&str]) {
    let locks = Redlock::builder()
        .nodes(urls.iter().copied())
        .node_timeout(Duration::from_millis(100))
        .ttl(orders.ttl)
        .retry_delay(Duration::from_millis(5))
        .retry_jitter(Duration::from_millis(5))
        .build()
        .unwrap();
    let store = RefCell::new(Store::open(store).unwrap());
    let input = thread::spawn(|| io::copy(&mut io::stdin(), &mut io::sink()));
    let over = || input.is_finished();
    let tasks = (0..orders.tasks).map(|_| increments(orders, &locks, &store, &over));
    println!("{}", join_all(tasks).await.iter().sum::<usize>());
}

/// The work of one task. Returns how many of its writes were refused.
async fn increments(
    orders: Orders,
    locks: &Redlock,
    store: &RefCell<Store>,
    over: &impl Fn() -> bool,
) -> usize {
    let (mut done, mut refused) = (0, 0);
    while done < orders.count && !over() {
        let request = locks.lock(RESOURCE).wait(LIMIT);
        let request = if orders.fenced { request.fenced() } else { request };
        let guard = match request.await {
            Ok(guard) => guard,
            // Expected of clients that are stopped: a quorum that comes too late counts as none.
            Err(LockError::Held { .. } | LockError::NoQuorum { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let token = guard.fencing_token();
        assert_eq!(token.is_some(), orders.fenced);
        let Some(value) = store.borrow_mut().read(token).unwrap() else {
            refused += 1;
            continue;
        };
        if !guard.is_valid() {
            continue;
        }
        if orders.stops {
            println!("has read {value}");
            kill_process(getpid(), Signal::STOP).unwrap();
        } else {
            thread::sleep(WAY);
        }
        match store.borrow_mut().write(token, value + 1).unwrap() {
            true => done += 1,
            false => refused += 1,
        }
        // The lock tells only now whether it was still ours. That is too late for the write.
        let _ = guard.release().await;
        if orders.stops {
            break;
        }
    }
    refused
}
