//! A member of a cluster that is late, as the task of the node sees it: it fails its own commands, and the
//! connection goes on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use tokio::time::sleep;

use super::{Action, NodeSpec, intercepted::intercepted};
use crate::{
    MemoryNode, NodeError, NodeErrorKind, Redlock, sync::Mutex, testing::nodes, wait::queue_node,
};

const MS: Duration = Duration::from_millis(1);

/// A node that knows by itself that nothing answers, a little before its time runs out.
struct Late {
    is_late: Arc<AtomicBool>,
    /// How many deletes were sent.
    deletes: Arc<Mutex<usize>>,
}

fn late() -> (Late, NodeSpec) {
    let (is_late, deletes) = (Arc::new(AtomicBool::new(true)), Arc::<Mutex<_>>::default());
    let late = Late { is_late: Arc::clone(&is_late), deletes: Arc::clone(&deletes) };
    let spec = intercepted("n", move |sender, _, commands| {
        let is_delete = |action| matches!(action, Action::Release { .. });
        *deletes.lock() += commands.iter().filter(|it| is_delete(it.action)).count();
        if !is_late.load(Ordering::Relaxed) {
            return sender.send(commands);
        }
        async move {
            sleep(45 * MS).await;
            let error = NodeError::new(&"n".into(), NodeErrorKind::Timeout, "a member is late");
            vec![Err(error); commands.len()]
        }
        .boxed()
    });
    (late, spec)
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_late_does_not_end_the_connections_to_the_others() {
    let (_late, spec) = late();
    let redlock = Redlock::builder().over(vec![spec]);
    for _ in 0..6 {
        let error = redlock.try_lock("r").await.unwrap_err();
        assert!(error.to_string().contains("a member is late"), "{error}");
        assert!(redlock.client().nodes[0].is_up());
        sleep(50 * MS).await;
    }
    let distance = redlock.client().nodes[0].round_trip();
    assert!(distance < 45 * MS, "{distance:?} says nothing about the others");
}

/// Rule 5: the member may have a new connection by then, and run the `SET` on the old one later.
#[tokio::test(start_paused = true)]
async fn a_delete_is_done_twice_where_a_member_left_its_set_without_an_answer() {
    let (late, spec) = late();
    let redlock = Redlock::builder().over(vec![spec]);
    redlock.try_lock("r").await.unwrap_err();
    sleep(500 * MS).await;
    let before = *late.deletes.lock();
    late.is_late.store(false, Ordering::Relaxed);
    sleep(10_000 * MS).await;
    assert_eq!(*late.deletes.lock() - before, 2);
}

/// Rule 18: it may be away for long, and each release would add to what is sent there again and again.
#[tokio::test(start_paused = true)]
async fn a_member_that_is_away_is_not_asked_again_and_again_to_wake_a_waiter() {
    let releases = Arc::<Mutex<usize>>::default();
    let away = {
        let releases = Arc::clone(&releases);
        intercepted("n", move |_, _, commands| {
            let is_release = |action| matches!(action, Action::Release { .. });
            *releases.lock() += commands.iter().filter(|it| is_release(it.action)).count();
            let error = NodeError::new(&"n".into(), NodeErrorKind::Down, "a member is away");
            async move { vec![Err(error); commands.len()] }.boxed()
        })
    };
    let mut specs = vec![away];
    specs.extend(nodes(2).iter().map(MemoryNode::spec));
    let redlock = Redlock::builder().over(specs);
    drop(redlock.lock("warm").await.unwrap());
    let all = &redlock.client().nodes;
    let is_kept_there = |name: &String| queue_node(all, &format!("redlock:{name}")) == Some(0);
    for name in (0..100).map(|it| format!("r-{it}")).filter(is_kept_there).take(10) {
        redlock.lock(name).await.unwrap().release().await.unwrap();
    }
    sleep(500 * MS).await;
    let before = *releases.lock();
    assert!(before >= 10, "it keeps these queues");
    sleep(10_000 * MS).await;
    assert_eq!(*releases.lock(), before);
    assert_eq!(redlock.health().await[0].pending_cleanups, 0);
}
