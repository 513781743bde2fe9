//! The wall clock of a schedule that is to be replayed: it shows the same time in each run.

use std::{cell::Cell, time::Duration};

use tokio::time::Instant;

/// What it shows at the beginning, since the Unix epoch.
const BEGIN: Duration = Duration::from_secs(1_600_000_000);

thread_local! {
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The schedule of this thread begins now.
pub(crate) fn begins() {
    BEGUN.set(Some(Instant::now()));
}

pub(super) fn begin() -> Option<(Instant, Duration)> {
    BEGUN.get().map(|begun| (begun, BEGIN))
}
