//! Checks after the last operation: keys that must be gone are gone, and every client gets every lock.

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use redlock_core::Restarts;

use super::{
    first_come::first_come,
    holds::hold,
    in_order,
    operators::{jobs_done, operators},
    sharing::sharing,
    world::{Client, World, ms, sleep},
};

/// How long clean-up may take once nothing is wrong any more: less than a second to connect again,
/// a second until a delete is tried again, and another second until it is repeated (rule 5).
const CLEAN_UP: u64 = 4000;

/// How long a request waits for a lock that asks only at the beginning and at the end.
const PROGRESS: u64 = 60_000;

/// How long a request may take when nothing is wrong and waiters are woken.
const PROMPT: u64 = 5_000;

/// How many tasks of each client take the same lock again and again.
const TASKS: usize = 2;

/// Every client has connected to a node that was away for a moment.
const RECONNECTED: u64 = 2000;

/// For how long the commands of a waiter are counted.
const QUIET: u64 = 4000;

/// How often a client asks that gets no pushes.
const POLLS: u64 = 20;

pub(super) async fn finish(world: &Arc<World>) {
    world.heal();
    world.log.note([50], || "--".to_owned(), || "all faults have ended".to_owned());
    sleep(CLEAN_UP).await;
    jobs_done(world);
    nothing_left_behind(world);
    // The longest that a key may outlive its holder, and a node may sit out.
    let max_ttl = world.plan.settings.max_ttl;
    let set_back = (0..world.network.nodes()).map(|node| world.plan.set_back(node)).max();
    sleep(max_ttl + max_ttl / 4 + set_back.unwrap_or_default() + CLEAN_UP).await;
    nothing_at_all(world);
    nothing_owed(world).await;
    progress(world).await;
    in_order::in_order(world).await;
    sharing(world).await;
    operators(world).await;
    turns(world).await;
    first_come(world).await;
    quiet(world).await;
}

/// Keys whose holders have let go are gone. Keys of crashed holders last for their ttl.
fn nothing_left_behind(world: &World) {
    let strangers = world.ledger.deleted_by_strangers();
    strangers.into_iter().for_each(|what| world.log.violation(format!("{what} (rule 1)")));
    let clients = world.clients();
    let crashed = |client: usize| clients[client].has_crashed();
    // A client drops a delete that it owes once the key has expired by its own clock.
    let is_kept = |node: &usize| world.plan.set_back(*node) > 0;
    for node in (0..world.network.nodes()).filter(|node| !is_kept(node)) {
        for (key, claim) in world.network.holders(node) {
            if let Err(why) = world.ledger.excuse(node, claim, crashed) {
                world.log.violation(format!("{key} was left behind on n{node}: {why} (rule 5)"));
            }
        }
    }
}

fn nothing_at_all(world: &World) {
    for node in 0..world.network.nodes() {
        for key in world.network.keys(node) {
            world.log.violation(format!("{key} outlives its ttl on n{node}"));
        }
    }
}

/// No client that is alive holds a lock, or owes a delete (rules 5 and 18).
async fn nothing_owed(world: &World) {
    for client in world.clients().into_iter().filter(|client| !client.has_crashed()) {
        let redlock = client.redlock();
        let asked = async move { (redlock.held().len(), redlock.health().await) };
        let Some((held, healths)) = client.life.process.inside(asked).await else { continue };
        let owed: usize = healths.iter().map(|node| node.pending_cleanups).sum();
        if held > 0 || owed > 0 {
            let number = client.number;
            world.log.violation(format!(
                "c{number} holds {held} locks and owes {owed} deletes after all has ended"
            ));
        }
    }
}

/// How long it may take until each of this many clients had a turn.
pub(super) fn prompt(world: &World, turns: usize) -> u64 {
    // Told of its turn, a client asks, lets go and tells the next.
    PROMPT + turns as u64 * (3 * world.round_trip() + 5)
}

/// Clients that are alive and take new locks.
pub(super) fn at_work(world: &World) -> Vec<Arc<Client>> {
    let works = |client: &Arc<Client>| !client.closed.load(Relaxed) && !client.has_crashed();
    world.clients().into_iter().filter(works).collect()
}

/// Every client that is alive gets every lock, woken in time.
async fn progress(world: &Arc<World>) {
    let mut calls = Vec::new();
    let clients = at_work(world);
    // Clients outside of the queue may have to ask again while many clients pass the lock on.
    let limit = prompt(world, 2 * clients.len());
    for client in &clients {
        let told = world.plan_of(client).manners.pushes;
        for key in 0..world.plan.keys {
            let (world, redlock) = (Arc::clone(world), client.redlock());
            let (holder, number) = (Arc::clone(client), client.number);
            calls.push(tokio::spawn(client.life.process.inside(async move {
                let request = redlock
                    .lock(format!("k{key}"))
                    .wait(ms(PROGRESS))
                    .retry_delay(ms(if told { PROGRESS } else { POLLS }))
                    .retry_jitter(ms(0));
                let begun = world.now();
                match request.await {
                    Ok(guard) => {
                        let waited = world.now() - begun;
                        if waited > limit {
                            world.log.delay(format!(
                                "c{number} was not woken when k{key} was free: it waited {waited} ms"
                            ));
                        }
                        hold(&world, &holder, key, guard, 1).await;
                        world.log.note(
                            [51, number as u64, key as u64],
                            || format!("c{number}"),
                            || format!("can still take k{key}"),
                        );
                    }
                    Err(error) => world.log.delay(format!(
                        "c{number} cannot take k{key} although nothing is wrong: {error}"
                    )),
                }
            })));
        }
    }
    for call in calls {
        if let Err(error) = call.await {
            world.log.violation(format!("a task panicked: {error}"));
        }
    }
}

