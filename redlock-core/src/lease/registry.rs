//! All holds of a client: when each has to be looked at, and which of them wait for a renewal. A hold
//! that is taken out is not renewed again (rule 10).

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
    time::Duration,
};

use foldhash::HashMap;
use tokio::runtime::Id;

use super::hold::{Hold, HoldId};
use crate::{
    background::Background,
    clock::{Moment, Reading},
    sync::{
        Mutex, Notify,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

/// How often the task looks at the clock at least, as long as any lock is held. Timers stand still
/// while a machine sleeps or is frozen, and holders have to learn of a loss soon afterwards (rule
/// 9). A wall clock that is set back hides a freeze, unless it is read in between (rule 2).
pub(super) const CLOCK_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The most renewals in progress at once: enough to be worth a pipeline to each node, and few
/// enough that a node answers all of them well within `node_timeout`.
const MAX_RENEWALS: usize = 512;

/// How many holds are looked at before other tasks get to run.
const MAX_AT_ONCE: usize = 512;

#[derive(Debug)]
pub(crate) struct Registry {
    pub(super) shared: Arc<Shared>,
    pub(super) task: Background,
    ids: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) inner: Mutex<Inner>,
    /// The task has ended. Every runtime with holds may start it again.
    pub(super) ended: Notify,
    /// A hold has gone, or was lost.
    gone: Notify,
    pub(super) orphaned: AtomicBool,
    /// How many renewals are in flight.
    renewals: AtomicUsize,
    /// Holds wait for a renewal, so the task has to be told when one is over.
    crowded: AtomicBool,
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) holds: HashMap<HoldId, Entry>,
    due: BTreeSet<(Moment, HoldId)>,
    /// Holds that wait for room for their renewals. Holds that end first are renewed first.
    awaiting_room: BTreeSet<(Moment, HoldId)>,
    /// Until when the task sleeps.
    pub(super) asleep: Option<Moment>,
    /// A hold was added since the task last went to sleep.
    has_news: bool,
    /// Tells the task that something is due earlier than it sleeps. Each task has its own: a task
    /// that was taken over must not get a signal for the next task.
    pub(super) sooner: Arc<Notify>,
    /// The runtimes, apart from the task's own, on which a standby waits to take over.
    pub(super) standbys: Vec<Id>,
    /// No hold may be added any more.
    closed: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    /// Weak: a hold goes with its guard.
    hold: Weak<Hold>,
    /// When the task has to look at it.
    due: Option<Moment>,
    /// When it ends unless there is room for its renewal before. `None` if it waits for none.
    awaits_room: Option<Moment>,
}

impl Inner {
    fn set_due(&mut self, id: HoldId, at: Option<Moment>) -> bool {
        let Some(entry) = self.holds.get_mut(&id) else { return false };
        if let Some(old) = std::mem::replace(&mut entry.due, at) {
            self.due.remove(&(old, id));
        }
        let Some(at) = at else { return false };
        self.due.insert((at, id));
        self.asleep.is_some_and(|until| at < until)
    }

    /// Has the task look at a hold by `at`, if it is not due sooner.
    pub(super) fn set_due_by(&mut self, id: HoldId, at: Moment) -> bool {
        let due = self.holds.get(&id).and_then(|entry| entry.due);
        due.is_none_or(|due| at < due) && self.set_due(id, Some(at))
    }

    /// Queues a hold for a renewal, if it is not queued already.
    fn await_room(&mut self, id: HoldId, end: Moment) {
        let Some(entry) = self.holds.get_mut(&id) else { return };
        if entry.awaits_room.is_none() {
            entry.awaits_room = Some(end);
            self.awaiting_room.insert((end, id));
        }
    }

    fn remove(&mut self, id: HoldId) {
        let Some(entry) = self.holds.remove(&id) else { return };
        if let Some(due) = entry.due {
            self.due.remove(&(due, id));
        }
        if let Some(end) = entry.awaits_room {
            self.awaiting_room.remove(&(end, id));
        }
    }
}

