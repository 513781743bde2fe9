//! Passwords that change under held locks, and users with few permissions.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use redlock_core::{Credentials, LockError, Node, NodeHealth, NodeState, Redlock};
use redlock_tests::{Events, Nodes, Server, Translator, patient, translator, wait_until, within};

/// What a vault gives out: a password with a number, and how often it was asked.
#[derive(Default)]
struct Vault {
    number: AtomicUsize,
    asked: AtomicUsize,
}

impl Vault {
    fn password(&self) -> String {
        self.asked.fetch_add(1, Ordering::SeqCst);
        format!("secret-{}", self.number.load(Ordering::SeqCst))
    }

    fn node(self: &Arc<Self>, url: String, user: &'static str) -> Node {
        let vault = Arc::clone(self);
        Node::new(url).credentials(move || {
            let vault = Arc::clone(&vault);
            async move { Ok(Credentials::new(user, vault.password())) }
        })
    }
}

/// Ends the connections of clients.
fn disconnect(server: &Server) {
    server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
}

#[tokio::test]
async fn no_lock_is_lost_while_passwords_change() {
    let nodes = Nodes::start(3);
    for server in &*nodes {
        server.command(&["ACL", "SETUSER", "app", "on", ">secret-0", "~*", "&*", "+@all"]);
    }
    let vault = Arc::new(Vault::default());
    let redlock = patient(nodes.urls().into_iter().map(|url| vault.node(url, "app")));
    let redlock = redlock.ttl(Duration::from_secs(20)).build().unwrap();
    let mut guards = Vec::new();
    for lock in 0..50 {
        let guard = within("a lock", redlock.lock(format!("lock-{lock}"))).await.unwrap();
        guards.push(guard);
    }
    // A node that connects late would miss a change.
    let all_connected = async || {
        wait_until("all nodes are connected", async || {
            redlock.health().await.iter().all(NodeHealth::is_up)
        })
        .await;
    };
    for change in 1..=5 {
        all_connected().await;
        let password = format!(">secret-{change}");
        // The servers change first: a client that connects in between is refused for a moment.
        for server in &*nodes {
            server.command(&["ACL", "SETUSER", "app", "resetpass", &password]);
            disconnect(server);
        }
        vault.number.store(change, Ordering::SeqCst);
        for guard in &guards {
            wait_until("it is extended", async || {
                guard.extend(Duration::from_secs(20)).await.is_ok()
            })
            .await;
        }
    }
    assert!(guards.iter().all(|guard| guard.is_valid()));
    all_connected().await;
    for guard in guards {
        within("release", guard.release()).await.unwrap();
    }
    assert!(vault.asked.load(Ordering::SeqCst) >= 3 * 6, "at each connect");
}

/// The password of the default user, as `requirepass` sets it.
#[tokio::test]
async fn the_provider_is_asked_again_when_the_server_wants_a_login() {
    let server = Server::builder().password("secret-0").start();
    let vault = Arc::new(Vault::default());
    let redlock = patient([vault.node(server.url(), "default")]).build().unwrap();
    let guard = within("a lock", redlock.lock("r")).await.unwrap();
    let asked = vault.asked.load(Ordering::SeqCst);

    // From now on the open connection has no user.
    vault.number.store(1, Ordering::SeqCst);
    server.command(&["CONFIG", "SET", "requirepass", "secret-1"]);
    let id = server
        .clients()
        .iter()
        .find_map(|line| line.split(' ').find_map(|word| word.strip_prefix("id="))?.parse().ok())
        .unwrap_or(0_u64);
    server.command(&["CLIENT", "KILL", "ID", &id.to_string()]);
    wait_until("it is extended", async || guard.extend(Duration::from_secs(30)).await.is_ok())
        .await;
    assert!(vault.asked.load(Ordering::SeqCst) > asked);
    within("release", guard.release()).await.unwrap();
}

