//! Fencing tokens over real servers: they grow whatever happens to a minority of the counters, one
//! round trip gives them, and a second one where the nodes disagree.

use std::{
    future::IntoFuture,
    time::{Duration, SystemTime},
};

use redlock_core::{
    FencingToken, LockError, LockGuard, MemoryNode, NodeErrorKind, Redlock, Restarts,
};
use redlock_tests::{Command, Nodes, Server, drop_after_every_poll, wait_until};

const LOCK: &str = "redlock:job";
const COUNTER: &str = "redlock:job:{redlock:job}:fence";

async fn fenced(client: &Redlock) -> LockGuard {
    client.lock("job").fenced().await.unwrap()
}

async fn token(client: &Redlock) -> FencingToken {
    let guard = fenced(client).await;
    let token = guard.fencing_token().expect("it was asked for");
    guard.release().await.unwrap();
    token
}

/// Takes a token with each client, and sees that it is larger than all before.
async fn grows(clients: &[Redlock], last: &mut FencingToken, when: &str) {
    for client in clients {
        let next = token(client).await;
        assert!(next > *last, "{when}: {next} after {last}");
        *last = next;
    }
}

fn micros() -> u64 {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(wall.as_micros()).unwrap()
}

/// Each node counts on from another number, above what any clock shows.
fn disagree(nodes: &[Server]) {
    for (index, node) in nodes.iter().enumerate() {
        let number = micros() + 3_600_000_000 * (1 + index as u64);
        node.command(&["SET", COUNTER, &number.to_string()]);
    }
}

/// What restarts, deletes by hand and clocks do is in the suite `fencing`.
#[tokio::test]
async fn tokens_grow_when_counters_expire_when_all_have_gone_and_when_they_disagree() {
    let nodes = Nodes::start(3);
    let clients = [(); 2].map(|()| nodes.client().build().unwrap());
    for client in &clients {
        nodes.warm_up(client).await;
    }
    let mut last = token(&clients[0]).await;
    for node in nodes.iter() {
        node.command(&["PEXPIRE", COUNTER, "1"]);
        wait_until("it has expired", async || node.get(COUNTER).is_none()).await;
        grows(&clients, &mut last, "a counter has expired").await;
    }
    for node in nodes.iter() {
        node.command(&["DEL", COUNTER]);
    }
    grows(&clients, &mut last, "all counters have gone").await;
    disagree(&nodes);
    grows(&clients, &mut last, "the nodes disagree").await;
    grows(&clients, &mut last, "they have agreed").await;
}

#[tokio::test]
async fn counters_share_the_prefix_of_the_lock_and_expire_by_themselves() {
    let nodes = Nodes::start(3);
    let client = nodes.client().build().unwrap();
    nodes.warm_up(&client).await;
    let guard = fenced(&client).await;
    wait_until("all nodes have the lock", async || guard.votes() == 3).await;
    guard.release().await.unwrap();
    wait_until("the locks have gone", async || nodes.holding(LOCK) == 0).await;
    for node in nodes.iter() {
        assert_eq!(node.keys(), [COUNTER]);
        let left = node.ttl(COUNTER).unwrap();
        let day = Duration::from_secs(24 * 60 * 60);
        assert!(left <= day && left > day - Duration::from_secs(600), "{left:?}");
    }
}

/// The scripts that were sent, by how many arguments they had: 2 keys and 5 words draw numbers, 2 and 4
/// confirm them, and 1 key is the release.
fn calls(commands: Vec<Command>) -> Vec<&'static str> {
    let sent = commands.into_iter().filter(|command| !command.is_inside_script());
    sent.map(|command| match (command.name().as_str(), command.words.len()) {
        ("EVAL" | "EVALSHA", 10) => "draw",
        ("EVAL" | "EVALSHA", 9) => "confirm",
        ("EVAL" | "EVALSHA", _) => "release",
        _ => "other",
    })
    .collect()
}

#[tokio::test]
async fn a_token_takes_one_round_trip_and_two_after_a_split() {
    let nodes = Nodes::start(3);
    let client = nodes.client().ttl(Duration::from_secs(60)).build().unwrap();
    nodes.warm_up(&client).await;
    token(&client).await;
    wait_until("all nodes have released", async || nodes.holding(LOCK) == 0).await;
    for (disagrees, confirmed) in [(false, false), (true, true), (false, false)] {
        if disagrees {
            disagree(&nodes);
        }
        let monitors: Vec<_> = nodes.iter().map(|node| node.monitor()).collect();
        let guard = fenced(&client).await;
        wait_until("all nodes have the lock", async || guard.votes() == 3).await;
        guard.release().await.unwrap();
        wait_until("all nodes have released", async || nodes.holding(LOCK) == 0).await;
        let calls: Vec<_> = monitors.into_iter().map(|monitor| calls(monitor.finish())).collect();
        let confirms = calls.iter().filter(|it| **it == ["draw", "confirm", "release"]).count();
        let plain = calls.iter().filter(|it| **it == ["draw", "release"]).count();
        assert_eq!(confirms + plain, 3, "{calls:?}");
        assert_eq!(confirms >= 2, confirmed, "{calls:?}");
        if disagrees {
            // Those that were not asked in time agree now, too.
            nodes.iter().for_each(|node| drop(node.command(&["DEL", COUNTER])));
        }
    }
}

