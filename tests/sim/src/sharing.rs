//! Permits and readers once nothing is wrong any more: no waiter sleeps on while a permit is free, and a
//! writer has its turn among readers that never stop asking.

use std::{
    collections::BTreeMap,
    future::IntoFuture,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use super::{
    finish::{finished, in_queue, prompt},
    locked,
    rng::Rng,
    world::{Client, World, ms, sleep},
};

/// How long each holder has its lock.
const HOLD: u64 = 30;

/// How long one holder of a permit keeps it, sometimes: waiters must not wait for this one.
const LONG_HOLD: u64 = 15_000;

/// How often each task asks for a permit.
const ROUNDS: usize = 3;

/// A time that no schedule of this file needs.
const LONG: u64 = 60_000;

/// How long the entry of a waiter, and the barrier of a writer, outlive it.
const LIFE: u64 = 5000;

/// How often a waiter looks at its place in the queue, with some time to spare.
const REFRESH: u64 = 2000;

/// How many clients take part at most, with two tasks each.
const MOST: usize = 8;

pub(super) async fn sharing(world: &Arc<World>) {
    let mut rng = Rng::new(world.plan.seed ^ 0x5_4A2F);
    // Waiters that died before are out of the queue by then.
    sleep(LIFE + REFRESH).await;
    if rng.percent(50) {
        permits(world, &mut rng).await;
    }
    if rng.percent(50) {
        readers(world, &mut rng).await;
    }
}

/// The clients that take part, and whether the last of them is killed.
fn cast(world: &World, rng: &mut Rng) -> (Vec<Arc<Client>>, bool) {
    let mut clients = in_queue(world);
    clients.truncate(MOST);
    let dies = clients.len() > 2 && rng.percent(40);
    (clients, dies)
}

/// The shortest ttl of the plan. A dead holder keeps what it had for this long.
fn ttl(world: &World) -> u64 {
    3 * world.plan.settings.node_timeout
}

/// What the tasks do that take the permits of one resource.
#[derive(Debug)]
struct Slots {
    count: usize,
    /// True for the tasks that have a permit. The others wait.
    tasks: BTreeMap<(usize, usize), bool>,
    /// Since when a permit was free, a task waited, and none was given one.
    idle_since: Option<u64>,
    longest: u64,
    /// How many had a permit at once.
    most: usize,
}

impl Slots {
    /// A task waits for a permit, has one (`Some(true)`), or neither.
    fn set(&mut self, task: (usize, usize), state: Option<bool>, now: u64) {
        let has_begun = state == Some(true);
        match state {
            Some(state) => self.tasks.insert(task, state),
            None => self.tasks.remove(&task),
        };
        let held = self.tasks.values().filter(|has| **has).count();
        self.most = self.most.max(held);
        let is_idle = held < self.count && held < self.tasks.len();
        if has_begun || !is_idle {
            let since = self.idle_since.take().unwrap_or(now);
            self.longest = self.longest.max(now - since);
        }
        if is_idle {
            self.idle_since.get_or_insert(now);
        }
    }

    /// A process has died. What it had counts as held until it has expired.
    fn forget(&mut self, client: usize, now: u64) {
        let gone: Vec<_> = self.tasks.keys().filter(|(it, _)| *it == client).copied().collect();
        gone.into_iter().for_each(|task| self.set(task, None, now));
    }
}

/// Tasks of all clients take the permits of one resource, more of them than there are permits.
async fn permits(world: &Arc<World>, rng: &mut Rng) {
    let (clients, dies) = cast(world, rng);
    let count = world.plan.permits[0];
    let is_long = count > 1 && rng.percent(30);
    world.log.note(
        [59],
        || "--".to_owned(),
        || format!("{count} permits, one held for long: {is_long}, a crash: {dies}"),
    );
    let slots = Slots {
        count: usize::try_from(count).unwrap_or(usize::MAX),
        tasks: BTreeMap::new(),
        idle_since: None,
        longest: 0,
        most: 0,
    };
    let slots = Arc::new(Mutex::new(slots));
    let mut tasks = Vec::new();
    for (client, number) in clients.iter().flat_map(|client| [(client, 0), (client, 1)]) {
        let (world, redlock) = (Arc::clone(world), client.redlock());
        let (slots, task) = (Arc::clone(&slots), (client.number, number));
        let stays = is_long && task == (clients[0].number, 0);
        tasks.push(tokio::spawn(client.life.process.inside(async move {
            for round in 0..ROUNDS {
                let (hold, ttl) = if stays && round == 0 {
                    (LONG_HOLD, world.plan.settings.max_ttl)
                } else {
                    (HOLD, ttl(&world))
                };
                locked(&slots).set(task, Some(false), world.now());
                let request = redlock.lock("k0").permits(count).ttl(ms(ttl));
                let got = request.wait(ms(LONG)).retry_delay(ms(LONG)).await;
                let Ok(guard) = got else {
                    world.log.delay(format!("c{} waited for a permit in vain: {got:?}", task.0));
                    break;
                };
                locked(&slots).set(task, Some(true), world.now());
                sleep(hold).await;
                drop(guard);
                locked(&slots).set(task, None, world.now());
            }
            locked(&slots).set(task, None, world.now());
        })));
    }
    let mut limit = prompt(world, 0);
    if let Some(client) = clients.last().filter(|_| dies) {
        sleep(rng.below(2 * HOLD)).await;
        world.kill(client);
        locked(&slots).forget(client.number, world.now());
        limit += LIFE + REFRESH + 2 * ttl(world);
    }
    finished(world, tasks).await;
    let (longest, most) = {
        let slots = locked(&slots);
        (slots.longest, slots.most)
    };
    if most > usize::try_from(count).unwrap_or(usize::MAX) {
        world.log.violation(format!("{most} tasks had one of {count} permits at once"));
    }
    if longest > limit {
        world.log.delay(format!(
            "a permit was free for {longest} ms while clients waited, over the {limit} ms that bound it"
        ));
    }
    if dies {
        sleep(LIFE + 2 * ttl(world)).await;
    }
}

/// Readers ask for one lock again and again, so that it is never free of them, until two writers after
/// each other had it.
async fn readers(world: &Arc<World>, rng: &mut Rng) {
    let (clients, dies) = cast(world, rng);
    let [writer, next, ..] = &*clients else { return };
    world.log.note([60], || "--".to_owned(), || format!("a flood of readers, a crash: {dies}"));
    let over = Arc::new(AtomicBool::new(false));
    let mut limit = prompt(world, 2 * clients.len());
    if dies {
        limit += LIFE + REFRESH + 2 * ttl(world);
    }
    let mut tasks = Vec::new();
    for client in clients.iter().flat_map(|client| [client, client]) {
        let (world, over) = (Arc::clone(world), Arc::clone(&over));
        let (redlock, number, late) = (client.redlock(), client.number, rng.below(HOLD));
        tasks.push(tokio::spawn(client.life.process.inside(async move {
            sleep(late).await;
            while !over.load(Relaxed) {
                let request = redlock.lock("k0").shared().ttl(ms(ttl(&world)));
                let begun = world.now();
                let got = request.wait(ms(LONG)).retry_delay(ms(LONG)).await;
                let waited = world.now() - begun;
                if got.is_err() || waited > 2 * limit {
                    world.log.delay(format!("a reader of c{number} waited {waited} ms: {got:?}"));
                    return;
                }
                sleep(HOLD).await;
                drop(got);
            }
        })));
    }
    sleep(2 * HOLD + 2 * world.round_trip()).await;
    if let Some(client) = clients.last().filter(|_| dies) {
        world.kill(client);
    }
    for client in [writer, next] {
        let begun = world.now();
        let request = client.redlock().lock("k0").wait(ms(LONG)).retry_delay(ms(LONG));
        let got = client.life.process.inside(request.into_future()).await;
        let waited = world.now() - begun;
        if !matches!(got, Some(Ok(_))) || waited > limit {
            world.log.delay(format!(
                "a writer of c{} waited {waited} ms among readers, over {limit} ms: {got:?}",
                client.number
            ));
        }
        sleep(HOLD).await;
        drop(got);
    }
    over.store(true, Relaxed);
    finished(world, tasks).await;
    if dies {
        sleep(LIFE + 2 * ttl(world)).await;
    }
}
