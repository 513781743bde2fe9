//! How a refusal becomes an answer of the service. The three layers differ in this alone.

#[cfg(feature = "http")]
use bytes::Bytes;
#[cfg(feature = "http")]
use http_body_util::combinators::UnsyncBoxBody;
#[cfg(feature = "http")]
use redlock_core::__private::NoLock;
use redlock_core::{__private::BodyGuard, LockError, LockHandle};

/// The error of [`RedlockLayer::new`](crate::RedlockLayer::new): a [`LockError`], or the error of the
/// inner service. `error.downcast_ref::<LockError>()` tells them apart.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a refusal.
#[cfg(feature = "http")]
pub(crate) type RefusalBody = UnsyncBoxBody<Bytes, BoxError>;

/// Why a request was refused before its handler was called, or ended without its answer.
#[derive(Debug)]
pub enum Refusal {
    /// The lock was not given, or was lost.
    Lock(LockError),
    /// The axum extractor that looks for the key refused the request, with this response.
    #[cfg(feature = "axum")]
    Response(Box<http::Response<RefusalBody>>),
}

impl From<LockError> for Refusal {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl Refusal {
    /// For protocols that cannot send an http response.
    pub(crate) fn into_lock_error(self) -> LockError {
        match self {
            Self::Lock(error) => error,
            #[cfg(feature = "axum")]
            Self::Response(response) => refused_by_extractor(response.status()),
        }
    }
}

/// A server error of an axum extractor is a mistake in the program. Any other is a key that cannot
/// be used.
#[cfg(feature = "axum")]
pub(crate) fn refused_by_extractor(status: http::StatusCode) -> LockError {
    use redlock_core::__private as core;
    let problem = format!("the extractor of its key refused the request: {status}");
    if status.is_server_error() {
        core::config_error(problem)
    } else {
        core::invalid_resource("", problem)
    }
}

/// How a refusal becomes an answer of the service. Only [`Plain`](crate::Plain), `http::Http` and
/// `grpc::Grpc` implement it. Its methods are not part of the public interface.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot speak for a service of this kind",
    note = "`RedlockLayer::http` and `RedlockLayer::grpc` go around services from `http::Request` \
            to `http::Response`, whose body implements `http_body::Body<Data = Bytes>`; \
            `RedlockLayer::new` goes around all others whose error is `Into<BoxError>`"
)]
pub trait Protocol<Req, Res, Err>: Clone {
    /// The response of the service with the lock around it.
    type Response;
    /// The error of the service with the lock around it.
    type Error;

    /// Whether this request is locked at all. If it is not, no key is looked for.
    #[doc(hidden)]
    fn locks(&self, _: &Req) -> bool {
        true
    }

    /// Whether the client is sent the body of the answer.
    #[doc(hidden)]
    fn sends_body(_: &Req) -> SendsBody {
        SendsBody::Yes
    }

    /// Gives the lock to the handler, or tells it that there is none.
    #[doc(hidden)]
    fn attach(request: &mut Req, lock: Option<LockHandle>);

    /// The answer to a request that was refused, or whose lock was lost.
    #[doc(hidden)]
    fn refuse(&self, refusal: Refusal) -> Result<Self::Response, Self::Error>;

    /// The error of the service inside.
    #[doc(hidden)]
    fn error(error: Err) -> Self::Error;

    /// The answer of the service inside, given without a lock.
    #[doc(hidden)]
    fn answer(&self, result: Result<Res, Err>) -> Result<Self::Response, Self::Error>;

    /// The answer of the service inside, and the lock to be released. No lock if the body of the
    /// answer keeps it.
    #[doc(hidden)]
    fn finish(
        &self,
        result: Result<Res, Err>,
        guard: BodyGuard,
        _sends_body: SendsBody,
    ) -> (Result<Self::Response, Self::Error>, Option<BodyGuard>) {
        (self.answer(result), Some(guard))
    }
}

/// Whether the client is sent the body of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendsBody {
    Yes,
    No,
    /// Only that of a refusal.
    UnlessSuccessful,
}

/// Puts the lock of a request, or that it has none, into its extensions.
#[cfg(feature = "http")]
pub(crate) fn attach<B>(request: &mut http::Request<B>, lock: Option<LockHandle>) {
    let extensions = request.extensions_mut();
    if let Some(lock) = lock {
        extensions.insert(lock);
        return;
    }
    // What is there is the lock of a layer around this one. A handler would take it, and its fencing
    // token, for the lock that it was written for.
    extensions.remove::<LockHandle>();
    extensions.insert(NoLock::here());
}
