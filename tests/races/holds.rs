//! The state of a hold, its handles, and the registry of holds.

use std::time::Duration;

use crate::world::{Thread, all, in_any_order, nodes};

/// How long a call may take that looks at its work from time to time.
const SOON: Duration = Duration::from_millis(400);

/// `lost()` resolves on every thread that waits for it.
#[test]
fn the_end_of_a_hold_is_told_on_every_thread() {
    in_any_order(|world| {
        let client = world.client(&nodes(1));
        let guard = client.run(async |redlock| redlock.lock("r").await.unwrap());
        let waits = |lost: futures_util::future::BoxFuture<'static, ()>| {
            let client = client.clone();
            Box::new(move || client.run(async |_| lost.await)) as Thread
        };
        let (first, second) = (waits(Box::pin(guard.lost())), waits(Box::pin(guard.lost())));
        all([first, second, Box::new(move || drop(guard))]);
    });
}

/// `shutdown` waits for guards that are dropped meanwhile, and misses none.
#[test]
fn shutdown_returns_when_the_last_guard_goes() {
    in_any_order(|world| {
        let client = world.client(&nodes(1));
        let guards = client.run(async |redlock| {
            [redlock.lock("r").await.unwrap(), redlock.lock("s").await.unwrap()]
        });
        let mut threads: Vec<Thread> = Vec::new();
        for guard in guards {
            threads.push(Box::new(move || drop(guard)));
        }
        let grace = world.ttl();
        threads.push(Box::new(move || client.run(async |redlock| redlock.shutdown(grace).await)));
        world.pass_until_done(SOON, threads);
    });
}

/// A hold may end before its line has heard of it: the line must not wait for its end then.
#[test]
fn a_hold_that_ends_at_its_beginning_does_not_block_its_line() {
    in_any_order(|world| {
        let client = world.client(&nodes(1));
        let (tell, told) = tokio::sync::oneshot::channel::<()>();
        let (one, two, three) = (client.clone(), client.clone(), client);
        let threads: Vec<Thread> = vec![
            Box::new(move || {
                one.run(async |redlock| {
                    let guard = redlock.lock("r").await.unwrap();
                    // It is kept although it was lost. One that was not is let go of.
                    if guard.is_valid() { drop(guard) } else { told.await.unwrap() }
                });
            }),
            Box::new(move || two.run(async |redlock| redlock.release_all().await)),
            Box::new(move || {
                three.run(async |redlock| drop(redlock.lock("r").await.unwrap()));
                let _ = tell.send(());
            }),
        ];
        world.pass_until_done(SOON, threads);
    });
}
