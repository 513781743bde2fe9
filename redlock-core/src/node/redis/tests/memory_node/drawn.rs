//! Commands that are drawn at random.

use std::time::Duration;

use proptest::{prelude::*, sample::select, strategy::Union};

use super::{CLIENTS, LONG, PERMITS, SHORT};
use crate::node::{Action, Draw, KeySet, Listens};

/// The lock that a command is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    One(&'static str),
    Reader,
    Set,
    Permit(u32),
}

/// The place in a queue that a client names.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeyName {
    End,
    Former,
    OfAnother(usize),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Act(Action),
    /// The last is whether the waiter would share the lock.
    Join(KeyName, Duration, Listens, bool),
    Adopt(Duration, usize),
    /// Looks at this many waiters, or at all for 0.
    Inspect(u64),
    /// Raises the counter by this much from the number that the client has got, or from another one.
    Confirm(bool, u64),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) client: usize,
    pub(super) lock: Lock,
    pub(super) has_turn: bool,
    pub(super) has_place: bool,
    pub(super) what: What,
}

fn ttl() -> impl Strategy<Value = Duration> {
    select(vec![LONG / 2, LONG, 2 * LONG, SHORT])
}

/// How long the entry of a waiter lives. One that is late, or has said nothing for a moment, is passed over or has
/// others told beside it.
fn life() -> impl Strategy<Value = Duration> {
    select(vec![Duration::from_secs(2), Duration::from_secs(4), LONG, SHORT])
}

fn draw() -> impl Strategy<Value = Draw> {
    (select(vec![0, 1000, 1 << 60]), 1_u32..4).prop_map(|(floor, count)| Draw {
        floor,
        count,
        life: LONG,
    })
}

fn place() -> impl Strategy<Value = KeyName> {
    prop_oneof![
        2 => Just(KeyName::End),
        1 => Just(KeyName::Former),
        1 => (0..CLIENTS).prop_map(KeyName::OfAnother),
    ]
}

fn queueing() -> impl Strategy<Value = What> {
    let listens = select(vec![Listens::Nothing, Listens::Turn, Listens::TurnAndLock]);
    prop_oneof![
        2 => (place(), life(), listens, any::<bool>())
            .prop_map(|(place, life, listens, reads)| What::Join(place, life, listens, reads)),
        1 => any::<bool>().prop_map(|again| What::Act(Action::Leave { again })),
    ]
}

fn holding() -> impl Strategy<Value = What> {
    prop_oneof![
        3 => ttl().prop_map(|ttl| What::Act(Action::Grant { ttl })),
        1 => ttl().prop_map(|ttl| What::Act(Action::Heal { ttl })),
        1 => ttl().prop_map(|ttl| What::Act(Action::Extend { ttl })),
        3 => any::<bool>().prop_map(|wakes| What::Act(Action::Release { wakes: KeySet::first(wakes) })),
        1 => select(vec![Duration::ZERO, LONG / 3, SHORT]).prop_map(|rest| What::Act(Action::Shorten { rest })),
    ]
}

fn numbering() -> impl Strategy<Value = What> {
    prop_oneof![
        (ttl(), draw()).prop_map(|(ttl, draw)| What::Act(Action::GrantFenced { ttl, draw })),
        (ttl(), draw()).prop_map(|(ttl, draw)| What::Act(Action::Redraw { ttl, draw })),
        (any::<bool>(), 0_u64..20).prop_map(|(own, by)| What::Confirm(own, by)),
    ]
}

fn adopting() -> impl Strategy<Value = What> {
    (ttl(), 0..CLIENTS).prop_map(|(ttl, from)| What::Adopt(ttl, from))
}

fn watching() -> impl Strategy<Value = What> {
    prop_oneof![Just(What::Act(Action::Watch)), (0_u64..3).prop_map(What::Inspect)]
}

fn of_operators() -> impl Strategy<Value = What> {
    prop_oneof![
        Just(What::Act(Action::TakeAway)),
        any::<bool>().prop_map(|wakes| What::Act(Action::Clear { wakes })),
    ]
}

fn barring() -> impl Strategy<Value = What> {
    prop_oneof![
        2 => (ttl(), any::<bool>())
            .prop_map(|(life, insists)| What::Act(Action::RaiseBarrier { life, insists })),
        1 => Just(What::Act(Action::LowerBarrier)),
    ]
}

fn finding() -> impl Strategy<Value = What> {
    let keeps = select(vec![Duration::ZERO, Duration::from_secs(1)]);
    (0..PERMITS, 1_u32..6, 0_u64..2, keeps).prop_map(|(from, most, asker, keeps)| {
        What::Act(Action::FindPermits { count: PERMITS, from, most, asker, keeps })
    })
}

/// How often the steps of a case are about writers of a lock, readers, sets and permits. Queues get long where all are
/// about one kind.
const KINDS: [[u32; 4]; 6] =
    [[4, 3, 1, 3], [1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0], [3, 0, 2, 0], [0, 0, 0, 1]];

fn step([writers, readers, sets, permits]: [u32; 4]) -> impl Strategy<Value = Step> {
    let keys: Vec<_> =
        ["redlock:a", "redlock:b"].into_iter().take(if sets > 0 { 2 } else { 1 }).collect();
    let of_writer = prop_oneof![
        6 => holding(), 6 => queueing(), 3 => numbering(), 1 => adopting(), 2 => watching(),
        1 => of_operators(), 2 => barring(),
    ];
    let of_reader = prop_oneof![6 => holding(), 6 => queueing(), 1 => watching()];
    let of_set = prop_oneof![4 => holding(), 2 => numbering(), 1 => adopting()];
    let of_permit = prop_oneof![4 => holding(), 4 => queueing(), 4 => finding()];
    let kinds = [
        (writers, (select(keys).prop_map(Lock::One), of_writer).boxed()),
        (readers, (Just(Lock::Reader), of_reader).boxed()),
        (sets, (Just(Lock::Set), of_set).boxed()),
        (permits, ((0..PERMITS).prop_map(Lock::Permit), of_permit).boxed()),
    ];
    let what = Union::new_weighted(kinds.into_iter().filter(|(weight, _)| *weight > 0).collect());
    (0..CLIENTS, any::<bool>(), any::<bool>(), what).prop_map(
        |(client, has_turn, has_place, (lock, what))| Step {
            client,
            lock,
            has_turn,
            has_place,
            what,
        },
    )
}

/// The steps of a case.
pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    select(KINDS.to_vec()).prop_flat_map(|kinds| proptest::collection::vec(step(kinds), 1..60))
}
