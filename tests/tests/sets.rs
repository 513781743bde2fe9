//! Several resources locked at once, over real redis-servers: all or none in one step a node, in any
//! order of names, among single locks, while a node dies.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use redlock_core::{LockError, Redlock, Released};
use redlock_tests::{LIMIT, Nodes, Server, history::History, wait_until};
use tokio::{task::JoinSet, time::timeout};

fn client(nodes: &Nodes) -> Redlock {
    nodes.client().wait(LIMIT).build().unwrap()
}

/// The locks on a node. Companions of queues and tokens have other keys.
fn locks(node: &Server) -> Vec<String> {
    let mut keys = node.keys();
    keys.retain(|key| !key.contains('{') || key.starts_with("redlock:{"));
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn a_set_is_locked_renewed_and_released_as_a_whole() {
    let nodes = Nodes::start(3);
    let (redlock, other) = (client(&nodes), client(&nodes));
    nodes.warm_up(&redlock).await;
    nodes.warm_up(&other).await;
    let guard = redlock.lock_all(["b", "a", "b"]).await.unwrap();
    assert_eq!(guard.resources(), ["b", "a"]);
    wait_until("every node has the set", async || guard.votes() == 3).await;
    for node in nodes.iter() {
        assert_eq!(locks(node), ["redlock:a", "redlock:b"]);
        assert_eq!(node.get("redlock:a"), node.get("redlock:b"), "one value");
    }
    assert!(other.try_lock("a").await.unwrap_err().is_held());
    assert!(other.lock_all(["c", "b"]).wait(Duration::ZERO).await.unwrap_err().is_held());
    assert_eq!(locks(&nodes[0]), ["redlock:a", "redlock:b"], "nothing of a set that was refused");
    guard.extend(Duration::from_secs(60)).await.unwrap();
    for node in nodes.iter() {
        for key in ["redlock:a", "redlock:b"] {
            let renewed = Duration::from_secs(40);
            wait_until("it is renewed", async || node.ttl(key).is_some_and(|it| it > renewed))
                .await;
        }
    }
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    wait_until("no key is left", async || nodes.are_empty()).await;
}

#[tokio::test]
async fn tokens_of_sets_and_of_single_locks_grow_together() {
    let nodes = Nodes::start(3);
    let redlocks = [client(&nodes), client(&nodes)];
    for redlock in &redlocks {
        nodes.warm_up(redlock).await;
    }
    let mut last = BTreeMap::new();
    let sets: [&[&str]; 6] = [&["a"], &["a", "b"], &["b"], &["c"], &["b", "c"], &["c", "a", "b"]];
    for round in 0..20 {
        let set = sets[round % sets.len()];
        if round % 5 == 4 {
            // The nodes disagree: each counter is somewhere else.
            for (node, ahead) in nodes.iter().zip([3_u64, 1, 2]) {
                let key = format!("redlock:{0}:{{redlock:{0}}}:fence", set[0]);
                let now = node.get(&key).map_or(1 << 52, |it| it.parse::<u64>().unwrap());
                node.command(&["SET", &key, &(now + ahead * 1000).to_string()]);
            }
        }
        let guard = redlocks[round % 2].lock_all(set.iter().copied()).fenced().await.unwrap();
        let token = guard.fencing_token().unwrap();
        for resource in set {
            let before = last.insert(*resource, token);
            assert!(Some(token) > before, "{set:?}: {token} after {before:?} for {resource}");
        }
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn min_hold_keeps_all_keys_of_a_set() {
    let nodes = Nodes::start(3);
    let redlock = client(&nodes);
    nodes.warm_up(&redlock).await;
    let hold = Duration::from_secs(20);
    let guard = redlock.lock_all(["a", "b"]).min_hold(hold).await.unwrap();
    guard.release().await.unwrap();
    assert!(redlock.try_lock("b").await.unwrap_err().is_held());
    for node in nodes.iter() {
        wait_until("both keys stay for the rest", async || {
            ["redlock:a", "redlock:b"].iter().all(|key| node.ttl(key).is_some_and(|it| it <= hold))
        })
        .await;
    }
}

/// A node that is a cluster takes a set in one slot, and says what to do about a set in several.
#[tokio::test]
async fn a_cluster_says_to_put_a_hash_tag_around_the_common_part() {
    let node = Server::builder().argument(&["--cluster-enabled", "yes"]).start();
    node.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    wait_until("the slots", async || {
        format!("{:?}", node.command(&["CLUSTER", "INFO"])).contains("cluster_state:ok")
    })
    .await;
    let redlock = redlock_tests::patient([node.url()]).build().unwrap();
    let across = || redlock.lock_all(["account:1", "account:2"]).wait(Duration::ZERO);
    // At first the node may still be connecting.
    wait_until("it says what to do", async || {
        let error = across().await.unwrap_err();
        let LockError::NoQuorum { nodes, .. } = &error else { panic!("{error}") };
        let says = |words| nodes[0].reason.contains(words);
        says("CROSSSLOT") && says("the same hash tag")
    })
    .await;
    let guard = redlock.lock_all(["{bank}:1", "{bank}:2"]).fenced().await.unwrap();
    guard.release().await.unwrap();
    wait_until("no lock is left", async || locks(&node).iter().all(|key| key.ends_with("fence")))
        .await;
}

const ACCOUNTS: usize = 6;
const TASKS: usize = 8;
const TRANSFERS: usize = 1000;

/// The transfers take a few seconds, and far more on a busy machine.
const MOST: Duration = Duration::from_secs(300);

/// Money that is moved by reading, waiting and writing: a lost update changes the sum.
#[derive(Default)]
struct Bank {
    balance: [Mutex<i64>; ACCOUNTS],
}

impl Bank {
    async fn transfer(&self, accounts: &[usize], amount: i64) {
        let read: Vec<i64> = accounts.iter().map(|it| *self.balance[*it].lock().unwrap()).collect();
        tokio::task::yield_now().await;
        let share = i64::try_from(accounts.len()).unwrap() - 1;
        for (place, (account, before)) in accounts.iter().zip(read).enumerate() {
            let change = if place == 0 { -amount * share } else { amount };
            *self.balance[*account].lock().unwrap() = before + change;
        }
    }
}

/// The history check of sets: 8 tasks of 3 clients move money between 2 or 3 of 6 accounts, 1,000 times,
/// and the node of some queues dies in the middle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_between_overlapping_sets_lose_no_update_when_a_node_dies() {
    let nodes = Nodes::start(3);
    let clients: Vec<Redlock> = (0..3).map(|_| client(&nodes)).collect();
    for redlock in &clients {
        nodes.warm_up(redlock).await;
    }
    let (bank, history) = (Arc::<Bank>::default(), History::new());
    let done: Arc<[AtomicUsize; TASKS]> = Arc::default();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let redlock = clients[task % clients.len()].clone();
        let (bank, history, done) = (Arc::clone(&bank), history.clone(), Arc::clone(&done));
        tasks.spawn(async move {
            for round in 0..TRANSFERS / TASKS {
                // Neighbours at changing distances, in either order.
                let first = (task + round * 5) % ACCOUNTS;
                let second = (first + 1 + round % (ACCOUNTS - 1)) % ACCOUNTS;
                let mut accounts = vec![first, second];
                let third = (second + 1) % ACCOUNTS;
                if round % 3 == 0 && third != first {
                    accounts.push(third);
                }
                let names = accounts.iter().map(|it| format!("account:{it}"));
                // A node that has just died may cost an attempt its quorum.
                let guard = loop {
                    match redlock.lock_all(names.clone()).await {
                        Ok(guard) => break guard,
                        Err(LockError::NoQuorum { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                };
                let owner = format!("{task}.{round}");
                let mut held: Vec<_> =
                    guard.resources().iter().map(|it| history.begin(it, &owner)).collect();
                bank.transfer(&accounts, 1 + i64::try_from(round % 7).unwrap()).await;
                for recording in &mut held {
                    assert!(recording.confirm(|| guard.is_valid()), "task {task} lost its set");
                }
                drop(held);
                guard.release().await.ok();
                done[task].fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let finished = |done: &[AtomicUsize; TASKS]| {
        done.iter().map(|it| it.load(Ordering::Relaxed)).sum::<usize>()
    };
    let half = async {
        while finished(&done) < TRANSFERS / 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(MOST, half).await.expect("half of the transfers");
    let before: Vec<usize> = done.iter().map(|it| it.load(Ordering::Relaxed)).collect();
    assert!(before.iter().all(|done| *done > 0), "each task makes progress: {before:?}");
    nodes[1].kill();
    let all = async {
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
    };
    timeout(MOST, all).await.expect("all transfers");
    assert_eq!(finished(&done), TRANSFERS / TASKS * TASKS);
    let sum: i64 = bank.balance.iter().map(|it| *it.lock().unwrap()).sum();
    assert_eq!(sum, 0, "an update was lost");
    history.assert_exclusive();
}