/// A place among the renewals in progress. Dropping it frees the place for the next one.
#[derive(Debug)]
pub(crate) struct Room(Arc<Shared>);

impl Drop for Room {
    fn drop(&mut self) {
        self.0.renewals.fetch_sub(1, Ordering::SeqCst);
        if self.0.crowded.load(Ordering::SeqCst) {
            self.0.wake();
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.shared.orphaned.store(true, Ordering::Release);
        self.shared.wake();
        self.shared.ended.notify_waiters();
    }
}

impl Registry {
    pub(crate) fn new() -> Self {
        let shared = Shared {
            inner: Mutex::default(),
            ended: Notify::new(),
            gone: Notify::new(),
            orphaned: AtomicBool::new(false),
            renewals: AtomicUsize::new(0),
            crowded: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), task: Background::default(), ids: AtomicU64::new(0) }
    }

    pub(super) fn fresh_id(&self) -> HoldId {
        HoldId(self.ids.fetch_add(1, Ordering::Relaxed))
    }

    /// Adds a hold at this reading, unless the client is closed.
    pub(crate) fn add(&self, hold: &Arc<Hold>, reading: Reading) -> bool {
        let due = hold.due_at(reading);
        let (wake, is_awake) = {
            let mut inner = self.shared.inner.lock();
            if inner.closed {
                return false;
            }
            let entry = Entry { hold: Arc::downgrade(hold), due: None, awaits_room: None };
            inner.holds.insert(hold.id, entry);
            inner.has_news = true;
            (inner.set_due(hold.id, Some(due)), inner.asleep.is_none())
        };
        if wake || is_awake {
            self.task.expect(reading.now);
        }
        if wake {
            self.shared.wake();
        }
        true
    }

    /// The caller's runtime, if holds are renewed on another one.
    pub(crate) fn elsewhere(&self) -> Option<Id> {
        self.task.elsewhere()
    }

    /// Wakes the tasks that wait for holds to go: a hold was lost, and its guard may exist for
    /// long.
    pub(crate) fn tell_loss(&self) {
        self.shared.gone.notify_waiters();
    }

    /// Forgets a hold whose keys are being released.
    pub(crate) fn remove(&self, id: HoldId) {
        self.shared.inner.lock().remove(id);
        self.shared.gone.notify_waiters();
    }

    /// Has the task look at a hold by `at`, if it does not do so sooner.
    pub(crate) fn schedule(&self, id: HoldId, at: Moment) {
        let wake = self.shared.inner.lock().set_due_by(id, at);
        if wake {
            self.shared.wake();
        }
    }

    /// Room for a renewal, unless too many are in flight.
    pub(crate) fn room(&self) -> Option<Room> {
        let more = |renewals| (renewals < MAX_RENEWALS).then_some(renewals + 1);
        let renewals = &self.shared.renewals;
        let taken = renewals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        taken.ok().map(|_| Room(Arc::clone(&self.shared)))
    }

    /// Queues a hold for a renewal. Holds that end first are renewed first.
    pub(crate) fn await_room(&self, id: HoldId, end: Moment) {
        self.shared.inner.lock().await_room(id, end);
        // Room may have been made before the task could be told.
        self.shared.wake();
    }

    pub(crate) fn all(&self) -> Vec<Arc<Hold>> {
        self.shared.all()
    }

    pub(super) fn has_holds(&self) -> bool {
        !self.shared.inner.lock().holds.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let inner = self.shared.inner.lock();
        inner.holds.is_empty() && inner.due.is_empty() && inner.awaiting_room.is_empty()
    }

    /// Accepts no more holds.
    pub(crate) fn close(&self) {
        self.shared.inner.lock().closed = true;
    }

    /// Waits until `done` accepts each hold that is there. The holds are checked one after the
    /// other: not all of them are checked again each time a hold goes.
    pub(crate) async fn until(&self, done: impl Fn(&Hold) -> bool) {
        let mut has_waited = true;
        while has_waited {
            has_waited = false;
            for (id, hold) in self.shared.entries() {
                loop {
                    let mut gone = std::pin::pin!(self.shared.gone.notified());
                    gone.as_mut().enable();
                    let is_there = self.shared.inner.lock().holds.contains_key(&id);
                    if !is_there || hold.upgrade().is_none_or(|hold| done(&hold)) {
                        break;
                    }
                    has_waited = true;
                    gone.await;
                }
            }
        }
    }
}

