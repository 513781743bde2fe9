//! `RedlockLayer::new` around any service.

use std::{
    future::ready,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use redlock_core::{LockError, LockHandle, LockOptions};
use redlock_tower::RedlockLayer;
use tower::{Layer, Service, ServiceExt};

use crate::support::{
    ErrorEvents, Witness, answering, current_resource, held_elsewhere, is_free, keys, redlock,
    stop_majority, strict,
};

#[derive(Debug, Clone)]
struct Job {
    id: u64,
}

/// Zero needs no lock.
fn key(job: &Job) -> Option<String> {
    (job.id != 0).then(|| format!("job:{}", job.id))
}

#[tokio::test(start_paused = true)]
async fn a_request_runs_under_the_lock_of_its_key() {
    let redlock = redlock();
    let seen = redlock.clone();
    let service = RedlockLayer::new(redlock.clone(), key).layer(strict(move |job: Job| {
        let (at_call, keys) = (current_resource(), keys(&seen));
        async move { Ok::<_, io::Error>((job.id, at_call, current_resource(), keys)) }
    }));

    let (id, at_call, in_body, keys) = service.oneshot(Job { id: 7 }).await.unwrap();
    assert_eq!(id, 7);
    assert_eq!(at_call.as_deref(), Some("job:7"));
    assert_eq!(in_body.as_deref(), Some("job:7"));
    assert_eq!(keys, ["redlock:job:7"]);
    // At once: the answer comes after the release.
    assert!(is_free(&redlock));
}

/// Neither a request nor a key need be `'static`.
#[tokio::test(start_paused = true)]
async fn a_request_and_its_key_may_be_borrowed() {
    struct Order<'a> {
        id: &'a str,
    }

    fn id<'a>(order: &Order<'a>) -> Option<&'a str> {
        Some(order.id)
    }

    struct Named(String);

    fn name(named: &Named) -> Option<&str> {
        Some(&named.0)
    }

    let text = String::from("42");
    let service = strict(|_: Order<'_>| ready(Ok::<_, io::Error>(current_resource())));
    let service = RedlockLayer::new(redlock(), id).layer(service);
    let lock = service.oneshot(Order { id: &text }).await.unwrap();
    assert_eq!(lock.as_deref(), Some("42"));

    let service = strict(|_: Named| ready(Ok::<_, io::Error>(current_resource())));
    let service = RedlockLayer::new(redlock(), name).layer(service);
    assert_eq!(service.oneshot(Named(text)).await.unwrap().as_deref(), Some("42"));
}

#[tokio::test(start_paused = true)]
async fn no_key_is_no_lock() {
    let redlock = redlock();
    let seen = redlock.clone();
    let service = RedlockLayer::new(redlock, key).layer(strict(move |_: Job| {
        ready(Ok::<_, io::Error>((LockHandle::current().is_some(), is_free(&seen))))
    }));
    assert_eq!(service.oneshot(Job { id: 0 }).await.unwrap(), (false, true));
}

