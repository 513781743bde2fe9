//! Fencing tokens over real redis-servers: they grow whatever happens to a minority of the nodes, and
//! a number on which the nodes disagree is confirmed before it is given (docs/fencing.md).

use std::time::{Duration, SystemTime};

use redlock_core::{FencingToken, LockError, LockGuard, Redlock};
use redlock_tests::{ClockShim, LIMIT, Nodes, Server, skipped, wait_until, within};
use tokio::task::JoinSet;

const HOUR: Duration = Duration::from_secs(3600);

/// How long a node that has restarted sits out, in tests that wait for its end.
const SHORT: Duration = Duration::from_secs(2);

fn client(nodes: &Nodes) -> Redlock {
    nodes.client().wait(LIMIT).build().unwrap()
}

fn client_of_short_ttls(nodes: &Nodes) -> Redlock {
    let builder = nodes.client().node_timeout(SHORT / 3).ttl(SHORT).max_ttl(SHORT);
    builder.wait(LIMIT).build().unwrap()
}

/// Returns once every node votes for this client. A machine that is busy may make attempts fail.
async fn all_vote(nodes: &Nodes, redlock: &Redlock) {
    wait_until("every node votes", async || {
        let Ok(guard) = redlock.lock("warm-up").await else { return false };
        // The nodes behind the quorum answer in a moment, if they do.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let votes = guard.votes();
        guard.release().await.is_ok() && votes == nodes.len()
    })
    .await;
}

/// The counter beside the lock of this resource.
fn counter(resource: &str) -> String {
    format!("redlock:{resource}:{{redlock:{resource}}}:fence")
}

/// Wall clock in microseconds, which is where counters start.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(now.as_micros()).unwrap()
}

/// Sets the counters ahead of every clock, each by another amount, as after clients that asked at
/// the same moment. From now on nodes count on from them.
fn set_apart(nodes: &Nodes, resource: &str) {
    for (node, ahead) in nodes.iter().zip([3, 1, 2]) {
        let last = now() + ahead * 10_000_000_000;
        node.command(&["SET", &counter(resource), &last.to_string()]);
    }
}

/// The token of a holder that lets go at once.
async fn token(redlock: &Redlock, resource: &str) -> FencingToken {
    let guard = taken(redlock, resource).await;
    let token = guard.fencing_token().unwrap();
    // What the nodes say to it does not matter here: a machine that is busy may keep them from answering.
    let _ = guard.release().await;
    token
}

