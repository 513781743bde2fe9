//! Keys from headers, and from gRPC metadata, which are headers.

use std::future::{Ready, ready};

use http::{HeaderMap, HeaderName, Request};
use redlock_core::{__private as core, LockError};

use super::{
    extractor::{Extract, Found},
    key::Prefix,
};

/// The value of one header or metadata entry; made by [`header`] or `metadata`.
#[derive(Debug, Clone)]
#[must_use = "an extractor does nothing until a layer takes it"]
pub struct Header {
    /// Or what is wrong with it, which is reported when a request comes.
    name: Result<HeaderName, String>,
    /// What refusals call it.
    what: &'static str,
    prefix: Prefix,
    required: bool,
}

/// The value of a header. Names are compared without regard to case.
///
/// A request without it passes without a lock, unless [`required`](Header::required). It is
/// refused when the header is there more than once, is empty, or is not ASCII text.
///
/// The key is text, not what a handler parses it to: each of
/// [several spellings of one id](crate::extract#ids-in-several-spellings) is a lock of its own.
///
/// ```
/// # use redlock_tower::extract;
/// let key = extract::header("idempotency-key").prefix("idem:").required();
/// # let _ = key;
/// ```
///
/// # A lock does not deduplicate
///
/// Two requests with one `idempotency-key` run one after the other, and both run. What recognizes
/// the second as a repetition is a record of the first, which is looked up under the lock:
///
#[cfg_attr(feature = "axum", doc = "```")]
#[cfg_attr(not(feature = "axum"), doc = "```ignore")]
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::{collections::HashMap, sync::{Arc, Mutex}};
/// use axum::{Extension, Router, extract::State, http::{HeaderMap, StatusCode}, routing::post};
/// use redlock_core::{LockHandle, Redlock};
/// use redlock_tower::{RedlockLayer, extract};
/// # use axum::{body::Body, extract::Request};
/// # use tower::ServiceExt;
///
/// /// As authenticated by a layer further outside.
/// #[derive(Clone)]
/// struct User(u64);
///
/// /// The request and the answer to it. In a service: a digest of the request, in a table with the
/// /// key as its primary key.
/// type Answers = Arc<Mutex<HashMap<String, (String, String)>>>;
///
/// async fn pay(
///     State(answers): State<Answers>,
///     lock: LockHandle,
///     amount: String,
/// ) -> Result<String, StatusCode> {
///     let known = answers.lock().unwrap().get(lock.resource()).cloned();
///     if let Some((request, answer)) = known {
///         // A repetition: nothing is done. Another request with a key that was used is refused.
///         return if request == amount { Ok(answer) } else { Err(StatusCode::UNPROCESSABLE_ENTITY) };
///     }
///     let answer = format!("paid {amount}"); // what must happen once
///     let record = (amount, answer.clone());
///     answers.lock().unwrap().insert(lock.resource().to_owned(), record);
///     Ok(answer)
/// }
///
/// let by_user_and_key = extract::from_parts::<(Extension<User>, HeaderMap), _>(
///     |(Extension(User(user)), headers)| {
///         let mut keys = headers.get_all("idempotency-key").iter();
///         let key = match (keys.next(), keys.next()) {
///             (Some(key), None) => key.to_str().unwrap_or_default(),
///             _ => "", // none, or several: another service might take another one of them
///         };
///         // An empty key is refused. `None` would pass without a lock.
///         Some(if key.is_empty() { String::new() } else { format!("{user}:{key}") })
///     },
/// );
/// let app: Router = Router::new()
///     .route("/payments", post(pay))
///     .route_layer(RedlockLayer::http(Redlock::in_memory(3), by_user_and_key.prefix("idem:")))
///     .with_state(Answers::default());
///
/// # let pay = async |user, amount| {
/// #     let request = Request::post("/payments").header("idempotency-key", "7");
/// #     let request = request.extension(User(user)).body(Body::from(amount)).unwrap();
/// #     let response = app.clone().oneshot(request).await.unwrap();
/// #     let status = response.status();
/// #     let body = axum::body::to_bytes(response.into_body(), 100).await.unwrap();
/// #     if status.is_success() { body } else { status.as_str().to_owned().into() }
/// # };
/// # for keys in [&[][..], &[""], &["7", "8"]] {
/// #     let mut request = Request::post("/payments").extension(User(1));
/// #     for key in keys {
/// #         request = request.header("idempotency-key", *key);
/// #     }
/// #     let response = app.clone().oneshot(request.body(Body::empty())?).await?;
/// #     assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{keys:?}");
/// # }
/// // Requests of two users, all with one key:
/// assert_eq!(pay(1, "10").await, "paid 10");
/// assert_eq!(pay(1, "10").await, "paid 10"); // the answer of the first
/// assert_eq!(pay(1, "20").await, "422");
/// assert_eq!(pay(2, "20").await, "paid 20");
/// # Ok::<(), redlock_tower::BoxError>(()) }).unwrap();
/// ```
///
/// The client chooses the header. So the user is part of the key: with the header alone, a user that sends
/// the key of another one is given the answer to that one. The digest keeps one user from taking the answer to
/// another request for the answer to this one.
///
/// Store the record in the transaction that has the effect. Then a crash leaves both or none, and
/// the primary key refuses a second effect even after a lock was lost. The lock spares the second
/// request a conflict: it waits for the answer of the first.
pub fn header(name: impl AsRef<str>) -> Header {
    Header::named(name.as_ref(), "header")
}

