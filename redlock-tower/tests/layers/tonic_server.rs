//! The grpc layer around a real tonic server and before a real tonic client, over a pipe.

use std::{
    convert::Infallible,
    future::{Future, Ready, pending, ready},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, BufMut};
use http::{Request, uri::PathAndQuery};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use redlock_core::{LockHandle, Redlock};
use redlock_tower::{RedlockLayer, extract, grpc::Grpc};
use tokio::sync::mpsc;
use tokio_stream::{StreamExt, wrappers::UnboundedReceiverStream};
use tonic::{
    Code, Status, Streaming,
    body::Body,
    client::GrpcService,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    server::{NamedService, ServerStreamingService, UnaryService},
    transport::{Channel, Endpoint, Server, server::Router},
};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, layer::util::Stack};

use crate::{
    grpc::assert_lost,
    support::{Witness, eventually, freed, held_elsewhere, is_free, patient},
};

/// Messages are plain text.
#[derive(Clone, Copy, Default)]
struct Text;

impl Codec for Text {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Text {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, item: String, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(item.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        String::from_utf8(bytes.to_vec()).map(Some).map_err(|e| Status::internal(e.to_string()))
    }
}

type Reply<T> = Result<tonic::Response<T>, Status>;
type Items = UnboundedReceiverStream<Result<String, Status>>;

/// `test.Orders`: `Place` answers with the resource of its lock, `Stick` never does, `Watch`
/// streams what the test gives it.
#[derive(Clone)]
struct Orders {
    witness: Witness,
    items: Arc<Mutex<Option<Items>>>,
}

impl NamedService for Orders {
    const NAME: &'static str = "test.Orders";
}

impl UnaryService<String> for Orders {
    type Response = String;
    type Future = Ready<Reply<String>>;

    fn call(&mut self, request: tonic::Request<String>) -> Self::Future {
        let lock = request.extensions().get::<LockHandle>();
        let resource = lock.map_or("no lock", LockHandle::resource).to_owned();
        ready(Ok(tonic::Response::new(resource)))
    }
}

impl ServerStreamingService<String> for Orders {
    type Response = String;
    type ResponseStream = Items;
    type Future = Ready<Reply<Items>>;

    fn call(&mut self, _: tonic::Request<String>) -> Self::Future {
        ready(Ok(tonic::Response::new(self.items.lock().unwrap().take().unwrap())))
    }
}

impl Service<Request<Body>> for Orders {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(Text);
            Ok(match request.uri().path() {
                "/test.Orders/Place" => grpc.unary(this, request).await,
                "/test.Orders/Watch" => grpc.server_streaming(this, request).await,
                "/test.Orders/Stick" => {
                    let _running = this.witness.start();
                    pending().await
                }
                other => Status::unimplemented(other).into_http(),
            })
        })
    }
}

/// A server and what its handlers do, and a client of it.
struct Setup {
    redlock: Redlock,
    witness: Witness,
    sender: mpsc::UnboundedSender<Result<String, Status>>,
    orders: Orders,
}

impl Setup {
    fn new() -> Self {
        let redlock = patient();
        let witness = Witness::of(&redlock);
        let (sender, receiver) = mpsc::unbounded_channel();
        let items = Arc::new(Mutex::new(Some(UnboundedReceiverStream::new(receiver))));
        let orders = Orders { witness: witness.clone(), items };
        Self { redlock, witness, sender, orders }
    }
}

/// Serves one connection, and gives a client at its other end.
async fn connect<L, B>(router: Router<L>) -> tonic::client::Grpc<Channel>
where
    L: Layer<tonic::service::Routes> + Send + 'static,
    L::Service: Service<Request<Body>, Response = http::Response<B>> + Clone + Send + 'static,
    <L::Service as Service<Request<Body>>>::Future: Send,
    <L::Service as Service<Request<Body>>>::Error: Into<tower::BoxError> + Send,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<tower::BoxError>,
{
    tonic::client::Grpc::new(channel(router).await)
}

/// As [`connect`], without the client.
async fn channel<L, B>(router: Router<L>) -> Channel
where
    L: Layer<tonic::service::Routes> + Send + 'static,
    L::Service: Service<Request<Body>, Response = http::Response<B>> + Clone + Send + 'static,
    <L::Service as Service<Request<Body>>>::Future: Send,
    <L::Service as Service<Request<Body>>>::Error: Into<tower::BoxError> + Send,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<tower::BoxError>,
{
    let (client, server) = tokio::io::duplex(64 * 1024);
    let incoming = tokio_stream::once(Ok::<_, std::io::Error>(server));
    tokio::spawn(router.serve_with_incoming(incoming.chain(tokio_stream::pending())));
    let mut client = Some(TokioIo::new(client));
    let connector = tower::service_fn(move |_| ready(client.take().ok_or("one connection only")));
    Endpoint::from_static("http://here").connect_with_connector(connector).await.unwrap()
}

