//! A cluster as one node: slots that move and masters that fail under held locks.

use std::{
    future::IntoFuture,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use redlock_core::{Builder, LockError, LockGuard, Node, Redlock, Released, Restarts};
use redlock_tests::{Cluster, LIMIT, Server, patient, wait_until, within};

fn client(cluster: &Cluster) -> Builder {
    patient([Node::cluster(cluster.urls())]).ttl(Duration::from_secs(40))
}

/// Locks in slots of every master.
async fn many(redlock: &Redlock) -> Vec<LockGuard> {
    let locks = (0..60).map(|it| redlock.lock(format!("lock-{it}")).into_future());
    within("the locks", join_all(locks)).await.into_iter().map(Result::unwrap).collect()
}

async fn extend(guard: &LockGuard) {
    wait_until("it is extended", async || guard.extend(Duration::from_secs(50)).await.is_ok())
        .await;
}

#[tokio::test]
async fn locks_are_spread_over_the_masters() {
    let cluster = Cluster::start(false);
    // One member is enough to find the others.
    let one = &cluster.urls()[..1];
    let redlock = patient([Node::cluster(one)]).build().unwrap();
    let guards = many(&redlock).await;
    assert!(cluster.masters.iter().all(|it| !it.keys().is_empty()));
    assert_eq!(cluster.masters.iter().map(|it| it.keys().len()).sum::<usize>(), 60);
    let other = client(&cluster).build().unwrap();
    let held = within("held", other.try_lock("lock-7")).await.unwrap_err();
    assert!(matches!(held, LockError::Held { .. }), "{held}");
    for guard in &guards {
        within("longer", guard.extend(Duration::from_secs(50))).await.unwrap();
    }
    within("all released", redlock.release_all()).await;
    drop(guards);
    wait_until("all are gone", async || cluster.masters.iter().all(|it| it.keys().is_empty()))
        .await;
    let health = within("health", redlock.health()).await;
    assert!(health[0].is_up() && health[0].advice.is_empty(), "{health:?}");
}

/// Companion keys share the slot of their lock: counters, and queues through which clients are woken.
#[tokio::test]
async fn tokens_and_turns_work_in_every_slot() {
    let cluster = Cluster::start(false);
    let client = || client(&cluster).retry_delay(Duration::from_secs(30)).build().unwrap();
    let (one, other) = (client(), client());
    for name in ["a", "b", "c", "{tag}:d", "some long name"] {
        let first = within("a lock", one.lock(name).fenced()).await.unwrap();
        let waiting = tokio::spawn({
            let other = other.clone();
            async move { other.lock(name).fenced().wait(Duration::from_secs(60)).await }
        });
        wait_until("it waits in a queue", async || {
            cluster.masters.iter().any(|it| it.keys().iter().any(|key| key.ends_with(":queue")))
        })
        .await;
        let token = first.fencing_token().unwrap();
        within("release", first.release()).await.unwrap();
        let second = within("the waiter", waiting).await.unwrap().unwrap();
        assert!(second.fencing_token().unwrap() > token);
        within("release", second.release()).await.unwrap();
    }
}

#[tokio::test]
async fn a_slot_moves_under_a_held_lock_and_redirections_are_followed() {
    let cluster = Cluster::start(false);
    let (one, other) = (client(&cluster).build().unwrap(), client(&cluster).build().unwrap());
    let (held, key) = ("{moves}held", "redlock:{moves}held");
    let guard = within("a lock", one.lock(held)).await.unwrap();
    let early = within("a lock", one.lock("{moves}early")).await.unwrap();
    let from = cluster.owner(key);
    let to = (from + 1) % 3;

    cluster.begin_move(key, to);
    // Keys that are still there are served there, and new ones at the other end (ASK).
    extend(&guard).await;
    let new = within("ASK", one.try_lock("{moves}new")).await.unwrap();
    assert!(cluster.masters[to].command(&["DBSIZE"]) != redis::Value::Int(0), "it was not asked");
    within("release", early.release()).await.unwrap();
    cluster.move_keys(key, to);
    extend(&guard).await;
    for lock in [held, "{moves}new"] {
        let error = within("held", other.try_lock(lock)).await.unwrap_err();
        assert!(matches!(error, LockError::Held { .. }), "{error}");
    }

    cluster.end_move(key, to);
    assert_eq!(cluster.owner(key), to);
    // MOVED: the slot is in use all the time.
    let late = within("MOVED", other.try_lock("{moves}late")).await.unwrap();
    extend(&guard).await;
    for guard in [guard, new, late] {
        within("release", guard.release()).await.unwrap();
    }
    wait_until("nothing is left", async || {
        cluster.masters.iter().all(|it| it.keys().iter().all(|key| !key.contains("moves")))
    })
    .await;
    let health = within("health", one.health()).await;
    assert!(health[0].is_up(), "{health:?}");
}

/// In a slot that moves, scripts may use no key that is not there: the waiter cannot be given its turn.
#[tokio::test]
async fn a_lock_that_clients_wait_for_is_released_while_its_slot_moves() {
    let cluster = Cluster::start(false);
    let (one, other) = (client(&cluster).build().unwrap(), client(&cluster).build().unwrap());
    let key = "redlock:{moves}r";
    let from = cluster.owner(key);
    let has = |what: &str| cluster.masters[from].keys().iter().any(|key| key.ends_with(what));
    let wait = |redlock: &Redlock| tokio::spawn(redlock.lock("{moves}r").wait(LIMIT).into_future());
    // The lock is taken in a turn, which its release ends.
    let before = within("a lock", other.lock("{moves}r")).await.unwrap();
    let guard = wait(&one);
    wait_until("it waits in a queue", async || has(":queue")).await;
    within("release", before.release()).await.unwrap();
    let guard = within("its turn", guard).await.unwrap().unwrap();
    let waiting = wait(&other);
    wait_until("it waits in a queue", async || has(":queue") && !has(":queue:turn")).await;
    let to = (from + 1) % 3;
    cluster.begin_move(key, to);
    // That of a waiter that was late. It writes it anew where the key was before.
    let alive = cluster.masters[from].keys().into_iter().find(|key| key.contains(":alive:"));
    cluster.masters[from].command(&["DEL", &alive.unwrap()]);
    assert_eq!(within("release", guard.release()).await.unwrap(), Released::Ours);
    assert!(has(":queue"), "the waiter has its place");
    let second = within("the waiter", waiting).await.unwrap().unwrap();
    cluster.move_keys(key, to);
    cluster.end_move(key, to);
    within("release", second.release()).await.unwrap();
}

#[tokio::test]
async fn locks_outlive_the_failure_of_a_master_and_its_slots_sit_out() {
    let cluster = Cluster::start(true);
    let redlock = client(&cluster).build().unwrap();
    let guards = many(&redlock).await;
    let dead = cluster.owner("redlock:lock-0");
    let elsewhere =
        (0..60).find(|it| cluster.owner(&format!("redlock:lock-{it}")) != dead).unwrap();
    let (master, replica) = (&cluster.masters[dead], &cluster.replicas[dead]);
    wait_until("the replica has them", async || master.keys() == replica.keys()).await;
    master.kill();

    // The other masters go on.
    extend(&guards[elsewhere]).await;
    for guard in &guards {
        extend(guard).await;
    }
    assert!(guards.iter().all(|guard| guard.is_valid()));
    // The replica that took over may lack locks that others hold.
    let mut refused = 0;
    for lock in 0..60 {
        match within("an answer", redlock.try_lock(format!("new-{lock}"))).await {
            Ok(guard) => drop(guard),
            Err(error) => {
                assert!(error.to_string().contains("may have forgotten locks"), "{error}");
                refused += 1;
            }
        }
    }
    assert!((5..40).contains(&refused), "a third of the slots sits out: {refused} of 60");
    let health = within("health", redlock.health()).await;
    assert!(health[0].sits_out.is_none() && health[0].is_up(), "the cluster goes on: {health:?}");
    let [advice] = &health[0].advice[..] else { panic!("{health:?}") };
    assert!(advice.contains("of its 16384 slots give no votes for "), "{advice}");
    for guard in guards {
        within("release", guard.release()).await.unwrap();
    }
}

/// A process that is stopped keeps its connections, and answers nothing.
#[tokio::test]
async fn a_member_that_hangs_costs_only_the_locks_of_its_slots() {
    let cluster = Cluster::start(false);
    let redlock = client(&cluster)
        .ttl(Duration::from_secs(9))
        .node_timeout(Duration::from_millis(300))
        .build()
        .unwrap();
    let guards = many(&redlock).await;
    let hung = cluster.owner("redlock:lock-0");
    let is_hung = |name: &str| cluster.owner(&format!("redlock:{name}")) == hung;
    let (stuck, well): (Vec<_>, Vec<_>) = guards.iter().partition(|it| is_hung(it.resource()));
    // Answers of the other members come all the time.
    let names = (0..).map(|it| format!("traffic-{it}")).filter(|it| !is_hung(it));
    let traffic: Vec<_> = names
        .take(4)
        .map(|name| {
            let redlock = redlock.clone();
            tokio::spawn(async move {
                loop {
                    let _ = redlock.try_lock(&*name).await;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
        })
        .collect();

    cluster.masters[hung].pause();
    wait_until("the locks that cannot be renewed are lost", async || {
        stuck.iter().all(|guard| !guard.is_valid())
    })
    .await;
    let lost = |guards: &[&LockGuard]| guards.iter().filter(|it| !it.is_valid()).count();
    assert_eq!(lost(&well), 0, "of {} on the members that answer", well.len());
    let error = within("an answer", redlock.try_lock("lock-0")).await.unwrap_err();
    assert!(error.to_string().contains("of the cluster: no "), "it is given up: {error}");

    cluster.masters[hung].resume();
    wait_until("its slots are in use again", async || redlock.try_lock("lock-0").await.is_ok())
        .await;
    assert_eq!(lost(&well), 0, "of {} on the members that answer", well.len());
    traffic.iter().for_each(|it| it.abort());
}

#[tokio::test]
async fn asking_every_second_opens_no_new_connection() {
    let cluster = Cluster::start(false);
    // A second is longer than a third of this, and an answer comes far sooner.
    let redlock = client(&cluster).connect_timeout(Duration::from_millis(2700)).build().unwrap();
    let guard = within("a lock", redlock.lock("held")).await.unwrap();
    let asked = || cluster.masters.iter().map(|it| it.calls("cluster|slots")).min();
    let connections = || cluster.masters.iter().map(Server::connections).collect::<Vec<_>>();
    let (before, first) = (connections(), asked());
    wait_until("each member was asked several times", async || asked() >= first.map(|it| it + 6))
        .await;
    assert_eq!(connections(), before);
    drop(guard);
}

/// Each lock of a slot without a master asks for a look. A thousand callers must not ask the cluster as often.
#[tokio::test]
async fn locks_of_a_slot_without_a_master_do_not_hurry_the_looks() {
    let cluster = Cluster::start(false);
    let redlock = client(&cluster).build().unwrap();
    within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();
    let owner = cluster.owner("redlock:r");
    cluster.masters[owner].kill();
    wait_until("the slot has no master", async || redlock.try_lock("r").await.is_err()).await;
    let asked = || {
        let alive = cluster.masters.iter().enumerate().filter(|(it, _)| *it != owner);
        alive.map(|(_, it)| it.calls("cluster|slots")).sum::<u64>()
    };
    let (before, begun) = (asked(), Instant::now());
    while begun.elapsed() < Duration::from_secs(2) {
        let error = within("an answer", redlock.try_lock("r")).await.unwrap_err();
        assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Each look asks both members at most. The pauses between looks grow to a second, from 20 ms at the earliest.
    let (looks, seconds) = (asked() - before, begun.elapsed().as_secs());
    assert!(looks <= 2 * (8 + 2 * seconds), "{looks} in {seconds} s");
}

#[tokio::test]
async fn a_master_that_restarts_empty_sits_out_and_one_that_is_trusted_does_not() {
    let cluster = Cluster::start(false);
    let strict = client(&cluster).build().unwrap();
    let trusting = client(&cluster).restarts(Restarts::Trusted).build().unwrap();
    for redlock in [&strict, &trusting] {
        within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();
    }
    let owner = &cluster.masters[cluster.owner("redlock:r")];
    owner.kill();
    owner.start_again();
    wait_until("it sits out", async || {
        let asked = strict.try_lock("r").await;
        asked.is_err_and(|error| error.to_string().contains("may have forgotten locks"))
    })
    .await;
    let guard = within("trusted", trusting.lock("r").wait(Duration::from_secs(20))).await.unwrap();
    within("release", guard.release()).await.unwrap();
}

/// A failover and one back, which the client does not see. The master has the data of its replica now.
#[tokio::test]
async fn a_master_that_was_a_replica_unseen_sits_out_with_its_slots() {
    let cluster = Cluster::start(true);
    let redlock = client(&cluster).build().unwrap();
    within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();
    let owner = cluster.owner("redlock:r");
    // Nothing awaits here: the client stands still.
    cluster.fail_over(&cluster.replicas[owner]);
    cluster.fail_over(&cluster.masters[owner]);
    cluster.masters[owner].command(&["CLIENT", "KILL", "TYPE", "normal"]);
    wait_until("it sits out", async || {
        let asked = redlock.try_lock("r").await;
        asked.is_err_and(|error| error.to_string().contains("may have forgotten locks"))
    })
    .await;
}

#[tokio::test]
async fn a_cluster_that_is_none_or_cannot_be_reached_says_so() {
    let server = Server::start();
    for (node, words) in [
        (Node::cluster([server.url()]), "cluster support disabled"),
        (Node::cluster(["redis://127.0.0.1:1"]), "127.0.0.1:1: "),
    ] {
        let redlock = patient([node]).build().unwrap();
        let error = within("no lock", redlock.try_lock("r")).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    for (node, words) in [
        (Node::cluster(Vec::<String>::new()), "no servers"),
        (Node::cluster(["redis://a/3"]), "database 0 alone"),
        (Node::cluster(["unix:///run/a.sock"]), "Unix socket"),
    ] {
        let error = patient([node]).build().unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn guards_that_are_dropped_after_their_runtime_leave_no_key() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cluster = Cluster::start(false);
    let first = runtime();
    let guards = first.block_on(async {
        let redlock = client(&cluster).build().unwrap();
        many(&redlock).await
    });
    drop(first);
    assert!(cluster.masters.iter().all(|it| !it.keys().is_empty()));
    drop(guards);
    let are_empty = async || cluster.masters.iter().all(|it| it.keys().is_empty());
    runtime().block_on(wait_until("all are gone", are_empty));
}

/// The runtime of its task stands still. What it would send once it goes on comes behind the deletes of the next.
#[test]
fn the_connections_of_a_task_that_was_taken_over_are_closed() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cluster = Cluster::start(false);
    let (soon, long) = (Duration::from_millis(500), Duration::from_secs(60));
    let redlock = client(&cluster).node_timeout(soon).wait(long).build().unwrap();
    let (first, second) = (runtime(), runtime());
    drop(first.block_on(many(&redlock)));
    // Those that look at the cluster send nothing else.
    let sends = |line: &&String| !line.contains(" cmd=cluster|slots ");
    let sending = |it: &Server| it.clients().iter().filter(sends).count();
    let connections = || -> usize { cluster.masters.iter().map(sending).sum() };
    let before = connections();
    assert!(before >= cluster.masters.len());
    second.block_on(async {
        drop(many(&redlock).await);
        let are_as_before = async || connections() <= before;
        wait_until("those of the first task are closed", are_as_before).await;
    });
}
