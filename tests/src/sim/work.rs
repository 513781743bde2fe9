//! What the tasks of a client do, and what they check while they do it.

use std::{
    future::{Future, IntoFuture, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::Poll,
};

use futures_util::future::join_all;
use redlock_core::{
    __private::{OnLost, all, error_from, lock, of_client, run},
    LockError, LockGuard, LockHandle, LockOptions, LockRequest, LostReason, Released,
    seam::simulation::believes,
};
use tokio::task::JoinSet;

use super::{
    faults,
    plan::{Cancel, End, How, Op, Step, Take, What},
    report::Oddity,
    tokens::Call,
    world::{Client, World, ms, sleep},
};

/// What a machine may be late by, in milliseconds: timers are whole ones.
const SLACK: u64 = 20;

/// How long a waiter may have to wait that is woken when its lock is free, in milliseconds: for
/// everything else in the schedule, and no longer.
const AWAKE: u64 = 30 * 60 * 1000;

/// The first key of each client that only its bursts take.
const BURST: usize = 1000;

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

    fn request(&self, take: &Take) -> LockRequest {
        let redlock = &self.client.redlock();
        let wait = match take.how {
            How::Lock | How::Run | How::Continue => take.wait,
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
        if take.min_hold > 0 {
            request = request.min_hold(ms(take.min_hold));
        }
        match take.max_hold {
            Some(max) => request.max_hold(ms(max)),
            None => request,
        }
    }

    /// The client asks for the keys of a take.
    fn call(&self, take: &Take) -> Vec<Call> {
        take.keys().map(|key| self.world.ledger.call(key)).collect()
    }

    async fn take(&self, take: &Take) {
        self.say(30, take.ttl, || format!("{take:?}"));
        match take.how {
            How::Run => self.run(take).await,
            How::Continue => self.run_on(take).await,
            How::Snipe => self.snipe(take).await,
            How::Lock | How::Try => drop(self.lock(take).await),
        }
    }

    /// The time within which a request has to be answered.
    fn give_up_after(&self, take: &Take) -> u64 {
        let wait =
            if matches!(take.how, How::Lock | How::Run | How::Continue) { take.wait } else { 0 };
        wait + self.world.plan.settings.connect_timeout + self.round()
    }

    /// True when it got the lock, or gave up of its own accord.
    async fn lock(&self, take: &Take) -> bool {
        let disturbed = self.client.disturbed.load(Relaxed);
        let begun = self.world.now();
        let call = self.call(take);
        let request = self.stopping(take, self.request(take).into_future());
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
                let client = Arc::clone(&self.client);
                self.world.later(span, move |world| world.resume(&client));
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            future.as_mut().poll(cx)
        })
        .await
    }

    fn refused(&self, error: &LockError) {
        self.say(32, kind(error), || format!("{error}"));
        if self.world.plan.calm && matches!(error, LockError::NoQuorum { .. }) {
            self.violation(format!("refused although nothing is wrong: {error}"));
        }
        if let LockError::Config { .. } | LockError::InvalidResource { .. } = error {
            self.violation(format!("the plan is wrong: {error}"));
        }
    }

    async fn hold(&self, take: &Take, guard: LockGuard, call: Vec<Call>) {
        let id = self.begin(take, guard.handle(), false, call);
        for step in &take.steps {
            if let Step::Extend(ttl) = step {
                self.say(33, *ttl, || format!("extends by {ttl} ms"));
                let extended = self.bounded("extend", self.round(), guard.extend(ms(*ttl))).await;
                self.say(34, u64::from(extended.is_ok()), || format!("extended: {extended:?}"));
            } else if let Step::SendExtend(ttl) = step {
                self.say(33, *ttl, || format!("extends by {ttl} ms, and waits for nothing"));
                cancellable(guard.extend(ms(*ttl)), Some(Cancel::Polls(1))).await;
            } else {
                self.step(step).await;
            }
        }
        if take.end == End::Release && !guard.is_valid() {
            self.world.log.count(|stats| stats.losses += 1);
        }
        let handle = guard.handle();
        match take.end {
            End::Release => {
                self.let_go(id, take);
                let released = self.bounded("release", self.round(), guard.release()).await;
                self.released(&released);
            }
            End::CancelRelease(polls) => {
                self.let_go(id, take);
                let release = cancellable(guard.release(), Some(Cancel::Polls(polls)));
                self.bounded("release", self.round(), release).await;
            }
            End::UntilLost(limit) => {
                let lost = tokio::time::timeout(ms(limit), guard.lost()).await.is_ok();
                self.say(35, u64::from(lost), || format!("lost: {lost}"));
                if lost && guard.is_valid() {
                    self.violation("lost() resolved on a lock that is valid (rule 9)");
                }
                self.world.log.count(|stats| stats.losses += u64::from(lost));
                self.let_go(id, take);
                drop(guard);
            }
            End::GoesOn(limit) => {
                let lost = tokio::time::timeout(ms(limit), guard.lost()).await.is_ok();
                self.say(35, u64::from(lost), || format!("lost: {lost}, and goes on"));
                let extended = self.bounded("extend", self.round(), guard.extend(ms(limit))).await;
                if lost && extended.is_ok() {
                    self.violation("a lock that was lost was extended (rule 7)");
                }
                self.let_go(id, take);
                let released = self.bounded("release", self.round(), guard.release()).await;
                if lost && matches!(released, Ok(Released::Ours)) {
                    self.violation("a lock that was lost was released as ours (rule 11)");
                }
                self.world.log.count(|stats| stats.losses += u64::from(lost));
            }
            End::Drop => {
                self.let_go(id, take);
                drop(guard);
            }
        }
        if handle.is_valid() {
            self.violation("a lock that was let go of is valid");
        }
    }

    /// The drift that its client allows for.
    fn drift(&self) -> f64 {
        self.world.drift_of(self.world.plan_of(&self.client))
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
        let life = self.client.life.clone();
        self.world.ledger.begin(self.client.number, take.keys().collect(), handle, body, life)
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

    async fn step(&self, step: &Step) {
        let client = &self.client;
        match *step {
            Step::Sleep(span) => sleep(span).await,
            // Guards only.
            Step::Extend(_) | Step::SendExtend(_) => {}
            Step::Isolate { cut, first, count, span } => {
                self.say(39, span, || format!("{step:?}"));
                faults::isolate(&self.world, client.number, first, count, cut, span);
            }
            Step::Stop(span) | Step::Freeze(span) => {
                self.say(40, span, || format!("{step:?}"));
                if matches!(step, Step::Stop(_)) {
                    self.world.stop(client);
                } else {
                    self.world.freeze(client);
                }
                let client = Arc::clone(client);
                self.world.later(span, move |world| world.resume(&client));
                // The process stands still from its next await on.
                tokio::task::yield_now().await;
            }
            Step::SetBack(span) => {
                self.say(45, span, || format!("{step:?}"));
                // A client sees it as long as it holds something, at the next look at the latest,
                // and in time when it judges a hold.
                if !client.redlock().held().is_empty() {
                    client.clock.set_back(ms(span));
                    self.world.ledger.wall_is_off(&client.clock);
                    let _ = client.redlock().held();
                }
            }
        }
    }

    async fn run(&self, take: &Take) {
        let call = self.call(take);
        let body = async |lock: &LockHandle| {
            let id = self.begin(take, lock.clone(), true, call);
            let _end = OnDrop(|| self.let_go(id, take));
            let mut steps = pin!(async {
                for step in &take.steps {
                    self.step(step).await;
                }
            });
            poll_fn(|cx| {
                if !believes(lock) {
                    self.violation("a body runs on without its lock (rule 9)");
                }
                steps.as_mut().poll(cx)
            })
            .await;
        };
        let held: u64 = take.steps.iter().map(Step::span).sum();
        let limit = self.give_up_after(take) + held + self.round();
        let run = cancellable(self.request(take).run(body), take.cancel);
        match self.bounded("run", limit, run).await {
            None => self.say(31, 1, || "gives up".to_owned()),
            Some(Ok(())) => self.say(41, 0, || "ran".to_owned()),
            Some(Err(error)) => {
                self.refused(&error);
                let LockError::Lost { reason, .. } = error else { return };
                self.world.log.count(|stats| stats.losses += 1);
                let renewed = take.auto_extend && reason == LostReason::Expired;
                if self.world.plan.calm && (renewed || reason == LostReason::Refused) {
                    self.violation(format!("lost although nothing is wrong: {error}"));
                }
            }
        }
    }

    /// An annotated function whose body goes on when its lock is lost.
    async fn run_on(&self, take: &Take) {
        self.world.log.odd(Oddity::Continued);
        let cleared = self.client.cleared.load(Relaxed);
        let mut options = LockOptions::new()
            .wait(ms(take.wait))
            .ttl(ms(take.ttl))
            .auto_extend(take.auto_extend)
            .min_hold(ms(take.min_hold));
        if let Some(times) = take.drift {
            options = options.clock_drift_factor(times * self.drift());
        }
        if take.fenced {
            options = options.fenced();
        }
        let asked = self.call(take);
        let call = of_client(&self.client.redlock(), all(take.names()), options);
        let ended = AtomicBool::new(true);
        let body = async {
            let lock = lock();
            let id = self.begin(take, lock.clone(), true, asked);
            ended.store(false, Relaxed);
            let _end = OnDrop(|| self.let_go(id, take));
            for step in &take.steps {
                self.step(step).await;
            }
            // Longer than it may be held, if it does not renew itself.
            if let End::UntilLost(limit) | End::GoesOn(limit) = take.end {
                sleep(limit).await;
            }
            let lost = u64::from(!lock.is_valid());
            self.say(48, lost, || format!("goes on to its end, lost: {lost}"));
            if lost > 0 {
                self.world.log.odd(Oddity::ContinuedLost);
            }
            ended.store(true, Relaxed);
            Ok(())
        };
        let run = run(call, error_from::<Result<(), LockError>>(), OnLost::Continue, body);
        match cancellable(run, take.cancel).await {
            None => return self.say(31, 1, || "gives up".to_owned()),
            Some(Ok(())) => {}
            Some(Err(error)) => self.refused(&error),
        }
        if !ended.load(Relaxed) && cleared == self.client.cleared.load(Relaxed) {
            self.violation("a body that goes on after a loss was dropped at its loss");
        }
    }

    /// Asks in the moments in which the lock runs out on the nodes.
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
        // The same milliseconds of the quorum's expiry, and one before.
        sleep(left[nodes / 2].saturating_sub(1)).await;
        for _ in 0..3 {
            if self.lock(take).await {
                return;
            }
            sleep(1).await;
        }
    }

    async fn release_all(&self) {
        self.say(42, 0, || "releases all".to_owned());
        // Who calls it has stopped the code under bare guards.
        self.world.ledger.end_guards(self.client.number);
        self.client.cleared.fetch_add(1, Relaxed);
        let all = self.client.redlocks();
        let all = all.iter().map(redlock_core::Redlock::release_all);
        self.bounded("release_all", 2000, join_all(all)).await;
    }

    async fn shutdown(&self, grace: u64) {
        self.say(43, grace, || format!("shuts down within {grace} ms"));
        self.client.closed.store(true, Relaxed);
        self.client.cleared.fetch_add(1, Relaxed);
        let all = self.client.redlocks();
        let all = all.iter().map(|redlock| redlock.shutdown(ms(grace)));
        self.bounded("shutdown", grace + 2000, join_all(all)).await;
        let bodies = self.world.ledger.bodies(self.client.number);
        if bodies > 0 {
            self.violation(format!("{bodies} bodies run on after shutdown (rule 13)"));
        }
    }

    /// Asks for so many locks of its own at once, and gives each up after a moment.
    async fn burst(&self, count: usize, cancel: Option<Cancel>) {
        self.say(45, count as u64, || format!("asks for {count} locks at once: {cancel:?}"));
        let first = BURST * (1 + self.client.number);
        let redlock = &self.client.redlock();
        let mut calls = JoinSet::new();
        for number in 0..count {
            let request = redlock.lock(format!("k{}", first + number)).wait(ms(0));
            calls.spawn(self.client.life.process.inside(async move {
                // What is given is dropped at once.
                drop(cancellable(request.into_future(), cancel).await);
            }));
        }
        while calls.join_next().await.is_some() {}
    }

    /// Asks for so many locks of its own at once, again and again, while its runtime is blocked until
    /// the answers should have been read.
    async fn block(&self, count: usize, times: usize) {
        for _ in 0..times {
            self.world.log.odd(Oddity::Blocked);
            let timeout = self.world.plan.settings.node_timeout;
            let client = Arc::clone(&self.client);
            // Once the commands have left.
            self.world.later(1, move |world| {
                world.stop(&client);
                world.later(timeout + timeout / 2, move |world| world.resume(&client));
            });
            self.burst(count, None).await;
        }
    }

    fn replace(&self, pool: usize) {
        self.say(47, pool as u64, || format!("replaces pool {pool}"));
        self.world.replace(&self.client, pool);
    }

    async fn health(&self) {
        let settings = self.world.plan.settings;
        let limit = settings.connect_timeout + 2 * settings.node_timeout;
        let healths = self.bounded("health", limit, self.client.redlock().health()).await;
        self.say(44, 0, || format!("{healths:?}"));
    }
}

