//! Taking a lock: a turn in the line of this process, then one attempt after the other for as long
//! as the caller waits.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use tracing::Instrument;

use crate::{
    bug::{Bug, planted},
    client::Client,
    clock::Moment,
    error::{LockError, NodeError},
    lease::{Hold, Lease},
    node::{Action, Claim, Job},
    op::{release, watch::watch},
    options::Terms,
    quorum::{Round, Tally, ask, cast_all, quorum},
    telemetry, token,
    wait::{Alarms, Head, Joined, Lines, Refusal, SHORTEST_PAUSE, Turn, Wake, Wants},
};

/// The longest resource in bytes (api.md): keys stay readable and cheap.
pub(crate) const LONGEST_RESOURCE: usize = 1024;

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
    let begun = client.clock.now();
    let mut request = Request {
        client,
        key: client.key(&resource),
        resource,
        terms,
        begun,
        counted: begun,
        attempts: 0,
        retries: 0,
        alarms: Alarms::default(),
    };
    let head = request.turn().await?;
    request.ask(head).await
}

/// Somebody who wants a lock.
struct Request<'a> {
    client: &'a Arc<Client>,
    resource: String,
    key: Arc<str>,
    terms: &'a Terms,
    begun: Moment,
    attempts: u32,
    /// The attempts that were made because it was time, and every `retry_delay` in line.
    retries: u32,
    /// When the last of them was.
    counted: Moment,
    alarms: Alarms,
}

impl Request<'_> {
    /// Waits in line.
    async fn turn(&mut self) -> Result<Head, LockError> {
        let wants = Wants::new(self.terms);
        let place = match Lines::join(self.client, &self.key, wants) {
            Joined::Head(head) => return Ok(head),
            Joined::Waiting(place) => place,
            Joined::Refused(refusal) => {
                self.attempts = 1;
                return Err(self.refused(&refusal));
            }
            Joined::Closed => return Err(self.shutting_down()),
        };
        let pace = self.terms.retry_delay.max(SHORTEST_PAUSE);
        let limit = if wants.once {
            // The attempt under way is his, too.
            self.client.patience()
        } else {
            let retries = self.terms.retry_count.map(|count| pace.saturating_mul(count));
            retries.map_or(self.terms.wait, |retries| retries.min(self.terms.wait))
        };
        let turn = place.turn(limit).await;
        let in_line = self.waited().as_nanos() / pace.as_nanos();
        self.counted = self.client.clock.now();
        self.retries = u32::try_from(in_line).unwrap_or(u32::MAX);
        // What polling would have come to.
        self.attempts = self.retries.saturating_add(1);
        match turn {
            Turn::Head(head) => Ok(head),
            Turn::Refused(refusal) => Err(self.refused(&refusal)),
            Turn::Closed => Err(self.shutting_down()),
        }
    }

    /// Takes over what the head was given, or asks the nodes until they give the lock.
    async fn ask(mut self, mut head: Head) -> Result<Arc<Hold>, LockError> {
        let wants = Wants::new(self.terms);
        if let Some((lease, _arriving)) = head.take_lease(wants) {
            let now = self.client.clock.now();
            return self.admit(head, lease, now);
        }
        if let Some(pause) = head.pause().filter(|_| !wants.once) {
            let left = self.left();
            self.unless_closed(sleep(pause.min(left))).await?;
            if pause <= left {
                head.stood_back();
            }
        }
        let mut known = head.known();
        loop {
            let failure = match known.take() {
                Some(failure) => failure,
                None => {
                    // Their runtime may end while this one waits (rule 13).
                    self.client.ensure_running();
                    self.attempts = self.attempts.saturating_add(1);
                    let _arriving = self.client.arriving();
                    // Only now: a shutdown that this does not see yet sees that somebody is
                    // arriving.
                    self.client.check_open(&self.resource)?;
                    match attempt(self.client, &self.key, self.terms).await? {
                        Ok(lease) => {
                            let begun = lease.since;
                            return self.admit(head, lease, begun);
                        }
                        Err(failure) => Arc::new(failure),
                    }
                }
            };
            head.failed(&failure);
            self.pause(&head, &failure).await?;
        }
    }

    /// Waits until it is worth asking once more, if there is time for that.
    async fn pause(&mut self, head: &Head, failure: &Failure) -> Result<(), LockError> {
        let terms = self.terms;
        let left = self.left();
        let retries_used_up = terms.retry_count.is_some_and(|count| self.retries >= count);
        if retries_used_up || left.is_zero() {
            return Err(self.failed(failure));
        }
        let jitter = self.up_to(terms.retry_jitter);
        // The last attempt starts when `wait` ends, not a whole delay before.
        let pace = terms.retry_delay.max(SHORTEST_PAUSE).min(left);
        let jitter = jitter.min(left - pace);
        let listening = self.client.clock.now();
        let (wake, news) = {
            let bell = watch(self.client, &self.key);
            let wake = self.unless_closed(head.listen(bell.rung(), pace, jitter)).await?;
            (wake, bell.has_news())
        };
        let now = self.client.clock.now();
        // An attempt that others had made, or for nothing new, is nobody's retry, and puts none off.
        let counts = wake != Wake::Rung || !news;
        if wake == Wake::Due || counts && now.since(self.counted) >= terms.retry_delay {
            self.retries = self.retries.saturating_add(1);
            self.counted = now;
        }
        if wake != Wake::Rung {
            return Ok(());
        }
        let listened = now.since(listening);
        let doubtful = !news || failure.is_in_vain() || listened < SHORTEST_PAUSE;
        let (hesitation, random) = self.alarms.hesitation(doubtful, head.without());
        let delay = hesitation.saturating_add(self.up_to(random)).min(self.left());
        if !delay.is_zero() {
            self.unless_closed(sleep(delay)).await?;
        }
        Ok(())
    }

    /// Makes a hold of a lease, unless the client was closed meanwhile.
    fn admit(self, head: Head, lease: Lease, begun: Moment) -> Result<Arc<Hold>, LockError> {
        let Self { client, resource, terms, .. } = self;
        let hold = Arc::new(Hold::new(client, resource, lease.clone(), terms, begun));
        if client.registry.add(&hold) {
            head.acquired(&hold);
            return Ok(hold);
        }
        // Nothing ran under it, so that not even a `min_hold` stays.
        release::give_back(client, &lease);
        Err(LockError::ShuttingDown { resource: hold.resource.clone() })
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

    fn waited(&self) -> Duration {
        self.client.clock.now().since(self.begun)
    }

    /// What is left of `wait`.
    fn left(&self) -> Duration {
        self.terms.wait.saturating_sub(self.waited())
    }

    fn shutting_down(&self) -> LockError {
        LockError::ShuttingDown { resource: self.resource.clone() }
    }

    /// What somebody is told who had no turn.
    fn refused(&self, refusal: &Refusal) -> LockError {
        match refusal {
            Refusal::Failed(failure) => self.failed(failure),
            Refusal::HeldHere => self.held(true, Vec::new()),
            Refusal::Busy => self.held(false, Vec::new()),
        }
    }

    fn failed(&self, failure: &Failure) -> LockError {
        let Failure { no_quorum, granted, nodes } = failure;
        if !no_quorum {
            return self.held(false, nodes.clone());
        }
        LockError::NoQuorum {
            resource: self.resource.clone(),
            attempts: self.attempts,
            waited: self.waited(),
            granted: *granted,
            quorum: quorum(self.client.nodes.len()),
            nodes: nodes.clone(),
        }
    }

    fn held(&self, by_this_client: bool, nodes: Vec<NodeError>) -> LockError {
        LockError::Held {
            resource: self.resource.clone(),
            attempts: self.attempts,
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
    } else if resource.len() > LONGEST_RESOURCE {
        format!("it has {} bytes: use at most {LONGEST_RESOURCE}", resource.len())
    } else {
        return Ok(());
    };
    let resource = resource.chars().take(64).collect();
    Err(LockError::InvalidResource { resource, problem })
}

/// Why an attempt did not get the lock.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Failures alone made a quorum impossible, or it came too late.
    no_quorum: bool,
    granted: usize,
    nodes: Vec<NodeError>,
}

