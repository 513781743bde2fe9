//! Keys from what a request is addressed to.

use std::future::{Ready, ready};

use http::{Request, Uri};
use percent_encoding::percent_decode_str;
use redlock_core::LockError;

use super::{
    extractor::{Extract, Found},
    key::Prefix,
};

/// The path of a request, alone or with its method; made by [`uri_path`], `original_uri_path`,
/// [`method_and_path`] or `grpc_method`.
#[derive(Debug, Clone)]
#[must_use = "an extractor does nothing until a layer takes it"]
pub struct Target {
    part: Part,
    prefix: Prefix,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Path,
    #[cfg(feature = "axum")]
    OriginalPath,
    MethodAndPath,
    #[cfg(feature = "tonic")]
    GrpcMethod,
}

/// The path, `/orders/42`, without the query.
///
/// Percent-encoded characters are decoded: a client that writes `/orders/%34%32` reaches the
/// same handler, and must get the same lock.
///
/// A nested axum router sees only the rest of the path: `/42` in a router that is nested
/// at `/orders`, and the same `/42` in one that is nested at `/users`. Give each layer its own prefix,
/// or use `original_uri_path`.
///
/// The key is the text of the path, not the value that a handler parses from it. Each of
/// [several spellings of one id](crate::extract#ids-in-several-spellings) is a different lock.
pub fn uri_path() -> Target {
    Target { part: Part::Path, prefix: Prefix::default() }
}

/// The whole path as the client sent it, `/orders/42`, also in a nested router. Otherwise like
/// [`uri_path`].
///
/// The key is the text of the path, not the value that a handler parses from it. Each of
/// [several spellings of one id](crate::extract#ids-in-several-spellings) is a different lock.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use axum::{Router, routing::get};
/// use redlock_core::{LockHandle, Redlock};
/// use redlock_tower::{RedlockLayer, extract};
/// # use axum::{body::Body, extract::Request};
/// # use tower::ServiceExt;
///
/// let layer = RedlockLayer::http(Redlock::in_memory(3), extract::original_uri_path());
/// let orders = Router::new()
///     .route("/{id}", get(async |lock: LockHandle| lock.resource().to_owned()))
///     .layer(layer);
/// let app: Router = Router::new().nest("/orders", orders);
///
/// # let request = Request::get("/orders/42").body(Body::empty())?;
/// # let body = app.oneshot(request).await?.into_body();
/// # let body = axum::body::to_bytes(body, 100).await?;
/// // A request for /orders/42 answers:
/// assert_eq!(body, "/orders/42");
/// # Ok::<(), redlock_tower::BoxError>(()) }).unwrap();
/// ```
#[cfg(feature = "axum")]
pub fn original_uri_path() -> Target {
    Target { part: Part::OriginalPath, prefix: Prefix::default() }
}

/// The method and the path, `POST /orders/42`. Otherwise like [`uri_path`].
///
/// `HEAD` and `GET` have different keys, although axum answers `HEAD` with the handler of `GET`.
///
/// The key is the text of the path, not the value that a handler parses from it. Each of
/// [several spellings of one id](crate::extract#ids-in-several-spellings) is a different lock.
pub fn method_and_path() -> Target {
    Target { part: Part::MethodAndPath, prefix: Prefix::default() }
}

/// The full name of the called method, `orders.v1.Orders/Place`: one call at a time.
#[cfg(feature = "tonic")]
pub fn grpc_method() -> Target {
    Target { part: Part::GrpcMethod, prefix: Prefix::default() }
}

impl Target {
    /// Puts this text in front of the path.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Prefix::new(prefix);
        self
    }

    fn uri<'a, B>(&self, request: &'a Request<B>) -> &'a Uri {
        #[cfg(feature = "axum")]
        if let Part::OriginalPath = self.part {
            // Outside of every router there is none, and the path is whole.
            let original = request.extensions().get::<axum::extract::OriginalUri>();
            return original.map_or(request.uri(), |original| &original.0);
        }
        request.uri()
    }

    fn find<B>(&self, request: &Request<B>) -> Result<String, LockError> {
        let path = percent_decode_str(self.uri(request).path())
            .decode_utf8()
            .map_err(|_| self.prefix.unusable("the path is not UTF-8 once it is decoded"))?;
        if path.is_empty() {
            // With the method alone, all plain `CONNECT` requests would share a lock.
            return Err(self.prefix.unusable("the request has no path"));
        }
        match self.part {
            Part::Path => self.prefix.key(&path),
            #[cfg(feature = "axum")]
            Part::OriginalPath => self.prefix.key(&path),
            Part::MethodAndPath => self.prefix.key(&format!("{} {path}", request.method())),
            #[cfg(feature = "tonic")]
            Part::GrpcMethod => self.prefix.key(path.trim_start_matches('/')),
        }
    }
}

impl<B> Extract<Request<B>> for Target {
    type Future = Ready<Found<Request<B>>>;

    fn extract(&self, request: Request<B>) -> Self::Future {
        let key = self.find(&request).map(Some).map_err(Into::into);
        ready((request, key))
    }
}
