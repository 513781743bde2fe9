//! What is checked: the whole protocol in several surroundings, and the protocol without each of
//! its rules.

use std::{fmt, sync::Arc};

use super::{
    check::{Subject, Told},
    fence,
    properties::{CLEAN, EXCLUSIVE, UNBROKEN},
    roles,
    rules::{Bounds, Omission, Protocol},
    sets,
};

/// How much there is to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// What a test can wait for, whatever it was compiled with: at most some 100,000 states.
    Small,
    /// What takes seconds or minutes.
    Full,
}

/// What a check has to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// No behaviour breaks any property.
    Holds,
    /// This property is broken: it is named after what is seen then.
    Broken(&'static str),
}

/// One check.
#[derive(Debug, Clone)]
pub struct Case {
    /// What is special about it.
    pub name: &'static str,
    /// The rule that is left out; of `ARCHITECTURE.md`.
    pub rule: &'static str,
    /// How much there is to try.
    pub size: Size,
    /// What the check has to find.
    pub expected: Expected,
    pub(super) subject: Arc<dyn Subject>,
}

impl Case {
    /// A case of the whole protocol, which holds.
    pub(super) fn holds(size: Size, name: &'static str, model: impl Told) -> Self {
        let subject = Arc::new(model);
        Self { name, rule: "", size, expected: Expected::Holds, subject }
    }

    /// A case in which this property is broken, because this rule is left out or more goes wrong than
    /// the protocol is made for.
    pub(super) fn breaks(
        rule: &'static str,
        name: &'static str,
        model: impl Told,
        property: &'static str,
    ) -> Self {
        let (expected, subject) = (Expected::Broken(property), Arc::new(model));
        Self { name, rule, size: Size::Small, expected, subject }
    }

    /// This case, where it takes many states until the mistake shows.
    pub(super) fn long(self) -> Self {
        Self { size: Size::Full, ..self }
    }

    /// What the model is of, as the name says it; empty for that of one lock.
    pub fn family(&self) -> &'static str {
        self.name.split_once(": ").map_or("", |(family, _)| family)
    }

    /// How many clients there are.
    pub fn clients(&self) -> usize {
        self.subject.clients()
    }

    /// How much may happen, in words.
    pub fn bounds(&self) -> String {
        self.subject.bounds()
    }
}

/// All checks.
pub fn cases() -> Vec<Case> {
    let lock =
        whole().into_iter().chain(without()).chain(without_in_handing_over()).chain(beyond());
    lock.chain(fence::cases()).chain(sets::cases()).chain(roles::cases()).collect()
}

const TWICE: Bounds = Bounds { attempts: &[2, 1], ..Bounds::LEAST };
const THREE: Bounds = Bounds { attempts: &[1, 1, 1], ..Bounds::LEAST };
const RESTART: Bounds = Bounds { restarts: 1, ..Bounds::LEAST };
const DRIFTING: Bounds = Bounds { ttl: 3, drift: 1, lag: 1, ..Bounds::LEAST };
const EXTENDED: Bounds = Bounds { extensions: 1, ..Bounds::LEAST };
const WAITING: Bounds = Bounds { waiters: 1, ..Bounds::LEAST };
const ORDERLY: Bounds = Bounds { orderly: true, ..TWICE };
const ORDERLY_RESTART: Bounds =
    Bounds { restarts: 1, extensions: 1, orderly: true, ..Bounds::LEAST };
const OUTBOX: Bounds = Bounds { outbox: true, ..ORDERLY };
const OUTBOX_EXTENDED: Bounds =
    Bounds { extensions: 1, orderly: true, outbox: true, ..Bounds::LEAST };

/// Nothing is left out, and only such faults happen as the protocol is made for.
fn whole() -> Vec<Case> {
    use Size::{Full, Small};
    let case = |size, name, bounds| Case::holds(size, name, Protocol { omission: None, bounds });
    let stopping = Bounds { stops: 1, ..DRIFTING };
    let three = Bounds { attempts: &[1, 1, 1], ..stopping };
    let long_or_short = Bounds { ttl: 3, short: 1, ..EXTENDED };
    let all_at_once = Bounds { restarts: 1, extensions: 1, ..stopping };
    let orderly_twice = Bounds { attempts: &[2, 2], ..ORDERLY };
    let orderly_three = Bounds { attempts: &[1, 1, 1], ..ORDERLY_RESTART };
    let orderly_again = Bounds { attempts: &[2, 1], ..ORDERLY_RESTART };
    vec![
        case(Small, "a slow clock", DRIFTING),
        case(Small, "a restart", RESTART),
        case(Small, "extend and heal", EXTENDED),
        case(Small, "no key left", ORDERLY),
        case(Small, "hand over", WAITING),
        case(Small, "outbox", Bounds { attempts: &[1, 1], ..OUTBOX }),
        case(Full, "try again", TWICE),
        case(Full, "two restarts, one stops", Bounds { restarts: 2, ..stopping }),
        case(Full, "extend by less or more", long_or_short),
        case(Full, "heal, two restarts", Bounds { restarts: 2, ..EXTENDED }),
        case(Full, "extend twice", Bounds { extensions: 2, ..Bounds::LEAST }),
        case(Full, "all at once", all_at_once),
        case(Full, "three clients", three),
        case(Full, "no key left, both try again", orderly_twice),
        case(Full, "no key left, three heal", orderly_three),
        case(Full, "no key left, heal, try again", orderly_again),
        case(Full, "outbox, try again", OUTBOX),
        case(Full, "outbox, extend and heal", OUTBOX_EXTENDED),
        case(Full, "outbox, a restart", Bounds { restarts: 1, ..OUTBOX_EXTENDED }),
        case(Full, "outbox, any order", Bounds { orderly: false, ..OUTBOX }),
        case(Full, "hand over, all at once", Bounds { waiters: 1, ..all_at_once }),
    ]
}

