//! Helpers for all rows.

use std::time::Duration;

use redlock_core::{LockError, NodeError, NodeErrorKind, NodeHealth, NodeState, Redlock};
use redlock_tests::{Nodes, Proxy, Server, wait_until};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The longest ttl, so that no test passes because keys ran out.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The key of the resource `job`.
pub(crate) const JOB: &str = "redlock:job";

pub(crate) async fn wait_until_empty(nodes: &[Server]) {
    wait_until("no node has a key", async || nodes.iter().all(|node| node.keys().is_empty())).await;
}

/// Short enough to be waited for, and longer than a busy machine stands still.
pub(crate) const BRIEF: Duration = Duration::from_secs(5);

/// Counts anew which commands the nodes run.
pub(crate) fn forget_calls(nodes: &[Server]) {
    nodes.iter().for_each(|node| drop(node.command(&["CONFIG", "RESETSTAT"])));
}

/// Waits until every node has run a SET since [`forget_calls`], whatever became of the key.
pub(crate) async fn wait_until_set(nodes: &[Server]) {
    wait_until("the SETs have run", async || nodes.iter().all(|node| node.calls("set") > 0)).await;
}

/// A client under which a node that restarted sits out for no longer than this (rule 16).
pub(crate) fn brief(nodes: &Nodes) -> Redlock {
    nodes.client().node_timeout(SECOND).ttl(BRIEF).max_ttl(BRIEF).build().unwrap()
}

/// Nodes whose keys outlive the test, each behind a proxy, and a client that knows the proxies.
pub(crate) async fn behind_proxies(
    count: usize,
    node_timeout: Duration,
) -> (Nodes, Vec<Proxy>, Redlock) {
    let nodes = Nodes::start(count);
    let proxies = nodes.proxies();
    let client = redlock_tests::patient(proxies.iter().map(Proxy::url));
    let client = client.node_timeout(node_timeout).ttl(LONG).build().unwrap();
    nodes.warm_up(&client).await;
    (nodes, proxies, client)
}

/// The failed nodes of a `NoQuorum`; anything else fails the test.
pub(crate) fn failed_nodes(error: &LockError) -> &[NodeError] {
    let LockError::NoQuorum { nodes, .. } = error else { panic!("{error:?}") };
    assert!(error.is_unavailable() && error.retry_after().is_some(), "{error:?}");
    nodes
}

/// Fails the test unless every failure is of this kind and in these words.
pub(crate) fn assert_all_failed(error: &LockError, kind: NodeErrorKind, words: &str) {
    let failed = failed_nodes(error);
    assert!(!failed.is_empty(), "{error}");
    for node in failed {
        assert!(node.kind == kind && node.reason.contains(words), "not {words:?}: {node}");
        assert!(error.to_string().contains(&*node.node), "{error}");
    }
}

/// How the node at this address is.
pub(crate) async fn health(client: &Redlock, address: &str) -> NodeHealth {
    let healths = client.health().await;
    healths.into_iter().find(|health| *health.node == *address).expect("a node of the client")
}

/// Waits until the node is down for a reason with these words in it.
pub(crate) async fn wait_until_down(client: &Redlock, address: &str, words: &str) {
    wait_until(&format!("{address} is down: {words}"), async || {
        match health(client, address).await.state {
            NodeState::Down { error, .. } => error.reason.contains(words),
            _ => false,
        }
    })
    .await;
}

/// Waits until the node is up, whether or not it may vote.
pub(crate) async fn wait_until_up(client: &Redlock, address: &str) {
    wait_until(&format!("{address} is up"), async || health(client, address).await.is_up()).await;
}
