//! The one task of a client that renews its holds. A hold has no task and no timer of its own.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use tokio::{runtime::Id, sync::Notify};

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
};

/// The wall clock has jumped when it has run ahead by this much between two looks. No lock's drift
/// allowance is less.
const JUMP: Duration = Duration::from_millis(2);

/// How often it is looked at what a wall clock has gained that runs ahead little by little, as one does that a time
/// service corrects.
const SLEW: Duration = Duration::from_secs(1);

impl Leases {
    /// Makes sure that nodes are connected and holds are renewed (rule 13).
    pub(crate) fn ensure_running(self: &Arc<Self>) {
        self.nodes.ensure_running();
        let task = &self.registry.task;
        if !task.is_running() {
            task.ensure(|pulse| self.tending(pulse), self.when_ended());
        }
    }

    /// Starts the tasks like [`ensure_running`](Self::ensure_running), and takes over here what
    /// stands still on another runtime.
    pub(crate) fn ensure_moving(self: &Arc<Self>, now: Moment) {
        self.ensure_running();
        self.nodes.ensure_moving(now);
        let task = &self.registry.task;
        task.take_over(now, |pulse| self.tending(pulse), self.when_ended());
    }

    fn tending(self: &Arc<Self>, pulse: Pulse) -> impl Future<Output = ()> + use<> {
        let shared = &self.registry.shared;
        // The task that is taken over ends when it is told.
        let sooner = Arc::default();
        let before = {
            let mut inner = shared.inner.lock();
            inner.asleep = None;
            std::mem::replace(&mut inner.sooner, Arc::clone(&sooner))
        };
        before.notify_one();
        let clock = Arc::clone(&self.nodes.clock);
        tend(Arc::downgrade(self), Arc::clone(shared), clock, sooner, pulse)
    }

