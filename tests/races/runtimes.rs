//! The tasks of a client, whose runtime ends or stands still while others use the client.

use std::{
    future::IntoFuture,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::FutureExt;

use crate::world::{Client, Thread, all, in_any_order, nodes};

/// Until a client has its lock that has to connect again, and whose command no task was left to send.
const SOON: Duration = Duration::from_secs(8);

/// The runtime of the tasks ends while a thread of another runtime locks: what that end takes with it
/// is done again.
#[test]
fn a_runtime_that_ends_takes_no_caller_of_another_one_with_it() {
    in_any_order(|world| {
        let client = world.client(&nodes(1));
        let elsewhere = Client { runtime: world.runtime(), ..client.clone() };
        let locks = move || elsewhere.run(async |redlock| drop(redlock.lock("r").await.unwrap()));
        let threads: Vec<Thread> = vec![Box::new(locks), Box::new(move || client.runtime.end())];
        world.pass_until_done(SOON, threads);
    });
}

/// The runtime of the tasks ends while a guard is dropped on a thread without one. The next runtime
/// that uses the client deletes the key, if no task was left to do so.
#[test]
fn a_guard_that_is_dropped_as_its_runtime_ends_leaves_no_key() {
    in_any_order(|world| {
        let nodes = nodes(1);
        let client = world.client(&nodes);
        let elsewhere = Client { runtime: world.runtime(), ..client.clone() };
        let guard = client.run(async |redlock| redlock.lock("r").await.unwrap());
        let runtime = client.runtime.clone();
        all([Box::new(move || drop(guard)) as Thread, Box::new(move || runtime.end())]);
        let locks = move || elsewhere.run(async |redlock| drop(redlock.lock("s").await.unwrap()));
        world.pass_until_done(SOON, vec![Box::new(locks)]);
        let is_there = || nodes[0].keys().iter().any(|key| key == "redlock:r");
        for _ in 0..100 {
            if !is_there() {
                return;
            }
            world.step(SOON / 100);
        }
        panic!("the key is still there");
    });
}

/// A runtime that stood still is taken over while it goes on again: one task serves the node.
#[test]
fn a_task_that_goes_on_while_it_is_taken_over_takes_nothing_along() {
    in_any_order(|world| {
        let client = world.client(&nodes(1));
        let elsewhere = Client { runtime: world.runtime(), ..client.clone() };
        client.runtime.block();
        let runtime = client.runtime.clone();
        let locks = elsewhere.clone();
        let threads: Vec<Thread> = vec![
            Box::new(move || locks.run(async |redlock| drop(redlock.lock("r").await.unwrap()))),
            Box::new({
                let world = world.clone();
                move || {
                    (0..20).for_each(|_| world.step(SOON / 200));
                    runtime.unblock();
                }
            }),
        ];
        world.pass_until_done(SOON, threads);
        // Nothing is left to be late.
        two_threads_get_their_locks(&elsewhere);
    });
}

/// A task is taken over by a runtime that stands still itself. The task there is taken over in turn, and is
/// polled for the first time beside its successor.
#[test]
fn a_task_that_is_polled_after_it_was_taken_over_takes_nothing_from_its_successor() {
    in_any_order(|world| {
        let client = world.client(&nodes(1));
        let [second, third] =
            [(); 2].map(|()| Client { runtime: world.runtime(), ..client.clone() });
        for stands_still in [&client, &second] {
            stands_still.runtime.block();
            stands_still.run(async |redlock| {
                assert!(redlock.lock("q").into_future().now_or_never().is_none(), "no task runs");
            });
            world.step(SOON / 8);
        }
        let locks = third.clone();
        let threads: Vec<Thread> = vec![
            Box::new(move || locks.run(async |redlock| drop(redlock.lock("r").await.unwrap()))),
            Box::new(move || second.runtime.unblock()),
        ];
        world.pass_until_done(SOON, threads);
        client.runtime.unblock();
        two_threads_get_their_locks(&third);
    });
}

/// Threads of this client take locks on two resources.
fn two_threads_get_their_locks(client: &Client) {
    all((0..2).map(|key| {
        let client = client.clone();
        move || client.run(async |it| drop(it.lock(format!("s{key}")).await.unwrap()))
    }));
}

/// The runtime of the tasks ends while a lock passes between tasks of another one.
#[test]
fn a_runtime_that_ends_leaves_no_line_behind() {
    in_any_order(|world| {
        let nodes = nodes(1);
        let client = world.client(&nodes);
        let elsewhere = Client { runtime: world.runtime(), ..client.clone() };
        let mut threads: Vec<Thread> = (0..2)
            .map(|_| {
                let client = elsewhere.clone();
                Box::new(move || client.run(async |it| drop(it.lock("r").await.unwrap()))) as Thread
            })
            .collect();
        threads.push(Box::new(move || client.runtime.end()));
        world.pass_until_done(SOON, threads);
    });
}

/// A runtime stands still while its task opens a connection. When it goes on, another task serves the
/// node: what was opened late must not replace the connection of that task.
#[test]
fn a_connection_that_is_opened_after_a_take_over_is_not_used() {
    in_any_order(|world| {
        let nodes = nodes(1);
        let client = world.new_client(&nodes);
        let elsewhere = Client { runtime: world.runtime(), ..client.clone() };
        nodes[0].hang();
        client.run(async |redlock| {
            assert!(redlock.lock("r").into_future().now_or_never().is_none(), "it connects");
        });
        world.step(SOON / 1000);
        client.runtime.block();
        nodes[0].resume();
        let locks = elsewhere.clone();
        let takes_over = move || locks.run(async |redlock| drop(redlock.lock("r").await.unwrap()));
        world.pass_until_done(2 * SOON, vec![Box::new(takes_over)]);
        client.runtime.unblock();
        (0..3).for_each(|_| world.step(SOON / 1000));
        two_threads_get_their_locks(&elsewhere);
    });
}

/// Threads find at the same moment that the tasks of their client have ended: one of them starts each
/// task.
#[test]
fn each_task_is_started_once() {
    in_any_order(|world| {
        let nodes = nodes(1);
        let client = world.client(&nodes);
        let mut started = Vec::new();
        let mut before = client.runtime;
        for threads in [1, 2] {
            before.end();
            while !before.is_empty() {
                shuttle::thread::yield_now();
            }
            let next = Client { runtime: world.runtime(), redlock: client.redlock.clone() };
            let locks = (0..threads).map(|key| {
                let client = next.clone();
                Box::new(move || {
                    client.run(async |redlock| {
                        let guard = redlock.lock(format!("r{key}")).await.unwrap();
                        guard.release().await.unwrap();
                    });
                }) as Thread
            });
            world.pass_until_done(SOON, locks.collect());
            started.push(next.runtime.started());
            before = next.runtime;
        }
        assert_eq!(started[0], started[1], "tasks of one thread and of two");
    });
}

/// The runtime of the task that renews has ended. A thread starts the task on a second runtime, and is held up before
/// the task is ready. A third runtime takes the task over meanwhile: the locks are renewed there.
#[test]
fn locks_are_renewed_while_their_task_changes_runtimes() {
    in_any_order(|world| {
        let client = world.client(&nodes(1));
        let [second, third] =
            [(); 2].map(|()| Client { runtime: world.runtime(), ..client.clone() });
        let ttl = world.shortest_ttl();
        let lock = move |resource: &'static str| {
            move |client: Client| {
                client.run(async |redlock| redlock.lock(resource).ttl(ttl).await.unwrap())
            }
        };
        let held = lock("q")(third.clone());
        client.runtime.end();
        let (starts, keeps) = (second.clone(), Arc::new(Mutex::new(None)));
        let kept = Arc::clone(&keeps);
        let starts = move || *kept.lock().unwrap() = Some(lock("r")(starts));
        world.pass_until_done(SOON, vec![Box::new(starts)]);
        let kept = keeps.lock().unwrap().take().unwrap();
        if !(held.is_valid() && kept.is_valid()) {
            // No thread was run for the whole ttl.
            return;
        }
        (0..60).for_each(|_| world.step(ttl / 20));
        assert!(held.is_valid() && kept.is_valid(), "three times the ttl have passed");
    });
}

/// A task waits in the queue of the process behind a holder. The runtime of the client's tasks ends,
/// and with it the task that would notice that the holder has lost the lock.
#[test]
fn a_runtime_that_ends_leaves_no_task_behind_a_holder_that_loses_the_lock() {
    in_any_order(|world| {
        let client = world.client(&nodes(1));
        let elsewhere = Client { runtime: world.runtime(), ..client.clone() };
        let guard = client.run(async |redlock| {
            redlock.lock("r").ttl(world.shortest_ttl()).auto_extend(false).await.unwrap()
        });
        let waits = move || elsewhere.run(async |redlock| drop(redlock.lock("r").await.unwrap()));
        let threads: Vec<Thread> = vec![Box::new(waits), Box::new(move || client.runtime.end())];
        world.pass_until_done(SOON, threads);
        drop(guard);
    });
}
