//! What the tasks of a client do, and what they check while they do it.

mod body;
mod cancel;
mod client;
mod hand_off;
mod holding;
mod inside;
mod leading;
mod operators;

use std::{
    future::{Future, IntoFuture, poll_fn},
    pin::pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::Poll,
};

use redlock_core::{LockError, LockHandle, LockRequest, Redlock, Released};

use self::cancel::cancellable;
pub(super) use self::operators::{operator, replica};
use super::{
    beliefs::Basis,
    faults,
    plan::{How, Mode, Op, Take, What, is_tick},
    report::Oddity,
    tokens::Call,
    world::{Client, World, ms, sleep},
};

/// How late a timer may be, in milliseconds: timers count whole milliseconds.
const SLACK: u64 = 20;

/// How long a waiter may wait if it is woken when its lock is free, in milliseconds: as long as all
/// other operations of the schedule take.
const AWAKE: u64 = 30 * 60 * 1000;

/// One task of a client.
pub(super) async fn task(world: Arc<World>, client: Arc<Client>, number: usize, ops: Vec<Op>) {
    let worker = Worker { world, client, number };
    for op in ops {
        sleep(op.after).await;
        worker.world.operation();
        match op.what {
            What::Take(take) => worker.take(&take).await,
            What::ReleaseAll => worker.release_all().await,
            What::Shutdown { grace } => worker.shutdown(grace).await,
            What::Health => worker.health().await,
            What::Burst { count, cancel } => worker.burst(count, Some(cancel)).await,
            What::Block { count, times } => worker.block(count, times).await,
            What::Replace { pool } => worker.replace(pool),
        }
    }
}

#[derive(Clone)]
struct Worker {
    world: Arc<World>,
    client: Arc<Client>,
    number: usize,
}

impl Worker {
    fn say(&self, tag: u64, more: u64, text: impl FnOnce() -> String) {
        let (client, task) = (self.client.number as u64, self.number as u64);
        self.world.log.note([tag, client, task, more], || format!("c{client}.{task}"), text);
    }

    fn violation(&self, what: impl AsRef<str>) {
        let what = what.as_ref();
        self.world.log.violation(format!("c{}.{}: {what}", self.client.number, self.number));
    }

    /// A call that must be answered within this many milliseconds, not counting those in which
    /// the process was stopped.
    async fn bounded<F: IntoFuture>(&self, what: &str, limit: u64, call: F) -> F::Output {
        let (begun, paused) = (self.world.now(), self.client.paused());
        let output = call.into_future().await;
        let taken = self.world.now() - begun - (self.client.paused() - paused);
        // A client's clock may go slow by as much as the drift factor allows.
        let limit = limit + limit / 10 + SLACK;
        if taken > limit {
            self.violation(format!("{what} took {taken} ms, over the {limit} ms that bound it"));
        }
        output
    }

    /// The time that one round to the nodes may take.
    fn round(&self) -> u64 {
        4 * self.world.plan.settings.node_timeout
    }

    fn request(&self, redlock: &Redlock, take: &Take) -> LockRequest {
        let wait = match take.how {
            How::Lock | How::Run | How::Continue | How::Lead { .. } => take.wait,
            How::Try | How::Snipe => 0,
        };
        let mut request = redlock.lock_all(take.names()).wait(ms(wait));
        if !take.also.is_empty() {
            self.world.log.odd(Oddity::Set);
        }
        request = request.ttl(ms(take.ttl)).auto_extend(take.auto_extend);
        if let Some(times) = take.drift {
            self.world.log.odd(Oddity::MoreDrift);
            request = request.clock_drift_factor(times * self.drift());
        }
        if let Some(count) = take.retry_count {
            request = request.retry_count(count);
        }
        if take.sleeps {
            request = request.retry_delay(ms(take.wait));
        }
        if take.fenced {
            request = request.fenced();
        }
        request = in_mode(request, take.mode);
        if take.min_hold > 0 {
            request = request.min_hold(ms(take.min_hold));
        }
        match take.max_hold {
            Some(max) => request.max_hold(ms(max)),
            None => request,
        }
    }

