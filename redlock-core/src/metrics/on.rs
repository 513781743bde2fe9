//! Counting through the facade, whatever recorder the application has installed. Every change of a gauge goes through
//! the handle of its first change. So a recorder that comes later never sees only half of a change. The gauges of a node
//! are set anew each time, and need no such handle.

mod failures;
mod node;

use std::{cell::RefCell, collections::BTreeSet, sync::Arc, time::Duration};

use ::metrics::{
    Gauge, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use self::{
    failures::{NODE_FAILURES, NODE_ODD_EXPIRIES},
    node::{NODE_CLEANUPS, NODE_SITS_OUT, NODE_UP},
};
pub(crate) use self::{
    failures::{node_failure, node_odd_expiry},
    node::NodeGauges,
};
use crate::{
    clock::{Clock, Moment},
    error::LostReason,
};

const ACQUIRES: &str = "redlock_acquires_total";
const ACQUIRE_DURATION: &str = "redlock_acquire_duration_seconds";
const WAIT: &str = "redlock_wait_duration_seconds";
const HOLD: &str = "redlock_hold_duration_seconds";
const RENEWALS: &str = "redlock_renewals_total";
const LOSSES: &str = "redlock_losses_total";
const HELD: &str = "redlock_held";
const GIVEN: &str = "redlock_leases_given_total";
const WAITING: &str = "redlock_waiting";
const WAKEUPS: &str = "redlock_wakeups_total";
const QUEUE_PLACES: &str = "redlock_queue_places";
const QUEUE_AHEAD: &str = "redlock_queue_ahead";
const NODE_ROUND_TRIP: &str = "redlock_node_round_trip_seconds";

/// Tells the recorder what each name means.
pub(crate) fn describe() {
    let seconds = Unit::Seconds;
    describe_counter!(ACQUIRES, "Requests for a lock, by outcome");
    describe_histogram!(ACQUIRE_DURATION, seconds, "From a request to its answer, by outcome");
    describe_histogram!(WAIT, seconds, "From a request to the attempt that got the lock");
    describe_histogram!(HOLD, seconds, "From getting a lock to its release or loss");
    describe_counter!(RENEWALS, "Renewals of held locks, by outcome");
    describe_counter!(LOSSES, "Locks that were lost, by reason");
    describe_gauge!(HELD, "Locks held now, by how they are held");
    describe_counter!(GIVEN, "Locks that were given away to be adopted by another client");
    describe_gauge!(WAITING, "Requests that wait for a lock now");
    describe_counter!(WAKEUPS, "Reasons why waiting requests asked again");
    describe_gauge!(QUEUE_PLACES, "Places in the queues between processes now");
    describe_histogram!(QUEUE_AHEAD, "Clients ahead when a queue between processes is joined");
    describe_gauge!(NODE_UP, "Whether the node is connected for all its clients");
    describe_gauge!(NODE_SITS_OUT, seconds, "Unix time until which the node gives no votes, or 0");
    describe_histogram!(NODE_ROUND_TRIP, seconds, "From sending commands to the node's answer");
    describe_counter!(NODE_FAILURES, "Commands that failed on the node, by kind");
    describe_counter!(
        NODE_ODD_EXPIRIES,
        "Own keys that the node had for less or more time than asked"
    );
    describe_gauge!(NODE_CLEANUPS, "Deletes that the node has not confirmed yet");
}

/// A request for a lock. A request that is dropped before it is done was cancelled.
pub(crate) struct Acquiring<'a> {
    clock: &'a dyn Clock,
    label: &'static str,
    since: Moment,
    outcome: &'static str,
}

pub(crate) fn acquiring<'a>(clock: &'a dyn Clock, label: &'static str) -> Acquiring<'a> {
    Acquiring { clock, label, since: clock.now(), outcome: "cancelled" }
}