fn call(order: Option<&'static str>) -> tonic::Request<String> {
    let mut request = tonic::Request::new(String::new());
    if let Some(order) = order {
        request.metadata_mut().insert("order-id", order.parse().unwrap());
    }
    request
}

async fn unary<T, B>(
    mut client: tonic::client::Grpc<T>,
    method: &'static str,
    order: Option<&'static str>,
) -> Result<String, Status>
where
    T: GrpcService<Body, ResponseBody = B>,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<tower::BoxError>,
{
    assert!(client.ready().await.is_ok(), "the connection is gone");
    let path = PathAndQuery::from_static(method);
    client.unary(call(order), path, Text).await.map(tonic::Response::into_inner)
}

async fn watch(mut client: tonic::client::Grpc<Channel>) -> Streaming<String> {
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/test.Orders/Watch");
    client.server_streaming(call(Some("42")), path, Text).await.unwrap().into_inner()
}

type ByOrder = RedlockLayer<extract::Header, Grpc>;

fn by_order() -> extract::Header {
    extract::metadata("order-id").prefix("order:")
}

/// Calls under the lock of their order, and a client for them.
async fn locked_by_order(
    set: impl FnOnce(ByOrder) -> ByOrder,
) -> (Setup, tonic::client::Grpc<Channel>) {
    let setup = Setup::new();
    let layer = set(RedlockLayer::grpc(setup.redlock.clone(), by_order()));
    let router = Server::builder().layer(layer).add_service(setup.orders.clone());
    let client = connect(router).await;
    (setup, client)
}

#[tokio::test]
async fn a_call_runs_under_the_lock_of_its_metadata() {
    let (setup, client) = locked_by_order(|layer| layer.wait(Duration::ZERO)).await;

    let place = "/test.Orders/Place";
    assert_eq!(unary(client.clone(), place, Some("42")).await.unwrap(), "order:42");
    assert_eq!(unary(client.clone(), place, None).await.unwrap(), "no lock");
    assert!(is_free(&setup.redlock));

    let _held = held_elsewhere(&setup.redlock, "order:42").await;
    let status = unary(client.clone(), place, Some("42")).await.unwrap_err();
    assert_eq!(status.code(), Code::Aborted);
    assert_eq!(unary(client, place, Some("43")).await.unwrap(), "order:43");
}

#[tokio::test]
async fn the_layer_goes_into_a_stack_and_around_one_service() {
    let setup = Setup::new();
    let layer = RedlockLayer::grpc(setup.redlock.clone(), extract::grpc_method().prefix("call:"));
    let place = "/test.Orders/Place";

    let stack = ServiceBuilder::new().layer(layer.clone()).into_inner();
    let stacked = Server::builder().layer(stack).add_service(setup.orders.clone());
    let stacked: Router<Stack<Stack<_, _>, _>> = stacked;
    let client = connect(stacked).await;
    assert_eq!(unary(client, place, None).await.unwrap(), "call:test.Orders/Place");

    let client = connect(Server::builder().add_service(layer.layer(setup.orders))).await;
    assert_eq!(unary(client, place, None).await.unwrap(), "call:test.Orders/Place");
}

#[tokio::test]
async fn a_client_that_goes_away_frees_the_lock() {
    let (setup, client) = locked_by_order(|layer| layer).await;

    let call = tokio::spawn(unary(client, "/test.Orders/Stick", Some("42")));
    eventually("the handler runs", || setup.witness.started() == 1).await;
    call.abort();
    freed(&setup.redlock).await;
    setup.witness.assert_dropped_under_its_lock();
}

#[tokio::test]
async fn a_lock_that_is_lost_aborts_the_call() {
    let (setup, client) = locked_by_order(|layer| layer).await;

    let call = tokio::spawn(unary(client, "/test.Orders/Stick", Some("42")));
    eventually("the handler runs", || setup.witness.started() == 1).await;
    setup.redlock.release_all().await;
    assert_lost(&call.await.unwrap().unwrap_err());
    assert_eq!((setup.witness.dropped(), setup.witness.counts().after_the_key), (1, 0));
}

#[tokio::test]
async fn a_server_stream_is_unlocked_by_default() {
    let (setup, client) = locked_by_order(|layer| layer).await;

    let mut stream = watch(client).await;
    assert!(is_free(&setup.redlock));
    setup.sender.send(Ok("one".to_owned())).unwrap();
    assert_eq!(stream.message().await.unwrap().unwrap(), "one");
}

