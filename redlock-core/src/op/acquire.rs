//! Takes a lock: waits for a turn in the queue of this process, then makes attempts for as long as
//! the caller waits.

mod chance;
mod fence;

use std::{sync::Arc, time::Duration};

use tokio::sync::SemaphorePermit;
use tracing::Instrument;

use self::{chance::Chance, fence::Drawing};
use crate::{
    bug::{Bug, planted},
    client::{Client, check_runtime},
    clock::{Moment, Reading},
    error::{LockError, NodeError, NodeErrorKind},
    fence::{FencingToken, numbers_for},
    guard::LockGuard,
    lease::{Hold, LeaseInTransit, LeaseState},
    metrics,
    node::{Action, Claim, Job, NodeHandle, deliver},
    op::watch::Watch,
    options::Terms,
    quorum::{Round, Tally, ask, quorum},
    telemetry,
    timer::{sleep, timeout},
    token,
    wait::{Front, Joined, MIN_PAUSE, NoTurn, Queues, WakeBackoff, Wants},
};

/// The shortest time that a caller waits for its place among the attempts, where more callers come
/// than the processor serves.
const MIN_ADMISSION_WAIT: Duration = Duration::from_secs(10);

/// The longest resource in bytes (api.md): keys stay readable and cheap.
pub(crate) const MAX_RESOURCE_BYTES: usize = 1024;

/// Takes the lock, waiting for it as the terms allow.
pub(crate) async fn acquire(
    client: &Arc<Client>,
    resource: String,
    terms: &Terms,
) -> Result<LockGuard, LockError> {
    let span = telemetry::acquiring(&resource, terms.label);
    let metered = metrics::acquiring(&*client.clock, terms.label);
    let acquired = wait_for(client, resource, terms).instrument(span).await;
    metered.done(metrics::outcome(&acquired));
    if let Err(error) = &acquired {
        telemetry::refused(error);
    }
    acquired
}

async fn wait_for(
    client: &Arc<Client>,
    resource: String,
    terms: &Terms,
) -> Result<LockGuard, LockError> {
    check(&resource)?;
    client.check_open(&resource)?;
    let called = client.clock.now();
    let begun = if client.is_ready()? {
        called
    } else {
        tokio::select! {
            biased;
            ready = client.ready() => ready?,
            () = client.closed() => client.check_open(&resource)?,
        }
        client.clock.now()
    };
    let mut request = Request {
        client,
        key: client.key(&resource),
        resource,
        terms,
        called,
        begun,
        counted: begun,
        attempts: 0,
        retries: 0,
        wake_backoff: WakeBackoff::default(),
        watch: None,
        last: None,
    };
    let front = request.turn().await?;
    request.ask(front).await
}

/// A caller's request for a lock.
struct Request<'a> {
    client: &'a Arc<Client>,
    resource: String,
    key: Arc<str>,
    terms: &'a Terms,
    called: Moment,
    /// When the nodes were connected, or connecting had failed. `wait` counts from here.
    begun: Moment,
    attempts: u32,
    /// What `retry_count` limits: attempts that were made because it was time, attempts that came
    /// `retry_delay` or more after the last counted one although no holder had released the lock,
    /// and every `retry_delay` in the queue.
    retries: u32,
    /// When the last retry was counted.
    counted: Moment,
    wake_backoff: WakeBackoff,
    /// The watch on all nodes, until it has notified.
    watch: Option<Watch>,
    /// Why the last attempt was made. None before the second.
    last: Option<Chance>,
}

