//! What stands between clients and servers in many places.

use std::time::Duration;

use redlock_core::LockError;
use redlock_tests::{
    Events, Haproxy, LIMIT, Server, Translator, patient, translator, wait_until, within,
};

/// Longer than a busy machine takes to answer a command.
const IDLE: Duration = Duration::from_secs(1);

/// Connections that are silent are closed, over and over.
#[tokio::test]
async fn idle_timeouts_of_haproxy_cost_no_lock_and_no_warning() {
    let test = "idle_timeouts_of_haproxy_cost_no_lock_and_no_warning";
    let server = Server::start();
    let Some(haproxy) = Haproxy::start(test, &server, IDLE) else { return };
    let events = Events::record();
    let redlock = patient([haproxy.url()]).build().unwrap();
    let guard = within("a lock", redlock.lock("held")).await.unwrap();
    let connections = || {
        let stats = server.info("stats");
        let count = stats.lines().find_map(|it| it.strip_prefix("total_connections_received:"));
        count.unwrap().trim().parse::<u32>().unwrap()
    };
    for _ in 0..5 {
        let before = connections();
        wait_until("the connection was replaced", async || connections() > before).await;
        // Between two connections there may be none for a moment.
        wait_until("it is extended", async || guard.extend(Duration::from_secs(40)).await.is_ok())
            .await;
        wait_until("a lock is given", async || redlock.try_lock("other").await.is_ok()).await;
    }
    assert!(guard.is_valid());
    assert_eq!(events.warnings(), Vec::<String>::new());
    within("release", guard.release()).await.unwrap();
}

/// A waiter hears of a release although its connection is replaced again and again.
#[tokio::test]
async fn a_waiter_behind_haproxy_is_woken() {
    let server = Server::start();
    let Some(haproxy) = Haproxy::start("a_waiter_behind_haproxy_is_woken", &server, IDLE) else {
        return;
    };
    let holder = patient([server.url()]).build().unwrap();
    let waiter = patient([haproxy.url()]).retry_delay(4 * LIMIT).wait(4 * LIMIT).build().unwrap();
    let guard = within("a lock", holder.lock("r")).await.unwrap();
    let waiting = tokio::spawn(async move { waiter.lock("r").await });
    tokio::time::sleep(4 * IDLE).await;
    within("release", guard.release()).await.unwrap();
    within("the waiter", waiting).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_backend_that_is_switched_is_recognised_by_its_run_id() {
    let test = "a_backend_that_is_switched_is_recognised_by_its_run_id";
    let (server, other) = (Server::start(), Server::start());
    let Some(haproxy) = Haproxy::start(test, &server, LIMIT) else { return };
    let redlock = patient([haproxy.url()]).build().unwrap();
    let guard = within("a lock", redlock.lock("held")).await.unwrap();
    haproxy.switch_to(&other);
    wait_until("it sits out", async || {
        within("health", redlock.health()).await[0].sits_out.is_some()
    })
    .await;
    let error = within("no lock", redlock.try_lock("new")).await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    assert!(error.to_string().contains("it restarted"), "{error}");
    // The new server has not got the lock: the holder is told.
    let lost = within("lost", guard.extend(Duration::from_secs(40))).await.unwrap_err();
    assert!(lost.is_lost(), "{lost}");
}

/// The same server, directly and behind a proxy, has one vote.
#[tokio::test]
async fn a_server_that_is_named_twice_has_one_vote() {
    let test = "a_server_that_is_named_twice_has_one_vote";
    let server = Server::start();
    let Some(haproxy) = Haproxy::start(test, &server, LIMIT) else { return };
    let redlock = patient([server.url(), haproxy.url(), "redis://127.0.0.1:1".to_owned()]);
    let error = within("no lock", redlock.build().unwrap().try_lock("r")).await.unwrap_err();
    assert!(error.to_string().contains("it is the same server as"), "{error}");
}

/// A proxy that knows neither `HELLO` nor pushes.
#[tokio::test]
async fn a_proxy_that_speaks_only_resp2_costs_nothing_but_pushes() {
    let server = Server::start();
    let proxy = Translator::start(&server, |words| {
        let unknown = matches!(&words[0][..], b"HELLO" | b"CLIENT");
        Some(if unknown { translator::error("ERR unknown command") } else { words })
    });
    let client = || patient([proxy.url()]).retry_delay(Duration::from_millis(20));
    let (one, other) = (client().build().unwrap(), client().build().unwrap());
    let guard = within("a lock", one.lock("r").fenced()).await.unwrap();
    assert!(within("held", other.try_lock("r")).await.unwrap_err().is_held());
    within("longer", guard.extend(Duration::from_secs(40))).await.unwrap();
    let waiting = tokio::spawn({
        let other = other.clone();
        async move { other.lock("r").wait(LIMIT).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    within("release", guard.release()).await.unwrap();
    within("the waiter", waiting).await.unwrap().unwrap().release().await.unwrap();
    let sent = proxy.take_seen();
    assert_eq!(sent.iter().filter(|it| *it == "HELLO").count(), 2, "once for each client");
    assert!(!sent.contains(&"CLIENT".to_owned()), "{sent:?}");
    wait_until("nothing is left", async || server.keys().iter().all(|key| key.ends_with(":fence")))
        .await;
}

/// Envoy, for example: it takes the password in `AUTH` alone, and nothing else before.
#[tokio::test]
async fn a_proxy_that_wants_a_login_before_anything_else_is_logged_in_to() {
    let server = Server::start();
    let proxy = Translator::start(&server, |words| {
        let words = match &words[0][..] {
            b"HELLO" => translator::error("NOAUTH Authentication required."),
            b"AUTH" => vec![b"PING".to_vec()],
            _ => words,
        };
        Some(words)
    });
    let url = proxy.url().replace("redis://", "redis://:password@");
    let redlock = patient([url]).build().unwrap();
    within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();
}

/// A server before Redis 6, whose provider prints a user in the URL all the same.
#[tokio::test]
async fn a_server_without_users_gets_the_password_alone() {
    let server = Server::start();
    let old = Translator::start(&server, |words| {
        let words = match (&words[0][..], words.len()) {
            (b"HELLO", _) => translator::error("ERR unknown command 'HELLO'"),
            (b"AUTH", 2) => vec![b"PING".to_vec()],
            (b"AUTH", _) => translator::error("ERR wrong number of arguments for 'auth' command"),
            _ => words,
        };
        Some(words)
    });
    let url = old.url().replace("redis://", "redis://default:password@");
    let redlock = patient([url]).build().unwrap();
    within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();
}
