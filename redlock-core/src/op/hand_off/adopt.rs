//! Taking up a lock that another process handed over.

use std::{sync::Arc, time::Duration};

use super::{Lease, missed::Missed, votes::Votes};
use crate::{
    client::Client,
    clock::Reading,
    error::{LockError, LostReason},
    lease::{Hold, LeaseInTransit, LeaseState},
    metrics,
    node::{Action, Claim, Job, deliver},
    op::{no_quorum::no_quorum, unguarded::Unguarded, unheard::Unheard},
    options::LockOptions,
    quorum::{OneVote, Round, Tally, ask},
    runtime::check_runtime,
    settings::Terms,
    telemetry,
    wait::{Front, Joined, Wants},
};

/// Takes the lock of a lease over, if a quorum of nodes still has it.
pub(crate) async fn adopt(client: &Arc<Client>, lease: Lease) -> Result<Arc<Hold>, LockError> {
    let resource = lease.resources.name().to_owned();
    let not_adopted = |error: &LockError| telemetry::not_adopted(&resource, error);
    check_runtime().inspect_err(not_adopted)?;
    let metered = metrics::acquiring(&*client.nodes.clock, "");
    let adopted = take_over(client, lease).await.map(|hold| Unguarded::new(client, hold));
    metered.done(match &adopted {
        Ok(_) => "adopted",
        Err(error) => metrics::outcome_of(error),
    });
    let adopted = adopted.inspect_err(not_adopted)?;
    telemetry::acquired(adopted.hold.resources.name());
    Ok(adopted.into_hold())
}

async fn take_over(client: &Arc<Client>, lease: Lease) -> Result<Arc<Hold>, LockError> {
    lease.resources.check()?;
    client.check_open(lease.resources.name())?;
    client.ready_or_closed(lease.resources.name()).await?;
    let mut adoption = Adoption::begin(client, lease)?;
    adoption.ask().await?;
    adoption.conclude()
}

/// The adoption of a lease.
struct Adoption<'c> {
    client: &'c Arc<Client>,
    lease: Lease,
    /// What is left of the terms of the old hold.
    terms: Terms,
    /// All that is left counts from here.
    start: Reading,
    /// How long the lease was valid then.
    left: Duration,
    round: Arc<Round>,
    missed: Arc<Missed>,
    /// Dropping it deletes the keys that were taken over. This comes before the turns are passed on.
    in_transit: Box<LeaseInTransit>,
    /// The turns in the queues of this client before the keys.
    fronts: Vec<Front>,
}

impl<'c> Adoption<'c> {
    fn begin(client: &'c Arc<Client>, lease: Lease) -> Result<Self, LockError> {
        let start = client.nodes.clock.read();
        let begun = start.now;
        let wall = client.nodes.clock.wall();
        let Some(left) = lease.valid_until.checked_sub(wall).filter(|left| !left.is_zero()) else {
            return Err(lost(&lease, LostReason::Expired));
        };
        let terms = terms(client, &lease, wall)?;
        let in_flight = client.enter(lease.resources.name())?;
        let value = client.fresh_value()?;
        let (key, rest) = client.keys(&lease.resources);
        let claim = Arc::new(Claim { rest, adopts: true, ..Claim::new(&key, value) });
        let round = Round::new(&client.nodes.names, Tally::is_conclusive);
        // The tasks of this client wait in its queue, unless another task asks the nodes already.
        let wants = Wants::new(&terms, claim.is_set());
        let joined = claim.keys().map(|key| client.queues.join(key, wants, begun));
        let fronts: Vec<_> = joined
            .filter_map(|joined| match joined {
                Joined::First(front) => Some(front),
                Joined::Refused(_) | Joined::Waiting(_) => None,
            })
            .collect();
        let sought = LeaseState::sought(claim, &terms, start, &round);
        let mut in_transit = client.queues.in_transit(sought, in_flight);
        in_transit.keep_until(begun + terms.min_hold);
        // An adoption never shortens the life of the keys (rule 7).
        let keys_left = lease.keys_until.saturating_sub(wall).min(client.settings.max_ttl);
        in_transit.lease.note_sent(begun, keys_left);
        let missed = Missed::new(&client.nodes, &in_transit.lease, &lease.value);
        Ok(Self { client, lease, terms, start, left, round, missed, in_transit, fronts })
    }