#[tokio::test]
async fn a_server_stream_keeps_the_lock_until_its_trailers() {
    let (setup, client) = locked_by_order(|layer| layer.hold_until_body_end()).await;

    let mut stream = watch(client).await;
    for message in ["one", "two"] {
        setup.sender.send(Ok(message.to_owned())).unwrap();
        assert_eq!(stream.message().await.unwrap().unwrap(), message);
        assert!(!is_free(&setup.redlock));
    }
    drop(setup.sender);
    assert_eq!(stream.message().await.unwrap(), None);
    // At once: the trailers were sent after the release.
    assert!(is_free(&setup.redlock));
}

#[tokio::test]
async fn a_server_stream_that_fails_says_so_and_frees_the_lock() {
    let (setup, client) = locked_by_order(|layer| layer.hold_until_body_end()).await;

    let mut stream = watch(client).await;
    setup.sender.send(Err(Status::data_loss("out of ink"))).unwrap();
    let status = stream.message().await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::DataLoss, "out of ink"));
    assert!(is_free(&setup.redlock));
}

#[tokio::test]
async fn a_server_stream_whose_lock_is_lost_ends_with_aborted() {
    let (setup, client) = locked_by_order(|layer| layer.hold_until_body_end()).await;

    let mut stream = watch(client).await;
    setup.sender.send(Ok("one".to_owned())).unwrap();
    assert_eq!(stream.message().await.unwrap().unwrap(), "one");
    setup.redlock.release_all().await;
    let status = stream.message().await.unwrap_err();
    assert_lost(&status);
    // Its stream was dropped.
    assert!(setup.sender.is_closed());
}

#[tokio::test]
async fn a_server_stream_whose_client_goes_away_frees_the_lock() {
    let (setup, client) = locked_by_order(|layer| layer.hold_until_body_end()).await;

    let mut stream = watch(client).await;
    setup.sender.send(Ok("one".to_owned())).unwrap();
    assert_eq!(stream.message().await.unwrap().unwrap(), "one");
    drop(stream);
    freed(&setup.redlock).await;
    eventually("the stream is dropped", || setup.sender.is_closed()).await;
}

/// The documentation recommends `grpc` there. `new` is refused with the same words, but as an error
/// of the connection, which tonic calls unknown.
#[tokio::test]
async fn around_a_channel_the_grpc_layer_refuses_by_its_statuses() {
    let setup = Setup::new();
    let channel = channel(Server::builder().add_service(setup.orders)).await;
    let (redlock, place) = (&setup.redlock, "/test.Orders/Place");
    let grpc = RedlockLayer::grpc(redlock.clone(), by_order()).wait(Duration::ZERO);
    let plain = RedlockLayer::new(redlock.clone(), by_order()).wait(Duration::ZERO);
    let by_grpc = tonic::client::Grpc::new(grpc.layer(channel.clone()));
    let by_new = tonic::client::Grpc::new(plain.layer(channel));

    // The lock is taken here; the server has no layer.
    assert_eq!(unary(by_grpc.clone(), place, Some("42")).await.unwrap(), "no lock");
    assert!(is_free(redlock));
    let _held = held_elsewhere(redlock, "order:42").await;
    assert_eq!(unary(by_grpc, place, Some("42")).await.unwrap_err().code(), Code::Aborted);
    assert_eq!(unary(by_new, place, Some("42")).await.unwrap_err().code(), Code::Unknown);
}

#[tokio::test]
async fn grpc_web_goes_outside() {
    let setup = Setup::new();
    let redlock = RedlockLayer::grpc(setup.redlock.clone(), by_order()).wait(Duration::ZERO);
    let web = tonic_web::GrpcWebLayer::new();
    let call = || {
        Request::post("/test.Orders/Place")
            .header("content-type", "application/grpc-web+proto")
            .header("order-id", "42")
            .body(Body::new(http_body_util::Full::<bytes::Bytes>::from(vec![0; 5])))
            .unwrap()
    };
    let content_type = |response: &http::Response<_>| {
        response.headers()["content-type"].to_str().unwrap().to_owned()
    };
    let orders = setup.orders.clone();
    let right = ServiceBuilder::new().layer(web.clone()).layer(redlock.clone()).service(orders);
    let wrong = ServiceBuilder::new().layer(redlock).layer(web).service(setup.orders.clone());

    let served = right.clone().oneshot(call()).await.unwrap();
    assert_eq!(content_type(&served), "application/grpc-web+proto");
    let body = served.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(&body[5..13], b"order:42");

    let _held = held_elsewhere(&setup.redlock, "order:42").await;
    let refused = right.oneshot(call()).await.unwrap();
    assert_eq!(Status::from_header_map(refused.headers()).unwrap().code(), Code::Aborted);
    assert_eq!(content_type(&refused), "application/grpc-web+proto");
    // A client in a browser cannot read this.
    let refused = wrong.oneshot(call()).await.unwrap();
    assert_eq!(refused.headers()["content-type"], "application/grpc");
}