#[tokio::test]
async fn handing_a_fenced_lock_on_costs_next_to_nothing() {
    let nodes = Nodes::start(3);
    let client = nodes.client().ttl(Duration::from_secs(60)).build().unwrap();
    nodes.warm_up(&client).await;
    token(&client).await;
    wait_until("all nodes have released", async || nodes.holding(LOCK) == 0).await;
    let guard = fenced(&client).await;
    let mut last = guard.fencing_token();
    let monitors: Vec<_> = nodes.iter().map(|node| node.monitor()).collect();
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { fenced(&client).await.fencing_token() })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(guard);
    for task in waiting {
        let token = task.await.unwrap();
        assert!(token > last, "{token:?} after {last:?}");
        last = token;
    }
    wait_until("all nodes have released", async || nodes.holding(LOCK) == 0).await;
    for monitor in monitors {
        let calls = calls(monitor.finish());
        assert!(calls.len() < 15, "0.3 for each of 50: {calls:?}");
    }
}

#[tokio::test]
async fn where_scripts_are_refused_each_node_says_so() {
    let rules = ["locks", "on", ">secret", "~redlock:*", "+@all", "-eval", "-evalsha"];
    let nodes = Nodes::start_as(3, &Server::builder().user(&rules));
    let urls = nodes.iter().map(|node| format!("redis://locks:secret@{}", node.address()));
    let client = redlock_tests::patient(urls).build().unwrap();
    let error = client.try_lock("job").fenced().await.unwrap_err();
    let LockError::NoQuorum { nodes, .. } = &error else { panic!("{error}") };
    assert!(nodes.len() >= 2, "{error}");
    for node in nodes {
        assert!(matches!(node.kind, NodeErrorKind::Server | NodeErrorKind::Down), "{node}");
        assert!(node.reason.contains("NOPERM") && node.reason.contains("+evalsha"), "{node}");
    }
}

#[tokio::test]
async fn where_the_time_is_refused_a_plain_lock_works_and_a_fenced_one_says_why() {
    let rules = ["locks", "on", ">secret", "~redlock:*", "+@all", "-time"];
    let nodes = Nodes::start_as(3, &Server::builder().user(&rules));
    let urls = nodes.iter().map(|node| format!("redis://locks:secret@{}", node.address()));
    let client = redlock_tests::patient(urls).build().unwrap();
    client.lock("job").await.unwrap().release().await.unwrap();
    let error = client.try_lock("job").fenced().await.unwrap_err();
    let LockError::NoQuorum { nodes: failed, .. } = &error else { panic!("{error}") };
    for node in failed {
        assert!(node.reason.contains("+time for a fencing token"), "{node}");
    }
    wait_until("no key is left", async || nodes.are_empty()).await;
}

/// Three nodes that disagree, so that a fenced lock takes a second round trip.
async fn split() -> (Vec<MemoryNode>, Redlock) {
    let nodes: Vec<_> = (0..3).map(|_| MemoryNode::new()).collect();
    let client = |nodes: &[MemoryNode]| {
        let client = Redlock::builder().nodes(nodes).restarts(Restarts::Trusted);
        client.ttl(Duration::from_secs(50)).build().unwrap()
    };
    for (index, node) in nodes.iter().enumerate() {
        let alone = client(std::slice::from_ref(node));
        for _ in 0..=index {
            token(&alone).await;
        }
    }
    let all = client(&nodes);
    (nodes, all)
}

#[tokio::test(start_paused = true)]
#[allow(clippy::async_yields_async)] // the harness polls the returned future itself
async fn a_fenced_lock_that_is_given_up_at_any_await_leaves_no_key() {
    for waits in [false, true] {
        let mut worlds = Vec::new();
        let guard = drop_after_every_poll(async || {
            let (nodes, client) = split().await;
            let before = if waits { Some(client.lock("job").await.unwrap()) } else { None };
            if let Some(before) = before {
                // It passes to the request without a token, which draws numbers then.
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    drop(before);
                });
            }
            let request = client.lock("job").fenced();
            worlds.push((nodes, client));
            request.into_future()
        })
        .await
        .unwrap();
        assert!(guard.fencing_token().is_some());
        drop(guard);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(worlds.len() > 2, "it has an await");
        for (nodes, _client) in &worlds {
            assert!(nodes.iter().all(|node| node.keys().is_empty()));
        }
    }
}
