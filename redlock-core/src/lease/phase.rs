//! The phases of a hold, how it ends, and what a phase means to its holder. Pure.

use std::time::Duration;

use crate::{clock::Moment, error::LostReason};

/// How a hold ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Its holder released it.
    Released,
    /// It was lost (rule 9).
    Lost(LostReason),
}

/// Whether a hold may be relied on at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The hold may be relied on for this much longer.
    Valid(Duration),
    /// Real time has run ahead: nothing may rely on it until a renewal has cleared it (rule 2).
    Doubtful,
    Ended(End),
}

/// The phase of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Held,
    /// Real time has run ahead, and only a renewal that was sent since clears that: a wall clock that
    /// is set back does not. A doubt counts from when its own renewal was sent: a hold that waits for
    /// room stays doubtful until its deadline.
    Doubtful {
        renewal_sent: Option<Moment>,
    },
    /// It has ended, and its keys are still there.
    Ended(End),
    /// It has ended, and its lease is being deleted or passed on.
    Releasing(End),
}

impl Phase {
    pub(super) fn end(self) -> Option<End> {
        match self {
            Self::Ended(end) | Self::Releasing(end) => Some(end),
            Self::Held | Self::Doubtful { .. } => None,
        }
    }

    /// What a phase means to a holder whose hold ends after `left`.
    pub(super) fn judgement(self, left: Duration) -> Judgement {
        match self {
            Self::Ended(end) | Self::Releasing(end) => Judgement::Ended(end),
            Self::Held => Judgement::Valid(left),
            Self::Doubtful { .. } => Judgement::Doubtful,
        }
    }

    /// When the renewal that a doubt waits for was sent.
    pub(super) fn doubted_since(self) -> Option<Moment> {
        match self {
            Self::Doubtful { renewal_sent } => renewal_sent,
            Self::Held | Self::Ended(_) | Self::Releasing(_) => None,
        }
    }
}
