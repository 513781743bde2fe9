//! Everything that happened, as a hash and, for a reader, as a timeline.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::{sync::Notify, time::Instant};

use super::report::{Oddity, Report, Stats};

/// The log of one schedule.
#[derive(Debug)]
pub(super) struct Log {
    origin: Instant,
    told: bool,
    inner: Mutex<Inner>,
    /// Time stands still, and more and more happens.
    stuck: Notify,
}

/// How much can happen in one millisecond: far less than this.
const MOST_AT_ONCE: u64 = 500_000;

#[derive(Debug)]
struct Inner {
    hash: u64,
    violations: Vec<String>,
    delays: Vec<String>,
    timeline: Vec<String>,
    stats: Stats,
    closed: bool,
    /// The time of what was noted last, and how much was noted then.
    at_once: (u64, u64),
}

impl Log {
    pub(super) fn new(told: bool) -> Self {
        let inner = Inner {
            // Where FNV-1a begins.
            hash: 0xCBF2_9CE4_8422_2325,
            violations: Vec::new(),
            delays: Vec::new(),
            timeline: Vec::new(),
            stats: Stats { schedules: 1, ..Stats::default() },
            closed: false,
            at_once: (0, 0),
        };
        Self { origin: Instant::now(), told, inner: Mutex::new(inner), stuck: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The true time, in milliseconds.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap()
    }

    /// Notes that something happened. `data` goes into the hash, `text` is for a reader.
    pub(super) fn note<const N: usize>(
        &self,
        data: [u64; N],
        who: impl FnOnce() -> String,
        text: impl FnOnce() -> String,
    ) {
        let now = self.now();
        let mut inner = self.lock();
        if inner.closed {
            return;
        }
        inner.at_once = (now, if inner.at_once.0 == now { inner.at_once.1 + 1 } else { 0 });
        if inner.at_once.1 == MOST_AT_ONCE {
            self.stuck.notify_one();
        }
        for word in data.into_iter().chain([now]) {
            inner.hash = (inner.hash ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
        }
        if self.told {
            let line = line(now, &who(), &text());
            inner.timeline.push(line);
        }
    }

    /// Resolves when more happens at one moment than can happen.
    pub(super) async fn stuck(&self) {
        self.stuck.notified().await;
    }

    /// A promise was not kept.
    pub(super) fn violation(&self, what: impl Into<String>) {
        let now = self.now();
        let what = what.into();
        let mut inner = self.lock();
        if self.told {
            inner.timeline.push(line(now, "!!", &format!("VIOLATION: {what}")));
        }
        inner.violations.push(format!("{}: {what}", seconds(now)));
    }

    /// A client was served late, or before a client that had come earlier. That concerns order and time,
    /// and not what a lock protects.
    pub(super) fn delay(&self, what: impl Into<String>) {
        let now = self.now();
        let what = what.into();
        let mut inner = self.lock();
        if self.told {
            inner.timeline.push(line(now, "!!", &format!("DELAY: {what}")));
        }
        inner.delays.push(format!("{}: {what}", seconds(now)));
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Stats)) {
        count(&mut self.lock().stats);
    }

    pub(super) fn odd(&self, oddity: Oddity) {
        self.count(|stats| stats.oddities[oddity as usize] += 1);
    }

    pub(super) fn report(&self) -> Report {
        let mut inner = self.lock();
        Report {
            hash: inner.hash,
            violations: std::mem::take(&mut inner.violations),
            delays: std::mem::take(&mut inner.delays),
            timeline: std::mem::take(&mut inner.timeline),
            stats: inner.stats.clone(),
        }
    }

    /// The schedule is over. What is dropped from now on is no part of it.
    pub(super) fn close(&self) {
        let now = self.now();
        let mut inner = self.lock();
        (inner.stats.time, inner.closed) = (now, true);
    }
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

fn line(now: u64, who: &str, text: &str) -> String {
    format!("{:>10} s  {who:<8} {text}", seconds(now))
}
