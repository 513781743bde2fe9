//! Takes a lock: waits for a turn in the queue of this process, then makes attempts for as long as
//! the caller waits.

mod attempt;
mod chance;
mod fence;
mod request;
mod retries;
mod waiting;

use std::{sync::Arc, time::Duration};

use tracing::Instrument;

use self::{request::Request, retries::Chance};
use crate::{
    client::Client,
    clock::{Moment, Reading},
    error::LockError,
    fence::FencingToken,
    lease::{Hold, LeaseInTransit},
    metrics,
    op::watch::Watch,
    options::Terms,
    runtime::check_runtime,
    telemetry,
    timer::sleep,
    wait::{FailedAttempt, Front, Joined, MIN_PAUSE, NoTurn, Wants},
};

/// The longest resource in bytes (api.md): keys stay readable and cheap.
pub(crate) const MAX_RESOURCE_BYTES: usize = 1024;

/// Takes the lock, waiting for it as the terms allow. The hold is the caller's to release.
pub(crate) async fn acquire(
    client: &Arc<Client>,
    resource: String,
    terms: &Terms,
) -> Result<Arc<Hold>, LockError> {
    let span = telemetry::acquiring(&resource, terms.label);
    let metered = metrics::acquiring(&*client.nodes.clock, terms.label);
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
) -> Result<Arc<Hold>, LockError> {
    check(&resource)?;
    client.check_open(&resource)?;
    let clock = &client.nodes.clock;
    let called = clock.now();
    let begun = if client.is_ready()? {
        called
    } else {
        tokio::select! {
            biased;
            ready = client.ready() => ready?,
            () = client.closed() => client.check_open(&resource)?,
        }
        clock.now()
    };
    let mut request = Request::new(client, resource, terms, called, begun);
    let front = request.turn().await?;
    request.ask(front).await
}

impl Request<'_> {
    /// Waits for the turn in the queue.
    async fn turn(&mut self) -> Result<Front, LockError> {
        let wants = Wants::new(self.terms);
        let turn = match self.client.queues.join(&self.key, wants, self.begun) {
            Joined::First(front) => return Ok(front),
            Joined::Refused(no_turn) => {
                self.attempts = 1;
                Err(no_turn)
            }
            Joined::Waiting(pending) => {
                let limit = if wants.tries_once {
                    // The outcome of the attempt in progress is this request's answer, too.
                    self.client.nodes.give_up_after()
                } else {
                    self.retries.limit_in_queue()
                };
                let turn = {
                    let _waiting = metrics::waiting(self.terms.label);
                    pending.turn(limit).await
                };
                let now = self.now();
                self.retries.waited_in_queue(now);
                if let Ok(front) = &turn {
                    let cause = if front.has_lease() { "handed_over" } else { "front" };
                    self.woken(cause, now.since(self.begun));
                }
                // As many attempts as a client that polls would have made.
                self.attempts = self.retries.spent().saturating_add(1);
                turn
            }
        };
        turn.map_err(|no_turn| self.no_turn(&no_turn))
    }

    /// Takes over the lease that the front was given, or asks the nodes until they grant the lock.
    async fn ask(mut self, mut front: Front) -> Result<Arc<Hold>, LockError> {
        let wants = Wants::new(self.terms);
        if let Some(in_transit) = front.take_lease(wants)
            && let Some((in_transit, token)) = self.numbered(&front, in_transit).await
        {
            let reading = self.client.nodes.clock.read();
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
                        // A node does not push this client's own changes to it.
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
        failure: Option<&FailedAttempt>,
    ) -> Result<Chance, LockError> {
        let begun = self.now();
        let limit = self.retries.limit(begun);
        if limit.is_zero() {
            return Err(self.told(failure));
        }
        // On the heap: most locks are had without it, and pay for its size otherwise.
        let chance = {
            let _waiting = metrics::waiting(self.terms.label);
            Box::pin(self.chance(front, failure, begun + limit)).await?
        };
        let now = self.now();
        self.woken(chance.name(), now.since(begun));
        let has_news = self.watch.as_ref().is_none_or(Watch::has_news);
        self.retries.note(chance, has_news, now);
        match chance {
            Chance::Notified => {
                self.watch = None;
                let at_once = now.since(begun) < MIN_PAUSE;
                let in_vain = failure.is_some_and(FailedAttempt::is_in_vain);
                self.hesitate(front, !has_news || in_vain || at_once).await?;
            }
            Chance::Behind => return Err(self.told(failure)),
            Chance::Turn | Chance::Free | Chance::Due | Chance::Hurried => {}
        }
        self.last = Some(chance);
        Ok(chance)
    }

    /// Tells why the request goes on after waiting for so long.
    fn woken(&self, cause: &'static str, waited: Duration) {
        metrics::woken(self.terms.label, cause);
        telemetry::woken(cause, waited);
    }

    /// Lets waiters that have waited for longer go first.
    async fn hesitate(&mut self, front: &Front, doubtful: bool) -> Result<(), LockError> {
        let round_trip = self.client.nodes.round_trip();
        let (fixed, random) = self.wake_backoff.hesitation(doubtful, front.without(), round_trip);
        // The first client in a queue competes with no other client.
        let fixed = if front.entry.is_some() { Duration::ZERO } else { fixed };
        let delay = fixed.saturating_add(self.up_to(random)).min(self.retries.left(self.now()));
        if !delay.is_zero() {
            self.unless_closed(sleep(delay)).await?;
        }
        Ok(())
    }

    /// Makes a hold of a lease, unless the client was closed meanwhile.
    fn admit(
        self,
        front: Front,
        in_transit: LeaseInTransit,
        begun: Moment,
        reading: Reading,
        token: Option<FencingToken>,
    ) -> Result<Arc<Hold>, LockError> {
        metrics::waited(self.terms.label, begun.since(self.called));
        let Self { client, resource, terms, .. } = self;
        let lease = in_transit.lease.clone();
        let hold = client.leases.hold(resource, lease, terms, begun, reading.now, token);
        if !client.leases.add(&hold, reading) {
            // No work ran under the lease, so that not even a `min_hold` keeps the keys.
            return Err(LockError::ShuttingDown { resource: hold.resource.clone() });
        }
        hold.metered.begin();
        in_transit.disarm();
        front.acquired(&hold, reading.now);
        Ok(hold)
    }
}

/// The answer to a request that could only wait for the body around it, which waits for the request.
pub(crate) fn held_around(client: &Arc<Client>, resource: String, terms: &Terms) -> LockError {
    let metered = metrics::acquiring(&*client.nodes.clock, terms.label);
    let error = client.check_open(&resource).err().unwrap_or_else(|| {
        let now = client.nodes.clock.now();
        Request::new(client, resource, terms, now, now).no_turn(&NoTurn::HeldHere)
    });
    metered.done(metrics::outcome_of(&error));
    telemetry::refused(&error);
    error
}

pub(crate) fn check(resource: &str) -> Result<(), LockError> {
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
