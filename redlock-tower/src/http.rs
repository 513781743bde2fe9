//! Refusals as http responses.

use std::{fmt, sync::Arc};

use ::http::{Method, Request, Response, StatusCode};
use bytes::Bytes;
use http_body::Body;
use http_body_util::{BodyExt, Full};
use redlock_core::{__private::BodyGuard, LockError, LockHandle, Redlock};

#[cfg(feature = "axum")]
use crate::protocol::refused_by_extractor;
use crate::{
    body::{OnLoss, ResponseBody, finish},
    layer::RedlockLayer,
    problem::Problem,
    protocol::{self, BoxError, Protocol, Refusal, RefusalBody, SendsBody},
    report::{report_mistake, reported},
};

/// The protocol of [`RedlockLayer::http`](crate::RedlockLayer::http): refusals are responses, and
/// the error type stays that of the service.
#[derive(Clone)]
pub struct Http {
    /// The methods that are locked. Unset, all of them.
    methods: Option<Arc<[Method]>>,
    hold: bool,
    reject: Arc<dyn Fn(LockError) -> Response<RefusalBody> + Send + Sync>,
}

impl<X> RedlockLayer<X, Http> {
    /// A layer for http services: axum's `Router::layer` and `Router::route_layer`, or any other
    /// whose response has an [`http_body::Body`] of [`Bytes`].
    ///
    /// | refused because | status | `Retry-After` |
    /// |---|---|---|
    /// | held elsewhere | 423 | yes |
    /// | no quorum, shutting down | 503 | yes |
    /// | lost while the handler ran: it may have had effects | 503 | no |
    /// | the key cannot be used | 400 | no |
    /// | a mistake in the program, which is an error event | 500 | no |
    ///
    /// The body of a refusal is `application/problem+json` ([RFC 9457]). Its member `code` names
    /// the case.
    ///
    /// The handler finds its [`LockHandle`] in the extensions of its request: see
    /// [several locks around one handler](crate#several-locks-around-one-handler).
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::{convert::Infallible, time::Duration};
    /// use http::{Request, Response, StatusCode};
    /// use redlock_core::Redlock;
    /// use redlock_tower::{RedlockLayer, extract};
    /// use tower::{Service, ServiceBuilder, ServiceExt};
    ///
    /// let redlock = Redlock::in_memory(3);
    /// let mut service = ServiceBuilder::new()
    ///     .layer(
    ///         RedlockLayer::http(redlock.clone(), extract::header("order-id").prefix("order:"))
    ///             .wait(Duration::ZERO),
    ///     )
    ///     .service_fn(async |_: Request<String>| {
    ///         Ok::<_, Infallible>(Response::new("paid".to_owned()))
    ///     });
    ///
    /// let _guard = redlock.lock("order:42").await?;
    /// let request = Request::builder().header("order-id", "42").body(String::new())?;
    /// let response = service.ready().await?.call(request).await?;
    /// assert_eq!(response.status(), StatusCode::LOCKED);
    /// assert!(response.headers().contains_key("retry-after"));
    /// # Ok::<(), redlock_tower::BoxError>(()) }).unwrap();
    /// ```
    ///
    /// [RFC 9457]: https://www.rfc-editor.org/rfc/rfc9457
    pub fn http(redlock: Redlock, extract: X) -> Self {
        let protocol = Http {
            methods: None,
            hold: false,
            reject: Arc::new(|error| Problem::of(&error).response::<Full<Bytes>>().map(boxed)),
        };
        Self::with_protocol(redlock, extract, protocol)
    }

    /// Locks only requests with these methods. All others pass without a lock, and the extractor is not called for
    /// them. Default: every method.
    ///
    /// `Router::layer` and `Router::route_layer` wrap every method of their routes. That includes requests
    /// that end in 405, and CORS preflights, which are `OPTIONS`. Without this setting, such requests
    /// wait for a lock that they do not need, and are refused while it is held. In axum you can also use
    /// `MethodRouter::route_layer`, as in `post(pay).route_layer(layer)`.
    ///
    /// axum answers `HEAD` with the handler of `GET`, but here it is a separate method. A later call
    /// replaces an earlier one.
    ///
    #[cfg_attr(feature = "axum", doc = "```")]
    #[cfg_attr(not(feature = "axum"), doc = "```ignore")]
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::time::Duration;
    /// use axum::{Router, body::Body, http::{Method, Request, StatusCode}, routing::post};
    /// use redlock_core::Redlock;
    /// use redlock_tower::{RedlockLayer, extract};
    /// # use tower::ServiceExt;
    ///
    /// let redlock = Redlock::in_memory(3);
    /// let layer = RedlockLayer::http(redlock.clone(), extract::path_param("id").prefix("order:"))
    ///     .methods([Method::POST, Method::PUT])
    ///     .wait(Duration::ZERO);
    /// let app: Router =
    ///     Router::new().route("/orders/{id}", post(async || "paid")).route_layer(layer);
    ///
    /// let _guard = redlock.lock("order:42").await?;
    /// # let app = async |method| {
    /// #     let request = Request::builder().method(method).uri("/orders/42");
    /// #     app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    /// # };
    /// assert_eq!(app(Method::POST).await.status(), StatusCode::LOCKED);
    /// assert_eq!(app(Method::OPTIONS).await.status(), StatusCode::METHOD_NOT_ALLOWED);
    /// # Ok::<(), redlock_tower::BoxError>(()) }).unwrap();
    /// ```
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        let methods = Some(methods.into_iter().collect());
        self.map_protocol(|protocol| Http { methods, ..protocol })
    }

    /// Keeps the lock until the last frame of the response body is ready, or the body is dropped.
    /// Default: until the service has returned its response. This makes a difference for bodies that are streams. A
    /// body of one frame, such as a string, has its last frame at once.
    ///
    /// It has no effect on a response without a body, or with a body that is not sent: the answer to a `HEAD`, a
    /// success of `CONNECT`, 204 and 304. The same is true for the 101 of a WebSocket or another upgrade: the lock is released before the
    /// first message. The [crate docs](crate) show how to keep a lock for as long as a socket is open.
    ///
    /// If the lock is lost meanwhile, the body ends with the [`LockError`] as its error, and the
    /// client sees a response that is cut off. If the client does not read, the body is not polled and keeps the lock.
    /// Set [`max_hold`](RedlockLayer::max_hold) to limit that: another request then gets the lock after `max_hold`
    /// plus at most the ttl.
    pub fn hold_until_body_end(self) -> Self {
        self.map_protocol(|protocol| Http { hold: true, ..protocol })
    }

    /// Replaces the responses to requests that were refused or lost their lock.
    /// It is not called for a lock that is lost while the body is sent: the head has been sent by then.
    pub fn on_reject<F, B>(self, f: F) -> Self
    where
        F: Fn(LockError) -> Response<B> + Send + Sync + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let reject = Arc::new(move |error| f(error).map(boxed));
        self.map_protocol(|protocol| Http { reject, ..protocol })
    }
}