/// The value of an entry of the metadata of a gRPC call.
///
/// A call without it passes without a lock, unless [`required`](Header::required). It is refused
/// when the entry is there more than once, is empty, or is not ASCII text. A `-bin` entry cannot
/// be a key: the same bytes may be written in several ways.
///
/// The key is text, not what a handler parses it to: each of
/// [several spellings of one id](crate::extract#ids-in-several-spellings) is a lock of its own.
///
/// ```
/// # use redlock_tower::extract;
/// let key = extract::metadata("order-id").prefix("order:");
/// # let _ = key;
/// ```
#[cfg(feature = "tonic")]
pub fn metadata(name: impl AsRef<str>) -> Header {
    let mut header = Header::named(name.as_ref(), "metadata");
    header.name = header.name.and_then(|name| match name.as_str().strip_suffix("-bin") {
        Some(text) => Err(format!(
            "{name:?} is binary metadata, which cannot be a key: send text as {text:?}"
        )),
        None => Ok(name),
    });
    header
}

impl Header {
    fn named(name: &str, what: &'static str) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
            format!("{name:?} is not the name of a {what}: use letters, digits and hyphens")
        });
        Self { name, what, prefix: Prefix::default(), required: false }
    }

    /// Puts this in front of the value. Without it a client can name any lock of the pool.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Prefix::new(prefix);
        self
    }

    /// Refuses requests without it. By default they pass without a lock.
    ///
    /// All requests that reach the layer need it then: those of health checks and reflection, too,
    /// if the layer goes around a whole gRPC server.
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    fn find(&self, headers: &HeaderMap) -> Result<Option<String>, LockError> {
        let what = self.what;
        let name = self.name.as_ref().map_err(core::config_error)?;
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) if self.required => {
                Err(self.prefix.unusable(format!("the {what} {name:?} is missing")))
            }
            (None, _) => Ok(None),
            // Another service on the way could take the other value for the key.
            (Some(_), Some(_)) => {
                Err(self.prefix.unusable(format!("the {what} {name:?} is there more than once")))
            }
            (Some(value), None) => {
                let not_text =
                    |_| self.prefix.unusable(format!("the {what} {name:?} is not ASCII text"));
                self.prefix.key(value.to_str().map_err(not_text)?).map(Some)
            }
        }
    }
}

impl<B> Extract<Request<B>> for Header {
    type Future = Ready<Found<Request<B>>>;

    fn extract(&self, request: Request<B>) -> Self::Future {
        let key = self.find(request.headers()).map_err(Into::into);
        ready((request, key))
    }
}
