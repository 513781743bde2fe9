//! The one task of a client that renews its holds. A hold has no task and no timer of its own.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use tokio::runtime::Id;

use super::{
    Leases,
    hold::Hold,
    registry::{CLOCK_CHECK_INTERVAL, Shared},
};
use crate::{
    background::Pulse,
    clock::{Clock, Moment, Reading, sleep_until},
    node::NodeHandle,
    runtime,
    sync::Notify,
};

/// The wall clock has jumped when it has run ahead by this much between two looks. No lock's drift
/// allowance is less.
const JUMP: Duration = Duration::from_millis(2);

/// A clock that a time service corrects gains little between two looks. Once this long has passed since all holds
/// were queued for a look, its gain since then counts.
const SLEW: Duration = Duration::from_secs(1);

impl Leases {
    /// Makes sure that nodes are connected and holds are renewed (rule 13).
    pub(crate) fn ensure_running(self: &Arc<Self>) {
        self.nodes.ensure_running();
        let task = &self.registry.task;
        if !task.is_running() {
            task.ensure(|pulse| self.tending(pulse), || self.when_ended());
            if self.registry.has_holds() {
                // This runtime may never run the task: another one with a standby takes it over then.
                task.expect(self.nodes.clock.now());
            }
        }
    }

    /// Starts the tasks like [`ensure_running`](Self::ensure_running), and takes over here what
    /// stands still on another runtime.
    pub(crate) fn ensure_moving(self: &Arc<Self>, now: Moment) {
        self.ensure_running();
        self.nodes.ensure_moving(now);
        let task = &self.registry.task;
        task.take_over(now, |pulse| self.tending(pulse), || self.when_ended());
    }

    fn tending(self: &Arc<Self>, pulse: Pulse) -> impl Future<Output = ()> + use<> {
        let shared = &self.registry.shared;
        let sooner = Arc::default();
        let before = {
            let mut inner = shared.inner.lock();
            // This thread may have been suspended, and the task taken over since. The successor would get no signal
            // and no hold any more.
            pulse.is_current().then(|| {
                inner.asleep = None;
                std::mem::replace(&mut inner.sooner, Arc::clone(&sooner))
            })
        };
        // The task that is taken over ends when it is told.
        if let Some(before) = before {
            before.notify_one();
        }
        let clock = Arc::clone(&self.nodes.clock);
        tend(Arc::downgrade(self), Arc::clone(shared), clock, sooner, pulse)
    }

    fn when_ended(&self) -> impl FnOnce() + Send + use<> {
        let shared = Arc::clone(&self.registry.shared);
        let listener = Weak::clone(&self.listener);
        move || {
            if let Some(listener) = listener.upgrade() {
                listener.tasks_ended();
            }
            shared.ended.notify_waiters();
            // A task that waits for a hold on a living runtime starts the task again there.
            shared.all().iter().for_each(|hold| hold.nudge());
        }
    }

    /// Adds a hold at this reading, unless the client is closed. From now on it is renewed.
    pub(crate) fn add(self: &Arc<Self>, hold: &Arc<Hold>, reading: Reading) -> bool {
        let is_open = self.registry.add(hold, reading);
        if is_open {
            self.stand_by();
        }
        is_open
    }

    /// Starts a standby on the caller's runtime, if the task is on another runtime. That runtime
    /// may end, or stand still, and a guard here has to be renewed all the same.
    pub(crate) fn stand_by(self: &Arc<Self>) {
        let Some(here) = self.registry.elsewhere() else { return };
        let shared = &self.registry.shared;
        {
            let standbys = &mut shared.inner.lock().standbys;
            if standbys.contains(&here) {
                return;
            }
            standbys.push(here);
        }
        let standby = Standby { shared: Arc::clone(shared), runtime: here, is_listed: true };
        runtime::spawn(standby.run(Arc::downgrade(self)));
    }
}

