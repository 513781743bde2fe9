//! The clock of a node in memory, which need not be right.

use tokio::time::Instant;

use crate::clock::wall_at;

/// The node's own clock, in seconds.
pub(super) struct ServerClock {
    anchor: Option<Instant>,
    shown: f64,
    rate: f64,
    /// How far it was set ahead.
    ahead: f64,
}

impl ServerClock {
    pub(super) fn new() -> Self {
        Self { anchor: None, shown: 0.0, rate: 1.0, ahead: 0.0 }
    }

    /// The answer to `TIME`, in microseconds. A clock that runs fast or slow is set right from time
    /// to time. A clock that was set ahead stays ahead.
    pub(super) fn time(&self) -> u64 {
        ((wall_at(Instant::now()).as_secs_f64() + self.ahead) * 1e6) as u64
    }

    pub(super) fn now(&mut self) -> f64 {
        let now = Instant::now();
        let anchor = *self.anchor.get_or_insert(now);
        self.shown + now.duration_since(anchor).as_secs_f64() * self.rate
    }

    /// Sets it this many seconds ahead.
    pub(super) fn set_ahead(&mut self, by: f64) {
        self.set(by, self.rate);
        self.ahead += by;
    }

    /// Lets it run at this rate from now on. A rate that is negative or no number counts as zero.
    pub(super) fn set_rate(&mut self, rate: f64) {
        self.set(0.0, if rate > 0.0 { rate } else { 0.0 });
    }

    fn set(&mut self, ahead: f64, rate: f64) {
        self.shown = self.now() + ahead;
        self.anchor = Some(Instant::now());
        self.rate = rate;
    }
}