impl Request<'_> {
    /// Waits for the turn in the queue.
    async fn turn(&mut self) -> Result<Front, LockError> {
        let wants = Wants::new(self.terms);
        let turn = match Queues::join(self.client, &self.key, wants, self.begun) {
            Joined::Now(Ok(front)) => return Ok(front),
            Joined::Now(Err(no_turn)) => {
                self.attempts = 1;
                Err(no_turn)
            }
            Joined::Waiting(place) => {
                let pace = self.terms.retry_delay.max(MIN_PAUSE);
                let limit = if wants.tries_once {
                    // The outcome of the attempt in progress is this request's answer, too.
                    self.client.give_up_after()
                } else {
                    let retries = self.terms.retry_count.map(|count| pace.saturating_mul(count));
                    retries.map_or(self.terms.wait, |retries| retries.min(self.terms.wait))
                };
                let turn = {
                    let _waiting = metrics::waiting(self.terms.label);
                    place.turn(limit).await
                };
                self.counted = self.client.clock.now();
                if let Ok(front) = &turn {
                    let cause = if front.has_lease() { "handed_over" } else { "front" };
                    metrics::woken(self.terms.label, cause);
                    telemetry::woken(cause, self.counted.since(self.begun));
                }
                let in_line = self.counted.since(self.begun).as_nanos() / pace.as_nanos();
                self.retries = u32::try_from(in_line).unwrap_or(u32::MAX);
                // As many attempts as polling would have made.
                self.attempts = self.retries.saturating_add(1);
                turn
            }
        };
        turn.map_err(|no_turn| self.no_turn(&no_turn))
    }

    /// Takes over the lease that the front was given, or asks the nodes until they grant the lock.
    async fn ask(mut self, mut front: Front) -> Result<LockGuard, LockError> {
        let wants = Wants::new(self.terms);
        if let Some(in_transit) = front.take_lease(wants)
            && let Some((in_transit, token)) = self.numbered(&front, in_transit).await
        {
            let reading = self.client.clock.read();
            return self.admit(front, in_transit, reading.now, reading, token);
        }
        let known = front.known(wants);
        if known.is_some() || front.stands_back() && !wants.tries_once {
            let chance = self.pause(&mut front, known.as_deref()).await?;
            if chance != Chance::Free {
                front.challenged();
            }
        }
        loop {
            if self.attempts > 0 || self.last.is_some() {
                // Timers and nodes no longer answer once this task's runtime was shut down.
                check_runtime()?;
                // The runtime of the client's tasks may end, or stand still, while this request
                // waits (rule 13).
                self.client.ensure_moving();
            }
            self.attempts = self.attempts.saturating_add(1);
            match self.attempt(&front).await? {
                Ok((mut in_transit, reading)) => {
                    let begun = in_transit.lease.since;
                    let token = in_transit.lease.next_number();
                    return self.admit(front, in_transit, begun, reading, token);
                }
                Err(failure) => {
                    let failure = Arc::new(failure);
                    front.failed(&failure);
                    if failure.granted > 0 || failure.no_quorum && failure.was_asked {
                        // A node does not push what this client has changed itself.
                        self.watch = None;
                    }
                    self.pause(&mut front, Some(&failure)).await?;
                }
            }
        }
    }

    /// Waits until it is worth asking, if there is time for that. Without a `failure`, nothing was
    /// asked yet, and other clients go first.
    async fn pause(
        &mut self,
        front: &mut Front,
        failure: Option<&Failure>,
    ) -> Result<Chance, LockError> {
        let limit = self.limit();
        if limit.is_zero() {
            return Err(self.told(failure));
        }
        let begun = self.client.clock.now();
        // On the heap: most locks are had without it, and pay for its size otherwise.
        let chance = {
            let _waiting = metrics::waiting(self.terms.label);
            Box::pin(self.chance(front, failure, begun + limit)).await?
        };
        let now = self.client.clock.now();
        metrics::woken(self.terms.label, chance.name());
        telemetry::woken(chance.name(), now.since(begun));
        let news = self.watch.as_ref().is_none_or(Watch::has_news);
        // An attempt that another client's action caused, or that follows nothing new, is no retry
        // before `retry_delay`. It does not put a retry off.
        let late = now.since(self.counted) >= self.terms.retry_delay;
        if chance == Chance::Due || late && (chance != Chance::Notified || !news) {
            self.count_retries(now);
        }
        match chance {
            Chance::Notified => {
                self.watch = None;
                let at_once = now.since(begun) < MIN_PAUSE;
                let in_vain = failure.is_some_and(Failure::is_in_vain);
                self.hesitate(front, !news || in_vain || at_once).await?;
            }
            Chance::Behind => return Err(self.told(failure)),
            Chance::Turn | Chance::Free | Chance::Due | Chance::Hurried => {}
        }
        self.last = Some(chance);
        Ok(chance)
    }

    /// Counts a retry for every `retry_delay` that has passed, and one at least.
    fn count_retries(&mut self, now: Moment) {
        let pace = self.terms.retry_delay.max(MIN_PAUSE);
        let spent = now.since(self.counted).as_nanos() / pace.as_nanos();
        let spent = u32::try_from(spent).unwrap_or(u32::MAX).max(1);
        self.retries = self.retries.saturating_add(spent);
        self.counted = now;
    }

    /// How long the request may wait for its next attempt: what is left of `wait` and of the
    /// retries.
    fn limit(&self) -> Duration {
        let left = self.left();
        let Some(count) = self.terms.retry_count else { return left };
        let pace = self.terms.retry_delay.max(MIN_PAUSE);
        let retries = pace.saturating_mul(count.saturating_sub(self.retries));
        left.min((self.counted + retries).since(self.client.clock.now()))
    }

    /// Lets waiters go first that have waited for longer.
    async fn hesitate(&mut self, front: &Front, doubtful: bool) -> Result<(), LockError> {
        let round_trip = self.client.round_trip();
        let (fixed, random) = self.wake_backoff.hesitation(doubtful, front.without(), round_trip);
        // The front of a queue competes with no other client.
        let fixed = if front.entry.is_some() { Duration::ZERO } else { fixed };
        let delay = fixed.saturating_add(self.up_to(random)).min(self.left());
        if !delay.is_zero() {
            self.unless_closed(sleep(delay)).await?;
        }
        Ok(())
    }

    /// Asks all nodes once.
    async fn attempt(
        &mut self,
        front: &Front,
    ) -> Result<Result<(LeaseInTransit, Reading), Failure>, LockError> {
        let client = Arc::clone(self.client);
        let Some(_permit) = self.admission(&client).await? else {
            return Ok(Err(self.crowded_out()));
        };
        let terms = self.terms;
        let in_flight = client.track_in_flight();
        // The order matters: a shutdown that this check does not see yet sees the attempt in flight.
        client.check_open(&self.resource)?;
        if let Some(failure) = self.in_vain() {
            return Ok(Err(failure));
        }
        let value = token::fresh_value(&*client.entropy, &client.settings.client_name)?;
        let claim = Arc::new(Claim { key: Arc::clone(&self.key), value });
        let round = Round::new(client.nodes.len(), |tally| tally.reached() || tally.impossible());
        let sought = |start| LeaseState::sought(Arc::clone(&claim), terms, start, &round);
        let mut in_transit =
            LeaseInTransit::new(sought(client.registry.start(&*client.clock)), in_flight);
        let drawing = terms.fenced.then(|| {
            let count = numbers_for(front.fenced_behind(), 0);
            Drawing::grant(&client, &round, terms.key_ttl(), count)
        });
        let since = in_transit.lease.since;
        match &drawing {
            Some(drawing) => drawing.send(&client, &claim, since),
            None => {
                let job = Job::new(&claim, Action::Grant { ttl: terms.key_ttl() });
                deliver(ask(&client.nodes, &round, since, |_| Some(job.clone())));
            }
        }
        let mut tally = round.settled(&client.nodes, client.give_up_after()).await;
        if planted(Bug::ClockStartedLate) {
            in_transit.lease = sought(client.registry.start(&*client.clock));
        }
        telemetry::attempted(self.attempts, tally.yes(), tally.no(), || round.failures());
        if tally.reached() {
            if let Some(drawing) = &drawing {
                match drawing.range(&client, &claim).await {
                    Ok(range) => in_transit.lease.range = Some(Box::new(range)),
                    Err(failure) => return Ok(Err(failure)),
                }
            }
            // A grant counts only if validity remains (rule 4).
            let reading = client.clock.read();
            if in_transit.lease.is_valid_on(reading) || planted(Bug::ValidityNotCompared) {
                client.note_quorum_seen();
                return Ok(Ok((in_transit, reading)));
            }
            return Ok(Err(Failure::too_late(tally.yes())));
        }
        if !tally.impossible_by_failures() && round.has_timeouts() {
            // Nodes that were asked together time out together. A moment later all their timeouts
            // are counted, so the error does not depend on which of them came first.
            sleep(MIN_PAUSE).await;
            tally = round.tally();
        }
        Ok(Err(Failure::of(&tally, &round)))
    }

    /// Waits until fewer attempts are in progress than the nodes can answer in time. `None` when
    /// that takes too long.
    async fn admission<'c>(
        &self,
        client: &'c Client,
    ) -> Result<Option<SemaphorePermit<'c>>, LockError> {
        if let Ok(permit) = client.gate.try_acquire() {
            return Ok(Some(permit));
        }
        let limit = self.left().max(MIN_ADMISSION_WAIT);
        let admitted = timeout(limit, client.gate.acquire());
        Ok(self.unless_closed(admitted).await?.ok().and_then(Result::ok))
    }

    fn crowded_out(&self) -> Failure {
        let reason = "this client makes as many attempts as it can: use fewer tasks, or more \
                      processes";
        let overloaded =
            |node: &NodeHandle| NodeError::new(node.name(), NodeErrorKind::Overloaded, reason);
        let nodes = self.client.nodes.iter().map(overloaded).collect();
        Failure { no_quorum: true, was_asked: false, granted: 0, nodes }
    }

    /// Why no quorum is possible, as far as that is known without asking. Then nothing is sent.
    fn in_vain(&self) -> Option<Failure> {
        let nodes = &self.client.nodes;
        let enough = quorum(nodes.len());
        if nodes.iter().filter(|node| node.gives_votes()).count() >= enough {
            return None;
        }
        let now = self.client.clock.now();
        let refusals: Vec<_> = nodes.iter().filter_map(|node| node.refuses_votes(now)).collect();
        let is_in_vain = refusals.len() > nodes.len() - enough;
        is_in_vain.then_some(Failure {
            no_quorum: true,
            was_asked: false,
            granted: 0,
            nodes: refusals,
        })
    }

    /// Makes a hold of a lease, unless the client was closed meanwhile.
    fn admit(
        self,
        front: Front,
        in_transit: LeaseInTransit,
        begun: Moment,
        reading: Reading,
        token: Option<FencingToken>,
    ) -> Result<LockGuard, LockError> {
        let Self { client, resource, terms, .. } = self;
        metrics::waited(terms.label, begun.since(self.called));
        let lease = in_transit.lease.clone();
        let hold = Arc::new(Hold::new(client, resource, lease, terms, begun, token));
        if !client.registry.add(&hold, reading) {
            // No work ran under the lease, so that not even a `min_hold` keeps the keys.
            return Err(LockError::ShuttingDown { resource: hold.resource.clone() });
        }
        hold.metered().begin();
        in_transit.disarm();
        front.acquired(&hold, reading.now);
        Ok(LockGuard::new(hold))
    }

    async fn unless_closed<F: Future>(&self, future: F) -> Result<F::Output, LockError> {
        tokio::select! {
            biased;
            () = self.client.closed() => Err(self.shutting_down()),
            output = future => Ok(output),
        }
    }

    fn up_to(&self, most: Duration) -> Duration {
        token::up_to(&*self.client.entropy, most)
    }

    /// What is left of `wait`.
    fn left(&self) -> Duration {
        self.terms.wait.saturating_sub(self.client.clock.now().since(self.begun))
    }

    /// For errors: the time since the call.
    fn waited(&self) -> Duration {
        self.client.clock.now().since(self.called)
    }

    /// For errors: how often the request asked, or would have asked instead of waiting in a queue.
    fn attempts(&self) -> u32 {
        self.attempts.max(self.retries.saturating_add(1))
    }

    fn shutting_down(&self) -> LockError {
        LockError::ShuttingDown { resource: self.resource.clone() }
    }

    /// The error for a request that had no turn.
    fn no_turn(&self, no_turn: &NoTurn) -> LockError {
        match no_turn {
            NoTurn::Failed(failure) => self.failed(failure),
            NoTurn::HeldHere => self.held(true, Vec::new()),
            NoTurn::Busy => self.held(false, Vec::new()),
            NoTurn::Closed => self.shutting_down(),
        }
    }

    /// The error for a request that has no time left: its last failure, or that other clients go
    /// first.
    fn told(&self, failure: Option<&Failure>) -> LockError {
        match failure {
            Some(failure) => self.failed(failure),
            None => self.held(false, Vec::new()),
        }
    }

    fn failed(&self, failure: &Failure) -> LockError {
        let Failure { no_quorum, granted, nodes, .. } = failure;
        if !no_quorum {
            return self.held(false, nodes.clone());
        }
        LockError::NoQuorum {
            resource: self.resource.clone(),
            attempts: self.attempts(),
            waited: self.waited(),
            granted: *granted,
            quorum: quorum(self.client.nodes.len()),
            nodes: nodes.clone(),
        }
    }

    fn held(&self, by_this_client: bool, nodes: Vec<NodeError>) -> LockError {
        LockError::Held {
            resource: self.resource.clone(),
            attempts: self.attempts(),
            waited: self.waited(),
            by_this_client,
            retry_after: self.terms.retry_delay,
            nodes,
        }
    }
}

