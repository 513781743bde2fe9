//! Waiting for a lock that another process has: the waiter is woken, whichever way the holder
//! releases, and asks for nothing meanwhile. No waiter here asks by itself before minutes are over,
//! so a lost wake-up fails the test.

use std::{
    future::IntoFuture,
    time::{Duration, Instant},
};

use futures_util::StreamExt;
use redlock_core::{Builder, LockError, LockGuard, Redlock, Restarts};
use redlock_tests::{LIMIT, Monitor, Nodes, history::History, wait_until, within};
use tokio::task::JoinHandle;

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(600);
const KEY: &str = "redlock:job";

fn woken_or_never(nodes: &Nodes) -> Builder {
    nodes.client().wait(NEVER).retry_delay(NEVER)
}

async fn client(nodes: &Nodes) -> Redlock {
    let client = woken_or_never(nodes).build().unwrap();
    nodes.warm_up(&client).await;
    client
}

type Waiting = JoinHandle<Result<LockGuard, LockError>>;

/// A waiter that has asked once, and has had every node promise to tell it.
async fn waiting(nodes: &Nodes, client: &Redlock) -> Waiting {
    let waiting = tokio::spawn(client.lock("job").into_future());
    wait_until("every node tracks the key", async || {
        nodes.iter().all(|node| tracked(&node.info("stats")) > 0)
    })
    .await;
    assert!(!waiting.is_finished());
    waiting
}

fn tracked(stats: &str) -> usize {
    let keys = stats.lines().find_map(|line| line.strip_prefix("tracking_total_keys:"));
    keys.unwrap().trim().parse().unwrap()
}

/// How often a server has run a command.
fn calls(stats: &str, command: &str) -> usize {
    let mut lines = stats.lines();
    let line = lines.find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|line| line.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
}

async fn gets_it(waiting: Waiting) -> LockGuard {
    within("the waiter", waiting).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_waiter_is_woken_when_another_process_lets_go() {
    let nodes = Nodes::start(5);
    let (ours, theirs) = (client(&nodes).await, client(&nodes).await);
    let guard = theirs.lock("job").await.unwrap();
    let next = waiting(&nodes, &ours).await;
    guard.release().await.unwrap();
    drop(gets_it(next).await);
}

#[tokio::test]
async fn a_waiter_is_woken_by_another_implementation() {
    let nodes = Nodes::start(3);
    let ours = client(&nodes).await;
    nodes.iter().for_each(|node| drop(node.command(&["SET", KEY, "theirs", "PX", "600000"])));
    let next = waiting(&nodes, &ours).await;
    // Renewed, and released later.
    nodes.iter().for_each(|node| drop(node.command(&["PEXPIRE", KEY, "600000"])));
    nodes.iter().for_each(|node| drop(node.command(&["DEL", KEY])));
    drop(gets_it(next).await);
}

#[tokio::test]
async fn a_waiter_is_woken_when_a_crashed_holder_runs_out() {
    let nodes = Nodes::start(5);
    let ours = client(&nodes).await;
    nodes.iter().for_each(|node| drop(node.command(&["SET", KEY, "crashed", "PX", "6000"])));
    let next = waiting(&nodes, &ours).await;
    drop(gets_it(next).await);
}

#[tokio::test]
async fn a_waiter_is_woken_by_nodes_that_come_back_and_by_shutdown() {
    let nodes = Nodes::start(3);
    let trusting = woken_or_never(&nodes).restarts(Restarts::Trusted).build().unwrap();
    nodes.warm_up(&trusting).await;
    nodes.iter().take(2).for_each(|node| node.kill());
    let next = tokio::spawn(trusting.lock("job").into_future());
    wait_until("a node is seen down", async || {
        trusting.health().await.iter().filter(|health| !health.is_up()).count() == 2
    })
    .await;
    nodes.iter().take(2).for_each(|node| node.start_again());
    let guard = gets_it(next).await;

    let in_line = tokio::spawn(trusting.lock("job").into_future());
    let elsewhere = client(&nodes).await;
    let at_the_nodes = waiting(&nodes, &elsewhere).await;
    trusting.shutdown(Duration::ZERO).await;
    elsewhere.shutdown(Duration::ZERO).await;
    for waiting in [in_line, at_the_nodes] {
        let error = within("the waiter", waiting).await.unwrap().unwrap_err();
        assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
    }
    drop(guard);
}

#[tokio::test]
async fn where_nothing_is_pushed_a_waiter_asks_now_and_then() {
    let nodes = Nodes::start(3);
    let urls = nodes.urls().into_iter().map(|url| format!("{url}/?protocol=resp2"));
    let polling = redlock_tests::patient(urls).wait(NEVER).build().unwrap();
    nodes.warm_up(&polling).await;
    let theirs = client(&nodes).await;
    let guard = theirs.lock("job").await.unwrap();
    let next = tokio::spawn(polling.lock("job").into_future());
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!next.is_finished());
    guard.release().await.unwrap();
    drop(gets_it(next).await);
}

