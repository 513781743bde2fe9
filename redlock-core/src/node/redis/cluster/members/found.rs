//! What a look at a cluster changes: the members, and which member has which slot.

use std::{collections::BTreeSet, sync::Arc};

use tokio::time::Instant;

use super::{Member, Members, NONE, Routed};
use crate::{
    error::{NodeError, NodeErrorKind},
    node::{
        redis::{
            cluster::{
                history::{Process, Served},
                topology::{MemberAddress, Shard},
            },
            exchange::Exchange,
        },
        strikes::Strikes,
    },
};

/// A connection to a master, and the process at its other end.
pub(in crate::node::redis::cluster) struct Reached {
    pub(in crate::node::redis::cluster) exchange: Exchange,
    pub(in crate::node::redis::cluster) run_id: Option<Arc<str>>,
    pub(in crate::node::redis::cluster) followed: Option<Arc<str>>,
    pub(in crate::node::redis::cluster) uptime: Option<std::time::Duration>,
}

/// The findings of a look at the cluster.
pub(in crate::node::redis::cluster) struct Found {
    pub(in crate::node::redis::cluster) shards: Vec<Shard>,
    /// The members that were connected, or could not be.
    pub(in crate::node::redis::cluster) opened: Vec<(MemberAddress, Result<Reached, Arc<str>>)>,
}

impl Members {
    /// Takes the findings of a look in, and sends the commands that waited for it. Returns how many
    /// slots sit out from now on because of it.
    pub(in crate::node::redis::cluster) fn apply(&mut self, found: Found) -> usize {
        let Found { shards, opened } = found;
        let in_use = self.in_use();
        let places: Vec<_> = self.members.iter().map(|it| it.place.clone()).collect();
        let before = self.owners.clone();
        let wanted = self.wanted();
        for (place, reached) in opened {
            self.take_in(place, reached, &shards);
        }
        self.drop_former(&shards, &wanted, &in_use);
        let served = self.assign(&shards);
        self.keep(&in_use);
        if !places.is_empty() {
            self.note_moved(&before, &places);
        }
        let barred = self.history.lock().look(&served, self.clock.now());
        // A member without slots was not looked at.
        let looked_at = self.members.iter_mut().filter(|it| !it.process.id.is_empty());
        looked_at.for_each(|it| it.is_new = false);
        self.wants_look = false;
        for routed in std::mem::take(&mut self.parked) {
            // The look had begun when it came, or when the connection ended, and has not tried its member.
            let was_tried = |it: &Member| it.exchange.is_some() || it.is_useless;
            let is_too_late = routed.asking
                && !self
                    .members
                    .iter()
                    .any(|it| routed.to.as_ref() == Some(&it.place) && was_tried(it));
            if is_too_late { self.park(routed) } else { self.route(routed) }
        }
        self.write();
        barred
    }

    /// Takes in a member that the look has connected, or could not connect.
    fn take_in(
        &mut self,
        place: MemberAddress,
        reached: Result<Reached, Arc<str>>,
        shards: &[Shard],
    ) {
        let shard = shards.iter().find(|it| it.place == place);
        let id = shard.map(|it| it.id.clone()).unwrap_or_default();
        let known = self.members.iter().position(|it| it.place == place);
        let member = match reached {
            Ok(Reached { exchange, run_id, followed, uptime }) => Member {
                place,
                exchange: Some(exchange),
                process: Process { id: id.into(), run_id, followed },
                uptime,
                problem: "its connection has ended".into(),
                is_new: true,
                connected: Instant::now(),
                has_answered: false,
                is_useless: false,
                is_wanted: false,
                strikes: Strikes::default(),
            },
            Err(problem) => Member {
                place,
                exchange: None,
                process: Process { id: id.into(), run_id: None, followed: None },
                uptime: None,
                problem,
                is_new: false,
                connected: Instant::now(),
                has_answered: false,
                is_useless: true,
                is_wanted: false,
                strikes: Strikes::default(),
            },
        };
        match known.and_then(|index| self.members.get_mut(index)) {
            Some(known) if known.exchange.is_none() => *known = member,
            // It was connected meanwhile.
            Some(_) => {}
            None => self.members.push(member),
        }
    }

