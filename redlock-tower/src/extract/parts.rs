//! Keys from what axum finds in a request.

use std::{fmt, sync::Arc};

use axum::{
    extract::{FromRequestParts, RawPathParams},
    response::IntoResponse,
};
use futures_util::future::BoxFuture;
use http::Request;
use http_body_util::BodyExt;
use redlock_core::{__private as core, LockError};

use super::{
    extractor::{Extract, Found},
    key::Prefix,
};
use crate::protocol::Refusal;

/// A parameter of the route's path; made by [`path_param`].
#[derive(Debug, Clone)]
#[must_use = "an extractor does nothing until a layer takes it"]
pub struct PathParam {
    name: Arc<str>,
    prefix: Prefix,
    optional: bool,
}

/// The decoded parameter `{name}` of the path that axum has matched.
///
/// Put the layer only on routes that have the parameter, with `Router::route_layer` or `MethodRouter::layer`.
/// On any other route it is a mistake in the program: an http layer answers such a request with 500 and logs an error
/// event, unless the parameter is [`optional`](PathParam::optional). `Router::layer` also wraps the fallback,
/// which has no parameters.
///
/// The key is the text of the parameter, not the value that a handler parses from it. Each of
/// [several spellings of one id](crate::extract#ids-in-several-spellings) is a different lock.
///
/// ```
/// # use redlock_tower::extract;
/// let key = extract::path_param("id").prefix("order:");
/// # let _ = key;
/// ```
pub fn path_param(name: impl AsRef<str>) -> PathParam {
    PathParam { name: name.as_ref().into(), prefix: Prefix::default(), optional: false }
}

impl PathParam {
    /// Puts this text in front of the value. Without a prefix, a client can name any lock of the pool.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Prefix::new(prefix);
        self
    }

    /// Lets requests to routes without the parameter pass without a lock.
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    fn find(
        &self,
        params: Result<RawPathParams, impl IntoResponse>,
    ) -> Result<Option<String>, LockError> {
        let name = &*self.name;
        let params = match params {
            Ok(params) => Some(params),
            // Either the text of the client is wrong, or there is no axum route around this layer.
            Err(rejection) => {
                if rejection.into_response().status().is_client_error() {
                    return Err(self.prefix.unusable("the path is not UTF-8 once it is decoded"));
                }
                None
            }
        };
        let mut values =
            params.iter().flatten().filter(|(param, _)| *param == name).map(|(_, value)| value);
        match (values.next(), values.next()) {
            (Some(value), None) => self.prefix.key(value).map(Some),
            (None, _) if self.optional => Ok(None),
            (None, _) => Err(core::config_error(format!(
                "this route has no path parameter {name:?}: put the layer on routes that have it, \
                 with Router::route_layer, or make the extractor optional()"
            ))),
            // Nested routers can both have it. The wrong choice would lock the wrong thing.
            (Some(_), Some(_)) => Err(core::config_error(format!(
                "this route has two path parameters {name:?}: give one of them another name"
            ))),
        }
    }
}

impl<B: Send + 'static> Extract<Request<B>> for PathParam {
    type Future = BoxFuture<'static, Found<Request<B>>>;

    fn extract(&self, request: Request<B>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let (request, params) = parts_of::<RawPathParams, (), B>(request, &()).await;
            (request, this.find(params).map_err(Into::into))
        })
    }
}

/// A key from an axum extractor; made by [`from_parts`] or [`from_parts_with_state`].
#[must_use = "an extractor does nothing until a layer takes it"]
pub struct FromParts<E, S = ()> {
    key: Arc<dyn Fn(E) -> Option<String> + Send + Sync>,
    state: Arc<S>,
    prefix: Prefix,
}

