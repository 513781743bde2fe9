//! Clients in a queue are served in the order in which they came. A client that is lost delays the
//! others for no longer than necessary.

use std::{
    future::{IntoFuture, poll_fn},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
};

use tokio::sync::Notify;

use super::{
    finish::in_queue,
    holds::hold,
    rng::Rng,
    world::{Client, World, ms, sleep},
};

/// A time that no schedule of this file needs.
const LONG: u64 = 60_000;

/// How long the entry of a waiter outlives it.
const LIFE: u64 = 5000;

/// How often a waiter reports.
const REFRESH: u64 = 1500;

/// How long a waiter may leave its turn unused before the next waiter looks for itself.
const GRACE: u64 = 500;

/// What happens to a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Nothing,
    /// A request is dropped while it waits.
    Leaves,
    /// A request is dropped when its turn comes, before it looks.
    LeavesAtItsTurn,
    /// A process is killed while it waits.
    Dies,
    /// Two processes next to each other in the queue are killed.
    TwoDie,
}

/// The clients that got the lock, in that order: their places in the queue, and when it was.
type Served = Arc<Mutex<Vec<(usize, u64)>>>;

struct Scene<'a> {
    world: &'a Arc<World>,
    served: Served,
    loss: Loss,
    /// The place in the queue of the first client that is lost.
    lost: usize,
}

pub(super) async fn in_order(world: &Arc<World>) {
    let mut rng = Rng::new(world.plan.seed ^ 0x0_4DE4);
    let mut clients = in_queue(world);
    if clients.len() < 3 {
        return;
    }
    for place in (1..clients.len()).rev() {
        clients.swap(place, rng.index(place + 1));
    }
    clients.truncate(12);
    let losses =
        [Loss::Nothing, Loss::Leaves, Loss::LeavesAtItsTurn, Loss::Dies, Loss::Dies, Loss::TwoDie];
    let loss = losses[rng.index(losses.len())];
    let lost = match loss {
        Loss::LeavesAtItsTurn => 0,
        _ if rng.percent(60) => 0,
        _ => rng.index(clients.len() - 1),
    };
    // Over several refreshes of each entry, or not.
    let hold = if rng.percent(30) { LIFE + 2000 } else { 20 };
    let scene = Scene { world, served: Served::default(), loss, lost };
    scene.play(&clients, hold).await;
}

