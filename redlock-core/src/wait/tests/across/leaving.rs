//! Clients that leave the queue as the nodes grant them the lock.

use std::{future::poll_fn, pin::pin, sync::atomic::AtomicBool, task::Poll};

use super::*;
use crate::node::{Action, Command, intercepted::intercepted};

/// A task that waits for the lock. Just as the nodes have granted it after the lock `is_released`, it is cancelled, or
/// its client `closes`.
fn ended_once_granted(
    redlock: Redlock,
    nodes: &[MemoryNode],
    is_released: &Arc<AtomicBool>,
    closes: bool,
) -> JoinHandle<()> {
    let (nodes, is_released) = (nodes.to_vec(), Arc::clone(is_released));
    let has_key = |node: &MemoryNode| !node.keys().is_empty();
    let granted = poll_fn(move |_| {
        let is_granted = is_released.load(SeqCst) && nodes.iter().all(has_key);
        if is_granted { Poll::Ready(()) } else { Poll::Pending }
    });
    tokio::spawn(async move {
        let mut asking = pin!(redlock.lock("r").into_future());
        tokio::select! {
            biased;
            // The answers of the nodes wake the task.
            () = granted => {}
            _ = &mut asking => panic!("it was not ended"),
        }
        if closes {
            redlock.client().close();
            let error = asking.await.unwrap_err();
            assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
        }
    })
}

/// The turn has gone to the next client. The place stays with the next task, ahead of all that came later.
#[tokio::test(start_paused = true)]
async fn a_front_that_is_cancelled_once_the_nodes_have_granted_leaves_its_place_to_the_next_task() {
    let nodes = nodes(3);
    let [holder, ours, second, third] = [(); 4].map(|()| client(&nodes));
    let guard = holder.lock("r").await.unwrap();
    let is_released = Arc::new(AtomicBool::new(false));
    let front = ended_once_granted(ours.clone(), &nodes, &is_released, false);
    sleep(10 * MS).await;
    let next = waiting(&ours, MINUTE).await;
    let second = waiting(&second, MINUTE).await;
    let third = waiting(&third, MINUTE).await;
    nodes.iter().for_each(|node| node.slow(5 * MS));
    drop(guard);
    sleep(6 * MS).await;
    is_released.store(true, SeqCst);
    front.await.unwrap();
    for waiter in [second, next, third] {
        drop(timeout(100 * MS, waiter).await.unwrap().unwrap().unwrap());
    }
}

/// The release that gave the turn has taken the waiter out of the queue.
#[tokio::test(start_paused = true)]
async fn a_front_that_gets_the_lock_by_its_turn_has_no_queue_to_leave() {
    let left = Arc::new(AtomicUsize::new(0));
    let nodes = ["a", "b", "c"].map(|name| {
        let left = Arc::clone(&left);
        intercepted(name, move |sender, _, commands| {
            let leaves = |it: &&Command| matches!(it.action, Action::Leave { .. });
            left.fetch_add(commands.iter().filter(leaves).count(), SeqCst);
            sender.send(commands)
        })
    });
    let [holder, waiter] = [(); 2].map(|()| Redlock::builder().wait(MINUTE).over(nodes.to_vec()));
    let guard = holder.lock("r").await.unwrap();
    let next = waiting(&waiter, MINUTE).await;
    sleep(100 * MS).await;
    drop(guard);
    let _guard = next.await.unwrap().unwrap();
    sleep(100 * MS).await;
    assert_eq!(left.load(SeqCst), 0);
}

/// Its release and its `Leave` reach the queue node one behind the other. Two turns at once would let the
/// nearer client go first.
async fn one_turn_is_passed_on(closes: bool) {
    let nodes = nodes(3);
    let [holder, front, near] = [(); 3].map(|()| client(&nodes));
    let far = far_client(&nodes, 10 * MS);
    let guard = holder.lock("r").await.unwrap();
    let is_released = Arc::new(AtomicBool::new(false));
    let front = ended_once_granted(front, &nodes, &is_released, closes);
    sleep(10 * MS).await;
    let far = waiting(&far, MINUTE).await;
    sleep(100 * MS).await;
    let near = waiting(&near, MINUTE).await;
    sleep(100 * MS).await;
    nodes.iter().for_each(|node| node.slow(5 * MS));
    drop(guard);
    sleep(6 * MS).await;
    is_released.store(true, SeqCst);
    front.await.unwrap();
    let far = timeout(100 * MS, far).await.unwrap().unwrap().unwrap();
    assert!(far.is_valid() && !near.is_finished());
    drop(far);
    drop(timeout(100 * MS, near).await.unwrap().unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_front_that_is_cancelled_once_the_nodes_have_granted_passes_one_turn_on() {
    one_turn_is_passed_on(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_front_whose_client_closes_once_the_nodes_have_granted_passes_one_turn_on() {
    one_turn_is_passed_on(true).await;
}
