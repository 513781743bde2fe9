//! The smallest lead of the wall clock since each round (rule 2).
//!
//! A lead that grows shows that the clock of the leases has missed some time. A wall clock that is
//! set back would hide that: 20 s back and a freeze of 15 s look like 5 s back. So a lease is
//! judged against the smallest lead since its round, not against the lead at its round.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    clock::{Moment, Reading},
    sync::Mutex,
};

/// The wall clock and the other clock are not read at the same moment, so leads differ by a little
/// from reading to reading. A lead is recorded as smaller by this much, and a reading that is not
/// smaller than that changes nothing. The judgement of a lease may be wrong by two grains, which is
/// little beside the 2 ms that its deadline leaves for imprecision.
const GRAIN: i64 = 50_000;

/// How many steps are kept. There is one for each time that the wall clock was set ahead within the
/// life of a lease.
const MAX_STEPS: usize = 256;

/// The start of a round, on a client that looks back on its later readings.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) reading: Reading,
    /// How many changes there were before it.
    mark: u64,
    leads: Arc<Leads>,
}

impl Start {
    /// The smallest lead of the wall clock since this start.
    pub(crate) fn lowest_lead(&self) -> i64 {
        let own = self.reading.wall_ahead;
        if self.leads.last_low.load(Ordering::Acquire) <= self.mark {
            return own;
        }
        self.leads.lowest_since(self.mark).map_or(own, |lowest| lowest.min(own))
    }
}

/// The leads of one client, for as long as a lease may have to be judged by them.
///
/// A stack whose leads grow towards the end: a reading that is lower than the last ones replaces
/// them, and each lease finds the lowest since its round as the first step that it has seen.
#[derive(Debug)]
pub(crate) struct Leads {
    /// The lead of the last step: no reading since the last round was lower.
    lowest: AtomicI64,
    /// How often the stack has changed.
    changes: AtomicU64,
    /// The number of the last change by a reading that was lower than all since the last round.
    last_low: AtomicU64,
    steps: Mutex<VecDeque<Step>>,
    /// How long a lease lives at most: older steps concern no lease any more.
    horizon: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    lead: i64,
    /// Rounds with a later mark have not seen this step. `None` for the last step.
    until: Option<(u64, Moment)>,
}

impl Leads {
    pub(crate) fn new(horizon: Duration) -> Arc<Self> {
        Arc::new(Self {
            lowest: AtomicI64::new(i64::MAX),
            changes: AtomicU64::new(0),
            last_low: AtomicU64::new(0),
            steps: Mutex::default(),
            horizon,
        })
    }

    /// Begins a round that started at `reading`.
    pub(crate) fn begin(self: &Arc<Self>, reading: Reading) -> Start {
        // Read first: a reading that is recorded meanwhile counts as later than this round.
        let mark = self.changes.load(Ordering::Acquire);
        let lead = reading.wall_ahead;
        let lowest = self.lowest.load(Ordering::Acquire);
        let is_on_last = (lowest..lowest.saturating_add(2 * GRAIN)).contains(&lead);
        let mark = if is_on_last { mark } else { self.step_to(reading) };
        Start { reading, mark, leads: Arc::clone(self) }
    }

    /// Takes note of a reading: at least every 100 ms as long as anything is held, and wherever a
    /// lease is judged. Costs next to nothing when it is not lower than those before.
    pub(crate) fn note(&self, reading: Reading) {
        if reading.wall_ahead < self.lowest.load(Ordering::Acquire) {
            let mut steps = self.steps.lock();
            self.lower(&mut steps, reading);
        }
    }

    /// A round starts at a lead that the last step does not stand for. Readings that are lower than
    /// this lead must be recorded, even if they are not lower than the earlier steps.
    fn step_to(&self, reading: Reading) -> u64 {
        let mut steps = self.steps.lock();
        self.lower(&mut steps, reading);
        let mark = self.changes.load(Ordering::Acquire);
        let lead = reading.wall_ahead.saturating_sub(GRAIN);
        if steps.back().is_none_or(|last| lead > last.lead) {
            self.push(&mut steps, lead, mark, reading.now);
        }
        self.changes.load(Ordering::Acquire)
    }

    fn lower(&self, steps: &mut VecDeque<Step>, reading: Reading) {
        if steps.back().is_some_and(|last| last.lead <= reading.wall_ahead) {
            return;
        }
        let lead = reading.wall_ahead.saturating_sub(GRAIN);
        while steps.back().is_some_and(|last| last.lead >= lead) {
            steps.pop_back();
        }
        let mark = self.changes.load(Ordering::Acquire);
        self.push(steps, lead, mark, reading.now);
        self.last_low.store(mark + 1, Ordering::Release);
    }

    /// Adds a step for the rounds that have not seen the previous step. The last step has been seen
    /// by all rounds up to `mark`.
    fn push(&self, steps: &mut VecDeque<Step>, lead: i64, mark: u64, now: Moment) {
        if let Some(last) = steps.back_mut() {
            last.until.get_or_insert((mark, now));
        }
        let is_over = |step: &Step| step.until.is_some_and(|(_, at)| now.since(at) > self.horizon);
        while steps.front().is_some_and(is_over) {
            steps.pop_front();
        }
        if steps.len() >= MAX_STEPS
            && let Some(first) = steps.pop_front()
            && let Some(second) = steps.front_mut()
        {
            // This is too low for some of the oldest leases. They are doubted earlier, never later.
            second.lead = first.lead;
        }
        steps.push_back(Step { lead, until: None });
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.lowest.store(lead, Ordering::Release);
    }

