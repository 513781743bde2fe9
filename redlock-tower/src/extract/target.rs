//! Keys from what a request is addressed to.

use std::future::{Ready, ready};

use http::Request;
use percent_encoding::percent_decode_str;
use redlock_core::LockError;

use super::{
    key::Prefix,
    sealed::{Extract, Found},
};

/// The path of a request, alone or with its method; made by [`uri_path`], [`method_and_path`] or
/// `grpc_method`.
#[derive(Debug, Clone)]
#[must_use = "an extractor does nothing until a layer takes it"]
pub struct Target {
    part: Part,
    prefix: Prefix,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Path,
    MethodAndPath,
    #[cfg(feature = "tonic")]
    GrpcMethod,
}

/// The path, `/orders/42`, without the query.
///
/// Percent-encoded characters are decoded: a client that writes `/orders/%34%32` reaches the
/// same handler, and must not get around its lock. In a nested axum router the path is what is
/// left of it there.
pub fn uri_path() -> Target {
    Target { part: Part::Path, prefix: Prefix::default() }
}

/// The method and the path, `POST /orders/42`; as [`uri_path`] otherwise.
///
/// `HEAD` and `GET` have different keys, although axum serves `HEAD` by the handler of `GET`.
pub fn method_and_path() -> Target {
    Target { part: Part::MethodAndPath, prefix: Prefix::default() }
}

/// The full name of the called method, `orders.v1.Orders/Place`: one call at a time.
#[cfg(feature = "tonic")]
pub fn grpc_method() -> Target {
    Target { part: Part::GrpcMethod, prefix: Prefix::default() }
}

impl Target {
    /// Puts this in front of the path.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Prefix::new(prefix);
        self
    }

    fn find<B>(&self, request: &Request<B>) -> Result<String, LockError> {
        let path = percent_decode_str(request.uri().path())
            .decode_utf8()
            .map_err(|_| self.prefix.unusable("the path is not UTF-8 once it is decoded"))?;
        match self.part {
            Part::Path => self.prefix.key(&path),
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
