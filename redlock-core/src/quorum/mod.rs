//! Asking all nodes at once, and knowing the outcome as early as possible (rule 3).
//!
//! | file | what it does |
//! |---|---|
//! | [`nodes`] | the nodes of one client, with its clock and its timeouts |
//! | [`ask`], [`answer`] | puts a question to all nodes; waits for the answer of one |
//! | [`round`], [`votes`] | a question to all nodes, and when it is settled; counting votes (pure) |
//! | [`twins`], [`one_vote`] | which name of a server has its vote; counts each server once |
//! | [`numbering`] | which node gave which number, beside its vote |
//! | [`free_signal`] | that a lock may have become free |

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
