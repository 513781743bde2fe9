//! Requests that end early: dropped, or by a panic.

use std::{
    future::{Ready, pending, poll_fn},
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use redlock_tower::RedlockLayer;
use tower::{Layer, Service, ServiceExt};
use tower_test::{assert_request_eq, mock};

use crate::support::{Witness, eventually, freed, held_elsewhere, is_free, keys, redlock, strict};

#[tokio::test(start_paused = true)]
async fn dropped_before_it_was_polled_it_did_nothing() {
    let redlock = redlock();
    let witness = Witness::of(&redlock);
    let called = witness.clone();
    let mut service = RedlockLayer::new(redlock.clone(), |key: &&'static str| Some(*key)).layer(
        strict(move |_: &str| {
            let running = called.start();
            async move {
                drop(running);
                Ok::<_, io::Error>(())
            }
        }),
    );
    drop(service.ready().await.unwrap().call("job"));
    assert_eq!(witness.started(), 0);
    assert!(is_free(&redlock));
}

#[tokio::test(start_paused = true)]
async fn dropped_while_it_waits_for_the_lock_it_never_runs_and_leaves_no_key() {
    let redlock = redlock();
    let held = held_elsewhere(&redlock, "job").await;
    let layer = RedlockLayer::new(redlock.clone(), |key: &&'static str| Some(*key));
    let (mut service, mut inner) = mock::spawn_layer::<&str, &str, _>(layer);

    tokio_test::assert_ready_ok!(service.poll_ready());
    let waited = tokio::time::timeout(Duration::from_secs(1), service.call("job")).await;
    assert!(waited.is_err(), "{waited:?}");

    held.release().await.unwrap();
    freed(&redlock).await;
    // Long enough for a waiter that was still there.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(is_free(&redlock));
    drop(service);
    assert!(inner.next_request().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn dropped_while_it_runs_the_service_goes_first_and_then_the_lock() {
    let redlock = redlock();
    let witness = Witness::of(&redlock);
    let started = witness.clone();
    let service = RedlockLayer::new(redlock.clone(), |key: &&'static str| Some(*key)).layer(
        strict(move |_: &str| {
            let running = started.start();
            async move {
                let _running = running;
                pending::<io::Result<()>>().await
            }
        }),
    );

    let call = tokio::spawn(service.oneshot("job"));
    eventually("the service runs", || witness.started() == 1).await;
    assert_eq!(keys(&redlock), ["redlock:job"]);
    call.abort();
    freed(&redlock).await;
    witness.assert_dropped_under_its_lock();
}

#[tokio::test(start_paused = true)]
async fn finished_the_future_of_the_service_goes_before_the_lock() {
    let redlock = redlock();
    let witness = Witness::of(&redlock);
    let started = witness.clone();
    // Unlike an async block, it keeps what it has until it is dropped.
    struct Kept<T>(#[allow(dead_code)] T);
    impl<T> Future for Kept<T> {
        type Output = io::Result<()>;
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
            Poll::Ready(Ok(()))
        }
    }
    RedlockLayer::new(redlock.clone(), |key: &&'static str| Some(*key))
        .layer(strict(move |_: &str| Kept(started.start())))
        .oneshot("job")
        .await
        .unwrap();
    witness.assert_dropped_under_its_lock();
}

#[tokio::test(start_paused = true)]
async fn a_panic_goes_through_and_the_lock_is_released() {
    let redlock = redlock();
    let layer = RedlockLayer::new(redlock.clone(), |key: &&'static str| Some(*key));

    let in_body = strict(|_: &str| poll_fn(|_| -> Poll<io::Result<()>> { panic!("in the body") }));
    let panic = tokio::spawn(layer.layer(in_body).oneshot("job")).await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref(), Some(&"in the body"));
    freed(&redlock).await;

    let in_call = strict(|_: &str| -> Ready<io::Result<()>> { panic!("in the call") });
    let panic = tokio::spawn(layer.layer(in_call).oneshot("job")).await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref(), Some(&"in the call"));
    freed(&redlock).await;
}

#[tokio::test(start_paused = true)]
async fn a_mocked_service_that_is_dropped_unanswered_frees_the_lock() {
    let redlock = redlock();
    let layer = RedlockLayer::new(redlock.clone(), |key: &&'static str| Some(*key));
    let (mut service, mut inner) = mock::spawn_layer::<&str, &str, _>(layer);

    tokio_test::assert_ready_ok!(service.poll_ready());
    let call = tokio::spawn(service.call("job"));
    let unanswered = assert_request_eq!(inner, "job");
    assert!(!is_free(&redlock));
    drop(unanswered);
    call.await.unwrap().unwrap_err();
    assert!(is_free(&redlock));
}