impl Failure {
    /// Whether nobody need have had the lock: the votes were split, or nodes were missing.
    fn is_in_vain(&self) -> bool {
        self.no_quorum || self.granted > 0
    }
}

/// An attempt under way. Dropped before it succeeded, for whatever reason, it gives back what the
/// nodes to which its SET may have gone have given it, or will (rules 5 and 6).
struct Attempt<'a> {
    client: &'a Client,
    sought: Option<Lease>,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some(lease) = &self.sought
            && !planted(Bug::NoReleaseAfterFailure)
        {
            release::give_back(self.client, lease);
        }
    }
}

/// Asks all nodes once.
async fn attempt(
    client: &Client,
    key: &Arc<str>,
    terms: &Terms,
) -> Result<Result<Lease, Failure>, LockError> {
    let value = token::fresh_value(&*client.entropy, &client.settings.client_name)?;
    let claim = Arc::new(Claim { key: Arc::clone(key), value });
    let round = Round::new(client.nodes.len(), |tally| tally.reached() || tally.impossible());
    let sought = |started| Lease::sought(Arc::clone(&claim), terms, started, &round);
    let mut attempt = Attempt { client, sought: Some(sought(client.clock.read())) };
    let job = Job::new(&claim, Action::Grant { ttl: terms.key_ttl() });
    cast_all(ask(&client.nodes, &round, |_| Some(job.clone())));
    let tally: Tally = round.settled(client.patience()).await;
    if planted(Bug::ClockStartedLate) {
        attempt.sought = Some(sought(client.clock.read()));
    }
    if tally.reached() {
        // A grant counts only if validity remains (rule 4).
        let in_time = |lease: &mut Lease| {
            lease.is_valid_on(client.clock.read()) || planted(Bug::ValidityNotCompared)
        };
        if let Some(lease) = attempt.sought.take_if(in_time) {
            client.put_in_service();
            return Ok(Ok(lease));
        }
        return Ok(Err(Failure { no_quorum: true, granted: tally.yes(), nodes: Vec::new() }));
    }
    Ok(Err(Failure {
        no_quorum: tally.impossible_by_failures(),
        granted: tally.yes(),
        nodes: round.failures(),
    }))
}
