//! One connection: commands out, in order, and one answer each.
//!
//! redis-rs multiplexes; what is added here is what locks need and it does not have:
//!
//! - **Knowing at once that an idle connection broke.** redis-rs tells that to RESP3 connections
//!   alone. Here the driver of the connection is ours, RESP2 or RESP3, TLS or not: it ends when
//!   the connection does, and the [`Wire`](super::wire::Wire) below it remembers why.
//! - **Commands that go out once they were asked for.** redis-rs skips commands whose caller left
//!   before its driver came round to them. A `SET` or a release must not depend on that (rule 5),
//!   so an exchange that is dropped on its way moves to the task of the driver and ends there.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use redis::{Pipeline, ServerErrorKind, Value, aio::MultiplexedConnection};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

use super::{
    command, reply,
    wire::{Ending, NOT_REDIS},
};
use crate::{
    error::{NodeError, NodeErrorKind},
    node::{Command, Connection, Reply},
};

/// A connection to a server. Dropping it closes the socket, whatever is still on its way.
pub(super) struct RedisConnection {
    redis: MultiplexedConnection,
    line: Arc<Line>,
    driver: JoinHandle<()>,
}

/// What everything that uses one connection knows of it.
struct Line {
    node: Arc<str>,
    ending: Ending,
    /// The server tells of changes to keys that it was asked to track.
    tracks: AtomicBool,
    /// Closes when the driver has ended, after `ending` was set.
    driven: watch::Receiver<()>,
    /// Exchanges whose callers have left. As many at most as callers had under way, which is for
    /// the owner of the connection to bound.
    abandoned: mpsc::UnboundedSender<Exchange>,
}

type Answers = Vec<Result<Reply, NodeError>>;
type Exchange = BoxFuture<'static, Answers>;

impl RedisConnection {
    /// Drives a connection from now on, on the runtime of the caller.
    pub(super) fn start(
        node: Arc<str>,
        redis: MultiplexedConnection,
        driver: impl Future<Output = ()> + Send + 'static,
        ending: Ending,
    ) -> Self {
        let (abandoned, left) = mpsc::unbounded_channel();
        let (driving, driven) = watch::channel(());
        let driver = tokio::spawn(drive(driver, left, ending.clone(), driving));
        let tracks = AtomicBool::new(false);
        Self { redis, line: Arc::new(Line { node, ending, tracks, driven, abandoned }), driver }
    }

    /// The connection of redis-rs, for commands that are no [`Command`]s.
    pub(super) fn redis(&self) -> MultiplexedConnection {
        self.redis.clone()
    }

    /// Notes that the server has agreed to track keys.
    pub(super) fn tracks(&self) {
        self.line.tracks.store(true, Ordering::Relaxed);
    }

    /// Waits until the connection has ended, and says why.
    pub(super) async fn ended(&self) -> Arc<str> {
        self.line.ended().await
    }
}

impl Drop for RedisConnection {
    fn drop(&mut self) {
        self.line.ending.set("this client closed the connection");
        self.driver.abort();
    }
}

impl Connection for RedisConnection {
    fn send(&mut self, commands: Vec<Command>) -> BoxFuture<'static, Answers> {
        let line = Arc::clone(&self.line);
        Box::pin(Persistent {
            exchange: Some(Box::pin(exchange(Arc::clone(&line), self.redis.clone(), commands))),
            started: false,
            line,
        })
    }

    fn ping(&mut self) -> BoxFuture<'static, Result<(), NodeError>> {
        let (line, mut redis) = (Arc::clone(&self.line), self.redis.clone());
        Box::pin(async move {
            match redis.send_packed_command(&redis::cmd("PING")).await {
                Ok(Value::SimpleString(_)) => Ok(()),
                Ok(Value::ServerError(error)) => Err(line.failed(reply::explain(&error, ""))),
                Ok(other) => Err(line.failed(reply::unexpected(&other, "PONG"))),
                Err(_) => Err(line.disconnected().await),
            }
        })
    }

    fn closed(&mut self) -> BoxFuture<'static, NodeError> {
        let line = Arc::clone(&self.line);
        Box::pin(async move { line.disconnected().await })
    }
}

impl Line {
    fn failed(&self, reason: String) -> NodeError {
        NodeError::new(&self.node, NodeErrorKind::Server, reason)
    }

    /// Whatever error redis-rs gives a caller, the connection is of no more use; why, only the
    /// wire knows for sure.
    async fn disconnected(&self) -> NodeError {
        NodeError::new(&self.node, NodeErrorKind::Disconnected, self.ended().await)
    }