    /// Asks the nodes, until a quorum has decided. Asks again where no task has read the answers.
    async fn ask(&mut self) -> Result<(), LockError> {
        let Self { client, lease, terms, start, left, round, missed, in_transit, .. } = self;
        let (nodes, resource) = (&client.nodes, lease.resources.name());
        let action = Action::Adopt { ttl: terms.key_ttl(), from: lease.token() };
        let job = Job::new(&in_transit.lease.claim, action);
        let (mut attempts, mut unheard) = (1, Unheard::new(client));
        loop {
            let votes = Arc::new(Votes {
                round: OneVote::new(round, nodes),
                unconfirmed: lease.unconfirmed.clone(),
                missed: Arc::clone(missed),
            });
            deliver(ask(nodes, &votes, nodes.clock.now(), |_| Some(Arc::clone(&job))));
            let tally = round.settled(nodes).await;
            if tally.reached() {
                return Ok(());
            }
            if tally.impossible_by_refusals() {
                return Err(lost(lease, LostReason::Refused));
            }
            let rest = (start.now + *left).since(nodes.clock.now());
            let failures = round.failures();
            let asks_again = tokio::select! {
                biased;
                () = client.closed() => false,
                asks_again = unheard.asks_again(&failures, rest) => asks_again,
            };
            client.check_open(resource)?;
            if !asks_again {
                return Err(no_quorum(nodes, resource, attempts, start.now, tally.yes(), failures));
            }
            attempts += 1;
            *round = Round::new(&nodes.names, Tally::is_conclusive);
            in_transit.lease.asked_again(terms, nodes.clock.read(), round);
            *missed = Missed::new(nodes, &in_transit.lease, &lease.value);
        }
    }

    /// Makes a hold of the lease, which a quorum has given.
    fn conclude(self) -> Result<Arc<Hold>, LockError> {
        let Self { client, lease, terms, start, left, in_transit, missed, fronts, .. } = self;
        // After the end of the old validity another client may have had the lock in between (rule 7).
        let reading = client.nodes.clock.read();
        let in_time = reading.now + reading.missed_since(start) < start.now + left;
        if !(in_time && in_transit.lease.is_valid_on(reading)) {
            // The keys go before the turns, as in an adoption that is dropped.
            drop(in_transit);
            return Err(lost(&lease, LostReason::Expired));
        }
        client.nodes.note_quorum_seen();
        let (state, token) = (in_transit.lease.clone(), lease.fencing_token);
        // The terms are what was left right before the nodes were asked.
        let hold = client.leases.hold(lease.resources, state, &terms, start.now, start.now, token);
        if in_transit.pass_to(&hold, &client.leases, reading).is_err() {
            return Err(LockError::ShuttingDown { resource: hold.resources.name().to_owned() });
        }
        missed.adopted();
        for front in fronts {
            front.acquired(&hold, reading.now);
        }
        Ok(hold)
    }
}

fn lost(lease: &Lease, reason: LostReason) -> LockError {
    LockError::Lost { resource: lease.resources.name().to_owned(), reason }
}

/// The terms of the old hold, as far as they are left when the wall clock shows `wall`.
fn terms(client: &Client, lease: &Lease, wall: Duration) -> Result<Terms, LockError> {
    let rest = |until: Duration| until.saturating_sub(wall);
    let mut options = LockOptions::new()
        .ttl(lease.ttl)
        .wait(Duration::ZERO)
        .clock_drift_factor(lease.clock_drift_factor)
        .auto_extend(lease.auto_extend)
        // A clock that is behind must not make it longer than it can have been.
        .min_hold(lease.min_hold_until.map_or(Duration::ZERO, rest).min(client.settings.max_ttl));
    if let Some(latest) = lease.max_hold_until {
        options = options.max_hold(rest(latest));
    }
    client.settings.terms(&options)
}
