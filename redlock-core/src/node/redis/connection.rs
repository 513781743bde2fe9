//! One connection: sends batches of commands, and notices the end of the connection.
//!
//! redis-rs introduces the client to the server and reads unusual replies. The commands of locks do
//! not pass through it. They need what it does not have:
//!
//! - **Commands that go out once they were asked for.** redis-rs skips commands whose caller left
//!   before its driver came round to them. A `SET` or a release must not depend on that (rule 5).
//! - **Knowing at once that an idle connection broke.** redis-rs reports that only to RESP3
//!   connections.
//! - **No task of its own.** The task that waits for the end of the connection carries its bytes.
//!   That is the supervisor of the node: the answers wake it once, and no driver wakes it a second
//!   time.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures_util::future::BoxFuture;

use super::{
    batch::Batch,
    exchange::Exchange,
    transport::{CloseReason, RUNTIME_ENDED},
};
use crate::{
    error::NodeError,
    node::{Command, Connection, Remaining, Reply, Sender},
    sync::Mutex,
};

type Answers = Vec<Result<Reply, NodeError>>;

/// A connection to a server. Dropping it closes the socket, whatever is still on its way.
pub(super) struct RedisConnection {
    channel: Arc<Channel>,
}

/// The state that all users of one connection share.
struct Channel {
    exchange: Mutex<Exchange>,
    close_reason: CloseReason,
}

impl RedisConnection {
    /// A connection to a server that waits for commands.
    pub(super) fn new(exchange: Exchange) -> Self {
        let close_reason = exchange.close_reason();
        Self { channel: Arc::new(Channel { exchange: Mutex::new(exchange), close_reason }) }
    }
}

impl Drop for RedisConnection {
    fn drop(&mut self) {
        self.channel.close("this client closed the connection");
    }
}

impl Connection for RedisConnection {
    fn sender(&self) -> Arc<dyn Sender> {
        Arc::new(RedisSender(Arc::clone(&self.channel)))
    }

    fn has_pushes(&self) -> bool {
        self.channel.exchange.lock().has_pushes()
    }

    fn ping(&mut self) -> BoxFuture<'static, Result<(), NodeError>> {
        let channel = Arc::clone(&self.channel);
        Box::pin(async move {
            let told = channel.exchange.lock().ping();
            told.await.unwrap_or_else(|_| Err(channel.disconnected()))
        })
    }

    fn closed(&mut self) -> BoxFuture<'static, NodeError> {
        let driver = Driver { channel: Arc::clone(&self.channel) };
        Box::pin(async move {
            poll_fn(|cx| driver.channel.drive(cx)).await;
            driver.channel.disconnected()
        })
    }
}

/// Why a connection ends whose task was taken over.
pub(super) const TAKEN_OVER: &str = "another runtime has taken it over";

struct RedisSender(Arc<Channel>);

impl Sender for RedisSender {
    fn send(&self, commands: Vec<Command>) -> BoxFuture<'static, Answers> {
        Box::pin(Sending { channel: Arc::clone(&self.0), commands, sent: None })
    }

    fn send_last(&self, commands: Vec<Command>) {
        let mut exchange = self.0.exchange.lock();
        exchange.part();
        if !commands.is_empty() {
            exchange.ask(commands);
        }
    }

    fn carry_last(&self) -> Remaining {
        let mut exchange = self.0.exchange.lock();
        // What wakes it has gone with the runtime.
        let _ = exchange.drive(&mut Context::from_waker(Waker::noop()));
        exchange.remaining()
    }

    fn close(&self) {
        self.0.close(TAKEN_OVER);
    }

    /// Answers come with bytes, and bytes wake the driver.
    fn wakes_reader(&self) -> bool {
        true
    }
}

impl Channel {
    fn drive(&self, cx: &mut Context<'_>) -> Poll<()> {
        let (polled, pushed) = {
            let mut exchange = self.exchange.lock();
            (exchange.drive(cx), exchange.take_pushed())
        };
        if let Some((watchers, pushed)) = pushed {
            pushed.into_iter().for_each(|it| it.tell(&watchers));
        }
        polled
    }

    fn close(&self, reason: &str) {
        self.close_reason.set(reason);
        self.exchange.lock().end();
    }

    fn disconnected(&self) -> NodeError {
        self.exchange.lock().disconnected()
    }
}

/// Carries the bytes. A runtime that ends drops this early, and the connection ends with it.
struct Driver {
    channel: Arc<Channel>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.channel.close(RUNTIME_ENDED);
    }
}

/// Commands that are sent when this is first polled. Dropping it later gives up only the answers.
struct Sending {
    channel: Arc<Channel>,
    commands: Vec<Command>,
    sent: Option<Arc<Batch>>,
}

impl Future for Sending {
    type Output = Answers;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answers> {
        let Self { channel, commands, sent } = self.get_mut();
        let mut exchange = channel.exchange.lock();
        let batch = sent.get_or_insert_with(|| exchange.ask(std::mem::take(commands)));
        // A task that reads answers itself, and before it looks here, would only wake itself to
        // look once more.
        // A caller that only sends has no task to wake.
        let reads = exchange.is_driven_by(cx.waker());
        if !reads && !cx.waker().will_wake(Waker::noop()) {
            batch.register(cx.waker());
        }
        drop(exchange);
        batch.poll()
    }
}
