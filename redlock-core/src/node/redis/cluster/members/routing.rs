//! Which command goes to which member of a cluster.
//!
//! The commands of one lock go to one slot, in order. A command that another member has to run is sent
//! there at once when that member is known as a master: the slot has moved. Otherwise the command waits
//! for a look at the cluster, and the later commands of its slot wait behind it (rule 5).
//!
//! A member stays the owner of a slot for as long as it has commands of the slot to answer. It redirects
//! each of them, in order. A delete that went to the next owner at once would overtake the `SET` of its lock.

use std::sync::Arc;

use super::{Member, Members, NONE, Routed};
use crate::{
    error::{NodeError, NodeErrorKind},
    node::{
        Action, Command,
        redis::{
            batch::Batch,
            calls::Redirected,
            cluster::{slots::slot_of, topology::MemberAddress},
            transport::RUNTIME_ENDED,
        },
    },
};

impl Members {
    /// Sends commands, each to the member that has its slot.
    pub(in crate::node::redis::cluster) fn send(&mut self, commands: Vec<Command>) -> Arc<Batch> {
        let batch = Batch::new(commands);
        for (place, command) in batch.commands.iter().enumerate() {
            let slot = slot_of(&command.claim.key);
            let batch = Arc::clone(&batch);
            self.route(Routed { batch, place, slot, to: None, asking: false, hops: 0 });
        }
        self.write();
        self.sent(&batch);
        batch
    }

    /// Gives one command to the member that has its slot, or to the one that is taking the slot over. While there
    /// is none, the next look is due without its asking.
    pub(super) fn route(&mut self, routed: Routed) {
        let Routed { batch, place, slot, to, asking, hops } = &routed;
        let (place, slot, asking, hops) = (*place, *slot, *asking, *hops);
        let Some(command) = batch.commands.get(place) else { return };
        if self.parked.iter().any(|it| it.slot == slot) {
            return self.park(routed);
        }
        let is_told =
            |it: &Member| to.as_ref() == Some(&it.place) && (asking || it.exchange.is_some());
        let told = self.members.iter().position(is_told);
        let owner = self.owners.get(usize::from(slot)).map(|it| usize::from(*it));
        let index = if asking { told } else { told.or(owner) };
        let importing = told.filter(|_| asking).and_then(|told| self.members.get(told));
        if let Some(refusal) = self.refuses(command.action, slot, importing) {
            return batch.answer(place, Err(refusal));
        }
        let member = index.and_then(|index| self.members.get_mut(index));
        match member {
            Some(Member { exchange: Some(exchange), .. }) => {
                exchange.ask_one(batch, place, asking, hops);
            }
            Some(Member { place: at, problem, .. }) => {
                let reason = format!("{}:{} of the cluster: {problem}", at.host, at.port);
                let error = NodeError::new(&self.name, NodeErrorKind::Down, reason);
                batch.answer(place, Err(error));
            }
            None => {
                let reason = format!("no member of the cluster has slot {slot}");
                let error = NodeError::new(&self.name, NodeErrorKind::Down, reason);
                batch.answer(place, Err(error));
            }
        }
    }

    /// Why no new lock is given in this slot (rule 16), which the `importing` member may be about to take over. It may
    /// have forgotten a key, which reads as free then, so it is not watched either.
    fn refuses(&self, action: Action, slot: u16, importing: Option<&Member>) -> Option<NodeError> {
        let (Action::Grant { .. }
        | Action::GrantFenced { .. }
        | Action::Adopt { .. }
        | Action::Redraw { .. }
        | Action::Watch) = action
        else {
            return None;
        };
        let left = {
            let (history, now) = (self.history.lock(), self.clock.now());
            let lacks = importing.and_then(|member| history.lacks(&member.process, now));
            history.sits_out(slot, now).max(lacks)?
        };
        let reason = format!(
            "another process has taken slot {slot} of the cluster over and may have forgotten locks, \
             so it votes again in {left:.1?}"
        );
        Some(NodeError::new(&self.name, NodeErrorKind::SitsOut, reason))
    }

    pub(super) fn park(&mut self, routed: Routed) {
        self.parked.push_back(routed);
        self.want_look();
    }

    /// Follows `MOVED` and `ASK`, as the member with the index `from` has answered.
    pub(super) fn redirect(&mut self, from: usize, redirected: Redirected) {
        let Redirected { batch, place, to, hops } = redirected;
        let removes = |it: &Command| it.action.removes() || it.action == Action::LowerBarrier;
        if self.is_parting && !batch.commands.get(place).is_some_and(removes) {
            // Its release may have gone to the member that redirects, and may get no answer. Behind it, a vote would
            // stay for its ttl.
            let error = NodeError::new(&self.name, NodeErrorKind::Disconnected, RUNTIME_ENDED);
            batch.answer(place, Err(error));
            return;
        }
        let its_host = self.members.get(from).map_or("", |it| it.place.host.as_str());
        let target = MemberAddress::told(&to.host, to.port, its_host);
        let (slot, asking) = (to.slot, to.once);
        // Commands that waited for a member that is away would block their slot: each would have it dialled anew.
        let is_at_hand = |it: &Member| it.exchange.is_some() || asking && it.is_useless;
        let known = self.members.iter().position(|it| it.place == target && is_at_hand(it));
        let routed = Routed { batch, place, slot, to: Some(target), asking, hops };
        let Some(index) = known else { return self.park(routed) };
        if let Some(member) = self.members.get_mut(index) {
            member.is_wanted |= member.exchange.is_none();
        }
        let answers_more =
            self.members.get(from).is_some_and(|it| it.unanswered().any(|it| it == slot));
        if !asking && let Some(member) = self.members.get(index) {
            // A member that was connected for one command has no name until a look has found it a slot. That
            // look notes the move.
            if !member.process.id.is_empty() {
                // Both were masters before: the slot has moved, and its keys with it.
                self.history.lock().moved(slot, &member.process, self.clock.now());
            }
            if !answers_more && let Some(owner) = self.owners.get_mut(usize::from(slot)) {
                let before = std::mem::replace(owner, u16::try_from(index).unwrap_or(NONE));
                if before != *owner {
                    self.unpushed.insert(slot);
                }
            }
        }
        self.route(routed);
    }
}