#[tokio::test]
async fn a_waiter_asks_each_node_once() {
    let nodes = Nodes::start(3);
    let (ours, theirs) = (client(&nodes).await, client(&nodes).await);
    let guard = theirs.lock("job").await.unwrap();
    wait_until("all nodes have the lock", async || nodes.holding(KEY) == 3).await;
    let monitors: Vec<_> = nodes.iter().map(|node| node.monitor()).collect();
    let begun = Instant::now();
    let next = waiting(&nodes, &ours).await;
    let behind = tokio::spawn(ours.lock("job").into_future());
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (mut cleaned_up, mut queues) = (0, 0);
    let seen: Vec<_> = monitors.into_iter().map(Monitor::finish).collect();
    // An entry of a queue is refreshed every 1.5 s, and a busy machine may take that long for all this.
    let most_refreshes = (begun.elapsed().as_millis() / 1500) as usize;
    for seen in seen {
        let sent = seen.iter().filter(|command| !command.is_inside_script());
        // INFO is what the harness itself asks. The first call of a script has its source.
        let mut sent: Vec<String> = sent
            .map(|command| command.name().replace("EVALSHA", "EVAL"))
            .filter(|name| name != "INFO")
            .collect();
        let scripts = sent.iter().filter(|name| *name == "EVAL").count();
        sent.retain(|name| name != "EVAL");
        // The first waiter tells each node that a writer waits, for the case that there are readers.
        let (mut expected, mut refreshes) = (1, 0);
        if sent.iter().any(|name| name == "MGET") {
            // This node keeps the queue, and gets the joins.
            assert_eq!(sent, ["SET", "CLIENT", "MGET", "CLIENT", "PTTL"]);
            expected += 1;
            refreshes = most_refreshes;
            queues += 1;
        } else {
            assert_eq!(sent, ["SET", "CLIENT", "PTTL"]);
        }
        // A node that had not answered when the other two had decided is cleaned up (rule 5).
        let most = expected + 1 + refreshes;
        assert!((expected..=most).contains(&scripts), "{scripts} of {expected}");
        cleaned_up += (scripts - expected).saturating_sub(refreshes);
    }
    assert!(cleaned_up <= 1, "two of three decide");
    assert_eq!(queues, 1);
    drop(guard);
    drop(gets_it(next).await);
    drop(gets_it(behind).await);
}

/// The first renewal shows that the holder renews. The others are no reason to ask.
#[tokio::test]
async fn a_waiter_stays_quiet_while_the_holder_renews() {
    let nodes = Nodes::start(5);
    let (ours, theirs) = (client(&nodes).await, client(&nodes).await);
    let guard = theirs.lock("job").ttl(Duration::from_secs(6)).await.unwrap();
    let next = waiting(&nodes, &ours).await;
    wait_until("the waiter follows the lock on one node", async || {
        let mut tracked: Vec<_> = nodes.iter().map(|node| tracked(&node.info("stats"))).collect();
        tracked.sort_unstable();
        // Its three keys in the queue, and the lock.
        tracked == [0, 0, 0, 0, 4]
    })
    .await;
    let monitors: Vec<_> = nodes.iter().map(|node| node.monitor()).collect();
    let renewed = || nodes.iter().map(|node| calls(&node.info("commandstats"), "pexpire")).sum();
    let before: usize = renewed();
    wait_until("it is renewed", async || renewed() >= before + 2 * 5).await;
    let sent = monitors.into_iter().flat_map(Monitor::finish);
    let asked = sent.filter(|it| !it.is_inside_script() && it.name() == "SET").count();
    assert_eq!(asked, 0);
    assert!(guard.is_valid());
    drop(guard);
    drop(gets_it(next).await);
}

