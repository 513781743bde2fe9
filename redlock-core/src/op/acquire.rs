//! Takes a lock: waits for a turn in the queue of this process, then makes attempts for as long as
//! the caller waits.
//!
//! | file | what it does |
//! |---|---|
//! | [`request`], [`turns`], [`fronts`] | the request, and its turns in the queues of this process: one for each key |
//! | [`attempt`] | asks all nodes at once; [`fence`]: numbers with the grant |
//! | [`waiting`], [`wait_terms`], [`target`] | what a waiting client does next, by how it came to wait and what it waits for (pure) |
//! | [`chance`], [`reporting`] | waits for a chance, step by step; what it says to the queue between clients, and what the answers change |
//! | [`retries`], [`distrust`] | what counts as a retry; attempts that the queue misled (pure) |
//! | [`looking`] | a request that tries once looks at the queue first |
//! | [`set`], [`reader`], [`barrier`], [`permit`] | sets, readers, writers that wait for readers, permits |
//! | [`unclaimed`] | when a lock that a watch sees free is a chance |

mod attempt;
mod barrier;
mod chance;
mod distrust;
mod fence;
mod fronts;
mod looking;
#[cfg(test)]
mod names_tests;
#[cfg(test)]
mod pause_tests;
mod permit;
#[cfg(test)]
mod permit_tests;
mod reader;
#[cfg(test)]
mod reader_tests;
mod reporting;
mod request;
mod retries;
mod set;
mod target;
#[cfg(test)]
mod testing;
mod turns;
mod unclaimed;
mod wait_terms;
mod waiting;

use std::{sync::Arc, time::Duration};

use futures_util::{TryFutureExt, future::pending};
use tracing::Instrument;

use self::{fronts::Fronts, request::Request, retries::Chance, wait_terms::Pause};
use crate::{
    client::Client,
    clock::{Moment, Reading},
    error::LockError,
    fence::FencingToken,
    lease::{Hold, LeaseInTransit},
    metrics,
    op::{unguarded::Unguarded, watch::Watch},
    resources::Resources,
    runtime::check_runtime,
    settings::Terms,
    telemetry,
    timer::sleep,
    wait::{FailedAttempt, Front, MIN_PAUSE, NoTurn},
};

/// Takes the lock, waiting for it as the terms allow. The hold is the caller's to release.
///
/// Each request for a lock is one such future, so it is kept small. What most requests do not need is on
/// the heap. The bodies are blocks, because an `async fn` keeps its arguments twice.
#[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its arguments twice")]
pub(crate) fn acquire<'a>(
    client: &'a Arc<Client>,
    resources: &'a mut Resources,
    terms: &'a Terms,
) -> impl Future<Output = Result<Arc<Hold>, LockError>> + Send + 'a {
    async move {
        let span = telemetry::acquiring(resources.name(), terms.label);
        let metered = metrics::acquiring(&*client.nodes.clock, terms.label);
        let acquired = wait_for(client, resources, terms);
        let acquired = acquired.map_ok(|hold| Unguarded::new(client, hold)).instrument(span).await;
        metered.done(metrics::outcome(&acquired));
        match &acquired {
            Ok(acquired) => telemetry::acquired(acquired.hold.resources.name()),
            Err(error) => telemetry::refused(error),
        }
        acquired.map(Unguarded::into_hold)
    }
}

#[expect(clippy::manual_async_fn, reason = "an `async fn` keeps its arguments twice")]
fn wait_for<'a>(
    client: &'a Arc<Client>,
    resources: &'a mut Resources,
    terms: &'a Terms,
) -> impl Future<Output = Result<Arc<Hold>, LockError>> + Send + 'a {
    async move {
        resources.check()?;
        client.check_open(resources.name())?;
        let clock = &client.nodes.clock;
        let called = clock.now();
        // The future of the request, `lock_future::Asked`, has checked the runtime.
        client.ensure_moving(called);
        let begun = if client.nodes.is_ready() {
            called
        } else {
            Box::pin(client.ready_or_closed(resources.name())).await?;
            clock.now()
        };
        let mut request = Request::new(client, std::mem::take(resources), terms, called, begun);
        if let Some(count) = terms.permits {
            return Box::pin(request.permit(count)).await;
        }
        if terms.shared {
            return Box::pin(request.read()).await;
        }
        let mut fronts = request.turns().await?;
        let granted = request.ask(&mut fronts, None).await?;
        request.admit(fronts, granted)
    }
}

