//! Queues and watches over in-memory nodes on paused time.

mod across;
mod answers;
mod at_scale;
mod entries;
mod following;
mod looking;
mod lost_connections;
mod min_hold;
mod no_memory;
mod own_turns;
mod passing_on;
mod requests;
mod turn_over;
mod waking;

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::{FutureExt, future::join_all};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{Entry, Joined, Report, Signal, Wants, queue_node};
use crate::{
    LockError, LockGuard, LockRequest, MemoryNode, Redlock, Released,
    node::intercepted::{far_away, without_pushes},
    op::{release, watch::watch},
    options::LockOptions,
    testing::{are_empty, nodes},
};

const MINUTE: Duration = Duration::from_secs(60);
const MS: Duration = Duration::from_millis(1);

/// A client that is woken, or waits in vain.
fn client(nodes: &[MemoryNode]) -> Redlock {
    Redlock::builder().nodes(nodes).wait(5 * MINUTE).retry_delay(MINUTE).build().unwrap()
}

/// Five nodes that answer after so many milliseconds.
fn distant(delay: u32) -> Vec<MemoryNode> {
    let nodes = nodes(5);
    nodes.iter().for_each(|node| node.slow(delay * MS));
    nodes
}

/// A client that is this far away from nodes which are near for other clients.
fn far_client(nodes: &[MemoryNode], one_way: Duration) -> Redlock {
    let far = nodes.iter().zip(["a", "b", "c"]);
    let far = far.map(|(node, name)| far_away(name, node, one_way)).collect();
    Redlock::builder().node_timeout(10 * one_way.max(20 * MS)).wait(MINUTE).over(far)
}

type Waiting = JoinHandle<Result<LockGuard, LockError>>;

/// A task that waits behind all earlier tasks.
async fn waiting(redlock: &Redlock, wait: Duration) -> Waiting {
    let waiting = tokio::spawn(redlock.lock("r").wait(wait).into_future());
    sleep(MS).await;
    assert!(!waiting.is_finished());
    waiting
}

/// A place in the queue, which a test reports.
fn entry(redlock: &Redlock) -> Entry {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let value = format!("{:040}.waiter", COUNT.fetch_add(1, SeqCst));
    Entry::new(&redlock.client().nodes, &"redlock:r".into(), value)
}

/// The entry of `other`, which has the turn that the holder gave it.
async fn with_turn(holder: &Redlock, other: &Redlock) -> Entry {
    let held = holder.lock("r").await.unwrap();
    drop(other.lock("warm").await.unwrap());
    let mut first = entry(other);
    assert!(matches!(first.report().await, Report::At(_)));
    drop(held);
    sleep(MS).await;
    assert_eq!(first.take_signal(), Some(Signal::Turn));
    first
}

/// The queue node.
fn queue_node_of(redlock: &Redlock) -> usize {
    queue_node(&redlock.client().nodes, "redlock:r").unwrap()
}

fn value(redlock: &Redlock) -> String {
    let holds = redlock.client().leases.registry.all();
    let hold = holds.last().unwrap();
    hold.lease().claim.value.clone()
}

fn no_lines(redlock: &Redlock) -> bool {
    redlock.client().queues.is_empty()
}
