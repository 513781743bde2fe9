//! A master that sentinels name: failover under held locks, and nothing granted twice.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use redlock_core::{Builder, Credentials, LockError, LockHandle, Node, NodeState, Restarts};
use redlock_tests::{LIMIT, MASTER, Sentinels, Server, patient, wait_until, within};

fn client(sentinels: &Sentinels) -> Builder {
    patient([Node::sentinel(MASTER, sentinels.urls())])
}

/// Returns once the sentinels name another server than this.
async fn failed_over(sentinels: &Sentinels, from: &Server) {
    wait_until("the sentinels name another master", async || {
        sentinels.master().is_some_and(|it| it.port() != from.port())
    })
    .await;
}

#[tokio::test]
async fn a_held_lock_outlives_a_failover_and_the_new_master_sits_out() {
    let sentinels = Sentinels::start(1, None, None);
    // So that the replica surely has the lock.
    let node = Node::sentinel(MASTER, sentinels.urls()).replicas(1);
    let redlock = patient([node]).build().unwrap();
    let guard = within("a lock", redlock.lock("held").ttl(Duration::from_secs(60))).await.unwrap();
    let old = &sentinels.servers[0];
    old.kill();
    failed_over(&sentinels, old).await;
    wait_until("the client has followed", async || {
        within("health", redlock.health()).await[0].is_up()
    })
    .await;
    let health = within("health", redlock.health()).await;
    assert!(health[0].sits_out.is_some(), "{health:?}");
    let error = within("no lock", redlock.try_lock("new")).await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    assert!(error.to_string().contains("it restarted"), "{error}");
    assert!(guard.is_valid());
    drop(sentinels);
}

#[tokio::test]
async fn a_held_lock_is_renewed_and_released_on_the_new_master() {
    let sentinels = Sentinels::start(1, None, None);
    let redlock = client(&sentinels).restarts(Restarts::Trusted).build().unwrap();
    let guard = within("a lock", redlock.lock("held").ttl(Duration::from_secs(40))).await.unwrap();
    let replica = &sentinels.servers[1];
    wait_until("the replica has it", async || replica.get("redlock:held").is_some()).await;
    let old = &sentinels.servers[0];
    old.kill();
    failed_over(&sentinels, old).await;
    wait_until("it is extended", async || guard.extend(Duration::from_secs(50)).await.is_ok())
        .await;
    // The promotion has killed it.
    replica.forget_connection();
    assert!(replica.ttl("redlock:held").unwrap() > Duration::from_secs(40));
    within("release", guard.release()).await.unwrap();
    assert!(replica.get("redlock:held").is_none());
    let guard = within("trusted", redlock.lock("new")).await.unwrap();
    within("release", guard.release()).await.unwrap();
}

#[tokio::test]
async fn asking_every_second_opens_no_new_connection() {
    let sentinels = Sentinels::start(0, None, None);
    // A second is longer than half of this, and an answer comes far sooner.
    let redlock = client(&sentinels).connect_timeout(Duration::from_millis(1900)).build().unwrap();
    let guard = within("a lock", redlock.lock("held")).await.unwrap();
    // The connections of the client to each sentinel: for how many seconds they are open, and idle. One that was opened
    // for a question would never be old.
    let of_client = || {
        let questions = |list: String| -> Vec<(u64, u64)> {
            let value = |line: &str, name| {
                line.split(' ').find_map(|it| it.strip_prefix(name)).unwrap().to_owned()
            };
            let seconds = |line: &str, name| value(line, name).parse().unwrap();
            let of_client = list.lines().filter(|line| value(line, "cmd=") == "sentinel|master");
            of_client.map(|line| (seconds(line, "age="), seconds(line, "idle="))).collect()
        };
        sentinels.clients().into_iter().map(questions).collect::<Vec<_>>()
    };
    let mut last = Vec::new();
    wait_until("each sentinel is asked over a connection that it has had for long", async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        last = of_client();
        last.iter().all(|it| it.iter().any(|(age, idle)| *age >= 8 && *idle <= 1))
    })
    .await;
    assert!(last.iter().all(|it| it.len() == 1), "{last:?}");
    drop(guard);
}

/// A client that was started after the failover has not seen the old master.
#[tokio::test]
async fn a_strict_client_hears_of_a_failover_before_its_time() {
    let sentinels = Sentinels::start(1, None, None);
    let strict = || {
        // Longer than a busy machine takes to tell of the failover.
        let ttl = Duration::from_secs(12);
        let strict = client(&sentinels).restarts(Restarts::Strict).ttl(ttl).max_ttl(ttl);
        strict.build().unwrap()
    };
    // All servers have been up for long enough by then.
    wait_until("the master has been one for long enough", async || {
        strict().try_lock("r").await.is_ok()
    })
    .await;
    let old = &sentinels.servers[0];
    sentinels.fail_over();
    failed_over(&sentinels, old).await;
    let strict = strict();
    wait_until("the new master is reached", async || {
        within("health", strict.health()).await[0].is_up()
    })
    .await;
    let health = within("health", strict.health()).await;
    assert!(health[0].sits_out.is_some(), "it has been up for long, and a master for a moment");
}

