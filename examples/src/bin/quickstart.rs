//! A flash sale: 400 buyers want 100 pieces, over HTTP from a real axum server. First nothing
//! guards the stock, then an annotated handler does, then a layer on the route. Half-way through
//! each guarded sale two of the five in-memory nodes stop, and it goes on. With
//! `REDLOCK_NODES=redis://..,redis://..` it runs on those and stops nothing.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    routing::post,
};
use indicatif::ProgressBar;
use redlock_core::{Redlock, pools, redlock};
use redlock_tower::{RedlockLayer, extract, http::LockRejection};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

const BUYERS: usize = 400;
const STOCK: i64 = 100;
/// 400 buyers take the lock one after the other. On a busy machine the last of them waits for longer than the
/// default of 5 s.
const WAIT: Duration = Duration::from_secs(120);

type Stock = Arc<AtomicI64>;

/// Read, think, write: what a service does with a database, and what races.
async fn sell(stock: &AtomicI64) -> Result<StatusCode, LockRejection> {
    let left = stock.load(SeqCst);
    tokio::time::sleep(Duration::from_millis(1)).await;
    if left <= 0 {
        return Ok(StatusCode::GONE);
    }
    stock.store(left - 1, SeqCst);
    Ok(StatusCode::OK)
}

async fn unguarded(State(stock): State<Stock>) -> Result<StatusCode, LockRejection> {
    sell(&stock).await
}

#[redlock(resource = "stock:{item}", wait = WAIT)]
async fn annotated(
    Path(item): Path<String>,
    State(stock): State<Stock>,
) -> Result<StatusCode, LockRejection> {
    sell(&stock).await
}

fn app(redlock: &Redlock) -> Router<Stock> {
    let layer =
        RedlockLayer::http(redlock.clone(), extract::path_param("item").prefix("sale:")).wait(WAIT);
    Router::new()
        .route("/layered/{item}", post(unguarded))
        .route_layer(layer)
        .route("/unguarded/{item}", post(unguarded))
        .route("/annotated/{item}", post(annotated))
}

/// Buys one piece; true when the shop said that it was sold.
async fn buy(port: u16, route: &'static str) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!(
        "POST /{route}/lamp HTTP/1.1\r\nhost: shop\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}

/// One sale, from all buyers at once: how many pieces were sold.
async fn sale(
    redlock: &Redlock,
    route: &'static str,
    bar: &ProgressBar,
) -> Result<usize, Box<dyn Error>> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let port = listener.local_addr()?.port();
    let stock = Arc::new(AtomicI64::new(STOCK));
    let server = tokio::spawn(axum::serve(listener, app(redlock).with_state(stock)).into_future());
    let mut buyers: JoinSet<_> = (0..BUYERS).map(|_| buy(port, route)).collect();
    let (mut sold, mut served) = (0, 0);
    while let Some(bought) = buyers.join_next().await {
        sold += usize::from(bought??);
        served += 1;
        bar.inc(1);
        if served == BUYERS / 2 && route != "unguarded" {
            redlock.memory_nodes().iter().take(2).for_each(|node| node.stop());
        }
    }
    redlock.memory_nodes().iter().for_each(|node| node.start());
    server.abort();
    Ok(sold)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let redlock = redlock_examples::connect().await?;
    pools::install("default", redlock.clone())?;
    let bar = ProgressBar::new(3 * BUYERS as u64);
    let mut rows = Vec::new();
    for route in ["unguarded", "annotated", "layered"] {
        let begun = Instant::now();
        let sold = sale(&redlock, route, &bar).await?;
        rows.push((route, sold, begun.elapsed()));
    }
    bar.finish_and_clear();
    println!("{:<10} {:>6} {:>6} {:>9} {:>8}", "sale", "stock", "sold", "oversold", "seconds");
    for (route, sold, took) in rows {
        let oversold = sold.saturating_sub(STOCK as usize);
        println!("{route:<10} {STOCK:>6} {sold:>6} {oversold:>9} {:>8.2}", took.as_secs_f64());
    }
    redlock.shutdown(Duration::from_secs(1)).await;
    Ok(())
}
