//! A doubt that another thread clears in the middle of a poll.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering::SeqCst},
    task::{Context, Poll, Waker},
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use super::*;
use crate::{
    MemoryNode, Redlock,
    clock::{Clock, Moment, Reading, manual::ManualClock},
    sync::Mutex,
    testing::nodes,
};

/// Far more than any step here takes, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(30);

/// A clock that does something before a thread reads it.
struct Meddling {
    clock: ManualClock,
    /// The thread, at which of its readings, and what.
    meddle: Mutex<Option<(ThreadId, u32, Meddle)>>,
}

type Meddle = Box<dyn FnOnce() + Send>;

impl Meddling {
    fn due(&self) -> Option<Meddle> {
        let mut meddle = self.meddle.lock();
        let (_, readings, _) = meddle.as_mut().filter(|it| it.0 == thread::current().id())?;
        *readings -= 1;
        let is_due = *readings == 0;
        meddle.take_if(|_| is_due).map(|(_, _, meddle)| meddle)
    }
}

impl fmt::Debug for Meddling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meddling")
    }
}

impl Clock for Meddling {
    fn read(&self) -> Reading {
        if let Some(meddle) = self.due() {
            meddle();
        }
        self.clock.read()
    }

    fn now(&self) -> Moment {
        self.clock.now()
    }

    fn wall(&self) -> Duration {
        self.clock.wall()
    }
}

/// The wake-up that the body was polled for is spent then, and there may be no other one.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_body_is_polled_whose_doubt_is_cleared_as_it_is_judged() {
    let clock = Arc::new(Meddling { clock: ManualClock::new(), meddle: Mutex::default() });
    let nodes = nodes(3);
    let redlock = Redlock::builder().nodes(&nodes).ttl(2 * LIMIT).node_timeout(LIMIT / 2);
    let redlock = redlock.clock(Arc::clone(&clock) as _).build().unwrap();
    let mut body = BodyGuard::new(redlock.lock("r").await.unwrap());
    let handle = body.handle();
    let mut polls = 0;
    let mut poll = || {
        let polled = body.poll_body(&mut Context::from_waker(Waker::noop()), |_| {
            polls += 1;
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        polls
    };
    assert_eq!(poll(), 1);

    nodes.iter().for_each(MemoryNode::hang);
    clock.clock.wall_ahead.store(5_000_000_000, SeqCst);
    assert!(!handle.is_valid(), "in doubt");
    // The first reading is that of the judgement, and the second one that of its listener.
    let clears = Box::new(move || {
        nodes.iter().for_each(MemoryNode::resume);
        let begun = Instant::now();
        while !handle.is_valid() {
            assert!(begun.elapsed() < LIMIT, "in doubt");
            thread::sleep(Duration::from_millis(1));
        }
    });
    *clock.meddle.lock() = Some((thread::current().id(), 2, clears));
    assert_eq!(poll(), 2);
    assert!(clock.meddle.lock().is_none());
}
