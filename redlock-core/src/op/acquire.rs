//! Taking a lock: one attempt, and one after the other for as long as the caller waits.

use std::{sync::Arc, time::Duration};

use tracing::Instrument;

use crate::{
    bug::{Bug, planted},
    client::Client,
    clock::{Moment, Reading},
    error::{LockError, NodeError},
    lease::{Hold, Lease, validity},
    node::{Action, Claim, Job},
    op::release,
    options::Terms,
    quorum::{Round, Tally, ask, cast_all, quorum},
    telemetry, token,
};

/// The longest resource in bytes (api.md): keys stay readable and cheap.
pub(crate) const LONGEST_RESOURCE: usize = 1024;

/// A pause is never shorter, or zero delay and zero jitter would spin on the nodes.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// Takes the lock, waiting for it as the terms allow.
pub(crate) async fn acquire(
    client: &Arc<Client>,
    resource: String,
    terms: &Terms,
) -> Result<Arc<Hold>, LockError> {
    let span = telemetry::acquiring(&resource);
    let acquired = wait_for(client, resource, terms).instrument(span).await;
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
    client.ready().await?;
    let clock = &*client.clock;
    let begun = clock.now();
    let mut attempts: u32 = 0;
    loop {
        // Their runtime may end while this one waits (rule 13).
        client.ensure_running();
        attempts = attempts.saturating_add(1);
        let failure = {
            let _arriving = client.arriving();
            // Only now: a shutdown that this does not see yet sees that somebody is arriving.
            client.check_open(&resource)?;
            match attempt(client, &resource, terms).await? {
                Ok(lease) => return admit(client, resource, lease, terms),
                Err(failure) => failure,
            }
        };
        let waited = clock.now().since(begun);
        let left = terms.wait.saturating_sub(waited);
        let retries_used_up = terms.retry_count.is_some_and(|count| attempts > count);
        if retries_used_up || left.is_zero() {
            return Err(failure.error(client, resource, attempts, waited, terms));
        }
        let jitter = token::up_to(&*client.entropy, terms.retry_jitter);
        // The last attempt starts when `wait` ends, not a whole delay before.
        let pause = terms.retry_delay.saturating_add(jitter).max(SHORTEST_PAUSE).min(left);
        tokio::select! {
            biased;
            () = client.closed() => return Err(LockError::ShuttingDown { resource }),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Makes a hold of what an attempt has won, unless the client was closed meanwhile.
fn admit(
    client: &Arc<Client>,
    resource: String,
    lease: Lease,
    terms: &Terms,
) -> Result<Arc<Hold>, LockError> {
    let hold = Arc::new(Hold::new(client, resource, lease.clone(), terms));
    if client.registry.add(&hold) {
        return Ok(hold);
    }
    // Nothing ran under it, so that not even a `min_hold` stays.
    release::clean_up(client, &lease.claim, &lease.taken, lease.since, lease.gone);
    Err(LockError::ShuttingDown { resource: hold.resource.clone() })
}

fn check(resource: &str) -> Result<(), LockError> {
    let problem = if resource.is_empty() {
        "it is empty: name what is to be locked".to_owned()
    } else if resource.len() > LONGEST_RESOURCE {
        format!("it has {} bytes: use at most {LONGEST_RESOURCE}", resource.len())
    } else {
        return Ok(());
    };
    let resource = resource.chars().take(64).collect();
    Err(LockError::InvalidResource { resource, problem })
}

/// Why an attempt did not get the lock.
struct Failure {
    /// Failures alone made a quorum impossible, or it came too late.
    no_quorum: bool,
    granted: usize,
    nodes: Vec<NodeError>,
}

impl Failure {
    fn error(
        self,
        client: &Client,
        resource: String,
        attempts: u32,
        waited: Duration,
        terms: &Terms,
    ) -> LockError {
        let Self { no_quorum, granted, nodes } = self;
        if no_quorum {
            let quorum = quorum(client.nodes.len());
            return LockError::NoQuorum { resource, attempts, waited, granted, quorum, nodes };
        }
        let by_this_client = client.registry.holds(&client.key(&resource));
        let retry_after = terms.retry_delay;
        LockError::Held { resource, attempts, waited, by_this_client, retry_after, nodes }
    }
}

/// An attempt under way. Dropped before it succeeded, for whatever reason, it cleans up on every
/// node to which a SET may have gone (rules 5 and 6).
struct Attempt<'a> {
    client: &'a Arc<Client>,
    claim: Arc<Claim>,
    round: Arc<Round>,
    since: Moment,
    gone: Moment,
    succeeded: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.succeeded && !planted(Bug::NoReleaseAfterFailure) {
            self.client.ensure_running();
            release::clean_up(self.client, &self.claim, &self.round, self.since, self.gone);
        }
    }
}

/// Asks all nodes once.
async fn attempt(
    client: &Arc<Client>,
    resource: &str,
    terms: &Terms,
) -> Result<Result<Lease, Failure>, LockError> {
    let value = token::fresh_value(&*client.entropy, &client.settings.client_name)?;
    let claim = Arc::new(Claim { key: client.key(resource), value });
    // From the first SET on, a key outlives what is left of `min_hold` (api.md).
    let ttl = terms.ttl.max(terms.min_hold);
    let round = Round::new(client.nodes.len(), |tally| tally.reached() || tally.impossible());
    // The clock starts before the first byte is sent (rule 2).
    let started: Reading = client.clock.read();
    let mut attempt = Attempt {
        client,
        claim: Arc::clone(&claim),
        round: Arc::clone(&round),
        since: started.now,
        gone: started.now + ttl,
        succeeded: false,
    };
    let job = Job::new(&claim, Action::Grant { ttl });
    cast_all(ask(&client.nodes, &round, |_| Some(job.clone())));
    let tally: Tally = round.settled(client.patience()).await;
    let started = if planted(Bug::ClockStartedLate) { client.clock.read() } else { started };
    let deadline = validity::deadline(started.now, terms.ttl, terms.clock_drift_factor);
    // A grant counts only if validity remains (rule 4).
    let in_time = client.clock.now() < deadline || planted(Bug::ValidityNotCompared);
    if tally.reached() && in_time {
        attempt.succeeded = true;
        client.put_in_service();
        return Ok(Ok(Lease {
            claim,
            since: started.now,
            deadline,
            dated: started.wall_ahead,
            confirmed: started,
            gone: attempt.gone,
            taken: Arc::clone(&round),
            votes: Arc::clone(&round),
        }));
    }
    let no_quorum = tally.reached() || tally.impossible_by_failures();
    let nodes = if tally.reached() { Vec::new() } else { round.failures() };
    Ok(Err(Failure { no_quorum, granted: tally.yes(), nodes }))
}
