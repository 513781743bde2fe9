//! The numbers of a fenced lock: drawn with the grant, confirmed when the nodes disagree, drawn again
//! when a lease that passes from task to task has used them up.
//!
//! The token is the largest number among the answers of a quorum. It is final if a quorum has given
//! this same number: then each later holder asks a node that counts on from it. If not, each node
//! that gave a smaller number is told the largest (`Confirm`), on condition that no number was
//! drawn there since. The lock is acquired only with a quorum of confirmations. Without them, or
//! with confirmations of nodes that have given numbers to another client since, a number is handed
//! out twice.

use std::{sync::Arc, time::Duration};

use super::request::Request;
use crate::{
    client::Client,
    clock::Moment,
    fence::{FencingToken, Range, numbers_for},
    lease::LeaseInTransit,
    node::{Action, Claim, Draw, Job, Raise, counter, deliver},
    quorum::{Agreement, Numbering, Round, Tally, agree, ask},
    wait::{FailedAttempt, Front},
};

/// Whether the outcome of the confirmations is known.
fn settles(tally: &Tally) -> bool {
    tally.reached() || tally.impossible()
}

/// How long counters live. They outlive the locks beside them.
fn life(client: &Client) -> Duration {
    counter::LIFE.max(client.settings.max_ttl.saturating_mul(2))
}

fn draw(client: &Client, count: u32) -> Draw {
    let floor = u64::try_from(client.nodes.clock.wall().as_micros()).unwrap_or(u64::MAX);
    Draw { floor, count, life: life(client) }
}

/// A question for a lock and this many numbers.
pub(super) struct Drawing {
    pub(super) action: Action,
    numbering: Arc<Numbering>,
    count: u32,
}

impl Drawing {
    /// Asks for a free lock.
    pub(super) fn grant(client: &Client, round: &Arc<Round>, ttl: Duration, count: u32) -> Self {
        Self::new(client, round, count, |draw| Action::GrantFenced { ttl, draw })
    }

    /// Asks for more numbers for a lock that is held.
    fn again(client: &Client, round: &Arc<Round>, ttl: Duration, count: u32) -> Self {
        Self::new(client, round, count, |draw| Action::Redraw { ttl, draw })
    }

    fn new(
        client: &Client,
        round: &Arc<Round>,
        count: u32,
        action: impl FnOnce(Draw) -> Action,
    ) -> Self {
        let numbering = Numbering::new(round, client.nodes.len());
        Self { action: action(draw(client, count)), numbering, count }
    }

    /// Sends the question. It goes to each node once: a node that ran it twice would give two numbers.
    pub(super) fn send(&self, client: &Client, claim: &Arc<Claim>, now: Moment) {
        let job = Job::new(claim, self.action);
        deliver(ask(&client.nodes, &self.numbering, now, |_| Some(job.clone())));
    }

    /// The range that a quorum of nodes has granted, once its answers have been read.
    pub(super) async fn range(
        &self,
        client: &Client,
        claim: &Arc<Claim>,
    ) -> Result<Range, FailedAttempt> {
        let first = self.numbering.close();
        let largest = match agree(&first) {
            Some(Agreement::Final(number)) => return Ok(Range::new(number, self.count)),
            Some(Agreement::Split(number)) => number,
            // A quorum of votes comes with a quorum of numbers.
            None => return Err(FailedAttempt::too_late(0)),
        };
        let round = Round::new(client.nodes.len(), settles);
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
        Err(FailedAttempt::of(&tally, &round))
    }
}

impl Request<'_> {
    /// A lease from the hold before, with a number if this request is fenced. `None` when the nodes gave
    /// none: the lease is given back.
    pub(super) async fn numbered(
        &mut self,
        front: &Front,
        mut in_transit: LeaseInTransit,
    ) -> Option<(LeaseInTransit, Option<FencingToken>)> {
        if !self.terms.fenced {
            return Some((in_transit, None));
        }
        if let Some(token) = in_transit.lease.next_number() {
            return Some((in_transit, Some(token)));
        }
        self.attempts = self.attempts.saturating_add(1);
        self.client.ensure_running();
        // On the heap: most leases come with enough numbers.
        let mut in_transit = Box::pin(self.draw_again(front, in_transit)).await?;
        let token = in_transit.lease.next_number()?;
        Some((in_transit, Some(token)))
    }

    /// Draws new numbers for a lease, which renews it as well.
    async fn draw_again(
        &self,
        front: &Front,
        mut in_transit: LeaseInTransit,
    ) -> Option<LeaseInTransit> {
        let Self { client, terms, .. } = *self;
        let lease = &mut in_transit.lease;
        let used = lease.range.take().map_or(0, |range| range.size());
        let claim = Arc::clone(&lease.claim);
        let start = client.nodes.clock.read();
        let sent = start.now;
        lease.renewal_sent = sent;
        lease.expired_by = lease.expired_by.max(sent + terms.key_ttl());
        let round = Round::new(client.nodes.len(), settles);
        let count = numbers_for(front.fenced_behind(), used);
        let drawing = Drawing::again(client, &round, terms.key_ttl(), count);
        drawing.send(client, &claim, sent);
        if !round.settled(&client.nodes).await.reached() {
            return None;
        }
        let range = drawing.range(client, &claim).await.ok()?;
        // A renewal counts within the validity that it renews (rule 7).
        let reading = client.nodes.clock.read();
        if !in_transit.lease.is_valid_on(reading) {
            return None;
        }
        in_transit.lease.renewed(terms, start, &round);
        in_transit.lease.range = Some(Box::new(range));
        in_transit.lease.is_valid_on(reading).then_some(in_transit)
    }
}
