//! When a lock that a watch sees free is a chance: not while another client has its turn.

use std::time::Duration;

use crate::{
    clock::Moment,
    node::NodeHandle,
    op::watch::Watch,
    quorum::Nodes,
    timer::{sleep, timeout},
    wait::watches_after,
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
            () = watch.told() => return,
            () = sleep(turn.since(nodes.clock.now())) => {}
        }
    }
    watch.notified().await;
    // The node that keeps the queue may be the last to hear of the release, and gives the turn with it:
    // to another client, if that has come back to its place.
    if let Some(keeper) = keeper.filter(|_| watch.is_free()) {
        let round_trip = nodes.get(keeper).map_or(Duration::ZERO, NodeHandle::round_trip);
        let patience = watches_after(nodes.round_trip().max(round_trip));
        let _ = timeout(patience, watch.freed_on(keeper)).await;
    }
}
