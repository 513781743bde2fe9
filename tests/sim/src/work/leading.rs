//! Campaigns: bodies that run in the terms of a leader.

use std::{
    future::{Future, poll_fn},
    mem,
    ops::ControlFlow,
    pin::pin,
};

use redlock_core::{LockHandle, seam::simulation::believes};

use super::{
    super::{plan::Take, report::Oddity, world::ms},
    Worker,
    cancel::{OnDrop, cancellable},
};

/// How many times as long as a body may take a client campaigns for its terms.
const PATIENCE: u64 = 5;

impl Worker {
    /// Leads for `terms` terms, or gives up when they do not come.
    pub(super) async fn lead(&self, take: &Take, terms: u32) {
        let redlock = self.client.redlock();
        let role = take.names().swap_remove(0);
        let mut request = redlock.lead(role).ttl(ms(take.ttl)).min_hold(ms(take.min_hold));
        if let Some(times) = take.drift {
            request = request.clock_drift_factor(times * self.drift());
        }
        if let Some(most) = take.max_hold {
            request = request.max_hold(ms(most));
        }
        // What was known when a term before was asked for is known when this one is.
        let mut asked = self.call(take);
        let mut left = terms;
        let campaign = request.run(|lock: LockHandle| {
            let call = mem::replace(&mut asked, self.call(take));
            left = left.saturating_sub(1);
            let is_last = left == 0;
            async move {
                self.world.log.odd(Oddity::Led);
                let id = self.begin(take, lock.clone(), true, call);
                let _end = OnDrop(|| self.let_go(id, take));
                let mut steps = pin!(async {
                    for step in &take.steps {
                        self.step(step).await;
                    }
                });
                poll_fn(|cx| {
                    if !believes(&lock) {
                        self.violation("a leader runs on without its lock (rule 9)");
                    }
                    steps.as_mut().poll(cx)
                })
                .await;
                if is_last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
        });
        let limit = ms(PATIENCE * u64::from(terms) * self.longest(take));
        let campaign = tokio::time::timeout(limit, campaign);
        match cancellable(campaign, take.cancel).await {
            Some(Ok(Ok(()))) => self.say(49, 0, || "has led".to_owned()),
            Some(Ok(Err(error))) => self.refused(&error),
            Some(Err(_)) | None => self.say(31, 2, || "gives up".to_owned()),
        }
    }
}
