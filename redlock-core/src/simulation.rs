//! What a simulation puts in the place of clocks, chance and the network. Only with
//! `--cfg redlock_sim`; no part of the interface.
//!
//! Everything here follows from a seed and from tokio's paused clock, so that a schedule replays
//! exactly.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};

pub use crate::bug::{Bug, plant};
use crate::{
    builder::Builder,
    clock::{Clock, Moment, Reading},
    error::{NodeError, NodeErrorKind},
    node::{
        Command, Connection, Connector, Node, NodeSpec, Opened, Reply, Source, memory::MemoryNode,
    },
    token::Entropy,
};

/// SplitMix64 (Steele, Lea, Flood 2014): a few lines, and every seed is a good one.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// Everything that follows from this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is above zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// True one time in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A whole number of milliseconds from `least` to `most`.
    pub fn ms(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.below(most - least + 1))
    }
}

/// A client's clock: at a rate of its own, and able to stand still while the world goes on.
#[derive(Debug)]
pub struct SimClock {
    origin: Instant,
    rate: f64,
    state: Mutex<Freeze>,
}

#[derive(Debug, Default)]
struct Freeze {
    since: Option<Duration>,
    /// For how long it has stood still in all.
    lost: Duration,
}

impl SimClock {
    /// A clock that runs at this rate; 1.0 is right.
    #[must_use]
    pub fn new(rate: f64) -> Arc<Self> {
        Arc::new(Self { origin: Instant::now(), rate, state: Mutex::default() })
    }

    fn elapsed(&self) -> Duration {
        self.origin.elapsed().mul_f64(self.rate)
    }

    /// Stands still, as that of a frozen machine does.
    pub fn freeze(&self) {
        let elapsed = self.elapsed();
        self.state.lock().since.get_or_insert(elapsed);
    }

    /// Goes on. Only the wall clock has noticed.
    pub fn thaw(&self) {
        let elapsed = self.elapsed();
        let mut state = self.state.lock();
        if let Some(since) = state.since.take() {
            state.lost += elapsed - since;
        }
    }
}

impl Clock for SimClock {
    fn read(&self) -> Reading {
        let state = self.state.lock();
        let elapsed = state.since.unwrap_or_else(|| self.elapsed());
        let wall_ahead = i64::try_from(state.lost.as_nanos()).unwrap_or(i64::MAX);
        Reading { now: Moment::after(elapsed.saturating_sub(state.lost)), wall_ahead }
    }
}

/// Random bytes from a seed.
struct SimEntropy(Mutex<Chance>);

impl fmt::Debug for SimEntropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimEntropy")
    }
}

impl Entropy for SimEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), String> {
        let mut chance = self.0.lock();
        for chunk in bytes.chunks_mut(8) {
            let random = chance.next().to_le_bytes();
            chunk.iter_mut().zip(random).for_each(|(byte, random)| *byte = random);
        }
        Ok(())
    }
}

impl Builder {
    /// Takes time and chance from here.
    pub fn simulated(self, clock: &Arc<SimClock>, seed: u64) -> Self {
        let entropy = Arc::new(SimEntropy(Mutex::new(Chance::new(seed))));
        self.injected(Arc::clone(clock) as _, entropy)
    }
}

/// The way between one client and one node.
#[derive(Clone)]
pub struct Link {
    way: Arc<Way>,
}

struct Way {
    node: MemoryNode,
    chance: Mutex<Chance>,
    condition: watch::Sender<Condition>,
}

#[derive(Debug, Clone, Copy)]
struct Condition {
    /// What is sent, or answered, stays on the way.
    out_held: bool,
    back_held: bool,
    /// Between these, one way, in microseconds.
    latency: (u64, u64),
    /// Counts the times that it broke.
    breaks: u64,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("condition", &*self.way.condition.borrow()).finish()
    }
}

impl Link {
    /// A good way to this node.
    #[must_use]
    pub fn new(node: &MemoryNode, seed: u64) -> Self {
        let condition =
            Condition { out_held: false, back_held: false, latency: (50, 300), breaks: 0 };
        let way = Way {
            node: node.clone(),
            chance: Mutex::new(Chance::new(seed)),
            condition: watch::Sender::new(condition),
        };
        Self { way: Arc::new(way) }
    }

    /// The node at the end of it, for a builder.
    #[must_use]
    pub fn node(&self) -> Node {
        Node(Source::Linked(self.clone()))
    }

    /// Holds what is sent, what is answered, or both, until told otherwise: TCP through a
    /// partition.
    pub fn hold(&self, out: bool, back: bool) {
        self.way.condition.send_modify(|condition| {
            (condition.out_held, condition.back_held) = (out, back);
        });
    }

    /// How long one way takes from now on.
    pub fn latency(&self, least: Duration, most: Duration) {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.way.condition.send_modify(|condition| {
            condition.latency = (micros(least), micros(most));
        });
    }

    /// Breaks the connection: what is on its way is lost.
    pub fn cut(&self) {
        self.way.condition.send_modify(|condition| condition.breaks += 1);
    }

    pub(crate) fn spec(&self) -> NodeSpec {
        NodeSpec { name: self.way.node.name().into(), connector: Arc::new(self.clone()) }
    }

    fn arrival(&self, last: Instant) -> Instant {
        let (least, most) = self.way.condition.borrow().latency;
        let micros = least + self.way.chance.lock().below(most - least + 1);
        last.max(Instant::now() + Duration::from_micros(micros))
    }

