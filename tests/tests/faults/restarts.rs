//! Rows 3, 4, 23 and 45: nodes that forget the locks they granted, or come back with them (rules 8
//! and 16).

use std::time::Duration;

use redlock_core::{Builder, LockError, LockGuard, NodeErrorKind, Redlock, Released, Restarts};
use redlock_tests::{LIMIT, Nodes, Proxy, Server, history::History, patient, wait_until};

use crate::support::{
    JOB, SECOND, brief, failed_nodes, health, wait_until_down, wait_until_empty, wait_until_up,
};

/// Waits until the node is back for this client, and has to sit out.
async fn wait_until_sits_out(client: &Redlock, node: &Server) {
    wait_until_up(client, &node.address()).await;
    let health = health(client, &node.address()).await;
    assert!(health.sits_out.is_some(), "it votes: {health:?}");
}

/// Two clients of three nodes that ran before any fault. The holder cannot reach the last node: its
/// lock is on the first two alone. If one of these forgets, the lock is lost.
struct Divided {
    nodes: Nodes,
    holder: Redlock,
    other: Redlock,
    _proxies: Vec<Proxy>,
}

const MAX_TTL: Duration = Duration::from_secs(6);

async fn divided(nodes: Nodes, others: Restarts) -> Divided {
    let proxies = nodes.proxies();
    let build = |client: Builder| {
        client.node_timeout(SECOND).ttl(MAX_TTL).max_ttl(MAX_TTL).build().unwrap()
    };
    let holder = build(patient(proxies.iter().map(Proxy::url)));
    let other = build(nodes.client().restarts(others));
    nodes.warm_up(&holder).await;
    nodes.warm_up(&other).await;
    proxies[2].refuse();
    proxies[2].cut();
    wait_until_down(&holder, &proxies[2].address(), "refused").await;
    Divided { nodes, holder, other, _proxies: proxies }
}