    fn when_ended(&self) -> impl FnOnce() + Send + use<> {
        let shared = Arc::clone(&self.registry.shared);
        let waiters = Weak::clone(&self.waiters);
        move || {
            if let Some(waiters) = waiters.upgrade() {
                waiters.tasks_ended();
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
    pub(super) fn stand_by(self: &Arc<Self>) {
        let Some(here) = self.registry.elsewhere() else { return };
        let shared = &self.registry.shared;
        {
            let standbys = &mut shared.inner.lock().standbys;
            if standbys.contains(&here) {
                return;
            }
            standbys.push(here);
        }
        let standby = Standby { shared: Arc::clone(shared), runtime: here };
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
    // What the holds have been looked at with.
    let mut seen = before;
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
    // Another runtime has taken over, which may stand still, too. The holds of this one are its own again
    // then, and the tasks here that wait for a loss set a timer of their own.
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
}

impl Standby {
    async fn run(self, leases: Weak<Leases>) {
        loop {
            let mut ended = std::pin::pin!(self.shared.ended.notified());
            ended.as_mut().enable();
            {
                // Upgraded only for a moment: the leases go with their last user.
                let Some(leases) = leases.upgrade() else { return };
                // This counts what the clock has missed, too, which the task may not do now.
                let reading = leases.nodes.clock.read();
                leases.ensure_moving(reading.now);
                let all_here = leases.registry.elsewhere().is_none()
                    && !leases.nodes.iter().any(NodeHandle::is_elsewhere);
                // In this order: a release hands its deletes over before it forgets the hold. A delete that is on
                // its way is owed again if the runtime of its node's task ends before it is answered. What is owed
                // to a node that is down waits for the client's next use.
                let is_done = self.shared.inner.lock().holds.is_empty()
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
    fn is_over(&self, all_here: bool, is_done: bool) -> bool {
        let mut inner = self.shared.inner.lock();
        let is_over = all_here || inner.holds.is_empty() && is_done;
        if is_over {
            inner.standbys.retain(|runtime| *runtime != self.runtime);
        }
        is_over
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        self.shared.inner.lock().standbys.retain(|runtime| *runtime != self.runtime);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;

    use tokio::{
        runtime::{self, Runtime},
        time::sleep,
    };

    use super::*;
    use crate::{
        clock::{TokioClock, manual::ManualClock},
        lease::{HoldId, LeaseState, Waiters},
        quorum::Nodes,
    };

    fn runtime() -> Runtime {
        runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn locks_taken_in_a_row_do_not_wake_the_task_one_by_one() {
        const A_MOMENT: Duration = Duration::from_millis(10);
        let redlock = crate::Redlock::in_memory(1);
        let asleep = || redlock.client().leases.registry.shared.inner.lock().asleep;
        let take = async || {
            redlock.lock("r").await.unwrap().release().await.unwrap();
            sleep(A_MOMENT).await;
        };
        take().await;
        let until = asleep().unwrap();
        assert!(until < Moment::NEVER, "it looks once more");
        take().await;
        assert_eq!(asleep(), Some(until));
        sleep(3 * CLOCK_CHECK_INTERVAL).await;
        assert_eq!(asleep(), Some(Moment::NEVER), "nothing is held any more");
        take().await;
        assert!(asleep().unwrap() < Moment::NEVER);
    }

    /// The task was started on a runtime that never runs it.
    #[test]
    fn a_runtime_that_is_not_driven_is_taken_over() {
        let redlock = crate::Redlock::in_memory(1);
        let (first, second) = (
            runtime::Builder::new_current_thread().enable_all().build().unwrap(),
            runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        );
        let guard = first.block_on(async { redlock.lock("r").await.unwrap() });
        let registry = &redlock.client().leases.registry;
        second.block_on(async {
            let lost = guard.lost();
            let moved = async {
                while registry.elsewhere().is_some() {
                    sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::select! {
                () = lost => panic!("it was lost"),
                () = moved => {}
                () = sleep(Duration::from_secs(30)) => panic!("it stays where it was"),
            }
            assert!(registry.shared.inner.lock().standbys.len() <= 1);
        });
        // The task stays there when the first runtime is driven again.
        first.block_on(async { sleep(Duration::from_millis(1)).await });
        second.block_on(async {
            let due = || registry.shared.inner.lock().asleep;
            let before = due();
            while due() == before {
                sleep(Duration::from_millis(5)).await;
            }
        });
    }

    /// The runtime of the task is not driven, and it is too early to take the task over.
    #[test]
    fn a_standby_sees_where_a_clock_was_set_back_to() {
        const SECOND: i64 = 1_000_000_000;
        let clock = Arc::new(ManualClock::new());
        let nodes = crate::testing::nodes(3);
        let redlock = crate::Redlock::builder().nodes(&nodes).clock(Arc::clone(&clock) as _);
        let redlock = redlock.build().unwrap();
        let paused =
            || runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let (first, second) = (paused().unwrap(), paused().unwrap());
        let guard = first.block_on(async { redlock.lock("r").await.unwrap() });
        second.block_on(async {
            let lost = tokio::spawn(guard.lost());
            // It starts the standby, and both look at the clock.
            sleep(CLOCK_CHECK_INTERVAL / 2).await;
            clock.wall_ahead.store(-20 * SECOND, SeqCst);
            sleep(CLOCK_CHECK_INTERVAL * 3 / 2).await;
            assert!(redlock.client().leases.registry.elsewhere().is_some());
            clock.wall_ahead.store(-5 * SECOND, SeqCst);
            assert!(!guard.is_valid(), "in doubt");
            lost.abort();
        });
    }

    /// The task is started again on another runtime before the old task has quite ended.
    #[test]
    fn a_task_that_ends_forgets_nothing_that_the_next_one_has_noted() {
        const SOON: Duration = Duration::from_millis(1);

        #[derive(Debug)]
        struct StartsAgain {
            leases: Arc<Leases>,
            there: runtime::Handle,
        }

        fn is_asleep(leases: &Leases) -> bool {
            leases.registry.shared.inner.lock().asleep.is_some()
        }

        impl Waiters for StartsAgain {
            fn tasks_ended(&self) {
                let _in = self.there.enter();
                self.leases.registry.shared.inner.lock().asleep = None;
                self.leases.ensure_running();
                while !is_asleep(&self.leases) {
                    std::thread::sleep(SOON);
                }
            }

            fn holder_gone(self: Arc<Self>, _: &Arc<str>, _: HoldId, _: Moment) {}

            fn give_back(self: Arc<Self>, _: &LeaseState, _: Moment) {}
        }

        let (first, second) = (runtime(), runtime());
        let nodes = Arc::new(Nodes::new(Vec::new(), Arc::new(TokioClock), SOON, SOON));
        let waiters = Arc::new_cyclic(|waiters: &Weak<StartsAgain>| StartsAgain {
            leases: Arc::new(Leases::new(&nodes, Weak::clone(waiters) as Weak<dyn Waiters>)),
            there: second.handle().clone(),
        });
        first.block_on(async {
            waiters.leases.ensure_running();
            while !is_asleep(&waiters.leases) {
                sleep(SOON).await;
            }
        });
        drop(first);
        assert!(is_asleep(&waiters.leases));
    }
}
