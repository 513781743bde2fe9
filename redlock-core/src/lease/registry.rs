//! Everything a client holds, and the one task that renews it: no task and no timer a hold.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{runtime::Id, sync::Notify};

use super::{Hold, Leads, Start};
use crate::{
    background::Background,
    clock::{Clock, Moment, Reading, sleep_until},
    quorum::Round,
};

/// How often the task looks at the clock at least, as long as anything is held: timers stand still
/// while a machine sleeps or is frozen, and waiters are to be told soon after (rule 9). A wall clock
/// that is set back hides a freeze, unless it is looked at in between (rule 2).
const LOOK: Duration = Duration::from_millis(100);

/// The wall clock has jumped when it has run ahead by this much between two looks: no lock's
/// allowance is less.
const JUMP: i64 = 2_000_000;

/// How many renewals may be under way at once: enough for one pipeline to each node to be worth
/// it, and few enough that a node answers all of them well within `node_timeout`.
const MOST_AT_ONCE: usize = 512;

/// Tells the holds of one client apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HoldId(u64);

#[derive(Debug)]
pub(crate) struct Registry {
    shared: Arc<Shared>,
    task: Background,
    ids: AtomicU64,
}

#[derive(Debug)]
struct Shared {
    leads: Arc<Leads>,
    inner: Mutex<Inner>,
    /// Something is due earlier than the task sleeps.
    sooner: Notify,
    /// A hold has gone, or was lost.
    gone: Notify,
    orphaned: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    /// Weak: a hold keeps its client alive, not the other way round.
    holds: HashMap<HoldId, (Weak<Hold>, Option<Moment>)>,
    due: BTreeSet<(Moment, HoldId)>,
    /// Until when the task sleeps.
    asleep: Option<Moment>,
    /// No hold may be added any more.
    closed: bool,
}

impl Inner {
    fn set_due(&mut self, id: HoldId, at: Option<Moment>) -> bool {
        let Some((_, due)) = self.holds.get_mut(&id) else { return false };
        if let Some(old) = std::mem::replace(due, at) {
            self.due.remove(&(old, id));
        }
        let Some(at) = at else { return false };
        self.due.insert((at, id));
        self.asleep.is_some_and(|until| at < until)
    }

    /// The same, if it is not due sooner.
    fn set_due_by(&mut self, id: HoldId, at: Moment) -> bool {
        let due = self.holds.get(&id).and_then(|(_, due)| *due);
        due.is_none_or(|due| at < due) && self.set_due(id, Some(at))
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.shared.orphaned.store(true, Ordering::Release);
        self.shared.sooner.notify_one();
    }
}