    async fn ended(&self) -> Arc<str> {
        let mut driven = self.driven.clone();
        // Nothing is ever sent: an error says that the driver has gone.
        while driven.changed().await.is_ok() {}
        self.ending.reason()
    }
}

/// The task of a connection: its bytes, and the exchanges that nobody waits for any more.
async fn drive(
    driver: impl Future<Output = ()>,
    mut left: mpsc::UnboundedReceiver<Exchange>,
    ending: Ending,
    driving: watch::Sender<()>,
) {
    let mut driver = pin!(driver);
    let mut abandoned = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            () = &mut driver => break,
            Some(exchange) = left.recv() => abandoned.push(exchange),
            Some(_) = abandoned.next() => {}
        }
    }
    // Had the wire ended, it would have said so before. So it was redis-rs that gave it up.
    ending.set(NOT_REDIS);
    drop(driving);
}

/// An exchange that, once polled, runs to its end wherever it is dropped.
struct Persistent {
    exchange: Option<Exchange>,
    started: bool,
    line: Arc<Line>,
}

impl Future for Persistent {
    type Output = Answers;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answers> {
        self.started = true;
        let Some(exchange) = &mut self.exchange else {
            // Polled again after it was ready.
            return Poll::Pending;
        };
        let answers = std::task::ready!(exchange.as_mut().poll(cx));
        self.exchange = None;
        Poll::Ready(answers)
    }
}

impl Drop for Persistent {
    fn drop(&mut self) {
        if let (true, Some(exchange)) = (self.started, self.exchange.take()) {
            // An error says that the connection has ended, and the exchange with it.
            let _ = self.line.abandoned.send(exchange);
        }
    }
}

/// Sends commands, and those scripts again in full that the server did not know (rule 17).
async fn exchange(
    line: Arc<Line>,
    mut redis: MultiplexedConnection,
    commands: Vec<Command>,
) -> Answers {
    let tracks = line.tracks.load(Ordering::Relaxed);
    let Some(mut answers) = request(&mut redis, &commands, command::encode, tracks).await else {
        let error = line.disconnected().await;
        return commands.iter().map(|_| Err(error.clone())).collect();
    };

    // A server that did not know a script has run nothing.
    let unknown: Vec<usize> = (0..answers.len()).filter(|&i| is_no_script(&answers[i])).collect();
    let mut cut_off = None;
    if !unknown.is_empty() {
        let again: Vec<Command> = unknown.iter().map(|&i| commands[i].clone()).collect();
        match request(&mut redis, &again, command::encode_in_full, tracks).await {
            Some(second) => {
                for (i, answer) in unknown.into_iter().zip(second) {
                    answers[i] = answer;
                }
            }
            None => cut_off = Some(line.disconnected().await),
        }
    }

    let mut answers = answers.iter();
    commands
        .iter()
        .map(|command| match (answers.next(), &cut_off) {
            (Some(answer), Some(error)) if is_no_script(answer) => Err(error.clone()),
            (Some(answer), _) => reply::decode(command.action, answer, &command.claim.value)
                .map_err(|reason| line.failed(reason)),
            (None, _) => Err(line.failed("answered fewer commands than were sent".to_owned())),
        })
        .collect()
}

/// The raw answers, a server's errors among them; `None` when the connection broke.
async fn request(
    redis: &mut MultiplexedConnection,
    commands: &[Command],
    encode: fn(&Command) -> redis::Cmd,
    tracks: bool,
) -> Option<Vec<Value>> {
    let prelude = |command: &Command| command::prelude(command.action).filter(|_| tracks);
    match commands {
        [] => Some(Vec::new()),
        [command] if prelude(command).is_none() => {
            redis.send_packed_command(&encode(command)).await.ok().map(|answer| vec![answer])
        }
        _ => {
            let mut pipeline = Pipeline::with_capacity(commands.len());
            // Which of the answers nobody needs: should tracking not work, only the push is missing.
            let mut needed = Vec::with_capacity(commands.len());
            for command in commands {
                if let Some(prelude) = prelude(command) {
                    pipeline.add_command(prelude);
                    needed.push(false);
                }
                pipeline.add_command(encode(command));
                needed.push(true);
            }
            let answers = redis.send_packed_commands(&pipeline, 0, needed.len()).await.ok()?;
            let answers = answers.into_iter().zip(needed);
            Some(answers.filter_map(|(answer, needed)| needed.then_some(answer)).collect())
        }
    }
}

fn is_no_script(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}
