//! A refusal as the client of an http service sees it: a status and a document of RFC 9457.
//! Neither names a node or a resource; keys may be secrets of other clients. Neither says that nothing was done: a
//! handler that answers with the error of a lock may have done something before.

use std::{borrow::Cow, fmt::Write as _, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use redlock_core::LockError;

pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// Tells apart the refusals that share a status. A member of the document, and metadata in gRPC.
    pub(crate) code: &'static str,
    detail: Cow<'static, str>,
    retry_after: Option<Duration>,
}

impl Problem {
    pub(crate) fn of(error: &LockError) -> Self {
        let (status, code, detail) = match error {
            LockError::Held { .. } => (
                StatusCode::LOCKED,
                "held",
                "Another request is being served that excludes this one.".into(),
            ),
            LockError::NoQuorum { .. } => (
                StatusCode::SERVICE_UNAVAILABLE,
                "no_quorum",
                "The lock that this request needs cannot be had at present.".into(),
            ),
            LockError::ShuttingDown { .. } => (
                StatusCode::SERVICE_UNAVAILABLE,
                "shutting_down",
                "This instance is shutting down.".into(),
            ),
            LockError::Lost { .. } => (
                StatusCode::SERVICE_UNAVAILABLE,
                "lost",
                "The lock of this request was lost and the request was stopped. It may have had \
                 effects: check before repeating it."
                    .into(),
            ),
            LockError::InvalidResource { problem, .. } => (
                StatusCode::BAD_REQUEST,
                "invalid_key",
                format!("This request has no usable key: {problem}.").into(),
            ),
            _ => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                "The service made a mistake.".into(),
            ),
        };
        Self { status, code, detail, retry_after: error.retry_after() }
    }

    pub(crate) fn response<B: From<Bytes>>(&self) -> Response<B> {
        let mut response = Response::new(B::from(self.document().into()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, whole_seconds(after).into());
        }
        response
    }

    fn document(&self) -> String {
        // `about:blank` says that the title is the meaning of the status.
        format!(
            r#"{{"type":"about:blank","title":"{}","status":{},"detail":"{}","code":"{}"}}"#,
            self.status.canonical_reason().unwrap_or_default(),
            self.status.as_u16(),
            escaped(&self.detail),
            self.code,
        )
    }
}

/// Rounded up, since a request that comes sooner is refused again. At least 1, since 0 means at
/// once.
fn whole_seconds(duration: Duration) -> u64 {
    let rest = u64::from(duration.subsec_nanos() > 0);
    duration.as_secs().saturating_add(rest).max(1)
}

/// As the inside of a JSON string.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '"' | '\\' => escaped.extend(['\\', char]),
            // Writing to a string does not fail.
            c if c.is_control() => _ = write!(escaped, "\\u{:04x}", u32::from(c)),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up_and_never_zero() {
        let seconds = |millis| whole_seconds(Duration::from_millis(millis));
        assert_eq!([0, 1, 999, 1000, 1001, 2000].map(seconds), [1, 1, 1, 1, 2, 2]);
        assert_eq!(whole_seconds(Duration::MAX), u64::MAX);
    }

    #[test]
    fn any_text_survives_as_json() {
        let text = "a \"key\" of \\ \u{7} \n \u{7f} \u{85} é 锁";
        let json = format!("\"{}\"", escaped(text));
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
