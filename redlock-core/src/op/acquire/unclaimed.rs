//! When a lock that a watch sees free is a chance: not while another client has its turn.

use std::time::Duration;

use crate::{
    clock::Moment,
    node::NodeHandle,
    op::watch::Watch,
    quorum::Nodes,
    timer::{sleep, timeout},
    wait::{MIN_PAUSE, watches_after},
};

/// Resolves when it is worth asking for the watched lock. Until `turn_of_others` another client has its turn,
/// if one has it. The node `keeper` keeps the queue, and pushes to this client.
pub(super) async fn unclaimed(
    watch: &Watch,
    nodes: &Nodes,
    turn_of_others: Option<Moment>,
    keeper: Option<usize>,
) {
    // While another client has its turn, a free lock is about to be taken. That client may be far
    // away: it would lose each of its turns to a client that is near.
    if let Some(turn) = turn_of_others {
        tokio::select! {
            biased;
            () = watch.told() => {}
            () = sleep(turn.since(nodes.clock.now())) => {}
        }
    }
    watch.notified().await;
    // The node that keeps the queue may be the last to hear of the release, and gives the turn with it:
    // to another client, if that has come back to its place.
    if let Some(keeper) = keeper.filter(|_| watch.is_free()) {
        let round_trip = nodes.get(keeper).map_or(Duration::ZERO, NodeHandle::round_trip);
        let patience = watches_after(nodes.round_trip().max(round_trip));
        if timeout(patience, watch.freed_on(keeper)).await.is_ok() {
            // What that node says of the turn is right behind.
            sleep(MIN_PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::{Redlock, op::watch::watch, testing::nodes};

    #[tokio::test(start_paused = true)]
    async fn the_word_of_the_keeper_of_the_queue_is_awaited_behind_its_change_of_the_lock() {
        let nodes = nodes(3);
        let [holder, redlock] = [(); 2].map(|()| Redlock::builder().nodes(&nodes).build().unwrap());
        let _held = holder.lock("r").await.unwrap();
        drop(redlock.lock("warm").await.unwrap());
        let all = &redlock.client().nodes;
        let watch = watch(all, &"redlock:r".into());
        sleep(MIN_PAUSE).await;
        nodes[1..].iter().for_each(|node| assert!(node.remove("redlock:r")));
        let begun = Instant::now();
        let keeper_hears = async {
            sleep(3 * MIN_PAUSE).await;
            assert!(nodes[0].remove("redlock:r"));
        };
        tokio::join!(unclaimed(&watch, all, None, Some(0)), keeper_hears);
        assert_eq!(begun.elapsed(), 4 * MIN_PAUSE);
    }
}