impl Registry {
    /// For leases that live for `horizon` at most.
    pub(crate) fn new(horizon: Duration) -> Self {
        let shared = Shared {
            leads: Leads::new(horizon),
            inner: Mutex::default(),
            sooner: Notify::new(),
            gone: Notify::new(),
            orphaned: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), task: Background::default(), ids: AtomicU64::new(0) }
    }

    /// Reads the clock to start a round.
    pub(crate) fn start(&self, clock: &dyn Clock) -> Start {
        self.shared.leads.begin(clock.read())
    }

    /// Reads the clock to judge by it, and takes note of what it shows (rule 2).
    pub(crate) fn look(&self, clock: &dyn Clock) -> Reading {
        self.shared.look(clock)
    }

    pub(crate) fn fresh_id(&self) -> HoldId {
        HoldId(self.ids.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes sure that holds are renewed. What `ended` makes runs when nobody does so any more.
    pub(crate) fn ensure_running<E>(&self, clock: &Arc<dyn Clock>, ended: impl FnOnce() -> E)
    where
        E: FnOnce() + Send + 'static,
    {
        if self.task.is_running() {
            return;
        }
        let task = || tend(Arc::clone(&self.shared), Arc::clone(clock));
        self.task.ensure(task, {
            let shared = Arc::clone(&self.shared);
            let ended = ended();
            move || {
                ended();
                // Whoever waits for a hold on a living runtime starts the task again there.
                shared.all().iter().for_each(|hold| hold.nudge());
            }
        });
    }

    /// Adds a hold, unless the client is closed.
    pub(crate) fn add(&self, hold: &Arc<Hold>) -> bool {
        let wake = {
            let mut inner = self.shared.inner.lock();
            if inner.closed {
                return false;
            }
            inner.holds.insert(hold.id, (Arc::downgrade(hold), None));
            inner.set_due(hold.id, Some(hold.first_due()))
        };
        if wake {
            self.shared.sooner.notify_one();
        }
        true
    }

    /// The caller's runtime, if holds are renewed on another one.
    pub(crate) fn elsewhere(&self) -> Option<Id> {
        self.task.elsewhere()
    }

    /// Tells who waits for holds to go that one was lost, whose guard may be there for long.
    pub(crate) fn tell_loss(&self) {
        self.shared.gone.notify_waiters();
    }

    /// Forgets a hold whose keys are being let go of.
    pub(crate) fn remove(&self, id: HoldId) {
        {
            let mut inner = self.shared.inner.lock();
            inner.set_due(id, None);
            inner.holds.remove(&id);
        }
        self.shared.gone.notify_waiters();
    }

    /// Has the task look at a hold at `at`, if it does not do so sooner.
    pub(crate) fn schedule(&self, id: HoldId, at: Moment) {
        if self.shared.inner.lock().set_due_by(id, at) {
            self.shared.sooner.notify_one();
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Hold>> {
        self.shared.all()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let inner = self.shared.inner.lock();
        inner.holds.is_empty() && inner.due.is_empty()
    }

    /// Lets no hold in any more.
    pub(crate) fn close(&self) {
        self.shared.inner.lock().closed = true;
    }

    /// Waits until `done` says so of the holds that are left.
    pub(crate) async fn until(&self, done: impl Fn(&[Arc<Hold>]) -> bool) {
        loop {
            let mut gone = std::pin::pin!(self.shared.gone.notified());
            gone.as_mut().enable();
            if done(&self.all()) {
                return;
            }
            gone.await;
        }
    }
}

impl Shared {
    fn look(&self, clock: &dyn Clock) -> Reading {
        let reading = clock.read();
        self.leads.note(reading);
        reading
    }

    fn all(&self) -> Vec<Arc<Hold>> {
        let inner = self.inner.lock();
        let mut holds: Vec<_> =
            inner.holds.values().filter_map(|(hold, _)| hold.upgrade()).collect();
        drop(inner);
        holds.sort_by_key(|hold| hold.id);
        holds
    }

    /// Those whose time has come, [`MOST_AT_ONCE`] at most: the others stay due.
    fn take_due(&self, now: Moment) -> Vec<Arc<Hold>> {
        let mut inner = self.inner.lock();
        inner.asleep = None;
        let mut due = Vec::new();
        while let Some((at, id)) = inner.due.first().copied()
            && at <= now
            && due.len() < MOST_AT_ONCE
        {
            inner.set_due(id, None);
            due.extend(inner.holds.get(&id).and_then(|(hold, _)| hold.upgrade()));
        }
        due
    }
}

/// Waits until renewals have their answers, so that nodes that are asked for very many at once do
/// not run late with all of them; for no longer than a node may take.
async fn answered(renewals: &[Arc<Round>], holds: &[Arc<Hold>]) {
    let Some(hold) = holds.first() else { return };
    let limit = hold.client.settings.node_timeout;
    let settled = async {
        for renewal in renewals {
            renewal.settled(&hold.client.nodes, hold.client.patience()).await;
        }
    };
    let _ = tokio::time::timeout(limit, settled).await;
}

/// Looks at each hold when it is due, and at all of them when the wall clock has jumped.
async fn tend(shared: Arc<Shared>, clock: Arc<dyn Clock>) {
    let mut seen = clock.read();
    while !shared.orphaned.load(Ordering::Acquire) {
        let reading = shared.look(&*clock);
        let mut due = shared.take_due(reading.now);
        if reading.wall_ahead.saturating_sub(seen.wall_ahead) > JUMP {
            due = shared.all();
        }
        seen = reading;
        let mut renewals = Vec::new();
        for hold in &due {
            let (next, renewal) = hold.tend();
            if let Some(next) = next {
                // Whoever judged it meanwhile may want it looked at sooner.
                shared.inner.lock().set_due_by(hold.id, next);
            }
            renewals.extend(renewal);
        }
        if renewals.len() >= MOST_AT_ONCE {
            answered(&renewals, &due).await;
        }
        // A hold keeps its client, and so this very task, alive.
        drop((due, renewals));
        let until = {
            let mut inner = shared.inner.lock();
            let due = inner.due.first().map(|(at, _)| (*at).min(clock.now() + LOOK));
            let until = due.unwrap_or(Moment::NEVER);
            inner.asleep = Some(until);
            until
        };
        tokio::select! {
            biased;
            () = shared.sooner.notified() => {}
            () = sleep_until(&*clock, until), if until != Moment::NEVER => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        runtime::{self, Runtime},
        time::sleep,
    };

    use super::*;
    use crate::clock::TokioClock;

    fn runtime() -> Runtime {
        runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    /// Whoever notices first that a runtime has ended starts the task again elsewhere, before the
    /// old one is quite through.
    #[test]
    fn a_task_that_ends_forgets_nothing_that_the_next_one_has_noted() {
        const SOON: Duration = Duration::from_millis(1);
        let clock: Arc<dyn Clock> = Arc::new(TokioClock);
        let registry: &'static Registry = Box::leak(Box::new(Registry::new(SOON)));
        let is_asleep = || registry.shared.inner.lock().asleep.is_some();
        let (first, second) = (runtime(), runtime());
        let (there, again) = (second.handle().clone(), Arc::clone(&clock));
        let ended = move || {
            let _in = there.enter();
            registry.shared.inner.lock().asleep = None;
            registry.ensure_running(&again, || || ());
            while !is_asleep() {
                std::thread::sleep(SOON);
            }
        };
        first.block_on(async {
            registry.ensure_running(&clock, || ended);
            while !is_asleep() {
                sleep(SOON).await;
            }
        });
        drop(first);
        assert!(is_asleep());
    }
}