    /// The client asks for the keys of a take.
    pub(super) fn call(&self, take: &Take) -> Vec<Call> {
        take.keys().map(|key| self.world.ledger.call(key)).collect()
    }

    async fn take(&self, take: &Take) {
        self.say(30, take.ttl, || format!("{take:?}"));
        match take.how {
            How::Run => self.run(take).await,
            How::Continue => self.run_on(take).await,
            How::Lead { terms } => self.lead(take, terms).await,
            How::Snipe => self.snipe(take).await,
            How::Lock | How::Try => drop(self.lock(take).await),
        }
    }

    /// The time within which a request has to be answered.
    fn give_up_after(&self, take: &Take) -> u64 {
        let wait = if matches!(take.how, How::Try | How::Snipe) { 0 } else { take.wait };
        wait + self.world.plan.settings.connect_timeout + self.round()
    }

    /// True when it got the lock, or gave up of its own accord.
    async fn lock(&self, take: &Take) -> bool {
        let disturbed = self.client.disturbed.load(Relaxed);
        let begun = self.world.now();
        let call = self.call(take);
        let request = self.stopping(take, self.request(&self.client.redlock(), take).into_future());
        let request = cancellable(request, take.cancel);
        let answer = self.bounded("lock", self.give_up_after(take), request).await;
        if take.sleeps && !self.client.has_crashed() && self.world.now() - begun > AWAKE {
            let what = format!("c{} slept on when {:?} was free", self.client.number, take.names());
            self.world.log.delay(what);
        }
        match answer {
            None => self.say(31, 0, || "gives up".to_owned()),
            Some(Err(error)) => {
                self.refused(&error);
                return false;
            }
            Some(Ok(guard)) => {
                let undisturbed = disturbed == self.client.disturbed.load(Relaxed);
                if !guard.is_valid() && undisturbed {
                    self.violation("was given a lock without validity (rule 4)");
                }
                self.hold(take, guard, call).await;
            }
        }
        true
    }

