//! A proxy between a client and a server.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::{mpsc, watch},
    time::Instant,
};

use crate::{port, wait::wait_blocking};

/// What happens to the bytes of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flow {
    /// They pass.
    #[default]
    Pass,
    /// They pass this much later.
    Delay(Duration),
    /// They pass one by one, each in a packet of its own as far as that can be had.
    PerByte,
    /// They wait until the flow changes, as in a network partition that ends: no byte is lost, and
    /// neither side learns that the other is gone.
    Hold,
    /// They vanish, and so does the end of the connection. A connection that lost bytes is closed
    /// once the flow changes: TCP never continues after a gap.
    Discard,
    /// The first byte of a chunk passes, and the connection is reset.
    Break,
    /// These bytes pass in place of each chunk.
    Forge(&'static [u8]),
}

/// A TCP proxy in front of one server. It runs on a thread of its own, so that the runtime and
/// the clock of a test do not touch it.
pub struct Proxy {
    port: u16,
    wishes: Option<watch::Sender<Wishes>>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

/// The wishes of the test.
#[derive(Debug, Clone, Copy)]
struct Wishes {
    requests: Flow,
    replies: Flow,
    listen: bool,
    /// Connections from before an increase are reset.
    cuts: u64,
    /// Connections from before an increase are closed.
    closes: u64,
}

/// The present state.
#[derive(Debug, Default)]
struct State {
    listening: AtomicBool,
    connections: AtomicUsize,
    discarded: AtomicUsize,
}

impl Proxy {
    /// A proxy in front of the server on this port of 127.0.0.1; everything passes at first.
    pub fn start(server: u16) -> Self {
        let state = Arc::new(State::default());
        let (port, listener) = listen();
        let (wishes, receiver) = watch::channel(Wishes {
            requests: Flow::Pass,
            replies: Flow::Pass,
            listen: true,
            cuts: 0,
            closes: 0,
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let thread = {
            let state = Arc::clone(&state);
            thread::spawn(move || runtime.block_on(serve(port, listener, server, receiver, state)))
        };
        let proxy = Self { port, wishes: Some(wishes), state, thread: Some(thread) };
        proxy.wait_for_listening(true);
        proxy
    }

    /// The URL of the server through this proxy.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:port` of this proxy.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What happens to the bytes from clients, from the next byte on.
    pub fn requests(&self, flow: Flow) {
        self.wish(|wishes| wishes.requests = flow);
    }

    /// What happens to the bytes from the server, from the next byte on.
    pub fn replies(&self, flow: Flow) {
        self.wish(|wishes| wishes.replies = flow);
    }

    /// What happens in both directions, from the next byte on.
    pub fn both(&self, flow: Flow) {
        self.wish(|wishes| {
            wishes.requests = flow;
            wishes.replies = flow;
        });
    }

    /// Resets the present connections (RST): bytes in flight are lost.
    pub fn cut(&self) {
        self.wish(|wishes| wishes.cuts += 1);
    }

    /// Closes the present connections (FIN).
    pub fn close(&self) {
        self.wish(|wishes| wishes.closes += 1);
    }

    /// Refuses new connections. The present connections go on. Returns once it does.
    pub fn refuse(&self) {
        self.wish(|wishes| wishes.listen = false);
        self.wait_for_listening(false);
    }

    /// Takes connections again. Returns once it does.
    pub fn accept(&self) {
        self.wish(|wishes| wishes.listen = true);
        self.wait_for_listening(true);
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// How many bytes have vanished so far.
    pub fn discarded(&self) -> usize {
        self.state.discarded.load(Ordering::SeqCst)
    }

    fn wish(&self, change: impl FnOnce(&mut Wishes)) {
        if let Some(wishes) = &self.wishes {
            wishes.send_modify(change);
        }
    }

    fn wait_for_listening(&self, wanted: bool) {
        let done = wait_blocking(|| self.state.listening.load(Ordering::SeqCst) == wanted);
        assert!(done, "the proxy on port {} does not set listening to {wanted}", self.port);
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The thread ends when no handle is left that could change the wishes.
        self.wishes.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A port, and the listener on it.
fn listen() -> (u16, std::net::TcpListener) {
    loop {
        // Another program may take the port in between.
        let port = port::free();
        if let Ok(listener) = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            listener.set_nonblocking(true).unwrap();
            return (port, listener);
        }
    }
}

async fn serve(
    port: u16,
    listener: std::net::TcpListener,
    server: u16,
    mut wishes: watch::Receiver<Wishes>,
    state: Arc<State>,
) {
    let mut listener = TcpListener::from_std(listener).ok();
    loop {
        let listen = wishes.borrow_and_update().listen;
        if !listen {
            listener = None;
        } else if listener.is_none() {
            listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.ok();
        }
        state.listening.store(listener.is_some(), Ordering::SeqCst);
        tokio::select! {
            changed = wishes.changed() => if changed.is_err() { return },
            Some(client) = accept(listener.as_ref()) => {
                tokio::spawn(connection(client, server, wishes.clone(), Arc::clone(&state)));
            }
        }
    }
}

/// The next client; `None` when there is no listener or it failed.
async fn accept(listener: Option<&TcpListener>) -> Option<TcpStream> {
    Some(listener?.accept().await.ok()?.0)
}

async fn connection(
    mut client: TcpStream,
    server: u16,
    mut wishes: watch::Receiver<Wishes>,
    state: Arc<State>,
) {
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, server));
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    state.connections.fetch_add(1, Ordering::SeqCst);
    let start = *wishes.borrow();
    let reset = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        tokio::select! {
            reset = pump(from_client, to_server, wishes.clone(), |wishes| wishes.requests, &state) => reset,
            reset = pump(from_server, to_client, wishes.clone(), |wishes| wishes.replies, &state) => reset,
            Ok(now) = wishes.wait_for(|now| now.cuts > start.cuts || now.closes > start.closes) => {
                now.cuts > start.cuts
            }
        }
    };
    if reset {
        for stream in [&client, &server] {
            let _ = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
        }
    }
    state.connections.fetch_sub(1, Ordering::SeqCst);
}

/// Moves the bytes of one direction until the connection ends in it; true when it is to be reset.
async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    wishes: watch::Receiver<Wishes>,
    flow: fn(&Wishes) -> Flow,
    state: &State,
) -> bool {
    // Reading and writing are apart, so that a delay belongs to the way and not to each chunk.
    let (queue, mut queued) = mpsc::channel::<(Instant, Vec<u8>)>(64);
    let read = {
        let mut wishes = wishes.clone();
        async move {
            let mut buffer = vec![0; 16 * 1024];
            while wishes.wait_for(|wishes| flow(wishes) != Flow::Hold).await.is_ok() {
                let count = from.read(&mut buffer).await.unwrap_or(0);
                let delay = match flow(&wishes.borrow()) {
                    Flow::Delay(delay) => delay,
                    _ => Duration::ZERO,
                };
                let chunk = buffer[..count].to_vec();
                if queue.send((Instant::now() + delay, chunk)).await.is_err() || count == 0 {
                    return;
                }
            }
        }
    };
    let write = async {
        let mut wishes = wishes;
        while let Some((due, chunk)) = queued.recv().await {
            tokio::time::sleep_until(due).await;
            let flow_now = match wishes.wait_for(|wishes| flow(wishes) != Flow::Hold).await {
                Ok(wishes) => flow(&wishes),
                Err(_) => return false,
            };
            let written = match flow_now {
                Flow::Discard => {
                    state.discarded.fetch_add(chunk.len(), Ordering::SeqCst);
                    let _ = wishes.wait_for(|wishes| flow(wishes) != Flow::Discard).await;
                    return false;
                }
                _ if chunk.is_empty() => return false,
                Flow::Break => {
                    let _ = to.write_all(&chunk[..1]).await;
                    return true;
                }
                Flow::Forge(bytes) => to.write_all(bytes).await,
                Flow::PerByte => write_per_byte(&mut to, &chunk).await,
                _ => to.write_all(&chunk).await,
            };
            if written.is_err() {
                return false;
            }
        }
        false
    };
    // What was read before the end is still to be written, so the end is the writer's.
    tokio::select! {
        reset = write => reset,
        reset = async { read.await; std::future::pending().await } => reset,
    }
}

async fn write_per_byte(to: &mut WriteHalf<'_>, bytes: &[u8]) -> std::io::Result<()> {
    for byte in bytes {
        to.write_all(&[*byte]).await?;
        // Time for the other side to read it before the next comes.
        tokio::task::yield_now().await;
    }
    Ok(())
}
