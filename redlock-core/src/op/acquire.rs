//! Taking a lock: a turn in the line of this process, then one attempt after the other for as long
//! as the caller waits.

use std::{sync::Arc, time::Duration};

use tracing::Instrument;

use crate::{
    bug::{Bug, planted},
    client::{Client, check_runtime},
    clock::Moment,
    error::{LockError, NodeError},
    guard::LockGuard,
    lease::{Hold, Lease, Unheld},
    node::{Action, Claim, Job},
    op::watch::watch,
    options::Terms,
    quorum::{Round, ask, cast_all, quorum},
    telemetry,
    timer::sleep,
    token,
    wait::{Alarms, Head, Joined, Lines, NoTurn, SHORTEST_PAUSE, Wake, Wants},
};

/// The longest resource in bytes (api.md): keys stay readable and cheap.
pub(crate) const LONGEST_RESOURCE: usize = 1024;

/// Takes the lock, waiting for it as the terms allow.
pub(crate) async fn acquire(
    client: &Arc<Client>,
    resource: String,
    terms: &Terms,
) -> Result<LockGuard, LockError> {
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
) -> Result<LockGuard, LockError> {
    check(&resource)?;
    client.check_open(&resource)?;
    let called = client.clock.now();
    tokio::select! {
        biased;
        ready = client.ready() => ready?,
        () = client.closed() => client.check_open(&resource)?,
    }
    let begun = client.clock.now();
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
    called: Moment,
    /// When the nodes were connected, or could not be: `wait` begins then.
    begun: Moment,
    attempts: u32,
    /// What `retry_count` limits: attempts that were made because it was time, those that came
    /// `retry_delay` or more after the last that counted without anybody having let go, and every
    /// `retry_delay` in line.
    retries: u32,
    /// When the last of them was.
    counted: Moment,
    alarms: Alarms,
}

