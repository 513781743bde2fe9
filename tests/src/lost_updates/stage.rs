//! The servers and the store, and how clients are disturbed.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use super::{
    CLIENT,
    client::Orders,
    clocks::Clocks,
    store::{Store, Totals},
};
use crate::{LIMIT, Nodes, Peer, Server, chance::Chance};

const NODES: usize = 5;

const TTL: Duration = Duration::from_millis(500);

/// The ttl of clients that are not stopped: no busy host stops them for this long.
const LONG_TTL: Duration = Duration::from_secs(30);

/// How many clients contend, but where two are enough.
const CLIENTS: usize = 4;

/// How many tasks of a client contend where chance disturbs them: numbers pass between them.
const TASKS: usize = 2;

/// How many increments are made while nothing is disturbed.
const UNDISTURBED: usize = 200;

/// The result of one way of disturbing the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) totals: Totals,
    /// How often a client was stopped.
    pub(super) stops: usize,
    /// How often clocks were set.
    pub(super) jumps: usize,
    /// How many reads and writes the store refused.
    pub(super) refused: usize,
}

/// The servers of the lock, and where the store is.
pub(super) struct Stage {
    nodes: Nodes,
    clocks: Clocks,
    directory: tempfile::TempDir,
    /// The store looks at tokens.
    fenced: bool,
    stores: usize,
}

impl Stage {
    pub(super) fn set_up(fenced: bool) -> Self {
        let clocks = Clocks::new(NODES);
        let kind = Server::builder();
        let kind = match clocks.shim() {
            Some(shim) => kind.clock(shim),
            None => kind,
        };
        let nodes = Nodes::start_as(NODES, &kind);
        let directory = tempfile::tempdir().unwrap();
        Self { nodes, clocks, directory, fenced, stores: 0 }
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

    /// Clients are stopped for longer than the ttl, and clocks are set, until `increments` increments were
    /// written.
    pub(super) async fn at_random(&mut self, increments: i64, chance: &mut Chance) -> Outcome {
        let store = self.new_store();
        let orders =
            Orders { count: usize::MAX, tasks: TASKS, ttl: TTL, stops: false, fenced: self.fenced };
        self.clocks.forget_clients();
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| self.client(orders)).collect();
        let (mut stops, mut jumps) = (0, 0);
        let (mut seen, mut since) = (0, Instant::now());
        while seen < increments {
            tokio::time::sleep(chance.millis(20, 200)).await;
            match chance.below(3) {
                0 => jumps += usize::from(self.clocks.jump(&self.nodes, TTL, chance)),
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
        self.clocks.set_right(&self.nodes);
        clients.iter_mut().for_each(Peer::close);
        let refused = refused_of_all(clients).await;
        Outcome { totals: store.totals().unwrap(), stops, jumps, refused }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join(format!("store-{}", self.stores))
    }

    fn new_store(&mut self) -> Store {
        self.stores += 1;
        Store::create(&self.path()).unwrap()
    }

    fn client(&mut self, orders: Orders) -> Peer {
        let mut words = self.clocks.before_client(self.directory.path());
        words.push(std::env::current_exe().unwrap().display().to_string());
        words.extend([CLIENT.to_owned(), orders.to_string(), self.path().display().to_string()]);
        words.extend(self.nodes.urls());
        Peer::start(&words[0], &words[1..])
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
