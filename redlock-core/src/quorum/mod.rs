//! Asking all nodes at once and knowing as early as possible what came of it (rule 3).

mod ballot;
mod bell;
mod numbering;
mod round;
mod votes;

pub(crate) use ballot::{Ballot, Counts, Uncast, ask, ask_one, cast_all, twin};
pub(crate) use bell::Bell;
pub(crate) use numbering::{Agreement, Numbering, agree};
pub(crate) use round::{Round, Sequel};
pub(crate) use votes::{Tally, quorum};
