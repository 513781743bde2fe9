//! What the clients do: every way to take, keep, lose and let go of a lock.

use std::{future::IntoFuture, pin::pin, rc::Rc, time::Duration};

use redlock_core::{LockError, LockGuard, LockHandle, LockRequest, simulation::Chance};
use tokio::time::{Instant, sleep, timeout};

use super::{
    record::HoldId,
    world::{Client, World},
};

/// How many things a client does, in all of its tasks.
const OPERATIONS: usize = 10;

/// More than any call may take past what it was told to wait: a connection, an attempt and a
/// release, each with its timeouts.
const SLACK: Duration = Duration::from_secs(2);

pub(super) async fn work(world: Rc<World>, client: usize, mut chance: Chance) {
    for _ in 0..OPERATIONS / world.tasks {
        sleep(chance.ms(0, 60)).await;
        world.clients[client].runs().await;
        world.record.operation();
        let key = format!("k{}", chance.below(world.keys));
        let task = Task { world: &world, client, key, chance: &mut chance };
        task.operate().await;
    }
}

struct Task<'a> {
    world: &'a Rc<World>,
    client: usize,
    key: String,
    chance: &'a mut Chance,
}

impl Task<'_> {
    fn client(&self) -> &Client {
        &self.world.clients[self.client]
    }

    fn note(&self, what: impl FnOnce() -> String) {
        self.world.record.note(&self.client().name, what);
    }

    async fn operate(mut self) {
        let wait = match self.chance.below(3) {
            0 => Duration::ZERO,
            1 => self.chance.ms(1, 100),
            _ => self.chance.ms(100, 600),
        };
        let mut request = self.client().locks.lock(self.key.clone()).wait(wait);
        if self.chance.one_in(4) {
            request = request.retry_count(self.chance.below(4) as u32);
        }
        if self.chance.one_in(6) {
            request = request.auto_extend(false);
        }
        if self.chance.one_in(8) {
            request = request.max_hold(self.chance.ms(1, 400));
        }
        if self.chance.one_in(8) {
            request = request.min_hold(self.chance.ms(1, 120));
        }
        if self.chance.one_in(5) {
            request = request.ttl(Duration::from_millis(180));
        }
        match self.chance.below(7) {
            0 => self.cancelled(request).await,
            6 => self.brink(request.auto_extend(false), wait).await,
            1 | 2 => self.body(request, wait).await,
            _ => self.bare(request, wait).await,
        }
    }

    /// Gives up on the request at a random moment.
    async fn cancelled(&mut self, request: LockRequest) {
        let patience = Duration::from_micros(self.chance.below(3000));
        self.note(|| format!("asks for {} and gives up after {patience:?}", self.key));
        if let Ok(Ok(guard)) = timeout(patience, request.into_future()).await {
            self.client().runs().await;
            self.begin(&guard.handle());
            drop(guard);
        }
    }

    async fn bare(&mut self, request: LockRequest, wait: Duration) {
        self.note(|| format!("asks for {} and waits for {wait:?}", self.key));
        let Some(guard) = self.bounded(wait, request.into_future()).await.and_then(Result::ok)
        else {
            return;
        };
        self.client().runs().await;
        let handle = guard.handle();
        let hold = self.begin(&handle);
        self.rely(&guard, hold).await;
        if self.chance.one_in(2) {
            self.note(|| format!("drops {}", self.key));
            drop(guard);
        } else {
            self.note(|| format!("releases {}", self.key));
            let released = self.bounded(Duration::ZERO, guard.release()).await;
            self.note(|| format!("has released {}: {}", self.key, told(released.as_ref())));
        }
        if self.chance.one_in(4) {
            // Who keeps a handle keeps nothing else.
            sleep(self.chance.ms(1, 200)).await;
            if handle.is_valid() {
                self.world.record.violation(format!("{} is valid after its release", self.key));
            }
        }
    }

    /// Relies on a lock that is not renewed up to the last moment: where a deadline that is too late
    /// by a little meets who waits for it.
    async fn brink(&mut self, request: LockRequest, wait: Duration) {
        self.note(|| format!("asks for {} to the last, and waits for {wait:?}", self.key));
        let Some(guard) = self.bounded(wait, request.into_future()).await.and_then(Result::ok)
        else {
            return;
        };
        self.client().runs().await;
        let Some(hold) = self.begin(&guard.handle()) else { return };
        sleep(guard.validity().saturating_sub(Duration::from_millis(70))).await;
        loop {
            self.client().runs().await;
            if !guard.is_valid() {
                self.note(|| format!("has no {} any more", self.key));
                return;
            }
            self.world.record.confirm(hold);
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Works under a bare guard for as long as it says that it is valid.
    async fn rely(&mut self, guard: &LockGuard, hold: Option<HoldId>) {
        let Some(hold) = hold else { return };
        let ttl = self.world.ttl.as_millis() as u64;
        let until = Instant::now()
            + match self.chance.below(8) {
                0 | 1 => Duration::ZERO,
                2..=5 => self.chance.ms(1, 30),
                6 => self.chance.ms(ttl / 2, 2 * ttl),
                _ => self.chance.ms(ttl, 5 * ttl),
            };
        while Instant::now() < until {
            if self.chance.one_in(12) {
                let longer = Duration::from_millis(60 + self.chance.below(ttl));
                let extended = self.bounded(Duration::ZERO, guard.extend(longer)).await;
                self.note(|| {
                    format!("extends {} by {longer:?}: {}", self.key, told(extended.as_ref()))
                });
            }
            sleep(self.chance.ms(1, 25)).await;
            self.client().runs().await;
            if !guard.is_valid() {
                self.note(|| format!("has lost {}", self.key));
                return;
            }
            self.world.record.confirm(hold);
        }
    }

    /// Works in a body, which is not polled once the lock cannot be relied on.
    async fn body(&mut self, request: LockRequest, wait: Duration) {
        self.note(|| format!("asks to run under {} and waits for {wait:?}", self.key));
        let (world, client, key) = (self.world, self.client, self.key.clone());
        let steps = self.chance.below(20);
        let mut pace = Chance::new(self.chance.next());
        let ran = self
            .bounded(
                wait + Duration::from_secs(2),
                request.run(async |lock: &LockHandle| {
                    world.clients[client].runs().await;
                    let record = &world.record;
                    record.note(&world.clients[client].name, || format!("runs under {key}"));
                    let hold = record.begin(client, lock.resource());
                    for _ in 0..steps {
                        sleep(pace.ms(1, 25)).await;
                        world.clients[client].runs().await;
                        record.confirm(hold);
                    }
                }),
            )
            .await;
        self.note(|| format!("has run under {}: {}", self.key, told(ran.as_ref())));
    }

    /// Relies on a lock from now on, if it may.
    fn begin(&self, handle: &LockHandle) -> Option<HoldId> {
        if !handle.is_valid() {
            self.note(|| format!("was given {}, which had run out", self.key));
            return None;
        }
        self.note(|| format!("holds {}", self.key));
        Some(self.world.record.begin(self.client, handle.resource()))
    }

    /// Nothing hangs: a call ends in its time, or a fault held the whole process up meanwhile.
    async fn bounded<T>(
        &self,
        wait: Duration,
        call: impl Future<Output = Result<T, LockError>>,
    ) -> Option<Result<T, LockError>> {
        let mut call = pin!(call);
        let mut left = wait + SLACK + self.world.ttl * 3;
        loop {
            let (begun, stood_still) = (Instant::now(), self.client().stood_still());
            if let Ok(result) = timeout(left, &mut call).await {
                if let Err(error) = &result {
                    self.note(|| format!("is told: {error}"));
                }
                return Some(result);
            }
            // A process that stood still meanwhile could do nothing.
            let ran = begun.elapsed() - (self.client().stood_still() - stood_still);
            left = left.saturating_sub(ran);
            if left.is_zero() {
                self.world.record.violation(format!("a call for {} hangs", self.key));
                return None;
            }
            self.client().runs().await;
        }
    }
}

fn told<T>(result: Option<&Result<T, LockError>>) -> String {
    match result {
        None => "nothing".to_owned(),
        Some(Ok(_)) => "well".to_owned(),
        Some(Err(error)) => error.to_string(),
    }
}

/// Once all faults are over, every client that is still there can have every lock.
pub(super) async fn everybody_gets_a_turn(world: &World) {
    for client in world.clients.iter().filter(|client| !client.crashed.get()) {
        for key in 0..world.keys {
            let request = client.locks.lock(format!("k{key}")).wait(Duration::from_secs(1));
            match request.await {
                Ok(guard) => drop(guard),
                Err(LockError::ShuttingDown { .. }) => {}
                Err(error) => {
                    world.record.violation(format!("{} gets no turn: {error}", client.name));
                }
            }
        }
    }
}
