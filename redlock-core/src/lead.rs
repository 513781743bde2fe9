//! Leader election: of all clients that campaign for a role, one leads at a time. When its term
//! ends, the next one follows.

use std::{
    convert::Infallible,
    future::{Future, pending},
    ops::ControlFlow,
    sync::Arc,
    time::Duration,
};

use crate::{
    body::{self, BodyGuard, OnLost},
    client::Client,
    error::LockError,
    guard::{LockGuard, LockHandle},
    node::NodeHandle,
    options::{LockOptions, call_settings, request_setters},
    quorum::Twins,
    request::LockRequest,
    resources::Resources,
    runtime::in_runtime,
    telemetry,
    timer::sleep,
    token,
    wait::MIN_PAUSE,
};

/// How often a campaign checks whether enough nodes give votes. An operator reads the event, so a
/// delay of a second does no harm.
const QUORUM_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The longest pause after a term that was lost, be it before its body began. A candidate whose terms are lost at once
/// must not try without a pause.
const PAUSE_AFTER_LOSS: Duration = Duration::from_secs(1);

/// A campaign for a role: settings first, then [`run`](Self::run).
///
/// Of all clients that campaign for the same role, one leads at a time. It leads while it holds the fenced lock
/// of that name, which renews itself. When its term ends, because it resigns, shuts down or crashes,
/// another client leads.
///
/// The settings are those of a lock, with these differences:
///
/// - `wait` and `retry_count` have no effect: a campaign waits until it wins.
/// - `auto_extend(false)`, `permits` and `shared` are refused.
/// - `max_hold` limits a term. After that, the client campaigns again, behind the others.
/// - Until `min_hold` is over, no other client leads, even if the leader resigns or crashes.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::ops::ControlFlow;
/// use redlock_core::{LockHandle, Redlock};
///
/// let redlock = Redlock::in_memory(5);
/// let token = redlock
///     .lead("scheduler")
///     .run(|term: LockHandle| async move {
///         // Everything that the leader does. The store checks the token.
///         ControlFlow::Break(term.fencing_token())
///     })
///     .await?;
/// assert!(token.is_some());
/// # Ok::<(), redlock_core::LockError>(()) }).unwrap();
/// ```
#[derive(Debug, Clone)]
#[must_use = "a campaign does nothing until it is run"]
pub struct LeadRequest {
    client: Arc<Client>,
    role: String,
    options: LockOptions,
}

call_settings!(request_setters, LeadRequest);

impl LeadRequest {
    pub(crate) fn new(client: &Arc<Client>, role: String) -> Self {
        Self { client: Arc::clone(client), role, options: LockOptions::new() }
    }

    /// Changes nothing: every term is fenced.
    pub fn fenced(mut self) -> Self {
        self.options = self.options.fenced();
        self
    }

    /// Refused with [`Config`](LockError::Config) when the campaign runs, since only one client leads.
    pub fn shared(mut self) -> Self {
        self.options = self.options.shared();
        self
    }

    /// Campaigns, runs `body` while this client leads, and campaigns again when the term has ended.
    ///
    /// If the body returns [`Break`](ControlFlow::Break), this client resigns, and the campaign ends with that value.
    /// If it returns [`Continue`](ControlFlow::Continue), this client resigns and campaigns again. Another client that
    /// campaigns then leads first. If there is no other, this one leads again at once, so a body that has nothing to do
    /// sleeps before it returns.
    ///
    /// When a term is lost, its body is dropped at the next await, and this client campaigns again. By the clock of
    /// this client, the body is dropped before another client can lead. Tasks that the body has spawned continue. They
    /// can watch [`LockHandle::lost`]. Each term has a [fencing token](LockHandle::fencing_token) that is larger than
    /// the token of every earlier term, for stores that check it: [`fence`](crate::fence) says on which conditions.
    ///
    /// A campaign continues while nodes are down or cut off, however long there is no quorum. An event reports when too
    /// few nodes give votes, and another one when enough do again.
    ///
    /// For a body that never breaks, write `run::<Infallible, _, _>`.
    ///
    /// # Errors
    ///
    /// - [`ShuttingDown`](LockError::ShuttingDown) once the client is shut down. The term has ended, and the lock is
    ///   released.
    /// - [`InvalidResource`](LockError::InvalidResource) for a role that cannot be a key.
    /// - [`Config`](LockError::Config) for settings that cannot work, outside a tokio runtime, and inside a body that
    ///   holds the lock of the role already: that campaign could never win.
    ///
    /// # Panics
    ///
    /// If the body panics, the panic is passed on after the term has ended and the lock was released.
    ///
    /// # Cancellation safety
    ///
    /// If the future is dropped, the body is dropped first. Then the lock is released, and the client leaves the queue
    /// of the campaign.
    pub async fn run<T, F, Fut>(self, mut body: F) -> Result<T, LockError>
    where
        F: FnMut(LockHandle) -> Fut,
        Fut: Future<Output = ControlFlow<T>>,
    {
        let campaign = Campaign::new(self)?;
        let won = async {
            loop {
                let guard = match campaign.win().await {
                    Ok(guard) => guard,
                    Err(error) if ends(&error) => return Err(error),
                    Err(_) => {
                        campaign.pause(Duration::MAX).await;
                        continue;
                    }
                };
                match campaign.lead(guard, &mut body).await {
                    Ok(ControlFlow::Break(output)) => return Ok(output),
                    Ok(ControlFlow::Continue(())) => {}
                    Err(error) if ends(&error) => return Err(error),
                    Err(_) => campaign.pause(PAUSE_AFTER_LOSS).await,
                }
            }
        };
        tokio::select! {
            biased;
            outcome = won => outcome,
            never = campaign.watch_quorum() => match never {},
        }
    }
}

