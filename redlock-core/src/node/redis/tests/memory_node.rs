//! A node in memory does what a server does: both are sent the same commands, which are drawn at random.
//!
//! Tests against nodes in memory, and the simulation, say nothing of servers where the two differ.

use std::{collections::BTreeMap, fmt::Debug};

use parking_lot::Mutex;
use proptest::{prelude::*, sample::select, strategy::Union, test_runner::TestRunner};

use super::*;
use crate::{
    MemoryNode,
    node::{Draw, Job, Listener, Raise, ReplyTo, Told, Watchers, queue_keys},
    token::Token,
};

const CLIENTS: usize = 5;
const PERMITS: u32 = 3;
const LONG: Duration = Duration::from_secs(60);
/// The life of what expires in a pause. Far more than some commands take.
const SHORT: Duration = Duration::from_millis(150);

/// The lock that a command is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lock {
    One(&'static str),
    Reader,
    Set,
    Permit(u32),
}

/// The place in a queue that a client names.
#[derive(Debug, Clone, Copy)]
enum Place {
    End,
    Former,
    OfAnother(usize),
}

#[derive(Debug, Clone, Copy)]
enum What {
    Act(Action),
    Join(Place, Duration, Listens),
    Adopt(Duration, usize),
    /// Raises the counter by this much from the number that the client has got, or from another one.
    Confirm(bool, u64),
}

#[derive(Debug, Clone, Copy)]
struct Step {
    client: usize,
    lock: Lock,
    has_turn: bool,
    has_place: bool,
    what: What,
}

fn ttl() -> impl Strategy<Value = Duration> {
    select(vec![LONG / 2, LONG, 2 * LONG, SHORT])
}

/// How long the entry of a waiter lives. One that is late, or has said nothing for a moment, is passed over or has
/// others told beside it.
fn life() -> impl Strategy<Value = Duration> {
    select(vec![Duration::from_secs(2), Duration::from_secs(4), LONG, SHORT])
}

fn draw() -> impl Strategy<Value = Draw> {
    (select(vec![0, 1000, 1 << 60]), 1_u32..4).prop_map(|(floor, count)| Draw {
        floor,
        count,
        life: LONG,
    })
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        2 => Just(Place::End),
        1 => Just(Place::Former),
        1 => (0..CLIENTS).prop_map(Place::OfAnother),
    ]
}

fn queueing() -> impl Strategy<Value = What> {
    let listens = select(vec![Listens::Nothing, Listens::Turn, Listens::TurnAndLock]);
    prop_oneof![
        2 => (place(), life(), listens).prop_map(|(place, life, listens)| What::Join(place, life, listens)),
        1 => any::<bool>().prop_map(|again| What::Act(Action::Leave { again })),
    ]
}

fn holding() -> impl Strategy<Value = What> {
    prop_oneof![
        3 => ttl().prop_map(|ttl| What::Act(Action::Grant { ttl })),
        1 => ttl().prop_map(|ttl| What::Act(Action::Heal { ttl })),
        1 => ttl().prop_map(|ttl| What::Act(Action::Extend { ttl })),
        3 => any::<bool>().prop_map(|wakes| What::Act(Action::Release { wakes: Places::first(wakes) })),
        1 => select(vec![Duration::ZERO, LONG / 3, SHORT]).prop_map(|rest| What::Act(Action::Shorten { rest })),
    ]
}

fn numbering() -> impl Strategy<Value = What> {
    prop_oneof![
        (ttl(), draw()).prop_map(|(ttl, draw)| What::Act(Action::GrantFenced { ttl, draw })),
        (ttl(), draw()).prop_map(|(ttl, draw)| What::Act(Action::Redraw { ttl, draw })),
        (any::<bool>(), 0_u64..20).prop_map(|(own, by)| What::Confirm(own, by)),
    ]
}

fn adopting() -> impl Strategy<Value = What> {
    (ttl(), 0..CLIENTS).prop_map(|(ttl, from)| What::Adopt(ttl, from))
}

fn watching() -> impl Strategy<Value = What> {
    select(vec![What::Act(Action::Watch), What::Act(Action::Inspect)])
}

