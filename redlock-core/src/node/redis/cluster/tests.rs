//! Members that are of no use, over fake servers.

use std::{
    ops::RangeInclusive,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::{
    clock::SystemClock,
    node::{
        Action, Claim, Command, Restarts,
        credentials::Provider,
        redis::{cluster_spec, tests::TELLS_NOTHING, url},
    },
    token::OsEntropy,
};

/// Far more than any step here takes, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(30);

const KEY: &str = "redlock:a";

fn context() -> Context {
    Context {
        clock: Arc::new(SystemClock),
        entropy: Arc::new(OsEntropy),
        node_timeout: LIMIT,
        connect_timeout: LIMIT,
        restarts: Restarts::Trusted,
        sits_out: LIMIT,
    }
}

/// What the members of a cluster were asked.
#[derive(Default)]
struct Asked {
    looks: AtomicUsize,
    /// How often they were connected for locks.
    connections: AtomicUsize,
    /// What they answer to a look.
    shards: Mutex<String>,
}

/// A cluster of two members, as each of them describes it. They end a connection at the first command of a
/// lock.
async fn cluster(slots: [RangeInclusive<u16>; 2]) -> (u16, Arc<Asked>) {
    let bind = || async { TcpListener::bind("127.0.0.1:0").await.unwrap() };
    let listeners = [bind().await, bind().await];
    let ports = listeners.each_ref().map(|it| it.local_addr().unwrap().port());
    let mut shards = "+cluster_state:ok\r\n*2\r\n".to_owned();
    for (slots, port) in slots.iter().zip(ports) {
        let (first, last) = (slots.start(), slots.end());
        let member = format!("*3\r\n$9\r\n127.0.0.1\r\n:{port}\r\n$5\r\n{port}\r\n");
        shards += &format!("*3\r\n:{first}\r\n:{last}\r\n{member}");
    }
    let asked = Arc::new(Asked { shards: Mutex::new(shards), ..Asked::default() });
    for listener in listeners {
        let asked = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&asked)));
            }
        });
    }
    (ports[0], asked)
}

async fn serve(mut stream: TcpStream, asked: Arc<Asked>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        let text = String::from_utf8_lossy(&buffer[..read]);
        let answer = if text.contains("CLUSTER") {
            asked.looks.fetch_add(1, Ordering::Relaxed);
            asked.shards.lock().clone()
        } else if text.contains("INFO") {
            asked.connections.fetch_add(1, Ordering::Relaxed);
            TELLS_NOTHING.to_owned()
        } else if text.contains("PING") {
            "+PONG\r\n".to_owned()
        } else {
            return;
        };
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}

