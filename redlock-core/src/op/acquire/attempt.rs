//! One attempt: all nodes are asked at once, and a quorum decides (rules 1 to 5).

use std::{sync::Arc, time::Duration};

use super::{Granted, fence::Drawing, fronts::Fronts, request::Request};
use crate::{
    client::Client,
    clock::Reading,
    error::{LockError, NodeError, NodeErrorKind},
    fence::{FencingToken, numbers_for},
    gate::Admitted,
    lease::{InFlightGuard, LeaseInTransit, LeaseState},
    node::{Action, Claim, Job, NodeHandle, deliver},
    op::unheard::Unheard,
    quorum::{Round, Tally, ask},
    telemetry,
    timer::{sleep, timeout},
    wait::{FailedAttempt, MIN_PAUSE, was_in_the_way},
};

/// A first attempt may wait for admission at least this long, even if the `wait` of its request is shorter or zero.
/// Where more callers come than the processor can serve, a crowd with a short `wait` would otherwise fail unasked.
const MIN_ADMISSION_WAIT: Duration = Duration::from_secs(10);

/// An attempt whose question was sent.
struct SentAttempt<'f> {
    // The first field, so it is dropped before the lease.
    question: Question<'f>,
    in_transit: Box<LeaseInTransit>,
    drawing: Option<Drawing>,
    admitted: Admitted<'f>,
}

struct Question<'f> {
    round: Arc<Round>,
    is_for_permit: bool,
    /// The turns of the request, until it has the outcome. If the attempt is cancelled after a quorum has granted,
    /// they leave the queues.
    askers: Option<&'f mut Fronts>,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        // The attempt was cancelled. Its release may give the turn to the next client. A `Leave` behind it would find the
        // lock free, and give another turn to the client behind that one.
        if let Some(askers) = self.askers.take()
            && was_in_the_way(self.is_for_permit, &self.round.tally())
        {
            askers.leave();
        }
    }
}

impl SentAttempt<'_> {
    /// Waits until a quorum has decided. Returns the reading that finds the lease valid, and the token.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its arguments twice")]
    fn outcome(
        &mut self,
        request: &Request<'_>,
    ) -> impl Future<Output = Result<(Reading, Option<FencingToken>), FailedAttempt>> + Send {
        async move {
            let (is_reached, may_be_late) = {
                let tally = self.question.round.settled(&request.client.nodes).await;
                let took = request.now().since(self.in_transit.lease.since);
                self.admitted.answered(took, request.client.settings.node_timeout);
                let (attempts, round) = (request.attempts, &self.question.round);
                telemetry::attempted(attempts, tally.yes(), tally.no(), || round.failures());
                (tally.reached(), !tally.impossible_by_failures() && round.has_timeouts())
            };
            if is_reached {
                return self.granted(request.client).await;
            }
            if may_be_late {
                // Nodes that were asked together time out together. A moment later all their timeouts
                // are counted, so the error does not depend on which of them came first.
                sleep(MIN_PAUSE).await;
            }
            let round = &self.question.round;
            Err(FailedAttempt::of(&round.tally(), round))
        }
    }

    /// What a quorum has granted.
    async fn granted(
        &mut self,
        client: &Client,
    ) -> Result<(Reading, Option<FencingToken>), FailedAttempt> {
        let lease = &mut self.in_transit.lease;
        if let Some(drawing) = &self.drawing {
            lease.range = Some(Box::new(drawing.range(client, &lease.claim).await?));
        }
        // A grant counts only if validity remains (rule 4).
        let reading = client.nodes.clock.read();
        if lease.is_valid_on(reading) {
            client.nodes.note_quorum_seen();
            return Ok((reading, lease.next_number()));
        }
        Err(FailedAttempt::too_late(self.question.round.tally().yes()))
    }
}

impl<'a> Request<'a> {
    /// Asks all nodes once. If no task has read the answers, the attempt does not count and is made again, even for
    /// a request that tries once.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its arguments twice")]
    pub(super) fn attempt(
        &self,
        fronts: &mut Fronts,
    ) -> impl Future<Output = Result<Result<Granted, FailedAttempt>, LockError>> + Send {
        async move {
            match self.ask_all(fronts).await? {
                Err(failure) if failure.was_not_heard() => {
                    Box::pin(self.unless_heard(fronts, failure)).await
                }
                outcome => Ok(outcome),
            }
        }
    }