/// Lets the other client try for the lock until it gets it, and fails if the holder still had it.
async fn take_over(other: &Redlock, guard: LockGuard) {
    let history = History::new();
    let mut holds = history.begin("job", "holder");
    let next = loop {
        holds.confirm(|| guard.is_valid());
        if let Ok(next) = other.try_lock("job").await {
            break next;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let mut intrudes = history.begin("job", "other");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(intrudes.confirm(|| next.is_valid()));
    holds.confirm(|| guard.is_valid());
    drop((holds, intrudes));
    history.assert_exclusive();
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
    assert_eq!(next.release().await.unwrap(), Released::Ours);
}

#[tokio::test]
async fn row_03_a_node_that_restarts_empty_lets_no_client_in() {
    let Divided { nodes, holder, other, _proxies } =
        divided(Nodes::start(3), Restarts::Observed).await;
    let guard = holder.lock("job").await.unwrap();
    assert_eq!(guard.votes(), 2);
    nodes[1].restart_empty();
    assert!(nodes[1].keys().is_empty());

    // This node would grant, and so would the third: together they would be a quorum.
    wait_until_sits_out(&other, &nodes[1]).await;
    let early = other.try_lock("job").await;
    if guard.is_valid() {
        let error = early.unwrap_err();
        assert!(error.is_held() && error.to_string().contains("sits out"), "{error}");
    }
    // The holder has no quorum any more, so the lock ends with its validity, and not before.
    take_over(&other, guard).await;
    nodes.warm_up(&other).await;
}

// Its holder renews while the test waits for the server to start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_03_a_node_that_restarts_empty_has_the_lock_again_before_it_votes() {
    let nodes = Nodes::start(3);
    let build = || nodes.client().ttl(MAX_TTL).max_ttl(MAX_TTL).build().unwrap();
    let (holder, other) = (build(), build());
    nodes.warm_up(&other).await;
    let guard = holder.lock("job").await.unwrap();
    wait_until("all nodes hold the lock", async || guard.votes() == 3).await;
    restart_under(std::slice::from_ref(&guard), &nodes[1]).await;
    wait_until("it votes again", async || {
        let health = health(&other, &nodes[1].address()).await;
        let error = other.try_lock("job").await.unwrap_err();
        assert!(error.is_held() && guard.is_valid(), "{error:?}");
        health.is_up() && health.sits_out.is_none()
    })
    .await;
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    nodes.warm_up(&other).await;
}

#[tokio::test]
async fn row_03_without_sitting_out_two_clients_get_the_lock() {
    let Divided { nodes, holder, other, _proxies } =
        divided(Nodes::start(3), Restarts::Trusted).await;
    let guard = holder.lock("job").auto_extend(false).await.unwrap();
    nodes[1].restart_empty();
    wait_until_up(&other, &nodes[1].address()).await;
    // The node is trusted, though it does not persist: two clients hold one lock.
    let intruder = other.try_lock("job").await;
    if guard.is_valid() {
        assert!(intruder.unwrap().is_valid(), "the row above proves nothing");
    }
}

#[tokio::test]
async fn row_04_a_node_that_restarts_with_its_data_keeps_the_lock_and_sits_out_unless_trusted() {
    let nodes = Nodes::start_as(3, &Server::builder().append_only());
    let [observed, trusted] = [Restarts::Observed, Restarts::Trusted].map(|restarts| {
        nodes.client().ttl(MAX_TTL).max_ttl(MAX_TTL).restarts(restarts).build().unwrap()
    });
    nodes.warm_up(&observed).await;
    nodes.warm_up(&trusted).await;
    let guard = observed.lock("job").auto_extend(false).await.unwrap();
    wait_until("all nodes hold the lock", async || guard.votes() == 3).await;
    let node = &nodes[1];
    let before = node.ttl(JOB).unwrap();
    node.kill();
    node.start_again();
    if let Some(after) = node.ttl(JOB) {
        assert!(after < before, "{after:?} after {before:?}");
    } else {
        assert!(!guard.is_valid(), "the key is gone before its time");
    }

    wait_until_sits_out(&observed, node).await;
    wait_until_up(&trusted, &node.address()).await;
    assert_eq!(health(&trusted, &node.address()).await.sits_out, None);
    let all = trusted.lock("trusted").await.unwrap();
    wait_until("it votes for the client that trusts it", async || all.votes() == 3).await;
    all.release().await.unwrap();
    let asked = observed.try_lock("job").await;
    if guard.is_valid() {
        assert!(asked.is_err_and(|error| error.is_held()), "it has the lock");
    }
    drop(guard);
    nodes.warm_up(&observed).await;
}

#[tokio::test]
async fn row_04_a_node_that_lost_what_it_had_written_lets_no_client_in() {
    let nodes = Nodes::start_as(3, &Server::builder().append_only());
    let Divided { nodes, holder, other, _proxies } = divided(nodes, Restarts::Observed).await;
    let guard = holder.lock("job").await.unwrap();
    nodes[1].kill();
    nodes[1].lose_append_only_file();
    nodes[1].start_again();
    assert_eq!(nodes[1].get(JOB), None);
    wait_until_sits_out(&other, &nodes[1]).await;
    take_over(&other, guard).await;
}

#[tokio::test]
async fn row_23_a_master_that_was_a_replica_for_a_while_lets_no_client_in() {
    let Divided { nodes, holder, other, _proxies } =
        divided(Nodes::start(3), Restarts::Observed).await;
    let guard = holder.lock("job").await.unwrap();
    // Its data are the other server's from then on. Its process stays the same.
    let elsewhere = Server::start();
    nodes[1].command(&["REPLICAOF", "127.0.0.1", &elsewhere.port().to_string()]);
    wait_until("it is noticed", async || {
        let _ = other.try_lock("noticed").await;
        !health(&other, &nodes[1].address()).await.is_up()
    })
    .await;
    wait_until("it has lost its data", async || nodes[1].get(JOB).is_none()).await;
    nodes[1].command(&["REPLICAOF", "NO", "ONE"]);
    wait_until_sits_out(&other, &nodes[1]).await;
    take_over(&other, guard).await;
}

/// Tries to take the locks of other clients until told to stop, and records each success.
async fn intrude(
    client: Redlock,
    resources: Vec<String>,
    history: History,
    mut stop: tokio::sync::watch::Receiver<bool>,
) {
    while !*stop.borrow_and_update() {
        for resource in &resources {
            if let Ok(guard) = client.try_lock(resource).await {
                let mut recording = history.begin(resource, "intruder");
                tokio::time::sleep(Duration::from_millis(1)).await;
                recording.confirm(|| guard.is_valid());
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Restarts the node empty, and waits until every lock is on it again.
async fn restart_under(guards: &[LockGuard], node: &Server) {
    node.restart_empty();
    wait_until("every lock is on the restarted node", async || {
        assert!(guards.iter().all(LockGuard::is_valid), "a lock was lost");
        guards.iter().all(|guard| node.get(&format!("redlock:{}", guard.resource())).is_some())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_45_a_rolling_restart_faster_than_max_ttl_loses_no_lock_and_lets_no_client_in() {
    let nodes = Nodes::start(5);
    let max_ttl = 15 * SECOND;
    let client = || nodes.client().ttl(6 * SECOND).max_ttl(max_ttl).build().unwrap();
    let (holder, other) = (client(), client());
    nodes.warm_up(&holder).await;
    nodes.warm_up(&other).await;
    let history = History::new();
    let mut guards = Vec::new();
    let mut recordings = Vec::new();
    for number in 0..100 {
        let guard = holder.lock(format!("held:{number}")).await.unwrap();
        recordings.push(history.begin(guard.resource(), "holder"));
        guards.push(guard);
    }
    let (tell, stop) = tokio::sync::watch::channel(false);
    let resources = guards.iter().map(|guard| guard.resource().to_owned()).collect();
    let intruder = tokio::spawn(intrude(other.clone(), resources, history.clone(), stop));

    for node in nodes.iter() {
        restart_under(&guards, node).await;
    }
    // New locks wait until a quorum may vote again.
    let sit_out = other.health().await.iter().filter(|node| node.sits_out.is_some()).count();
    let new = other.try_lock("new").await;
    let still = other.health().await.iter().filter(|node| node.sits_out.is_some()).count();
    if sit_out >= 3 && still >= 3 {
        let error = new.unwrap_err();
        let failed = failed_nodes(&error);
        assert!(failed.iter().all(|node| node.kind == NodeErrorKind::SitsOut), "{error}");
    }
    let new = other.lock("new").wait(LIMIT).await.unwrap();
    assert_eq!(new.release().await.unwrap(), Released::Ours);

    tell.send_replace(true);
    intruder.await.unwrap();
    for (recording, guard) in recordings.iter_mut().zip(&guards) {
        assert!(recording.confirm(|| guard.is_valid()), "{} was lost", guard.resource());
    }
    drop(recordings);
    history.assert_exclusive();
    for guard in guards {
        assert_eq!(guard.release().await.unwrap(), Released::Ours);
    }
    wait_until_empty(&nodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_45_a_rolling_restart_slower_than_max_ttl_is_not_noticed() {
    let nodes = Nodes::start(3);
    let (holder, other) = (brief(&nodes), brief(&nodes));
    nodes.warm_up(&other).await;
    let guard = holder.lock("job").wait(LIMIT).await.unwrap();
    for node in nodes.iter() {
        restart_under(std::slice::from_ref(&guard), node).await;
        let new = other.lock("new").wait(LIMIT).await.unwrap();
        new.release().await.unwrap();
        let error = other.try_lock("job").await.unwrap_err();
        assert!(!matches!(error, LockError::NoQuorum { .. }) || !guard.is_valid(), "{error:?}");
        wait_until("it votes again", async || {
            let health = health(&other, &node.address()).await;
            health.is_up() && health.sits_out.is_none()
        })
        .await;
    }
    assert!(guard.is_valid());
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
}
