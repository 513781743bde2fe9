//! Refusals as gRPC statuses.

use std::{fmt, sync::Arc};

use ::http::{Request, Response};
use bytes::Bytes;
use http_body::Body;
use redlock_core::{__private::BodyGuard, LockError, LockHandle, Redlock};
use tonic::{
    Code, Status,
    metadata::{MetadataMap, MetadataValue},
};

use crate::{
    body::{OnLoss, ResponseBody, finish},
    layer::RedlockLayer,
    problem::Problem,
    protocol::{self, BoxError, Protocol, Refusal, SendsBody},
    report::{report_mistake, reported},
};

/// Tells apart the refusals that share a status.
const CODE: &str = "redlock-code";

/// Tells the client's retry policy when to try again. A negative number says that it must not.
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// The protocol of [`RedlockLayer::grpc`](crate::RedlockLayer::grpc): refusals are gRPC statuses.
#[derive(Clone)]
pub struct Grpc {
    hold: bool,
    reject: Arc<dyn Fn(LockError) -> Status + Send + Sync>,
}

impl<X> RedlockLayer<X, Grpc> {
    /// A layer for tonic's `Server::builder().layer(..)`, or around one of its services.
    ///
    /// | refused because | status | `redlock-code` |
    /// |---|---|---|
    /// | held elsewhere | `ABORTED` | `held` |
    /// | lost while the handler ran: it may have had effects | `ABORTED` | `lost` |
    /// | no quorum | `UNAVAILABLE` | `no_quorum` |
    /// | shutting down | `UNAVAILABLE` | `shutting_down` |
    /// | the key cannot be used | `INVALID_ARGUMENT` | `invalid_key` |
    /// | a mistake in the program, which is an error event | `INTERNAL` | `internal` |
    ///
    /// The metadata of the status has the entry `redlock-code`, like the member `code` of
    /// [`RedlockLayer::http`]. A caller may try again after `held`. After `lost` it must first check what was done.
    /// So the status of a lost lock also has `grpc-retry-pushback-ms: -1`. It keeps a client with a retry policy for
    /// `ABORTED` from repeating the call ([gRFC A6]). The other refusals have no such entry: a delay from here would
    /// replace the backoff of that policy.
    ///
    /// The handler finds its [`LockHandle`] in the extensions of its request: see
    /// [several locks around one handler](crate#several-locks-around-one-handler).
    ///
    /// `Server::builder().layer(..)` wraps every service, including health checks and reflection.
    /// Their calls do not have the metadata of your service. With [`required`](crate::extract::Header::required) they
    /// are refused, and an orchestrator treats the server as dead. With
    /// [`grpc_method`](crate::extract::grpc_method), all servers share one lock for the health check, and none is
    /// healthy while the nodes have no quorum. Put such a layer around the one service that needs it:
    /// `add_service(layer.layer(orders))`.
    ///
    /// With gRPC-web, `tonic_web::GrpcWebLayer` goes outside this layer:
    /// `Server::builder().layer(GrpcWebLayer::new()).layer(redlock)`. It then translates refusals as well.
    ///
    /// In a client, put this layer around a `Channel`. With [`RedlockLayer::new`], tonic would treat a refusal as a
    /// failure of the connection, and report `UNKNOWN` with the text of the error.
    ///
    /// ```
    /// use redlock_core::Redlock;
    /// use redlock_tower::{RedlockLayer, extract};
    /// use tonic::transport::Endpoint;
    /// use tower::Layer;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let by_order = extract::metadata("order-id").prefix("order:");
    /// let channel = Endpoint::from_static("http://localhost:50051").connect_lazy();
    /// let channel = RedlockLayer::grpc(Redlock::in_memory(3), by_order).layer(channel);
    /// let client = tonic::client::Grpc::new(channel); // or the generated client
    /// # drop(client);
    /// # });
    /// ```
    ///
    /// In a server:
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::{convert::Infallible, time::Duration};
    /// use http::{Request, Response};
    /// use redlock_core::Redlock;
    /// use redlock_tower::{RedlockLayer, extract};
    /// use tonic::{Code, Status, body::Body, transport::Server};
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// let redlock = Redlock::in_memory(3);
    /// let layer =
    ///     RedlockLayer::grpc(redlock.clone(), extract::metadata("order-id").prefix("order:"))
    ///         .wait(Duration::ZERO);
    /// // Around all services; around one it is `add_service(layer.layer(orders))`.
    /// let server = Server::builder().layer(layer.clone()); // .add_service(..).serve(..)
    /// # drop(server);
    ///
    /// // What the server does with a call whose order is locked:
    /// let service = layer.layer(service_fn(async |_: Request<Body>| {
    ///     Ok::<_, Infallible>(Response::new(Body::empty()))
    /// }));
    /// let _guard = redlock.lock("order:42").await?;
    /// let call = Request::builder().header("order-id", "42").body(Body::empty())?;
    /// let response = service.oneshot(call).await?;
    /// let status = Status::from_header_map(response.headers()).ok_or("not refused")?;
    /// assert_eq!(status.code(), Code::Aborted);
    /// assert_eq!(status.metadata().get("redlock-code").ok_or("no code")?, "held");
    /// # Ok::<(), redlock_tower::BoxError>(()) }).unwrap();
    /// ```
    ///
    /// [gRFC A6]: https://github.com/grpc/proposal/blob/master/A6-client-retries.md#pushback
    pub fn grpc(redlock: Redlock, extract: X) -> Self {
        let protocol = Grpc { hold: false, reject: Arc::new(|error| status_of(&error)) };
        Self::with_protocol(redlock, extract, protocol)
    }