/// A machine that is busy may make an attempt fail.
async fn taken(redlock: &Redlock, resource: &str) -> LockGuard {
    let asked = async {
        loop {
            match redlock.lock(resource).fenced().await {
                Ok(guard) => return guard,
                Err(LockError::NoQuorum { .. } | LockError::Held { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    within("a fenced lock", asked).await
}

/// Two clients take turns. Each token must be larger than the previous token.
struct Turns {
    clients: [Redlock; 2],
    resource: String,
    last: Option<FencingToken>,
}

impl Turns {
    fn new(nodes: &Nodes, client: fn(&Nodes) -> Redlock) -> Self {
        Self { clients: [client(nodes), client(nodes)], resource: "r".to_owned(), last: None }
    }

    /// From now on for another lock.
    fn turn_to(&mut self, resource: String) {
        (self.resource, self.last) = (resource, None);
    }

    async fn grow(&mut self, what: &str) {
        for redlock in &self.clients {
            let next = token(redlock, &self.resource).await;
            assert!(Some(next) > self.last, "{what}: {next} after {:?}", self.last);
            self.last = Some(next);
        }
    }

    /// Turns until the counter of every node has reached the last token. A node that answers behind
    /// the quorum is not raised, so the nodes of one quorum may be the only nodes that know a token.
    async fn grow_until_every_node_knows(&mut self, nodes: &Nodes, what: &str) {
        wait_until("every node knows the last token", async || {
            self.grow(what).await;
            let last = self.last.map_or(0, FencingToken::get);
            let known = |node: &Server| node.get(&counter(&self.resource))?.parse().ok();
            nodes.iter().all(|node| known(node).is_some_and(|number: u64| number >= last))
        })
        .await;
    }

    async fn all_vote(&self, nodes: &Nodes) {
        for redlock in &self.clients {
            all_vote(nodes, redlock).await;
        }
    }
}

#[tokio::test]
async fn a_number_on_which_nodes_disagree_is_confirmed_on_a_quorum() {
    let nodes = Nodes::start(3);
    let redlock = client(&nodes);
    all_vote(&nodes, &redlock).await;
    for attempt in 0..3 {
        let resource = format!("r{attempt}");
        set_apart(&nodes, &resource);
        let guard = taken(&redlock, &resource).await;
        let token = guard.fencing_token().unwrap().to_string();
        let known =
            nodes.iter().filter(|node| node.get(&counter(&resource)) == Some(token.clone()));
        assert!(known.count() >= nodes.quorum(), "{token}");
        guard.release().await.unwrap();
    }
}

/// Whichever node is away afterwards, the other nodes know of all numbers that were handed on.
#[tokio::test]
async fn a_range_is_confirmed_to_its_last_number() {
    const WAITERS: usize = 8;
    let nodes = Nodes::start(3);
    let (first, crowd, last) = (client(&nodes), client(&nodes), client(&nodes));
    for redlock in [&first, &crowd, &last] {
        all_vote(&nodes, redlock).await;
    }
    for (away, node) in nodes.iter().enumerate() {
        let resource = format!("r{away}");
        set_apart(&nodes, &resource);
        let guard = within("the first holder", first.lock(&resource)).await.unwrap();
        let mut waiters = JoinSet::new();
        for _ in 0..WAITERS {
            let (crowd, resource) = (crowd.clone(), resource.clone());
            waiters.spawn(async move { token(&crowd, &resource).await });
        }
        // These tasks make the client ask for a range. The test still holds if they are late.
        tokio::time::sleep(Duration::from_millis(200)).await;
        guard.release().await.unwrap();
        let mut tokens = within("the crowd", waiters.join_all()).await;
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(tokens.len(), WAITERS, "a token was given twice");
        node.pause();
        let next = token(&last, &resource).await;
        node.resume();
        assert!(Some(&next) > tokens.last(), "{next} after {tokens:?}, without node {away}");
    }
}

#[tokio::test]
async fn tokens_grow_while_one_node_after_the_other_restarts_without_its_data() {
    let nodes = Nodes::start(3);
    let mut turns = Turns::new(&nodes, client_of_short_ttls);
    turns.all_vote(&nodes).await;
    turns.grow("all nodes").await;
    for (index, node) in nodes.iter().enumerate() {
        node.restart_empty();
        turns.grow(&format!("node {index} sits out")).await;
        turns.all_vote(&nodes).await;
        turns.grow(&format!("node {index} votes again")).await;
    }
    // No counter is left, and no number was drawn in between: only the clock is left to start from.
    for node in nodes.iter() {
        node.restart_empty();
        turns.all_vote(&nodes).await;
    }
    turns.grow("no node has its counter").await;
}

#[tokio::test]
async fn tokens_grow_when_counters_of_a_minority_are_deleted_by_hand() {
    let nodes = Nodes::start(3);
    let mut turns = Turns::new(&nodes, client);
    turns.all_vote(&nodes).await;
    for (index, node) in nodes.iter().enumerate() {
        turns.turn_to(format!("r{index}"));
        // Ahead of the clock, so the clock is of no help: a quorum without this node has to know.
        set_apart(&nodes, &turns.resource);
        for _ in 0..3 {
            turns.grow_until_every_node_knows(&nodes, "ahead of the clock").await;
            node.command(&["DEL", &counter(&turns.resource)]);
            turns.grow(&format!("node {index} lost its counter")).await;
        }
    }
}

#[tokio::test]
async fn tokens_grow_when_clocks_of_servers_are_set_ahead_and_back() {
    let shim = match ClockShim::compile() {
        Ok(shim) => shim,
        Err(reason) => {
            skipped("tokens_grow_when_clocks_of_servers_are_set_ahead_and_back", &reason);
            return;
        }
    };
    let nodes = Nodes::start_as(3, &Server::builder().clock(&shim));
    let mut turns = Turns::new(&nodes, client);
    turns.all_vote(&nodes).await;
    turns.grow("clocks that are right").await;
    for (index, node) in nodes.iter().enumerate() {
        node.set_clock_ahead(HOUR);
        turns.grow(&format!("node {index} ahead")).await;
        node.set_clock_back(HOUR);
        turns.grow(&format!("node {index} back")).await;
    }
    nodes.iter().for_each(|node| node.set_clock_ahead(Duration::ZERO));
    turns.grow("right again").await;
}
