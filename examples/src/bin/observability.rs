//! What an operator sees of locks: an order service whose metrics Prometheus scrapes at `/metrics`,
//! whose locks are shown at `/locks`, and whose traces go to an OpenTelemetry collector.
//! `examples/grafana/redlock.json` is a dashboard of the metrics. The body of a request is the number of milliseconds that its work takes.
//!
//! ```sh
//! REDLOCK_NODES=redis://127.0.0.1:6379 OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317 \
//!     cargo run --bin observability
//! curl -d 50 localhost:3000/orders/7; curl localhost:3000/metrics
//! ```

use std::{
    error::Error,
    future::IntoFuture,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    Router,
    http::Method,
    routing::{get, post},
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::trace::SdkTracerProvider;
use redlock_core::{LockError, pools, redlock};
use redlock_examples::{address, connect, told_to_stop};
use redlock_tower::{RedlockLayer, console, extract};
use tokio::{net::TcpListener, sync::oneshot};
use tracing_subscriber::{EnvFilter, Layer, filter::LevelFilter, prelude::*};

/// From a lock in one process to the longest that an order is held, in seconds.
const BUCKETS: [f64; 13] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0];

/// How long a request may hold its order, however slowly its client sends the body.
const LONGEST: Duration = Duration::from_secs(60);

/// How long work may go on once the process has been told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Every metric in seconds becomes a histogram with the same buckets, so that Grafana can add up
/// those of several replicas.
fn install_metrics() -> Result<PrometheusHandle, Box<dyn Error>> {
    let seconds = Matcher::Suffix("_seconds".to_owned());
    let ahead = Matcher::Full("redlock_queue_ahead".to_owned());
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(seconds, &BUCKETS)?
        .set_buckets_for_metric(ahead, &[0.0, 1.0, 2.0, 5.0, 10.0, 100.0, 1000.0])?;
    Ok(builder.install_recorder()?)
}

/// Warnings go to stderr, and what `RUST_LOG` asks for. With `OTEL_EXPORTER_OTLP_ENDPOINT`, all spans of locks go there.
fn install_traces() -> Result<Option<SdkTracerProvider>, Box<dyn Error>> {
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_filter(
        EnvFilter::builder().with_default_directive(LevelFilter::WARN.into()).from_env_lossy(),
    );
    if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_none() {
        tracing_subscriber::registry().with(log).init();
        return Ok(None);
    }
    let exporter = SpanExporter::builder().with_tonic().build()?;
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
    let spans = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("orders"))
        .with_filter(EnvFilter::new("redlock_core=debug"));
    tracing_subscriber::registry().with(log).with(spans).init();
    Ok(Some(provider))
}

async fn work(milliseconds: String) -> &'static str {
    tokio::time::sleep(Duration::from_millis(milliseconds.trim().parse().unwrap_or(10))).await;
    "placed\n"
}

/// Its label is its template, whatever the tick. All replicas count ticks by the wall clock.
#[redlock(resource = "report:{tick}", skip_if_held, min_hold = "5s")]
async fn report(tick: u64) -> Result<(), LockError> {
    tracing::info!(tick, "this replica reports");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Before the client: what is described to a recorder has to find it.
    let metrics = install_metrics()?;
    let traces = install_traces()?;
    let redlock = connect().await?;
    pools::install("default", redlock.clone())?;

    // A label for all orders: a label for each would be a time series for each.
    let layer = RedlockLayer::http(redlock.clone(), extract::path_param("id").prefix("order:"))
        .methods([Method::POST])
        .max_hold(LONGEST)
        .label("order");
    let app = Router::new()
        .route("/orders/{id}", post(work))
        .route_layer(layer)
        // For operators: a real service has these on a port of their own.
        .route("/metrics", get(async move || metrics.render()))
        .nest("/locks", console::router(redlock));
    let reports = tokio::spawn(async {
        loop {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let tick = now.as_secs() / 5;
            if let Err(error) = report(tick).await {
                tracing::warn!("no report: {error}");
            }
            let next = UNIX_EPOCH + Duration::from_secs((tick + 1) * 5);
            tokio::time::sleep(next.duration_since(SystemTime::now()).unwrap_or_default()).await;
        }
    });

    let listener = TcpListener::bind(address("127.0.0.1:3000")).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, app).with_graceful_shutdown(async {
        let _ = stopped.await;
    });
    let server = tokio::spawn(server.into_future());

    told_to_stop().await?;
    reports.abort();
    pools::shutdown(GRACE).await; // no new locks; what still runs after the grace period is dropped
    drop(stop); // no new connections
    // Every response is delivered. A client that never finishes its request is not waited for.
    if let Ok(ended) = tokio::time::timeout(GRACE, server).await {
        ended??;
    }
    if let Some(traces) = traces {
        traces.shutdown()?; // sends the last spans
    }
    Ok(())
}
