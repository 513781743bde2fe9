//! Requests that ask by themselves first, and are refused.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::{
    LockError, Redlock,
    clock::{Clock, Moment, Reading, TokioClock},
    testing::nodes,
};

/// A clock on which time passes between any two readings, as on every real clock.
#[derive(Debug, Default)]
struct Moving(AtomicU64);

impl Clock for Moving {
    fn read(&self) -> Reading {
        Reading { now: self.now(), missed: Duration::ZERO }
    }

    fn now(&self) -> Moment {
        TokioClock.now() + Duration::from_nanos(self.0.fetch_add(1, SeqCst))
    }

    fn wall(&self) -> Duration {
        TokioClock.wall()
    }
}

/// How often a reader, and a request for a permit, ask before their short `wait` is over.
async fn attempts(clock: Arc<dyn Clock>) -> [u32; 2] {
    let nodes = nodes(3);
    let client = || Redlock::builder().nodes(&nodes).clock(Arc::clone(&clock)).build().unwrap();
    let [ours, theirs] = [client(), client()];
    let _writer = theirs.lock("read").await.unwrap();
    let _permit = theirs.lock("permit").permits(1).await.unwrap();
    let wait = Duration::from_millis(50);
    let reader = ours.lock("read").shared().wait(wait).await.unwrap_err();
    let permit = ours.lock("permit").permits(1).wait(wait).await.unwrap_err();
    [reader, permit].map(|error| match error {
        LockError::Held { attempts, .. } => attempts,
        error => panic!("{error:?}"),
    })
}

/// What the nodes have said is known. A second question at once would have the same answer.
#[tokio::test(start_paused = true)]
async fn a_request_that_was_refused_waits_before_it_asks_again_on_a_clock_that_moves_too() {
    let standing = attempts(Arc::new(TokioClock)).await;
    assert_eq!(attempts(Arc::<Moving>::default()).await, standing);
}