/// A key from anything that axum can extract from the head of a request.
///
/// If `E` rejects a request, the layer refuses it. An http layer sends the response of the rejection, and does not call
/// `on_reject`. The other layers refuse it like a request with an unusable key. For an http or grpc layer, a
/// 5xx is a mistake in the program, and an error event.
///
/// There is no state: `E` must be `FromRequestParts<()>`. If `E` needs a state, use [`from_parts_with_state`].
///
/// ```
/// use axum::extract::Path;
/// use redlock_tower::extract;
///
/// let key = extract::from_parts::<Path<(u64, u64)>, _>(|Path((shop, order))| {
///     Some(format!("{shop}:{order}"))
/// })
/// .prefix("order:");
/// # let _ = key;
/// ```
pub fn from_parts<E, K>(key: impl Fn(E) -> Option<K> + Send + Sync + 'static) -> FromParts<E>
where
    E: FromRequestParts<()>,
    K: Into<String>,
{
    from_parts_with_state((), key)
}

/// Like [`from_parts`], for extractors that need a state: [`State`](axum::extract::State) itself, and
/// extractors that read it.
///
/// The layer cannot see the state of `Router::with_state`, so give `state` here as well.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use axum::{Router, extract::{Path, State}, routing::post};
/// use redlock_core::{LockHandle, Redlock};
/// use redlock_tower::{RedlockLayer, extract};
/// # use axum::{body::Body, extract::Request};
/// # use tower::ServiceExt;
///
/// #[derive(Clone)]
/// struct App { tenant: &'static str }
///
/// let app = App { tenant: "eu" };
/// let by_tenant = extract::from_parts_with_state::<(State<App>, Path<u64>), _, _>(
///     app.clone(),
///     |(State(app), Path(id))| Some(format!("{}:{id}", app.tenant)),
/// )
/// .prefix("order:");
/// let router: Router = Router::new()
///     .route("/orders/{id}", post(async |lock: LockHandle| lock.resource().to_owned()))
///     .route_layer(RedlockLayer::http(Redlock::in_memory(3), by_tenant))
///     .with_state(app);
///
/// # let request = Request::post("/orders/42").body(Body::empty())?;
/// # let body = router.oneshot(request).await?.into_body();
/// # let body = axum::body::to_bytes(body, 100).await?;
/// // A request for /orders/42 answers:
/// assert_eq!(body, "order:eu:42");
/// # Ok::<(), redlock_tower::BoxError>(()) }).unwrap();
/// ```
pub fn from_parts_with_state<E, S, K>(
    state: S,
    key: impl Fn(E) -> Option<K> + Send + Sync + 'static,
) -> FromParts<E, S>
where
    E: FromRequestParts<S>,
    K: Into<String>,
{
    FromParts {
        key: Arc::new(move |found| key(found).map(Into::into)),
        state: Arc::new(state),
        prefix: Prefix::default(),
    }
}

impl<E, S> FromParts<E, S> {
    /// Puts this text in front of the key.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Prefix::new(prefix);
        self
    }
}

impl<E, S, B> Extract<Request<B>> for FromParts<E, S>
where
    E: FromRequestParts<S> + 'static,
    S: Send + Sync + 'static,
    B: Send + 'static,
{
    type Future = BoxFuture<'static, Found<Request<B>>>;

    fn extract(&self, request: Request<B>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let (request, found) = parts_of::<E, S, B>(request, &this.state).await;
            let key = match found {
                Ok(found) => {
                    let key = (this.key)(found);
                    key.map(|key| this.prefix.key(&key)).transpose().map_err(Into::into)
                }
                Err(rejection) => {
                    let response = rejection.into_response();
                    let boxed = response.map(|body| body.map_err(Into::into).boxed_unsync());
                    Err(Refusal::Response(Box::new(boxed)))
                }
            };
            (request, key)
        })
    }
}

async fn parts_of<E: FromRequestParts<S>, S, B>(
    request: Request<B>,
    state: &S,
) -> (Request<B>, Result<E, E::Rejection>) {
    let (mut parts, body) = request.into_parts();
    let found = E::from_request_parts(&mut parts, state).await;
    (Request::from_parts(parts, body), found)
}

// Not derived, here and below: that would require `Clone` and `Debug` of what axum finds and of the
// state.
impl<E, S> Clone for FromParts<E, S> {
    fn clone(&self) -> Self {
        Self {
            key: Arc::clone(&self.key),
            state: Arc::clone(&self.state),
            prefix: self.prefix.clone(),
        }
    }
}

impl<E, S> fmt::Debug for FromParts<E, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromParts").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
