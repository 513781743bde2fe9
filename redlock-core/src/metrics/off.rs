//! Nothing is counted: the same functions as in `on`, all empty.

use std::{sync::Arc, time::Duration};

use crate::{
    clock::{Clock, Moment},
    error::{LostReason, NodeErrorKind},
};

#[inline]
pub(crate) fn describe() {}

pub(crate) struct Acquiring;

#[inline]
pub(crate) fn acquiring(_clock: &dyn Clock, _label: &'static str) -> Acquiring {
    Acquiring
}

impl Acquiring {
    #[inline]
    pub(crate) fn done(self, _outcome: &'static str) {}
}

#[inline]
pub(crate) fn waited(_label: &'static str, _waited: Duration) {}

pub(crate) struct Counted;

#[inline]
pub(crate) fn waiting(_label: &'static str) -> Counted {
    Counted
}

#[inline]
pub(crate) fn queued() -> Counted {
    Counted
}

#[inline]
pub(crate) fn queue_ahead(_label: &'static str, _ahead: u64) {}

#[inline]
pub(crate) fn woken(_label: &'static str, _cause: &'static str) {}

#[derive(Debug)]
pub(crate) struct Held {
    /// Kept for spans.
    pub(crate) label: &'static str,
}

impl Held {
    #[inline]
    pub(crate) fn new(
        label: &'static str,
        _since: Moment,
        _mode: impl FnOnce() -> &'static str,
    ) -> Self {
        Self { label }
    }

    #[inline]
    pub(crate) fn begin(&self) {}

    #[inline]
    pub(crate) fn end(&self, _clock: &dyn Clock) {}

    #[inline]
    pub(crate) fn lost(&self, _reason: LostReason) {}

    #[inline]
    pub(crate) fn given(&self) {}

    #[inline]
    pub(crate) fn renewal(&self, _outcome: &'static str) {}
}

pub(crate) struct NodeGauges;

impl NodeGauges {
    #[inline]
    pub(crate) fn new(_node: &Arc<str>) -> Self {
        Self
    }

    #[inline]
    pub(crate) fn link(&self, _is_up: impl FnOnce() -> Option<bool>) {}

    #[inline]
    pub(crate) fn sits_out(&self, _left: impl FnOnce() -> Option<Duration>) {}

    #[inline]
    pub(crate) fn cleanups(&self, _pending: impl FnOnce() -> usize) {}

    #[inline]
    pub(crate) fn leave(&self) {}
}

#[inline]
pub(crate) fn node_round_trip(_node: &Arc<str>, _took: Duration) {}

#[inline]
pub(crate) fn node_failure(_node: &Arc<str>, _kind: NodeErrorKind) {}

#[inline]
pub(crate) fn node_odd_expiry(_node: &Arc<str>) {}
