//! Clients of one process that share the gauges of a node.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use redlock_core::{MemoryNode, Redlock};
use tokio::time::sleep;

use super::{MS, name, nodes, recorded, runtime, value};

/// A client of its own over these nodes that has connected to those that answer.
async fn beside(nodes: &[MemoryNode]) -> Redlock {
    let redlock = Redlock::builder().nodes(nodes).build().unwrap();
    drop(redlock.lock(name("warm")).await.unwrap());
    sleep(100 * MS).await;
    redlock
}

/// A gauge of this node.
fn gauge(seen: &PrometheusHandle, node: &MemoryNode, name: &str) -> f64 {
    value(seen, &format!("redlock_node_{name}{{node=\"{}\"}}", node.name()))
}

async fn ends(redlock: Redlock) {
    redlock.shutdown(1000 * MS).await;
    drop(redlock);
    sleep(100 * MS).await;
}

/// The alert on a node that is down must neither fire because a client has ended, nor be silenced by another client.
#[test]
fn a_node_is_up_if_it_is_up_for_each_client_that_uses_it() {
    recorded(|seen| async move {
        let nodes = nodes();
        let up = || gauge(&seen, &nodes[0], "up");
        let (redlock, other) = (beside(&nodes).await, beside(&nodes).await);
        assert_eq!(up(), 1.0);
        ends(other).await;
        assert_eq!(up(), 1.0, "it is up for the client that goes on");

        // The first client is connected, and has not asked since.
        nodes[0].hang();
        let other = beside(&nodes).await;
        assert_eq!(up(), 0.0, "it is not up for the second one");
        // Its task goes on for the delete that it owes.
        ends(other).await;
        assert_eq!(up(), 1.0, "the end of a client takes its own part out");

        nodes[0].resume();
        nodes[0].stop();
        sleep(100 * MS).await;
        assert_eq!(up(), 0.0);
        ends(redlock).await;
        assert_eq!(up(), 1.0, "a node that no client uses is not down");
    });
}

/// Its client may go on elsewhere, and knows nothing of the node until then.
#[test]
fn a_runtime_that_ends_writes_no_node_down() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _local = metrics::set_default_local_recorder(&recorder);
    let nodes = nodes();
    let up = || gauge(&recorder.handle(), &nodes[0], "up");
    let (first, second) = (runtime(), runtime());
    let _clients = [first.block_on(beside(&nodes)), second.block_on(beside(&nodes))];
    drop(second);
    assert_eq!(up(), 1.0);
    drop(first);
    assert_eq!(up(), 1.0);
}

#[test]
fn a_node_sits_out_for_as_long_as_it_does_for_any_client() {
    recorded(|seen| async move {
        let nodes = nodes();
        let until = || gauge(&seen, &nodes[0], "sits_out_until_seconds");
        let redlock = beside(&nodes).await;
        nodes[0].restart_empty();
        sleep(5000 * MS).await;
        let first = until();
        assert!(first > 1e9, "a Unix time");
        let other = beside(&nodes).await;
        assert_eq!(until(), first, "another client sees nothing of the restart");
        ends(other).await;
        assert_eq!(until(), first);
        // It owes a delete, and its task goes on.
        let guard = redlock.lock(name("owed")).await.unwrap();
        nodes[0].hang();
        drop(guard);
        ends(redlock).await;
        assert_eq!(until(), 0.0);
        sleep(5000 * MS).await;
        assert_eq!(gauge(&seen, &nodes[0], "up"), 1.0, "it has lost the connection since");
        nodes[0].resume();
        sleep(1000 * MS).await;
        assert_eq!(until(), 0.0);
    });
}

#[test]
fn the_deletes_that_clients_owe_a_node_are_added_up() {
    recorded(|seen| async move {
        let nodes = nodes();
        let pending = || gauge(&seen, &nodes[0], "pending_cleanups");
        let (redlock, other) = (beside(&nodes).await, beside(&nodes).await);
        let guards = [redlock.lock(name("a")).await.unwrap(), other.lock(name("b")).await.unwrap()];
        nodes[0].stop();
        sleep(100 * MS).await;
        drop(guards);
        sleep(10_000 * MS).await;
        assert_eq!(pending(), 2.0);
        ends(beside(&nodes).await).await;
        assert_eq!(pending(), 2.0, "a client that owes nothing adds nothing");
        // The clean-up of the client that has gone goes on for `max_ttl`.
        ends(other).await;
        assert_eq!(pending(), 2.0);
        sleep(600_000 * MS).await;
        assert_eq!(pending(), 1.0);
        nodes[0].start();
        sleep(5000 * MS).await;
        assert_eq!(pending(), 0.0);
        drop(redlock);
    });
}
