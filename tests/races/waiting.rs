//! Lines within a client, and queues and watches between clients: each wake-up reaches its waiter.

use std::time::Duration;

use futures_util::FutureExt;

use crate::world::{Thread, all, in_any_order, nodes};

/// A lock goes from thread to thread within one client, and none of them waits for ever.
#[test]
fn a_line_of_threads_is_served_to_its_end() {
    in_any_order(|world| {
        let client = world.client(&nodes(1));
        all((0..3).map(|_| {
            let client = client.clone();
            move || client.run(async |redlock| drop(redlock.lock("r").await.unwrap()))
        }));
    });
}

/// A waiter goes away at the moment at which it is given its turn: the turn passes on.
#[test]
fn a_turn_that_meets_the_end_of_its_waiter_passes_on() {
    in_any_order(|world| {
        let client = world.client(&nodes(1));
        let (guard, gives_up) = client.run(async |redlock| {
            let guard = redlock.lock("r").await.unwrap();
            let mut gives_up = redlock.lock("r").into_future();
            assert!((&mut gives_up).now_or_never().is_none());
            (guard, gives_up)
        });
        let waits = client.clone();
        all([
            Box::new(move || drop(guard)) as Thread,
            Box::new(move || drop(gives_up)),
            Box::new(move || waits.run(async |redlock| drop(redlock.lock("r").await.unwrap()))),
        ]);
    });
}

/// Requests that try once are answered by the attempt before them, whichever request makes it.
#[test]
fn a_request_that_does_not_wait_is_answered() {
    in_any_order(|world| {
        let client = world.client(&nodes(1));
        all((0..3).map(|_| {
            let client = client.clone();
            move || client.run(async |redlock| drop(redlock.try_lock("r").await))
        }));
    });
}

/// Each release gives the turn to the next client, which hears of it, however it and the release meet.
#[test]
fn a_queue_of_clients_is_served_to_its_end() {
    in_any_order(|world| {
        let nodes = nodes(1);
        all([world.client(&nodes), world.client(&nodes)].map(|client| {
            move || client.run(async |redlock| drop(redlock.lock("r").await.unwrap()))
        }));
    });
}

/// A key goes without giving a turn, as one does that an operator deletes. The front of the queue
/// watches it, and hears of that however far it has come with arming the watch.
#[test]
fn a_key_that_goes_wakes_the_client_that_watches_it() {
    in_any_order(|world| {
        let nodes = nodes(1);
        let (holder, waiter) = (world.client(&nodes), world.client(&nodes));
        let held = holder.run(async |redlock| redlock.lock("r").await.unwrap());
        let waits = move || waiter.run(async |redlock| drop(redlock.lock("r").await.unwrap()));
        let node = nodes[0].clone();
        let removes = move || {
            // The front watches by then, or is about to.
            (0..1000).for_each(|_| shuttle::thread::yield_now());
            node.remove("redlock:r");
        };
        // It would look at the lock by itself after a second and a half.
        world
            .pass_until_done(Duration::from_millis(1200), vec![Box::new(waits), Box::new(removes)]);
        std::mem::forget(held);
    });
}