/// The replica that is promoted lacks the last lock. What happens next is what docs/one-redis.md and
/// docs/servers.md say.
#[tokio::test]
async fn a_lock_that_a_failover_loses_is_not_granted_again() {
    let sentinels = Sentinels::start(1, None, None);
    let [master, replica] = &sentinels.servers[..] else { panic!("{sentinels:?}") };
    // For longer than the failover takes on a busy machine. No client renews it, for that would set it
    // again on the new master.
    let ttl = Duration::from_secs(300);
    let build = |restarts, node: Node| patient([node]).max_ttl(ttl).restarts(restarts).build();
    let node = || Node::sentinel(MASTER, sentinels.urls());
    let client = |restarts| build(restarts, node()).unwrap();
    let (holder, knows) = (client(Restarts::Observed), client(Restarts::Observed));
    let careful = build(Restarts::Observed, node().replicas(1)).unwrap();
    for redlock in [&holder, &knows, &careful] {
        within("a lock", redlock.lock("seen").wait(LIMIT)).await.unwrap().release().await.unwrap();
    }

    sentinels.cut_replication(master);
    let hold = |name: &str| holder.lock(name).ttl(ttl).auto_extend(false).into_future();
    let held = [hold("a"), hold("b"), hold("c")].map(|it| within("a lock", it));
    let held = join_all(held).await.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    // Where replicas have to acknowledge, the lock that would be lost is not given at all.
    let refused = within("no lock", careful.try_lock("d")).await.unwrap_err();
    assert!(refused.to_string().contains("0 of the 1 replicas"), "{refused}");
    master.kill();
    failed_over(&sentinels, master).await;
    replica.forget_connection();
    assert!(replica.keys().iter().all(|key| !key.starts_with("redlock:")), "{:?}", replica.keys());

    // A client that knew the old master, and one that is told of the failover, grant nothing.
    let told = client(Restarts::Strict);
    for (redlock, name) in [(&knows, "a"), (&told, "a")] {
        wait_until("the new master sits out", async || {
            let error = within("no lock", redlock.try_lock(name)).await.unwrap_err();
            error.to_string().contains("may have forgotten locks")
        })
        .await;
    }
    // Two clients do grant: a client that was started after the failover and is not told of it, and a client
    // that trusts its nodes.
    for (restarts, name) in [(Restarts::Observed, "b"), (Restarts::Trusted, "c")] {
        let redlock = client(restarts);
        wait_until("it is granted again", async || redlock.try_lock(name).await.is_ok()).await;
    }
    assert!(held.iter().all(|it| it.is_valid()), "it took too long to say anything");
}

/// Three clients, one lock, and two failovers, each of which loses the last locks.
#[tokio::test]
async fn nothing_is_granted_twice_over_failovers() {
    let sentinels = Sentinels::start(2, None, None);
    let ttl = Duration::from_millis(1500);
    let held: Arc<Mutex<Vec<LockHandle>>> = Arc::default();
    let grants = Arc::new(AtomicUsize::new(0));
    let mut working = Vec::new();
    for number in 0..3 {
        let redlock = client(&sentinels)
            .node_timeout(Duration::from_millis(500))
            .connect_timeout(Duration::from_secs(1))
            .ttl(ttl)
            .max_ttl(ttl)
            .retry_delay(Duration::from_millis(20))
            .build()
            .unwrap();
        let (held, grants) = (Arc::clone(&held), Arc::clone(&grants));
        working.push(tokio::spawn(async move {
            let mut times = 0;
            loop {
                // A lock that is left behind runs out, and is not renewed on the next master.
                let asked = redlock.lock("r").wait(Duration::from_millis(500)).auto_extend(false);
                let asked = asked.await;
                let Ok(guard) = asked else { continue };
                {
                    let mut held = held.lock().unwrap();
                    let others = held.iter().filter(|it| it.is_valid()).count();
                    // The two validities are read one after the other: ours counts last.
                    assert!(others == 0 || !guard.is_valid(), "client {number} is not alone");
                    held.retain(LockHandle::is_valid);
                    held.push(guard.handle());
                }
                times += 1;
                grants.fetch_add(1, Ordering::Relaxed);
                if times % 3 == 0 {
                    // As after a crash, no client releases it.
                    std::mem::forget(guard);
                } else {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    drop(guard);
                }
            }
        }));
    }
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        wait_until("the sentinels agree", async || sentinels.master().is_some()).await;
        let old = sentinels.master().unwrap();
        sentinels.cut_replication(old);
        let before = grants.load(Ordering::Relaxed);
        wait_until("locks are given that no replica has", async || {
            grants.load(Ordering::Relaxed) >= before + 3
        })
        .await;
        sentinels.fail_over();
        failed_over(&sentinels, old).await;
        old.forget_connection();
        sentinels.restore_replication(old);
        // Locks of the new master end the round.
        let before = grants.load(Ordering::Relaxed);
        wait_until("locks are given after the failover", async || {
            assert!(working.iter().all(|it| !it.is_finished()), "two held it at once");
            grants.load(Ordering::Relaxed) >= before + 3
        })
        .await;
    }
    for it in working {
        it.abort();
    }
}