    /// Keeps the lock until the last frame of the response is ready, or the response is dropped.
    /// Default: until the handler has returned, which for a server stream is before its first message.
    ///
    /// If the lock is lost meanwhile, the stream is dropped, and the trailers have the status `ABORTED` and the code
    /// `lost`. If the client does not read, the stream is not polled and keeps the lock. The same
    /// is true if a client drops its `Streaming` response while its own request stream is open: the call ends when
    /// that stream ends. Set [`max_hold`](RedlockLayer::max_hold) to limit both: another call then gets the lock
    /// after `max_hold` plus at most the ttl.
    pub fn hold_until_body_end(self) -> Self {
        self.map_protocol(|protocol| Grpc { hold: true, ..protocol })
    }

    /// Replaces the status of calls that were refused or lost their lock.
    pub fn on_reject<F>(self, f: F) -> Self
    where
        F: Fn(LockError) -> Status + Send + Sync + 'static,
    {
        self.map_protocol(|protocol| Grpc { reject: Arc::new(f), ..protocol })
    }
}

impl<ReqBody, ResBody, Err> Protocol<Request<ReqBody>, Response<ResBody>, Err> for Grpc
where
    ResBody: Body<Data = Bytes>,
    ResBody::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = Err;

    fn attach(request: &mut Request<ReqBody>, lock: Option<LockHandle>) {
        protocol::attach(request, lock);
    }

    fn refuse(&self, refusal: Refusal) -> Result<Self::Response, Err> {
        let status = reported(refusal.into_lock_error(), &*self.reject);
        Ok(status.into_http().map(ResponseBody::refusal))
    }

    fn error(error: Err) -> Err {
        error
    }

    fn answer(&self, result: Result<Response<ResBody>, Err>) -> Result<Self::Response, Err> {
        result.map(|response| response.map(ResponseBody::unlocked))
    }

    fn finish(
        &self,
        result: Result<Response<ResBody>, Err>,
        guard: BodyGuard,
        _sends_body: SendsBody,
    ) -> (Result<Self::Response, Err>, Option<BodyGuard>) {
        let on_loss = self.hold.then(|| OnLoss::Trailers(Arc::clone(&self.reject)));
        finish(result, guard, on_loss)
    }
}

impl fmt::Debug for Grpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grpc").field("hold_until_body_end", &self.hold).finish_non_exhaustive()
    }
}

/// A [`LockError`] as the status that [`RedlockLayer::grpc`](crate::RedlockLayer::grpc) sends,
/// for annotated tonic handlers: `#[redlock(.., map_err = redlock_tower::grpc::status)]`.
///
/// The message names no node and no resource. The entry `redlock-code` of the metadata names the case.
/// An `INTERNAL` is also logged as an error event.
///
/// Use it only for a call that was given no lock: because of the status, a client may repeat the call. An error of
/// `release` or `extend`, or of a lock that is taken after the handler has had effects, needs another status.
#[must_use]
// By value: `map_err` and `Result::map_err` pass it so.
#[allow(clippy::needless_pass_by_value)]
pub fn status(error: LockError) -> Status {
    report_mistake(&error);
    status_of(&error)
}

fn status_of(error: &LockError) -> Status {
    let (code, message) = match error {
        LockError::Held { .. } => (Code::Aborted, "another call excludes this one".into()),
        LockError::Lost { .. } => (
            Code::Aborted,
            "the lock of this call was lost and the call was stopped; it may have had effects"
                .into(),
        ),
        LockError::NoQuorum { .. } => {
            (Code::Unavailable, "the lock of this call cannot be had at present".into())
        }
        LockError::ShuttingDown { .. } => {
            (Code::Unavailable, "this instance is shutting down".into())
        }
        LockError::InvalidResource { problem, .. } => {
            (Code::InvalidArgument, format!("this call has no usable key: {problem}"))
        }
        _ => (Code::Internal, "the service made a mistake".into()),
    };
    let mut metadata = MetadataMap::new();
    metadata.insert(CODE, MetadataValue::from_static(Problem::of(error).code));
    if error.is_lost() {
        // Held has the same status, and it is right to try that again.
        metadata.insert(PUSHBACK, MetadataValue::from_static("-1"));
    }
    Status::with_metadata(code, message, metadata)
}
