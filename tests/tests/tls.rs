//! Nodes that are spoken to over TLS: what is trusted, what is shown, and which check failed.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use redlock_core::{Builder, LockError, Node, NodeState, Redlock};
use redlock_tests::{Authority, Certificate, Server, wait_until, within};
use tokio_rustls::rustls::crypto::ring;

const HOSTS: [&str; 1] = ["localhost"];

/// The time for which a lock is extended.
const LONGER: Duration = Duration::from_secs(40);

fn client(node: Node) -> Redlock {
    let _ = ring::default_provider().install_default();
    patient(Redlock::builder().nodes([node])).build().unwrap()
}

/// A handshake takes a busy machine longer than a command.
fn patient(builder: Builder) -> Builder {
    builder
        .node_timeout(Duration::from_secs(5))
        .connect_timeout(Duration::from_secs(30))
        .wait(Duration::from_secs(30))
}

/// Why a node of this client is down.
async fn reason(redlock: &Redlock) -> String {
    let health = within("health", redlock.health()).await.remove(0);
    match health.state {
        NodeState::Down { error, .. } => error.reason.to_string(),
        state => panic!("{state:?}"),
    }
}

#[tokio::test]
async fn a_private_authority_is_trusted_and_no_other() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let server = Server::builder().tls(&ours.certificate(&HOSTS), None).start();

    let redlock = client(Node::new(server.tls_url()).tls_ca(ours.pem()));
    within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();

    let both = ours.pem() + &other.pem();
    let redlock = client(Node::new(server.tls_url()).tls_ca(both));
    within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();

    let deceived = client(Node::new(server.tls_url()).tls_ca(other.pem()));
    let error = within("no lock", deceived.try_lock("r")).await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    let reason = reason(&deceived).await;
    assert!(reason.contains("no authority that this client trusts"), "{reason}");
    assert!(reason.contains("tls_ca"), "{reason}");
}

#[tokio::test]
async fn a_connection_may_take_for_ever() {
    let ours = Authority::new("ours");
    let server = Server::builder().tls(&ours.certificate(&HOSTS), None).start();
    let _ = ring::default_provider().install_default();
    let builder =
        patient(Redlock::builder().nodes([Node::new(server.tls_url()).tls_ca(ours.pem())]));
    let redlock = builder.connect_timeout(Duration::MAX).build().unwrap();
    within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();
}

/// A server without TLS waits for the rest of what it takes for a command.
#[tokio::test]
async fn a_url_and_a_port_that_disagree_about_tls_are_told_so() {
    let ours = Authority::new("ours");
    let with = Server::builder().tls(&ours.certificate(&HOSTS), None).start();
    let without = Server::start();
    for (url, words) in [
        (with.tls_url().replacen("rediss", "redis", 1), "needs rediss://"),
        (format!("rediss://localhost:{}", without.port()), "not its port for TLS"),
    ] {
        let _ = ring::default_provider().install_default();
        let builder = Redlock::builder().nodes([Node::new(&url)]);
        let redlock = builder.connect_timeout(Duration::from_secs(2)).build().unwrap();
        let reason = reason(&redlock).await;
        assert!(reason.contains(words), "{url}: {reason}");
    }
}

