//! Layers around one handler, and bodies in it, may have one key: each joins the lock around it, and the
//! outermost releases it.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use redlock_core::{LockError, LockHandle, Redlock};
use redlock_tower::{BoxError, RedlockLayer, extract};
use tokio::time::{Instant, sleep};
use tower::{Layer, ServiceExt};

use crate::support::{another, freed, is_free, keys, redlock, strict};

/// Longer than any request waits for its lock.
const LONG: Duration = Duration::from_secs(60);

/// What an annotated function does: a body, with another one inside.
async fn nested(locks: &Redlock) -> Result<Vec<String>, LockError> {
    let inside = async |lock: &LockHandle| {
        sleep(LONG).await;
        assert!(lock.is_valid());
        assert!(locks.lock("/").await.unwrap_err().is_held());
        keys(locks)
    };
    locks.lock("/").run(async |_: &LockHandle| locks.lock("/").run(inside).await).await?
}

#[tokio::test(start_paused = true)]
async fn a_layer_around_a_layer_around_bodies_is_one_lock() {
    let locks = redlock();
    let other = another(&locks);
    let handler = locks.clone();
    let service = strict(move |_: Request<()>| {
        let locks = handler.clone();
        async move {
            let held = nested(&locks).await.unwrap();
            assert!(!is_free(&locks), "it is the layers' lock, too");
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(held.join(","))))
        }
    });
    let inner = RedlockLayer::http(locks.clone(), extract::uri_path()).layer(service);
    let outer = RedlockLayer::new(locks.clone(), |_: &Request<()>| Some("/")).layer(inner);
    let call = tokio::spawn(outer.oneshot(Request::new(())));
    sleep(LONG / 2).await;
    assert!(other.try_lock("/").await.unwrap_err().is_held());
    let response: Result<_, BoxError> = call.await.unwrap();
    assert!(is_free(&locks));
    assert_eq!(response.unwrap().into_body().collect().await.unwrap().to_bytes(), "redlock:/");
}

/// The body of the response is the last that relies on the lock.
#[tokio::test(start_paused = true)]
async fn a_lock_that_a_response_body_joined_stands_until_its_end() {
    let locks = redlock();
    let service = strict(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("done")))
    });
    let http = || RedlockLayer::http(locks.clone(), extract::uri_path());
    let service = http().layer(http().hold_until_body_end().layer(service));
    let begun = Instant::now();
    let response = service.oneshot(Request::new(())).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO, "the outer layer waits for no body");
    sleep(LONG).await;
    assert!(!is_free(&locks), "renewed");
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "done");
    assert!(is_free(&locks));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_inside_of_a_body_leaves_the_lock_to_the_body() {
    let locks = redlock();
    let handler = locks.clone();
    let service = RedlockLayer::new(locks.clone(), |_: &()| Some("/")).layer(strict(move |()| {
        let locks = handler.clone();
        async move { nested(&locks).await.map(drop) }
    }));
    let body = async |lock: &LockHandle| {
        assert!(tokio::time::timeout(LONG / 2, service.oneshot(())).await.is_err());
        sleep(LONG).await;
        assert!(lock.is_valid() && !is_free(&locks));
    };
    locks.lock("/").run(body).await.unwrap();
    freed(&locks).await;
}
