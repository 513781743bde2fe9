//! Keys from headers, and from gRPC metadata, which are headers.

use std::future::{Ready, ready};

use http::{HeaderMap, HeaderName, Request};
use redlock_core::{__private as core, LockError};

use super::{Extract, Found, key::Prefix};

/// The value of one header or metadata entry; made by [`header`] or `metadata`.
#[derive(Debug, Clone)]
#[must_use = "an extractor does nothing until a layer takes it"]
pub struct Header {
    /// Or the mistake in it, which is told when a request comes.
    name: Result<HeaderName, String>,
    /// What it is called in what the client is told.
    what: &'static str,
    prefix: Prefix,
    required: bool,
}

/// The value of a header. Names are compared without regard to case.
///
/// A request without it passes without a lock, unless [`required`](Header::required). It is
/// refused when the header is there more than once, is empty, or is not ASCII text.
///
/// ```
/// # use redlock_tower::extract;
/// let key = extract::header("idempotency-key").prefix("idem:").required();
/// # let _ = key;
/// ```
pub fn header(name: impl AsRef<str>) -> Header {
    Header::named(name.as_ref(), "header")
}

/// The value of an entry of the metadata of a gRPC call.
///
/// A call without it passes without a lock, unless [`required`](Header::required). It is refused
/// when the entry is there more than once, is empty, or is not ASCII text. A `-bin` entry cannot
/// be a key: the same bytes may be written in several ways.
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
            // Two of us could each take another one for the key.
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