    /// Ends the connections to members that have lost all their slots. A member that is taking its
    /// first slot over has none yet, and stays while it is `wanted` or has commands to answer.
    ///
    /// The connection to a former master ends even if it has commands for its own slots to answer. It may be cut off
    /// from the others. Then it would give locks beside its successor for as long as this client asks it for some.
    fn drop_former(
        &mut self,
        shards: &[Shard],
        wanted: &BTreeSet<MemberAddress>,
        in_use: &[(u16, MemberAddress)],
    ) {
        for member in std::mem::take(&mut self.members) {
            let at = |place: &MemberAddress| *place == member.place;
            let has_slots = shards.iter().any(|it| at(&it.place));
            let was_asked_as_owner = in_use.iter().any(|(_, place)| at(place));
            let is_wanted = wanted.contains(&member.place);
            if has_slots || is_wanted || !was_asked_as_owner && member.unanswered().next().is_some()
            {
                self.members.push(member);
            } else if let Some(mut exchange) = member.exchange {
                exchange.close_reason().set("it is no master of the cluster any more");
                exchange.end();
            }
        }
    }

    /// Gives each slot to its member. Returns what the members serve that can be reached.
    fn assign(&mut self, shards: &[Shard]) -> Vec<Served> {
        self.owners.fill(NONE);
        let mut served = Vec::new();
        for shard in shards {
            let Some(index) = self.members.iter().position(|it| it.place == shard.place) else {
                continue;
            };
            let slots = usize::from(*shard.slots.start())..=usize::from(*shard.slots.end());
            if let Some(owners) = self.owners.get_mut(slots) {
                owners.fill(u16::try_from(index).unwrap_or(NONE));
            }
            let Some(member) = self.members.get_mut(index) else { continue };
            // A member that was connected for one command has no name until it has a slot.
            member.process.id = shard.id.as_str().into();
            if member.exchange.is_some() {
                served.push(Served {
                    slots: shard.slots.clone(),
                    process: member.process.clone(),
                    uptime: member.uptime,
                    is_new: member.is_new,
                });
            }
        }
        served
    }

    /// Notes which slots have other members than `before`, when the members had these `places`.
    fn note_moved(&mut self, before: &[u16], places: &[MemberAddress]) {
        let owners = (0..).zip(before.iter().zip(&self.owners));
        let moved = owners.filter_map(|(slot, (was, is))| {
            let now = self.members.get(usize::from(*is))?;
            (places.get(usize::from(*was)) != Some(&now.place)).then_some(slot)
        });
        self.unpushed.extend(moved);
    }

    /// The slots with commands that their owners have yet to answer, and these owners.
    fn in_use(&self) -> Vec<(u16, MemberAddress)> {
        let mut in_use = Vec::new();
        for (index, member) in self.members.iter().enumerate() {
            let owns = |slot: &u16| {
                self.owners.get(usize::from(*slot)).is_some_and(|it| usize::from(*it) == index)
            };
            in_use.extend(member.unanswered().filter(owns).map(|it| (it, member.place.clone())));
        }
        in_use
    }

    /// Gives these slots back to the members that have them in use, as far as they are still there.
    fn keep(&mut self, in_use: &[(u16, MemberAddress)]) {
        for (slot, place) in in_use {
            let index =
                self.members.iter().position(|it| it.place == *place && it.exchange.is_some());
            if let (Some(index), Some(owner)) = (index, self.owners.get_mut(usize::from(*slot))) {
                *owner = u16::try_from(index).unwrap_or(NONE);
            }
        }
    }

    /// Fails the commands that wait for a look, because the look has failed.
    pub(in crate::node::redis::cluster) fn look_failed(&mut self, why: &str) {
        self.wants_look = false;
        for Routed { batch, place, .. } in std::mem::take(&mut self.parked) {
            batch.answer(place, Err(NodeError::new(&self.name, NodeErrorKind::Down, why)));
        }
    }
}
