//! One attempt, and the hold that came of it.

use std::{fmt, sync::Arc};

use super::super::world::Client;

/// What is known of one attempt and the hold that came of it. Bits stand for nodes.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    pub(crate) client: usize,
    /// Holds that rely on it now.
    pub(crate) live: u32,
    pub(super) granted: u32,
    pub(super) let_go: u32,
    /// How often a node has run a delete.
    pub(super) deleted: [u8; 8],
    /// The nodes on which a command has set it again after two deletes had overtaken it. Rule 5 promises
    /// nothing for such a late command, and the key stays until its ttl.
    pub(super) ghosts: u32,
    /// Until when `min_hold` keeps it, in true milliseconds.
    pub(super) keep_until: u64,
    /// Where it has been granted.
    pub(super) taken: u32,
    /// Its holder leaves its keys to another process.
    pub(crate) left: bool,
    /// The client that has adopted it, and its claim.
    pub(crate) adopter: Option<(usize, u64)>,
    /// The client that has deleted what its holder has left.
    pub(super) deleted_by: Option<usize>,
    /// An operator lets it stay for what is left of it.
    pub(super) is_kept: bool,
    /// Another process may have it.
    pub(crate) quiet: Option<Quiet>,
    /// An operator has deleted it under its holder.
    pub(crate) flushed: bool,
    /// Some nodes have granted it only after that.
    pub(crate) regranted: bool,
    /// An operator has deleted it on some node, and other clients may have the lock before its holder
    /// knows.
    pub(crate) cleared: bool,
    /// Where an operator has taken it away or deleted it, and it was not set again.
    pub(super) away: u32,
    /// Since when this is so on a quorum of nodes.
    pub(super) away_since: Option<u64>,
    /// The longest ttl that it was asked for.
    pub(super) longest: u64,
    /// When its first node was asked, and when the last one has granted it.
    pub(super) asked_at: Option<u64>,
    pub(super) granted_at: u64,
}

impl Claim {
    /// It is on a node again.
    pub(super) fn is_back(&mut self, node: usize) {
        self.away &= !(1 << node);
        self.away_since = None;
    }

    /// Whether other clients may have its lock although its holder relies on it.
    pub(crate) fn is_excused(&self) -> bool {
        self.flushed || self.cleared
    }

    /// Whether its holder must know by now that an operator has taken it away. A renewal that a quorum
    /// has answered was sent before, and a client's clock may be slow.
    pub(crate) fn is_long_gone(&self, now: u64) -> bool {
        let known_by = |since: u64| since + self.longest + self.longest / 16 + 10;
        self.away_since.is_some_and(|since| now > known_by(since))
    }

    /// Whether no operator has touched it.
    pub(crate) fn is_untouched(&self) -> bool {
        !self.is_excused() && self.away == 0
    }

    /// That its holder did not know was told.
    pub(crate) fn is_told(&mut self) {
        self.away_since = None;
    }
}

/// From when on a process sends nothing more for a lock that it has handed to another one: what was asked
/// for before is either sent by then or given up. A process that stands still meanwhile sends it when it
/// goes on. Only deletes go on: those for nodes that had not answered.
pub(crate) struct Quiet {
    client: Arc<Client>,
    /// In true milliseconds, not counting those in which the process stood still.
    from: u64,
}

impl Quiet {
    pub(crate) fn after(client: &Arc<Client>, now: u64, span: u64) -> Self {
        Self { client: Arc::clone(client), from: now - client.paused() + span }
    }

    pub(super) fn is_due(&self, now: u64) -> bool {
        now - self.client.paused() > self.from
    }
}

impl fmt::Debug for Quiet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quiet").field("from", &self.from).finish_non_exhaustive()
    }
}