    /// Asks again for as long as no task has read the answers behind this failure.
    async fn unless_heard(
        &self,
        fronts: &mut Fronts,
        mut failure: FailedAttempt,
    ) -> Result<Result<Granted, FailedAttempt>, LockError> {
        let mut unheard = Unheard::new(self.client);
        loop {
            // No node was heard in the first attempt, so it does not count. It is made again however short the `wait` is.
            let left = if self.has_failed { self.retries.limit(self.now()) } else { Duration::MAX };
            if !failure.was_not_heard()
                || !self.unless_closed(unheard.asks_again(&failure.nodes, left)).await?
            {
                return Ok(Err(failure));
            }
            match self.ask_all(fronts).await? {
                Ok(granted) => return Ok(Ok(granted)),
                Err(again) => failure = again,
            }
        }
    }

    #[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its arguments twice")]
    fn ask_all(
        &self,
        fronts: &mut Fronts,
    ) -> impl Future<Output = Result<Result<Granted, FailedAttempt>, LockError>> + Send {
        async move {
            let admitted = match self.client.gate.try_enter() {
                Some(admitted) => admitted,
                None => match Box::pin(self.admission()).await? {
                    Some(admitted) => admitted,
                    None => return Ok(Err(self.crowded_out())),
                },
            };
            let in_flight = self.client.enter(self.resources.name())?;
            if let Some(failure) = self.in_vain() {
                return Ok(Err(failure));
            }
            let claim = self.claim(fronts)?;
            let mut sent = self.send(claim, Some(fronts), in_flight, admitted);
            let outcome = sent.outcome(self).await;
            sent.question.askers = None;
            Ok(outcome.map(|(reading, token)| {
                let SentAttempt { in_transit, .. } = sent;
                Granted { begun: in_transit.lease.since, in_transit, reading, token }
            }))
        }
    }

    /// One attempt at another permit, for a task that waits behind this one. `None` also when the client has too much
    /// to do.
    pub(super) async fn ask_for_spare(&self, key: Arc<str>) -> Option<Granted> {
        let Self { client, .. } = self;
        let admitted = client.gate.try_enter()?;
        let in_flight = client.enter(self.resources.name()).ok()?;
        if self.in_vain().is_some() {
            return None;
        }
        let value = client.fresh_value().ok()?;
        let claim = Claim { permit: true, ..Claim::new(&key, value) };
        let mut sent = self.send(claim, None, in_flight, admitted);
        let (reading, token) = sent.outcome(self).await.ok()?;
        let SentAttempt { in_transit, .. } = sent;
        Some(Granted { begun: in_transit.lease.since, in_transit, reading, token })
    }

    fn claim(&self, fronts: &mut Fronts) -> Result<Claim, LockError> {
        let Self { client, terms, .. } = self;
        let value = client.fresh_value()?;
        let (rest, shared) = (self.rest.clone(), terms.shared);
        let (permit, place) = (self.permits.is_some(), fronts.first.place());
        let has_turn = fronts.each().any(|front| front.had_turn());
        Ok(Claim { rest, shared, permit, place, has_turn, ..Claim::new(&self.key, value) })
    }