/// Without one rule, or part of one, in the least surroundings in which it shows.
fn left_out(
    rule: &'static str,
    name: &'static str,
    omission: Omission,
    bounds: Bounds,
    broken: &'static str,
) -> Case {
    Case::breaks(rule, name, Protocol { omission: Some(omission), bounds }, broken)
}

fn without() -> Vec<Case> {
    use Omission as O;
    const LEAST: Bounds = Bounds::LEAST;
    let short = Bounds { short: 1, ..EXTENDED };
    let healed = Bounds { restarts: 1, ..EXTENDED };
    let three_extended = Bounds { extensions: 1, orderly: true, ..THREE };
    let case = left_out;
    let long = |rule, name, omission, bounds, broken| {
        left_out(rule, name, omission, bounds, broken).long()
    };
    vec![
        long("1", "one token for all attempts", O::FreshToken, TWICE, EXCLUSIVE),
        case("2", "validity from the answers on", O::ClockBeforeSend, LEAST, EXCLUSIVE),
        long("2", "nothing for slow clocks", O::DriftAllowance, DRIFTING, EXCLUSIVE),
        case("2, 9", "validity as a flag", O::ClockAtEachRead, LEAST, EXCLUSIVE),
        case("3", "half as a quorum", O::Majority, LEAST, EXCLUSIVE),
        case("4", "a quorum that comes too late", O::ValidityAtGrant, LEAST, EXCLUSIVE),
        case("5, 6", "no clean-up", O::CleanUp, ORDERLY, CLEAN),
        long("5", "clean-up without compare", O::CompareOnCleanUp, THREE, EXCLUSIVE),
        case("5", "clean-up overtakes", O::SameConnection, ORDERLY, CLEAN),
        case("5", "a release overtakes its SET", O::WithdrawUnsent, OUTBOX, CLEAN),
        case("5", "a renewal overtakes its SET", O::RenewalBehindSet, OUTBOX_EXTENDED, CLEAN),
        case("5, 8", "no clean-up of a heal", O::CleanUpOfHeal, ORDERLY_RESTART, CLEAN),
        case("7", "extend without compare", O::CompareOnExtend, EXTENDED, EXCLUSIVE),
        case("7", "one renewal is enough", O::ExtendOverAll, EXTENDED, EXCLUSIVE),
        long("7", "an extension that comes too late", O::ExtendInTime, EXTENDED, UNBROKEN),
        case("7", "an extension that shortens", O::NeverShorten, short, EXCLUSIVE),
        case("7", "a failed extension deletes", O::NeverDelete, EXTENDED, EXCLUSIVE),
        long("8", "a missing key counts", O::HealAfterQuorum, healed, EXCLUSIVE),
        long("8", "a heal overwrites", O::HealOnlyAbsent, three_extended, EXCLUSIVE),
        case("10", "a heal behind the release", O::NothingAfterRelease, ORDERLY_RESTART, CLEAN),
        long("11", "release without compare", O::CompareOnRelease, THREE, EXCLUSIVE),
        case("16", "no sitting out", O::Quarantine, RESTART, EXCLUSIVE),
        case("16", "sitting out for too short", O::WholeQuarantine, RESTART, EXCLUSIVE),
    ]
}

/// The conditions for handing a lease over, and the end of the previous hold.
fn without_in_handing_over() -> Vec<Case> {
    use Omission as O;
    let orderly = Bounds { orderly: true, ..WAITING };
    let extended = Bounds { extensions: 1, ..WAITING };
    let case =
        |name, omission, bounds, broken| left_out("hand-over", name, omission, bounds, broken);
    vec![
        case("handed over unconfirmed", O::HandOverConfirmed, extended, EXCLUSIVE),
        case("handed over, deadline anew", O::HandOverKeepsDeadline, WAITING, EXCLUSIVE),
        case("the hold before goes on", O::HandOverEndsHold, WAITING, EXCLUSIVE),
        case("the hold before releases", O::HandOverEndsRelease, WAITING, EXCLUSIVE),
        case("handed over to no waiter", O::HandOverToAWaiter, orderly, CLEAN),
    ]
}

/// The whole protocol where more goes wrong than it is made for: why the limits are where they are.
fn beyond() -> Vec<Case> {
    let case =
        |name, bounds| Case::breaks("", name, Protocol { omission: None, bounds }, EXCLUSIVE);
    vec![
        case("a clock slower than allowed for", Bounds { lag: 2, ..DRIFTING }),
        case("one node's clock set ahead", Bounds { jumps: 1, ..Bounds::LEAST }),
        case("one node loses its keys unseen", Bounds { losses: 1, ..Bounds::LEAST }),
    ]
}

/// In words, for readers of the table.
impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::Broken(property) => property,
        })
    }
}