fn check(resource: &str) -> Result<(), LockError> {
    let problem = if resource.is_empty() {
        "it is empty: name what is to be locked".to_owned()
    } else if resource.len() > MAX_RESOURCE_BYTES {
        format!("it has {} bytes: use at most {MAX_RESOURCE_BYTES}", resource.len())
    } else {
        return Ok(());
    };
    let resource = resource.chars().take(64).collect();
    Err(LockError::InvalidResource { resource, problem })
}

/// Why an attempt did not get the lock.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Failures alone made a quorum impossible, or the quorum came too late.
    no_quorum: bool,
    /// Something was sent.
    was_asked: bool,
    granted: usize,
    nodes: Vec<NodeError>,
}

impl Failure {
    /// So many nodes refused, or failed, that there is no quorum.
    fn of(tally: &Tally, round: &Round) -> Self {
        Self {
            no_quorum: tally.impossible_by_failures(),
            was_asked: true,
            granted: tally.yes(),
            nodes: round.failures(),
        }
    }

    /// A quorum has answered too late to be relied on.
    fn too_late(granted: usize) -> Self {
        Self { no_quorum: true, was_asked: true, granted, nodes: Vec::new() }
    }

    /// Whether perhaps no client held the lock: the votes were split, or nodes were missing.
    fn is_in_vain(&self) -> bool {
        self.no_quorum || self.granted > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_in_vain_unless_another_client_need_have_the_lock() {
        for (no_quorum, granted, is_in_vain) in
            [(false, 0, false), (false, 1, true), (true, 0, true), (true, 2, true)]
        {
            let failure = Failure { no_quorum, was_asked: true, granted, nodes: Vec::new() };
            assert_eq!(failure.is_in_vain(), is_in_vain, "{failure:?}");
        }
    }
}
