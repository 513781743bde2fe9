//! The layer, and the settings that all layers have.

use std::{fmt, sync::Arc, time::Duration};

use redlock_core::{__private as core, LockOptions, Redlock};
use tower_layer::Layer;

use crate::{plain::Plain, service::RedlockService, settings::Settings};

/// Puts a lock around every request of a service. See the [crate docs](crate) for where to put
/// it and for examples.
///
/// `X` finds the key of a request (see [`extract`](crate::extract)). `P` decides how a request is
/// refused: [`new`](RedlockLayer::new) is for any service, `http` and `grpc` are for services of that protocol.
#[must_use = "a layer does nothing until it is put around a service"]
pub struct RedlockLayer<X, P = Plain> {
    settings: Settings<X, P>,
}

impl<X> RedlockLayer<X> {
    /// A layer for any service that is [`Clone`]. The error of the resulting service is boxed: a
    /// [`LockError`](redlock_core::LockError), or the error of the inner service.
    ///
    /// `extract` is usually a closure that names the type of its argument:
    /// `|job: &Job| Some(format!("job:{}", job.id))`. The service finds its lock with
    /// [`LockHandle::current`](redlock_core::LockHandle::current).
    ///
    /// For http services, and for a `Channel` of tonic, use `RedlockLayer::http` and
    /// `RedlockLayer::grpc`: their callers expect responses and statuses, not boxed errors. An axum `Router` with this
    /// layer does not compile:
    /// ``the trait bound `Infallible: From<Box<(dyn std::error::Error + Send + Sync + 'static)>>` is not satisfied``.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::{convert::Infallible, time::Duration};
    /// use redlock_core::{LockError, LockHandle, Redlock};
    /// use redlock_tower::{BoxError, RedlockLayer};
    /// use tower::{Service, ServiceBuilder, ServiceExt};
    ///
    /// struct Job { id: u64 }
    ///
    /// let redlock = Redlock::in_memory(3);
    /// let mut service = ServiceBuilder::new()
    ///     .layer(
    ///         RedlockLayer::new(redlock.clone(), |job: &Job| Some(format!("job:{}", job.id)))
    ///             .wait(Duration::ZERO),
    ///     )
    ///     .service_fn(async |_: Job| {
    ///         let lock = LockHandle::current().map(|lock| lock.resource().to_owned());
    ///         Ok::<_, Infallible>(lock)
    ///     });
    ///
    /// let lock = service.ready().await?.call(Job { id: 7 }).await?;
    /// assert_eq!(lock.as_deref(), Some("job:7"));
    ///
    /// let _guard = redlock.lock("job:8").await?;
    /// let error = service.ready().await?.call(Job { id: 8 }).await.unwrap_err();
    /// assert!(error.downcast_ref::<LockError>().is_some_and(LockError::is_held));
    /// # Ok::<(), BoxError>(()) }).unwrap();
    /// ```
    pub fn new(redlock: Redlock, extract: X) -> Self {
        Self::with_protocol(redlock, extract, Plain::new())
    }
}

impl<X, P> RedlockLayer<X, P> {
    pub(crate) fn with_protocol(redlock: Redlock, extract: X, protocol: P) -> Self {
        Self { settings: Settings::new(redlock, extract, protocol) }
    }

    /// How long a node keeps a lock that is not renewed. Default: the client's.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.options(LockOptions::new().ttl(ttl))
    }

    /// How long a request may wait for its lock before it is refused. Default: the client's, which is 5 s
    /// unless it was changed. Use less in a service that should answer quickly.
    ///
    /// Zero means one attempt. A process on a busy machine may be paused for longer
    /// than `node_timeout`. The attempt then fails, and the request is refused although nothing is
    /// wrong with the nodes. A few hundred milliseconds leave time for another attempt.
    pub fn wait(self, wait: Duration) -> Self {
        self.options(LockOptions::new().wait(wait))
    }

    /// At most this many timed retries after the first attempt. Default: the client's.
    pub fn retry_count(self, count: u32) -> Self {
        self.options(LockOptions::new().retry_count(count))
    }

    /// The longest time for which a request holds the lock. After that, the lock is lost: its handler is
    /// dropped, and the client gets the same answer as after any loss. Unset by default.
    ///
    /// A lock renews itself for as long as its handler runs. Only this setting limits a client that sends its
    /// request, or takes its response, byte by byte. Set it on every layer around a handler that
    /// reads a body. A layer that joins the lock of a layer around it has the limit of that layer.
    ///
    /// Other requests may be locked out for longer: for `max_hold` and the [`ttl`](RedlockLayer::ttl). A body under
    /// `hold_until_body_end` is not polled if its client does not read. It loses the lock then, but its keys
    /// stay on the nodes until the body is dropped or the ttl ends. Set a short ttl where that matters.
    pub fn max_hold(self, max: Duration) -> Self {
        self.options(LockOptions::new().max_hold(max))
    }

    /// The name of the locks in metrics and spans, such as `"order"`. Default: none.
    ///
    /// It is the same for all requests, because each value is its own time series.
    pub fn label(self, label: &'static str) -> Self {
        self.options(LockOptions::new().label(label))
    }

    /// Also requests a fencing token. The handler passes it to the store that it writes to:
    /// [`LockHandle::fencing_token`](redlock_core::LockHandle::fencing_token). Off by default. See
    /// [`LockRequest::fenced`](redlock_core::LockRequest::fenced) for the cost.
    pub fn fenced(self) -> Self {
        self.options(LockOptions::new().fenced())
    }

    /// Requests hold the lock as readers. They can hold it together, but not together with a writer. See
    /// [`LockRequest::shared`](redlock_core::LockRequest::shared). Off by default.
    pub fn shared(self) -> Self {
        self.options(LockOptions::new().shared())
    }

    /// At most this many requests hold the lock of a key at once, 1 to 1024, over all processes. Unset by
    /// default: one. See [`LockOptions::permits`](redlock_core::LockOptions::permits).
    pub fn permits(self, count: u32) -> Self {
        self.options(LockOptions::new().permits(count))
    }

    /// Any other setting of a lock. A setting that is left unset in `options` does not change. If a setting is set
    /// twice, the later value counts.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.settings.options = core::merge_options(self.settings.options, options);
        self
    }

    #[cfg(feature = "http")]
    pub(crate) fn map_protocol(mut self, change: impl FnOnce(P) -> P) -> Self {
        self.settings.protocol = change(self.settings.protocol);
        self
    }
}

impl<S, X, P: Clone> Layer<S> for RedlockLayer<X, P> {
    type Service = RedlockService<S, X, P>;

    fn layer(&self, inner: S) -> Self::Service {
        RedlockService::new(inner, Arc::new(self.settings.clone()))
    }
}

// Not derived, here and below: that would require `Clone` and `Debug` of closures.
impl<X, P: Clone> Clone for RedlockLayer<X, P> {
    fn clone(&self) -> Self {
        Self { settings: self.settings.clone() }
    }
}

impl<X, P: fmt::Debug> fmt::Debug for RedlockLayer<X, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedlockLayer")
            .field("options", &self.settings.options)
            .field("protocol", &self.settings.protocol)
            .finish_non_exhaustive()
    }
}
