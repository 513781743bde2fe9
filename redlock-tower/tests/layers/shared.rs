//! Handlers behind `.shared()` run at the same time, whatever is set after it.

use std::{sync::Arc, time::Duration};

use axum::{Router, body::Body, routing::get};
use futures_util::future::join_all;
use http::Request;
use redlock_core::LockOptions;
use redlock_tower::{RedlockLayer, extract};
use tokio::{sync::Barrier, time::timeout};
use tower::ServiceExt;

use crate::support::redlock;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn readers_of_one_key_are_served_together() {
    let redlock = redlock();
    let layer = || RedlockLayer::http(redlock.clone(), extract::path_param("id")).shared();
    let later = [layer(), layer().wait(SECOND), layer().options(LockOptions::new().ttl(SECOND))];
    for layer in later {
        let together = Arc::new(Barrier::new(2));
        let serve = move || async move { _ = together.wait().await };
        let app = Router::new().route("/{id}", get(serve).layer(layer));
        let asks =
            [(); 2].map(|()| app.clone().oneshot(Request::get("/7").body(Body::empty()).unwrap()));
        for answered in timeout(60 * SECOND, join_all(asks)).await.unwrap() {
            assert_eq!(answered.unwrap().status(), 200);
        }
    }
}
