//! Seeded schedules of clients, nodes and faults on paused time (`--cfg redlock_sim`).
//!
//! One seed is one schedule: how many nodes and clients there are, what each client does, what
//! goes wrong and when. Nothing else decides anything, so that a seed replays exactly.
//!
//! - [`record`]: what happened, and what must not have.
//! - [`world`]: the nodes, the clients and the ways between them.
//! - [`faults`]: what goes wrong.
//! - [`work`]: what the clients do.

pub mod command;
mod faults;
mod record;
mod work;
mod world;

use std::{rc::Rc, time::Duration};

pub use record::Report;
use redlock_core::simulation::Chance;
use tokio::{runtime::RngSeed, task::LocalSet};

use self::{record::Record, world::World};

/// Runs the schedule of one seed. `verbose` keeps its timeline.
pub fn run(seed: u64, verbose: bool) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        // Tokio's channels and mutexes choose whom to wake first (`--cfg tokio_unstable`).
        .rng_seed(RngSeed::from_bytes(&seed.to_le_bytes()))
        .build()
        .unwrap();
    let record = Rc::new(Record::new(verbose));
    LocalSet::new().block_on(&runtime, schedule(seed, &record));
    drop(runtime);
    record.report(seed)
}

async fn schedule(seed: u64, record: &Rc<Record>) {
    let mut chance = Chance::new(seed);
    let world = Rc::new(World::new(&mut chance, record));
    world.meet().await;

    let faults =
        tokio::task::spawn_local(faults::strike(Rc::clone(&world), Chance::new(chance.next())));
    let mut tasks = Vec::new();
    for client in 0..world.clients.len() {
        for _ in 0..world.tasks {
            let chance = Chance::new(chance.next());
            let work = work::work(Rc::clone(&world), client, chance);
            let task = tokio::task::spawn_local(work);
            world.clients[client].tasks.borrow_mut().push(task.abort_handle());
            tasks.push(task);
        }
    }
    for task in tasks {
        // A task of a client that crashed was aborted; any other panic is the schedule's.
        if let Err(error) = task.await
            && error.is_panic()
        {
            record.violation(format!("a task panicked: {error}"));
        }
    }
    faults.abort();
    let _ = faults.await;

    // Everything is well again: nothing may stay behind, and everybody gets a turn.
    world.heal();
    record.note("world", || "all faults are over".to_owned());
    world.settle().await;
    work::everybody_gets_a_turn(&world).await;
    record.check_overlaps();
    for client in &world.clients {
        client.locks.shutdown(Duration::ZERO).await;
    }
}
