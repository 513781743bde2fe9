//! What can be left out of the protocol, the roles of clients, and how much may happen in a run.

use std::fmt;

/// One rule, or part of one, that the protocol does without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Omission {
    /// A writer gets a node's vote although the node has readers.
    WriterSeesReaders,
    /// A reader gets a node's vote although the node has a writer.
    ReaderSeesWriter,
    /// All readers of a node expire together, as the last of them was set.
    OwnExpiry,
    /// A reader that lets go removes all readers of a node.
    OwnRelease,
    /// What a writer releases is deleted, whichever clients have it.
    CompareOnRelease,
    /// A quorum that comes after the end of the validity counts.
    ValidityAtGrant,
    /// A quorum of renewals that comes after the end of the validity counts.
    ExtendInTime,
    /// One node is enough.
    Majority,
    /// A holder relies on its lock until it lets go, and not until its validity ends.
    ValidityAtEachRead,
    /// A node that lost its keys votes at once.
    Quarantine,
    /// A client takes the lock over whatever value the node has, if any.
    AdoptCompares,
    /// A client takes the lock over and leaves it the value of the giver.
    AdoptReplaces,
    /// A lock is taken over after the validity of the giver has ended.
    AdoptInTime,
    /// A node votes for an adoption that had not answered the giver when it handed the lock over.
    AdoptCountsConfirmed,
    /// The giver relies on its lock after it has handed it over.
    GiverEnds,
    /// The giver goes on with renewing what it has handed over.
    GiverStopsRenewing,
    /// The client that takes a lock over counts its number up, and asks no counter.
    NumberStays,
}

/// What a client wants with the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// To hold it alone.
    Writer,
    /// To hold it among other readers.
    Reader,
    /// To hold it alone, and to hand it over.
    Giver,
    /// To take it over from the giver.
    Adopter,
}

/// How much may happen in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The role of each client.
    pub(super) roles: &'static [Role],
    /// How often a holder renews.
    pub(super) renewals: u8,
    /// How often a node restarts without its keys.
    pub(super) restarts: u8,
    /// Keys expire. Without, every key has to be deleted.
    pub(super) expiry: bool,
}

impl Bounds {
    /// These clients, and nothing but what they ask for and the end of it.
    pub(super) const fn of(roles: &'static [Role]) -> Self {
        Self { roles, renewals: 0, restarts: 0, expiry: true }
    }
}

/// In words, for readers of the table.
impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |role: &Role| match role {
            Role::Writer => "writer",
            Role::Reader => "reader",
            Role::Giver => "giver",
            Role::Adopter => "adopter",
        };
        let roles: Vec<_> = self.roles.iter().map(name).collect();
        f.write_str(&roles.join(" "))?;
        for (what, count) in [("renew", self.renewals), ("restart", self.restarts)] {
            if count > 0 {
                write!(f, ", {what} {count}")?;
            }
        }
        f.write_str(if self.expiry { ", any expiry" } else { "" })
    }
}

/// What is checked: the protocol and how much may happen to it.
#[derive(Debug, Clone)]
pub(crate) struct Roles {
    pub(super) omission: Option<Omission>,
    pub(super) bounds: Bounds,
}

impl Roles {
    pub(super) fn omits(&self, rule: Omission) -> bool {
        self.omission == Some(rule)
    }

    /// The clients by their numbers.
    pub(super) fn all(&self) -> std::ops::Range<usize> {
        0..self.bounds.roles.len()
    }

    pub(super) fn role(&self, client: usize) -> Role {
        self.bounds.roles[client]
    }

    /// The client that hands its lock over.
    pub(super) fn giver(&self) -> Option<usize> {
        self.bounds.roles.iter().position(|role| *role == Role::Giver)
    }
}