/// A lease that the nodes have granted, or that the hold before has handed over.
struct Granted {
    in_transit: Box<LeaseInTransit>,
    /// When the hold begins.
    begun: Moment,
    /// The reading of the clock that found the lease valid.
    reading: Reading,
    token: Option<FencingToken>,
}

impl Request<'_> {
    /// Takes the lock with the turn in one queue. `refused` is why the request was refused already.
    async fn take(
        mut self,
        front: Front,
        refused: Option<Arc<FailedAttempt>>,
    ) -> Result<Arc<Hold>, LockError> {
        let mut fronts = Fronts::one(front);
        let granted = self.ask(&mut fronts, refused).await?;
        self.admit(fronts, granted)
    }

    /// Takes over the lease that the front was given, or asks the nodes until they grant the lock.
    /// `refused` is why a reader was refused already.
    async fn ask(
        &mut self,
        fronts: &mut Fronts,
        refused: Option<Arc<FailedAttempt>>,
    ) -> Result<Granted, LockError> {
        let wants = self.wants();
        if let Some(in_transit) = fronts.first.take_lease(wants) {
            match self.handed_over(&fronts.first, in_transit).await {
                Ok(granted) => return Ok(granted),
                // To take it over was no attempt of a request that tries once.
                Err(failure) if !wants.tries_once && self.retries.limit(self.now()).is_zero() => {
                    return Err(self.failed(&failure));
                }
                Err(_) => fronts.first.gives_way(),
            }
        }
        if wants.tries_once && !self.terms.shared && fronts.stands_back() {
            Box::pin(self.look(fronts)).await?;
        }
        let known = if self.terms.has_several() { refused } else { fronts.known(wants) };
        // A reader whose turn has come asks at once, as the reader before it may hold the lock with it.
        let stands_back = !self.terms.shared && !wants.tries_once && fronts.stands_back();
        if known.is_some() || stands_back {
            let chance = Box::pin(self.pause(fronts, known.as_deref())).await?;
            if stands_back && chance == Chance::Free {
                fronts.unchallenged();
            }
        }
        loop {
            if self.attempts > 0 || self.last.is_some() {
                // Timers and nodes no longer answer once this task's runtime was shut down.
                check_runtime()?;
                // The runtime of the client's tasks may end, or stand still, while this request
                // waits (rule 13).
                self.client.ensure_moving(self.now());
            }
            self.attempts = self.attempts.saturating_add(1);
            let attempt = match self.permits {
                None => self.attempt(fronts).await?,
                Some(_) => Box::pin(self.ask_for_permits(fronts)).await?,
            };
            match attempt {
                Ok(granted) => return Ok(granted),
                Err(failure) => {
                    self.has_failed |= failure.was_asked;
                    self.retries.failed(self.now());
                    let failure = Arc::new(failure);
                    fronts.failed(&failure);
                    if failure.granted > 0 || failure.no_quorum && failure.was_asked {
                        // The attempt may have set and deleted keys. A node does not push these changes to the
                        // client that made them, and may no longer track the key for it: a new watch is needed.
                        self.watch = None;
                    }
                    Box::pin(self.pause(fronts, Some(&failure))).await?;
                }
            }
        }
    }

    /// Waits until it is worth asking, if there is time. Without a `failure`, nothing was asked yet: others go first.
    ///
    /// Callers box its future: it is large, and most requests never pause.
    async fn pause(
        &mut self,
        fronts: &mut Fronts,
        failure: Option<&FailedAttempt>,
    ) -> Result<Chance, LockError> {
        let begun = self.now();
        let limit = self.retries.limit(begun);
        if limit.is_zero() {
            return Err(self.out_of_time(failure));
        }
        fronts.follow_none();
        // A set may know of an attempt for one of its keys, and of none for the others.
        fronts.each().for_each(|front| front.defers_unasked());
        if failure.is_some_and(|failure| failure.was_asked && !failure.no_quorum) {
            self.wake_backoff.had_quorum();
        }
        let mut chance = {
            let _waiting = metrics::waiting(self.terms.label);
            let pause = Pause { begun, end: begun + limit, failure, last: self.last };
            if fronts.are_several() {
                Box::pin(self.chances(fronts, pause)).await?
            } else {
                self.chance(&mut fronts.first, pause).await?
            }
        };
        fronts.each().for_each(|front| front.asks());
        let now = self.now();
        self.woken(chance.name(), now.since(begun));
        let has_news = self.watch.as_deref().is_none_or(Watch::has_news);
        self.retries.note(chance, has_news, now);
        match chance {
            Chance::Notified => {
                self.watch = None;
                if failure.is_some_and(|failure| failure.no_quorum) {
                    self.wake_backoff.notified_without_quorum();
                }
                let at_once = now.since(begun) < MIN_PAUSE;
                let in_vain = failure.is_some_and(FailedAttempt::is_in_vain);
                if self.hesitate(fronts, !has_news || in_vain || at_once).await? {
                    chance = Chance::Turn;
                }
            }
            Chance::Behind => return Err(self.out_of_time(failure)),
            Chance::Turn if self.permits.is_some() => {
                // The node that gives the turns may have forgotten the permits, or other nodes may be away.
                let in_vain = failure.is_some_and(|failure| failure.was_asked || failure.no_quorum);
                self.hesitate(fronts, in_vain && self.last == Some(chance)).await?;
            }
            Chance::Turn
            | Chance::Free
            | Chance::StandsStill
            | Chance::Due
            | Chance::Again
            | Chance::Hurried => {}
        }
        self.distrust.asks(chance);
        self.last = Some(chance);
        Ok(chance)
    }

    /// Tells why the request goes on after waiting for so long.
    fn woken(&self, cause: &'static str, waited: Duration) {
        metrics::woken(self.terms.label, cause);
        telemetry::woken(cause, waited);
    }

    /// Lets waiters that have waited for longer go first, and other clients when the news is doubtful. Returns
    /// whether the turn has come meanwhile.
    async fn hesitate(&mut self, fronts: &mut Fronts, doubtful: bool) -> Result<bool, LockError> {
        let round_trip = self.client.nodes.round_trip();
        let (fixed, random) = self.wake_backoff.hesitation(doubtful, fronts.without(), round_trip);
        // The first client in a queue competes with no other client.
        let fixed = if fronts.first.entry.is_some() { Duration::ZERO } else { fixed };
        let delay = fixed.saturating_add(self.up_to(random)).min(self.retries.left(self.now()));
        if delay.is_zero() {
            return Ok(false);
        }
        // Turns for permits may be wrong.
        let entry = fronts.first.entry.as_mut().filter(|_| self.permits.is_none());
        let turn = async {
            match entry {
                Some(entry) => entry.turn().await,
                None => pending().await,
            }
        };
        self.unless_closed(async {
            tokio::select! {
                biased;
                () = turn => true,
                () = sleep(delay) => false,
            }
        })
        .await
    }

    /// Makes a hold of a lease, unless the client was closed meanwhile.
    fn admit(self, mut fronts: Fronts, granted: Granted) -> Result<Arc<Hold>, LockError> {
        let Granted { in_transit, begun, reading, token } = granted;
        metrics::waited(self.terms.label, begun.since(self.called));
        let Self { client, resources, terms, .. } = self;
        let lease = in_transit.lease.clone();
        let hold = client.leases.hold(resources, lease, terms, begun, reading.now, token);
        if let Err(_in_transit) = in_transit.pass_to(&hold, &client.leases, reading) {
            // No work ran under the lease, so that not even a `min_hold` keeps the keys. Its release gives the
            // turn to one client, and a `Leave` behind it would give it to another one as well.
            fronts.leave();
            return Err(LockError::ShuttingDown { resource: hold.resources.name().to_owned() });
        }
        if terms.shared {
            fronts.first.share();
        } else if terms.has_several() {
            fronts.first.pass_on();
        } else {
            fronts.acquired(&hold, reading.now);
        }
        Ok(hold)
    }
}

/// The answer to a request that could only wait for the body around it, which waits for the request.
pub(crate) fn held_around(client: &Arc<Client>, resources: Resources, terms: &Terms) -> LockError {
    let metered = metrics::acquiring(&*client.nodes.clock, terms.label);
    let error = client.check_open(resources.name()).err().unwrap_or_else(|| {
        let now = client.nodes.clock.now();
        Request::new(client, resources, terms, now, now).no_turn(&NoTurn::HeldHere)
    });
    metered.done(metrics::outcome_of(&error));
    telemetry::refused(&error);
    error
}
