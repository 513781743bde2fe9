//! Native compare commands where a server has them, and locks where scripts are refused.
//!
//! `DELIFEQ` is a real Valkey's. No package has a server with `DELEX`: it is played in front of a
//! real one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redlock_core::{LockError, Redlock, Released};
use redlock_tests::{
    Server, ServerBuilder, Translator, packages, patient, translator, wait_until, within,
};

/// The rules of a user that may do what locks need, and run no scripts.
const NO_SCRIPTS: [&str; 7] = ["app", "on", ">p", "~*", "&*", "+@all", "-@scripting"];

/// A real Valkey 9.1.
fn valkey(test: &str) -> Option<ServerBuilder> {
    Some(Server::builder().program(packages::valkey(test)?))
}

/// The commands of one lock and its release, once the connection is warm.
async fn commands(redlock: &Redlock, seen: impl Fn() -> Vec<String>) -> Vec<String> {
    for _ in 0..2 {
        within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();
    }
    seen();
    within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();
    seen()
}

#[tokio::test]
async fn a_valkey_deletes_natively() {
    let Some(server) = valkey("a_valkey_deletes_natively") else { return };
    let server = server.start();
    let redlock = patient([server.url()]).build().unwrap();
    within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();
    let monitor = server.monitor();
    within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();
    let names: Vec<_> = monitor.finish().iter().map(redlock_tests::Command::name).collect();
    // The second looks whether other clients wait, because the only node keeps the queue.
    assert_eq!(names, ["SET", "DELIFEQ", "EXISTS"]);
}

#[tokio::test]
async fn delex_replaces_the_script() {
    let server = Server::start();
    let played = Translator::redis_8_4(&server, true);
    let redlock = patient([played.url()]).build().unwrap();
    let sent = commands(&redlock, || played.take_seen()).await;
    assert_eq!(sent, ["SET", "DELEX", "EXISTS"]);

    // Locks that are released together share one script call.
    let mut guards = Vec::new();
    for lock in 0..20 {
        guards.push(within("a lock", redlock.lock(format!("r{lock}"))).await.unwrap());
    }
    played.take_seen();
    within("all released", redlock.release_all()).await;
    drop(guards);
    wait_until("all are gone", async || server.keys().is_empty()).await;
    let sent = played.take_seen();
    let deletes = sent.iter().filter(|it| *it == "DELEX").count();
    assert!(deletes < 10 && sent.iter().any(|it| it.starts_with("EVAL")), "{sent:?}");
}

/// A native delete that finds waiting clients gives one of them the turn.
#[tokio::test]
async fn a_waiting_client_is_woken_after_a_native_delete() {
    let server = Server::start();
    let played = Translator::redis_8_4(&server, true);
    let client = || patient([played.url()]).retry_delay(Duration::from_secs(30));
    let (holder, waiter) = (client().build().unwrap(), client().build().unwrap());
    for _ in 0..5 {
        let guard = within("a lock", holder.lock("r")).await.unwrap();
        let waiting = tokio::spawn({
            let waiter = waiter.clone();
            async move { waiter.lock("r").wait(Duration::from_secs(60)).await }
        });
        wait_until("it stands in the queue", async || {
            server.keys().iter().any(|key| key.ends_with(":queue"))
        })
        .await;
        within("release", guard.release()).await.unwrap();
        // Without a turn it would wait for its retry_delay.
        within("the waiter", waiting).await.unwrap().unwrap().release().await.unwrap();
    }
}

