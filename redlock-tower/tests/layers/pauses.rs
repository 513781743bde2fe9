//! A process that stands still, as on a machine with too much to do. The nodes in this process
//! stand still with it, and their commands run out of time although nothing is wrong with them.

use std::time::Duration;

use axum::{Router, body::Body, extract::Request, http::StatusCode, routing::get};
use futures_util::future::join_all;
use redlock_tower::{RedlockLayer, extract};
use tower::ServiceExt;

use crate::support::redlock;

/// Longer than `node_timeout`.
const PAUSE: Duration = Duration::from_millis(70);

async fn status(app: &Router, id: usize) -> StatusCode {
    let request = Request::get(format!("/orders/{id}")).body(Body::empty()).unwrap();
    app.clone().oneshot(request).await.unwrap().status()
}

/// The whole runtime stands still once this has yielded `yields` times.
async fn pause_after(yields: usize) {
    for _ in 0..yields {
        tokio::task::yield_now().await;
    }
    std::thread::sleep(PAUSE);
}

/// An attempt that a pause spoils is made again while there is time: the pause costs no request.
#[tokio::test]
async fn a_pause_refuses_no_request_that_may_wait() {
    let layer = RedlockLayer::http(redlock(), extract::path_param("id").prefix("order:"));
    let app = Router::new().route("/orders/{id}", get(async || "done")).route_layer(layer);
    // The first pause comes before the nodes are connected.
    for yields in 0..8 {
        let (alone, ()) = tokio::join!(status(&app, 1), pause_after(yields));
        assert_eq!(alone, StatusCode::OK, "a pause after {yields} turns of the runtime");
    }
    for yields in 0..8 {
        let crowd = join_all((0..30).map(|id| status(&app, id)));
        let (crowd, ()) = tokio::join!(crowd, pause_after(yields));
        assert_eq!(crowd, [StatusCode::OK; 30], "a pause after {yields} turns of the runtime");
    }
}