    /// Sends the question.
    fn send<'f>(
        &self,
        claim: Claim,
        askers: Option<&'f mut Fronts>,
        in_flight: InFlightGuard,
        admitted: Admitted<'f>,
    ) -> SentAttempt<'f> {
        let Self { client, terms, .. } = self;
        let claim = Arc::new(claim);
        let round = Round::new(&client.nodes.names, Tally::is_decided);
        let start = client.nodes.clock.read();
        let sought = LeaseState::sought(Arc::clone(&claim), terms, start, &round);
        let in_transit = client.queues.in_transit(sought, in_flight);
        let since = in_transit.lease.since;
        let drawing = if terms.fenced {
            let behind = askers.as_ref().map_or(0, |fronts| fronts.fenced_behind());
            let count = numbers_for(behind, 0);
            let action = |draw| Action::GrantFenced { ttl: terms.key_ttl(), draw };
            Some(Drawing::send(client, &claim, &round, since, count, action))
        } else {
            let job = Job::new(&claim, Action::Grant { ttl: terms.key_ttl() });
            deliver(ask(&client.nodes, &round, since, |_| Some(Arc::clone(&job))));
            None
        };
        let question = Question { round, is_for_permit: claim.permit, askers };
        SentAttempt { question, in_transit, drawing, admitted }
    }

    /// Waits until fewer attempts are in progress than the nodes can answer in time. `None` when
    /// that takes too long.
    async fn admission(&self) -> Result<Option<Admitted<'a>>, LockError> {
        let left = self.retries.left(self.now());
        let limit = if self.has_failed { left } else { left.max(MIN_ADMISSION_WAIT) };
        let admitted = timeout(limit, self.client.gate.enter());
        Ok(self.unless_closed(admitted).await?.ok().flatten())
    }

    fn crowded_out(&self) -> FailedAttempt {
        let reason = "this client makes as many attempts as its nodes answer in time: try again \
                      later, or use fewer tasks";
        let overloaded =
            |node: &NodeHandle| NodeError::new(node.name(), NodeErrorKind::Overloaded, reason);
        FailedAttempt::unasked(self.client.nodes.iter().map(overloaded).collect())
    }

    /// Why no quorum is possible, as far as that is known without asking. Then nothing is sent.
    pub(super) fn in_vain(&self) -> Option<FailedAttempt> {
        let nodes = &self.client.nodes;
        let enough = nodes.quorum();
        if nodes.iter().filter(|node| node.surely_gives_votes()).count() >= enough {
            return None;
        }
        let now = self.now();
        let refusals: Vec<_> = nodes.iter().filter_map(|node| node.why_no_vote(now)).collect();
        let is_in_vain = refusals.len() > nodes.len() - enough;
        is_in_vain.then(|| FailedAttempt::unasked(refusals))
    }
}

#[cfg(test)]
mod tests {
    use std::{future::IntoFuture, iter::from_fn};

    use super::*;
    use crate::{Redlock, testing::nodes};

    const MS: Duration = Duration::from_millis(1);

    /// It has waited in its process for nearly as long as it may, and has asked no node yet.
    #[tokio::test(start_paused = true)]
    async fn a_first_attempt_waits_for_its_place_however_long_the_request_has_waited_before() {
        let nodes = nodes(3);
        let [theirs, ours] = [(); 2].map(|()| Redlock::builder().nodes(&nodes).build().unwrap());
        let _held = theirs.lock("r").await.unwrap();
        let front = tokio::spawn(ours.lock("r").wait(60_000 * MS).into_future());
        sleep(10 * MS).await;
        let waits = tokio::spawn(ours.lock("r").wait(100 * MS).into_future());
        sleep(90 * MS).await;
        let crowd: Vec<_> = from_fn(|| ours.client().gate.try_enter()).collect();
        front.abort();
        sleep(MIN_ADMISSION_WAIT / 2).await;
        assert!(!waits.is_finished());
        drop(crowd);
        let error = waits.await.unwrap().unwrap_err();
        assert!(error.is_held(), "{error}");
    }

    /// One node has said that no permit is free. It has asked for none.
    #[tokio::test(start_paused = true)]
    async fn a_first_attempt_at_a_permit_waits_for_its_place_too() {
        let nodes = nodes(3);
        let [theirs, ours] = [(); 2].map(|()| Redlock::builder().nodes(&nodes).build().unwrap());
        let held = theirs.lock("r").permits(1).await.unwrap();
        let front = tokio::spawn(ours.lock("r").permits(1).wait(60_000 * MS).into_future());
        sleep(10 * MS).await;
        let waits = tokio::spawn(ours.lock("r").permits(1).wait(200 * MS).into_future());
        sleep(50 * MS).await;
        front.abort();
        sleep(50 * MS).await;
        let crowd: Vec<_> = from_fn(|| ours.client().gate.try_enter()).collect();
        drop(held);
        sleep(MIN_ADMISSION_WAIT / 2).await;
        assert!(!waits.is_finished());
        drop(crowd);
        drop(waits.await.unwrap().unwrap());
    }
}
