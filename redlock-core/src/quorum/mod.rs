//! Asking all nodes at once, and knowing the outcome as early as possible (rule 3).

mod answer;
mod ask;
mod free_signal;
mod nodes;
mod numbering;
mod one_vote;
mod round;
mod twins;
mod votes;

pub(crate) use answer::{NodeQuestion, answer_of, no_answer};
pub(crate) use ask::{ask, ask_one};
pub(crate) use free_signal::FreeSignal;
pub(crate) use nodes::Nodes;
pub(crate) use numbering::{Agreement, Numbering, agree};
pub(crate) use one_vote::OneVote;
#[cfg(test)]
pub(crate) use round::names;
pub(crate) use round::{Effect, OnSettled, Round};
pub(crate) use twins::Twins;
pub(crate) use votes::{Tally, Vote, quorum};
