//! Taking one of the permits of a resource.
//!
//! A permit is a lock under a key of its own, with a number. The first attempt is for a random
//! number. A client that was refused asks the queue node of all permits, or the next one that
//! votes, for a number that is free there. So a client pays one question when all permits are taken, and not an attempt
//! at each.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};

use super::{
    Granted,
    fronts::Fronts,
    request::{Permits, Request},
};
use crate::{
    client::Client,
    error::LockError,
    lease::Hold,
    node::{Action, Claim, Job, Reply, queue_keys},
    quorum::answer_of,
    timer::timeout,
    wait::{FailedAttempt, Front, MIN_PAUSE, permit_node, queue_of_one_permit},
};

/// How often a request that does not wait asks for another number, when other clients were faster.
const MAX_TRIES: usize = 4;

/// The most permits that a request asks for at once, for itself and the tasks behind it.
const MAX_AT_ONCE: u16 = 32;

impl Request<'_> {
    /// Takes one of `count` permits.
    pub(super) async fn permit(mut self, count: u32) -> Result<Arc<Hold>, LockError> {
        if !self.rest.is_empty() {
            return Err(LockError::config(
                "permits are for one resource: a set of resources is locked by one holder",
            ));
        }
        let slot = queue_keys::permit(&self.key, 0);
        let queue_name: Arc<str> = queue_keys::queue_name(&slot).into();
        self.permits = Some(Box::new(Permits {
            queue_name: Arc::clone(&queue_name),
            count,
            spare: Vec::new(),
        }));
        self.take_number(self.random(count));
        let mut refused = None;
        let queues = Arc::clone(&self.client.queues);
        // The waiters of this process go first, and those of other clients too, where some waited a moment ago.
        // A request that does not wait looks whether they still do.
        let now = self.now();
        let others_first = queues.is_contended(&queue_name, now)
            && (!self.wants().tries_once || Box::pin(self.others_go_first(&queue_name)).await?);
        if !queues.is_wanted(&queue_name) && !others_first {
            let mut fronts =
                Fronts::one(self.alone(&queue_of_one_permit(&queue_name), self.begun)?);
            self.attempts = 1;
            // If another client has its turn, one permit is kept for it. Only the node knows whether others are free.
            let is_one_kept = queues.turn_of_others(&queue_name, self.now()).is_some();
            let may_ask = !is_one_kept || Box::pin(self.find_number(&mut fronts.first)).await?;
            let tries = if may_ask { MAX_TRIES } else { 0 };
            for _ in 0..tries {
                let failure = match self.attempt(&mut fronts).await? {
                    Ok(granted) => return self.admit(fronts, granted),
                    Err(failure) => refused.insert(Arc::new(failure)),
                };
                self.has_failed |= failure.was_asked;
                if failure.no_quorum || !self.find_number(&mut fronts.first).await? {
                    break;
                }
            }
        }
        let now = self.now();
        self.retries.failed(now);
        if self.retries.limit(now).is_zero() {
            // The front of the queue may have asked already: an outage is no holder.
            let known = || queues.last_failure(&queue_name).filter(|failure| failure.no_quorum);
            let failure = refused.or_else(known).unwrap_or_else(|| Arc::new(FailedAttempt::full()));
            return Err(self.out_of_time(Some(&failure)));
        }
        self.has_waited = false;
        let mut front: Front = self.turn(&queue_name, now).await?;
        // What the nodes said before is out of date then.
        let has_waited = self.has_waited;
        while front.has_lease() {
            // The task before this one has taken a permit for it.
            let wants = self.wants();
            if let Some(in_transit) = front.take_lease(wants)
                && let Ok(granted) = self.handed_over(&front, in_transit).await
            {
                return self.admit(Fronts::one(front), granted);
            }
            // The turn is dropped before the request waits again. Otherwise `waiting()` would count the request twice.
            drop(front);
            front = self.turn_again(&queue_name, now).await?;
        }
        // What was told before the wait does not hide an outage that began meanwhile.
        let last = self.client.queues.last_failure(front.key());
        let is_out_of_date = has_waited && last.is_some_and(|failure| failure.no_quorum);
        if let Some(refused) = refused.as_ref().filter(|_| !is_out_of_date) {
            front.failed(refused);
        }
        self.take(front, refused.filter(|_| !has_waited)).await
    }

    /// Looks for a permit that is free and asks for it. Where more are free, it asks for this client's share of them,
    /// and gives them to the tasks behind it.
    pub(super) async fn ask_for_permits(
        &mut self,
        fronts: &mut Fronts,
    ) -> Result<Result<Granted, FailedAttempt>, LockError> {
        // A client without a quorum must not hold up the other clients, as it would with a place in the queue that it
        // leaves at each turn.
        if let Some(failure) = self.in_vain() {
            return Ok(Err(failure));
        }
        if !self.find_number(&mut fronts.first).await? {
            // One node says that no permit is free. That does not show whether a quorum answers again, and an attempt
            // does. It may take a permit that is kept for another waiter, which then has one turn in vain.
            let last = self.client.queues.last_failure(fronts.first.key());
            if last.is_none_or(|failure| !(failure.no_quorum && failure.was_asked)) {
                return Ok(Err(FailedAttempt::full()));
            }
        }
        let Some(Permits { queue_name, spare, .. }) = self.permits.as_deref_mut() else {
            return self.attempt(fronts).await;
        };
        let (queue_name, spare) = (Arc::clone(queue_name), std::mem::take(spare));
        let keys = spare.into_iter().map(|number| key_of(&queue_name, number));
        let mut spares: FuturesUnordered<_> =
            keys.map(|key| self.ask_for_spare(key).boxed()).collect();
        let mut granted = Vec::new();
        let own = {
            let mut own = pin!(self.attempt(fronts));
            loop {
                tokio::select! {
                    biased;
                    own = &mut own => break own?,
                    Some(spare) = spares.next(), if !spares.is_empty() => granted.extend(spare),
                }
            }
        };
        if own.is_ok()
            && let Some(entry) = fronts.first.entry.take()
        {
            // The entry ends before anything is awaited. If this future is dropped at an await, the release of its
            // permit gives the turn to one client, and the drop of the entry would give it to another one as well.
            entry.acquired();
        }
        // Nodes that were asked together answer together.
        let soon = self.client.nodes.round_trip().max(MIN_PAUSE);
        let _ = timeout(soon, async {
            while let Some(spare) = spares.next().await {
                granted.extend(spare);
            }
        })
        .await;
        drop(spares);
        let own = own.or_else(|failure| granted.pop().ok_or(failure));
        for Granted { in_transit, .. } in granted {
            let turn = self.alone(&queue_of_one_permit(&queue_name), self.now())?.with(in_transit);
            self.client.queues.give_permit(&queue_name, self.wants(), turn);
        }
        Ok(own)
    }

    /// Chooses a permit that is free. False when there is none, as far as one node knows; true for a
    /// request that is for no permit.
    ///
    /// A node keeps permits for the waiters that it gave their turns. `front` is the place of this request
    /// among them, if it has one.
    pub(super) async fn find_number(&mut self, front: &mut Front) -> Result<bool, LockError> {
        let Some(Permits { queue_name, count, .. }) = self.permits.as_deref() else {
            return Ok(true);
        };
        let (queue_name, count) = (Arc::clone(queue_name), *count);
        let from = self.random(count);
        let nodes = Arc::clone(&self.client.nodes);
        let Some(node) = permit_node(&nodes, &queue_name, self.now()) else {
            self.take_number(from);
            return Ok(true);
        };
        let waiter = front.entry.as_ref().map(|entry| entry.waiter().to_owned());
        let claim = Arc::new(Claim::new(&self.key, waiter.unwrap_or_default()));
        let (most, asker) = (self.has_use_for(front), self.client.asker());
        // Its answer, and the command that sets the key, take one round trip. A release hardly comes before two.
        let keeps = nodes.round_trip_to(node).mul_f64(1.5);
        let job = Job::new(&claim, Action::FindPermits { count, from, most, asker, keeps });
        match self.unless_closed(answer_of(&nodes, node, job)).await? {
            Ok(Reply::Permits { free, .. }) if free.is_empty() => Ok(false),
            Ok(Reply::Permits { free, .. }) if free.iter().all(|number| *number < count) => {
                if let Some(entry) = &mut front.entry {
                    // If another one is free, too, the node has given the turn for it to the first waiter.
                    entry.listen_again();
                }
                let mut free = free.into_iter();
                self.take_number(free.next().unwrap_or(from));
                if let Some(permits) = &mut self.permits {
                    permits.spare = free.collect();
                }
                Ok(true)
            }
            // The other nodes can still give any of them.
            Ok(_) | Err(_) => {
                self.take_number(from);
                Ok(true)
            }
        }
    }

    /// How many permits the request has use for: one for itself, and one for each of the tasks behind it that takes it
    /// as it is.
    fn has_use_for(&self, front: &Front) -> u32 {
        let Client { nodes, queues, .. } = &**self.client;
        // What is left of a permit must suit the next task once this one has it.
        let is_far = nodes.round_trip() * 8 > self.terms.ttl;
        if self.client.asker() == 0 || is_far {
            return 1;
        }
        let behind = queues.served_with(front.key(), self.wants(), usize::from(MAX_AT_ONCE) - 1);
        u32::try_from(behind + 1).unwrap_or(1)
    }

    /// Lets the next attempt be for the permit with this number.
    fn take_number(&mut self, number: u32) {
        let Some(Permits { queue_name, .. }) = self.permits.as_deref() else { return };
        self.key = key_of(queue_name, number);
    }

    fn random(&self, count: u32) -> u32 {
        let random = self.up_to(Duration::from_secs(count.into())).as_secs();
        u32::try_from(random).unwrap_or(0).min(count - 1)
    }
}

/// The key of the permit with this number.
fn key_of(queue_name: &str, number: u32) -> Arc<str> {
    format!("{queue_name}:{number}").into()
}