#[tokio::test(start_paused = true)]
async fn one_key_is_one_request_at_a_time_across_clones() {
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let service =
        RedlockLayer::new(redlock(), key).wait(Duration::from_secs(3600)).layer(strict({
            let most = Arc::clone(&most);
            move |_: Job| {
                let (running, most) = (Arc::clone(&running), Arc::clone(&most));
                async move {
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    running.fetch_sub(1, Ordering::SeqCst);
                    Ok::<_, io::Error>(())
                }
            }
        }));

    let calls: Vec<_> =
        (0..10).map(|_| tokio::spawn(service.clone().oneshot(Job { id: 1 }))).collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn other_keys_do_not_wait() {
    let redlock = redlock();
    let _held = held_elsewhere(&redlock, "job:1").await;
    let service = RedlockLayer::new(redlock, key).layer(strict(answering("done")));
    assert_eq!(service.oneshot(Job { id: 2 }).await.unwrap(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_a_lock_error_and_nothing_runs() {
    let redlock = redlock();
    let witness = Witness::of(&redlock);
    let called = witness.clone();
    let service = RedlockLayer::new(redlock.clone(), key).wait(Duration::ZERO).layer(strict(
        move |_: Job| {
            let _running = called.start();
            ready(Ok::<_, io::Error>(()))
        },
    ));

    let held = held_elsewhere(&redlock, "job:1").await;
    let error = service.clone().oneshot(Job { id: 1 }).await.unwrap_err();
    assert!(error.downcast_ref::<LockError>().unwrap().is_held(), "{error}");
    held.release().await.unwrap();

    stop_majority(&redlock);
    let error = service.clone().oneshot(Job { id: 1 }).await.unwrap_err();
    assert!(error.downcast_ref::<LockError>().unwrap().is_unavailable(), "{error}");

    redlock.shutdown(Duration::ZERO).await;
    let error = service.clone().oneshot(Job { id: 1 }).await.unwrap_err();
    let error = error.downcast_ref::<LockError>().unwrap();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");

    assert_eq!(witness.started(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unusable_key_is_refused() {
    let service = RedlockLayer::new(redlock(), |key: &String| Some(key.clone()))
        .layer(strict(answering("done")));
    for key in [String::new(), "x".repeat(1025), "a\nb".to_owned()] {
        let error = service.clone().oneshot(key).await.unwrap_err();
        let error = error.downcast_ref::<LockError>().unwrap();
        assert!(matches!(error, LockError::InvalidResource { .. }), "{error}");
    }
    assert_eq!(service.oneshot("x".repeat(1024)).await.unwrap(), "done");
}

#[tokio::test(start_paused = true)]
async fn the_error_of_the_service_goes_through_and_the_lock_is_released() {
    let redlock = redlock();
    let service = RedlockLayer::new(redlock.clone(), key)
        .layer(strict(|_: Job| ready(Err::<(), _>(io::Error::other("no more paper")))));
    let error = service.oneshot(Job { id: 1 }).await.unwrap_err();
    assert_eq!(error.downcast_ref::<io::Error>().unwrap().to_string(), "no more paper");
    assert!(is_free(&redlock));
}

#[tokio::test(start_paused = true)]
async fn the_release_never_replaces_the_answer() {
    let redlock = redlock();
    let nodes = redlock.clone();
    let service = RedlockLayer::new(redlock, key).layer(strict(move |_: Job| {
        // No node is left to confirm the release.
        stop_majority(&nodes);
        ready(Ok::<_, io::Error>("done"))
    }));
    assert_eq!(service.oneshot(Job { id: 1 }).await.unwrap(), "done");
}

#[tokio::test(start_paused = true)]
async fn settings_reach_the_lock_and_the_later_call_wins() {
    let validity = strict(|_: Job| {
        ready(Ok::<_, io::Error>(LockHandle::current().map(|lock| lock.validity())))
    });
    let of = |layer: RedlockLayer<fn(&Job) -> Option<String>>| {
        let service = layer.layer(validity.clone());
        async move { service.oneshot(Job { id: 1 }).await.unwrap().unwrap() }
    };
    let layer = || RedlockLayer::new(redlock(), key as fn(&Job) -> Option<String>);

    let client = of(layer()).await;
    assert!((Duration::from_secs(25)..Duration::from_secs(30)).contains(&client), "{client:?}");

    let own = of(layer().ttl(Duration::from_secs(10))).await;
    assert!((Duration::from_secs(8)..Duration::from_secs(10)).contains(&own), "{own:?}");

    let options = LockOptions::new().ttl(Duration::from_secs(5)).wait(Duration::ZERO);
    let later = of(layer().ttl(Duration::from_secs(10)).options(options).retry_count(1)).await;
    assert!((Duration::from_secs(4)..Duration::from_secs(5)).contains(&later), "{later:?}");
}

#[tokio::test(start_paused = true)]
async fn retries_are_limited() {
    let redlock = redlock();
    let _held = held_elsewhere(&redlock, "job:1").await;
    let service = RedlockLayer::new(redlock, key)
        .wait(Duration::from_secs(3600))
        .retry_count(2)
        .layer(strict(answering("done")));
    let error = service.oneshot(Job { id: 1 }).await.unwrap_err();
    match error.downcast_ref::<LockError>().unwrap() {
        LockError::Held { attempts, .. } => assert_eq!(*attempts, 3),
        other => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_setting_that_cannot_work_is_an_error_of_each_request() {
    let events = ErrorEvents::watch();
    let layer = RedlockLayer::new(redlock(), key).ttl(Duration::from_millis(1));
    let mut service = layer.layer(strict(answering("done")));
    for _ in 0..2 {
        let error = service.ready().await.unwrap().call(Job { id: 1 }).await.unwrap_err();
        let error = error.downcast_ref::<LockError>().unwrap();
        assert!(matches!(error, LockError::Config { .. }), "{error}");
    }
    // The caller has the error: whether it is an event is for the caller to know.
    assert_eq!(events.count(), 0);
}
