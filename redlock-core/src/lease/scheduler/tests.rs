//! The task that looks at holds, where runtimes end, stand still, or take it over.

use std::sync::atomic::Ordering::SeqCst;

use tokio::{
    runtime::{self, Runtime},
    time::sleep,
};

use super::*;
use crate::{
    clock::{TokioClock, manual::ManualClock},
    lease::{HoldId, LeaseListener, LeaseState},
    quorum::Nodes,
};

fn runtime() -> Runtime {
    runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// A runtime that runs while it is blocked on, and whose time passes at once.
fn paused() -> Runtime {
    runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// A client of three nodes, and the clock that it goes by.
fn clocked() -> (Arc<ManualClock>, Vec<crate::MemoryNode>, crate::Redlock) {
    let clock = Arc::new(ManualClock::new());
    let nodes = crate::testing::nodes(3);
    let redlock = crate::Redlock::builder().nodes(&nodes).clock(Arc::clone(&clock) as _);
    (clock, nodes, redlock.build().unwrap())
}

/// Waits for a renewal of this lock, for longer than any ttl here.
async fn is_renewed(guard: &crate::LockGuard) {
    let confirmed = || guard.hold().lease().confirmed;
    let before = confirmed();
    let renewed = async {
        while confirmed() == before {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = guard.lost() => panic!("it was lost"),
        () = renewed => {}
        () = sleep(Duration::from_secs(30)) => panic!("it is not looked at"),
    }
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

/// It was started anew after the jump. A standby judges no hold, and the task before it is not driven.
#[test]
fn a_task_that_takes_over_looks_at_what_the_one_before_it_has_not_seen() {
    const SECOND: i64 = 1_000_000_000;
    let (clock, nodes, redlock) = clocked();
    let [first, second] = [(); 2].map(|()| paused());
    let guard = first.block_on(async { redlock.lock("r").auto_extend(false).await.unwrap() });
    second.block_on(async {
        let lost = tokio::spawn(guard.lost());
        sleep(CLOCK_CHECK_INTERVAL / 2).await;
        nodes.iter().for_each(crate::MemoryNode::hang);
        clock.wall_ahead.store(20 * SECOND, SeqCst);
        sleep(Duration::from_secs(1)).await;
        assert!(redlock.client().leases.registry.elsewhere().is_none(), "it is taken over");
        assert!(lost.is_finished(), "a doubt that no node clears");
    });
}

/// The task was started once more, by a call that asks no node, on a runtime that never runs it.
#[test]
fn a_lock_from_before_is_renewed_when_the_next_runtime_does_not_run() {
    // The lock outlives a machine that is busy for seconds.
    let ttl = Duration::from_secs(9);
    let redlock = crate::Redlock::builder().nodes(crate::testing::nodes(3)).ttl(ttl);
    let redlock = redlock.build().unwrap();
    let [first, second, third] =
        [(); 3].map(|()| runtime::Builder::new_current_thread().enable_all().build().unwrap());
    let guard = first.block_on(async { redlock.lock("r").await.unwrap() });
    drop(first);
    second.block_on(async { assert!(!guard.validity().is_zero()) });
    third.block_on(is_renewed(&guard));
}

/// The thread that starts it is suspended meanwhile, as one is that has used up its share of the processor.
#[test]
fn a_task_that_is_taken_over_before_it_is_ready_leaves_the_holds_to_its_successor() {
    let ttl = Duration::from_secs(9);
    let redlock = crate::Redlock::builder().nodes(crate::testing::nodes(3)).ttl(ttl);
    let redlock = redlock.build().unwrap();
    let leases = &redlock.client().leases;
    let (first, second) = (runtime(), runtime());
    let mut guard = None;
    let takes_over = async {
        guard = Some(redlock.lock("r").await.unwrap());
        let is_taken_over = || leases.registry.elsewhere().is_none();
        while !is_taken_over() || leases.registry.shared.inner.lock().asleep.is_none() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    {
        let _in = first.enter();
        let task = |pulse| {
            std::thread::scope(|scope| scope.spawn(|| second.block_on(takes_over)).join()).unwrap();
            leases.tending(pulse)
        };
        leases.registry.task.ensure(task, || leases.when_ended());
    }
    second.block_on(is_renewed(&guard.unwrap()));
}

/// Each of them would look at the clock for as long as anything is held.
#[test]
fn a_standby_that_has_ended_leaves_the_next_one_on_its_runtime_alone() {
    let redlock = crate::Redlock::in_memory(1);
    let shared = &redlock.client().leases.registry.shared;
    let listed = || shared.inner.lock().standbys.clone();
    let runtime = runtime().handle().id();
    for ends in [true, false] {
        shared.inner.lock().standbys = vec![runtime];
        let mut standby = Standby { shared: Arc::clone(shared), runtime, is_listed: true };
        assert_eq!(standby.is_over(ends, false), ends);
        if ends {
            assert!(listed().is_empty());
            shared.inner.lock().standbys.push(runtime);
        }
        drop(standby);
        assert_eq!(listed().len(), usize::from(ends), "dropped with its runtime, or after its end");
    }
}

/// The runtime of the task is not driven, and it is too early to take the task over.
#[test]
fn a_standby_sees_where_a_clock_was_set_back_to() {
    const SECOND: i64 = 1_000_000_000;
    let (clock, _, redlock) = clocked();
    let [first, second] = [(); 2].map(|()| paused());
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

    impl LeaseListener for StartsAgain {
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
        leases: Arc::new(Leases::new(&nodes, Weak::clone(waiters) as Weak<dyn LeaseListener>)),
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
