//! The events that an operator sees, and the events that would be noise: over nodes in memory on
//! paused time.

mod connections;

use std::{future::IntoFuture, time::Duration};

use redlock_core::{
    Credentials, LockError, MemoryNode, Node, Redlock, Released, Restarts, redlock,
};
use redlock_tests::Events;
use tokio::time::sleep;

const MS: Duration = Duration::from_millis(1);

fn client(nodes: &[MemoryNode]) -> Redlock {
    Redlock::builder().nodes(nodes).restarts(Restarts::Trusted).build().unwrap()
}

/// By a setting that no client can have, or by a resource that cannot be locked, with a body or without.
#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_work_is_warned_of() {
    let events = Events::record();
    let redlock = Redlock::in_memory(1);
    let requests = [("r", Duration::ZERO), ("", Duration::from_secs(30))];
    for (resource, ttl) in requests {
        let request = || redlock.lock(resource).ttl(ttl);
        request().await.unwrap_err();
        request().run(async |_| ()).await.unwrap_err();
    }
    let told = events.warnings();
    assert!(told.len() == 4 && told.iter().all(|it| it.contains("lock refused")), "{told:?}");
    assert!(told[..2].iter().all(|it| it.contains("resource=\"r\"")), "{told:?}");
}

/// Without a quorum, with a setting that cannot work, and in a pool that is not there.
#[tokio::test(start_paused = true)]
async fn a_refusal_names_its_resource_and_a_mistake_its_label_too() {
    #[redlock(resource = "r", pool = "not there", label = "work")]
    async fn work() -> Result<(), LockError> {
        Ok(())
    }
    let events = Events::record();
    let redlock = Redlock::in_memory(1);
    redlock.lock("r").label("work").ttl(Duration::ZERO).await.unwrap_err();
    work().await.unwrap_err();
    redlock.memory_nodes()[0].stop();
    redlock.try_lock("r").await.unwrap_err();
    let told = events.warnings();
    let refused: Vec<_> = told.iter().filter(|it| it.starts_with("lock refused")).collect();
    assert_eq!(refused.len(), 3, "{told:?}");
    assert!(refused.iter().all(|it| it.contains("resource=\"r\"")), "{told:?}");
    assert!(refused[..2].iter().all(|it| it.contains("label=\"work\"")), "{told:?}");
}

