//! An order service over HTTP. A layer runs each `POST /orders/{id}` under the lock of its order,
//! an annotation locks the customer of a `POST /refunds/{customer}`, and another keeps one
//! reconciliation running in the whole fleet. At Ctrl-C or SIGTERM it takes no new work, lets what
//! runs finish for five seconds, answers every request and leaves no lock behind. The body of a
//! request is the number of milliseconds that its work takes.
//!
//! ```sh
//! REDLOCK_NODES=redis://127.0.0.1:6379 cargo run --bin axum-orders
//! curl -i -d 3000 localhost:3000/orders/7 & sleep 0.1; curl -i -d 10 localhost:3000/orders/7
//! ```

use std::{error::Error, future::IntoFuture, time::Duration};

use axum::{Router, extract::Path, http::Method, routing::post};
use redlock_core::{LockError, LockHandle, pools, redlock};
use redlock_examples::{address, connect, told_to_stop};
use redlock_tower::{RedlockLayer, extract, http::LockRejection};
use tokio::{net::TcpListener, sync::oneshot};

/// How long a request may hold its order, however slowly its client sends the body.
const LONGEST: Duration = Duration::from_secs(60);

/// How long work may go on once the process has been told to stop.
const GRACE: Duration = Duration::from_secs(5);

async fn work(milliseconds: &str) {
    tokio::time::sleep(Duration::from_millis(milliseconds.trim().parse().unwrap_or(100))).await;
}

/// Runs under the lock that the layer took. The handle shows it, and is optional.
async fn place_order(lock: LockHandle, body: String) -> String {
    work(&body).await;
    format!("placed under {} with {} votes\n", lock.resource(), lock.votes())
}

#[redlock(resource = "customer:{customer}", ttl = "10s", wait = "2s")]
async fn refund(Path(customer): Path<u64>, body: String) -> Result<String, LockRejection> {
    work(&body).await;
    Ok(format!("refunded customer {customer}\n"))
}

/// One replica of the service does this; the others wait for their turn.
#[redlock(resource = "reconciliation", ttl = "10s", wait = "365d")]
async fn reconcile() -> Result<(), LockError> {
    println!("this replica reconciles");
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Reconciles whenever this replica may, until it shuts down. An outage of the nodes ends one turn, and no more.
async fn keep_reconciling() {
    loop {
        match reconcile().await {
            Err(LockError::ShuttingDown { .. }) => return,
            Err(error) => println!("the reconciliation is interrupted: {error}"),
            Ok(()) => {}
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let redlock = connect().await?;
    pools::install("default", redlock.clone())?;
    let layer = RedlockLayer::http(redlock, extract::path_param("id").prefix("order:"))
        .methods([Method::POST])
        .wait(Duration::from_secs(2))
        .max_hold(LONGEST);
    let app = Router::new()
        .route("/orders/{id}", post(place_order))
        .route_layer(layer)
        .route("/refunds/{customer}", post(refund));

    let listener = TcpListener::bind(address("127.0.0.1:3000")).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, app).with_graceful_shutdown(async {
        let _ = stopped.await;
    });
    let server = tokio::spawn(server.into_future());
    let background = tokio::spawn(keep_reconciling());

    told_to_stop().await?;
    println!("stopping");
    // No new locks: requests that come now are refused. What still runs after the grace period is
    // dropped.
    pools::shutdown(GRACE).await;
    drop(stop); // no new connections
    // Every response is delivered. A client that still sends its request, before any handler has it, is not waited for.
    if let Ok(ended) = tokio::time::timeout(GRACE, server).await {
        ended??;
    }
    background.await?;
    Ok(())
}
