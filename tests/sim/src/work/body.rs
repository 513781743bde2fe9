//! Bodies that run under a lock.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use redlock_core::{
    __private::{OnLost, all, error_from, lock, of_client, run},
    LockError, LockHandle, LockOptions, LostReason,
    seam::simulation::believes,
};

use super::{
    super::{
        plan::{End, Mode, Take},
        report::Oddity,
        world::{ms, sleep},
    },
    Worker,
    cancel::{OnDrop, cancellable},
    inside::Moved,
};

impl Worker {
    pub(super) async fn run(&self, take: &Take) {
        let call = self.call(take);
        let redlock = self.client.redlock();
        let body = async |lock: &LockHandle| {
            let id = self.begin(take, lock.clone(), true, call);
            let _end = OnDrop(|| self.let_go(id, take));
            let mut steps = pin!(async {
                for step in &take.steps {
                    self.step(step).await;
                }
                self.inside(take, &redlock, lock, id).await
            });
            poll_fn(|cx| {
                if !believes(lock) {
                    self.violation("a body runs on without its lock (rule 9)");
                }
                steps.as_mut().poll(cx)
            })
            .await
        };
        let limit = self.longest(take);
        let run = cancellable(self.request(&redlock, take).run(body), take.cancel);
        match self.bounded("run", limit, run).await {
            None => self.say(31, 1, || "gives up".to_owned()),
            Some(Ok(moved)) => {
                self.say(41, 0, || "ran".to_owned());
                Moved::all(moved).await;
            }
            Some(Err(error)) => {
                self.refused(&error);
                let LockError::Lost { reason, .. } = error else { return };
                self.world.log.count(|stats| stats.losses += 1);
                let renewed =
                    take.auto_extend && reason == LostReason::Expired && self.has_time(take);
                if self.is_calm(take) && (renewed || reason == LostReason::Refused) {
                    self.violation(format!("lost although nothing is wrong: {error}"));
                }
            }
        }
    }

    /// An annotated function whose body goes on when its lock is lost.
    pub(super) async fn run_on(&self, take: &Take) {
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
        options = match take.mode {
            Mode::Writer => options,
            Mode::Reader => options.shared(),
            Mode::Permit(count) => options.permits(count),
        };
        let asked = self.call(take);
        let redlock = self.client.redlock();
        let call = of_client(&redlock, all(take.names()), &options);
        let ended = AtomicBool::new(true);
        let body = async {
            let lock = lock();
            let id = self.begin(take, lock.clone(), true, asked);
            ended.store(false, Relaxed);
            let _end = OnDrop(|| self.let_go(id, take));
            for step in &take.steps {
                self.step(step).await;
            }
            // This is longer than the life of a lock that does not renew itself.
            if let End::UntilLost(limit) | End::GoesOn(limit) = take.end {
                sleep(limit).await;
            }
            let lost = u64::from(!lock.is_valid());
            self.say(48, lost, || format!("goes on to its end, lost: {lost}"));
            if lost > 0 {
                self.world.log.odd(Oddity::ContinuedLost);
            }
            let moved = self.inside(take, &redlock, &lock, id).await;
            ended.store(true, Relaxed);
            Ok(moved)
        };
        let run = run(call, error_from::<Result<Vec<Moved>, LockError>>(), OnLost::Continue, body);
        match cancellable(run, take.cancel).await {
            None => return self.say(31, 1, || "gives up".to_owned()),
            Some(Ok(moved)) => Moved::all(moved).await,
            Some(Err(error)) => self.refused(&error),
        }
        if !ended.load(Relaxed) && cleared == self.client.cleared.load(Relaxed) {
            self.violation("a body that goes on after a loss was dropped at its loss");
        }
    }
}
