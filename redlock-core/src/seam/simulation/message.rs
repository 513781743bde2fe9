//! What goes over a connection. A simulation delivers it, and reads what is public here.

use std::time::Duration;

use crate::node::{self, Action, KeySet};

/// A command to a node.
#[derive(Debug, Clone)]
pub struct Command(pub(super) node::Command);

/// The answer of a node to a command.
#[derive(Debug, Clone)]
pub struct Reply(pub(super) node::Reply);

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Sets the key for a new lock.
    Grant,
    /// Takes the key over from a client that handed it on.
    Adopt,
    /// Sets the key of a lock that is held.
    Heal,
    /// Extends the key.
    Extend,
    /// Extends the key and draws numbers.
    Redraw,
    /// Confirms numbers.
    Confirm,
    /// Shortens the key to what is left of `min_hold`.
    Shorten,
    /// Deletes the key.
    Release,
    /// Asks for the state of the key and for its next change.
    Watch,
    /// Stands in the queue before the key.
    Join,
    /// Leaves the queue.
    Leave,
    /// Tells an operator the state of the key.
    Inspect,
    /// Gives the key a value that no holder has.
    TakeAway,
    /// Deletes the key, whichever client has it.
    Clear,
}

/// What a node answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// There is no such key.
    Missing,
    /// Another client has the key.
    Foreign,
}

impl Command {
    /// What the command does.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.0.action {
            Action::Grant { .. } | Action::GrantFenced { .. } => Kind::Grant,
            Action::Adopt { .. } => Kind::Adopt,
            Action::Redraw { .. } => Kind::Redraw,
            Action::Confirm(_) => Kind::Confirm,
            Action::Heal { .. } => Kind::Heal,
            Action::Extend { .. } => Kind::Extend,
            Action::Shorten { .. } => Kind::Shorten,
            Action::Release { .. } => Kind::Release,
            Action::Join { .. } => Kind::Join,
            Action::Leave { .. } => Kind::Leave,
            Action::RaiseBarrier { .. } | Action::LowerBarrier | Action::FindPermits { .. } => {
                Kind::Watch
            }
            Action::Watch => Kind::Watch,
            Action::Inspect { .. } => Kind::Inspect,
            Action::TakeAway => Kind::TakeAway,
            Action::Clear { .. } => Kind::Clear,
        }
    }

    /// For how long it asks; zero when it does not.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.0.action.ttl().unwrap_or_default()
    }

    /// The key, prefix included; of a set the first.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.0.claim.key
    }

    /// The first 64 bits of its token.
    #[must_use]
    pub fn claim(&self) -> u64 {
        number(&self.0.claim.value)
    }

    /// Lets a release give no turn to the next client in the queue, as without the permission for
    /// it.
    pub fn wake_no_client(&mut self) {
        match &mut self.0.action {
            Action::Release { wakes } => *wakes = KeySet::NONE,
            Action::Clear { wakes } => *wakes = false,
            _ => {}
        }
    }
}

impl Reply {
    /// What it says.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        use node::Reply;
        match self.0.of_key() {
            Reply::Missing => Outcome::Missing,
            Reply::Foreign | Reply::Full | Reply::Permits { .. } => Outcome::Foreign,
            Reply::Done
            | Reply::There { .. }
            | Reply::Woke { .. }
            | Reply::Unwoken { .. }
            | Reply::HasReaders { .. } => Outcome::Done,
            Reply::Queued { .. } | Reply::Numbered { .. } | Reply::Inspected(_) => Outcome::Done,
        }
    }
}

/// The first 64 bits of a token, which is the beginning of the value and hexadecimal.
pub(super) fn number(value: &str) -> u64 {
    value.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0)
}
