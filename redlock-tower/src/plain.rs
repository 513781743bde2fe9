//! Refusals as errors.

use std::fmt;

use redlock_core::LockHandle;

use crate::protocol::{BoxError, Protocol, Refusal};

/// The protocol of [`RedlockLayer::new`](crate::RedlockLayer::new): refusals are errors.
#[derive(Clone)]
pub struct Plain {
    _private: (),
}

impl Plain {
    pub(crate) fn new() -> Self {
        Self { _private: () }
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plain")
    }
}

impl<Req, Res, Err: Into<BoxError>> Protocol<Req, Res, Err> for Plain {
    type Response = Res;
    type Error = BoxError;

    fn attach(_: &mut Req, _: Option<LockHandle>) {}

    fn refuse(&self, refusal: Refusal) -> Result<Res, BoxError> {
        Err(refusal.into_lock_error().into())
    }

    fn error(error: Err) -> BoxError {
        error.into()
    }

    fn answer(&self, result: Result<Res, Err>) -> Result<Res, BoxError> {
        result.map_err(Into::into)
    }
}
