//! Nodes that are far away: proxies that deliver every byte a fixed time later, both ways.
//!
//! All proxies share one queue of bytes, because all bytes wait equally long. A timer of the
//! operating system says when the first are due: tokio's rounds to whole milliseconds.

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use redlock_tests::Server;
use rustix::net::Shutdown;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
};

use crate::hold::Timer;

/// Servers behind proxies. The proxies end when this is dropped.
pub(crate) struct Distance {
    urls: Vec<String>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Bytes in flight. Empty at the end of a connection.
#[derive(Debug)]
struct Parcel {
    due: Instant,
    to: Arc<TcpStream>,
    bytes: Vec<u8>,
}

impl Distance {
    /// Puts these servers this far away, in each direction.
    pub(crate) fn start(servers: &[Server], one_way: Duration) -> Self {
        let ports: Vec<u16> = servers.iter().map(Server::port).collect();
        let (end, ended) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let (line, parcels) = mpsc::unbounded_channel();
                tokio::spawn(deliver(parcels));
                let mut urls = Vec::new();
                for port in ports {
                    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
                    let listener = listener.expect("a free port");
                    let address = listener.local_addr().expect("a port");
                    urls.push(format!("redis://{address}"));
                    tokio::spawn(accept(listener, port, one_way, line.clone()));
                }
                let _ = tell.send(urls);
                // An error means the same: the end has come.
                let _ = ended.await;
            });
        });
        let urls = told.recv().expect("the proxies start");
        Self { urls, end: Some(end), thread: Some(thread) }
    }

    /// The URLs of the servers through the proxies.
    pub(crate) fn urls(&self) -> &[String] {
        &self.urls
    }
}

impl fmt::Debug for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Distance").field("urls", &self.urls).finish_non_exhaustive()
    }
}

impl Drop for Distance {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(
    listener: TcpListener,
    server: u16,
    one_way: Duration,
    line: mpsc::UnboundedSender<Parcel>,
) {
    while let Ok((client, _)) = listener.accept().await {
        let line = line.clone();
        tokio::spawn(async move {
            let server = SocketAddr::from((Ipv4Addr::LOCALHOST, server));
            let Ok(server) = TcpStream::connect(server).await else { return };
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            let (client, server) = (Arc::new(client), Arc::new(server));
            let there = read(Arc::clone(&client), Arc::clone(&server), one_way, line.clone());
            let back = read(server, client, one_way, line);
            tokio::join!(there, back);
        });
    }
}

/// Forwards the bytes that come, until the connection ends.
async fn read(
    from: Arc<TcpStream>,
    to: Arc<TcpStream>,
    one_way: Duration,
    line: mpsc::UnboundedSender<Parcel>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while from.readable().await.is_ok() {
        let read = match from.try_read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => 0,
        };
        let due = Instant::now() + one_way;
        let parcel = Parcel { due, to: Arc::clone(&to), bytes: buffer[..read].to_vec() };
        if line.send(parcel).is_err() || read == 0 {
            return;
        }
    }
}

/// Delivers the waiting bytes when they are due, in the order of their arrival.
async fn deliver(mut parcels: mpsc::UnboundedReceiver<Parcel>) {
    let mut timer = Timer::new();
    while let Some(Parcel { due, to, bytes }) = parcels.recv().await {
        let left = due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            timer.wait(left).await;
        }
        if bytes.is_empty() || write(&to, &bytes).await.is_err() {
            let _ = rustix::net::shutdown(&*to, Shutdown::Both);
        }
    }
}

async fn write(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpStream,
    };

    use super::*;

    #[test]
    fn an_answer_takes_one_way_and_the_other() {
        let server = Server::start();
        let one_way = Duration::from_millis(20);
        let distance = Distance::start(std::slice::from_ref(&server), one_way);
        let address = distance.urls()[0].strip_prefix("redis://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let asked = Instant::now();
        stream.write_all(b"PING\r\n").unwrap();
        let mut answer = [0; 7];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"+PONG\r\n");
        assert!(asked.elapsed() >= 2 * one_way, "{:?}", asked.elapsed());
    }
}
