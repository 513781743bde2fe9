//! A hold that has no guard yet.
//!
//! Between the grant and the guard, foreign code runs: a subscriber to traces, a recorder of metrics. If that code
//! panics, the hold has no owner, and would block the queue of this process until the process ends.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use super::release;
use crate::{client::Client, lease::Hold};

/// The owner of a new hold. Dropping it releases the lock in the background.
pub(super) struct Unguarded<'c> {
    client: &'c Arc<Client>,
    pub(super) hold: Arc<Hold>,
    has_guard: bool,
}

impl<'c> Unguarded<'c> {
    pub(super) fn new(client: &'c Arc<Client>, hold: Arc<Hold>) -> Self {
        Self { client, hold, has_guard: false }
    }

    /// The hold, for its guard.
    pub(super) fn into_hold(mut self) -> Arc<Hold> {
        self.has_guard = true;
        Arc::clone(&self.hold)
    }
}

impl Drop for Unguarded<'_> {
    fn drop(&mut self) {
        if self.has_guard {
            return;
        }
        // A second panic while the first one unwinds would abort the process.
        let release = || release::in_background(self.client, &self.hold);
        let _ = catch_unwind(AssertUnwindSafe(release));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering::SeqCst},
        time::Duration,
    };

    use futures_util::FutureExt;
    use tracing::{
        Event, Metadata, Subscriber,
        field::{Field, Visit},
        instrument::WithSubscriber,
        span,
    };

    use super::*;
    use crate::Redlock;

    /// Panics once, when a lock was acquired.
    struct Panicking(AtomicBool);

    struct Message(String);

    impl Visit for Message {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            if field.name() == "message" {
                self.0 = format!("{value:?}");
            }
        }
    }

    impl Subscriber for Panicking {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut message = Message(String::new());
            event.record(&mut message);
            assert!(message.0 != "lock acquired" || self.0.swap(true, SeqCst), "it is broken");
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscriber_that_panics_at_a_new_lock_leaves_no_lock_behind() {
        let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
        let redlock = Redlock::in_memory(3);
        for adopts in [false, true] {
            let ask = async {
                if adopts {
                    let lease = redlock.lock("r").await.unwrap().into_lease();
                    redlock.adopt(lease).with_subscriber(Panicking(false.into())).await
                } else {
                    redlock.lock("r").into_future().with_subscriber(Panicking(false.into())).await
                }
            };
            AssertUnwindSafe(ask).catch_unwind().await.unwrap_err();
            assert_eq!(redlock.held().len(), 0, "adopts: {adopts}");
            let waits = redlock.lock("r").wait(Duration::from_secs(1));
            drop(waits.await.unwrap());
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(redlock.client().queues.is_empty(), "adopts: {adopts}");
        }
    }
}