impl Acquiring<'_> {
    pub(crate) fn done(mut self, outcome: &'static str) {
        self.outcome = outcome;
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        let Self { label, outcome, .. } = *self;
        let took = self.clock.now().since(self.since);
        counter!(ACQUIRES, "label" => label, "outcome" => outcome).increment(1);
        histogram!(ACQUIRE_DURATION, "label" => label, "outcome" => outcome).record(took);
    }
}

/// How long a request had waited before the attempt that got the lock.
pub(crate) fn waited(label: &'static str, waited: Duration) {
    histogram!(WAIT, "label" => label).record(waited);
}

/// Counts in a gauge for as long as it lives.
pub(crate) struct Counted(Gauge);

impl Counted {
    fn new(gauge: Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// A request waits: in the queue of this process, or between two attempts.
pub(crate) fn waiting(label: &'static str) -> Counted {
    Counted::new(gauge!(WAITING, "label" => label))
}

/// A place in a queue between processes.
pub(crate) fn queued() -> Counted {
    Counted::new(gauge!(QUEUE_PLACES))
}

/// Records how many clients were `ahead` when a queue between processes was joined.
pub(crate) fn queue_ahead(label: &'static str, ahead: u64) {
    histogram!(QUEUE_AHEAD, "label" => label).record(ahead as f64);
}

/// Counts that a waiting request asks again, for this cause.
pub(crate) fn woken(label: &'static str, cause: &'static str) {
    counter!(WAKEUPS, "label" => label, "cause" => cause).increment(1);
}

/// The metrics of one hold.
#[derive(Debug)]
pub(crate) struct Held {
    /// Also for spans.
    pub(crate) label: &'static str,
    since: Moment,
    gauge: Gauge,
}

impl Held {
    pub(crate) fn new(
        label: &'static str,
        since: Moment,
        mode: impl FnOnce() -> &'static str,
    ) -> Self {
        Self { label, since, gauge: gauge!(HELD, "label" => label, "mode" => mode()) }
    }

    /// Counts that the holder gets the lock.
    pub(crate) fn begin(&self) {
        self.gauge.increment(1.0);
        show_losses(self.label);
    }

    /// Counts that the hold has ended, by a release or a loss. Called once.
    pub(crate) fn end(&self, clock: &dyn Clock) {
        self.gauge.decrement(1.0);
        histogram!(HOLD, "label" => self.label).record(clock.now().since(self.since));
    }

    pub(crate) fn lost(&self, reason: LostReason) {
        count_loss(self.label, reason, 1);
    }

    /// The holder gives the lock to another client.
    pub(crate) fn given(&self) {
        counter!(GIVEN, "label" => self.label).increment(1);
    }

    pub(crate) fn renewal(&self, outcome: &'static str) {
        counter!(RENEWALS, "label" => self.label, "outcome" => outcome).increment(1);
    }
}

/// Shows the losses of this label as none, before there is one: an alert on a counter that grows does not see its first
/// value.
fn show_losses(label: &'static str) {
    thread_local! {
        /// The labels that this thread has shown. Each lock would look its counters up once more.
        static SHOWN: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
    }
    // A thread that ends may drop its guards behind this.
    let is_new = SHOWN.try_with(|shown| shown.borrow_mut().insert(label));
    if is_new == Ok(true) {
        use LostReason::{Expired, MaxHold, Refused, Shutdown};
        for reason in [Expired, Refused, MaxHold, Shutdown] {
            count_loss(label, reason, 0);
        }
    }
}

fn count_loss(label: &'static str, reason: LostReason, count: u64) {
    let reason = match reason {
        LostReason::Expired => "expired",
        LostReason::Refused => "refused",
        LostReason::MaxHold => "max_hold",
        LostReason::Shutdown => "shutdown",
    };
    counter!(LOSSES, "label" => label, "reason" => reason).increment(count);
}

pub(crate) fn node_round_trip(node: &Arc<str>, took: Duration) {
    histogram!(NODE_ROUND_TRIP, "node" => Arc::clone(node)).record(took);
}