/// Tasks of all clients take one lock again and again, and all of them get it. No client keeps the lock
/// to itself, and a task that never waits keeps no client from it.
async fn turns(world: &Arc<World>) {
    let clients = at_work(world);
    let tasks_each = if clients.len() > 8 { 1 } else { TASKS };
    // A client outside of the queue gets the lock when the others leave it.
    let queue = |client: &&Arc<Client>| {
        let plan = world.plan_of(client);
        plan.manners.queues && !plan.has_twin()
    };
    let queued: Vec<_> = clients.iter().filter(queue).collect();
    let tries = queued.first().copied().filter(|client| client.number.is_multiple_of(2));
    let waiting = Arc::new(AtomicUsize::new(queued.len() * tasks_each));
    let limit = prompt(world, 4 * waiting.load(Relaxed));
    let mut tasks = Vec::new();
    for client in queued.into_iter().flat_map(|client| std::iter::repeat_n(client, tasks_each)) {
        let told = world.plan_of(client).manners.pushes;
        let (world, waiting) = (Arc::clone(world), Arc::clone(&waiting));
        let (redlock, number, holder) = (client.redlock(), client.number, Arc::clone(client));
        tasks.push(tokio::spawn(client.life.process.inside(async move {
            let begun = world.now();
            let mut had_it = false;
            while waiting.load(Relaxed) > 0 {
                if world.now() - begun > limit {
                    world.log.delay(format!(
                        "c{number} and others keep k0 to themselves, or never get it"
                    ));
                    return;
                }
                let delay = if told { limit } else { POLLS };
                let request = redlock.lock("k0").wait(ms(limit)).retry_delay(ms(delay));
                let Ok(guard) = request.await else { continue };
                if !std::mem::replace(&mut had_it, true) {
                    waiting.fetch_sub(1, Relaxed);
                }
                hold(&world, &holder, 0, guard, 1).await;
            }
        })));
    }
    if let Some(client) = tries {
        tasks.push(tokio::spawn(client.life.process.inside(greedy(world, client, &waiting))));
    }
    for task in tasks {
        if let Err(error) = task.await {
            world.log.violation(format!("a task panicked: {error}"));
        }
    }
}

/// Waits for tasks that do not panic.
pub(super) async fn finished(world: &World, tasks: Vec<tokio::task::JoinHandle<Option<()>>>) {
    for task in tasks {
        if let Err(error) = task.await {
            world.log.violation(format!("a task panicked: {error}"));
        }
    }
}

/// Tries for the lock again and again for as long as others wait, and never waits itself.
fn greedy(
    world: &Arc<World>,
    client: &Arc<Client>,
    waiting: &Arc<AtomicUsize>,
) -> impl Future<Output = ()> + Send + 'static {
    let (world, client, waiting) = (Arc::clone(world), Arc::clone(client), Arc::clone(waiting));
    async move {
        let limit = world.now() + prompt(&world, 4 * waiting.load(Relaxed));
        while waiting.load(Relaxed) > 0 && world.now() <= limit {
            match client.redlock().try_lock("k0").await {
                Ok(guard) => hold(&world, &client, 0, guard, 1).await,
                Err(_) => sleep(1).await,
            }
        }
    }
}

/// A waiter for which no quorum may vote asks no more than it has to, and has the lock once a quorum
/// may.
async fn quiet(world: &Arc<World>) {
    let clients = in_queue(world);
    let Some(client) = clients.first() else { return };
    let max_ttl = world.plan.settings.max_ttl;
    let sits_out = max_ttl + max_ttl / 4;
    if world.plan_of(client).restarts == Restarts::Trusted || max_ttl < 10_000 {
        return;
    }
    let (redlock, nodes) = (&client.redlock(), world.network.nodes());
    // Connected, with a quorum seen.
    drop(client.life.process.inside(redlock.lock("k0").into_future()).await);
    for node in 0..=nodes / 2 {
        world.network.stop(node);
        world.network.start(node, true);
    }
    sleep(RECONNECTED).await;
    let request = redlock.lock("k0").wait(ms(PROGRESS + sits_out)).retry_delay(ms(PROGRESS));
    let waiting = tokio::spawn(client.life.process.inside(request.into_future()));
    sleep(1000).await;
    let before = world.ledger.sent_by(client.number);
    sleep(QUIET).await;
    let sent = world.ledger.sent_by(client.number) - before;
    // A command a second and node.
    let most = nodes as u64 * QUIET / 1000;
    if sent > most {
        world.log.delay(format!(
            "c{} sent {sent} commands, over {most}, while no quorum could vote",
            client.number
        ));
    }
    let begun = world.now();
    let got = waiting.await.ok().flatten();
    if !matches!(got, Some(Ok(_))) || world.now() - begun > sits_out {
        world.log.delay(format!("c{} was not woken by nodes that vote again", client.number));
    }
}

/// The clients that the queue serves in order.
pub(super) fn in_queue(world: &World) -> Vec<Arc<Client>> {
    let mut clients = at_work(world);
    clients.retain(|client| world.plan_of(client).is_in_queue());
    clients
}
