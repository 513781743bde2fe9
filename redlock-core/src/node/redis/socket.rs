//! A socket that also works without its runtime.
//!
//! A runtime that ends takes its reactor with it: tokio's socket is never ready again then, or fails. The last
//! deletes go to the system itself (rule 12).

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[cfg(unix)]
pub(super) use std::os::fd::AsFd as Handle;

/// The way from a socket to its handle, where the system has no file descriptors.
#[cfg(not(unix))]
pub(super) trait Handle {}

#[cfg(not(unix))]
impl<S> Handle for S {}

/// A socket of tokio.
pub(super) struct Socket<S> {
    socket: S,
    /// Its runtime has begun to end.
    is_alone: bool,
}

impl<S> Socket<S> {
    pub(super) fn new(socket: S) -> Self {
        Self { socket, is_alone: false }
    }

    /// Goes on without the runtime. No waker is woken from here on: a caller that is told to wait asks again.
    ///
    /// Returns whether it goes on. Where the system has no file descriptors, tokio's socket is used for as long as it
    /// works.
    pub(super) fn leave_runtime(&mut self) -> bool {
        self.is_alone = cfg!(unix);
        self.is_alone
    }
}

#[cfg(unix)]
fn read_now(socket: &impl Handle, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    use rustix::net::{RecvFlags, recv};
    let room = buf.initialize_unfilled();
    now(|| recv(socket, &mut *room, RecvFlags::DONTWAIT)).map_ok(|(read, _)| buf.advance(read))
}

#[cfg(unix)]
fn write_now(socket: &impl Handle, buf: &[u8]) -> Poll<io::Result<usize>> {
    use rustix::net::{SendFlags, send};
    // A server that has hung up must not end the process with a signal. Apple's systems have an option of the socket
    // for that, which tokio sets.
    #[cfg(not(target_vendor = "apple"))]
    let quietly = SendFlags::NOSIGNAL;
    #[cfg(target_vendor = "apple")]
    let quietly = SendFlags::empty();
    now(|| send(socket, buf, SendFlags::DONTWAIT | quietly))
}

#[cfg(unix)]
fn now<T>(act: impl FnMut() -> rustix::io::Result<T>) -> Poll<io::Result<T>> {
    match rustix::io::retry_on_intr(act) {
        Err(rustix::io::Errno::AGAIN) => Poll::Pending,
        done => Poll::Ready(done.map_err(io::Error::from)),
    }
}

#[cfg(not(unix))]
fn read_now(_: &impl Handle, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    Poll::Pending
}

#[cfg(not(unix))]
fn write_now(_: &impl Handle, _: &[u8]) -> Poll<io::Result<usize>> {
    Poll::Pending
}

impl<S: AsyncRead + Handle + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_alone {
            return read_now(&self.socket, buf);
        }
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Handle + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_alone {
            return write_now(&self.socket, buf);
        }
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_alone {
            let first = bufs.iter().find(|it| !it.is_empty());
            return first.map_or(Poll::Ready(Ok(0)), |first| write_now(&self.socket, first));
        }
        Pin::new(&mut self.socket).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A socket keeps nothing back.
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        time::{Duration, Instant},
    };

    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A socket whose runtime has ended, and the other end.
    fn left() -> (Socket<tokio::net::TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let socket = runtime.block_on(tokio::net::TcpStream::connect(address)).unwrap();
        drop(runtime);
        (Socket::new(socket), listener.accept().unwrap().0)
    }

    #[test]
    fn bytes_go_both_ways_after_the_runtime() {
        let (mut socket, mut other) = left();
        assert!(socket.write(b"lost").now_or_never().unwrap().is_err(), "its runtime has ended");
        socket.leave_runtime();
        assert_eq!(socket.write(b"sent").now_or_never().unwrap().unwrap(), 4);
        let mut got = [0; 4];
        other.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"sent");

        assert!(socket.read(&mut got).now_or_never().is_none(), "there is nothing to read");
        other.write_all(b"back").unwrap();
        let begun = Instant::now();
        let read = loop {
            if let Some(read) = socket.read(&mut got).now_or_never() {
                break read;
            }
            assert!(begun.elapsed() < Duration::from_secs(30));
        };
        assert_eq!((read.unwrap(), &got), (4, b"back"));
        drop(other);
        let end = loop {
            if let Some(read) = socket.read(&mut got).now_or_never() {
                break read;
            }
            assert!(begun.elapsed() < Duration::from_secs(30));
        };
        assert_eq!(end.unwrap(), 0);
    }

    #[test]
    fn a_full_socket_and_a_closed_one_say_so() {
        let (mut socket, other) = left();
        socket.leave_runtime();
        let lot = vec![0; 1 << 20];
        while let Some(written) = socket.write(&lot).now_or_never() {
            assert!(written.unwrap() > 0);
        }
        // With bytes to read, so the connection is reset.
        drop(other);
        let begun = Instant::now();
        let refused = loop {
            match socket.write(&lot).now_or_never() {
                Some(Err(error)) => break error.kind(),
                _ => assert!(begun.elapsed() < Duration::from_secs(30)),
            }
        };
        assert!(matches!(refused, io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe));
    }
}
