//! Waiting for a hold to change.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use super::{Hold, Judgement, Leases};
use crate::timer;
use futures_util::future::BoxFuture;

impl Leases {
    /// How much longer a hold may be relied on.
    pub(crate) fn validity(self: &Arc<Self>, hold: &Arc<Hold>) -> Duration {
        // A holder that only reads its validity renews from its own runtime when the runtime of the
        // scheduler has ended (rule 13).
        self.ensure_running();
        match self.judge(hold) {
            Judgement::Valid(left) => left,
            Judgement::Doubtful | Judgement::Ended(_) => Duration::ZERO,
        }
    }

    /// How long until a hold has to be looked at.
    fn left(&self, hold: &Hold) -> Duration {
        let reading = self.nodes.clock.read();
        hold.end_at(reading).since(reading.now)
    }
}

/// Resolves once `done` accepts the hold's judgement. The hold is judged now and at each change.
pub(crate) async fn until(
    leases: Arc<Leases>,
    hold: Arc<Hold>,
    mut done: impl FnMut(Judgement) -> bool,
) {
    loop {
        // A runtime that ended took the scheduler with it: the waiting task starts it again (rule
        // 13).
        leases.ensure_running();
        let mut changed = pin!(hold.changed());
        changed.as_mut().enable();
        if done(leases.judge(&hold)) {
            return;
        }
        // The clock alone ends a hold (rule 9), but a task has to look at it. The scheduler does
        // so, unless its runtime stands still: then this task does, on its own runtime.
        let mut alarm: Option<BoxFuture<'static, ()>> = None;
        poll_fn(|cx| {
            if changed.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if leases.registry.elsewhere().is_none() {
                return Poll::Pending;
            }
            leases.stand_by();
            let alarm = alarm.get_or_insert_with(|| Box::pin(timer::sleep(leases.left(&hold))));
            alarm.as_mut().poll(cx)
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::Redlock;

    /// Nothing else looks at a hold that was released: it is not in the registry any more.
    #[tokio::test(start_paused = true)]
    async fn a_task_that_waits_for_the_end_of_a_hold_hears_of_its_release() {
        let guard = Redlock::in_memory(3).lock("r").await.unwrap();
        let lost = tokio::spawn(guard.lost());
        tokio::task::yield_now().await;
        guard.release().await.unwrap();
        timeout(Duration::from_millis(1), lost).await.unwrap().unwrap();
    }
}
