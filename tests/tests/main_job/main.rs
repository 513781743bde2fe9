//! The main job over real servers: lock, hold, extend, release, and what errors say.

mod settings;

use std::time::Duration;

use redlock_core::{LockError, LockHandle, LostReason, Redlock, Released};
use redlock_tests::{LIMIT, Nodes, Server, patient, wait_until, within};

const SECOND: Duration = Duration::from_secs(1);

/// Everything that a lock does in a good life, between two clients.
async fn whole_life(count: usize) {
    let nodes = Nodes::start(count);
    let (a, b) = (nodes.client().build().unwrap(), nodes.client().build().unwrap());
    nodes.warm_up(&a).await;
    nodes.warm_up(&b).await;
    let key = "redlock:job";

    // Taken, on every node, with the ttl, and by one client alone.
    let guard = a.lock("job").await.unwrap();
    assert_eq!(guard.resource(), "job");
    assert!(guard.is_valid() && guard.validity() <= 30 * SECOND);
    wait_until("all nodes hold the lock", async || guard.votes() == count).await;
    assert_eq!(nodes.holding(key), count);
    for node in nodes.iter() {
        assert_eq!(node.keys(), [key]);
        assert!(node.ttl(key).is_some_and(|ttl| ttl <= 30 * SECOND));
    }
    let refused = b.try_lock("job").await.unwrap_err();
    assert!(matches!(refused, LockError::Held { by_this_client: false, .. }), "{refused:?}");
    let refused = a.try_lock("job").await.unwrap_err();
    assert!(matches!(refused, LockError::Held { by_this_client: true, .. }), "{refused:?}");

    // Extended on every node.
    guard.extend(60 * SECOND).await.unwrap();
    assert!(guard.validity() > 30 * SECOND);
    wait_until("all nodes were extended", async || {
        nodes.iter().all(|node| node.ttl(key).is_some_and(|ttl| ttl > 30 * SECOND))
    })
    .await;

    // Released: at once for every client, soon on every node.
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    let guard = b.try_lock("job").await.unwrap();
    drop(guard);
    wait_until("a dropped guard has released", async || nodes.are_empty()).await;

    // Run: locked inside, released after.
    let result = a
        .lock("job")
        .run(async |lock: &LockHandle| {
            assert!(nodes.holding(key) >= nodes.quorum());
            (lock.resource().to_owned(), LockHandle::current().is_some(), lock.is_valid())
        })
        .await;
    assert_eq!(result.unwrap(), ("job".to_owned(), true, true));
    wait_until("run has released", async || nodes.are_empty()).await;
}

#[tokio::test]
async fn a_lock_works_on_1_node() {
    whole_life(1).await;
}

#[tokio::test]
async fn a_lock_works_on_2_nodes() {
    whole_life(2).await;
}

#[tokio::test]
async fn a_lock_works_on_3_nodes() {
    whole_life(3).await;
}

#[tokio::test]
async fn a_lock_works_on_4_nodes() {
    whole_life(4).await;
}

#[tokio::test]
async fn a_lock_works_on_5_nodes() {
    whole_life(5).await;
}

#[tokio::test]
async fn a_lock_works_on_7_nodes() {
    whole_life(7).await;
}

#[tokio::test]
async fn connect_returns_a_client_with_the_defaults_that_has_a_quorum() {
    let nodes = Nodes::start(3);
    let client = within("connect", Redlock::connect(nodes.urls())).await.unwrap();
    // It gives nodes 50 ms to answer, which a busy machine may take to be no quorum.
    wait_until("a lock is given and released", async || {
        let Ok(guard) = client.lock("job").await else { return false };
        assert!(guard.validity() > 20 * SECOND && guard.validity() <= 30 * SECOND);
        guard.release().await.is_ok_and(|released| released == Released::Ours)
    })
    .await;
}

#[tokio::test]
async fn connect_without_a_quorum_is_no_quorum() {
    let nodes = Nodes::start(3);
    nodes[0].kill();
    nodes[1].kill();
    let error = within("connect", Redlock::connect(nodes.urls())).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().contains(&nodes[0].address()), "{error}");
}

#[tokio::test]
async fn urls_may_name_users_passwords_databases_and_unix_sockets() {
    let alice = ["alice", "on", ">pw", "~*", "+@all"];
    let by_password = Server::builder().password("secret").start();
    let by_user = Server::builder().user(&alice).start();
    let by_socket = Server::builder().user(&alice).unix_socket().start();
    let urls = [
        format!("redis://:secret@{}/3", by_password.address()),
        format!("redis://alice:pw@{}/4", by_user.address()),
        format!("redis+unix://{}?db=5&user=alice&pass=pw", by_socket.socket().display()),
    ];
    let client = patient(urls).build().unwrap();
    wait_until("all three have the lock, each in its database", async || {
        let guard = client.lock("job").await.unwrap();
        let all =
            [(&by_password, "db3:keys=1"), (&by_user, "db4:keys=1"), (&by_socket, "db5:keys=1")]
                .iter()
                .all(|(server, database)| server.info("keyspace").contains(database));
        guard.release().await.unwrap();
        all
    })
    .await;
}

