//! The bytes to and from a server, and how they ended.

use std::{
    io,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use redis::Value;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{server_error, socket::Socket};

/// Why a connection ended whose runtime has ended.
pub(super) const RUNTIME_ENDED: &str = "its tokio runtime ended";

/// Why a connection ended on which the server sent something that is no reply.
pub(super) const NOT_REDIS: &str = "the server does not speak the Redis protocol";

/// A stream that remembers how it ended. redis-rs reports a broken connection to some callers as a
/// bare "broken pipe", and does not report it to the owner of an idle connection.
pub(super) struct Transport {
    stream: Box<dyn Stream>,
    close_reason: CloseReason,
    /// Something was written.
    asked: bool,
}

/// Anything that carries bytes both ways.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {
    /// Goes on without the runtime, if it can: see [`Socket::leave_runtime`].
    fn leave_runtime(&mut self) -> bool;
}

impl<S> Stream for Socket<S>
where
    Self: AsyncRead + AsyncWrite + Send + Unpin,
{
    fn leave_runtime(&mut self) -> bool {
        self.leave_runtime()
    }
}

#[cfg(feature = "tls-rustls")]
impl<S> Stream for tokio_rustls::client::TlsStream<Socket<S>>
where
    Socket<S>: AsyncRead + AsyncWrite + Send + Unpin,
{
    fn leave_runtime(&mut self) -> bool {
        self.get_mut().0.leave_runtime()
    }
}

/// Why a connection ended; the first reason counts.
#[derive(Clone, Default)]
pub(super) struct CloseReason(Arc<OnceLock<Arc<str>>>);

impl CloseReason {
    pub(super) fn set(&self, reason: impl Into<Arc<str>>) {
        let _ = self.0.set(reason.into());
    }

    pub(super) fn reason(&self) -> Arc<str> {
        // The reason is unset when the driver was dropped in the middle: a runtime does that when
        // it ends.
        self.0.get().map_or_else(|| Arc::from(RUNTIME_ENDED), Arc::clone)
    }
}

impl Transport {
    pub(super) fn new(stream: impl Stream + 'static, close_reason: CloseReason) -> Self {
        Self { stream: Box::new(stream), close_reason, asked: false }
    }

    /// Goes on without the runtime, if it can: see [`Socket::leave_runtime`].
    pub(super) fn leave_runtime(&mut self) -> bool {
        self.stream.leave_runtime()
    }

    fn note<T>(&self, outcome: &Poll<io::Result<T>>) {
        if let Poll::Ready(Err(error)) = outcome {
            self.close_reason.set(explain(error));
        }
    }

    /// Says why nothing more is read from it, and makes an error of that.
    pub(super) fn refuse(&self, reason: &'static str) -> io::Error {
        self.close_reason.set(reason);
        io::Error::new(io::ErrorKind::InvalidData, reason)
    }
}

/// What has broken. With TLS, a server refuses a client's certificate only after the handshake.
fn explain(error: &io::Error) -> String {
    #[cfg(feature = "tls-rustls")]
    if let Some(why) = super::tls_errors::explain(error) {
        return why;
    }
    error.to_string()
}

impl AsyncRead for Transport {
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
                self.close_reason.set("the server closed the connection");
            } else if !self.asked
                && let Ok(Value::ServerError(error)) = redis::parse_redis_value(read)
            {
                // A server that is full sends an error that was not asked for, and hangs up.
                // redis-rs would drop that error, because no caller waits for an answer.
                self.close_reason.set(server_error::explain(&error, ""));
            }
        }
        outcome
    }
}

impl AsyncWrite for Transport {
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
