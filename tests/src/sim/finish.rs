//! After the last operation: what must be gone is gone, and everything can go on.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use super::world::{World, ms, sleep};

/// How long clean-up may take once nothing is wrong any more: less than a second to connect again,
/// a second until what is owed is tried once more, and another until that is repeated (rule 5).
const CLEAN_UP: u64 = 4000;

/// How long anybody may have to wait for a lock when nothing is wrong.
const PROGRESS: u64 = 60_000;

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

/// Everybody who is alive gets every lock.
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
                    .retry_delay(ms(20))
                    .retry_jitter(ms(80));
                match request.await {
                    Ok(guard) => {
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