/// Holds a lock again and again, and asks at once when it lets go: the `SET` is sent before the answer to the
/// native delete is there. Another client waits.
async fn lets_a_waiter_in(url: String) {
    let client = || patient([url.clone()]).retry_delay(Duration::from_secs(30));
    let (holder, waiter) = (client().build().unwrap(), client().build().unwrap());
    drop(within("a connection", waiter.lock("warm")).await.unwrap());
    let mut guard = within("a lock", holder.lock("r")).await.unwrap();
    let waiting = tokio::spawn(async move {
        drop(waiter.lock("r").wait(Duration::from_secs(60)).await.unwrap());
    });
    // It stands in the queue.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut rounds = 0;
    while !waiting.is_finished() {
        rounds += 1;
        assert!(rounds <= 50, "the waiter starves");
        drop(guard);
        guard = within("a lock", holder.lock("r")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    waiting.await.unwrap();
}

#[tokio::test]
async fn a_client_that_asks_again_at_once_lets_a_waiter_in_with_delex() {
    let server = Server::start();
    let played = Translator::redis_8_4(&server, true);
    lets_a_waiter_in(played.url()).await;
}

#[tokio::test]
async fn a_client_that_asks_again_at_once_lets_a_waiter_in_on_valkey() {
    let test = "a_client_that_asks_again_at_once_lets_a_waiter_in_on_valkey";
    let Some(server) = valkey(test) else { return };
    let server = server.start();
    lets_a_waiter_in(server.url()).await;
}

/// Everything that works without scripts, with a client for each of two processes.
async fn works_without_scripts(url: String, server: &Server) {
    let client = || {
        patient([url.clone()])
            .ttl(Duration::from_secs(20))
            .retry_delay(Duration::from_millis(20))
            .retry_jitter(Duration::ZERO)
    };
    let (one, other) = (client().build().unwrap(), client().build().unwrap());
    let guard = within("a lock", one.lock("r")).await.unwrap();
    let held = within("held", other.try_lock("r")).await.unwrap_err();
    assert!(matches!(held, LockError::Held { .. }), "{held}");

    // It is renewed, and never shortened.
    within("longer", guard.extend(Duration::from_secs(50))).await.unwrap();
    assert!(server.ttl("redlock:r").unwrap() > Duration::from_secs(40));
    within("shorter", guard.extend(Duration::from_secs(20))).await.unwrap();
    assert!(server.ttl("redlock:r").unwrap() > Duration::from_secs(40), "it was shortened");

    let status = within("a look", other.inspect("r")).await.unwrap();
    assert!(status.holder().is_some(), "{status:?}");

    // A client that waits gets it after the release, without a queue.
    let waiting = tokio::spawn({
        let other = other.clone();
        async move { other.lock("r").wait(Duration::from_secs(60)).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(within("release", guard.release()).await.unwrap(), Released::Ours);
    let theirs = within("the waiter", waiting).await.unwrap().unwrap();

    // A lock that was taken away is not extended and not deleted.
    server.command(&["SET", "redlock:r", "another", "PX", "60000"]);
    let lost = within("lost", theirs.extend(Duration::from_secs(20))).await.unwrap_err();
    assert!(lost.is_lost(), "{lost}");
    drop(theirs);
    assert_eq!(server.get("redlock:r").as_deref(), Some("another"));

    // The rest of a min_hold stays.
    let short = within("a lock", one.lock("m").min_hold(Duration::from_secs(15))).await.unwrap();
    within("release", short.release()).await.unwrap();
    let left = server.ttl("redlock:m").unwrap();
    assert!(left <= Duration::from_secs(15) && left > Duration::from_secs(5), "{left:?}");

    // What needs scripts says so.
    let fenced = within("no token", one.try_lock("f").fenced()).await.unwrap_err();
    assert!(fenced.to_string().contains("needs scripts"), "{fenced}");
    within("cleared", one.force_release_now("m")).await.unwrap();
    wait_until("nothing is left", async || server.keys() == ["redlock:r"]).await;
}

#[tokio::test]
async fn a_user_without_scripting_locks_and_releases_on_valkey() {
    let test = "a_user_without_scripting_locks_and_releases_on_valkey";
    let Some(server) = valkey(test) else { return };
    let server = server.user(&NO_SCRIPTS).start();
    let url = format!("redis://app:p@{}", server.address());
    works_without_scripts(url, &server).await;
}

#[tokio::test]
async fn a_user_without_scripting_locks_and_releases_with_delex() {
    let server = Server::start();
    let played = Translator::redis_8_4(&server, false);
    let client = || patient([played.url()]).retry_delay(Duration::from_millis(20));
    let (one, other) = (client().build().unwrap(), client().build().unwrap());
    let guard = within("a lock", one.lock("r")).await.unwrap();
    assert!(within("held", other.try_lock("r")).await.is_err());
    within("longer", guard.extend(Duration::from_secs(50))).await.unwrap();
    assert!(server.ttl("redlock:r").unwrap() > Duration::from_secs(40));
    within("release", guard.release()).await.unwrap();
    assert!(server.keys().is_empty(), "{:?}", server.keys());
}

/// 100 holds of four clients, one after the other, with nothing but polls between them.
#[tokio::test]
async fn clients_without_scripts_exclude_each_other() {
    let test = "clients_without_scripts_exclude_each_other";
    let Some(server) = valkey(test) else { return };
    let server = server.user(&NO_SCRIPTS).start();
    let url = format!("redis://app:p@{}", server.address());
    let mut working = Vec::new();
    for _ in 0..4 {
        let client = patient([url.clone()]).retry_delay(Duration::from_millis(5));
        let client = client.wait(Duration::from_secs(60)).build().unwrap();
        let plain = redis::Client::open(server.url()).unwrap();
        working.push(tokio::spawn(async move {
            let mut plain = plain.get_multiplexed_async_connection().await.unwrap();
            for _ in 0..25 {
                let guard = client.lock("r").await.unwrap();
                // Read and write in two steps: two holders at once would lose an update.
                let before: Option<u32> =
                    redis::cmd("GET").arg("n").query_async(&mut plain).await.unwrap();
                tokio::task::yield_now().await;
                let after = before.unwrap_or(0) + 1;
                () = redis::cmd("SET").arg("n").arg(after).query_async(&mut plain).await.unwrap();
                guard.release().await.unwrap();
            }
        }));
    }
    for it in working {
        within("the work", it).await.unwrap();
    }
    assert_eq!(server.get("n").as_deref(), Some("100"));
}

/// A server that hangs up when it gets a command that it does not know.
#[tokio::test]
async fn a_proxy_that_hangs_up_at_native_commands_is_spoken_to_without() {
    let server = Server::start();
    let proxy = Translator::start(&server, |words| {
        (!matches!(&words[0][..], b"DELEX" | b"DELIFEQ")).then_some(words)
    });
    let redlock = patient([proxy.url()]).build().unwrap();
    wait_until("it is connected", async || redlock.health().await[0].is_up()).await;
    within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();
    assert!(server.keys().is_empty());
}

/// A permission that was taken away while the client was connected.
#[tokio::test]
async fn a_native_command_that_is_refused_later_is_replaced_by_the_script() {
    let server = Server::start();
    let refuses = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&refuses);
    let played = Translator::start(&server, move |words| {
        if !words[0].eq_ignore_ascii_case(b"DELEX") {
            return Some(words);
        }
        if now.load(Ordering::SeqCst) {
            return Some(translator::error(
                "NOPERM User app has no permissions to run the command",
            ));
        }
        // It deletes nothing and says so: only that it is there counts here.
        Some(vec![b"EXISTS".to_vec(), b"no such key".to_vec()])
    });
    let redlock = patient([played.url()]).build().unwrap();
    let guard = within("a lock", redlock.lock("r")).await.unwrap();
    refuses.store(true, Ordering::SeqCst);
    assert_eq!(within("release", guard.release()).await.unwrap(), Released::Ours);
    assert!(server.keys().is_empty());
    let sent = commands(&redlock, || played.take_seen()).await;
    assert_eq!(sent, ["SET", "EVALSHA"], "it is not tried on every release");
}
