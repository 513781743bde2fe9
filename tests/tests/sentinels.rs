//! A master that sentinels name: failover under held locks, and nothing granted twice.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use redlock_core::{Builder, Credentials, LockError, LockHandle, Node, Restarts};
use redlock_tests::{MASTER, Sentinels, Server, patient, wait_until, within};

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
    let guard = within("a lock", redlock.lock("held").ttl(Duration::from_secs(40))).await.unwrap();
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

/// A client that was started after the failover has not seen the old master.
#[tokio::test]
async fn a_strict_client_hears_of_a_failover_before_its_time() {
    let sentinels = Sentinels::start(1, None, None);
    let strict = || {
        let ttl = Duration::from_secs(4);
        let strict = client(&sentinels).restarts(Restarts::Strict).ttl(ttl).max_ttl(ttl);
        strict.node_timeout(ttl / 4).connect_timeout(ttl / 2).build().unwrap()
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

/// Three clients, one lock, and two failovers.
#[tokio::test]
async fn nothing_is_granted_twice_over_failovers() {
    let sentinels = Sentinels::start(2, None, None);
    let ttl = Duration::from_millis(1500);
    let held: Arc<Mutex<Vec<LockHandle>>> = Arc::default();
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
        let held = Arc::clone(&held);
        working.push(tokio::spawn(async move {
            let mut times = 0;
            loop {
                let asked = redlock.lock("r").wait(Duration::from_millis(500)).await;
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
        sentinels.fail_over();
        failed_over(&sentinels, old).await;
        // A new lock on the new master ends the round.
        let since = held.lock().unwrap().len();
        wait_until("a lock is given after the failover", async || {
            let mut held = held.lock().unwrap();
            held.retain(LockHandle::is_valid);
            assert!(working.iter().all(|it| !it.is_finished()), "two held it at once: {since}");
            !held.is_empty()
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
