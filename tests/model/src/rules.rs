//! What can be left out of the protocol, and how much may happen in a run.

use std::fmt;

/// One rule, or part of one, that a protocol does without. Numbers are those of
/// `ARCHITECTURE.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Omission {
    /// 1: the attempts of a client share a token.
    FreshToken,
    /// 2: validity counts from the answers and not from the send.
    ClockBeforeSend,
    /// 2: no part of the ttl is reserved for clocks of other rates.
    DriftAllowance,
    /// 2: validity is a flag that is cleared some time after it has run out.
    ClockAtEachRead,
    /// 3: half of the nodes is a quorum.
    Majority,
    /// 4: a quorum that comes when no validity is left is relied on until the next tick.
    ValidityAtGrant,
    /// 5: nothing is deleted after an attempt that failed.
    CleanUp,
    /// 5: deleting after an attempt that failed compares no token.
    CompareOnCleanUp,
    /// 5: a delete may arrive before the SET that it undoes.
    SameConnection,
    /// 5: a delete leaves its own SET in the outbox, and so overtakes it.
    WithdrawUnsent,
    /// 5: a renewal overtakes its own SET, which is still in the outbox.
    RenewalBehindSet,
    /// 5: the nodes on which a key was set again get no delete.
    CleanUpOfHeal,
    /// 7: an extension compares no token.
    CompareOnExtend,
    /// 7: an extension counts with a majority of those that answered: with one of one.
    ExtendOverAll,
    /// 7: an extension counts when the validity before it has run out.
    ExtendInTime,
    /// 7: an extension sets the expiry, even to an earlier time.
    NeverShorten,
    /// 7: an extension that fails deletes the keys, and the holder goes on.
    NeverDelete,
    /// 8: a missing key counts as a vote, since it is set again.
    HealAfterQuorum,
    /// 8: setting a key again overwrites what is there.
    HealOnlyAbsent,
    /// 10: a key is set again behind the release.
    NothingAfterRelease,
    /// 11: releasing compares no token.
    CompareOnRelease,
    /// 16: a node that has restarted votes at once.
    Quarantine,
    /// 16: it votes one tick before the longest lease that it may have forgotten has run out.
    WholeQuarantine,
    /// Handing over: the next relies on what a renewal would give that no quorum has confirmed.
    HandOverConfirmed,
    /// Handing over: the next counts its validity from then on, and not from the last renewal.
    HandOverKeepsDeadline,
    /// Handing over: the hold before goes on reading the lease.
    HandOverEndsHold,
    /// Handing over: the hold before releases all the same.
    HandOverEndsRelease,
    /// Handing over: what goes to a waiter that has gone is neither passed on nor released.
    HandOverToAWaiter,
}

/// How much may happen in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// How often each client tries.
    pub(super) attempts: &'static [u8],
    /// The ticks for which a node keeps a key.
    pub(super) ttl: u8,
    /// How many of them are reserved for clocks of other rates.
    pub(super) drift: u8,
    /// How many ticks the clock of each client may miss.
    pub(super) lag: u8,
    /// How often each hold may be extended.
    pub(super) extensions: u8,
    /// By how much a hold may also be extended, unless zero.
    pub(super) short: u8,
    /// How many wait in the process of each client, besides those that try.
    pub(super) waiters: u8,
    /// How often nodes restart without their keys.
    pub(super) restarts: u8,
    /// How many clients stop for good, wherever they are.
    pub(super) stops: u8,
    /// How often the clock of a node is set one tick ahead: beyond what is assumed.
    pub(super) jumps: u8,
    /// How often a node loses its keys and goes on: beyond what is assumed.
    pub(super) losses: u8,
    /// What a client sends to a node arrives in order and is never lost, clients do not stop: then
    /// no key may stay behind.
    pub(super) orderly: bool,
    /// A SET waits in the outbox of its client for as long as may be, while renewals and deletes
    /// leave: what is in order is each claim by itself.
    pub(super) outbox: bool,
}

impl Bounds {
    /// Two clients that try once, and nothing that goes wrong but the network.
    pub(super) const LEAST: Self = Self {
        attempts: &[1, 1],
        ttl: 2,
        drift: 0,
        lag: 0,
        extensions: 0,
        short: 0,
        waiters: 0,
        restarts: 0,
        stops: 0,
        jumps: 0,
        losses: 0,
        orderly: false,
        outbox: false,
    };
}

/// In words, for readers of the table.
impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempts: Vec<String> = self.attempts.iter().map(u8::to_string).collect();
        write!(f, "try {}, ttl {}", attempts.join("+"), self.ttl)?;
        let more = [
            ("drift", self.drift),
            ("lag", self.lag),
            ("extend", self.extensions),
            ("short", self.short),
            ("wait", self.waiters),
            ("restart", self.restarts),
            ("stop", self.stops),
            ("jump", self.jumps),
            ("lose", self.losses),
        ];
        for (what, count) in more.into_iter().filter(|(_, count)| *count > 0) {
            write!(f, ", {what} {count}")?;
        }
        f.write_str(if self.orderly { ", orderly" } else { "" })?;
        f.write_str(if self.outbox { ", outbox" } else { "" })
    }
}

/// What is checked: a protocol and how much may happen to it.
#[derive(Debug, Clone)]
pub(super) struct Protocol {
    pub(super) omission: Option<Omission>,
    pub(super) bounds: Bounds,
}

impl Protocol {
    pub(super) fn omits(&self, rule: Omission) -> bool {
        self.omission == Some(rule)
    }

    pub(super) fn drift(&self) -> u8 {
        if self.omits(Omission::DriftAllowance) { 0 } else { self.bounds.drift }
    }

    /// What is left of the validity of a round that starts now.
    pub(super) fn validity(&self, ttl: u8) -> u8 {
        ttl.saturating_sub(self.drift())
    }

    /// How long a node that restarts sits out.
    pub(super) fn sits_out(&self) -> u8 {
        if self.omits(Omission::Quarantine) {
            0
        } else if self.omits(Omission::WholeQuarantine) {
            self.validity(self.bounds.ttl) - 1
        } else {
            self.bounds.ttl
        }
    }

    pub(super) fn quorum(&self) -> usize {
        super::state::NODES / 2 + usize::from(!self.omits(Omission::Majority))
    }
}
