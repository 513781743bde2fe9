//! Clients that ask again and again are served in the order in which they came. A client that is near takes
//! no turn of a client that is far away.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use redlock_core::LockGuard;

use super::{
    finish::{finished, in_queue, prompt},
    locked,
    rng::Rng,
    world::{Client, World, ms, sleep},
};

/// How many clients take part at most.
const MOST: u64 = 6;

/// How often each client asks at least. It goes on for as long as others are not done.
const ROUNDS: usize = 4;

/// How often another client may have the lock while a client waits in the queue: once because it came
/// earlier, and once because it asked again before it could hear of the waiter. A client that asks while its
/// turn is on its way to it may lose that turn, a few times in a row at most. A client that keeps the lock to
/// itself has it dozens of times.
const PASSES: usize = 8;

/// A time that no schedule of this file needs.
const LONG: u64 = 60_000;

/// The clients that want the lock.
#[derive(Debug, Default)]
struct Line {
    /// The clients that wait: since when each is in the queue, and how often each of the others had the lock
    /// since then.
    waiting: BTreeMap<usize, (u64, BTreeMap<usize, usize>)>,
    /// How often each client still has to have the lock.
    wants: BTreeMap<usize, usize>,
    is_over: bool,
}

impl Line {
    /// A client has the lock. Returns a client that it has passed too often, and how often.
    fn served(&mut self, client: usize, now: u64) -> Option<(usize, usize)> {
        self.waiting.remove(&client);
        if let Some(times) = self.wants.get_mut(&client) {
            *times = times.saturating_sub(1);
        }
        self.is_over |= self.wants.values().all(|times| *times == 0);
        let mut worst = None;
        for (other, (since, passed)) in &mut self.waiting {
            if now >= *since {
                let times = passed.entry(client).or_default();
                *times += 1;
                if *times > PASSES {
                    worst = Some((*other, *times));
                }
            }
        }
        worst
    }
}

pub(super) async fn first_come(world: &Arc<World>) {
    let mut rng = Rng::new(world.plan.seed ^ 0xF1_4257);
    let mut clients = in_queue(world);
    for place in (1..clients.len()).rev() {
        clients.swap(place, rng.index(place + 1));
    }
    // Few, so that a client which keeps the lock to itself is not lost among others.
    clients.truncate(usize::try_from(rng.between(2, MOST)).unwrap_or(2));
    if clients.len() < 2 {
        return;
    }
    let hold = [1, 3, 10, 40, 200][rng.index(5)];
    let is_released = rng.percent(50);
    world.log.note(
        [62, hold, u64::from(is_released)],
        || "--".to_owned(),
        || format!("first come, first served: each holds k0 for {hold} ms"),
    );
    let line = Line {
        wants: clients.iter().map(|client| (client.number, ROUNDS)).collect(),
        ..Line::default()
    };
    let line = Arc::new(Mutex::new(line));
    let turns = 4 * ROUNDS * clients.len();
    let limit = world.now() + prompt(world, turns) + turns as u64 * hold;
    let mut tasks = Vec::new();
    for client in &clients {
        let late = rng.below(hold + 10);
        let task = asks(world, client, &line, (hold, is_released), (late, limit));
        tasks.push(tokio::spawn(client.life.process.inside(task)));
    }
    finished(world, tasks).await;
    sleep(world.round_trip() + 5).await;
}

/// Asks for the lock again and again until all clients have had it.
fn asks(
    world: &Arc<World>,
    client: &Arc<Client>,
    line: &Arc<Mutex<Line>>,
    (hold, is_released): (u64, bool),
    (late, limit): (u64, u64),
) -> impl Future<Output = ()> + Send + 'static {
    let (world, line, redlock) = (Arc::clone(world), Arc::clone(line), client.redlock());
    let number = client.number;
    // It asks, is refused, and joins.
    let joins = 4 * world.plan.distances.of(number) + 5;
    async move {
        sleep(late).await;
        while !locked(&line).is_over {
            let since = world.now() + joins;
            locked(&line).waiting.insert(number, (since, BTreeMap::new()));
            let request = redlock.lock("k0").wait(ms(LONG)).retry_delay(ms(LONG));
            let got = request.await;
            let now = world.now();
            let passed = locked(&line).served(number, now);
            if let Some((other, times)) = passed {
                locked(&line).is_over = true;
                world.log.delay(format!(
                    "c{number} had k0 {times} times while c{other} waited in the queue"
                ));
            }
            let Ok(guard) = got else {
                world.log.delay(format!("c{number} waited for its turn in vain: {got:?}"));
                return;
            };
            sleep(hold).await;
            let_go(guard, is_released).await;
            if now > limit && !locked(&line).is_over {
                locked(&line).is_over = true;
                world.log.delay(format!("c{number} and others never have their turns"));
            }
        }
    }
}

async fn let_go(guard: LockGuard, is_released: bool) {
    if is_released {
        drop(guard.release().await);
    } else {
        drop(guard);
    }
}
