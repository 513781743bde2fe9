//! After the last operation: what must be gone is gone, and everything can go on.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use super::world::{Client, World, ms, sleep};

/// How long clean-up may take once nothing is wrong any more: less than a second to connect again,
/// a second until what is owed is tried once more, and another until that is repeated (rule 5).
const CLEAN_UP: u64 = 4000;

/// How long anybody waits for a lock at most, asking only at the beginning and at the end.
const PROGRESS: u64 = 60_000;

/// How long it may take when nothing is wrong and whoever waits is woken.
const PROMPT: u64 = 5_000;

/// How many tasks of each client take the same lock again and again.
const TASKS: usize = 2;

pub(super) async fn finish(world: &Arc<World>) {
    world.heal();
    world.log.note([50], || "--".to_owned(), || "all faults have ended".to_owned());
    sleep(CLEAN_UP).await;
    nothing_left_behind(world);
    // The longest that a key may outlive its holder, and a node may sit out.
    let max_ttl = world.plan.settings.max_ttl;
    sleep(max_ttl + max_ttl / 4 + CLEAN_UP).await;
    nothing_at_all(world);
    progress(world).await;
    turns(world).await;
}

/// Keys whose holders have let go are gone; those of the dead have their ttl.
fn nothing_left_behind(world: &World) {
    let clients = world.clients();
    let crashed = |client: usize| clients[client].has_crashed();
    for node in 0..world.network.nodes() {
        for key in world.network.keys(node) {
            if let Err(why) = world.ledger.excuse(node, &key, crashed) {
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

/// Everybody who is alive gets every lock, woken in time.
async fn progress(world: &Arc<World>) {
    let mut calls = Vec::new();
    for client in world.clients() {
        if client.closed.load(Relaxed) || client.has_crashed() {
            continue;
        }
        for key in 0..world.plan.keys {
            let (world, redlock) = (Arc::clone(world), client.redlock.clone());
            let number = client.number;
            calls.push(tokio::spawn(client.life.process.inside(async move {
                let request = redlock
                    .lock(format!("k{key}"))
                    .wait(ms(PROGRESS))
                    .retry_delay(ms(PROGRESS))
                    .retry_jitter(ms(0));
                let begun = world.now();
                match request.await {
                    Ok(guard) => {
                        let waited = world.now() - begun;
                        if waited > PROMPT {
                            world.log.violation(format!(
                                "c{number} was not woken when k{key} was free: it waited {waited} ms"
                            ));
                        }
                        sleep(1).await;
                        drop(guard);
                        world.log.note(
                            [51, number as u64, key as u64],
                            || format!("c{number}"),
                            || format!("can still take k{key}"),
                        );
                    }
                    Err(error) => world.log.violation(format!(
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

/// Tasks of all clients that take one lock again and again all get it: none of them keeps it to
/// itself.
async fn turns(world: &Arc<World>) {
    let alive = |client: &Arc<Client>| !client.closed.load(Relaxed) && !client.has_crashed();
    let clients: Vec<_> = world.clients().into_iter().filter(alive).collect();
    let waiting = Arc::new(AtomicUsize::new(clients.len() * TASKS));
    let mut tasks = Vec::new();
    for client in clients.iter().flat_map(|client| std::iter::repeat_n(client, TASKS)) {
        let (world, waiting) = (Arc::clone(world), Arc::clone(&waiting));
        let (redlock, number) = (client.redlock.clone(), client.number);
        tasks.push(tokio::spawn(client.life.process.inside(async move {
            let begun = world.now();
            let mut had_it = false;
            while waiting.load(Relaxed) > 0 {
                if world.now() - begun > PROMPT {
                    world.log.violation(format!(
                        "c{number} and others keep k0 to themselves, or never get it"
                    ));
                    return;
                }
                let request = redlock.lock("k0").wait(ms(PROMPT)).retry_delay(ms(PROMPT));
                let Ok(guard) = request.await else { continue };
                if !std::mem::replace(&mut had_it, true) {
                    waiting.fetch_sub(1, Relaxed);
                }
                sleep(1).await;
                drop(guard);
            }
        })));
    }
    for task in tasks {
        if let Err(error) = task.await {
            world.log.violation(format!("a task panicked: {error}"));
        }
    }
}
