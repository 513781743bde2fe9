//! An order service over gRPC. A layer runs each call under the lock of the order that its metadata
//! names, and an annotation on the service's method locks the customer as well. Refusals are
//! statuses: `ABORTED` while the order is locked elsewhere, `UNAVAILABLE` without a quorum and at
//! shutdown, `INVALID_ARGUMENT` for a call that names no order. The service is written by hand, so
//! that no protoc is needed; with generated code the layer and the annotation look the same.
//!
//! ```sh
//! cargo run --bin tonic-orders
//! grpcurl -plaintext -proto examples/proto/orders.proto -H 'order-id: 7' \
//!     -d '{"customer": 1, "milliseconds": 3000}' localhost:3001 orders.Orders/Place
//! ```

use std::{
    convert::Infallible,
    error::Error,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use redlock_core::{LockHandle, pools, redlock};
use redlock_examples::{
    address, connect,
    orders::{PlaceReply, PlaceRequest},
    told_to_stop,
};
use redlock_tower::{RedlockLayer, extract, grpc};
use tokio::{net::TcpListener, sync::oneshot};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, body::Body, server::NamedService, transport::Server};
use tonic_prost::ProstCodec;
use tower::{Layer, Service, service_fn};

/// How long a call may hold its order, however slowly its client sends the message.
const LONGEST: Duration = Duration::from_secs(60);

/// How long work may go on once the process has been told to stop.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Clone)]
struct Orders;

impl Orders {
    #[redlock(
        resource = "customer:{request.get_ref().customer}",
        wait = "2s",
        lock = customer,
        map_err = grpc::status,
    )]
    async fn place(&self, request: Request<PlaceRequest>) -> Result<Response<PlaceReply>, Status> {
        let order = request.extensions().get::<LockHandle>();
        let locks = order.into_iter().chain([&customer]).map(|lock| lock.resource().to_owned());
        let reply = PlaceReply { locks: locks.collect() };
        let work = Duration::from_millis(request.get_ref().milliseconds.into());
        tokio::time::sleep(work).await;
        Ok(Response::new(reply))
    }
}

/// What tonic-prost-build would write.
impl Service<http::Request<Body>> for Orders {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let orders = self.clone();
        Box::pin(async move {
            if request.uri().path() != "/orders.Orders/Place" {
                return Ok(Status::unimplemented("there is only Place").into_http());
            }
            let method = service_fn(move |request| {
                let orders = orders.clone();
                async move { orders.place(request).await }
            });
            let codec = ProstCodec::<PlaceReply, PlaceRequest>::default();
            Ok(tonic::server::Grpc::new(codec).unary(method, request).await)
        })
    }
}

impl NamedService for Orders {
    const NAME: &'static str = "orders.Orders";
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let redlock = connect().await?;
    pools::install("default", redlock.clone())?;
    let layer =
        RedlockLayer::grpc(redlock, extract::metadata("order-id").prefix("order:").required())
            .wait(Duration::from_secs(2))
            .max_hold(LONGEST);

    let listener = TcpListener::bind(address("127.0.0.1:3001")).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let (stop, stopped) = oneshot::channel::<()>();
    // Around this service alone. Around the server, by `Server::builder().layer(layer)`, it would refuse
    // the calls of health checks and reflection, which name no order.
    let orders = layer.layer(Orders);
    let server = Server::builder().add_service(orders).serve_with_incoming_shutdown(
        TcpListenerStream::new(listener),
        async {
            let _ = stopped.await;
        },
    );
    let server = tokio::spawn(server);

    told_to_stop().await?;
    pools::shutdown(GRACE).await;
    drop(stop);
    // Every response is delivered. A client that never finishes its request is not waited for.
    if let Ok(ended) = tokio::time::timeout(GRACE, server).await {
        ended??;
    }
    Ok(())
}
