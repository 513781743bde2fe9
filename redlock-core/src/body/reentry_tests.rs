//! Bodies that ask for the lock that they run under, over in-memory nodes.

use std::{
    future::{Future, poll_fn},
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::Poll,
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::{
    sync::oneshot,
    task::LocalSet,
    time::{Instant, sleep},
};

use crate::{LockError, LockGuard, LockHandle, LostReason, Redlock, Released};

const SECOND: Duration = Duration::from_secs(1);

fn keys(redlock: &Redlock) -> Vec<String> {
    redlock.memory_nodes()[0].keys()
}

const HELD: [&str; 1] = ["redlock:r"];
const FREE: [&str; 0] = [];

/// Whether these are handles of one hold.
fn is_same(one: &LockHandle, other: &LockHandle) -> bool {
    std::ptr::eq(one.resource(), other.resource())
}

#[tokio::test(start_paused = true)]
async fn a_body_joins_the_hold_around_it_and_the_outermost_releases() {
    let redlock = Redlock::in_memory(3);
    let inner = async |outer: &LockHandle| {
        sleep(SECOND).await;
        let third = redlock.lock("r").run(async |third: &LockHandle| {
            assert!(is_same(third, outer) && third.is_valid());
            3
        });
        let third = third.await.unwrap();
        assert_eq!(keys(&redlock), HELD, "after the innermost");
        third
    };
    let outer = async |outer: &LockHandle| {
        // Nothing can be asked: whether a body may join is known here.
        redlock.memory_nodes()[1..].iter().for_each(crate::MemoryNode::hang);
        let begun = Instant::now();
        let joined = redlock.lock("r").run(async |_: &LockHandle| inner(outer).await).await;
        assert_eq!((joined.unwrap(), begun.elapsed()), (3, SECOND));
        redlock.memory_nodes()[1..].iter().for_each(crate::MemoryNode::resume);
        assert_eq!(
            (keys(&redlock).as_slice(), redlock.held().len()),
            (&HELD.map(String::from)[..], 1)
        );
        assert!(outer.is_valid());
    };
    redlock.lock("r").run(outer).await.unwrap();
    assert_eq!(keys(&redlock), FREE);
    assert!(LockHandle::current().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_bare_request_inside_is_refused_at_once() {
    let redlock = Redlock::in_memory(3);
    let body = async |_: &LockHandle| {
        let begun = Instant::now();
        for request in [redlock.lock("r").wait(60 * SECOND), redlock.try_lock("r")] {
            let error = request.await.unwrap_err();
            assert!(matches!(error, LockError::Held { by_this_client: true, .. }), "{error}");
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        redlock.shutdown(Duration::ZERO).now_or_never();
        let error = redlock.lock("r").await.unwrap_err();
        assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
    };
    let _ = redlock.lock("r").run(body).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_joins_a_hold_that_is_not_the_innermost() {
    let redlock = Redlock::in_memory(3);
    let other = Redlock::builder().nodes(redlock.memory_nodes()).build().unwrap();
    let (again, bare) = (redlock.lock("r"), redlock.lock("r"));
    let innermost = async |_: &LockHandle| {
        let current = LockHandle::current().unwrap();
        assert_eq!(current.resource(), "inner");
        assert!(bare.await.unwrap_err().is_held());
        again.run(async |_: &LockHandle| LockHandle::current()).await.unwrap()
    };
    let middle = async |_: &LockHandle| {
        let theirs = other.lock("r").wait(SECOND).run(async |_: &LockHandle| ()).await;
        assert!(theirs.unwrap_err().is_held(), "another client is another holder");
        redlock.lock("inner").run(innermost).await.unwrap()
    };
    let current = redlock.lock("r").run(middle).await.unwrap().unwrap();
    assert_eq!(current.resource(), "r");
    assert_eq!(keys(&redlock), FREE);
}

#[tokio::test(start_paused = true)]
async fn branches_of_a_join_inside_of_a_body_join_it_together() {
    let redlock = Redlock::in_memory(3);
    let running = AtomicUsize::new(0);
    let branch = async |span: Duration| {
        let body = async |_: &LockHandle| {
            running.fetch_add(1, SeqCst);
            sleep(SECOND).await;
            let both = running.load(SeqCst);
            sleep(span).await;
            assert_eq!(keys(&redlock), HELD);
            both
        };
        redlock.lock("r").run(body).await.unwrap()
    };
    let body = async |_: &LockHandle| tokio::join!(branch(SECOND), branch(60 * SECOND));
    assert_eq!(redlock.lock("r").run(body).await.unwrap(), (2, 2));
    assert_eq!(keys(&redlock), FREE);
}

#[tokio::test(start_paused = true)]
async fn siblings_of_a_body_and_spawned_tasks_do_not_join_it() {
    let redlock = Redlock::in_memory(3);
    let most = (AtomicUsize::new(0), AtomicUsize::new(0));
    let one = async |_: &LockHandle| {
        most.1.fetch_max(most.0.fetch_add(1, SeqCst) + 1, SeqCst);
        sleep(SECOND).await;
        most.0.fetch_sub(1, SeqCst);
    };
    let (first, second) = tokio::join!(redlock.lock("r").run(one), redlock.lock("r").run(one));
    first.and(second).unwrap();
    assert_eq!(most.1.load(SeqCst), 1, "one after the other");

    let spawned = {
        let redlock = redlock.clone();
        async move { redlock.lock("r").wait(SECOND).run(async |_: &LockHandle| ()).await }
    };
    let body = async |_: &LockHandle| tokio::spawn(spawned).await.unwrap();
    assert!(redlock.lock("r").run(body).await.unwrap().unwrap_err().is_held());
}

/// A set of local tasks may be polled in the middle of a body, on the same thread.
#[tokio::test(start_paused = true)]
async fn a_task_of_a_local_set_does_not_join_the_body_that_polls_it() {
    let redlock = Redlock::in_memory(3);
    let body = async |_: &LockHandle| {
        let local = LocalSet::new();
        let redlock = redlock.clone();
        let inside = local.run_until(async move {
            let spawned = tokio::task::spawn_local({
                let redlock = redlock.clone();
                async move {
                    assert!(LockHandle::current().is_none());
                    redlock.lock("r").wait(SECOND).run(async |_: &LockHandle| ()).await
                }
            });
            redlock.lock("r").run(async |_: &LockHandle| ()).await.unwrap();
            spawned.await.unwrap()
        });
        inside.await
    };
    assert!(redlock.lock("r").run(body).await.unwrap().unwrap_err().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_loss_drops_all_bodies_and_each_is_told() {
    struct Dropped<'a>(&'a str, &'a std::sync::Mutex<Vec<String>>);

    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.1.lock().unwrap().push(self.0.to_owned());
        }
    }

    let redlock = Redlock::in_memory(3);
    let order = std::sync::Mutex::new(Vec::new());
    let outer = async |_: &LockHandle| {
        let _outer = Dropped("outer", &order);
        let inner = async |lock: &LockHandle| {
            let _inner = Dropped("inner", &order);
            lock.lost().await;
            sleep(60 * SECOND).await;
        };
        redlock.lock("r").run(inner).await
    };
    let request = redlock.lock("r").max_hold(SECOND);
    let error = request.run(outer).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LostReason::MaxHold, .. }), "{error}");
    assert_eq!(*order.lock().unwrap(), ["inner", "outer"]);
    assert_eq!(keys(&redlock), FREE);
}

/// A body that goes on after a loss sees that the bodies inside of it have lost the lock, too. A body for
/// which it asks after the loss does not run.
#[tokio::test(start_paused = true)]
async fn a_body_that_goes_on_after_a_loss_is_told_of_it_by_the_bodies_inside() {
    let redlock = Redlock::in_memory(3);
    let lost = |outcome: Result<(), LockError>| {
        matches!(outcome, Err(LockError::Lost { reason: LostReason::MaxHold, .. }))
    };
    let body = async |_: LockHandle| {
        let inside = redlock.lock("r").run(async |_: &LockHandle| sleep(60 * SECOND).await).await;
        let after = redlock.lock("r").run(async |_: &LockHandle| panic!("it ran")).await;
        (lost(inside), lost(after))
    };
    let guard = redlock.lock("r").max_hold(SECOND).for_body().await.unwrap();
    let told = super::run(guard, super::OnLost::Continue, body).await.unwrap();
    assert_eq!(told, (true, true));
}

#[tokio::test(start_paused = true)]
async fn a_panic_inside_goes_through_every_body_and_then_the_lock_is_released() {
    let redlock = Redlock::in_memory(3);
    let body = async |_: &LockHandle| {
        let caught = redlock.lock("r").run(async |_: &LockHandle| panic!("first"));
        assert!(AssertUnwindSafe(caught).catch_unwind().await.is_err());
        assert_eq!(keys(&redlock), HELD, "the body around it goes on");
        redlock.lock("r").run(async |_: &LockHandle| panic!("second")).await
    };
    let panicked = AssertUnwindSafe(redlock.lock("r").run(body)).catch_unwind().await;
    assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"second"));
    assert_eq!(keys(&redlock), FREE);
    assert!(LockHandle::current().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_dropped_leaves_the_hold_to_the_body_around_it() {
    let redlock = Redlock::in_memory(3);
    let body = async |lock: &LockHandle| {
        let inner = redlock.lock("r").run(async |_: &LockHandle| sleep(60 * SECOND).await);
        assert!(tokio::time::timeout(SECOND, inner).await.is_err());
        sleep(SECOND).await;
        assert!(lock.is_valid() && keys(&redlock) == HELD);
        redlock.lock("r").run(async |_: &LockHandle| sleep(60 * SECOND).await).await
    };
    let outer = redlock.lock("r").run(body);
    assert!(tokio::time::timeout(5 * SECOND, outer).await.is_err());
    sleep(SECOND).await;
    assert_eq!(keys(&redlock), FREE, "and the body around it takes it along");
}

/// A body that was moved out of the body around it still relies on the hold.
#[tokio::test(start_paused = true)]
async fn the_last_body_releases_wherever_it_has_gone() {
    let redlock = Redlock::in_memory(3);
    let (end, ended) = oneshot::channel::<()>();
    let escaped: BoxFuture<'static, _> = {
        let redlock = redlock.clone();
        async move {
            let body = async |lock: &LockHandle| {
                ended.await.unwrap();
                lock.is_valid()
            };
            redlock.lock("r").run(body).await
        }
        .boxed()
    };
    let body = async |_: &LockHandle| {
        let mut escaped = escaped;
        assert!(poll_fn(|cx| Poll::Ready(escaped.poll_unpin(cx).is_pending())).await);
        [escaped]
    };
    let begun = Instant::now();
    let [escaped] = redlock.lock("r").run(body).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO, "it is not waited for");
    let escaped = tokio::spawn(escaped);
    sleep(100 * SECOND).await;
    assert_eq!(keys(&redlock), HELD, "renewed");
    end.send(()).unwrap();
    assert!(escaped.await.unwrap().unwrap());
    assert_eq!(keys(&redlock), FREE);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_wants_more_than_the_hold_has_is_refused() {
    let redlock = Redlock::in_memory(3);
    let body = async |_: &LockHandle| {
        for (request, missing) in [
            (redlock.lock("r").fenced(), "fencing token"),
            (redlock.lock("r").min_hold(2 * SECOND), "min_hold"),
            (redlock.lock("r").ttl(Duration::ZERO), "ttl"),
        ] {
            let error = request.run(async |_: &LockHandle| ()).await.unwrap_err();
            assert!(matches!(error, LockError::Config { .. }), "{error}");
            assert!(error.to_string().contains(missing), "{error}");
        }
        redlock.lock("r").min_hold(SECOND).run(async |_: &LockHandle| ()).await.unwrap();
    };
    redlock.lock("r").min_hold(SECOND).run(body).await.unwrap();
}

/// Any hold would have all of no resources.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_locked_joins_no_hold() {
    let redlock = Redlock::in_memory(3);
    let body = async |_: &LockHandle| {
        let none = redlock.lock_all(Vec::<String>::new());
        none.run(async |_: &LockHandle| panic!("it ran")).await
    };
    let error: LockError = redlock.lock("r").run(body).await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::InvalidResource { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_fenced_request_shows_the_token_of_the_hold_that_it_joins() {
    let redlock = Redlock::in_memory(3);
    let token = |lock: &LockHandle| lock.fencing_token().unwrap();
    let body = async |outer: &LockHandle| {
        let inner = async |inner: &LockHandle| token(inner);
        (token(outer), redlock.lock("r").fenced().run(inner).await.unwrap())
    };
    let (outer, inner) = redlock.lock("r").fenced().run(body).await.unwrap();
    assert_eq!(outer, inner);
}

/// The bodies may join during the grace of a shutdown: they take no new lock, and have to finish.
#[tokio::test(start_paused = true)]
async fn a_body_joins_during_the_grace_of_a_shutdown() {
    let redlock = Redlock::in_memory(3);
    let body = async |_: &LockHandle| {
        let mut shutdown = pin!(redlock.shutdown(60 * SECOND));
        assert!(poll_fn(|cx| Poll::Ready(shutdown.as_mut().poll(cx).is_pending())).await);
        redlock.lock("r").run(async |_: &LockHandle| 7).await
    };
    assert_eq!(redlock.lock("r").run(body).await.unwrap().unwrap(), 7);
}

/// A hold whose guard is a value has no body that a request could be inside of.
#[tokio::test(start_paused = true)]
async fn a_bare_guard_is_not_joined() {
    let redlock = Redlock::in_memory(3);
    let guard: LockGuard = redlock.lock("r").await.unwrap();
    let waits = redlock.lock("r").wait(SECOND).run(async |_: &LockHandle| ());
    assert!(waits.await.unwrap_err().is_held());
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
}

/// Waiters of this client and of others wait for the outermost body.
#[tokio::test(start_paused = true)]
async fn waiters_get_the_lock_after_the_outermost_body() {
    let redlock = Redlock::in_memory(3);
    let other = Redlock::builder().nodes(redlock.memory_nodes()).build().unwrap();
    let inside = Arc::new(AtomicUsize::new(0));
    let waiter = |client: &Redlock| {
        let (client, inside) = (client.clone(), Arc::clone(&inside));
        tokio::spawn(async move {
            let body = async |_: &LockHandle| inside.load(SeqCst);
            client.lock("r").wait(60 * SECOND).run(body).await.unwrap()
        })
    };
    let body = async |_: &LockHandle| {
        let waiters = [waiter(&redlock), waiter(&other)];
        for _ in 0..3 {
            let inner = async |_: &LockHandle| {
                inside.store(1, SeqCst);
                sleep(SECOND).await;
            };
            redlock.lock("r").run(inner).await.unwrap();
            sleep(SECOND).await;
        }
        inside.store(0, SeqCst);
        waiters
    };
    for waiter in redlock.lock("r").run(body).await.unwrap() {
        assert_eq!(waiter.await.unwrap(), 0);
    }
}