fn of_operators() -> impl Strategy<Value = What> {
    prop_oneof![
        Just(What::Act(Action::TakeAway)),
        any::<bool>().prop_map(|wakes| What::Act(Action::Clear { wakes })),
    ]
}

fn barring() -> impl Strategy<Value = What> {
    prop_oneof![
        2 => (ttl(), any::<bool>())
            .prop_map(|(life, insists)| What::Act(Action::RaiseBarrier { life, insists })),
        1 => Just(What::Act(Action::LowerBarrier)),
    ]
}

fn finding() -> impl Strategy<Value = What> {
    (0..PERMITS, 1_u32..4, 0_u64..2).prop_map(|(from, most, asker)| {
        What::Act(Action::FindPermits { count: PERMITS, from, most, asker })
    })
}

/// How often the steps of a case are about writers of a lock, readers, sets and permits. Queues get long where all are
/// about one kind.
const KINDS: [[u32; 4]; 6] =
    [[4, 3, 1, 3], [1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0], [3, 0, 2, 0], [0, 0, 0, 1]];

fn step([writers, readers, sets, permits]: [u32; 4]) -> impl Strategy<Value = Step> {
    let keys: Vec<_> =
        ["redlock:a", "redlock:b"].into_iter().take(if sets > 0 { 2 } else { 1 }).collect();
    let of_writer = prop_oneof![
        6 => holding(), 6 => queueing(), 3 => numbering(), 1 => adopting(), 2 => watching(),
        1 => of_operators(), 2 => barring(),
    ];
    let of_reader = prop_oneof![6 => holding(), 6 => queueing(), 1 => watching()];
    let of_set = prop_oneof![4 => holding(), 2 => numbering(), 1 => adopting()];
    let of_permit = prop_oneof![4 => holding(), 4 => queueing(), 4 => finding()];
    let kinds = [
        (writers, (select(keys).prop_map(Lock::One), of_writer).boxed()),
        (readers, (Just(Lock::Reader), of_reader).boxed()),
        (sets, (Just(Lock::Set), of_set).boxed()),
        (permits, ((0..PERMITS).prop_map(Lock::Permit), of_permit).boxed()),
    ];
    let what = Union::new_weighted(kinds.into_iter().filter(|(weight, _)| *weight > 0).collect());
    (0..CLIENTS, any::<bool>(), any::<bool>(), what).prop_map(
        |(client, has_turn, has_place, (lock, what))| Step {
            client,
            lock,
            has_turn,
            has_place,
            what,
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    select(KINDS.to_vec()).prop_flat_map(|kinds| proptest::collection::vec(step(kinds), 1..60))
}

fn value(client: usize) -> String {
    format!("{client:040x}.client-{client}")
}

fn keys(lock: Lock) -> Vec<Arc<str>> {
    match lock {
        Lock::One(key) => vec![key.into()],
        Lock::Reader => vec!["redlock:a".into()],
        Lock::Set => vec!["redlock:a".into(), "redlock:b".into()],
        Lock::Permit(number) => vec![queue_keys::permit("redlock:p", number).into()],
    }
}

/// The keys that a node has told one of its connections of.
#[derive(Default)]
struct Heard {
    connection: usize,
    keys: Arc<Mutex<Vec<(usize, String)>>>,
}

impl Listener for Heard {
    fn changed(&self, _: usize, key: &str) {
        self.keys.lock().push((self.connection, key.to_owned()));
    }

    fn missed(&self, _: usize, _: &str) {}

    fn freed(&self, _: usize) {}

    fn changed_here(self: Arc<Self>, _: usize) -> Option<(Arc<Job>, ReplyTo)> {
        None
    }

    fn disconnected(&self, _: usize) {}

    fn reconnected(self: Arc<Self>, _: usize) -> Option<(Arc<Job>, ReplyTo)> {
        None
    }
}

/// A node, and what each client knows of it.
struct Side {
    connections: Vec<Box<dyn Connection>>,
    heard: Arc<Mutex<Vec<(usize, String)>>>,
    places: BTreeMap<(String, usize), u64>,
    numbers: BTreeMap<(String, usize), u64>,
}

impl Side {
    /// With a connection for each client.
    async fn of(spec: NodeSpec) -> Self {
        let heard = Arc::default();
        let mut connections = Vec::new();
        for connection in 0..CLIENTS {
            let watchers = Arc::<Watchers>::default();
            let mut told = Vec::new();
            for lock in [
                Lock::Reader,
                Lock::One("redlock:b"),
                Lock::Permit(0),
                Lock::Permit(1),
                Lock::Permit(2),
            ] {
                let key = &keys(lock)[0];
                told.push(Arc::clone(key));
                for client in 0..CLIENTS {
                    told.extend(
                        queue_keys::wake_keys(&Claim::new(key, value(client))).map(Arc::from),
                    );
                }
            }
            told.sort_unstable();
            told.dedup();
            for key in told {
                watchers.add(&key, 0, Arc::new(Heard { connection, keys: Arc::clone(&heard) }));
            }
            let connected = within(spec.connector.connect(&watchers)).await;
            connections.push(driven(connected.unwrap().0));
        }
        Self { connections, heard, places: BTreeMap::new(), numbers: BTreeMap::new() }
    }

    /// Does this, and returns what the client is told.
    async fn act(&mut self, step: &Step, expires: bool) -> Result<Reply, NodeError> {
        let Step { client, lock, .. } = *step;
        let [key, rest @ ..] = &keys(lock)[..] else { unreachable!() };
        let line = queue_keys::line(key).to_owned();
        let former = |client| self.places.get(&(line.clone(), client)).copied().unwrap_or(0);
        let number = self.numbers.get(&(line.clone(), client)).copied();
        let long = |time: Duration| if expires || time != SHORT { time } else { LONG };
        let action = match step.what {
            What::Join(place, life, listens) => {
                let place = match place {
                    Place::End => 0,
                    Place::Former => former(client),
                    Place::OfAnother(client) => former(client),
                };
                Action::Join { place, life: long(life), listens }
            }
            What::Adopt(ttl, from) => {
                Action::Adopt { ttl: long(ttl), from: Token::of_value(&value(from)).unwrap() }
            }
            What::Confirm(own, by) => {
                let from = if own { number.unwrap_or(7) } else { 7 };
                Action::Confirm(Raise { from, to: from + by, life: LONG })
            }
            What::Act(Action::Grant { ttl }) => Action::Grant { ttl: long(ttl) },
            What::Act(Action::GrantFenced { ttl, draw }) => {
                Action::GrantFenced { ttl: long(ttl), draw }
            }
            What::Act(Action::Heal { ttl }) => Action::Heal { ttl: long(ttl) },
            What::Act(Action::Extend { ttl }) => Action::Extend { ttl: long(ttl) },
            What::Act(Action::Redraw { ttl, draw }) => Action::Redraw { ttl: long(ttl), draw },
            What::Act(Action::Shorten { rest }) => Action::Shorten { rest: long(rest) },
            What::Act(Action::RaiseBarrier { life, insists }) => {
                Action::RaiseBarrier { life: long(life), insists }
            }
            What::Act(action) => action,
        };
        let claim = Claim {
            rest: rest.into(),
            shared: lock == Lock::Reader,
            permit: matches!(lock, Lock::Permit(_)),
            place: if step.has_place { former(client) } else { 0 },
            has_turn: step.has_turn && matches!(action, Action::Release { .. }),
            ..Claim::new(key, value(client))
        };
        let command = Command { claim: Arc::new(claim), action };
        let sent = self.connections[client].sender().send(vec![command]);
        let reply = within(sent).await.remove(0);
        match &reply {
            Ok(Reply::Queued { place, .. }) => {
                self.places.insert((line, client), *place);
            }
            Ok(Reply::Numbered { first }) => {
                let count = match action {
                    Action::GrantFenced { draw, .. } | Action::Redraw { draw, .. } => draw.count,
                    _ => 1,
                };
                self.numbers.insert((line, client), first + u64::from(count) - 1);
            }
            Ok(Reply::Done) => {
                if let Action::Confirm(raise) = action {
                    self.numbers.insert((line, client), raise.to);
                }
            }
            _ => {}
        }
        reply
    }

    /// What the clients have been told since they were asked last, in order of the keys.
    async fn heard(&mut self) -> Vec<(usize, String)> {
        for connection in &mut self.connections {
            // Pushes come before its answer.
            within(connection.ping()).await.unwrap();
        }
        let mut heard = std::mem::take(&mut *self.heard.lock());
        heard.sort_unstable();
        heard
    }
}

/// A reply without what differs by the time it takes: by less than a second, and the places.
fn comparable(reply: Result<Reply, NodeError>) -> String {
    const STEP: u128 = 10_000;
    let rounded = |left: Duration| (left.as_millis() + STEP / 2) / STEP;
    match reply {
        Ok(Reply::There { left }) => format!("there for {}", rounded(left)),
        Ok(Reply::Queued { ahead, left, turn_is_out, .. }) => {
            format!("{ahead} ahead, {:?} left, {turn_is_out}", left.map(rounded))
        }
        Ok(Reply::Numbered { first }) if first > 1 << 40 => "numbered by the clock".to_owned(),
        Ok(Reply::Seen(seen)) => {
            let waiting: Vec<_> = seen.waiting.iter().map(|it| &it.0).collect();
            let value = seen.value.as_ref().map(|it| &it.0);
            format!("{value:?} for {}, {waiting:?}, {}", rounded(seen.left), seen.turn_is_out)
        }
        Ok(Reply::Woke { deleted, told }) => format!("woke {deleted} {}", shown(&told)),
        Ok(Reply::Unwoken { deleted, told }) => format!("unwoken {deleted} {}", shown(&told)),
        Ok(Reply::Permits { free, told }) => format!("permits {free:?} {}", shown(&told)),
        Ok(reply) => format!("{reply:?}"),
        Err(error) => format!("error: {error}"),
    }
}

fn shown(told: &Told) -> String {
    let claim = Claim { rest: ["1".into()].into(), ..Claim::new(&"0".into(), String::new()) };
    told.keys(&claim).collect::<Vec<_>>().join(" ")
}

/// Sends the steps to both, with a pause behind some of them in which what is short expires. Returns where they differ.
async fn difference(
    server: &mut Server,
    steps: &[Step],
    pause_at: Option<usize>,
) -> Option<String> {
    server.admin("FLUSHALL");
    let node = MemoryNode::new();
    let mut sides =
        [Side::of(spec(&server.url("", "")).unwrap()).await, Side::of(node.spec()).await];
    for side in &mut sides {
        // The first command on a new connection may be tracked.
        side.heard().await;
    }
    let [redis, memory] = &mut sides;
    for (number, step) in steps.iter().enumerate() {
        if Some(number) == pause_at {
            tokio::time::sleep(3 * SHORT).await;
        }
        let expires = pause_at.is_some();
        let replies = [redis.act(step, expires).await, memory.act(step, expires).await];
        let [expected, found] = replies.map(comparable);
        if expected != found {
            return Some(format!("step {number}: a server answers {expected}; in memory {found}"));
        }
        let [expected, found] = [redis.heard().await, memory.heard().await];
        // A server tells of an expiry when it comes across it.
        if expected != found && !expires {
            return Some(format!(
                "step {number}: a server tells {expected:?}; in memory {found:?}"
            ));
        }
    }
    None
}

/// With a pause in each case if something is to expire.
fn compare(cases: u32, expires: bool) {
    let server = Mutex::new(Server::start());
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_time: 20_000,
        ..ProptestConfig::default()
    };
    let mut runner = TestRunner::new(config);
    let steps = (steps(), 1..30_usize);
    let outcome = runner.run(&steps, |(steps, pause)| {
        let mut found = None;
        // A machine that stands still makes a difference, once.
        for _ in 0..3 {
            let pause_at = expires.then_some(pause);
            // The connections end with their runtime.
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            found = runtime.block_on(difference(&mut server.lock(), &steps, pause_at));
            if found.is_none() {
                break;
            }
        }
        found.map_or(Ok(()), |found| Err(TestCaseError::fail(found)))
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn a_node_in_memory_answers_and_tells_what_a_server_does() {
    compare(300, false);
}

#[test]
fn a_node_in_memory_answers_what_a_server_does_of_what_has_expired() {
    compare(25, true);
}
