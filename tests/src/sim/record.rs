//! What happened in a schedule, and what must not have.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use tokio::time::Instant;

/// The time over which one hold was relied on, as seen from outside of all clocks.
#[derive(Debug, Clone, Copy)]
struct Belief {
    client: usize,
    from: Instant,
    last: Instant,
}

/// Names a hold of a [`Record`].
#[derive(Debug, Clone, Copy)]
pub(super) struct HoldId(usize);

/// Lines with their moments. Nodes write to it from inside the core, where values have to be able
/// to change threads.
pub(super) type Timeline = Arc<Mutex<Vec<(Instant, String)>>>;

#[derive(Debug)]
pub(super) struct Record {
    origin: Cell<Option<Instant>>,
    holds: RefCell<Vec<(String, Belief)>>,
    violations: RefCell<Vec<String>>,
    faults: RefCell<BTreeMap<&'static str, u64>>,
    operations: Cell<u64>,
    timeline: Option<Timeline>,
    /// Of everything that happened: two runs of one seed have the same.
    hash: Cell<u64>,
}

/// What one schedule came to.
#[derive(Debug, Clone)]
pub struct Report {
    /// The seed that replays it.
    pub seed: u64,
    /// What must not have happened, if anything.
    pub violations: Vec<String>,
    /// What the clients did.
    pub operations: u64,
    /// How often they got a lock.
    pub holds: u64,
    /// What went wrong, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Two runs of one seed have the same.
    pub hash: u64,
    /// What happened when, if it was asked for.
    pub timeline: String,
}

impl Record {
    pub(super) fn new(verbose: bool) -> Self {
        Self {
            origin: Cell::new(None),
            holds: RefCell::default(),
            violations: RefCell::default(),
            faults: RefCell::default(),
            operations: Cell::new(0),
            timeline: verbose.then(Timeline::default),
            hash: Cell::new(0xcbf2_9ce4_8422_2325),
        }
    }

    /// Notes an event. The text is only made when somebody will read it.
    pub(super) fn note(&self, who: &str, what: impl FnOnce() -> String) {
        let now = Instant::now();
        let origin = self.origin.get().unwrap_or(now);
        self.origin.set(Some(origin));
        let at = now - origin;
        self.mix(at.as_nanos() as u64);
        who.bytes().for_each(|byte| self.mix(u64::from(byte)));
        if let Some(timeline) = &self.timeline {
            timeline.lock().unwrap().push((now, format!("{who:<8} {}", what())));
        }
    }

    pub(super) fn timeline(&self) -> Option<&Timeline> {
        self.timeline.as_ref()
    }

    fn mix(&self, value: u64) {
        self.hash.set((self.hash.get() ^ value).wrapping_mul(0x0100_0000_01b3));
    }

    pub(super) fn operation(&self) {
        self.operations.set(self.operations.get() + 1);
    }

    pub(super) fn fault(&self, kind: &'static str, what: impl FnOnce() -> String) {
        *self.faults.borrow_mut().entry(kind).or_insert(0) += 1;
        self.note("fault", || format!("{kind}: {}", what()));
    }

    pub(super) fn violation(&self, what: String) {
        self.note("BROKEN", || what.clone());
        self.violations.borrow_mut().push(what);
    }

    /// A client relies on a lock from now on.
    pub(super) fn begin(&self, client: usize, key: &str) -> HoldId {
        let now = Instant::now();
        let mut holds = self.holds.borrow_mut();
        holds.push((key.to_owned(), Belief { client, from: now, last: now }));
        HoldId(holds.len() - 1)
    }

    /// It still does.
    pub(super) fn confirm(&self, hold: HoldId) {
        self.holds.borrow_mut()[hold.0].1.last = Instant::now();
    }

    /// Nobody relied on a lock while somebody else did: each belief lies inside a hold, so that
    /// disjoint beliefs are what mutual exclusion means to the users.
    pub(super) fn check_overlaps(&self) {
        let mut holds = self.holds.borrow().clone();
        holds.sort_by(|(a, x), (b, y)| (a, x.from).cmp(&(b, y.from)));
        let mut latest: Option<(String, Belief)> = None;
        for (key, belief) in holds {
            match &latest {
                Some((same, before)) if *same == key && belief.from < before.last => {
                    let origin = self.origin.get().unwrap_or(before.from);
                    let ms = |at: Instant| (at - origin).as_secs_f64() * 1000.0;
                    self.violation(format!(
                        "{key} was held by client {} until {:.3} ms and by client {} from {:.3} ms",
                        before.client,
                        ms(before.last),
                        belief.client,
                        ms(belief.from),
                    ));
                }
                _ => {}
            }
            let ends_later = latest
                .as_ref()
                .is_none_or(|(same, before)| *same != key || before.last <= belief.last);
            if ends_later {
                latest = Some((key, belief));
            }
        }
    }

    pub(super) fn report(&self, seed: u64) -> Report {
        Report {
            seed,
            violations: self.violations.borrow().clone(),
            operations: self.operations.get(),
            holds: self.holds.borrow().len() as u64,
            faults: self.faults.borrow().clone(),
            hash: self.hash.get(),
            timeline: self.timeline.as_ref().map_or_else(String::new, |timeline| {
                let lines = timeline.lock().unwrap();
                let origin = self.origin.get();
                let ms =
                    |at: Instant| origin.map_or(0.0, |origin| (at - origin).as_secs_f64() * 1e3);
                lines.iter().map(|(at, line)| format!("{:>10.3} ms  {line}\n", ms(*at))).collect()
            }),
        }
    }
}