impl Step {
    fn span(&self) -> u64 {
        match *self {
            Self::Sleep(span) => span,
            Self::Extend(_)
            | Self::SendExtend(_)
            | Self::Isolate { .. }
            | Self::Stop(_)
            | Self::Freeze(_)
            | Self::SetBack(_) => 0,
        }
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

/// Runs a future, or drops it when it is time: None.
async fn cancellable<F: Future>(future: F, cancel: Option<Cancel>) -> Option<F::Output> {
    match cancel {
        None => Some(future.await),
        Some(Cancel::After(span)) => tokio::time::timeout(ms(span), future).await.ok(),
        Some(Cancel::Woken(most)) => {
            let mut future = pin!(future);
            let mut woken = 0;
            poll_fn(|cx| {
                if woken > most {
                    return Poll::Ready(None);
                }
                woken += 1;
                future.as_mut().poll(cx).map(Some)
            })
            .await
        }
        Some(Cancel::Polls(most)) => {
            let mut future = pin!(future);
            let mut polls = 0;
            poll_fn(|cx| {
                if polls == most {
                    return Poll::Ready(None);
                }
                polls += 1;
                match future.as_mut().poll(cx) {
                    Poll::Ready(output) => Poll::Ready(Some(output)),
                    Poll::Pending if polls == most => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                }
            })
            .await
        }
    }
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
