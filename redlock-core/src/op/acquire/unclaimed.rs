//! When a lock that a watch sees free is a chance: not while another client has its turn.

use crate::{
    clock::Moment,
    op::watch::Watch,
    quorum::Nodes,
    timer::{sleep, timeout},
    wait::{MIN_PAUSE, watches_after},
};

/// Resolves when it is worth asking for the watched lock. Until `turn_of_others` another client has its turn,
/// if one has it. The `queue_node` pushes to this client.
pub(super) async fn unclaimed(
    watch: &Watch,
    nodes: &Nodes,
    turn_of_others: Option<Moment>,
    queue_node: Option<usize>,
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
    // The queue node may be the last to hear of the release, and gives the turn with it:
    // to another client, if that has come back to its place.
    if let Some(queue_node) = queue_node.filter(|_| watch.is_free()) {
        let round_trip = nodes.round_trip_to(queue_node);
        let patience = watches_after(nodes.round_trip().max(round_trip));
        if timeout(patience, watch.freed_on(queue_node)).await.is_ok() {
            // What that node says of the turn is right behind.
            sleep(MIN_PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::{
        MemoryNode, Redlock,
        node::{NodeSpec, intercepted::far_away},
        op::watch::watch,
        testing::nodes,
    };

    /// How long a client over these nodes leaves alone a lock that was released on all of them but the first,
    /// which keeps the queue and hears of the release after `late`.
    async fn left_alone(
        nodes: &[MemoryNode],
        specs: Vec<NodeSpec>,
        turn_of_others: Option<Duration>,
        late: Duration,
    ) -> Duration {
        let holder = Redlock::builder().nodes(nodes).build().unwrap();
        let redlock = Redlock::builder().over(specs);
        let _held = holder.lock("r").await.unwrap();
        drop(redlock.lock("warm").await.unwrap());
        let all = &redlock.client().nodes;
        let watch = watch(all, &"redlock:r".into());
        sleep(Duration::from_millis(100)).await;
        nodes[1..].iter().for_each(|node| assert!(node.remove("redlock:r")));
        let begun = Instant::now();
        let queue_node_hears = async {
            sleep(late).await;
            assert!(nodes[0].remove("redlock:r"));
        };
        let turn = turn_of_others.map(|left| all.clock.now() + left);
        let hears = async {
            unclaimed(&watch, all, turn, Some(0)).await;
            begun.elapsed()
        };
        tokio::join!(hears, queue_node_hears).0
    }

    fn near(nodes: &[MemoryNode]) -> Vec<NodeSpec> {
        nodes.iter().map(MemoryNode::spec).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_word_of_the_queue_node_is_awaited_behind_its_change_of_the_lock() {
        let nodes = nodes(3);
        let left = left_alone(&nodes, near(&nodes), None, 3 * MIN_PAUSE).await;
        assert_eq!(left, 4 * MIN_PAUSE);
    }

    /// It may give the turn to a client that has come back to its place.
    #[tokio::test(start_paused = true)]
    async fn the_word_of_the_queue_node_is_awaited_in_the_turn_of_another_client_too() {
        let nodes = nodes(3);
        let turn = Some(Duration::from_secs(60));
        let left = left_alone(&nodes, near(&nodes), turn, 3 * MIN_PAUSE).await;
        assert_eq!(left, 4 * MIN_PAUSE);
    }

    /// The client with the turn may be far away, and is about to take it.
    #[tokio::test(start_paused = true)]
    async fn a_lock_that_is_seen_free_is_left_to_the_client_with_the_turn() {
        let second = Duration::from_secs(1);
        for (turn_of_others, left_alone) in [(None, Duration::ZERO), (Some(second), second)] {
            let redlock = Redlock::in_memory(3);
            drop(redlock.lock("warm").await.unwrap());
            let all = &redlock.client().nodes;
            let watch = watch(all, &"redlock:r".into());
            sleep(second).await;
            let begun = Instant::now();
            unclaimed(&watch, all, turn_of_others.map(|left| all.clock.now() + left), None).await;
            assert_eq!(begun.elapsed(), left_alone);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_node_that_is_further_away_than_a_quorum_has_the_time_to_speak() {
        let nodes = nodes(3);
        let mut specs = near(&nodes);
        specs[0] = far_away("far", &nodes[0], Duration::from_millis(10));
        let late = Duration::from_millis(45);
        assert_eq!(left_alone(&nodes, specs, None, late).await, late + MIN_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_node_that_says_nothing_is_not_awaited_for_long() {
        let nodes = nodes(3);
        let late = Duration::from_secs(1);
        assert!(left_alone(&nodes, near(&nodes), None, late).await < 5 * watches_after(MIN_PAUSE));
    }
}
