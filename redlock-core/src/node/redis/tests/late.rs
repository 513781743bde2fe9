//! Rounds that a busy machine may be too slow for: a server forgets some things after a second.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, resume_unwind},
    time::{Duration, Instant},
};

use futures_util::FutureExt;

/// Half of the second for which a server remembers a turn, or that a client has asked.
const SOON: Duration = Duration::from_millis(500);

const TRIES: usize = 100;

/// A part of a round that has to be over before a server forgets what the part began with.
pub(super) struct Stretch {
    begun: Cell<Instant>,
    was_late: Cell<bool>,
}

impl Stretch {
    /// The next part begins here. The time that was spent before it does not count.
    pub(super) fn begins(&self) {
        self.begun.set(Instant::now());
    }

    /// The part that has begun is over.
    pub(super) fn ends(&self) {
        self.was_late.set(self.was_late.get() || self.begun.get().elapsed() > SOON);
    }
}

/// Runs a round, and runs it anew when it fails after a part of it took too long to say anything.
pub(super) async fn again_if_late(round: impl AsyncFn(&Stretch)) {
    for number in 1.. {
        let stretch = Stretch { begun: Cell::new(Instant::now()), was_late: Cell::new(false) };
        let Err(panic) = AssertUnwindSafe(round(&stretch)).catch_unwind().await else { return };
        stretch.ends();
        if !stretch.was_late.get() || number == TRIES {
            resume_unwind(panic);
        }
    }
}

#[tokio::test]
async fn a_round_that_fails_is_run_anew_if_it_was_late_and_not_otherwise() {
    let rounds = Cell::new(0);
    again_if_late(async |stretch| {
        rounds.set(rounds.get() + 1);
        stretch.begins();
        if rounds.get() == 1 {
            std::thread::sleep(2 * SOON);
            panic!("late");
        }
    })
    .await;
    assert_eq!(rounds.get(), 2);
    let fails = again_if_late(async |stretch| {
        rounds.set(rounds.get() + 1);
        std::thread::sleep(2 * SOON);
        stretch.begins();
        panic!("what came before the part does not count");
    });
    assert!(AssertUnwindSafe(fails).catch_unwind().await.is_err());
    assert_eq!(rounds.get(), 3);
}
