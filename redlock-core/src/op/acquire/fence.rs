//! The numbers of a fenced lock: drawn with the grant, confirmed when the nodes disagree, drawn again
//! when a lease that passes from task to task has used them up.
//!
//! The token is the largest number among the answers of a quorum. It is final if a quorum has given
//! this very number: the quorum of each later holder then has a node that counts on from it. If not, each node
//! that gave a smaller number is told the largest (`Confirm`), on condition that no number was
//! drawn there since. The lock is acquired only with a quorum of confirmations. Both conditions
//! are needed: without a quorum of confirmations, or if a node confirmed after it had given numbers to another client,
//! two holders could get the same number.

use std::{sync::Arc, time::Duration};

use super::{Granted, request::Request};
use crate::{
    client::Client,
    clock::Moment,
    fence::{Range, numbers_for},
    lease::LeaseInTransit,
    node::{Action, Claim, Draw, Job, Raise, counter, deliver},
    quorum::{Agreement, Numbering, Round, Tally, agree, ask},
    wait::{FailedAttempt, Front},
};

/// How long counters live. They outlive the locks beside them.
fn life(client: &Client) -> Duration {
    counter::LIFE.max(client.settings.max_ttl.saturating_mul(2))
}

fn draw(client: &Client, count: u32) -> Draw {
    let floor = u64::try_from(client.nodes.clock.wall().as_micros()).unwrap_or(u64::MAX);
    Draw { floor, count, life: life(client) }
}

/// A question for a lock and `count` numbers that was sent.
pub(super) struct Drawing {
    numbering: Arc<Numbering>,
    count: u32,
}

impl Drawing {
    /// Asks for the lock with numbers, as `action` says. The question goes to each node once: a node that
    /// ran it twice would give two numbers.
    pub(super) fn send(
        client: &Client,
        claim: &Arc<Claim>,
        round: &Arc<Round>,
        now: Moment,
        count: u32,
        action: impl FnOnce(Draw) -> Action,
    ) -> Self {
        let numbering = Numbering::new(round);
        let job = Job::new(claim, action(draw(client, count)));
        deliver(ask(&client.nodes, &numbering, now, |_| Some(Arc::clone(&job))));
        Self { numbering, count }
    }

    /// The range that a quorum of nodes has granted, once its answers have been read.
    pub(super) async fn range(
        &self,
        client: &Client,
        claim: &Arc<Claim>,
    ) -> Result<Range, FailedAttempt> {
        let first = self.numbering.close();
        match agree(&first) {
            Some(Agreement::Final(number)) => Ok(Range::new(number, self.count)),
            Some(Agreement::Split(largest)) => {
                Box::pin(self.confirm(client, claim, first, largest)).await
            }
            // A quorum of votes comes with a quorum of numbers.
            None => Err(FailedAttempt::too_late(0)),
        }
    }

    /// Has the nodes confirm the range from `largest` on. `first` are the numbers that they gave.
    async fn confirm(
        &self,
        client: &Client,
        claim: &Arc<Claim>,
        first: Vec<Option<u64>>,
        largest: u64,
    ) -> Result<Range, FailedAttempt> {
        let round = Round::new(&client.nodes.names, Tally::is_decided);
        let after_first = u64::from(self.count) - 1;
        // All numbers of the range are taken, not only its first.
        let to = largest + after_first;
        let confirm = |node: usize| {
            let from = (*first.get(node)?)? + after_first;
            let raise = Raise { from, to: to.max(from), life: life(client) };
            Some(Job::new(claim, Action::Confirm(raise)))
        };
        deliver(ask(&client.nodes, &round, client.nodes.clock.now(), confirm));
        let tally = round.settled(&client.nodes).await;
        if tally.reached() {
            return Ok(Range::new(largest, self.count));
        }
        Err(FailedAttempt::after(self.numbering.round(), &tally, &round))
    }
}

impl Request<'_> {
    /// Takes a lease over from the hold before, with a number if this request is fenced. If the nodes give none, the
    /// lease is given back.
    pub(super) async fn handed_over(
        &mut self,
        front: &Front,
        mut in_transit: Box<LeaseInTransit>,
    ) -> Result<Granted, FailedAttempt> {
        let mut token = None;
        if self.terms.fenced {
            token = in_transit.lease.next_number();
            if token.is_none() {
                // Most leases come with enough numbers.
                in_transit = Box::pin(self.draw_again(front, in_transit)).await?;
                token = in_transit.lease.next_number();
            }
        }
        let reading = self.client.nodes.clock.read();
        Ok(Granted { in_transit, begun: reading.now, reading, token })
    }

    /// Draws new numbers for a lease, which renews it as well.
    async fn draw_again(
        &mut self,
        front: &Front,
        mut in_transit: Box<LeaseInTransit>,
    ) -> Result<Box<LeaseInTransit>, FailedAttempt> {
        self.attempts = self.attempts.saturating_add(1);
        let Self { client, terms, .. } = *self;
        client.ensure_running();
        let lease = &mut in_transit.lease;
        let used = lease.range.take().map_or(0, |range| range.size());
        let claim = Arc::clone(&lease.claim);
        let start = client.nodes.clock.read();
        let sent = start.now;
        lease.note_sent(sent, terms.key_ttl());
        let round = Round::new(&client.nodes.names, Tally::is_decided);
        let count = numbers_for(front.fenced_behind(), used);
        let ttl = terms.key_ttl();
        let drawing =
            Drawing::send(client, &claim, &round, sent, count, |draw| Action::Redraw { ttl, draw });
        let tally = round.settled(&client.nodes).await;
        if !tally.reached() {
            return Err(FailedAttempt::of(&tally, &round));
        }
        let range = drawing.range(client, &claim).await?;
        // A renewal counts within the validity that it renews (rule 7).
        let reading = client.nodes.clock.read();
        if in_transit.lease.is_valid_on(reading) {
            in_transit.lease.renewed(terms, start, &round);
            in_transit.lease.range = Some(Box::new(range));
            if in_transit.lease.is_valid_on(reading) {
                return Ok(in_transit);
            }
        }
        Err(FailedAttempt::too_late(tally.yes()))
    }
}
