//! What a task does while it holds a lock under a guard.

use std::sync::Arc;

use redlock_core::{LockGuard, Released};

use super::{
    super::{
        faults,
        plan::{Cancel, End, Step, Take},
        tokens::Call,
        world::{ms, sleep},
    },
    Worker,
    cancel::cancellable,
};

impl Worker {
    pub(super) async fn hold(&self, take: &Take, guard: LockGuard, call: Vec<Call>) {
        let id = self.begin(take, guard.handle(), false, call);
        self.holding(take, guard, id).await;
    }

    /// Holds a lock that was given.
    pub(super) async fn holding(&self, take: &Take, guard: LockGuard, id: u64) {
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
            End::HandOff(how) => self.hand_off(id, take, guard, how),
        }
        if handle.is_valid() {
            self.violation("a lock that was let go of is valid");
        }
    }

    pub(super) async fn step(&self, step: &Step) {
        let client = &self.client;
        match *step {
            Step::Sleep(span) => sleep(span).await,
            // A handle cannot extend.
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
                // A client that holds a lock sees it at its next look at the clock, and before that when it
                // judges a hold. A process may have several clients since a pool
                // was replaced.
                let redlocks = client.redlocks();
                if redlocks.iter().all(|redlock| !redlock.held().is_empty()) {
                    client.clock.set_back(ms(span));
                    self.world.ledger.wall_is_off(&client.clock);
                    redlocks.iter().for_each(|redlock| drop(redlock.held()));
                }
            }
        }
    }
}

impl Step {
    /// What it extends a lock to, if it does.
    pub(super) fn ttl(&self) -> u64 {
        match *self {
            Self::Extend(ttl) | Self::SendExtend(ttl) => ttl,
            Self::Sleep(_)
            | Self::Isolate { .. }
            | Self::Stop(_)
            | Self::Freeze(_)
            | Self::SetBack(_) => 0,
        }
    }

    pub(super) fn span(&self) -> u64 {
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
