//! The servers and the store, and what is done to clients.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use super::{
    CLIENT,
    client::Orders,
    store::{Store, Totals},
};
use crate::{ClockShim, LIMIT, Nodes, Peer, Server, chance::Chance};

const NODES: usize = 5;

const TTL: Duration = Duration::from_millis(500);

/// Of clients that nothing stops: no busy host stops them for so long.
const LONG_TTL: Duration = Duration::from_secs(30);

/// How many clients contend, but where two are enough.
const CLIENTS: usize = 4;

/// How many tasks of a client contend where chance disturbs them: numbers pass between them.
const TASKS: usize = 2;

/// How many increments are made while nothing is disturbed.
const UNDISTURBED: usize = 200;

/// What came of one way of disturbing the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) totals: Totals,
    /// How often a client was stopped.
    pub(super) stops: usize,
    /// How often the clocks of servers were set.
    pub(super) jumps: usize,
    /// How many reads and writes the store refused.
    pub(super) refused: usize,
}

/// The servers of the lock, and where the store is.
pub(super) struct Stage {
    nodes: Nodes,
    /// `None` where the clocks of servers cannot be set.
    clock: Option<ClockShim>,
    directory: tempfile::TempDir,
    /// The store looks at tokens.
    fenced: bool,
    stores: usize,
}

impl Stage {
    pub(super) fn set_up(fenced: bool) -> Self {
        let clock = ClockShim::compile();
        if let Err(reason) = &clock {
            println!("the clocks of servers stay as they are: {reason}");
        }
        let clock = clock.ok();
        let kind = Server::builder();
        let kind = match &clock {
            Some(shim) => kind.clock(shim),
            None => kind,
        };
        let nodes = Nodes::start_as(NODES, &kind);
        let directory = tempfile::tempdir().unwrap();
        Self { nodes, clock, directory, fenced, stores: 0 }
    }

    /// Nothing is done to them.
    pub(super) async fn left_alone(&mut self) -> Outcome {
        let store = self.new_store();
        let orders = Orders {
            count: UNDISTURBED / CLIENTS,
            tasks: 1,
            ttl: LONG_TTL,
            stops: false,
            fenced: self.fenced,
        };
        let clients = (0..CLIENTS).map(|_| self.client(orders)).collect();
        let refused = refused_of_all(clients).await;
        Outcome { totals: store.totals().unwrap(), stops: 0, jumps: 0, refused }
    }

    /// In each round the first client stands still behind its check until the second is done.
    pub(super) async fn between_check_and_write(&mut self, rounds: usize) -> Outcome {
        let store = self.new_store();
        let once = Orders { count: 1, tasks: 1, ttl: TTL, stops: false, fenced: self.fenced };
        let mut refused = 0;
        for _ in 0..rounds {
            let mut first = self.client(Orders { stops: true, ..once });
            assert!(first.line().await.starts_with("has read "));
            first.wait_until_stopped();
            // Waits for the lock until the first one's lease has run out.
            refused += refused_of(self.client(once)).await;
            first.resume();
            refused += refused_of(first).await;
        }
        Outcome { totals: store.totals().unwrap(), stops: rounds, jumps: 0, refused }
    }

    /// Clients are stopped for longer than the ttl, and the clocks of servers are set, until so many
    /// increments were written.
    pub(super) async fn at_random(&mut self, increments: i64, chance: &mut Chance) -> Outcome {
        let store = self.new_store();
        let orders =
            Orders { count: usize::MAX, tasks: TASKS, ttl: TTL, stops: false, fenced: self.fenced };
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| self.client(orders)).collect();
        let mut ahead = [Duration::ZERO; NODES];
        let (mut stops, mut jumps) = (0, 0);
        let (mut seen, mut since) = (0, Instant::now());
        while seen < increments {
            tokio::time::sleep(chance.millis(20, 200)).await;
            match chance.below(3) {
                0 => jumps += usize::from(self.set_clocks(&mut ahead, chance)),
                _ => {
                    stops += 1;
                    let client = &clients[chance.below(CLIENTS)];
                    client.pause();
                    tokio::time::sleep(TTL + chance.millis(50, 300)).await;
                    client.resume();
                }
            }
            let written = store.totals().unwrap().increments;
            if written > seen {
                (seen, since) = (written, Instant::now());
            }
            assert!(since.elapsed() < LIMIT, "no client has written for {LIMIT:?}");
        }
        self.set_right();
        clients.iter_mut().for_each(Peer::close);
        let refused = refused_of_all(clients).await;
        Outcome { totals: store.totals().unwrap(), stops, jumps, refused }
    }

    /// A majority jumps ahead by more than the ttl, so that their locks are gone; or all clocks are
    /// right again. False where clocks cannot be set.
    fn set_clocks(&self, ahead: &mut [Duration; NODES], chance: &mut Chance) -> bool {
        if self.clock.is_none() {
            return false;
        }
        if chance.percent(20) {
            *ahead = [Duration::ZERO; NODES];
            self.set_right();
            return true;
        }
        for node in chance.distinct(self.nodes.quorum(), NODES) {
            ahead[node] += TTL + chance.millis(100, 1500);
            self.nodes[node].set_clock_ahead(ahead[node]);
        }
        true
    }

    fn set_right(&self) {
        if self.clock.is_some() {
            self.nodes.iter().for_each(|node| node.set_clock_ahead(Duration::ZERO));
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join(format!("store-{}", self.stores))
    }

    fn new_store(&mut self) -> Store {
        self.stores += 1;
        Store::create(&self.path()).unwrap()
    }

    fn client(&self, orders: Orders) -> Peer {
        let program = std::env::current_exe().unwrap();
        let words = [CLIENT.to_owned(), orders.to_string(), self.path().display().to_string()];
        Peer::start(program.to_str().unwrap(), words.into_iter().chain(self.nodes.urls()))
    }
}

async fn refused_of_all(clients: Vec<Peer>) -> usize {
    let mut refused = 0;
    for client in clients {
        refused += refused_of(client).await;
    }
    refused
}

/// How often the store refused this client, once it has come to its end.
async fn refused_of(mut client: Peer) -> usize {
    let refused = client.line().await.parse().unwrap();
    assert!(client.end().await, "a client failed");
    refused
}
