//! Locks that are held for a moment once nothing is wrong any more: no other client has them meanwhile, and they are not
//! lost.

use redlock_core::LockGuard;

use super::{
    beliefs::Basis,
    plan::Mode,
    world::{Client, World, sleep},
};

/// Notes that a client relies on its lock on one key. Returns what ends it.
pub(super) fn relies(world: &World, client: &Client, key: usize, guard: &LockGuard) -> u64 {
    let (handle, process) = (guard.handle(), client.life.clone());
    let (client, keys, mode) = (client.number, vec![key], Mode::Writer);
    world.ledger.begin(Basis { client, keys, mode, body: false, handle, process }, None)
}

/// Holds a lock on one key for so many milliseconds.
pub(super) async fn hold(world: &World, client: &Client, key: usize, guard: LockGuard, span: u64) {
    let belief = relies(world, client, key, &guard);
    sleep(span).await;
    if !guard.is_valid() {
        let number = client.number;
        world.log.violation(format!("c{number} has lost k{key} although nothing is wrong"));
    }
    world.ledger.end(belief, false);
    drop(guard);
}