#[tokio::test]
async fn keys_have_the_prefix_and_values_name_the_client_behind_a_token() {
    let node = Server::start();
    let client = patient([node.url()]).key_prefix("shop:").client_name("checkout-1");
    let client = client.build().unwrap();
    let mut values = Vec::new();
    for _ in 0..2 {
        let guard = client.lock("invoice:42").await.unwrap();
        assert_eq!(node.keys(), ["shop:invoice:42"]);
        values.push(node.get("shop:invoice:42").unwrap());
        guard.release().await.unwrap();
    }
    assert!(values.iter().all(|value| value.ends_with(".checkout-1")), "{values:?}");
    assert_ne!(values[0], values[1], "every lock has a token of its own");
}

#[tokio::test]
async fn an_empty_prefix_shares_keys_with_other_clients() {
    let node = Server::start();
    let client = patient([node.url()]).key_prefix("").build().unwrap();
    node.command(&["SET", "job", "somebody-else", "PX", "60000"]);
    assert!(client.try_lock("job").await.unwrap_err().is_held());
    assert_eq!(node.get("job").as_deref(), Some("somebody-else"));
}

#[tokio::test]
async fn a_waiter_gets_the_lock_when_it_is_released() {
    let nodes = Nodes::start(3);
    let (a, b) = (nodes.client().build().unwrap(), nodes.client().build().unwrap());
    let guard = a.lock("job").await.unwrap();
    let waiter = tokio::spawn(async move { b.lock("job").wait(LIMIT).await });
    let refused = nodes.client().build().unwrap().lock("job").wait(Duration::ZERO).await;
    assert!(refused.unwrap_err().is_held());
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    let guard = within("the waiter", waiter).await.unwrap().unwrap();
    assert!(guard.is_valid());
}

#[tokio::test]
async fn held_names_what_is_held_now() {
    let nodes = Nodes::start(3);
    let client = nodes.client().build().unwrap();
    let held = || {
        let mut names: Vec<_> =
            client.held().iter().map(|handle| handle.resource().to_owned()).collect();
        names.sort();
        names
    };
    assert!(held().is_empty());
    let one = client.lock("one").await.unwrap();
    let two = client.lock("two").await.unwrap();
    assert_eq!(held(), ["one", "two"]);
    one.release().await.unwrap();
    assert_eq!(held(), ["two"]);
    drop(two);
    assert!(held().is_empty());
}

#[tokio::test]
async fn a_handle_owns_nothing_and_sees_the_end() {
    let nodes = Nodes::start(3);
    let client = nodes.client().build().unwrap();
    let guard = client.lock("job").await.unwrap();
    let handle = guard.handle();
    assert!(handle.is_valid() && handle.validity() > Duration::ZERO);
    let lost = tokio::spawn(handle.lost());
    drop(guard);
    within("lost() of a released lock", lost).await.unwrap();
    assert!(!handle.is_valid());
    assert_eq!(handle.validity(), Duration::ZERO);
}

#[tokio::test]
async fn release_all_ends_every_hold_and_allows_new_ones() {
    let nodes = Nodes::start(3);
    let client = nodes.client().build().unwrap();
    let guard = client.lock("bare").await.unwrap();
    let (started, start) = tokio::sync::oneshot::channel();
    let body = tokio::spawn({
        let client = client.clone();
        async move {
            let body = async |_: &LockHandle| {
                started.send(()).unwrap();
                std::future::pending::<()>().await;
            };
            client.lock("body").run(body).await
        }
    });
    start.await.unwrap();
    within("release_all", client.release_all()).await;
    let error = within("the body", body).await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::Shutdown, .. }), "{error:?}");
    within("lost() of the guard", guard.lost()).await;
    wait_until("no key is left", async || nodes.are_empty()).await;
    client.lock("bare").await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn held_names_the_resource_and_the_holder() {
    let nodes = Nodes::start(3);
    let client = nodes.client().build().unwrap();
    let _guard = client.lock("invoice:42").await.unwrap();
    let error = client.try_lock("invoice:42").await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("invoice:42") && text.contains("held by this client"), "{text}");
    assert!(!text.contains('\n'), "{text}");
    assert!(error.is_held() && !error.is_unavailable() && !error.is_lost());
    assert!(error.retry_after().is_some());
}

#[tokio::test]
async fn no_secret_is_ever_printed() {
    let node = Server::builder().password("canary-right").start();
    let url = format!("redis://:canary-right@{}", node.address());
    let client = patient([url.as_str()]).build().unwrap();
    let guard = client.lock("job").await.unwrap();
    let value = node.get("redlock:job").unwrap();
    let token = value.split('.').next().unwrap().to_owned();
    assert!(token.len() >= 20, "a token of 160 bits is longer than {token:?}");
    let mut shown = vec![
        format!("{client:?}"),
        format!("{guard:?} {:?}", guard.handle()),
        format!("{:?}", client.health().await),
        format!("{:?}", client.lock("job")),
        format!("{:?}", Redlock::builder().nodes([url.as_str()])),
    ];
    let wrong = format!("redis://:canary-wrong@{}", node.address());
    let stranger = Redlock::builder().nodes([wrong]).build().unwrap();
    let unparsable = Redlock::builder().nodes(["redis://u:canary-url@host:no-port"]).build();
    let twice = Redlock::builder().nodes([url.as_str(), url.as_str()]).build();
    for error in [
        client.try_lock("job").await.unwrap_err(),
        stranger.try_lock("job").await.unwrap_err(),
        unparsable.unwrap_err(),
        twice.unwrap_err(),
    ] {
        shown.push(format!("{error} {error:?}"));
    }
    for text in shown {
        assert!(!text.contains("canary"), "a password in {text}");
        assert!(!text.contains(&token), "a token in {text}");
    }
}