#[tokio::test]
async fn a_wrong_certificate_of_a_server_says_which_check_failed() {
    let ours = Authority::new("ours");
    for (certificate, words) in [
        (ours.expired(&HOSTS), "the server's certificate has expired"),
        (ours.certificate(&["elsewhere"]), "is not for the host of this URL"),
    ] {
        let server = Server::builder().tls(&certificate, None).start();
        let redlock = client(Node::new(server.tls_url()).tls_ca(ours.pem()));
        let reason = reason(&redlock).await;
        assert!(reason.starts_with("TLS: ") && reason.contains(words), "{reason}");
    }
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_it_and_says_what_is_wrong_with_it() {
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let server = Server::builder().tls(&servers.certificate(&HOSTS), Some(&clients)).start();
    let node = || Node::new(server.tls_url()).tls_ca(servers.pem());
    let showing = |it: Certificate| node().tls_client(it.pem, it.key);

    let redlock = client(showing(clients.certificate(&["client"])));
    within("a lock", redlock.lock("r")).await.unwrap().release().await.unwrap();

    for (node, words) in [
        (node(), "the server wants a client certificate"),
        (showing(servers.certificate(&["client"])), "the client certificate"),
        (showing(clients.expired(&["client"])), "the client certificate"),
    ] {
        let reason = reason(&client(node)).await;
        assert!(reason.starts_with("TLS: ") && reason.contains(words), "{reason}");
    }
    let (one, another) = (clients.certificate(&["a"]), clients.certificate(&["b"]));
    let mixed = client(node().tls_client(one.pem, another.key));
    let reason = reason(&mixed).await;
    assert!(reason.contains("do not work together"), "{reason}");
}

/// Ends all connections, as a proxy does that wants to see new certificates.
fn disconnect(server: &Server) {
    server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
}

#[tokio::test]
async fn certificates_are_replaced_under_a_held_lock() {
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let server = Server::builder().tls(&servers.certificate(&HOSTS), Some(&clients)).start();
    let shown = Arc::new(Mutex::new((clients.certificate(&["first"]), 0)));
    let node = Node::new(server.tls_url()).tls_ca(servers.pem()).tls_client_with({
        let shown = Arc::clone(&shown);
        move || {
            let mut shown = shown.lock().unwrap();
            shown.1 += 1;
            let Certificate { pem, key } = shown.0.clone();
            async move { Ok((pem, key)) }
        }
    });
    let redlock = client(node);
    let guard = within("a lock", redlock.lock("r")).await.unwrap();

    // A new certificate on both sides; the old one of the client has expired meanwhile.
    shown.lock().unwrap().0 = clients.expired(&["first"]);
    server.replace_certificate(&servers.certificate(&HOSTS));
    disconnect(&server);
    wait_until("the expired certificate is refused", async || {
        let health = within("health", redlock.health()).await.remove(0);
        matches!(&health.state, NodeState::Down { error, .. } if error.reason.contains("the client certificate"))
    })
    .await;
    let before = {
        let mut shown = shown.lock().unwrap();
        shown.0 = clients.certificate(&["second"]);
        shown.1
    };
    wait_until("the new certificate is taken", async || {
        within("health", redlock.health()).await[0].is_up()
    })
    .await;
    assert!(shown.lock().unwrap().1 > before, "it was not asked for");
    assert!(guard.is_valid());
    within("renewal", guard.extend(LONGER)).await.unwrap();
    within("release", guard.release()).await.unwrap();
}

/// The authorities of the machine are those of a variable here, which the test sets for a process of its own.
#[test]
fn a_new_authority_of_the_machine_is_trusted_without_a_restart() {
    const NAME: &str = "a_new_authority_of_the_machine_is_trusted_without_a_restart";
    if let Some(trusted) = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from)
        && trusted.ends_with(NAME)
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(authorities_change(&trusted));
    }
    let directory = tempfile::tempdir().unwrap();
    let itself = Command::new(std::env::current_exe().unwrap())
        .args([NAME, "--exact", "--nocapture"])
        .env("SSL_CERT_FILE", directory.path().join(NAME))
        .env_remove("SSL_CERT_DIR")
        .output()
        .unwrap();
    assert!(itself.status.success(), "{}", String::from_utf8_lossy(&itself.stderr));
    let told = String::from_utf8_lossy(&itself.stdout);
    assert!(told.contains("1 passed"), "no test has this name: {told}");
}

async fn authorities_change(trusted: &Path) {
    for name in ["another", "ours"] {
        let (ours, next) = (Authority::new("ours"), Authority::new(name));
        std::fs::write(trusted, ours.pem()).unwrap();
        let server = Server::builder().tls(&ours.certificate(&HOSTS), None).start();
        let redlock = client(Node::new(server.tls_url()));
        let guard = within("a lock", redlock.lock("r")).await.unwrap();

        std::fs::write(trusted, next.pem()).unwrap();
        server.replace_certificate(&next.certificate(&HOSTS));
        disconnect(&server);
        wait_until("the new authority is trusted", async || guard.extend(LONGER).await.is_ok())
            .await;
        within("release", guard.release()).await.unwrap();
    }
}

#[tokio::test]
async fn a_provider_that_fails_is_quoted() {
    let servers = Authority::new("servers");
    let server = Server::builder().tls(&servers.certificate(&HOSTS), None).start();
    let node = Node::new(server.tls_url()).tls_ca(servers.pem());
    let node = node.tls_client_with(|| async {
        if true {
            return Err("the vault is sealed".into());
        }
        Ok(("", ""))
    });
    let reason = reason(&client(node)).await;
    assert!(reason.ends_with("client certificate failed: the vault is sealed"), "{reason}");
}

/// The sockets of tokio fail once their runtime has ended.
#[test]
fn a_guard_that_is_dropped_after_its_runtime_leaves_no_key() {
    let ours = Authority::new("ours");
    let server = Server::builder().tls(&ours.certificate(&HOSTS), None).start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let guard = runtime.block_on(async {
        let redlock = client(Node::new(server.tls_url()).tls_ca(ours.pem()));
        within("a lock", redlock.lock("r")).await.unwrap()
    });
    drop(runtime);
    assert!(!server.keys().is_empty());
    drop(guard);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(wait_until("no key is left", async || server.keys().is_empty()));
}