#[tokio::test]
async fn the_connection_ends_when_the_sentinels_name_another_master() {
    let sentinels = Sentinels::start(0, None, None);
    let other = Server::start();
    let redlock = client(&sentinels).build().unwrap();
    let guard = within("a lock", redlock.lock("held")).await.unwrap();
    // The old master stays as it is, as one does that its sentinels cannot reach.
    sentinels.tell(&["SENTINEL", "REMOVE", MASTER]);
    let port = other.port().to_string();
    sentinels.tell(&["SENTINEL", "MONITOR", MASTER, "127.0.0.1", &port, "2"]);
    wait_until("the client has followed", async || !other.clients().is_empty()).await;
    wait_until("it sits out", async || {
        within("health", redlock.health()).await[0].sits_out.is_some()
    })
    .await;
    drop(guard);
}

#[tokio::test]
async fn sentinels_and_masters_have_logins_of_their_own() {
    let sentinels = Sentinels::start(0, Some("data"), Some("watch"));
    let node = || Node::sentinel(MASTER, sentinels.urls());
    let data = || async { Ok(Credentials::new("default", "data")) };
    let watch = || async { Ok(Credentials::new("default", "watch")) };
    let redlock = patient([node().credentials(data).sentinel_credentials(watch)]).build().unwrap();
    within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();

    // Passwords in the URL are those of the master.
    let urls = sentinels.urls();
    let urls = urls.iter().map(|it| it.replace("redis://", "redis://:data@"));
    let redlock = patient([Node::sentinel(MASTER, urls).sentinel_credentials(watch)]).build();
    within("a lock", redlock.unwrap().lock("r")).await.unwrap().release().await.unwrap();

    let redlock = patient([node().credentials(data)]).build().unwrap();
    let error = within("no lock", redlock.try_lock("r")).await.unwrap_err();
    assert!(error.to_string().contains("NOAUTH"), "{error}");
    let wrong = || async { Ok(Credentials::new("default", "canary-password")) };
    let node = node().credentials(data).sentinel_credentials(wrong);
    let redlock = patient([node]).build().unwrap();
    let error = within("no lock", redlock.try_lock("r")).await.unwrap_err().to_string();
    assert!(error.contains("WRONGPASS") && !error.contains("canary"), "{error}");
}

/// A sentinel has no databases. The one in the URL is the master's.
#[tokio::test]
async fn sentinels_with_the_login_of_the_master_are_asked_for_no_database() {
    let sentinels = Sentinels::start(0, Some("data"), Some("data"));
    let urls = sentinels.urls();
    let urls = urls.iter().map(|it| format!("{}/1", it.replace("redis://", "redis://:data@")));
    let redlock = patient([Node::sentinel(MASTER, urls)]).build().unwrap();
    within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn sentinels_that_do_not_know_the_master_or_are_down_are_named() {
    let sentinels = Sentinels::start(0, None, None);
    for (node, words) in [
        (Node::sentinel("other", sentinels.urls()), "no master of this name"),
        (Node::sentinel(MASTER, ["redis://127.0.0.1:1", "redis://127.0.0.1:2"]), "127.0.0.1:1: "),
    ] {
        let redlock = patient([node]).build().unwrap();
        let error = within("no lock", redlock.try_lock("r")).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    // One of three that is down changes nothing.
    let urls = [&sentinels.urls()[..2], &["redis://127.0.0.1:1".to_owned()]].concat();
    let redlock = patient([Node::sentinel(MASTER, urls)]).build().unwrap();
    within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();

    for (node, words) in [
        (Node::sentinel(MASTER, Vec::<String>::new()), "no servers"),
        (Node::sentinel("", sentinels.urls()), "the name of the master"),
        (Node::sentinel(MASTER, ["redis://a", "redis://A:6379"]), "given twice"),
    ] {
        let error = patient([node]).build().unwrap_err();
        assert!(matches!(error, LockError::Config { .. }) && error.to_string().contains(words));
    }
}

#[tokio::test]
async fn sentinels_without_a_password_are_not_sent_that_of_the_master() {
    let sentinels = Sentinels::start(0, Some("data"), None);
    let urls = sentinels.urls();
    let urls = urls.iter().map(|it| it.replace("redis://", "redis://:data@"));
    let redlock = patient([Node::sentinel(MASTER, urls)]).build().unwrap();
    within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();
}

/// Of half of `connect_timeout`, the provider has nine tenths. The rest is for the server.
#[tokio::test]
async fn a_provider_that_is_late_is_named_behind_sentinels() {
    let sentinels = Sentinels::start(0, None, None);
    let node = Node::sentinel(MASTER, sentinels.urls()).credentials(
        std::future::pending::<Result<Credentials, Box<dyn std::error::Error + Send + Sync>>>,
    );
    let redlock = patient([node]).connect_timeout(Duration::from_secs(2)).build().unwrap();
    wait_until("the provider is named", async || {
        let health = within("health", redlock.health()).await.remove(0);
        let NodeState::Down { error, .. } = health.state else { return false };
        error.reason.contains("has not answered within 900ms")
    })
    .await;
}
