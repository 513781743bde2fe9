//! What is checked: the whole protocol in several surroundings, and the protocol without each of
//! its rules.

use super::{
    properties::{CLEAN, EXCLUSIVE, UNBROKEN},
    rules::{Bounds, Omission, Protocol},
};

/// How much of a case is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// What a test can wait for.
    Small,
    /// What is worth minutes.
    Full,
}

/// What a check has to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// No behaviour breaks any property.
    Holds,
    /// This property is broken.
    Broken(&'static str),
}

/// One check.
#[derive(Debug, Clone)]
pub struct Case {
    /// What is special about it.
    pub name: &'static str,
    /// The rule that is left out; of `ARCHITECTURE.md`.
    pub rule: &'static str,
    /// What the check has to find.
    pub expected: Expected,
    pub(super) protocol: Protocol,
}

const EXCLUDES: Expected = Expected::Broken(EXCLUSIVE);
const LEAVES_A_KEY: Expected = Expected::Broken(CLEAN);

/// All checks of this size. What is to be broken is broken within small bounds already.
pub fn cases(size: Size) -> Vec<Case> {
    let whole = match size {
        Size::Small => small(),
        Size::Full => full(),
    };
    let whole = whole.into_iter().map(|(name, bounds)| Case {
        name,
        rule: "",
        expected: Expected::Holds,
        protocol: Protocol { omissions: &[], bounds },
    });
    whole.chain(without()).chain(beyond()).collect()
}

const TWICE: Bounds = Bounds { attempts: &[2, 1], ..Bounds::LEAST };
const EXTENDED: Bounds = Bounds { extensions: 1, ..Bounds::LEAST };
const DRIFTING: Bounds = Bounds { ttl: 3, drift: 1, lag: 1, ..Bounds::LEAST };
const ORDERLY: Bounds = Bounds { orderly: true, ..TWICE };
const ORDERLY_RESTART: Bounds = Bounds { restarts: 1, extensions: 1, orderly: true, ..Bounds::LEAST };

fn small() -> Vec<(&'static str, Bounds)> {
    vec![
        ("take and release", TWICE),
        ("extend", EXTENDED),
        ("a slow clock", DRIFTING),
        ("a restart", Bounds { restarts: 1, ..Bounds::LEAST }),
        ("nothing lost: no key left", ORDERLY),
    ]
}

fn full() -> Vec<(&'static str, Bounds)> {
    let most = Bounds { ttl: 3, drift: 1, lag: 1, stops: 1, ..Bounds::LEAST };
    vec![
        ("take and release", Bounds { attempts: &[2, 2], ttl: 3, ..Bounds::LEAST }),
        ("three clients", Bounds { attempts: &[1, 1, 1], ..Bounds::LEAST }),
        ("a slow clock, a client that stops", most),
        ("a restart", Bounds { restarts: 1, ..most }),
        ("extend, long and short", Bounds { extensions: 1, short: 1, ttl: 3, ..Bounds::LEAST }),
        ("extend and heal, a restart", Bounds { restarts: 1, ..EXTENDED }),
        ("nothing lost: no key left", Bounds { attempts: &[2, 2], ..ORDERLY }),
        ("nothing lost, a restart: no key left", ORDERLY_RESTART),
    ]
}

macro_rules! case {
    ($rule:literal, $name:literal, $omitted:ident, $bounds:expr, $expected:expr) => {
        Case {
            name: $name,
            rule: $rule,
            expected: $expected,
            protocol: Protocol { omissions: &[Omission::$omitted], bounds: $bounds },
        }
    };
}

fn without() -> Vec<Case> {
    let restart = Bounds { restarts: 1, ..Bounds::LEAST };
    let restart_extended = Bounds { restarts: 1, ..EXTENDED };
    let short = Bounds { short: 1, ..EXTENDED };
    vec![
        case!("1", "one token for all attempts", FreshToken, TWICE, EXCLUDES),
        case!("2", "validity from the answers on", ClockBeforeSend, Bounds::LEAST, EXCLUDES),
        case!("2", "no allowance for slow clocks", DriftAllowance, DRIFTING, EXCLUDES),
        case!("2", "validity as a flag", ClockAtEachRead, Bounds::LEAST, EXCLUDES),
        case!("3", "half as a quorum", Majority, Bounds::LEAST, EXCLUDES),
        case!("4", "a quorum that comes too late", ValidityAtGrant, Bounds::LEAST, EXCLUDES),
        case!("5", "no clean-up", CleanUp, ORDERLY, LEAVES_A_KEY),
        case!("5", "clean-up without compare", CompareOnCleanUp, TWICE, EXCLUDES),
        case!("5", "clean-up on another connection", SameConnection, ORDERLY, LEAVES_A_KEY),
        case!("5", "no clean-up of a heal", CleanUpOfHeal, ORDERLY_RESTART, LEAVES_A_KEY),
        case!("7", "extend without compare", CompareOnExtend, EXTENDED, EXCLUDES),
        case!("7", "a majority of those that answer", ExtendOverAll, EXTENDED, EXCLUDES),
        case!("7", "an extension that comes too late", ExtendInTime, EXTENDED, Expected::Holds),
        case!("7", "an extension that shortens", NeverShorten, short, EXCLUDES),
        case!("7", "a failed extension deletes", NeverDelete, EXTENDED, EXCLUDES),
        case!("8", "what is missing counts and is set", HealAfterQuorum, restart_extended, EXCLUDES),
        case!("8", "a heal that overwrites", HealOnlyAbsent, restart_extended, EXCLUDES),
        case!("10", "a heal behind the release", NothingAfterRelease, ORDERLY_RESTART, LEAVES_A_KEY),
        case!("11", "release without compare", CompareOnRelease, TWICE, EXCLUDES),
        case!("16", "no sitting out", Quarantine, restart, EXCLUDES),
        case!("16", "sitting out for too short", WholeQuarantine, restart, EXCLUDES),
    ]
}

/// The whole protocol where more goes wrong than it is made for: why the limits are where they are.
fn beyond() -> Vec<Case> {
    let case = |name, bounds| Case {
        name,
        rule: "beyond",
        expected: EXCLUDES,
        protocol: Protocol { omissions: &[], bounds },
    };
    vec![
        case("a clock slower than allowed for", Bounds { lag: 2, ..DRIFTING }),
        case("one node's clock set ahead", Bounds { jumps: 1, ..Bounds::LEAST }),
        case("one node loses its keys unseen", Bounds { losses: 1, ..Bounds::LEAST }),
    ]
}

/// In words, for those who read the table.
impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::Broken(EXCLUSIVE) => "two hold",
            Self::Broken(UNBROKEN) => "held by another meanwhile",
            Self::Broken(CLEAN) => "a key is left",
            Self::Broken(other) => other,
        })
    }
}