/// A password that was changed between the answer of the vault and that of the server.
#[tokio::test]
async fn a_refused_password_is_asked_for_once_more_at_once() {
    let server = Server::builder().password("secret-1").start();
    let asked = Arc::new(AtomicUsize::new(0));
    let node = Node::new(server.url()).credentials({
        let asked = Arc::clone(&asked);
        move || {
            let number = asked.fetch_add(1, Ordering::SeqCst);
            async move { Ok(Credentials::new("", format!("secret-{number}"))) }
        }
    });
    let redlock = patient([node]).build().unwrap();
    let health = within("health", redlock.health()).await;
    assert!(health[0].is_up(), "{health:?}");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_provider_that_fails_is_quoted_and_a_wrong_password_is_not() {
    let server = Server::builder().password("right").start();
    let down = async |node: Node| {
        let redlock = patient([node]).build().unwrap();
        match within("health", redlock.health()).await.remove(0).state {
            NodeState::Down { error, .. } => error.to_string(),
            state => panic!("{state:?}"),
        }
    };
    let sealed =
        Node::new(server.url()).credentials(|| async { Err("the vault is sealed".into()) });
    let error = down(sealed).await;
    assert!(error.contains("credentials failed: the vault is sealed"), "{error}");
    let wrong = Node::new(server.url())
        .credentials(|| async { Ok(Credentials::new("default", "canary-password")) });
    let error = down(wrong).await;
    assert!(error.contains("WRONGPASS") && !error.contains("canary"), "{error}");
}

#[tokio::test]
async fn a_unix_socket_takes_credentials_as_well() {
    let server = Server::builder().password("secret-0").unix_socket().start();
    let vault = Arc::new(Vault::default());
    let url = format!("redis+unix://{}", server.socket().display());
    let redlock = patient([vault.node(url, "default")]).build().unwrap();
    within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();
}

#[test]
fn a_node_in_memory_takes_no_settings_of_servers() {
    let memory = || Node::from(redlock_core::MemoryNode::new());
    for (node, setting) in [
        (memory().replicas(1), "replicas"),
        (memory().credentials(|| async { Ok(Credentials::new("", "")) }), "credentials"),
    ] {
        let error = Redlock::builder().nodes([node]).build().unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error:?}");
        assert!(error.to_string().contains(setting), "{error}");
    }
}

/// A user that may not run INFO.
#[tokio::test]
async fn a_user_without_info_is_told_at_the_first_connect_and_by_health() {
    let events = Events::record();
    let server = Server::builder().user(&["app", "on", ">p", "~*", "&*", "+@all", "-info"]).start();
    let url = format!("redis://app:p@{}", server.address());
    let redlock = patient([url]).build().unwrap();
    let health = within("health", redlock.health()).await;
    assert!(health[0].is_up());
    let [advice] = &health[0].advice[..] else { panic!("{health:?}") };
    assert!(advice.contains("every reconnect counts as a restart"), "{advice}");
    assert!(advice.contains("+info"), "{advice}");
    assert!(events.warned_of(&["every reconnect counts as a restart", "+info"]));

    // What it costs.
    within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();
    disconnect(&server);
    wait_until("it sits out", async || {
        within("health", redlock.health()).await[0].sits_out.is_some()
    })
    .await;
    let error = within("no lock", redlock.try_lock("r")).await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
}

/// A server that wants a login on a connection that had one.
#[tokio::test]
async fn a_login_that_expires_on_an_open_connection_is_renewed() {
    let server = Server::start();
    let expired = Arc::new(AtomicBool::new(false));
    let played = Translator::start(&server, {
        let expired = Arc::clone(&expired);
        move |words| {
            let asked = words[0].eq_ignore_ascii_case(b"SET");
            let refuses = asked && expired.swap(false, Ordering::SeqCst);
            Some(if refuses { translator::error("NOAUTH Authentication required.") } else { words })
        }
    });
    let asked = Arc::new(AtomicUsize::new(0));
    let node = Node::new(played.url()).credentials({
        let asked = Arc::clone(&asked);
        move || {
            asked.fetch_add(1, Ordering::SeqCst);
            async { Ok(Credentials::new("default", "any")) }
        }
    });
    let redlock = patient([node]).build().unwrap();
    let guard = within("a lock", redlock.lock("held")).await.unwrap();
    let before = asked.load(Ordering::SeqCst);
    expired.store(true, Ordering::SeqCst);
    let _ = within("refused", redlock.try_lock("r")).await;
    wait_until("it logs in again", async || asked.load(Ordering::SeqCst) > before).await;
    wait_until("a lock is given", async || redlock.try_lock("r").await.is_ok()).await;
    wait_until("it is extended", async || guard.extend(Duration::from_secs(40)).await.is_ok())
        .await;
    within("release", guard.release()).await.unwrap();
}

#[tokio::test]
async fn credentials_leave_the_database_of_the_url() {
    let nodes = Nodes::start(1);
    let node = Node::new(format!("{}/3", nodes.urls()[0]))
        .credentials(|| async { Ok(Credentials::new("default", "x")) });
    let redlock = patient([node]).build().unwrap();
    let _guard = within("a lock", redlock.lock("r")).await.unwrap();
    assert!(nodes[0].keys().is_empty(), "it is in database 0");
}
