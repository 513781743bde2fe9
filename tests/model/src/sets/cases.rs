//! What is checked of sets: the protocol in several surroundings, and without each of its rules.

use super::{
    properties::{CIRCLE, EXCLUSIVE, LEFT, WHOLE},
    rules::{Bounds, Omission, Sets},
};
use crate::cases::{Case, Size};

/// Each shares a resource with each other one.
const CIRCULAR: &[u8] = &[0b011, 0b110, 0b101];
/// A set and two single locks.
const SINGLES: &[u8] = &[0b011, 0b001, 0b010];
const RENEWED: Bounds = Bounds { renewals: 1, losses: 1, ..Bounds::LEAST };
const ORDERLY: Bounds = Bounds { expiry: false, ..Bounds::LEAST };
const QUEUED: Bounds = Bounds { sets: CIRCULAR, queues: true, ..ORDERLY };

pub(crate) fn cases() -> Vec<Case> {
    whole().into_iter().chain(without()).collect()
}

/// Nothing is left out.
fn whole() -> Vec<Case> {
    use Size::{Full, Small};
    let holds = |size, name, bounds| Case::holds(size, name, Sets { omission: None, bounds });
    vec![
        holds(Small, "sets: two that overlap", Bounds::LEAST),
        holds(Small, "sets: every key is deleted", ORDERLY),
        holds(Full, "sets: try again", Bounds { attempts: 2, ..ORDERLY }),
        holds(Full, "sets: a key is lost, renewed", RENEWED),
        holds(Small, "sets: in queues, in a circle", QUEUED),
        holds(Full, "sets: in queues, singles", Bounds { sets: SINGLES, ..QUEUED }),
        holds(Full, "sets: three in a circle", Bounds { sets: CIRCULAR, ..ORDERLY }),
        holds(Full, "sets: among single locks", Bounds { sets: SINGLES, ..ORDERLY }),
    ]
}

/// Without one rule, in the least surroundings in which it shows.
fn without() -> Vec<Case> {
    use Omission as O;
    let broken = |name, omission, bounds, property| {
        Case::breaks("sets", name, Sets { omission: Some(omission), bounds }, property)
    };
    vec![
        broken("sets: set one by one", O::OneStep, Bounds::LEAST, WHOLE),
        broken("sets: some keys are enough", O::AllOrNone, ORDERLY, EXCLUSIVE),
        broken("sets: a renewal of some keys", O::RenewAll, RENEWED, EXCLUSIVE),
        broken("sets: a release of one key", O::ReleaseAll, ORDERLY, LEFT),
        broken("sets: each in its own order", O::SameOrder, QUEUED, CIRCLE),
        broken("sets: all queues at once", O::OneAfterTheOther, QUEUED, CIRCLE),
    ]
}
