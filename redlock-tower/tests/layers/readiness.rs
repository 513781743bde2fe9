//! Nothing is locked before a request is there, and the instance that was ready is the one called.

use std::{future::ready, time::Duration};

use redlock_tower::RedlockLayer;
use tokio_test::{assert_pending, assert_ready_ok};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use tower_test::{assert_request_eq, mock};

use crate::support::{held_elsewhere, is_free, keys, redlock, strict};

#[tokio::test(start_paused = true)]
async fn being_ready_takes_no_lock() {
    let redlock = redlock();
    let layer = RedlockLayer::new(redlock.clone(), |key: &&'static str| Some(*key));
    let (mut service, mut inner) = mock::spawn_layer::<&str, &str, _>(layer);

    assert_ready_ok!(service.poll_ready());
    assert!(is_free(&redlock));

    let response = tokio::spawn(service.call("job"));
    let inner = assert_request_eq!(inner, "job");
    assert_eq!(keys(&redlock), ["redlock:job"]);
    inner.send_response("done");
    assert_eq!(response.await.unwrap().unwrap(), "done");
    assert!(is_free(&redlock));
}

#[tokio::test(start_paused = true)]
async fn being_ready_waits_for_the_service_and_not_for_the_lock() {
    let redlock = redlock();
    let _held = held_elsewhere(&redlock, "job").await;
    let layer = RedlockLayer::new(redlock, |key: &&'static str| Some(*key));
    let (mut service, mut inner) = mock::spawn_layer::<&str, &str, _>(layer);

    inner.allow(0);
    assert_pending!(service.poll_ready());
    inner.allow(1);
    assert!(service.is_woken());
    assert_ready_ok!(service.poll_ready());
}

#[tokio::test(start_paused = true)]
async fn the_error_of_being_ready_is_the_services_own() {
    let layer = RedlockLayer::new(redlock(), |key: &&'static str| Some(*key));
    let (mut service, mut inner) = mock::spawn_layer::<&str, &str, _>(layer);

    inner.send_error("out of order");
    let error = tokio_test::assert_ready_err!(service.poll_ready());
    assert_eq!(error.to_string(), "out of order");
}

#[tokio::test(start_paused = true)]
async fn the_instance_that_was_ready_is_called_each_time() {
    let layer = RedlockLayer::new(redlock(), |key: &String| Some(key.clone()));
    let echo = strict(|key: String| ready(Ok::<_, std::io::Error>(key)));
    let mut service = layer.layer(echo);

    for job in ["one", "two", "three"] {
        let response = service.ready().await.unwrap().call(job.to_owned()).await.unwrap();
        assert_eq!(response, job);
    }
}

/// A limit hands its permit out in `poll_ready` and panics when called without one.
#[tokio::test(start_paused = true)]
async fn a_concurrency_limit_inside_keeps_its_count() {
    let redlock = redlock();
    let service = ServiceBuilder::new()
        .layer(RedlockLayer::new(redlock.clone(), |key: &String| Some(key.clone())))
        .concurrency_limit(1)
        .service(strict(|key: String| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, std::io::Error>(key)
        }));

    let calls = ["one", "two", "three"].map(|key| {
        let mut service = service.clone();
        tokio::spawn(async move { service.ready().await?.call(key.to_owned()).await })
    });
    for (call, key) in calls.into_iter().zip(["one", "two", "three"]) {
        assert_eq!(call.await.unwrap().unwrap(), key);
    }
    assert!(is_free(&redlock));
}
