//! What is checked of fencing tokens: the whole algorithm in several surroundings, and the
//! algorithm without each of its rules.

use super::{
    properties::{DISJOINT, GROWING, HANDED},
    rules::{Bounds, Fence, Omission},
};
use crate::cases::{Case, Size};

const TWICE: Bounds = Bounds { asks: &[2, 1], ..Bounds::LEAST };
const RANGES: Bounds = Bounds { range: 2, ..Bounds::LEAST };
const NEW_RANGES: Bounds =
    Bounds { asks: &[2, 1], range: 2, renews: true, one_lock: true, ..Bounds::LEAST };
const HEALED: Bounds = Bounds { range: 1, heals: 1, ..NEW_RANGES };
const HELD: Bounds = Bounds { held: true, ..HEALED };
/// Where the assumptions on clocks hold, and numbers are handed on.
const HANDED_ON: Bounds = Bounds { range: 2, any_expiry: false, ..Bounds::LEAST };
const HANDED_ON_LONG: Bounds = Bounds { any_expiry: false, ..NEW_RANGES };
const RESTART: Bounds = Bounds { restarts: 1, ticks: 1, ..Bounds::LEAST };
const FORGETFUL: Bounds = Bounds { ticks: 2, forgetful: true, ..Bounds::LEAST };
/// A set beside a lock that is part of it.
const SET: Bounds = Bounds { sets: &[0b11, 0b10], ..Bounds::LEAST };
const SET_HELD: Bounds = Bounds { sets: &[0b11, 0b10], ..HELD };
const TWO_SETS: Bounds = Bounds { sets: &[0b11, 0b11], ..Bounds::LEAST };
const THREE: Bounds = Bounds { asks: &[1, 1, 1], ..Bounds::LEAST };

pub(crate) fn cases() -> Vec<Case> {
    whole().into_iter().chain(without()).collect()
}

/// Nothing is left out.
fn whole() -> Vec<Case> {
    use Size::{Full, Small};
    let holds = |size, name, bounds| Case::holds(size, name, Fence { omission: None, bounds });
    let three_ranges = Bounds { range: 2, ..THREE };
    let three_handed_on = Bounds { any_expiry: false, ..three_ranges };
    let three_renewed = Bounds { asks: &[2, 1, 1], ..HANDED_ON_LONG };
    let three_held = Bounds { asks: &[2, 1, 1], heals: 0, ..HELD };
    vec![
        holds(Small, "fence: two clients", Bounds::LEAST),
        holds(Small, "fence: any floors", Bounds { floors: &[0, 3], ..RANGES }),
        holds(Small, "fence: ranges, handed on", HANDED_ON),
        holds(Full, "fence: try again", TWICE),
        holds(Small, "fence: a restart", RESTART),
        holds(Small, "fence: counters expire", FORGETFUL),
        holds(Small, "fence: a new range", NEW_RANGES),
        holds(Small, "fence: heal, held at first", HELD),
        holds(Full, "fence: a new range, heal", HEALED),
        holds(Small, "fence: a new range, handed on", HANDED_ON_LONG),
        holds(Full, "fence: a new range or a new lock", Bounds { one_lock: false, ..NEW_RANGES }),
        holds(Full, "fence: a restart, new ranges", Bounds { restarts: 1, ticks: 1, ..NEW_RANGES }),
        holds(Full, "fence: a set and a lock of it", SET),
        holds(Small, "fence: two sets", TWO_SETS),
        holds(Full, "fence: a set, ranges", Bounds { range: 2, ..SET }),
        holds(Full, "fence: a set, a restart", Bounds { restarts: 1, ticks: 1, ..SET }),
        holds(Full, "fence: a set, held at first", SET_HELD),
        holds(Full, "fence: a set, its lock again", Bounds { asks: &[1, 2], ..SET }),
        holds(Full, "fence: three clients", THREE),
        holds(Full, "fence: three clients, ranges", three_ranges),
        holds(Full, "fence: three clients, any floors", Bounds { floors: &[0, 3], ..THREE }),
        holds(Full, "fence: three clients, handed on", three_handed_on),
        holds(Full, "fence: three clients, a new range, handed on", three_renewed),
        holds(Full, "fence: three clients, held at first", three_held),
        holds(Full, "fence: three clients, a restart", Bounds { restarts: 1, ticks: 1, ..THREE }),
    ]
}

/// Without one rule, or part of one, in the least surroundings in which it shows.
fn without() -> Vec<Case> {
    use Omission as O;
    let broken = |name, omission, bounds, property| {
        Case::breaks("fencing", name, Fence { omission: Some(omission), bounds }, property)
    };
    let renewed = Bounds { asks: &[2, 0], ..HANDED_ON_LONG };
    vec![
        broken("fence: naive maximum", O::Confirm, Bounds::LEAST, DISJOINT),
        broken("fence: unconditional write-back", O::ConfirmCompares, Bounds::LEAST, DISJOINT),
        broken("fence: CONFIRM checks the holder only", O::ConfirmChecksCounter, HELD, DISJOINT),
        broken("fence: CONFIRM of the first only", O::ConfirmWholeRange, RANGES, DISJOINT),
        broken("fence: an old range after a new one", O::OldRangeDies, renewed, HANDED),
        broken("fence: handed on late", O::HandOverInValidity, HANDED_ON, HANDED),
        broken("fence: a late GRANT counts", O::LateGrantIgnored, Bounds::LEAST, DISJOINT),
        broken("fence: no quarantine", O::Quarantine, RESTART, DISJOINT),
        broken("fence: quarantine without the clock floor", O::ClockFloor, RESTART, GROWING),
        broken("fence: a set that draws from one counter", O::AllCounters, SET, DISJOINT),
        broken(
            "fence: CONFIRM checks one counter of a set",
            O::ConfirmChecksAll,
            SET_HELD,
            DISJOINT,
        )
        .long(),
        broken("fence: counters expire, no floor", O::ClockFloor, FORGETFUL, GROWING),
    ]
}
