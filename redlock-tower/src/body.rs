//! The body of a response that may be sent under the lock of its request.

#[cfg(feature = "tonic")]
use std::sync::Arc;
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

#[cfg(feature = "tonic")]
use ::http::HeaderMap;
use ::http::{Response, StatusCode};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body::{Body, Frame, SizeHint};
use pin_project::pin_project;
use redlock_core::{__private::BodyGuard, LockError, Released};

use crate::protocol::{BoxError, RefusalBody};

/// The body of a response behind [`RedlockLayer::http`](crate::RedlockLayer::http) or `grpc`: the
/// body of the service inside, or the body of a refusal.
///
/// With `hold_until_body_end` the body keeps the lock. When the last frame is ready, the lock is released first, and
/// then the frame is returned. So a client that has seen the end finds the lock free.
/// The last frame is the trailers, a frame that the inner body knows to be its last, or the end itself.
///
/// If the body is dropped, the lock is released in the background, and a client may see the end
/// first. Over HTTP/1 this happens to a stream with a `Content-Length`: hyper drops the body once it
/// has written that many bytes, and does not poll it to its end.
#[pin_project]
pub struct ResponseBody<B> {
    #[pin]
    state: State<B>,
}

/// How a body ends when its lock is lost while it is sent.
#[derive(Clone)]
pub(crate) enum OnLoss {
    /// The [`LockError`].
    Error,
    /// The trailers of the gRPC status that this function gives.
    #[cfg(feature = "tonic")]
    Trailers(Arc<dyn Fn(LockError) -> tonic::Status + Send + Sync>),
}

// The body inside is dropped before its lock: hence the order of the fields (rule 13).
#[pin_project(project = StateProj)]
enum State<B> {
    Unlocked {
        #[pin]
        inner: B,
    },
    Refusal {
        inner: RefusalBody,
    },
    Held {
        #[pin]
        inner: B,
        /// `Some` until this state is left.
        guard: Option<BodyGuard>,
        on_loss: OnLoss,
    },
    Releasing {
        release: BoxFuture<'static, Result<Released, LockError>>,
        last: Last,
    },
    Done,
}

/// The last frame of a body, which is sent once the lock is released.
type Last = Option<Result<Frame<Bytes>, BoxError>>;

impl<B> ResponseBody<B> {
    pub(crate) fn unlocked(inner: B) -> Self {
        Self { state: State::Unlocked { inner } }
    }

    pub(crate) fn refusal(inner: RefusalBody) -> Self {
        Self { state: State::Refusal { inner } }
    }

    /// `inner` must not have ended.
    pub(crate) fn held(inner: B, guard: BodyGuard, on_loss: OnLoss) -> Self {
        Self { state: State::Held { inner, guard: Some(guard), on_loss } }
    }
}

/// An empty body without a lock. Layers around this one, such as tower-http's timeout and CORS, use it
/// for their own answers.
impl<B: Default> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::unlocked(B::default())
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut state = self.project().state;
        let (last, guard, lost) = match state.as_mut().project() {
            StateProj::Unlocked { inner } => {
                return inner
                    .poll_frame(cx)
                    .map(|frame| frame.map(|frame| frame.map_err(Into::into)));
            }
            StateProj::Refusal { inner } => return Pin::new(inner).poll_frame(cx),
            StateProj::Held { mut inner, guard, on_loss } => {
                let Some(held) = guard else { return Poll::Ready(None) };
                match ready!(held.poll_body(cx, |cx| inner.as_mut().poll_frame(cx))) {
                    Ok(Some(Ok(frame))) if !frame.is_trailers() && !inner.is_end_stream() => {
                        return Poll::Ready(Some(Ok(frame)));
                    }
                    Ok(last) => (last.map(|it| it.map_err(Into::into)), guard.take(), None),
                    Err(lost) => (None, guard.take(), Some((on_loss.clone(), lost))),
                }
            }
            StateProj::Releasing { release, last } => {
                // Its outcome changes nothing for the client (rule 11).
                let _released = ready!(release.as_mut().poll(cx));
                (last.take(), None, None)
            }
            StateProj::Done => return Poll::Ready(None),
        };
        let Some(guard) = guard else {
            state.set(State::Done);
            return Poll::Ready(last);
        };
        guard.in_scope(|| state.set(State::Done));
        // Only then is `on_reject` asked.
        let last = lost.map(|(on_loss, lost)| on_loss.frame(lost)).or(last);
        let mut release = guard.release();
        if release.as_mut().poll(cx).is_ready() {
            return Poll::Ready(last);
        }
        state.set(State::Releasing { release, last });
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Unlocked { inner } => inner.is_end_stream(),
            State::Refusal { inner } => inner.is_end_stream(),
            // A server that sees the end asks no more, and drops the body before the lock is released.
            State::Held { .. } | State::Releasing { .. } => false,
            State::Done => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Unlocked { inner } | State::Held { inner, .. } => inner.size_hint(),
            State::Refusal { inner } => inner.size_hint(),
            State::Releasing { last: Some(Ok(frame)), .. } => {
                SizeHint::with_exact(frame.data_ref().map_or(0, |data| data.len() as u64))
            }
            State::Releasing { last: Some(Err(_)), .. } => SizeHint::default(),
            State::Releasing { last: None, .. } | State::Done => SizeHint::with_exact(0),
        }
    }
}

/// The answer, and the lock to be released. If the lock is to be held and there is a body to send,
/// the lock is in the body instead.
pub(crate) fn finish<B: Body, Err>(
    result: Result<Response<B>, Err>,
    guard: BodyGuard,
    hold: Option<OnLoss>,
) -> (Result<Response<ResponseBody<B>>, Err>, Option<BodyGuard>) {
    match (result, hold) {
        (Ok(response), Some(on_loss)) if is_sent(&response) => {
            (Ok(response.map(|body| ResponseBody::held(body, guard, on_loss))), None)
        }
        (result, _) => (result.map(|response| response.map(ResponseBody::unlocked)), Some(guard)),
    }
}

/// Whether there is a body, and a server sends it. A server drops any other without a look at it, and the client
/// has all of the answer before the lock is released.
fn is_sent<B: Body>(response: &Response<B>) -> bool {
    let status = response.status();
    let has_none = status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    !has_none && !response.body().is_end_stream()
}

impl OnLoss {
    fn frame(&self, lost: LockError) -> Result<Frame<Bytes>, BoxError> {
        match self {
            Self::Error => Err(lost.into()),
            #[cfg(feature = "tonic")]
            Self::Trailers(status) => {
                let mut trailers = HeaderMap::new();
                // It fails over a message that cannot be a header, when the code is in already.
                let _complete = status(lost).add_header(&mut trailers);
                Ok(Frame::trailers(trailers))
            }
        }
    }
}

// Not derived: that would require `Debug` of the body inside.
impl<B> fmt::Debug for ResponseBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Unlocked { .. } => "Unlocked",
            State::Refusal { .. } => "Refusal",
            State::Held { .. } => "Held",
            State::Releasing { .. } => "Releasing",
            State::Done => "Done",
        };
        f.debug_struct("ResponseBody").field("state", &state).finish_non_exhaustive()
    }
}
