//! Asking all nodes at once and knowing as early as possible what came of it (rule 3).

mod bell;
mod round;
mod votes;

pub(crate) use bell::Bell;
pub(crate) use round::{Ballot, Round, Sequel, Uncast, ask, ask_one, cast_all, twin};
pub(crate) use votes::{Tally, quorum};