/// Asks the cluster for the lock, again and again for two seconds, and until it has been `asked` as often as this.
/// Returns how many seconds that took.
async fn ask_for_locks(port: u16, asked: &AtomicUsize, often: usize) -> usize {
    let url = format!("redis://127.0.0.1:{port}?protocol=resp2");
    let spec = cluster_spec(&[url], NodeSettings::default(), &context()).unwrap();
    let opened = tokio::time::timeout(LIMIT, spec.connector.connect(&Arc::default())).await;
    let (mut connection, _) = opened.unwrap().unwrap_or_else(|error| panic!("{error}"));
    let sender = connection.sender();
    let begun = Instant::now();
    let asking = async {
        while begun.elapsed() < Duration::from_secs(2) || asked.load(Ordering::Relaxed) < often {
            let claim = Arc::new(Claim::new(&KEY.into(), "v".to_owned()));
            let answers =
                sender.send(vec![Command { claim, action: Action::Grant { ttl: LIMIT } }]).await;
            assert!(answers[0].is_err(), "{answers:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        error = connection.closed() => panic!("{error}"),
        asked = tokio::time::timeout(LIMIT, asking) => asked.unwrap(),
    }
    usize::try_from(begun.elapsed().as_secs()).unwrap()
}

#[test]
fn a_slot_sits_out_until_no_client_goes_on_with_its_former_master() {
    let url = url::parse("redis://127.0.0.1:1").unwrap();
    let context = context();
    let cluster = ClusterConnector::new(vec![url], NodeSettings::default(), &context).unwrap();
    let Looker { limit, span, .. } = &*cluster.looker;
    // Of two looks, each asks and connects.
    let two_looks = 2 * (*limit + *limit);
    assert!(*span >= context.sits_out + connection::LOOK_INTERVAL + two_looks, "{span:?}");
    // As a whole, too: a client may have reached it late.
    assert_eq!(cluster.overlap(), *span - context.sits_out);
    let node = crate::Node::cluster(["redis://127.0.0.1:1"]);
    crate::Redlock::builder().nodes([node]).connect_timeout(Duration::MAX).build().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_late_is_named() {
    let hung = Some(Provider::new(std::future::pending));
    let settings = NodeSettings { credentials: hung, ..NodeSettings::default() };
    let url = "redis://127.0.0.1:1".to_owned();
    let spec = cluster_spec(&[url], settings, &context()).unwrap();
    let opened = tokio::time::timeout(LIMIT, spec.connector.connect(&Arc::default())).await;
    let error = opened.unwrap().err().unwrap();
    let words = "the provider of the credentials has not answered within 9s";
    assert!(error.reason.contains(words), "{error}");
}

/// Its time is the same part of the third of `connect_timeout` that a member has.
#[cfg(feature = "tls-rustls")]
#[tokio::test(start_paused = true)]
async fn a_provider_of_certificates_that_is_late_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("rediss://{}", listener.local_addr().unwrap());
    let hung = Provider::new(std::future::pending);
    let mut settings = NodeSettings::default();
    settings.tls.client = Some(crate::node::settings::ClientCertificate::Asked(hung));
    let spec = cluster_spec(&[url], settings, &context()).unwrap();
    let opened = tokio::time::timeout(LIMIT, spec.connector.connect(&Arc::default())).await;
    let error = opened.unwrap().err().unwrap();
    let words = "the provider of the client certificate has not answered within 9s";
    assert!(error.reason.contains(words), "{error}");
}

/// Clients that were started at different times choose the same queue nodes.
#[tokio::test]
async fn all_clients_know_a_cluster_by_its_present_members() {
    let slot = slots::slot_of(KEY);
    let (port, asked) = cluster([0..=slot - 1, slot..=slots::SLOTS - 1]).await;
    let url = format!("redis://127.0.0.1:{port}?protocol=resp2");
    let client = || {
        let settings = NodeSettings::default();
        cluster_spec(std::slice::from_ref(&url), settings, &context()).unwrap().connector
    };
    let [early, late] = [client(), client()];
    assert_eq!(early.fingerprint(), None);
    let (mut connection, identity) = early.connect(&Arc::default()).await.unwrap();
    let before = early.fingerprint().unwrap();
    let closed = tokio::spawn(connection.closed());
    let renamed = asked.shards.lock().replace("\r\n$5\r\n", "\r\n$6\r\n0");
    *asked.shards.lock() = renamed;
    let follows = async {
        while early.fingerprint() == Some(before) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, follows).await.expect("a look");
    let (_connection, other) = late.connect(&Arc::default()).await.unwrap();
    assert_eq!(late.fingerprint(), early.fingerprint());
    assert_ne!(other.run_id, identity.run_id, "it stays the same to one client only");
    closed.abort();
}

/// As after a reset. A user without permission for the state of the cluster is told nothing of it.
#[tokio::test]
async fn a_member_that_belongs_to_no_cluster_is_not_believed() {
    let (alone, told) = cluster([0..=0, 1..=slots::SLOTS - 1]).await;
    *told.shards.lock() = "-NOPERM no\r\n*0\r\n".to_owned();
    let (port, _) = cluster([0..=0, 1..=slots::SLOTS - 1]).await;
    let connects = async |ports: &[u16]| {
        let urls = ports.iter().map(|port| format!("redis://127.0.0.1:{port}?protocol=resp2"));
        let urls: Vec<_> = urls.collect();
        let spec = cluster_spec(&urls, NodeSettings::default(), &context()).unwrap();
        let connected = spec.connector.connect(&Arc::default());
        tokio::time::timeout(LIMIT, connected).await.unwrap().map(drop)
    };
    let error = connects(&[alone]).await.unwrap_err();
    assert!(error.reason.contains(&format!("127.0.0.1:{alone}: it knows of no master")), "{error}");
    for ports in [[alone, port], [port, alone]] {
        for _ in 0..10 {
            connects(&ports).await.unwrap();
        }
    }
}

/// With pauses that double up to 0.8 s, the first two seconds have room for seven attempts, and each later one for two.
#[tokio::test]
async fn a_member_that_breaks_its_connections_is_connected_with_pauses() {
    let slot = slots::slot_of(KEY);
    let (port, asked) = cluster([0..=slot - 1, slot..=slots::SLOTS - 1]).await;
    // The first two are those of the beginning.
    let seconds = ask_for_locks(port, &asked.connections, 4).await;
    let [looks, connections] =
        [&asked.looks, &asked.connections].map(|it| it.load(Ordering::Relaxed));
    assert!(connections <= 7 + 2 * seconds, "{connections} connections in {seconds} s");
    assert!(looks <= 2 * (20 + 5 * seconds), "{looks} questions to two members in {seconds} s");
}

#[tokio::test]
async fn looks_come_less_often_while_slots_are_without_a_master() {
    let slot = slots::slot_of(KEY);
    let (port, asked) = cluster([0..=slot - 1, slot + 1..=slots::SLOTS - 1]).await;
    let seconds = ask_for_locks(port, &asked.looks, 8).await;
    let [looks, connections] =
        [&asked.looks, &asked.connections].map(|it| it.load(Ordering::Relaxed));
    assert!(looks <= 2 * (7 + 2 * seconds), "{looks} questions to two members in {seconds} s");
    assert_eq!(connections, 2);
}