/// Looks at each hold when it is due, and at all of them when the wall clock has jumped.
///
/// The task keeps nothing alive: it ends with the last guard and the last client.
async fn tend(
    leases: Weak<Leases>,
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    sooner: Arc<Notify>,
    pulse: Pulse,
) {
    let mut before = clock.read();
    // The reading at which all holds were last queued for a look.
    let mut seen = before;
    // The clock may have jumped between the last look of the task before this one and now.
    shared.doubt_all(before).await;
    while !shared.orphaned.load(Ordering::Acquire) && pulse.is_current() {
        let reading = clock.read();
        pulse.sleeps_until(reading.now);
        let is_slewed = reading.now.since(seen.now) >= SLEW;
        let has_jumped = reading.missed_since(if is_slewed { seen } else { before }) > JUMP;
        before = reading;
        if has_jumped {
            seen = reading;
            shared.doubt_all(reading).await;
        }
        {
            // The tasks of the nodes may stand still on another runtime. No answer to a renewal would be read.
            let Some(leases) = leases.upgrade() else { return };
            leases.nodes.ensure_moving(reading.now);
        }
        for hold in shared.take_due(&sooner, reading.now) {
            let Some(leases) = leases.upgrade() else { return };
            if let Some(next) = leases.tend(&hold) {
                // A judgement on another thread may want the hold looked at sooner.
                shared.inner.lock().set_due_by(hold.id, next);
            }
        }
        match shared.rest(&sooner, clock.now()) {
            None => tokio::task::yield_now().await,
            Some(until) => {
                pulse.sleeps_until(until);
                tokio::select! {
                    biased;
                    () = sooner.notified() => {}
                    () = sleep_until(&*clock, until), if until != Moment::NEVER => {}
                }
            }
        }
    }
    if shared.orphaned.load(Ordering::Acquire) {
        return;
    }
    // Another runtime has taken this task over. It may stand still as well, so a standby starts here. The tasks here
    // that wait for a loss are woken, and set timers of their own.
    if let Some(leases) = leases.upgrade() {
        leases.stand_by();
        shared.all().iter().for_each(|hold| hold.nudge());
    }
}

/// Stands by on a runtime with holds, for as long as anything is held or is to be deleted. It looks at the clock like
/// the task itself, which may stand still (rule 2).
struct Standby {
    shared: Arc<Shared>,
    runtime: Id,
    /// The list of standbys has it, so that no other one is started on its runtime.
    is_listed: bool,
}

impl Standby {
    async fn run(mut self, leases: Weak<Leases>) {
        let shared = Arc::clone(&self.shared);
        loop {
            let mut ended = std::pin::pin!(shared.ended.notified());
            ended.as_mut().enable();
            {
                // Upgraded only for a moment: the leases go with their last user.
                let Some(leases) = leases.upgrade() else { return };
                // This also counts what the clock has missed, as a task that stands still does not.
                let reading = leases.nodes.clock.read();
                leases.ensure_moving(reading.now);
                let all_here = leases.registry.elsewhere().is_none()
                    && !leases.nodes.iter().any(NodeHandle::is_elsewhere);
                // In this order: a release hands its deletes over before it forgets the hold. A delete that is on
                // its way is owed again if the runtime of its node's task ends before it is answered. What is owed
                // to a node that is down waits for the client's next use.
                let is_done = shared.inner.lock().holds.is_empty()
                    && leases.nodes.iter().all(NodeHandle::is_drained);
                if self.is_over(all_here, is_done) {
                    return;
                }
            }
            // The task may have ended or not: the loop looks either way.
            let _ = tokio::time::timeout(CLOCK_CHECK_INTERVAL, ended).await;
        }
    }

    /// Whether nothing is held any more and no delete is on its way (`is_done`), or the tasks of the client run here
    /// now. The next hold starts another standby.
    fn is_over(&mut self, all_here: bool, is_done: bool) -> bool {
        let mut inner = self.shared.inner.lock();
        let is_over = all_here || inner.holds.is_empty() && is_done;
        if is_over {
            inner.standbys.retain(|runtime| *runtime != self.runtime);
            self.is_listed = false;
        }
        is_over
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        if self.is_listed {
            self.shared.inner.lock().standbys.retain(|runtime| *runtime != self.runtime);
        }
    }
}

#[cfg(test)]
mod tests;