impl<ReqBody, ResBody, Err> Protocol<Request<ReqBody>, Response<ResBody>, Err> for Http
where
    ResBody: Body<Data = Bytes>,
    ResBody::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = Err;

    fn locks(&self, request: &Request<ReqBody>) -> bool {
        self.methods.as_ref().is_none_or(|methods| methods.contains(request.method()))
    }

    fn sends_body(request: &Request<ReqBody>) -> SendsBody {
        match *request.method() {
            Method::HEAD => SendsBody::No,
            Method::CONNECT => SendsBody::UnlessSuccessful,
            _ => SendsBody::Yes,
        }
    }

    fn attach(request: &mut Request<ReqBody>, lock: Option<LockHandle>) {
        protocol::attach(request, lock);
    }

    fn refuse(&self, refusal: Refusal) -> Result<Self::Response, Err> {
        let response = match refusal {
            Refusal::Lock(error) => reported(error, &*self.reject),
            #[cfg(feature = "axum")]
            Refusal::Response(response) => {
                report_mistake(&refused_by_extractor(response.status()));
                *response
            }
        };
        Ok(response.map(ResponseBody::refusal))
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
        sends_body: SendsBody,
    ) -> (Result<Self::Response, Err>, Option<BodyGuard>) {
        let is_successful = |it: &Response<ResBody>| it.status().is_success();
        let is_sent = match sends_body {
            SendsBody::Yes => true,
            SendsBody::No => false,
            SendsBody::UnlessSuccessful => !result.as_ref().is_ok_and(is_successful),
        };
        let on_loss = (self.hold && is_sent).then_some(OnLoss::Error);
        finish(result, guard, on_loss)
    }
}

fn boxed<B>(body: B) -> RefusalBody
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("methods", &self.methods)
            .field("hold_until_body_end", &self.hold)
            .finish_non_exhaustive()
    }
}

/// A [`LockError`] as the response that [`RedlockLayer::http`](crate::RedlockLayer::http) sends,
/// for annotated axum handlers.
///
/// Use it only for a request that was given no lock: because of its status and `Retry-After`, a client may repeat the
/// request. An error of `release` or `extend`, or of a lock that is taken after the handler has had effects, needs
/// another answer.
///
#[cfg_attr(feature = "axum", doc = "```")]
#[cfg_attr(not(feature = "axum"), doc = "```ignore")]
/// use axum::{Router, extract::{Path, State}, routing::post};
/// use redlock_core::{Redlock, redlock};
/// use redlock_tower::http::LockRejection;
///
/// #[redlock(resource = "order:{id}", client = locks)]
/// async fn pay(
///     State(locks): State<Redlock>,
///     Path(id): Path<u64>,
/// ) -> Result<String, LockRejection> {
///     Ok(format!("order {id} is paid"))
/// }
///
/// let locks = Redlock::in_memory(3);
/// let app: Router = Router::new().route("/orders/{id}/pay", post(pay)).with_state(locks);
/// ```
#[derive(Debug, Clone)]
pub struct LockRejection(LockError);

impl LockRejection {
    /// The error.
    #[must_use]
    pub fn error(&self) -> &LockError {
        &self.0
    }

    /// The status of the response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        Problem::of(&self.0).status
    }
}

impl From<LockError> for LockRejection {
    fn from(error: LockError) -> Self {
        Self(error)
    }
}

impl fmt::Display for LockRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for LockRejection {}

impl<B: From<Bytes>> From<LockRejection> for Response<B> {
    fn from(LockRejection(error): LockRejection) -> Self {
        report_mistake(&error);
        Problem::of(&error).response()
    }
}

#[cfg(feature = "axum")]
impl axum::response::IntoResponse for LockRejection {
    fn into_response(self) -> axum::response::Response {
        self.into()
    }
}