/// Once each, however the lock came and however it went.
#[tokio::test(start_paused = true)]
async fn a_log_of_all_levels_tells_when_each_lock_was_acquired_and_released() {
    let events = Events::record_traces();
    let redlock = Redlock::in_memory(3);
    let guard = redlock.lock("r").await.unwrap();
    // In the same process, a lock passes from task to task without a question to the nodes.
    let waits = tokio::spawn(redlock.lock("r").into_future());
    sleep(4000 * MS).await;
    drop(guard);
    drop(waits.await.unwrap().unwrap());
    redlock.lock("r").run(async |_| ()).await.unwrap();
    drop(redlock.lock("other").auto_extend(false).ttl(1000 * MS).await.unwrap().release().await);
    // One that is handed over is released by its adopter.
    let lease = redlock.lock("moves").await.unwrap().into_lease();
    drop(redlock.adopt(lease).await.unwrap());
    let traces = events.traces();
    let told = |what: &str| traces.iter().filter(|it| it.contains(what)).count();
    assert_eq!((told("lock acquired"), told("lock released")), (6, 5), "{traces:#?}");
    assert_eq!(told("lock released resource=\"r\" held=4s"), 1, "{traces:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_campaign_warns_once_while_too_few_nodes_give_votes() {
    let events = Events::record();
    let nodes: [_; 3] = std::array::from_fn(|_| MemoryNode::new());
    let redlock = client(&nodes);
    let campaign = tokio::spawn(async move {
        redlock.lead("r").run(|_| std::future::pending::<std::ops::ControlFlow<()>>()).await
    });
    let words = ["no quorum to elect a leader", "1 of 3 nodes"];
    sleep(60_000 * MS).await;
    assert!(!events.warned_of(&words[..1]));
    for outages in 1..3 {
        nodes[1..].iter().for_each(MemoryNode::stop);
        sleep(3_600_000 * MS).await;
        let told = events.warnings();
        let missing = told.iter().filter(|it| words.iter().all(|word| it.contains(word)));
        assert_eq!(missing.count(), outages, "{told:?}");
        nodes[1..].iter().for_each(MemoryNode::start);
        sleep(60_000 * MS).await;
    }
    campaign.abort();
}

#[redlock(resource = "r", pool = "none of these")]
async fn of_no_pool() -> Result<(), LockError> {
    unreachable!("it has no lock")
}

#[tokio::test(start_paused = true)]
async fn a_body_that_cannot_have_its_lock_is_warned_of() {
    let events = Events::record();
    of_no_pool().await.unwrap_err();
    let redlock = Redlock::in_memory(1);
    let within =
        redlock.lock("r").run(async |_| redlock.lock("r").fenced().run(async |_| ()).await);
    within.await.unwrap().unwrap_err();
    let told = events.warnings();
    assert!(told.len() == 2 && told.iter().all(|it| it.contains("lock refused")), "{told:?}");
}

/// As that of nodes is, whether it comes from a URL or from a provider.
#[test]
fn a_password_of_sentinels_that_is_sent_in_the_clear_is_warned_of() {
    // One of them is enough.
    for (host, times) in [("sentinel.example", 1), ("127.0.0.2", 0)] {
        let events = Events::record();
        let urls = ["127.0.0.1", host].map(|host| format!("redis://{host}:26379"));
        let node = Node::sentinel("m", urls)
            .sentinel_credentials(|| async { Ok(Credentials::new("watch", "pass")) });
        let _redlock = Redlock::builder().nodes([node]).build().unwrap();
        let told = events.warnings();
        assert!(told.iter().all(|it| it.contains("unencrypted")), "{told:?}");
        assert_eq!(told.len(), times, "{told:?}");
    }
}

/// No key is expected on a node that never had the lock, or that was only asked for it.
#[tokio::test(start_paused = true)]
async fn a_node_that_has_not_voted_is_not_warned_of_for_missing_the_lock() {
    let events = Events::record();
    let nodes: [_; 5] = std::array::from_fn(|_| MemoryNode::new());
    let redlock = client(&nodes);
    drop(redlock.lock("warm").await.unwrap());
    sleep(100 * MS).await;
    nodes[3].stop();
    sleep(100 * MS).await;
    assert!(events.warned_of(&["node down", nodes[3].name()]), "{:?}", events.warnings());
    nodes[4].hang();
    let guard = redlock.lock("r").ttl(9000 * MS).await.unwrap();
    assert_eq!(guard.votes(), 3);
    nodes[3].start();
    sleep(1000 * MS).await;
    // The command is dropped before it has run.
    nodes[4].stop();
    nodes[4].clear();
    nodes[4].start();
    sleep(20_000 * MS).await;
    assert_eq!(guard.votes(), 5, "healed");
    assert!(!events.warned_of(&["odd expiry"]), "{:?}", events.warnings());
    // In contrast to a node that had it.
    nodes[4].remove("redlock:r");
    sleep(9000 * MS).await;
    assert!(events.warned_of(&["odd expiry", nodes[4].name()]), "{:?}", events.warnings());
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
}

/// At debug level, a trace tells of each attempt which nodes gave no vote, and of each wake-up why.
#[tokio::test(start_paused = true)]
async fn a_trace_tells_the_votes_of_each_attempt_and_the_cause_of_each_wake_up() {
    let events = Events::record_traces();
    let told = |words: &str| events.traces().iter().filter(|line| line.contains(words)).count();
    let nodes: [_; 3] = std::array::from_fn(|_| MemoryNode::new());
    let (redlock, other) = (client(&nodes), client(&nodes));
    let guard = redlock.lock("r").label("kind").await.unwrap();
    let span = "redlock.acquire resource=\"r\" label=\"kind\"";
    assert_eq!(told(span), 1, "{:#?}", events.traces());
    // The nodes answer at the same moment, so the number of votes that are counted by then does not
    // matter.
    let granted = |line: &&String| {
        line.contains("answered attempt=1 granted=") && line.contains("refused=0 failed=0")
    };
    assert_eq!(events.traces().iter().filter(granted).count(), 1, "{:#?}", events.traces());

    let release = async {
        sleep(300 * MS).await;
        guard.release().await
    };
    let (guard, _) = tokio::join!(other.lock("r").into_future(), release);
    assert_eq!(told("attempt answered attempt=1 granted=0 refused="), 1, "{:#?}", events.traces());
    assert_eq!(told("asking again cause=\"turn\""), 1, "{:#?}", events.traces());
    assert_eq!(told("redlock.acquire resource=\"r\""), 2);
    drop(guard);

    let (first, second) = (other.lock("s").await.unwrap(), other.lock("s").into_future());
    let release = async {
        sleep(10 * MS).await;
        drop(first);
    };
    let (second, ()) = tokio::join!(second, release);
    assert_eq!(told("asking again cause=\"handed_over\""), 1, "{:#?}", events.traces());
    drop(second);

    nodes[0].hang();
    nodes[1].hang();
    other.try_lock("t").await.unwrap_err();
    let lines = events.traces();
    let failed = lines.iter().position(|line| line.contains("granted=1 refused=0 failed=2"));
    let failed = failed.unwrap_or_else(|| panic!("{lines:#?}"));
    for node in &nodes[..2] {
        let of_node = |line: &&String| line.contains("no vote") && line.contains(node.name());
        assert_eq!(lines[failed..].iter().filter(of_node).count(), 1, "{lines:#?}");
    }
}

#[redlock(resource = "order:{id}", client = locks)]
async fn labelled_by_its_template(locks: &Redlock, id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[redlock(resource = "order:{id}", label = "orders", client = locks)]
async fn labelled(locks: &Redlock, id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[redlock(resource = id.to_string(), client = locks)]
async fn without_label(locks: &Redlock, id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[tokio::test(start_paused = true)]
async fn an_annotation_is_labelled_by_its_template() {
    let events = Events::record_traces();
    let locks = Redlock::in_memory(3);
    labelled_by_its_template(&locks, 7).await.unwrap();
    labelled(&locks, 8).await.unwrap();
    without_label(&locks, 9).await.unwrap();
    let mut spans = events.traces();
    spans.retain(|line| line.starts_with("redlock."));
    assert_eq!(
        spans,
        [
            r#"redlock.acquire resource="order:7" label="order:{id}""#,
            r#"redlock.body resource="order:7" label="order:{id}""#,
            r#"redlock.acquire resource="order:8" label="orders""#,
            r#"redlock.body resource="order:8" label="orders""#,
            r#"redlock.acquire resource="9""#,
            r#"redlock.body resource="9""#,
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_taken_away_by_hand_is_an_event() {
    let events = Events::record();
    let redlock = Redlock::in_memory(3);
    let _guard = redlock.lock("r").await.unwrap();
    redlock.force_release("r").await.unwrap();
    let words = ["lock taken away by hand on 3 of 3 nodes", "resource=\"r\""];
    assert!(events.warned_of(&words), "{:?}", events.warnings());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_renewed_was_held_since_it_was_asked_for() {
    let events = Events::record_traces();
    let redlock = Redlock::in_memory(3);
    let guard = redlock.lock("r").await.unwrap();
    sleep(100_000 * MS).await;
    drop(guard);
    let traces = events.traces();
    assert!(traces.iter().any(|it| it.contains("held=100s")), "{traces:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_campaign_tells_that_the_quorum_is_back() {
    let events = Events::record_traces();
    let nodes: [_; 3] = std::array::from_fn(|_| MemoryNode::new());
    let redlock = client(&nodes);
    let campaign = tokio::spawn(async move {
        redlock.lead("r").run(|_| std::future::pending::<std::ops::ControlFlow<()>>()).await
    });
    sleep(5000 * MS).await;
    nodes[1..].iter().for_each(MemoryNode::stop);
    sleep(60_000 * MS).await;
    nodes[1..].iter().for_each(MemoryNode::start);
    sleep(60_000 * MS).await;
    campaign.abort();
    let traces = events.traces();
    assert!(traces.iter().any(|it| it.contains("quorum") && it.contains("3 of 3")), "{traces:#?}");
}
