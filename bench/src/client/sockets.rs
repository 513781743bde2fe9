//! The limit: Redlock over plain sockets. There is one connection to each node. All commands that
//! are due to a node go out in one write, and every answer is one line.

use std::{
    collections::VecDeque,
    future::poll_fn,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use futures_util::{future::join_all, task::AtomicWaker};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    sync::Notify,
};

use super::{
    Client, Failure, TTL,
    polling::{self, DELETE, Token, quorum},
};

#[derive(Debug, Clone)]
pub(super) struct Sockets {
    nodes: Arc<[Arc<Line>]>,
    delete: Arc<str>,
}

#[derive(Debug)]
pub(super) struct Held {
    resource: String,
    token: Token,
}

/// The way to one node.
#[derive(Debug, Default)]
struct Line {
    due: Mutex<Due>,
    mail: Notify,
}

/// The bytes to write, and the waiting questions in order.
#[derive(Debug, Default)]
struct Due {
    bytes: Vec<u8>,
    awaited: VecDeque<Arc<Round>>,
    broken: bool,
}

/// One question to all nodes.
#[derive(Debug)]
struct Round {
    yes: AtomicUsize,
    no: AtomicUsize,
    asker: AtomicWaker,
}

impl Round {
    fn vote(&self, yes: bool, nodes: usize) {
        let (counter, decisive) =
            if yes { (&self.yes, quorum(nodes)) } else { (&self.no, nodes - quorum(nodes) + 1) };
        if counter.fetch_add(1, Ordering::AcqRel) + 1 == decisive {
            self.asker.wake();
        }
    }
}

impl Line {
    fn send(&self, bytes: &[u8], round: &Arc<Round>) -> bool {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        if due.broken {
            return false;
        }
        let wake = due.bytes.is_empty();
        due.bytes.extend_from_slice(bytes);
        due.awaited.push_back(Arc::clone(round));
        drop(due);
        if wake {
            self.mail.notify_one();
        }
        true
    }

    async fn drive(&self, mut stream: TcpStream, nodes: usize) -> io::Result<()> {
        let (mut outgoing, mut incoming) = (Vec::new(), vec![0; 64 * 1024]);
        let mut kept = 0;
        loop {
            outgoing.clear();
            {
                let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::swap(&mut outgoing, &mut due.bytes);
            }
            if !outgoing.is_empty() {
                stream.write_all(&outgoing).await?;
            }
            tokio::select! {
                biased;
                ready = stream.readable() => {
                    ready?;
                    match stream.try_read(&mut incoming[kept..]) {
                        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                        Ok(read) => kept = self.answer(&mut incoming, kept + read, nodes),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error),
                    }
                }
                () = self.mail.notified() => {}
            }
        }
    }

    /// Counts the votes in `bytes[..filled]`, and keeps the line that is not complete.
    fn answer(&self, bytes: &mut [u8], filled: usize, nodes: usize) -> usize {
        let complete =
            bytes[..filled].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if complete > 0 {
            let lines = bytes[..complete - 1].split(|byte| *byte == b'\n');
            let mut answered = Vec::new();
            {
                let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
                for line in lines {
                    let yes = line.starts_with(b"+OK") || line.starts_with(b":1");
                    answered.extend(due.awaited.pop_front().map(|round| (round, yes)));
                }
            }
            for (round, yes) in answered {
                round.vote(yes, nodes);
            }
        }
        bytes.copy_within(complete..filled, 0);
        filled - complete
    }

    fn give_up(&self, nodes: usize) {
        let abandoned = {
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            due.broken = true;
            std::mem::take(&mut due.awaited)
        };
        for round in abandoned {
            round.vote(false, nodes);
        }
    }
}

impl Sockets {
    async fn ask(&self, bytes: &[u8]) -> bool {
        let nodes = self.nodes.len();
        let round = Arc::new(Round {
            yes: AtomicUsize::new(0),
            no: AtomicUsize::new(0),
            asker: AtomicWaker::new(),
        });
        for node in self.nodes.iter() {
            if !node.send(bytes, &round) {
                round.vote(false, nodes);
            }
        }
        poll_fn(|context| {
            round.asker.register(context.waker());
            if round.yes.load(Ordering::Acquire) >= quorum(nodes) {
                Poll::Ready(true)
            } else if round.no.load(Ordering::Acquire) > nodes - quorum(nodes) {
                Poll::Ready(false)
            } else {
                Poll::Pending
            }
        })
        .await
    }

    async fn delete(&self, held: &Held) -> bool {
        let (key, token) = (held.resource.as_bytes(), &held.token);
        self.ask(&command(&[b"EVALSHA", self.delete.as_bytes(), b"1", key, token])).await
    }
}

/// A command as the server reads it.
fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(160);
    bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// A connection whose server knows the script, and the script's name.
async fn connect(url: &str) -> io::Result<(TcpStream, String)> {
    let address = url.strip_prefix("redis://").unwrap_or(url);
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    stream.write_all(&command(&[b"SCRIPT", b"LOAD", DELETE.as_bytes()])).await?;
    let mut lines = BufReader::new(&mut stream).lines();
    let length = lines.next_line().await?.unwrap_or_default();
    let hash = lines.next_line().await?.unwrap_or_default();
    assert_eq!(length, "$40", "SCRIPT LOAD was answered with {length:?}");
    Ok((stream, hash))
}

impl Client for Sockets {
    type Held = Held;

    async fn open(urls: &[String]) -> Self {
        let opened: io::Result<Vec<_>> =
            join_all(urls.iter().map(|url| connect(url))).await.into_iter().collect();
        let opened = opened.unwrap_or_else(|error| panic!("cannot connect to {urls:?}: {error}"));
        let delete = opened.first().map(|(_, hash)| hash.as_str().into()).expect("there are nodes");
        let nodes = opened.into_iter().map(|(stream, _)| {
            let line = Arc::new(Line::default());
            let driver = Arc::clone(&line);
            let nodes = urls.len();
            tokio::spawn(async move {
                let _ = driver.drive(stream, nodes).await;
                driver.give_up(nodes);
            });
            line
        });
        Self { nodes: nodes.collect(), delete }
    }

    async fn ready(&self) {}

    async fn lock(&self, resource: &str) -> Result<Held, Failure> {
        let ttl = TTL.as_millis().to_string();
        loop {
            let held = Held { resource: resource.to_owned(), token: polling::token() };
            let key = held.resource.as_bytes();
            let set = command(&[b"SET", key, &held.token, b"NX", b"PX", ttl.as_bytes()]);
            if self.ask(&set).await {
                return Ok(held);
            }
            self.delete(&held).await;
            polling::pause().await;
        }
    }

    async fn release(&self, held: Held) -> Result<(), Failure> {
        if self.delete(&held).await { Ok(()) } else { Err("no quorum confirmed it".to_owned()) }
    }
}
