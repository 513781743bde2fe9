//! A caller's request for a lock: what it asks for, what it has spent, and what its caller is told.

use std::{sync::Arc, time::Duration};

use super::{
    barrier::Barriers,
    distrust::Distrust,
    retries::{Chance, Retries},
};
use crate::{
    client::Client,
    clock::Moment,
    error::{LockError, NodeError},
    op::watch::Watch,
    resources::Resources,
    settings::Terms,
    token,
    wait::{FailedAttempt, NoTurn, WakeBackoff, Wants},
};

/// The permits of a resource.
pub(super) struct Permits {
    /// The beginning of their keys: the name of their queue.
    pub(super) queue_name: Arc<str>,
    pub(super) count: u32,
    /// The numbers of permits that were found for tasks behind this one.
    pub(super) spare: Vec<u32>,
}

pub(super) struct Request<'a> {
    pub(super) client: &'a Arc<Client>,
    pub(super) resources: Resources,
    /// The first key, in the order of all clients; of a request for a permit, the key of the permit that it asks for.
    pub(super) key: Arc<str>,
    /// The other keys of a set.
    pub(super) rest: Box<[Arc<str>]>,
    pub(super) terms: &'a Terms,
    pub(super) called: Moment,
    /// When the nodes were connected, or connecting had failed.
    pub(super) begun: Moment,
    pub(super) attempts: u32,
    /// An attempt of its own was sent to the nodes, and has failed.
    pub(super) has_failed: bool,
    /// Its turn in the queue of its process did not come at once.
    pub(super) has_waited: bool,
    pub(super) retries: Retries<'a>,
    pub(super) wake_backoff: WakeBackoff,
    /// The watch on all nodes, until it has notified.
    pub(super) watch: Option<Box<Watch>>,
    /// The permits that the request is for, if it is for one.
    pub(super) permits: Option<Box<Permits>>,
    /// The barriers that this writer has raised before readers.
    pub(super) barriers: Option<Box<Barriers>>,
    /// Why the last attempt was made. None before the second.
    pub(super) last: Option<Chance>,
    pub(super) distrust: Distrust,
    /// Until then the request does not ask for a place in the queue between clients: no node gives one.
    pub(super) without_queue_until: Moment,
}

impl<'a> Request<'a> {
    pub(super) fn new(
        client: &'a Arc<Client>,
        resources: Resources,
        terms: &'a Terms,
        called: Moment,
        begun: Moment,
    ) -> Self {
        let (key, rest) = client.keys(&resources);
        Self {
            client,
            key,
            rest,
            resources,
            terms,
            called,
            begun,
            attempts: 0,
            has_failed: false,
            has_waited: false,
            retries: Retries::new(terms, begun),
            wake_backoff: WakeBackoff::default(),
            watch: None,
            permits: None,
            barriers: None,
            last: None,
            distrust: Distrust::default(),
            without_queue_until: begun,
        }
    }

    /// The name of what is to be locked, for errors.
    fn resource(&self) -> String {
        self.resources.name().to_owned()
    }

    /// What the request asks of the queues of its process.
    pub(super) fn wants(&self) -> Wants {
        Wants::new(self.terms, !self.rest.is_empty())
    }

    pub(super) fn now(&self) -> Moment {
        self.client.nodes.clock.now()
    }

    pub(super) async fn unless_closed<F: Future>(&self, future: F) -> Result<F::Output, LockError> {
        tokio::select! {
            biased;
            () = self.client.closed() => Err(self.shutting_down()),
            output = future => Ok(output),
        }
    }

    /// A random span of at most this much.
    pub(super) fn up_to(&self, most: Duration) -> Duration {
        token::up_to(&*self.client.entropy, most)
    }

    /// The time since the call, for errors.
    pub(super) fn waited(&self) -> Duration {
        self.client.nodes.clock.now().since(self.called)
    }

    /// How often the request asked, or would have asked instead of waiting in a queue. For errors.
    pub(super) fn attempts(&self) -> u32 {
        self.attempts.max(self.retries.spent().saturating_add(1))
    }

    pub(super) fn shutting_down(&self) -> LockError {
        LockError::ShuttingDown { resource: self.resource() }
    }

    /// The error for a request that had no turn.
    pub(super) fn no_turn(&self, no_turn: &NoTurn) -> LockError {
        match no_turn {
            NoTurn::Failed(failure) => self.failed(failure),
            NoTurn::HeldHere => self.held(true, Vec::new()),
            NoTurn::Busy => self.held(false, Vec::new()),
            NoTurn::Full { held_here, last } => {
                let mut error = self
                    .held(*held_here, last.as_ref().map(|it| it.nodes.clone()).unwrap_or_default());
                if let LockError::Held { max_waiters_reached, .. } = &mut error {
                    *max_waiters_reached = true;
                }
                error
            }
            NoTurn::Closed => self.shutting_down(),
        }
    }

    /// The error for a request that has no time left: its last failure, or that other clients go
    /// first.
    pub(super) fn out_of_time(&self, failure: Option<&FailedAttempt>) -> LockError {
        match failure {
            Some(failure) => self.failed(failure),
            None => self.held(false, Vec::new()),
        }
    }

    pub(super) fn failed(&self, failure: &FailedAttempt) -> LockError {
        let FailedAttempt { no_quorum, granted, nodes, .. } = failure;
        if !no_quorum {
            return self.held(false, nodes.clone());
        }
        LockError::NoQuorum {
            resource: self.resource(),
            attempts: self.attempts(),
            waited: self.waited(),
            granted: *granted,
            quorum: self.client.nodes.quorum(),
            nodes: nodes.clone(),
        }
    }

    pub(super) fn held(&self, by_this_client: bool, nodes: Vec<NodeError>) -> LockError {
        // A reader that was refused because of a writer of its own client.
        let is_held_here = || self.terms.shared && self.client.queues.is_held(&self.key);
        LockError::Held {
            resource: self.resource(),
            attempts: self.attempts(),
            waited: self.waited(),
            by_this_client: by_this_client || is_held_here(),
            retry_after: self.terms.retry_delay,
            nodes,
            max_waiters_reached: false,
        }
    }
}