    /// Runs a future in a process that may stop when it is woken, before it can see why.
    async fn stopping<F: Future>(&self, take: &Take, future: F) -> F::Output {
        let Some((when, span)) = take.stops else { return future.await };
        let (mut future, mut polls) = (pin!(future), 0);
        poll_fn(|cx| {
            polls += 1;
            if polls == when + 1 {
                self.say(47, span, || format!("is stopped for {span} ms as it wakes up"));
                self.world.stop(&self.client);
                let nodes = if take.overtaken { self.world.network.nodes() } else { 0 };
                faults::lose_locks(&self.world, 0..nodes);
                let client = Arc::clone(&self.client);
                self.world.later(span, move |world| {
                    faults::bring_locks_back(world, 0..nodes);
                    world.resume(&client);
                });
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            future.as_mut().poll(cx)
        })
        .await
    }

    /// Whether nothing goes wrong, and no operator takes away what a take is for.
    fn is_calm(&self, take: &Take) -> bool {
        self.world.plan.calm && !self.world.ledger.was_operated(take.keys())
    }

    fn refused(&self, error: &LockError) {
        self.told(error);
        if self.world.plan.calm && matches!(error, LockError::NoQuorum { .. }) {
            self.violation(format!("refused although nothing is wrong: {error}"));
        }
    }

    /// There was no lock, and that may be right.
    fn told(&self, error: &LockError) {
        self.say(32, kind(error), || format!("{error}"));
        if let LockError::Config { .. } | LockError::InvalidResource { .. } = error {
            self.violation(format!("the plan is wrong: {error}"));
        }
    }

    /// The drift that its client allows for.
    fn drift(&self) -> f64 {
        self.world.drift_of(self.world.plan_of(&self.client))
    }

    /// Whether a lock lives for long enough to be renewed. Its token may take a second round trip, and a
    /// request that allows for much drift relies on less than half of its ttl.
    fn has_time(&self, take: &Take) -> bool {
        let drift = take.drift.unwrap_or(1.0) * self.drift();
        let relies_for = ms(take.ttl).mul_f64((1.0 - drift).max(0.0));
        relies_for > 2 * ms(self.world.plan.settings.node_timeout)
    }

    fn begin(&self, take: &Take, handle: LockHandle, body: bool, call: Vec<Call>) -> u64 {
        let drift = take.drift.unwrap_or(1.0) * self.drift();
        let most = ms(take.ttl).mul_f64(1.0 - drift);
        if handle.validity() > most {
            self.violation(format!(
                "was given a lock for {:?}, and with its ttl and its drift it is {most:?} at most \
                 (rule 2)",
                handle.validity()
            ));
        }
        if self.client.closed.load(Relaxed) {
            self.violation("was given a lock after shutdown had begun (rule 13)");
        }
        self.world.log.count(|stats| stats.locks += 1);
        match take.mode {
            Mode::Writer => {}
            Mode::Reader => self.world.log.odd(Oddity::Reader),
            Mode::Permit(_) => self.world.log.odd(Oddity::Permit),
        }
        self.say(36, 0, || format!("has {:?}, valid for {:?}", take.names(), handle.validity()));
        if let Some(token) = handle.fencing_token() {
            self.say(46, 0, || format!("has the token {token}"));
        }
        if handle.fencing_token().is_some() != take.fenced {
            self.violation("was not given what it asked for: a token, or none");
        }
        for (key, call) in take.keys().zip(call) {
            self.world.ledger.given(key, &handle, call);
        }
        if is_tick(take.key) {
            self.tick_begins(take, &handle);
        }
        self.relies(take, handle, None, body)
    }

    /// The job of a tick begins. No node lets go of its key before `min_hold` is over, by the node's own
    /// clock.
    fn tick_begins(&self, take: &Take, handle: &LockHandle) {
        self.world.log.odd(Oddity::TickDone);
        let drift = self.world.plan.settings.drift;
        let kept = (take.min_hold as f64 * (1.0 - drift)) as u64;
        if let Some(wrong) = self.world.ledger.job_begins(take.key, handle, kept) {
            self.violation(wrong);
        }
    }

    /// The client relies on a lock from now on. A body inside of another has the `root` of that.
    fn relies(&self, take: &Take, handle: LockHandle, root: Option<u64>, body: bool) -> u64 {
        let (client, process) = (self.client.number, self.client.life.clone());
        let (keys, mode) = (take.resources(), take.mode);
        let basis = Basis { client, keys, mode, body, handle, process };
        self.world.ledger.begin(basis, root)
    }

    fn let_go(&self, id: u64, take: &Take) {
        self.say(37, 0, || format!("lets go of {:?}", take.names()));
        self.world.ledger.end(id, take.keep_handle);
    }

    fn released(&self, released: &Result<Released, LockError>) {
        let number = match released {
            Ok(Released::Ours) => 0,
            Ok(_) => 1,
            Err(error) => kind(error),
        };
        self.say(38, number, || format!("released: {released:?}"));
        if self.world.plan.calm
            && let Err(error) = released
        {
            self.violation(format!("no release although nothing is wrong: {error}"));
        }
    }

    /// Asks in the milliseconds in which the lock expires on the nodes.
    async fn snipe(&self, take: &Take) {
        let nodes = self.world.network.nodes();
        let key = format!("k{}", take.key);
        let mut left: Vec<u64> = (0..nodes)
            .map(|node| {
                let left = self.world.network.remaining(node, &key).unwrap_or_default();
                let true_left = left.div_f64(self.world.plan.nodes[node]);
                u64::try_from(true_left.as_millis()).unwrap() + u64::from(!left.is_zero())
            })
            .collect();
        left.sort_unstable();
        // From one millisecond before the key has expired on a quorum.
        sleep(left[nodes / 2].saturating_sub(1)).await;
        for _ in 0..3 {
            if self.lock(take).await {
                return;
            }
            sleep(1).await;
        }
    }
}

fn in_mode(request: LockRequest, mode: Mode) -> LockRequest {
    match mode {
        Mode::Writer => request,
        Mode::Reader => request.shared(),
        Mode::Permit(count) => request.permits(count),
    }
}

/// A number for each kind of error.
fn kind(error: &LockError) -> u64 {
    match error {
        LockError::Held { .. } => 2,
        LockError::NoQuorum { .. } => 3,
        LockError::Lost { .. } => 4,
        LockError::ShuttingDown { .. } => 5,
        _ => 6,
    }
}