/// Nothing is pushed here, and the waiter stands behind a waiter that asks once in ten minutes.
#[tokio::test]
async fn a_queue_asks_as_often_as_its_most_hurried_waiter_would() {
    let nodes = Nodes::start(3);
    let urls: Vec<_> = nodes.urls().iter().map(|url| format!("{url}/?protocol=resp2")).collect();
    let calm = redlock_tests::patient(urls).wait(NEVER).retry_delay(NEVER).build().unwrap();
    nodes.warm_up(&calm).await;
    let theirs = client(&nodes).await;
    for (name, hurried) in [("job", true), ("other", false)] {
        // A client that has waited for a lock stands back the next time, and asks no node while it does.
        let guard = theirs.lock(name).await.unwrap();
        let first = tokio::spawn(calm.lock(name).into_future());
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!first.is_finished());
        let request = calm.lock(name).retry_delay(Duration::from_millis(50));
        if hurried {
            let behind = tokio::spawn(request.into_future());
            guard.release().await.unwrap();
            drop(gets_it(first).await);
            drop(gets_it(behind).await);
        } else {
            guard.release().await.unwrap();
            // The known answer is too old for a request that does not wait: the front is sent to
            // ask.
            let error = request.wait(Duration::ZERO).await.unwrap_err();
            assert!(matches!(error, LockError::Held { by_this_client: true, .. }), "{error}");
            drop(gets_it(first).await);
        }
    }
}

/// The tasks of one process, over and over: a wake-up that is lost once in a thousand times shows
/// here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost() {
    let nodes = Nodes::start(5);
    let history = History::new();
    let mut tasks = Vec::new();
    for process in 0..4 {
        let client = client(&nodes).await;
        for task in 0..4 {
            let (client, history) = (client.clone(), history.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..60 {
                    let begun = Instant::now();
                    let guard = client.lock("job").await.unwrap();
                    assert!(begun.elapsed() < 2 * LIMIT, "not woken for {:?}", begun.elapsed());
                    let mut hold = history.begin("job", &format!("{process}.{task}"));
                    tokio::task::yield_now().await;
                    hold.confirm(|| guard.is_valid());
                    drop(hold);
                    drop(guard);
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    history.assert_exclusive();
}

/// How many waiters go away. `REDLOCK_ROUNDS=1000000` tries far more.
fn rounds() -> usize {
    let asked = std::env::var("REDLOCK_ROUNDS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(2000)
}

/// The memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Changes the keys of these rounds, each to nothing.
const CHANGE: &str = "for number = ARGV[1], ARGV[2] do \
                        local key = string.format('redlock:%x', number) \
                        redis.call('SET', key, 1) \
                        redis.call('DEL', key) \
                      end";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_that_go_away_leave_next_to_nothing() {
    const TOGETHER: usize = 32;
    /// With so many, 400 bytes that stay for each would show.
    const MANY: usize = 100_000;
    let nodes = Nodes::start(3);
    let (ours, theirs) = (client(&nodes).await, client(&nodes).await);
    let round = async |number: usize| {
        let resource = format!("{number:x}");
        let guard = theirs.lock(&resource).await.unwrap();
        let wait = Duration::from_micros(number as u64 % 5000);
        match number % 3 {
            0 => drop(ours.lock(&resource).wait(wait).await.unwrap_err()),
            1 => drop(tokio::time::timeout(wait, ours.lock(&resource).into_future()).await),
            // In the queue behind the front.
            _ => {
                let one = tokio::time::timeout(wait, ours.lock(&resource).into_future());
                let other = tokio::time::timeout(wait, ours.lock(&resource).into_future());
                drop(futures_util::future::join(one, other).await);
            }
        }
        guard.release().await.unwrap();
    };
    let crowd = async |from: usize, to: usize| {
        futures_util::stream::iter(from..to).for_each_concurrent(TOGETHER, round).await;
    };
    crowd(0, rounds() / 10).await;
    let before = resident();
    crowd(rounds() / 10, rounds()).await;
    // A look at a key that arrives behind its delete is forgotten with the next change of that key, and
    // by the server when there are a million of them. How many come so late depends on the machine:
    // once each key has changed, there is none. A key of a queue changes for the last time when its
    // waiter leaves.
    for from in (0..rounds()).step_by(10_000) {
        let to = (from + 10_000).min(rounds()) - 1;
        let (from, to) = (from.to_string(), to.to_string());
        nodes.iter().for_each(|node| drop(node.command(&["EVAL", CHANGE, "0", &from, &to])));
    }
    wait_until("the nodes have forgotten who waited", async || {
        nodes.iter().all(|node| tracked(&node.info("stats")) == 0)
    })
    .await;
    println!("{} rounds, {before} then {} KiB", rounds(), resident());
    assert!(ours.waiting().is_empty() && ours.held().is_empty(), "{:?}", ours.waiting());
    // Allocators keep this much for themselves. Of a few waiters, nothing that stays would show beside it: a test of
    // redlock-core, `waiters_that_go_away_leave_nothing_in_their_client`, looks at what is kept for each of them.
    if rounds() >= MANY {
        assert!(resident() < before + 32 * 1024, "{before} KiB became {} KiB", resident());
    }
}
