//! Asking the nodes whether they are alive.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};

use super::unheard::Unheard;
use crate::{
    client::Client,
    error::LockError,
    node::{NodeHandle, NodeHealth, NodeState},
    quorum::Twins,
};

/// The health of each node, in their order. Of a server with two names, one is up.
pub(crate) async fn health(client: &Client) -> Vec<NodeHealth> {
    let nodes = &client.nodes;
    client.ensure_moving(nodes.clock.now());
    let mut unheard = Unheard::new(client);
    let mut healths = loop {
        let healths = join_all(nodes.iter().map(NodeHandle::health)).await;
        let failures = healths.iter().filter_map(|health| match &health.state {
            NodeState::Up { .. } => None,
            NodeState::Down { error } => Some(error.clone()),
        });
        let failures: Vec<_> = failures.collect();
        if !unheard.asks_again(&failures, Duration::MAX).await {
            break healths;
        }
    };
    let twins = Twins::preferring(nodes, |index| healths.get(index).is_some_and(NodeHealth::is_up));
    for (index, health) in healths.iter_mut().enumerate() {
        if health.is_up()
            && let Some(error) = twins.refusal(nodes, index)
        {
            health.state = NodeState::Down { error };
        }
    }
    healths
}

/// Returns as soon as a quorum has answered and does not wait for later nodes (rule 14).
pub(crate) async fn check_quorum(client: &Client) -> Result<(), LockError> {
    let begun = client.nodes.clock.now();
    client.ready().await?;
    let nodes = &client.nodes;
    let quorum = nodes.quorum();
    let asked = nodes.iter().enumerate().map(async |(index, node)| (index, node.health().await));
    let mut asked: FuturesUnordered<_> = asked.collect();
    let mut up = BTreeSet::new();
    let mut failed = BTreeMap::new();
    while let Some((index, health)) = asked.next().await {
        match health.state {
            NodeState::Up { .. } => _ = up.insert(index),
            NodeState::Down { error } => _ = failed.insert(index, error),
        }
        // Counted anew each time: a later answer may show that two names are the same server.
        let twins = Twins::preferring(nodes, |index| up.contains(&index));
        if up.iter().filter(|&&index| twins.votes(index)).count() >= quorum {
            return Ok(());
        }
    }
    let twins = Twins::preferring(nodes, |index| up.contains(&index));
    failed.extend(up.iter().filter_map(|&index| Some((index, twins.refusal(nodes, index)?))));
    Err(LockError::NoQuorum {
        resource: String::new(),
        attempts: 1,
        waited: client.nodes.clock.now().since(begun),
        granted: nodes.len() - failed.len(),
        quorum,
        nodes: failed.into_values().collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use crate::{LockError, MemoryNode, Redlock};

    #[tokio::test(start_paused = true)]
    async fn connect_does_not_wait_for_a_node_that_hangs() {
        let nodes: [_; 5] = std::array::from_fn(|_| MemoryNode::new());
        nodes[..2].iter().for_each(MemoryNode::hang);
        let begun = Instant::now();
        Redlock::connect(&nodes).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO);

        nodes[2].hang();
        let error = Redlock::connect(&nodes).await.unwrap_err();
        let LockError::NoQuorum { granted, quorum, nodes: failed, .. } = error else {
            panic!("{error}");
        };
        assert_eq!((granted, quorum), (2, 3));
        let names: Vec<_> = failed.iter().map(|failure| &*failure.node).collect();
        assert_eq!(names, nodes[..3].iter().map(MemoryNode::name).collect::<Vec<_>>());
    }
}