impl Shared {
    /// Has the task look at what is due.
    fn wake(&self) {
        // Wakes with nothing locked: a waker may run any code of its executor.
        let sooner = Arc::clone(&self.inner.lock().sooner);
        sooner.notify_one();
    }

    /// All holds, the oldest first.
    fn entries(&self) -> Vec<(HoldId, Weak<Hold>)> {
        let entry = |(id, entry): (&HoldId, &Entry)| (*id, Weak::clone(&entry.hold));
        let mut holds: Vec<_> = self.inner.lock().holds.iter().map(entry).collect();
        holds.sort_unstable_by_key(|(id, _)| *id);
        holds
    }

    pub(super) fn all(&self) -> Vec<Arc<Hold>> {
        self.entries().into_iter().filter_map(|(_, hold)| hold.upgrade()).collect()
    }

    /// Queues every hold, because each may be in doubt. Whether it needs a renewal shows
    /// when there is room for one.
    pub(super) async fn doubt_all(&self, reading: Reading) {
        for (number, (id, hold)) in self.entries().into_iter().enumerate() {
            let Some(end) = hold.upgrade().map(|hold| hold.end_at(reading)) else { continue };
            self.inner.lock().await_room(id, end);
            if number % MAX_AT_ONCE == MAX_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Holds that are due, or for whose renewal there is room now, [`MAX_AT_ONCE`] at most. Empty for a task that was
    /// taken over.
    pub(super) fn take_due(&self, sooner: &Arc<Notify>, now: Moment) -> Vec<Arc<Hold>> {
        let mut inner = self.inner.lock();
        if !Arc::ptr_eq(&inner.sooner, sooner) {
            return Vec::new();
        }
        let Inner { holds, due, awaiting_room, asleep, .. } = &mut *inner;
        *asleep = None;
        let mut taken = Vec::new();
        while let Some((at, id)) = due.first().copied()
            && at <= now
            && taken.len() < MAX_AT_ONCE
        {
            due.pop_first();
            let Some(entry) = holds.get_mut(&id) else { continue };
            entry.due = None;
            taken.extend(entry.hold.upgrade());
        }
        let room = MAX_RENEWALS.saturating_sub(self.renewals.load(Ordering::SeqCst));
        for _ in 0..room.min(MAX_AT_ONCE - taken.len()) {
            let Some((_, id)) = awaiting_room.pop_first() else { break };
            let Some(entry) = holds.get_mut(&id) else { continue };
            entry.awaits_room = None;
            taken.extend(entry.hold.upgrade());
        }
        taken
    }

    /// Notes until when the task sleeps: for [`CLOCK_CHECK_INTERVAL`] at most as long as anything is held, or
    /// was held since the task last slept. Otherwise each lock of a client that takes one after the other
    /// would wake the task. None when there is something to do at once.
    pub(super) fn rest(&self, sooner: &Arc<Notify>, now: Moment) -> Option<Moment> {
        let mut inner = self.inner.lock();
        if !Arc::ptr_eq(&inner.sooner, sooner) {
            return None;
        }
        self.crowded.store(!inner.awaiting_room.is_empty(), Ordering::SeqCst);
        let has_room = || self.renewals.load(Ordering::SeqCst) < MAX_RENEWALS;
        if !inner.awaiting_room.is_empty() && has_room() {
            return None;
        }
        let has_news = std::mem::take(&mut inner.has_news);
        let first_due = inner.due.first().map(|(at, _)| *at);
        let is_in_use = has_news || first_due.is_some();
        let next_check = if is_in_use { now + CLOCK_CHECK_INTERVAL } else { Moment::NEVER };
        let until = first_due.unwrap_or(Moment::NEVER).min(next_check);
        inner.asleep = Some(until);
        (until > now).then_some(until)
    }
}
