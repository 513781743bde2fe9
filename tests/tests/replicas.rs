//! Votes that replicas have to acknowledge: the loss that this prevents, and the one that it does not.

use std::time::Duration;

use futures_util::future::join_all;
use redlock_core::{LockError, Node, Redlock, Restarts};
use redlock_tests::{Flow, LIMIT, Proxy, Server, patient, wait_until, within};

/// A master, and a replica that has its data.
async fn pair() -> (Server, Server) {
    let master = Server::start();
    let replica = Server::builder().replica_of(&master).start();
    in_step(&master, 1).await;
    (master, replica)
}

/// A replica whose master's bytes can be made to vanish on their way.
fn behind(proxy: &Proxy) -> Server {
    let master = format!("127.0.0.1 {}", proxy.port());
    Server::builder().argument(&["--replicaof", &master]).start()
}

/// This many replicas have everything.
async fn in_step(master: &Server, replicas: usize) {
    wait_until("the replicas are in step", async || master.replicas_in_step() == replicas).await;
}

/// The server as the only node, which nothing is known to have been lost on.
fn trusting(node: impl Into<Node>) -> Redlock {
    patient([node]).restarts(Restarts::Trusted).build().unwrap()
}

fn acknowledged(server: &Server) -> Redlock {
    trusting(Node::new(server.url()).replicas(1))
}

fn promote(replica: &Server) {
    replica.command(&["REPLICAOF", "NO", "ONE"]);
}

#[tokio::test]
async fn a_failover_gives_a_lock_twice_that_no_replica_has() {
    let master = Server::start();
    let way = Proxy::start(master.port());
    let replica = behind(&way);
    in_step(&master, 1).await;
    way.replies(Flow::Discard);
    let (careless, careful) = (trusting(master.url()), acknowledged(&master));
    let first = within("a lock", careless.try_lock("careless")).await.unwrap();
    // The loss that `replicas` prevents: this lock is not given in the first place.
    let refused = within("no lock", careful.try_lock("careful")).await.unwrap_err();
    assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");
    assert!(refused.to_string().contains("0 of the 1 replicas"), "{refused}");

    master.kill();
    promote(&replica);
    let other = trusting(replica.url());
    let second = within("a lock", other.try_lock("careless")).await.unwrap();
    assert!(first.is_valid() && second.is_valid(), "without replicas: two holders");
    let only = within("a lock", other.try_lock("careful")).await.unwrap();
    within("release", only.release()).await.unwrap();
}

#[tokio::test]
async fn a_lock_that_a_replica_has_outlives_a_failover() {
    let (master, replica) = pair().await;
    let redlock = acknowledged(&master);
    let guard = within("a lock", redlock.lock("r").fenced()).await.unwrap();
    within("longer", guard.extend(Duration::from_secs(50))).await.unwrap();
    // At once: the replica had it before the holder.
    master.kill();
    assert!(replica.get("redlock:r").is_some());
    assert!(replica.ttl("redlock:r").unwrap() > Duration::from_secs(40), "the renewal as well");
    promote(&replica);
    let error = within("held", trusting(replica.url()).try_lock("r")).await.unwrap_err();
    assert!(matches!(error, LockError::Held { .. }), "{error}");
}

/// What it does not close: another replica is promoted than the one that acknowledged.
#[tokio::test]
async fn the_promotion_of_a_replica_that_lags_gives_a_lock_twice() {
    let (master, replica) = pair().await;
    let way = Proxy::start(master.port());
    let lags = behind(&way);
    in_step(&master, 2).await;
    way.replies(Flow::Discard);
    // On a busy machine the other replica may be late, too. Then the client asks again.
    let first = within("a lock", acknowledged(&master).lock("r").wait(LIMIT)).await.unwrap();
    master.kill();
    promote(&lags);
    let second = within("a lock", trusting(lags.url()).try_lock("r")).await.unwrap();
    assert!(first.is_valid() && second.is_valid());
    drop(replica);
}

#[tokio::test]
async fn a_replica_that_comes_back_lets_locks_be_given_again() {
    let (master, replica) = pair().await;
    let redlock = acknowledged(&master);
    let guard = within("a lock", redlock.lock("held")).await.unwrap();
    replica.pause();
    let unknown = within("unknown", guard.extend(Duration::from_secs(40))).await.unwrap_err();
    assert!(matches!(unknown, LockError::NoQuorum { .. }), "{unknown}");
    assert!(guard.is_valid(), "a renewal that is not acknowledged is no loss");
    assert!(within("no lock", redlock.try_lock("r")).await.is_err());
    wait_until("the failed vote has left no key", async || master.get("redlock:r").is_none()).await;
    replica.resume();
    wait_until("it is given again", async || redlock.try_lock("r").await.is_ok()).await;
    within("longer", guard.extend(Duration::from_secs(40))).await.unwrap();
    within("release", guard.release()).await.unwrap();
}

/// One question for a batch, and none for what is no vote.
#[tokio::test]
async fn one_wait_stands_for_many_votes() {
    let (master, _replica) = pair().await;
    let redlock = acknowledged(&master);
    within("a lock", redlock.lock("warm")).await.unwrap().release().await.unwrap();
    master.command(&["CONFIG", "RESETSTAT"]);
    let locks = (0..100).map(|lock| redlock.lock(format!("r{lock}")).into_future());
    let guards: Vec<_> =
        within("the locks", join_all(locks)).await.into_iter().map(Result::unwrap).collect();
    let waits = master.calls("wait");
    assert!((1..50).contains(&waits), "{waits} for 100 votes");
    for guard in guards {
        within("release", guard.release()).await.unwrap();
    }
    assert_eq!(master.calls("wait"), waits, "a release is no vote");
}

#[tokio::test]
async fn a_server_that_refuses_to_wait_says_so_at_the_connect() {
    let server = Server::builder().user(&["app", "on", ">p", "~*", "&*", "+@all", "-wait"]).start();
    let node = Node::new(format!("redis://app:p@{}", server.address())).replicas(1);
    let error = within("no lock", trusting(node).try_lock("r")).await.unwrap_err();
    assert!(error.to_string().contains("needs WAIT"), "{error}");
}

/// Its run id is that of before, and its data may be another server's.
#[tokio::test]
async fn a_master_that_was_a_replica_unseen_sits_out() {
    let server = Server::start();
    let redlock = patient([server.url()]).build().unwrap();
    let guard = within("a lock", redlock.lock("held")).await.unwrap();
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    server.command(&["REPLICAOF", "NO", "ONE"]);
    assert!(within("health", redlock.health()).await[0].sits_out.is_none(), "it has seen nothing");
    // As sentinels do it.
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    wait_until("it sits out", async || {
        within("health", redlock.health()).await[0].sits_out.is_some()
    })
    .await;
    let error = within("no lock", redlock.try_lock("new")).await.unwrap_err();
    assert!(error.to_string().contains("it was a replica"), "{error}");
    // It has the lock still, which is renewed there.
    within("longer", guard.extend(Duration::from_secs(40))).await.unwrap();
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    wait_until("it is extended", async || guard.extend(Duration::from_secs(40)).await.is_ok())
        .await;
}
