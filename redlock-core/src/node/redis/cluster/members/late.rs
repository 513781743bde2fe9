//! Members that do not answer in time (rule 15).
//!
//! A batch has commands for several members, and is delivered as a whole. If it waited for a member that
//! hangs, `node_timeout` would fail the commands of the others too, and holders would lose locks on masters
//! that are well. So a command fails by itself a little earlier. A member that is late three times in a row
//! is given up, as a node is: its connection ends, and the next look at the cluster dials it again.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{Member, Members};
use crate::{
    error::{NodeError, NodeErrorKind},
    node::redis::{batch::Batch, cluster::topology::MemberAddress},
};

/// How long a member may take, where a node may take `node_timeout`: the answers of the others have to be
/// delivered within that.
pub(in crate::node::redis::cluster) fn limit(node_timeout: Duration) -> Duration {
    node_timeout / 10 * 9
}

impl Members {
    /// Notes that this batch was sent.
    pub(super) fn sent(&mut self, batch: &Arc<Batch>) {
        if self.is_parting {
            // A member that was told to be silent is not late.
            return;
        }
        self.forget_complete();
        if let Some(until) = Instant::now().checked_add(self.limit) {
            self.in_flight.push_back((until, Arc::clone(batch)));
        }
    }

    fn forget_complete(&mut self) {
        while self.in_flight.front().is_some_and(|(_, batch)| batch.is_complete()) {
            self.in_flight.pop_front();
        }
    }

    /// When the time of the first batch in flight runs out.
    pub(in crate::node::redis::cluster) fn deadline(&self) -> Option<Instant> {
        self.in_flight.front().map(|(until, _)| *until)
    }

    /// Fails the commands whose time has run out.
    pub(super) fn expire(&mut self) {
        self.forget_complete();
        if self.in_flight.is_empty() {
            return;
        }
        let now = Instant::now();
        while self.deadline().is_some_and(|until| until <= now) {
            let Some((_, batch)) = self.in_flight.pop_front() else { return };
            self.give_up(&batch);
            self.forget_complete();
        }
    }

    fn give_up(&mut self, batch: &Arc<Batch>) {
        for index in 0..self.members.len() {
            let Some(Member { exchange: Some(exchange), place, .. }) = self.members.get(index)
            else {
                continue;
            };
            if exchange.give_up(batch, &self.silence(place)) {
                self.strike(index);
            }
        }
        // These wait for a look at the cluster, and leave with it, in order (rule 5).
        let reason = format!("no answer within {:?}: where its slot is was not told", self.limit);
        let unsent = NodeError::new(&self.name, NodeErrorKind::Timeout, reason);
        for place in 0..batch.commands.len() {
            batch.answer(place, Err(unsent.clone()));
        }
    }

    fn silence(&self, MemberAddress { host, port }: &MemberAddress) -> NodeError {
        let reason = format!("{host}:{port} of the cluster: no answer within {:?}", self.limit);
        NodeError::new(&self.name, NodeErrorKind::Timeout, reason)
    }

    /// Notes that a member has not said in time that it is alive.
    pub(in crate::node::redis::cluster) fn is_silent(
        &mut self,
        place: &MemberAddress,
    ) -> NodeError {
        if let Some(index) = self.members.iter().position(|it| it.place == *place) {
            self.strike(index);
        }
        self.silence(place)
    }

    fn strike(&mut self, index: usize) {
        let Some(member) = self.members.get_mut(index) else { return };
        if !member.strikes.add(self.clock.now(), self.limit) {
            return;
        }
        let Some(exchange) = &mut member.exchange else { return };
        exchange.close_reason().set(format!("no answer within {:?}", self.limit));
        exchange.end();
        member.has_ended();
        self.note_unpushed(index);
        self.want_look();
    }
}
