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
/// A request without the header passes without a lock, unless it is [`required`](Header::required). A request
/// is refused if it has the header more than once, or if the value is empty or not ASCII text.
///
/// The key is the text of the header, not the value that a handler parses from it. Each of
/// [several spellings of one id](crate::extract#ids-in-several-spellings) is a different lock.
///
/// ```
/// # use redlock_tower::extract;
/// let key = extract::header("idempotency-key").prefix("idem:").required();
/// # let _ = key;
/// ```
///
/// # A lock does not deduplicate
///
/// Two requests with the same `idempotency-key` run one after the other, and both run. To recognize
/// the second as a repetition, keep a record of the first, and look it up under the lock:
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
/// The client chooses the header, so the user must be part of the key. With the header alone, a user that sends
/// the key of another user gets the answer to that user. The digest prevents a user from getting the answer to
/// another request with the same key.
///
/// Store the record in the same transaction as the effect. Then a crash leaves both or none, and
/// the primary key refuses a second effect even after a lock was lost. Because of the lock, the second
/// request waits for the answer of the first, and does not run into a conflict.
pub fn header(name: impl AsRef<str>) -> Header {
    Header::named(name.as_ref(), "header")
}

/// The value of a metadata entry of a gRPC call.
///
/// A call without the entry passes without a lock, unless it is [`required`](Header::required). A call is refused
/// if it has the entry more than once, or if the value is empty or not ASCII text. A `-bin` entry cannot
/// be a key: the same bytes can be encoded in several ways.
///
/// The key is the text of the entry, not the value that a handler parses from it. Each of
/// [several spellings of one id](crate::extract#ids-in-several-spellings) is a different lock.
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

    /// Puts this text in front of the value. Without a prefix, a client can name any lock of the pool.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Prefix::new(prefix);
        self
    }

    /// Refuses requests without the header or entry. By default they pass without a lock.
    ///
    /// Every request that reaches the layer then needs it. Around a whole gRPC server that includes
    /// health checks and reflection.
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