/// Whether a campaign ends with this error. Any other error passes with time.
fn ends(error: &LockError) -> bool {
    match error {
        LockError::Held { .. } | LockError::NoQuorum { .. } | LockError::Lost { .. } => false,
        LockError::InvalidResource { .. }
        | LockError::ShuttingDown { .. }
        | LockError::UnknownPool { .. }
        | LockError::Config { .. } => true,
    }
}

struct Campaign {
    client: Arc<Client>,
    role: String,
    options: LockOptions,
    /// The pause between two attempts to queue, and the most random time that is added to it.
    pause: (Duration, Duration),
}

impl Campaign {
    fn new(request: LeadRequest) -> Result<Self, LockError> {
        let LeadRequest { client, role, options } = request;
        let own = client.settings.terms(&options)?;
        if own.shared || own.permits.is_some() {
            return Err(LockError::config(
                "a role has one leader at a time: remove shared, or permits, from the campaign",
            ));
        }
        let options = options.fenced().wait(Duration::MAX).retry_count(u32::MAX);
        let terms = client.settings.terms(&options)?;
        if !terms.auto_extend {
            return Err(LockError::config(
                "a leader leads for as long as its lock is renewed: remove auto_extend(false), or limit \
                 the term with max_hold",
            ));
        }
        if body::waits_for_itself(&client, &Resources::One(role.clone()), &terms) {
            return Err(LockError::config(format!(
                "the lock of the role {role:?} is held by the body that campaigns for it, which could \
                 never win: campaign outside of that body, or under another name"
            )));
        }
        let pause = (terms.retry_delay, terms.retry_jitter);
        Ok(Self { client, role, options, pause })
    }

    /// Waits for the lock of the role.
    async fn win(&self) -> Result<LockGuard, LockError> {
        LockRequest::new(&self.client, Resources::One(self.role.clone()), self.options.clone())
            .await
    }

    /// Runs the body for as long as the lock lasts.
    async fn lead<T, Fut>(
        &self,
        guard: LockGuard,
        body: &mut impl FnMut(LockHandle) -> Fut,
    ) -> Result<ControlFlow<T>, LockError>
    where
        Fut: Future<Output = ControlFlow<T>>,
    {
        telemetry::leads(&self.role, guard.fencing_token());
        self.client.queues.expects_others(&guard.hold().claim().key);
        let outcome = body::run(BodyGuard::new(guard), OnLost::Cancel, body).await;
        if outcome.is_ok() {
            telemetry::resigned(&self.role);
        }
        outcome
    }

    /// Waits before the next attempt to queue, for `most` at most. A lock is refused at once where too many tasks
    /// wait for it already. The role is likely to be free after a term that was lost, and would be without a leader
    /// for the pause.
    async fn pause(&self, most: Duration) {
        let (fixed, random) = self.pause;
        let random = token::up_to(&*self.client.entropy, random);
        let pause = fixed.max(MIN_PAUSE).saturating_add(random).min(most);
        tokio::select! {
            biased;
            () = self.client.closed() => {}
            () = sleep(pause) => {}
        }
    }

    /// How many nodes give votes, as far as is known without asking.
    fn votes(&self) -> usize {
        let nodes = &self.client.nodes;
        let now = nodes.clock.now();
        let twins = Twins::of(nodes);
        let gives_vote = |(index, node): &(usize, &NodeHandle)| {
            node.is_up() && node.why_no_vote(now).is_none() && twins.votes(*index)
        };
        nodes.iter().enumerate().filter(gives_vote).count()
    }

    /// Tells when too few nodes give votes, and when enough do again.
    async fn watch_quorum(&self) -> Infallible {
        let nodes = &self.client.nodes;
        let mut is_missing = false;
        loop {
            sleep(QUORUM_CHECK_INTERVAL).await;
            if !in_runtime() {
                // No time passes here: the campaign ends at its next attempt.
                return pending().await;
            }
            let votes = self.votes();
            let was_missing = std::mem::replace(&mut is_missing, votes < nodes.quorum());
            match (was_missing, is_missing) {
                (false, true) => telemetry::quorum_missing(&self.role, votes, nodes.len()),
                (true, false) => telemetry::quorum_back(&self.role, votes, nodes.len()),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
