//! What is checked of readers and of locks that change their client: the protocol in several
//! surroundings, and without each of its rules.

use super::{
    properties::{DISTINCT, EXCLUSIVE, GROWING},
    rules::{
        Bounds, Omission,
        Role::{Adopter, Giver, Reader, Writer},
        Roles,
    },
};
use crate::cases::{Case, Size};

const ONE_EACH: Bounds = Bounds::of(&[Writer, Reader]);
const TWO_READERS: Bounds = Bounds::of(&[Writer, Reader, Reader]);
const TWO_WRITERS: Bounds = Bounds::of(&[Writer, Writer, Reader]);
const TAKEN_OVER: Bounds = Bounds::of(&[Giver, Adopter]);
const TWO_ADOPTERS: Bounds = Bounds::of(&[Giver, Adopter, Adopter]);
const CROWD: Bounds = Bounds { expiry: false, ..Bounds::of(&[Giver, Adopter, Adopter, Writer]) };
const BESIDE: Bounds = Bounds::of(&[Giver, Adopter, Writer]);

pub(crate) fn cases() -> Vec<Case> {
    whole().into_iter().chain(without_in_reading()).chain(without_in_adopting()).collect()
}

/// Nothing is left out.
fn whole() -> Vec<Case> {
    use Size::{Full, Small};
    let holds = |size, name, bounds| Case::holds(size, name, Roles { omission: None, bounds });
    let renewed = |bounds| Bounds { renewals: 1, ..bounds };
    let restarted = |bounds| Bounds { restarts: 1, ..bounds };
    let orderly = |bounds| Bounds { expiry: false, ..bounds };
    vec![
        holds(Small, "readers: one and a writer", ONE_EACH),
        holds(Small, "readers: a restart", restarted(ONE_EACH)),
        holds(Small, "readers: every key is deleted", orderly(ONE_EACH)),
        holds(Small, "readers: renewed", renewed(ONE_EACH)),
        holds(Full, "readers: two and a writer", TWO_READERS),
        holds(Full, "readers: one and two writers", TWO_WRITERS),
        holds(Full, "readers: two, a restart", restarted(TWO_READERS)),
        holds(Full, "readers: renewed, a restart", restarted(renewed(ONE_EACH))),
        holds(Full, "readers: two, every key is deleted", orderly(TWO_READERS)),
        holds(Small, "adopt: one client", TAKEN_OVER),
        holds(Small, "adopt: renewed before", renewed(TAKEN_OVER)),
        holds(Small, "adopt: a restart", restarted(TAKEN_OVER)),
        holds(Full, "adopt: two clients", TWO_ADOPTERS),
        holds(Full, "adopt: beside a writer", BESIDE),
        holds(Full, "adopt: beside a reader", Bounds::of(&[Giver, Adopter, Reader])),
        holds(Full, "adopt: beside a writer, a restart", restarted(BESIDE)),
        holds(Full, "adopt: two clients, renewed before", renewed(TWO_ADOPTERS)),
        holds(Full, "adopt: two clients, a writer", CROWD),
        // A quorum of nodes that had confirmed the lock shows by itself that no other client had it since.
        Case {
            rule: "adoption",
            ..Case::holds(
                Full,
                "adopt: an expired lease",
                Roles { omission: Some(Omission::AdoptInTime), bounds: BESIDE },
            )
        },
    ]
}

/// Without one rule of readers, in the least surroundings in which it shows.
fn without_in_reading() -> Vec<Case> {
    use Omission as O;
    let broken = |name, omission, bounds, property| {
        Case::breaks("readers", name, Roles { omission: Some(omission), bounds }, property)
    };
    let renewed = Bounds { renewals: 1, ..ONE_EACH };
    let restarted = Bounds { restarts: 1, ..ONE_EACH };
    let deleted = |bounds| Bounds { expiry: false, ..bounds };
    vec![
        broken("readers: a writer sees no readers", O::WriterSeesReaders, ONE_EACH, EXCLUSIVE),
        broken("readers: a reader sees no writer", O::ReaderSeesWriter, ONE_EACH, EXCLUSIVE),
        broken("readers: all expire together", O::OwnExpiry, TWO_READERS, EXCLUSIVE),
        broken("readers: a release of all", O::OwnRelease, deleted(TWO_READERS), EXCLUSIVE),
        broken(
            "readers: release without compare",
            O::CompareOnRelease,
            deleted(TWO_WRITERS),
            EXCLUSIVE,
        ),
        broken("readers: a quorum that comes too late", O::ValidityAtGrant, ONE_EACH, EXCLUSIVE),
        broken("readers: a renewal that comes too late", O::ExtendInTime, renewed, EXCLUSIVE),
        broken("readers: half as a quorum", O::Majority, ONE_EACH, EXCLUSIVE),
        broken("readers: validity as a flag", O::ValidityAtEachRead, ONE_EACH, EXCLUSIVE),
        broken("readers: no sitting out", O::Quarantine, restarted, EXCLUSIVE),
    ]
}

/// Without one rule of handing a lock to another process.
fn without_in_adopting() -> Vec<Case> {
    use Omission as O;
    let broken = |name, omission, bounds, property| {
        Case::breaks("adoption", name, Roles { omission: Some(omission), bounds }, property)
    };
    let renewed = Bounds { renewals: 1, ..TAKEN_OVER };
    vec![
        broken("adopt: without compare", O::AdoptCompares, TWO_ADOPTERS, EXCLUSIVE),
        broken("adopt: the value of the giver stays", O::AdoptReplaces, TWO_ADOPTERS, EXCLUSIVE),
        broken("adopt: one node is enough", O::Majority, TWO_ADOPTERS, EXCLUSIVE),
        broken("adopt: the giver goes on", O::GiverEnds, TAKEN_OVER, EXCLUSIVE),
        broken("adopt: the giver still renews", O::GiverStopsRenewing, renewed, EXCLUSIVE),
        broken("adopt: a clean-up without compare", O::CompareOnRelease, CROWD, EXCLUSIVE).long(),
        broken("adopt: a quorum that comes too late", O::ValidityAtGrant, BESIDE, EXCLUSIVE),
        broken("adopt: a late SET votes", O::AdoptCountsConfirmed, CROWD, GROWING).long(),
        broken("adopt: a number of its own", O::NumberStays, BESIDE, DISTINCT),
    ]
}
