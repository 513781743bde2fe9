//! What a request takes from a pause, over in-memory nodes.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{
    fronts::Fronts,
    retries::Chance,
    testing::{first_request, terms},
};
use crate::{
    Redlock,
    error::{NodeError, NodeErrorKind},
    options::LockOptions,
    testing::nodes,
    wait::{FailedAttempt, queue_node},
};

const MINUTE: Duration = Duration::from_secs(60);

/// A writer that is refused in its turn insists on its barrier, and `last` is how it knows.
#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_in_a_hesitation_is_why_the_request_asks() {
    let nodes = nodes(3);
    let [holder, ours] =
        [(); 2].map(|()| Redlock::builder().nodes(&nodes).wait(MINUTE).build().unwrap());
    drop(ours.lock("warm").await.unwrap());
    let held = holder.lock("r").await.unwrap();
    let client = ours.client();
    let terms = terms(client, &LockOptions::new());
    let (mut request, front) = first_request(client, &terms);
    let queue_node = queue_node(&client.nodes, &request.key).unwrap();
    let mut fronts = Fronts::one(front);
    // Each attempt in vain doubles the hesitation.
    for _ in 0..8 {
        request.hesitate(&mut fronts, true).await.unwrap();
    }
    // After a split vote it watches all nodes.
    let split = FailedAttempt { granted: 1, ..FailedAttempt::full() };
    let released = async {
        sleep(Duration::from_secs(1)).await;
        for (index, node) in nodes.iter().enumerate() {
            assert!(index == queue_node || node.remove("redlock:r"));
        }
        // By now the watch has told of a free lock, and the node with the queue has not.
        sleep(Duration::from_millis(10)).await;
        held.release().await.unwrap();
    };
    let (chance, ()) = tokio::join!(request.pause(&mut fronts, Some(&split)), released);
    let entry = fronts.first.entry.as_deref().unwrap();
    // The hesitation is drawn, and is hardly ever shorter.
    let expected = if entry.had_turn() { Chance::Turn } else { Chance::Notified };
    assert_eq!((chance.unwrap(), request.last), (expected, Some(expected)));
}

/// That no permit is left is known from one node. A quorum may lack all the same.
#[tokio::test(start_paused = true)]
async fn only_an_attempt_that_a_quorum_answered_ends_the_deafness() {
    let redlock = Redlock::builder().nodes(nodes(3)).wait(MINUTE).build().unwrap();
    drop(redlock.lock("warm").await.unwrap());
    let client = redlock.client();
    let terms = terms(client, &LockOptions::new());
    for (was_asked, no_quorum, ends) in
        [(false, false, false), (false, true, false), (true, true, false), (true, false, true)]
    {
        let (mut request, front) = first_request(client, &terms);
        request.wake_backoff.notified_without_quorum();
        let failure = FailedAttempt { was_asked, no_quorum, ..FailedAttempt::full() };
        let mut fronts = Fronts::one(front);
        // It is dropped in the pause.
        let _ = timeout(Duration::ZERO, request.pause(&mut fronts, Some(&failure))).await;
        let is_deaf = !request.wake_backoff.deaf_for(MINUTE, MINUTE).is_zero();
        assert_eq!(is_deaf, !ends, "{failure:?}");
    }
}

/// A cluster is connected while any member is. A client that cannot reach the member of its slot keeps its place.
#[tokio::test(start_paused = true)]
async fn a_request_keeps_its_place_if_nothing_that_it_has_asked_can_be_reached() {
    use NodeErrorKind::{Disconnected, Down, Timeout};
    let nodes = nodes(3);
    let [holder, ours] = [(); 2].map(|()| Redlock::builder().nodes(&nodes).build().unwrap());
    let _held = holder.lock("r").await.unwrap();
    drop(ours.lock("warm").await.unwrap());
    let client = ours.client();
    let terms = terms(client, &LockOptions::new().wait(MINUTE));
    for (kinds, no_quorum, stays) in [
        (&[Down, Down, Disconnected][..], true, true),
        (&[Down, Down, Timeout], true, false),
        // The attempt ended before the third node was heard.
        (&[Down, Down], true, false),
        (&[Timeout], false, true),
    ] {
        let (mut request, front) = first_request(client, &terms);
        let mut fronts = Fronts::one(front);
        let refused = FailedAttempt::full();
        let _ = timeout(MINUTE / 60, request.pause(&mut fronts, Some(&refused))).await;
        let place = |fronts: &Fronts| fronts.first.entry.as_ref().map(|entry| entry.place());
        assert_ne!(place(&fronts).unwrap(), 0);
        let failed = |kind: &NodeErrorKind| NodeError::new(&"n".into(), *kind, "gone");
        let nodes = kinds.iter().map(failed).collect();
        let failure = FailedAttempt { no_quorum, nodes, was_asked: true, granted: 0 };
        let _ = timeout(Duration::ZERO, request.pause(&mut fronts, Some(&failure))).await;
        assert_eq!(place(&fronts).is_some(), stays, "{failure:?}");
    }
}
