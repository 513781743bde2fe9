//! One attempt: all nodes are asked at once, and a quorum decides (rules 1 to 5).

use std::{sync::Arc, time::Duration};

use tokio::sync::SemaphorePermit;

use super::{Granted, fence::Drawing, fronts::Fronts, request::Request};
use crate::{
    error::{LockError, NodeError, NodeErrorKind},
    fence::numbers_for,
    lease::LeaseState,
    node::{Action, Claim, Job, NodeHandle, deliver},
    quorum::{Round, ask},
    telemetry,
    timer::{sleep, timeout},
    token,
    wait::{FailedAttempt, MIN_PAUSE},
};

/// The shortest time that a caller waits for its place among the attempts, where more callers come
/// than the processor serves.
const MIN_ADMISSION_WAIT: Duration = Duration::from_secs(10);

impl<'a> Request<'a> {
    /// Asks all nodes once.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its arguments twice")]
    pub(super) fn attempt(
        &self,
        fronts: &Fronts,
    ) -> impl Future<Output = Result<Result<Granted, FailedAttempt>, LockError>> + Send {
        async move {
            let client = self.client;
            let _permit = match client.gate.try_acquire() {
                Ok(permit) => permit,
                Err(_) => match Box::pin(self.admission()).await? {
                    Some(permit) => permit,
                    None => return Ok(Err(self.crowded_out())),
                },
            };
            let terms = self.terms;
            let in_flight = client.leases.track_in_flight();
            // The order matters: a shutdown that this check does not see yet sees the attempt in
            // flight.
            client.check_open(self.resources.name())?;
            if let Some(failure) = self.in_vain() {
                return Ok(Err(failure));
            }
            let value = token::fresh_value(&*client.entropy, &client.settings.client_name)?;
            let (key, rest, shared) = (Arc::clone(&self.key), self.rest.clone(), terms.shared);
            let (permit, place) = (self.permits.is_some(), fronts.first.place());
            let claim = Arc::new(Claim { key, rest, value, shared, permit, place });
            let round =
                Round::new(&client.nodes.names, |tally| tally.reached() || tally.impossible());
            let start = client.nodes.clock.read();
            let sought = LeaseState::sought(Arc::clone(&claim), terms, start, &round);
            let mut in_transit = client.queues.in_transit(sought, in_flight);
            let since = in_transit.lease.since;
            let drawing = if terms.fenced {
                let count = numbers_for(fronts.fenced_behind(), 0);
                let action = |draw| Action::GrantFenced { ttl: terms.key_ttl(), draw };
                Some(Drawing::send(client, &claim, &round, since, count, action))
            } else {
                let job = Job::new(&claim, Action::Grant { ttl: terms.key_ttl() });
                deliver(ask(&client.nodes, &round, since, |_| Some(Arc::clone(&job))));
                None
            };
            let mut tally = round.settled(&client.nodes).await;
            telemetry::attempted(self.attempts, tally.yes(), tally.no(), || round.failures());
            if tally.reached() {
                if let Some(drawing) = &drawing {
                    match drawing.range(client, &claim).await {
                        Ok(range) => in_transit.lease.range = Some(Box::new(range)),
                        Err(failure) => return Ok(Err(failure)),
                    }
                }
                // A grant counts only if validity remains (rule 4).
                let reading = client.nodes.clock.read();
                if in_transit.lease.is_valid_on(reading) {
                    client.nodes.note_quorum_seen();
                    let token = in_transit.lease.next_number();
                    return Ok(Ok(Granted { in_transit, begun: since, reading, token }));
                }
                return Ok(Err(FailedAttempt::too_late(tally.yes())));
            }
            if !tally.impossible_by_failures() && round.has_timeouts() {
                // Nodes that were asked together time out together. A moment later all their timeouts
                // are counted, so the error does not depend on which of them came first.
                sleep(MIN_PAUSE).await;
                tally = round.tally();
            }
            Ok(Err(FailedAttempt::of(&tally, &round)))
        }
    }

    /// Waits until fewer attempts are in progress than the nodes can answer in time. `None` when
    /// that takes too long.
    async fn admission(&self) -> Result<Option<SemaphorePermit<'a>>, LockError> {
        let limit = self.retries.left(self.now()).max(MIN_ADMISSION_WAIT);
        let admitted = timeout(limit, self.client.gate.acquire());
        Ok(self.unless_closed(admitted).await?.ok().and_then(Result::ok))
    }

    fn crowded_out(&self) -> FailedAttempt {
        let reason = "this client makes as many attempts as it can: use fewer tasks, or more \
                      processes";
        let overloaded =
            |node: &NodeHandle| NodeError::new(node.name(), NodeErrorKind::Overloaded, reason);
        let nodes = self.client.nodes.iter().map(overloaded).collect();
        FailedAttempt { no_quorum: true, was_asked: false, granted: 0, nodes }
    }

    /// Why no quorum is possible, as far as that is known without asking. Then nothing is sent.
    fn in_vain(&self) -> Option<FailedAttempt> {
        let nodes = &self.client.nodes;
        let enough = nodes.quorum();
        if nodes.iter().filter(|node| node.surely_gives_votes()).count() >= enough {
            return None;
        }
        let now = self.now();
        let refusals: Vec<_> = nodes.iter().filter_map(|node| node.refuses_votes(now)).collect();
        let is_in_vain = refusals.len() > nodes.len() - enough;
        is_in_vain.then_some(FailedAttempt {
            no_quorum: true,
            was_asked: false,
            granted: 0,
            nodes: refusals,
        })
    }
}
