//! A transport that redis-rs reads, and how much it may read. redis-rs keeps whatever a server sends until the reply is
//! complete, and so would keep all that a server sends which never completes one (rule 18).

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::transport::Transport;
use crate::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// Why a connection ended on which the server sent more than it was asked for.
pub(super) const TOO_MUCH: &str =
    "the server sent more than any answer takes, and is not read any further";

/// A transport that redis-rs uses. redis-rs keeps the transport that it is given.
pub(super) struct Lent {
    transport: Arc<Mutex<Option<Transport>>>,
    allowance: Arc<Allowance>,
}

/// The way to get it back.
pub(super) struct Loan(Arc<Mutex<Option<Transport>>>);

/// How many bytes a server may still send.
pub(super) struct Allowance(AtomicUsize);

pub(super) fn lend(transport: Transport, allowance: &Arc<Allowance>) -> (Lent, Loan) {
    let transport = Arc::new(Mutex::new(Some(transport)));
    let lent = Lent { transport: Arc::clone(&transport), allowance: Arc::clone(allowance) };
    (lent, Loan(transport))
}

impl Loan {
    /// Takes the transport back. Every answer that was asked for has been read, and all later bytes
    /// are for this crate. `None` when it was taken before.
    pub(super) fn take_back(self) -> Option<Transport> {
        self.0.lock().take()
    }
}

impl Allowance {
    pub(super) fn of(most: usize) -> Arc<Self> {
        Arc::new(Self(most.into()))
    }

    /// The server is asked once more.
    #[cfg(any(feature = "sentinel", feature = "cluster"))]
    pub(super) fn renew(&self, most: usize) {
        self.0.store(most, Ordering::Relaxed);
    }

    /// Whether the server has sent nothing.
    pub(super) fn is_whole(&self, most: usize) -> bool {
        self.0.load(Ordering::Relaxed) == most
    }

    /// Whether the server has sent all that it may.
    pub(super) fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Whether the server might send this much. Once it has sent more, it may send nothing.
    fn covers(&self, read: usize) -> bool {
        let spend = |left: usize| Some(left.saturating_sub(read));
        let (Ok(left) | Err(left)) =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend);
        read <= left
    }
}

impl Lent {
    fn with<T>(
        &self,
        act: impl FnOnce(Pin<&mut Transport>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match &mut *self.transport.lock() {
            Some(transport) => act(Pin::new(transport)),
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
        self.with(|mut transport| {
            let before = buf.filled().len();
            let outcome = transport.as_mut().poll_read(cx, buf);
            if self.allowance.covers(buf.filled().len() - before) {
                outcome
            } else {
                Poll::Ready(Err(transport.refuse(TOO_MUCH)))
            }
        })
    }
}

impl AsyncWrite for Lent {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.with(|transport| transport.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|transport| transport.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|transport| transport.poll_shutdown(cx))
    }
}
