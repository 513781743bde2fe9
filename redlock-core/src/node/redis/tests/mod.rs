//! Tests against real servers, and against fake servers for answers that no real server gives.

mod adopt;
mod barriers;
mod breaking;
mod calls;
mod commands;
mod connecting;
#[cfg(any(feature = "sentinel", feature = "cluster"))]
mod control_connections;
mod fence;
mod flooding;
mod late;
mod memory_node;
mod permits;
mod places;
mod released_together;
#[cfg(feature = "sentinel")]
mod sentinel;
mod server;
mod shared;
#[cfg(feature = "tls-rustls")]
mod tls;
mod turns;
mod writing;

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use self::{
    late::again_if_late,
    server::{LIMIT, Server},
};
use super::{
    abilities::Abilities,
    exchange::Setup,
    transport::{CloseReason, Stream, Transport},
};
use crate::{
    clock::SystemClock,
    error::{Cause, LockError, NodeError, NodeErrorKind},
    node::{
        Action, Claim, Command, Connection, Context, KeySet, Listens, NodeSpec, Reply, Restarts,
        ending_by::ending_by, settings::NodeSettings,
    },
    token::OsEntropy,
};

const TTL: Duration = Duration::from_secs(60);
const GRANT: Action = Action::Grant { ttl: TTL };
const RELEASE: Action = Action::Release { wakes: KeySet::NONE };

/// Secrets that must never be shown: a password, or the value of a lock.
const CANARY: &str = "canary0123456789";

/// A node without settings beside its URL.
fn spec(url: &str) -> Result<NodeSpec, LockError> {
    spec_with(url, NodeSettings::default())
}

fn spec_with(url: &str, settings: NodeSettings) -> Result<NodeSpec, LockError> {
    super::spec(url, settings, &context())
}

fn context() -> Context {
    Context {
        clock: Arc::new(SystemClock),
        entropy: Arc::new(OsEntropy),
        node_timeout: Duration::from_secs(5),
        connect_timeout: Duration::from_secs(5),
        restarts: Restarts::Observed,
        sits_out: TTL,
    }
}

async fn connect(url: &str) -> Result<Box<dyn Connection>, NodeError> {
    let spec = spec(url).unwrap();
    within(spec.connector.connect(&Arc::default())).await.map(|(connection, _)| driven(connection))
}

/// A connection that a task waits on, as the supervisor of a node does. Several tasks can wait for its
/// end.
fn driven(mut connection: Box<dyn Connection>) -> Box<dyn Connection> {
    let closed = connection.closed().shared();
    tokio::spawn(closed.clone());
    ending_by(connection, move |_| closed.clone().boxed())
}

async fn connected(url: &str) -> Box<dyn Connection> {
    connect(url).await.unwrap_or_else(|error| panic!("{error}"))
}

/// The reason why no connection can be had.
async fn refusal(url: &str) -> String {
    match connect(url).await {
        Ok(_) => panic!("connected"),
        Err(error) => {
            assert_eq!(error.kind, NodeErrorKind::Down, "{error}");
            discreet(&error);
            error.reason.to_string()
        }
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("nothing happens")
}

/// A connection over this stream, to a server that runs scripts and pushes nothing.
pub(super) fn setup(stream: impl Stream + 'static) -> Setup {
    let close_reason = CloseReason::default();
    Setup {
        node: "a:1".into(),
        transport: Transport::new(stream, close_reason.clone()),
        close_reason,
        watchers: None,
        mutes: false,
        abilities: Abilities { scripts: true, delete: None },
        wait: None,
        is_member: false,
    }
}

fn claim(key: &str, value: &str) -> Arc<Claim> {
    Arc::new(Claim::new(&key.into(), value.to_owned()))
}

async fn act(
    connection: &mut dyn Connection,
    claim: &Arc<Claim>,
    action: Action,
) -> Result<Reply, NodeError> {
    let answers = batch(connection, &[(claim, action)]).await;
    answers.into_iter().next().expect("one answer")
}

async fn batch(
    connection: &mut dyn Connection,
    commands: &[(&Arc<Claim>, Action)],
) -> Vec<Result<Reply, NodeError>> {
    let answers = within(connection.sender().send(commands.iter().map(command).collect())).await;
    assert_eq!(answers.len(), commands.len());
    answers.iter().filter_map(|answer| answer.as_ref().err()).for_each(discreet);
    answers.into_iter().map(|answer| answer.map(without_time)).collect()
}

/// How much was left of an extended key is checked by the tests that ask for it.
fn without_time(reply: Reply) -> Reply {
    match reply {
        Reply::There { left } if left <= 10 * TTL => Reply::Done,
        other => other,
    }
}

fn command(&(claim, action): &(&Arc<Claim>, Action)) -> Command {
    Command { claim: Arc::clone(claim), action }
}

/// Sends commands and leaves before even the first byte can have gone out.
fn send_and_leave(connection: &mut dyn Connection, commands: &[(&Arc<Claim>, Action)]) {
    let sending = connection.sender().send(commands.iter().map(command).collect());
    assert!(sending.now_or_never().is_none(), "there cannot be an answer yet");
}

fn discreet(error: &NodeError) {
    for text in [error.to_string(), format!("{error:?}")] {
        assert!(!text.contains(CANARY), "{text}");
    }
}

/// The answers of a server that tells nothing of itself, and runs scripts.
pub(super) const TELLS_NOTHING: &str = "-NOPERM no info\r\n-NOPERM no info\r\n-NOPERM no info\r\n\
                             -NOSCRIPT No matching script.\r\n:0\r\n\
                             -ERR unknown command\r\n-ERR unknown command\r\n";

/// A server that answers the first thing it reads with the first reply, and so on; after the last
/// it hangs up, for every connection anew.
async fn fake(replies: &'static [&'static str]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                // The first call of a script has its source, and is read in one piece.
                let mut buffer = vec![0; 64 * 1024];
                for reply in replies {
                    if stream.read(&mut buffer).await.unwrap_or(0) == 0 {
                        return;
                    }
                    let _ = stream.write_all(reply.as_bytes()).await;
                }
            });
        }
    });
    port
}