    /// Waits until the way is free in the one direction or the other; false when it broke.
    async fn passes(&self, out: bool, breaks: u64) -> bool {
        let mut condition = self.way.condition.subscribe();
        let free = |now: &Condition| {
            now.breaks != breaks || !(if out { now.out_held } else { now.back_held })
        };
        match condition.wait_for(free).await {
            Ok(now) => now.breaks == breaks,
            Err(_) => false,
        }
    }

    fn breaks(&self) -> u64 {
        self.way.condition.borrow().breaks
    }
}

impl Connector for Link {
    fn connect(&self) -> BoxFuture<'_, Result<Opened, NodeError>> {
        async move {
            let breaks = self.breaks();
            sleep_until(self.arrival(Instant::now())).await;
            let name: Arc<str> = self.way.node.name().into();
            if !self.passes(true, breaks).await || !self.passes(false, breaks).await {
                return Err(NodeError::new(&name, NodeErrorKind::Down, "connection reset"));
            }
            let (inner, identity) = self.way.node.connect().await?;
            sleep_until(self.arrival(Instant::now())).await;
            let (sender, calls) = mpsc::unbounded_channel();
            tokio::spawn(there(self.clone(), breaks, inner, calls));
            let connection =
                Linked { name, link: self.clone(), breaks, calls: sender, last: Instant::now() };
            Ok((Box::new(connection) as Box<dyn Connection>, identity))
        }
        .boxed()
    }
}

type Answers = Vec<Result<Reply, NodeError>>;

struct Call {
    arrives: Instant,
    what: What,
}

enum What {
    Commands(Vec<Command>, oneshot::Sender<Answers>),
    Ping(oneshot::Sender<Result<(), NodeError>>),
}

/// An answer on its way back.
type Answer = BoxFuture<'static, Box<dyn FnOnce() + Send>>;

struct Linked {
    name: Arc<str>,
    link: Link,
    breaks: u64,
    calls: mpsc::UnboundedSender<Call>,
    /// When what was sent last arrives: nothing overtakes it.
    last: Instant,
}

/// Takes calls to the node, in order. What the client has sent arrives even if it hung up since.
async fn there(
    link: Link,
    breaks: u64,
    mut inner: Box<dyn Connection>,
    mut calls: mpsc::UnboundedReceiver<Call>,
) {
    let (sender, answers) = mpsc::unbounded_channel();
    tokio::spawn(back(link.clone(), breaks, answers));
    let mut closed = inner.closed();
    loop {
        let call = tokio::select! {
            biased;
            call = calls.recv() => call,
            _ = &mut closed => return,
        };
        let Some(call) = call else { return };
        sleep_until(call.arrives).await;
        if !link.passes(true, breaks).await {
            return;
        }
        let mut answer: Answer = match call.what {
            What::Commands(commands, tell) => inner
                .send(commands)
                .map(|answers| {
                    Box::new(move || drop(tell.send(answers))) as Box<dyn FnOnce() + Send>
                })
                .boxed(),
            What::Ping(tell) => inner
                .ping()
                .map(|pong| Box::new(move || drop(tell.send(pong))) as Box<dyn FnOnce() + Send>)
                .boxed(),
        };
        // On its way to the node with the first poll.
        let answer = match (&mut answer).now_or_never() {
            Some(known) => std::future::ready(known).boxed(),
            None => answer,
        };
        if sender.send(answer).is_err() {
            return;
        }
    }
}

/// Brings answers back, in order.
async fn back(link: Link, breaks: u64, mut answers: mpsc::UnboundedReceiver<Answer>) {
    let mut last = Instant::now();
    while let Some(answer) = answers.recv().await {
        let tell = answer.await;
        last = link.arrival(last);
        sleep_until(last).await;
        if !link.passes(false, breaks).await {
            return;
        }
        tell();
    }
}

impl Linked {
    fn call(&mut self, what: What) {
        self.last = self.link.arrival(self.last);
        // Closed: whoever waits for the answer is told by the end of its sender.
        let _ = self.calls.send(Call { arrives: self.last, what });
    }

    fn broken(name: &Arc<str>) -> NodeError {
        NodeError::new(name, NodeErrorKind::Disconnected, "connection reset")
    }
}

impl Connection for Linked {
    fn send(&mut self, commands: Vec<Command>) -> BoxFuture<'static, Answers> {
        let (tell, told) = oneshot::channel();
        let (name, count) = (Arc::clone(&self.name), commands.len());
        self.call(What::Commands(commands, tell));
        async move { told.await.unwrap_or_else(|_| vec![Err(Self::broken(&name)); count]) }.boxed()
    }

    fn ping(&mut self) -> BoxFuture<'static, Result<(), NodeError>> {
        let (tell, told) = oneshot::channel();
        let name = Arc::clone(&self.name);
        self.call(What::Ping(tell));
        async move { told.await.unwrap_or_else(|_| Err(Self::broken(&name))) }.boxed()
    }

    fn closed(&mut self) -> BoxFuture<'static, NodeError> {
        let (link, breaks) = (self.link.clone(), self.breaks);
        let (name, calls) = (Arc::clone(&self.name), self.calls.clone());
        async move {
            let mut condition = link.way.condition.subscribe();
            tokio::select! {
                biased;
                _ = condition.wait_for(|now| now.breaks != breaks) => {}
                () = calls.closed() => {}
            }
            Self::broken(&name)
        }
        .boxed()
    }
}
