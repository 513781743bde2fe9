//! Deterministic simulation: clients of the real library over a simulated network, on paused time.
//!
//! A seed becomes a `Plan`: nodes, clients, what each of their tasks does, and what goes wrong
//! meanwhile. Running a plan gives a `Report`: whether any promise was broken, and a hash of
//! everything that happened, by which two runs of one seed are seen to be the same.
//!
//! - `plan`, `draw`: what is to happen, and drawing it from a seed.
//! - `network`, `clock`, `process`, `rng`: what replaces the network, the time, the processes and the
//!   random numbers of clients, through [`redlock_core::seam`].
//! - `world`, `work`, `faults`: making it happen.
//! - `fenced`: which locks are asked for with a token.
//! - `ledger`, `beliefs`, `claims`, `looks`, `tokens`: what must hold, whatever happens.
//! - `finish`, `in_order`, `first_come`, `sharing`, `operators`, `holds`: what must hold once all faults have ended.
//! - `log`: the hash, and the timeline for a reader.

// What replaces the network and the time is in redlock-core under this cfg only.
#![cfg(redlock_sim)]

mod beliefs;
mod claims;
mod clock;
pub mod command;
mod draw;
mod faults;
mod fenced;
mod finish;
mod first_come;
mod holds;
mod in_order;
mod ledger;
mod log;
mod looks;
mod network;
mod operators;
mod plan;
mod process;
mod report;
mod rng;
mod sharing;
mod tokens;
mod work;
mod world;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

pub use plan::Plan;
use redlock_core::seam::simulation::wall_begins;
pub use report::{Report, Stats};
use tokio::runtime::{Builder, RngSeed};
use world::World;

/// No schedule takes so long by its own clock: a task that is still waiting waits in vain.
const FOREVER: Duration = Duration::from_secs(24 * 60 * 60);

/// Runs the schedule of a seed, with many clients if `crowd`; with the timeline of it when `told`.
pub fn run_seed(seed: u64, crowd: bool, told: bool) -> Report {
    run(Plan::draw(seed, crowd), told)
}

/// Runs a plan; with the timeline of it when `told`.
pub fn run(plan: Plan, told: bool) -> Report {
    // Tokio's channels choose whom to wake first: by the seed, too (`--cfg tokio_unstable`).
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .rng_seed(RngSeed::from_bytes(&plan.seed.to_le_bytes()))
        .build()
        .unwrap();
    let world = runtime.block_on(async {
        wall_begins();
        let world = World::build(plan, told);
        tokio::select! {
            biased;
            () = world.log.stuck() => {
                world.log.violation("time stands still: clients ask without a pause");
            }
            finished = tokio::time::timeout(FOREVER, schedule(&world)) => if finished.is_err() {
                world.log.violation("a call has no result: the schedule does not end");
            },
        }
        world.log.close();
        world
    });
    drop(runtime);
    world.bury();
    world.log.report()
}

/// One schedule, from the first operation to the last check.
async fn schedule(world: &Arc<World>) {
    world.warm_up().await;
    world.start_all();
    world.all_done().await;
    finish::finish(world).await;
}

/// A panic of one task says nothing against what the others have written.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
