//! What can be left out of the protocol for sets, and how much may happen in a run.

use std::fmt;

/// One rule, or part of one, that the protocol does without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Omission {
    /// A node sets the keys of a set one by one, each where it is free.
    OneStep,
    /// A node votes for a set of which it could set some keys only.
    AllOrNone,
    /// A node renews what it has of a set, and votes for it.
    RenewAll,
    /// A release deletes the first key only.
    ReleaseAll,
    /// Each client joins the queues in an order of its own.
    SameOrder,
    /// A client joins all queues at once, and not each when it is the first in the one before.
    OneAfterTheOther,
}

/// How much may happen in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The resources that each client wants, one bit each.
    pub(super) sets: &'static [u8],
    /// How often each client tries.
    pub(super) attempts: u8,
    /// How often a holder renews.
    pub(super) renewals: u8,
    /// How many keys are lost where their holder has them on all nodes.
    pub(super) losses: u8,
    /// Clients ask only when they are the first in the queues of all their resources. Then they get
    /// what they ask for: the nodes are left out.
    pub(super) queues: bool,
    /// Keys expire. Without, every key has to be deleted.
    pub(super) expiry: bool,
}

impl Bounds {
    /// Two sets that share a resource.
    pub(super) const LEAST: Self = Self {
        sets: &[0b011, 0b110],
        attempts: 1,
        renewals: 0,
        losses: 0,
        queues: false,
        expiry: true,
    };
}

/// In words, for readers of the table.
impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |set: &u8| {
            let resources = "abc".chars().enumerate();
            resources.filter(|(at, _)| set & (1 << at) != 0).map(|(_, name)| name).collect()
        };
        let sets: Vec<String> = self.sets.iter().map(name).collect();
        write!(f, "sets {}, try {}", sets.join(" "), self.attempts)?;
        for (what, count) in [("renew", self.renewals), ("loss", self.losses)] {
            if count > 0 {
                write!(f, ", {what} {count}")?;
            }
        }
        f.write_str(if self.queues { ", in queues" } else { "" })?;
        f.write_str(if self.expiry { ", any expiry" } else { "" })
    }
}

/// What is checked: the protocol for sets and how much may happen to it.
#[derive(Debug, Clone)]
pub(crate) struct Sets {
    pub(crate) omission: Option<Omission>,
    pub(crate) bounds: Bounds,
}

impl Sets {
    /// How many clients there are.
    pub(crate) fn clients(&self) -> usize {
        self.bounds.sets.len()
    }

    pub(super) fn omits(&self, rule: Omission) -> bool {
        self.omission == Some(rule)
    }

    /// Whether a client wants a resource.
    pub(super) fn wants(&self, client: usize, resource: usize) -> bool {
        self.bounds.sets[client] & (1 << resource) != 0
    }

    /// The queues of a client, in the order in which it joins them.
    pub(super) fn order(&self, client: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..8).filter(|it| self.wants(client, *it)).collect();
        if self.omits(Omission::SameOrder) && client + 1 == self.clients() {
            order.reverse();
        }
        order
    }
}