impl Scene<'_> {
    async fn play(&self, clients: &[Arc<Client>], hold: u64) {
        let Self { world, loss, lost, .. } = *self;
        let Some((holder, waiters)) = clients.split_first() else { return };
        world.log.note(
            [52, loss as u64, lost as u64],
            || "--".to_owned(),
            || format!("in order: c{} holds, then {loss:?} at {lost}", holder.number),
        );
        let go = Arc::new(Notify::new());
        let held = Arc::new(Notify::new());
        let holds = tokio::spawn(holder.life.process.inside({
            let (redlock, go, held) = (holder.redlock(), Arc::clone(&go), Arc::clone(&held));
            async move {
                let guard = redlock.lock("k0").wait(ms(LONG)).await;
                held.notify_one();
                go.notified().await;
                let valid = guard.as_ref().is_ok_and(redlock_core::LockGuard::is_valid);
                drop(guard);
                valid
            }
        }));
        held.notified().await;
        let gone: Vec<Arc<Notify>> = waiters.iter().map(|_| Arc::default()).collect();
        let mut calls = Vec::new();
        for (place, (client, gone)) in waiters.iter().zip(&gone).enumerate() {
            let call = self.wait(place, client, Arc::clone(gone));
            calls.push(tokio::spawn(client.life.process.inside(call)));
            // It asks, is refused, and joins.
            sleep(2 * world.round_trip() + 5).await;
        }
        sleep(hold).await;
        let dead = match loss {
            Loss::Nothing => 0..0,
            Loss::Leaves | Loss::LeavesAtItsTurn | Loss::Dies => lost..lost + 1,
            Loss::TwoDie => lost..(lost + 2).min(waiters.len()),
        };
        match loss {
            Loss::Leaves => gone[lost].notify_one(),
            Loss::Dies | Loss::TwoDie => {
                dead.clone().for_each(|place| world.kill(&waiters[place]));
            }
            Loss::Nothing | Loss::LeavesAtItsTurn => {}
        }
        sleep(world.round_trip() + 5).await;
        let released = world.now();
        go.notify_one();
        let valid = holds.await.ok().flatten();
        for call in calls {
            if let Err(error) = call.await {
                world.log.violation(format!("a task panicked: {error}"));
            }
        }
        if valid != Some(true) {
            world
                .log
                .violation("a lock was not had, or lost, although nothing was wrong".to_owned());
        } else {
            let alive: Vec<usize> =
                (0..waiters.len()).filter(|place| !dead.contains(place)).collect();
            // A refresh that crosses the turn on its way puts the entry back.
            let crossed = loss == Loss::LeavesAtItsTurn
                && world.ledger.has_joined_again(waiters[lost].number);
            let rejoins = |place: &usize| world.ledger.has_joined_again(waiters[*place].number);
            let late = if alive.iter().any(rejoins) { world.round_trip() } else { 0 };
            self.judge(&alive, released, crossed, late);
        }
        sleep(world.round_trip() + 5).await;
    }

    /// A waiter: what it does when it has the lock takes a millisecond.
    fn wait(
        &self,
        place: usize,
        client: &Arc<Client>,
        gone: Arc<Notify>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (world, served) = (Arc::clone(self.world), Arc::clone(&self.served));
        let request = client.redlock().lock("k0").wait(ms(LONG)).retry_delay(ms(LONG));
        let (client, number) = (Arc::clone(client), client.number);
        let leaves_at_turn = self.loss == Loss::LeavesAtItsTurn && self.lost == place;
        async move {
            let mut request = pin!(request.into_future());
            let got = tokio::select! {
                biased;
                () = gone.notified() => None,
                () = its_turn(&world, number), if leaves_at_turn => None,
                got = &mut request => Some(got),
            };
            match got {
                None => {}
                Some(Ok(guard)) => {
                    let now = world.now();
                    served.lock().unwrap_or_else(PoisonError::into_inner).push((place, now));
                    hold(&world, &client, 0, guard, 1).await;
                }
                Some(Err(error)) => world.log.delay(format!(
                    "c{number} waited in the queue in vain although nothing was wrong: {error}"
                )),
            }
        }
    }

    /// Whether the waiters that are there were served in order and in time. A waiter whose refresh
    /// crosses its turn hears the answer to it first, which makes it `late` by a round trip.
    fn judge(&self, alive: &[usize], released: u64, crossed: bool, late: u64) {
        let Self { world, loss, lost, .. } = self;
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let order: Vec<usize> = served.iter().map(|(place, _)| *place).collect();
        let distances = &world.plan.distances;
        let is_ordered = match loss {
            Loss::Nothing | Loss::Leaves => true,
            // A client that watches nearer nodes than the one that keeps the queue may ask before it hears of its
            // turn. If it leaves then, what it gives back gives another turn.
            Loss::LeavesAtItsTurn => distances.are_equal_for_nodes(),
            // How long a client leaves a turn to those before it depends on how far it is itself.
            Loss::Dies => distances.are_equal_for_clients(),
            // The others find out for themselves when they look.
            Loss::TwoDie => false,
        };
        if is_ordered && order != alive {
            world.log.delay(format!(
                "not served in the order {alive:?}, but {order:?} ({loss:?} at {lost})"
            ));
        }
        // One round trip tells the turn, one takes the lock, and one releases it.
        let turn = 3 * world.round_trip() + late + 20;
        let waits = match loss {
            Loss::LeavesAtItsTurn if crossed => GRACE + 4 * world.round_trip(),
            Loss::Nothing | Loss::Leaves | Loss::LeavesAtItsTurn => 0,
            Loss::Dies => GRACE + 4 * world.round_trip(),
            // The next one reports, looks once more, and asks behind those that may be before it.
            Loss::TwoDie => REFRESH + 4 * (GRACE + 4 * world.round_trip()),
        };
        let mut last = released;
        let mut longest = 0;
        for (_, at) in served.iter() {
            longest = longest.max(at - last);
            last = *at;
        }
        // A client's clock may go slow by as much as the drift factor allows.
        let limit = (turn + waits) * 11 / 10;
        if longest > limit {
            world.log.delay(format!(
                "the next in the queue had the lock after {longest} ms, over the {limit} ms that \
                 bound it ({loss:?} at {lost})"
            ));
        }
    }
}

/// Resolves when this client is given its turn.
async fn its_turn(world: &World, client: usize) {
    let seen = world.ledger.turns_of(client);
    poll_fn(|_| if world.ledger.turns_of(client) > seen { Poll::Ready(()) } else { Poll::Pending })
        .await;
}
