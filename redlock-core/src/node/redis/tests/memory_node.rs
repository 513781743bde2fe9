//! A node in memory does what a server does: both are sent the same commands, which are drawn at random.
//!
//! Tests against nodes in memory, and the simulation, say nothing of servers where the two differ.

mod drawn;

use std::{cell::Cell, collections::BTreeMap, time::Instant};

use proptest::{prelude::*, test_runner::TestRunner};

use self::drawn::{KeyName, Lock, Step, What, steps};
use super::*;
use crate::{
    MemoryNode,
    node::{
        Raise, Told, Watchers, queue_keys,
        recorder::{Note, Recorder},
    },
    sync::Mutex,
    token::Token,
};

const CLIENTS: usize = 5;
const PERMITS: u32 = 5;
const LONG: Duration = Duration::from_secs(60);
/// The life of what expires in a pause. Far more than some commands take.
const SHORT: Duration = Duration::from_millis(150);

/// How often a case is tried on a busy machine.
const TRIES: usize = 5;

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

/// A node, and what each client knows of it.
struct Side {
    connections: Vec<Box<dyn Connection>>,
    /// By connection.
    recorder: Arc<Recorder>,
    places: BTreeMap<(String, usize), u64>,
    numbers: BTreeMap<(String, usize), u64>,
}

impl Side {
    /// With a connection for each client.
    async fn of(spec: NodeSpec) -> Self {
        let recorder = Arc::<Recorder>::default();
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
                watchers.add(&key, connection, Arc::<Recorder>::clone(&recorder));
            }
            let connected = within(spec.connector.connect(&watchers)).await;
            connections.push(driven(connected.unwrap().0));
        }
        Self { connections, recorder, places: BTreeMap::new(), numbers: BTreeMap::new() }
    }

    /// Does this, and returns what the client is told.
    async fn act(&mut self, step: &Step, expires: bool) -> Result<Reply, NodeError> {
        let Step { client, lock, .. } = *step;
        let [key, rest @ ..] = &keys(lock)[..] else { unreachable!() };
        let queue_name = queue_keys::queue_name(key).to_owned();
        let former = |client| self.places.get(&(queue_name.clone(), client)).copied().unwrap_or(0);
        let number = self.numbers.get(&(queue_name.clone(), client)).copied();
        let long = |time: Duration| if expires || time != SHORT { time } else { LONG };
        let action = match step.what {
            What::Join(place, life, listens, reads) => {
                let place = match place {
                    KeyName::End => 0,
                    KeyName::Former => former(client),
                    KeyName::OfAnother(client) => former(client),
                };
                Action::Join { place, life: long(life), listens, reads }
            }
            What::Adopt(ttl, from) => {
                Action::Adopt { ttl: long(ttl), from: Token::of_value(&value(from)).unwrap() }
            }
            What::Inspect(most) => Action::Inspect { most },
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
                self.places.insert((queue_name, client), *place);
            }
            Ok(Reply::Numbered { first }) => {
                let count = match action {
                    Action::GrantFenced { draw, .. } | Action::Redraw { draw, .. } => draw.count,
                    _ => 1,
                };
                self.numbers.insert((queue_name, client), first + u64::from(count) - 1);
            }
            Ok(Reply::Done) => {
                if let Action::Confirm(raise) = action {
                    self.numbers.insert((queue_name, client), raise.to);
                }
            }
            _ => {}
        }
        reply
    }

    /// What the clients have been told since they were asked last, in order of the keys.
    async fn heard(&mut self) -> Vec<(usize, Note)> {
        for connection in &mut self.connections {
            // Pushes come before its answer.
            within(connection.ping()).await.unwrap();
        }
        let mut heard = self.recorder.take();
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
        Ok(Reply::Queued { ahead, left, turn_is_out, may_share, .. }) => {
            format!("{ahead} ahead, {:?} left, {turn_is_out}, {may_share}", left.map(rounded))
        }
        Ok(Reply::Numbered { first }) if first > 1 << 40 => "numbered by the clock".to_owned(),
        Ok(Reply::Inspected(seen)) => {
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

/// What two nodes made of the same commands.
enum Outcome {
    Same,
    Different(String),
    /// The machine was too busy: something may have expired on one of them and not on the other.
    TooLate,
}

/// Sends the steps to both, with a pause behind some of them in which what is short expires.
async fn compared(server: &mut Server, steps: &[Step], pause_at: Option<usize>) -> Outcome {
    let expires = pause_at.is_some();
    // Turns and clients that have asked count for a second.
    let limit = if expires { SHORT / 2 } else { Duration::from_millis(400) };
    server.admin("FLUSHALL");
    let node = MemoryNode::new();
    let mut sides =
        [Side::of(spec(&server.url("", "")).unwrap()).await, Side::of(node.spec()).await];
    for side in &mut sides {
        // The first command on a new connection may be tracked.
        side.heard().await;
    }
    let [redis, memory] = &mut sides;
    let mut begun = Instant::now();
    for (number, step) in steps.iter().enumerate() {
        if Some(number) == pause_at {
            let is_late = begun.elapsed() > limit;
            begun = Instant::now();
            tokio::time::sleep(3 * SHORT).await;
            if is_late || begun.elapsed() > 4 * SHORT {
                return Outcome::TooLate;
            }
            begun = Instant::now();
        }
        let replies = [redis.act(step, expires).await, memory.act(step, expires).await];
        let [expected, found] = replies.map(comparable);
        let told = [redis.heard().await, memory.heard().await];
        if begun.elapsed() > limit {
            return Outcome::TooLate;
        }
        if expected != found {
            let what = format!("step {number}: a server answers {expected}; in memory {found}");
            return Outcome::Different(what);
        }
        // A server tells of an expiry when it comes across it.
        if told[0] != told[1] && !expires {
            let what = format!("step {number}: a server and a node in memory tell {told:?}");
            return Outcome::Different(what);
        }
    }
    Outcome::Same
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
    let same = Cell::new(0);
    let outcome = runner.run(&steps, |(steps, pause)| {
        let pause_at = expires.then_some(pause);
        for _ in 0..TRIES {
            // The connections end with their runtime.
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            match runtime.block_on(compared(&mut server.lock(), &steps, pause_at)) {
                Outcome::Same => {
                    same.set(same.get() + 1);
                    return Ok(());
                }
                Outcome::Different(what) => return Err(TestCaseError::fail(what)),
                Outcome::TooLate => {}
            }
        }
        // So busy a machine shows nothing in this case.
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    assert!(same.get() > 0, "the machine was too busy for every case");
}

#[test]
fn a_node_in_memory_answers_and_tells_what_a_server_does() {
    compare(300, false);
}

#[test]
fn a_node_in_memory_answers_what_a_server_does_of_what_has_expired() {
    compare(25, true);
}
