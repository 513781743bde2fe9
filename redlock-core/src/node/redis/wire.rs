//! The bytes to and from a server, and how they ended.

use std::{
    io,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use parking_lot::Mutex;
use redis::Value;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::reply;

/// The ending of a connection on which something came that is no reply.
pub(super) const NOT_REDIS: &str = "the server does not speak the Redis protocol";

/// A stream that remembers how it ended. redis-rs reports a broken connection to some callers as a
/// bare "broken pipe", and does not report it to the owner of an idle connection.
pub(super) struct Wire {
    stream: Box<dyn Stream>,
    ending: Ending,
    /// Something was written.
    asked: bool,
}

/// A wire that redis-rs has while it introduces the client. redis-rs keeps what it is given.
pub(super) struct Lent(Arc<Mutex<Option<Wire>>>);

/// The way to get it back.
pub(super) struct Loan(Arc<Mutex<Option<Wire>>>);

pub(super) fn lend(wire: Wire) -> (Lent, Loan) {
    let shared = Arc::new(Mutex::new(Some(wire)));
    (Lent(Arc::clone(&shared)), Loan(shared))
}

impl Loan {
    /// Takes the wire back: every answer that was asked for has been read, and what comes next is
    /// for us. `None` when it was taken before.
    pub(super) fn take_back(self) -> Option<Wire> {
        self.0.lock().take()
    }
}

impl Lent {
    fn with<T>(
        &self,
        act: impl FnOnce(Pin<&mut Wire>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match &mut *self.0.lock() {
            Some(wire) => act(Pin::new(wire)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncRead for Lent {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.with(|wire| wire.poll_read(cx, buf))
    }
}

impl AsyncWrite for Lent {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.with(|wire| wire.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|wire| wire.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|wire| wire.poll_shutdown(cx))
    }
}

/// Anything that carries bytes both ways.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Why a connection ended; the first reason counts.
#[derive(Clone, Default)]
pub(super) struct Ending(Arc<OnceLock<Arc<str>>>);

impl Ending {
    pub(super) fn set(&self, reason: impl Into<Arc<str>>) {
        let _ = self.0.set(reason.into());
    }

    pub(super) fn reason(&self) -> Arc<str> {
        // The reason is unset when the driver was dropped in the middle: a runtime does that when
        // it ends.
        self.0.get().map_or_else(|| Arc::from("its tokio runtime ended"), Arc::clone)
    }
}

impl Wire {
    pub(super) fn new(stream: impl Stream + 'static, ending: Ending) -> Self {
        Self { stream: Box::new(stream), ending, asked: false }
    }

    fn note<T>(&self, outcome: &Poll<io::Result<T>>) {
        if let Poll::Ready(Err(error)) = outcome {
            self.ending.set(error.to_string());
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.note(&outcome);
        if matches!(outcome, Poll::Ready(Ok(()))) {
            let read = &buf.filled()[before..];
            if read.is_empty() {
                self.ending.set("the server closed the connection");
            } else if !self.asked
                && let Ok(Value::ServerError(error)) = redis::parse_redis_value(read)
            {
                // A server that is full sends an error that was not asked for, and hangs up.
                // redis-rs would drop that error, because no caller waits for an answer.
                self.ending.set(reply::explain(&error, ""));
            }
        }
        outcome
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.asked = true;
        let outcome = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.note(&outcome);
        outcome
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        self.note(&outcome);
        outcome
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