    fn lowest_since(&self, mark: u64) -> Option<i64> {
        let steps = self.steps.lock();
        let has_seen = |step: &Step| step.until.is_none_or(|(until, _)| mark <= until);
        let first = steps.partition_point(|step| !has_seen(step));
        steps.get(first).map(|step| step.lead)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const SECOND: i64 = 1_000_000_000;

    fn reading(ms: u64, wall_ahead: i64) -> Reading {
        Reading { now: Moment::ORIGIN + Duration::from_millis(ms), wall_ahead }
    }

    #[test]
    fn a_clock_that_is_not_set_back_is_judged_by_the_round_alone() {
        let leads = Leads::new(HOUR);
        let start = leads.begin(reading(0, 5));
        for ms in 1..1000 {
            leads.note(reading(ms, 5 + i64::try_from(ms).unwrap() * SECOND));
        }
        assert_eq!(start.lowest_lead(), 5);
        assert_eq!(leads.steps.lock().len(), 1);
    }

    #[test]
    fn a_clock_that_is_set_back_is_judged_by_where_it_was_set_to() {
        let leads = Leads::new(HOUR);
        let before = leads.begin(reading(0, 0));
        leads.note(reading(100, -20 * SECOND));
        leads.note(reading(200, -5 * SECOND));
        assert!((-20 * SECOND - GRAIN..=-20 * SECOND).contains(&before.lowest_lead()));
        let after = leads.begin(reading(200, -5 * SECOND));
        assert_eq!(after.lowest_lead(), -5 * SECOND, "of no concern to a round that is later");
    }

    /// Both readings are of the same moment: only their order says which came first.
    #[test]
    fn a_round_after_a_step_ahead_is_not_judged_by_what_came_before() {
        let leads = Leads::new(HOUR);
        let early = leads.begin(reading(0, 0));
        leads.note(reading(0, 0));
        let late = leads.begin(reading(0, 5 * SECOND));
        leads.note(reading(0, 4 * SECOND));
        assert!((-GRAIN..=0).contains(&early.lowest_lead()));
        assert!((4 * SECOND - GRAIN..=4 * SECOND).contains(&late.lowest_lead()));
    }

    #[test]
    fn readings_that_differ_by_a_little_are_recorded_once() {
        let leads = Leads::new(HOUR);
        for ms in 0..10_000 {
            let jitter = i64::try_from(ms * 7919 % 97).unwrap() * 100;
            let start = leads.begin(reading(ms, jitter));
            leads.note(reading(ms, jitter / 2));
            assert!(jitter - start.lowest_lead() <= 2 * GRAIN);
        }
        assert!(leads.changes.load(Ordering::Relaxed) < 5, "{leads:?}");
    }

    #[test]
    fn steps_that_concern_no_lease_are_forgotten() {
        let leads = Leads::new(Duration::from_secs(1));
        for ms in 0..10_000 {
            leads.begin(reading(ms * 100, i64::try_from(ms).unwrap() * SECOND));
        }
        assert!(leads.steps.lock().len() <= 12, "{}", leads.steps.lock().len());
    }

    proptest! {
        /// Whatever the wall clock does, a round is judged by the smallest lead since its start,
        /// give or take two grains.
        #[test]
        fn the_lowest_lead_is_that_of_all_readings_since(
            leads in prop::collection::vec((any::<bool>(), -50_i64..50), 1..200),
            unit in prop::sample::select(vec![1, GRAIN / 3, GRAIN, SECOND]),
        ) {
            let client = Leads::new(HOUR);
            let mut rounds: Vec<(Start, i64)> = Vec::new();
            for (ms, (begins, lead)) in leads.into_iter().enumerate() {
                let reading = reading(ms.try_into().unwrap(), lead * unit);
                client.note(reading);
                for (_, lowest) in &mut rounds {
                    *lowest = reading.wall_ahead.min(*lowest);
                }
                if begins {
                    rounds.push((client.begin(reading), reading.wall_ahead));
                }
                for (start, lowest) in &rounds {
                    let told = start.lowest_lead();
                    prop_assert!((*lowest - told).abs() <= 2 * GRAIN, "{told} {lowest}");
                }
            }
        }

        /// The lead is never too large, even when there are more steps than are kept.
        #[test]
        fn a_stack_that_is_full_errs_on_the_side_of_doubt(
            steps in prop::collection::vec(0_i64..3, 600..1000),
        ) {
            let client = Leads::new(HOUR);
            let mut rounds: Vec<(Start, i64)> = Vec::new();
            let mut lead = 0;
            for (ms, step) in steps.into_iter().enumerate() {
                lead += if ms % 300 == 299 { -200 * SECOND } else { step * SECOND };
                let reading = reading(ms.try_into().unwrap(), lead);
                client.note(reading);
                rounds.push((client.begin(reading), lead));
                for (start, lowest) in &mut rounds {
                    *lowest = lead.min(*lowest);
                    prop_assert!(start.lowest_lead() <= *lowest + 2 * GRAIN);
                }
            }
            prop_assert!(client.steps.lock().len() <= MAX_STEPS);
        }
    }
}
