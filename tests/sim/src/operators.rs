//! Operators and jobs once nothing is wrong any more. Operators are told the holder and the waiters. A
//! holder learns soon that its lock was taken away, and the next client has the lock when it may, and no
//! earlier. All ticks of jobs were done.

use std::{
    future::IntoFuture,
    sync::{Arc, Mutex, atomic::Ordering::Relaxed},
};

use redlock_core::{LockStatus, Waiter};
use tokio::time::timeout;

use super::{
    finish::{in_queue, prompt},
    holds::{hold, relies},
    locked,
    plan::What,
    rng::Rng,
    world::{Client, World, ms, sleep},
};

/// A time that no schedule of this file needs.
const LONG: u64 = 60_000;

/// How many clients wait at most.
const MOST: usize = 3;

/// How long each waiter has the lock.
const HOLD: u64 = 20;

/// For how many milliseconds more the timers of clients and nodes may count.
const SLACK: u64 = 20;

/// The clients that had the lock, and when each was given it.
type Served = Arc<Mutex<Vec<(usize, u64)>>>;

pub(super) async fn operators(world: &Arc<World>) {
    let mut rng = Rng::new(world.plan.seed ^ 0x09E4_A704);
    let clients = in_queue(world);
    let [holder, operator, others @ ..] = &*clients else { return };
    if !rng.percent(40) {
        return;
    }
    let is_now = rng.percent(40);
    let ttl = if rng.percent(50) {
        3 * world.plan.settings.node_timeout
    } else {
        world.plan.settings.max_ttl.min(10_000)
    };
    let waiters = &others[..others.len().min(MOST)];
    world.log.note(
        [61, u64::from(is_now), ttl],
        || "--".to_owned(),
        || format!("c{} takes k0 away from c{}, now: {is_now}", operator.number, holder.number),
    );
    let request = holder.redlock().lock("k0").ttl(ms(ttl)).wait(ms(LONG));
    let got = holder.life.process.inside(request.into_future()).await;
    let Some(Ok(guard)) = got else {
        return world.log.delay(format!("no lock for an operator to take away: {got:?}"));
    };
    let belief = relies(world, holder, 0, &guard);
    // It leaves the queue, if it was in it.
    sleep(world.round_trip() / 2).await;
    let served = Served::default();
    let mut tasks = Vec::new();
    for waiter in waiters {
        let task = wait(world, waiter, Arc::clone(&served));
        tasks.push(tokio::spawn(waiter.life.process.inside(task)));
        // It asks, is refused, and joins.
        sleep(2 * world.round_trip() + 5).await;
    }
    sleep(rng.below(2 * ttl)).await;
    let Some(status) = inspect(world, operator).await else { return };
    judge(world, &status, Some(holder), waiters);

    let begun = world.now();
    let free_in = free_in(world);
    world.ledger.operates(0, is_now);
    let redlock = operator.redlock();
    let taken = operator.life.process.inside(async move {
        if is_now {
            redlock.force_release_now("k0").await
        } else {
            redlock.force_release("k0").await
        }
    });
    if let Some(Err(error)) = taken.await {
        world.log.delay(format!("no operator can take k0 away, and nothing is wrong: {error}"));
    }
    // A holder renews after a third of its ttl, by a clock that may go slow.
    let limit = (ttl / 3 + 2 * world.round_trip()) * 11 / 10 + SLACK;
    if timeout(ms(limit), guard.lost()).await.is_err() {
        world.log.violation(format!(
            "c{} was not told within {limit} ms that an operator took its lock away",
            holder.number
        ));
    }
    world.ledger.end(belief, false);
    for task in tasks {
        if let Err(error) = task.await {
            world.log.violation(format!("a task panicked: {error}"));
        }
    }
    drop(guard);
    let served = locked(&served).first().map(|(_, at)| *at);
    let (earliest, latest) = if is_now { (0, 0) } else { (free_in, ttl + ttl / 16) };
    if let Some(waited) = served.map(|at| at - begun) {
        if waited + SLACK < earliest {
            world.log.violation(format!(
                "k0 was taken away and given after {waited} ms, and had {earliest} ms left"
            ));
        }
        let limit = latest + prompt(world, waiters.len());
        if waited > limit {
            world.log.delay(format!(
                "k0 was taken away, and the next client had it after {waited} ms, over {limit} ms"
            ));
        }
    }
    // What was left of a lock that no client waited for.
    sleep(ttl + ttl / 16 + SLACK).await;
    if let Some(status) = inspect(world, operator).await {
        judge(world, &status, None, &[]);
    }
}

/// A waiter, which has the lock for a moment.
fn wait(
    world: &Arc<World>,
    client: &Arc<Client>,
    served: Served,
) -> impl Future<Output = ()> + Send + 'static {
    let (world, client) = (Arc::clone(world), Arc::clone(client));
    async move {
        let request = client.redlock().lock("k0").wait(ms(LONG)).retry_delay(ms(LONG));
        match request.await {
            Ok(guard) => {
                locked(&served).push((client.number, world.now()));
                hold(&world, &client, 0, guard, HOLD).await;
            }
            Err(error) => world.log.delay(format!(
                "c{} waited in vain for a lock that was taken away: {error}",
                client.number
            )),
        }
    }
}

/// For how long a quorum of nodes keeps the lock, in true milliseconds, if it is not renewed.
fn free_in(world: &World) -> u64 {
    let nodes = world.network.nodes();
    let left = |node: usize| {
        let left = world.network.remaining(node, "k0").unwrap_or_default();
        u64::try_from(left.div_f64(world.plan.nodes[node]).as_millis()).unwrap_or(0)
    };
    let mut all: Vec<u64> = (0..nodes).map(left).collect();
    all.sort_unstable();
    all[nodes / 2]
}

async fn inspect(world: &World, operator: &Client) -> Option<LockStatus> {
    let redlock = operator.redlock();
    let asked = operator.life.process.inside(async move { redlock.inspect("k0").await }).await?;
    let told = |error| world.log.delay(format!("no operator can look at k0: {error}"));
    asked.map_err(told).ok()
}

/// An operator is told the holder, and the waiters in their order.
fn judge(
    world: &World,
    status: &LockStatus,
    holder: Option<&Arc<Client>>,
    waiters: &[Arc<Client>],
) {
    let name = |client: &Client| format!("c{}", client.number);
    let expected: Vec<String> = waiters.iter().map(|client| name(client)).collect();
    let waiting: Vec<&str> = status.waiting().iter().map(Waiter::client_name).collect();
    let holder = holder.map(|client| name(client));
    if status.holder() != holder.as_deref() || holder.is_some() == status.remaining().is_zero() {
        world.log.violation(format!("{holder:?} has k0, and an operator is told {status:?}"));
    }
    if waiting != expected {
        world.log.delay(format!("{expected:?} wait for k0, and an operator is told {waiting:?}"));
    }
}

/// Each tick of a job that all replicas could do was done by one of them.
pub(super) fn jobs_done(world: &World) {
    let shuts_down = |client: &Arc<Client>| {
        let mut ops = world.plan_of(client).tasks.iter().flatten();
        client.closed.load(Relaxed) || ops.any(|op| matches!(op.what, What::Shutdown { .. }))
    };
    if world.clients().iter().all(shuts_down) {
        return;
    }
    for tick in &world.plan.ticks {
        if world.ledger.jobs_begun(*tick) == 0 {
            world.log.violation(format!("no replica did the job of k{tick}"));
        }
    }
}