impl Request<'_> {
    /// Waits in line.
    async fn turn(&mut self) -> Result<Head, LockError> {
        let wants = Wants::new(self.terms);
        let turn = match Lines::join(self.client, &self.key, wants) {
            Joined::Now(Ok(head)) => return Ok(head),
            Joined::Now(Err(no_turn)) => {
                self.attempts = 1;
                Err(no_turn)
            }
            Joined::Waiting(place) => {
                let pace = self.terms.retry_delay.max(SHORTEST_PAUSE);
                let limit = if wants.tries_once {
                    // The attempt under way is his, too.
                    self.client.patience()
                } else {
                    let retries = self.terms.retry_count.map(|count| pace.saturating_mul(count));
                    retries.map_or(self.terms.wait, |retries| retries.min(self.terms.wait))
                };
                let turn = place.turn(limit).await;
                self.counted = self.client.clock.now();
                let in_line = self.counted.since(self.begun).as_nanos() / pace.as_nanos();
                self.retries = u32::try_from(in_line).unwrap_or(u32::MAX);
                // What polling would have come to.
                self.attempts = self.retries.saturating_add(1);
                turn
            }
        };
        turn.map_err(|no_turn| self.no_turn(&no_turn))
    }

    /// Takes over what the head was given, or asks the nodes until they give the lock.
    async fn ask(mut self, mut head: Head) -> Result<LockGuard, LockError> {
        let wants = Wants::new(self.terms);
        if let Some(unheld) = head.take_lease(wants) {
            let now = self.client.clock.now();
            return self.admit(head, unheld, now);
        }
        if !wants.tries_once {
            let left = self.left();
            self.unless_closed(head.stand_back(left)).await?;
        }
        if let Some(known) = head.known(wants) {
            self.pause(&head, &known).await?;
        }
        loop {
            // Nothing can be waited for any more once this one's runtime was shut down.
            check_runtime()?;
            // Their runtime may end while this one waits (rule 13).
            self.client.ensure_running();
            self.attempts = self.attempts.saturating_add(1);
            match self.attempt().await? {
                Ok(unheld) => {
                    let begun = unheld.lease.since;
                    return self.admit(head, unheld, begun);
                }
                Err(failure) => {
                    let failure = Arc::new(failure);
                    head.failed(&failure);
                    self.pause(&head, &failure).await?;
                }
            }
        }
    }

    /// Waits until it is worth asking once more, if there is time for that.
    async fn pause(&mut self, head: &Head, failure: &Failure) -> Result<(), LockError> {
        let left = self.left();
        let used_up = self.terms.retry_count.is_some_and(|count| self.retries >= count);
        if used_up || left.is_zero() {
            return Err(self.failed(failure));
        }
        let listening = self.client.clock.now();
        let (wake, news) = self.listen(head, left).await?;
        let now = self.client.clock.now();
        // An attempt that others had made, or for nothing new, is no retry before `retry_delay`, and
        // puts none off.
        let counts = wake != Wake::Rung || !news;
        if wake == Wake::Due || counts && now.since(self.counted) >= self.terms.retry_delay {
            self.retries = self.retries.saturating_add(1);
            self.counted = now;
        }
        if wake == Wake::Rung {
            let at_once = now.since(listening) < SHORTEST_PAUSE;
            self.hesitate(head, !news || failure.is_in_vain() || at_once).await?;
        }
        Ok(())
    }

    /// Listens for a bell; whether it had news.
    async fn listen(&self, head: &Head, left: Duration) -> Result<(Wake, bool), LockError> {
        // The last attempt starts when `wait` ends, not a whole delay before.
        let pace = self.terms.retry_delay.max(SHORTEST_PAUSE).min(left);
        let jitter = self.up_to(self.terms.retry_jitter).min(left - pace);
        let bell = watch(self.client, &self.key);
        let wake = self.unless_closed(head.listen(bell.rung(), pace, jitter)).await?;
        Ok((wake, bell.has_news()))
    }

    /// Lets others go first who have waited for longer.
    async fn hesitate(&mut self, head: &Head, doubtful: bool) -> Result<(), LockError> {
        let (hesitation, random) = self.alarms.hesitation(doubtful, head.without());
        let delay = hesitation.saturating_add(self.up_to(random)).min(self.left());
        if !delay.is_zero() {
            self.unless_closed(sleep(delay)).await?;
        }
        Ok(())
    }

    /// Asks all nodes once.
    async fn attempt(&self) -> Result<Result<Unheld, Failure>, LockError> {
        let Self { client, terms, .. } = self;
        let arriving = client.arriving();
        // Only now: a shutdown that this does not see yet sees that somebody is arriving.
        client.check_open(&self.resource)?;
        let value = token::fresh_value(&*client.entropy, &client.settings.client_name)?;
        let claim = Arc::new(Claim { key: Arc::clone(&self.key), value });
        let round = Round::new(client.nodes.len(), |tally| tally.reached() || tally.impossible());
        let sought = |start| Lease::sought(Arc::clone(&claim), terms, start, &round);
        let mut unheld = Unheld::new(sought(client.registry.start(&*client.clock)), arriving);
        let job = Job::new(&claim, Action::Grant { ttl: terms.key_ttl() });
        cast_all(ask(&client.nodes, &round, |_| Some(job.clone())));
        let mut tally = round.settled(&client.nodes, client.patience()).await;
        if planted(Bug::ClockStartedLate) {
            unheld.lease = sought(client.registry.start(&*client.clock));
        }
        if tally.reached() {
            // A grant counts only if validity remains (rule 4).
            if unheld.lease.is_valid_on(client.clock.read()) || planted(Bug::ValidityNotCompared) {
                client.put_in_service();
                return Ok(Ok(unheld));
            }
            return Ok(Err(Failure { no_quorum: true, granted: tally.yes(), nodes: Vec::new() }));
        }
        if !tally.impossible_by_failures() && round.has_timeouts() {
            // What was asked together runs out together, and whether anybody need have the lock
            // hangs on how many that are, not on who comes first.
            sleep(SHORTEST_PAUSE).await;
            tally = round.tally();
        }
        Ok(Err(Failure {
            no_quorum: tally.impossible_by_failures(),
            granted: tally.yes(),
            nodes: round.failures(),
        }))
    }

    /// Makes a hold of a lease, unless the client was closed meanwhile.
    fn admit(self, head: Head, unheld: Unheld, begun: Moment) -> Result<LockGuard, LockError> {
        let Self { client, resource, terms, .. } = self;
        let hold = Arc::new(Hold::new(client, resource, unheld.lease.clone(), terms, begun));
        if !client.registry.add(&hold) {
            // Nothing ran under it, so that not even a `min_hold` stays.
            return Err(LockError::ShuttingDown { resource: hold.resource.clone() });
        }
        unheld.taken();
        head.acquired(&hold);
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

    /// For errors: since the call.
    fn waited(&self) -> Duration {
        self.client.clock.now().since(self.called)
    }

    fn shutting_down(&self) -> LockError {
        LockError::ShuttingDown { resource: self.resource.clone() }
    }

    /// What somebody is told who had no turn.
    fn no_turn(&self, no_turn: &NoTurn) -> LockError {
        match no_turn {
            NoTurn::Failed(failure) => self.failed(failure),
            NoTurn::HeldHere => self.held(true, Vec::new()),
            NoTurn::Busy => self.held(false, Vec::new()),
            NoTurn::Closed => self.shutting_down(),
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
