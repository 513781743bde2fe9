//! Waiting for a chance to get the lock: a turn in the queue between clients, and a watch on all nodes
//! beside it.

use std::{sync::Arc, time::Duration};

use futures_util::future::pending;

use super::{request::Request, retries::Chance};
use crate::{
    client::Client,
    clock::Moment,
    error::LockError,
    metrics,
    op::watch::{Watch, watch},
    telemetry,
    timer::sleep,
    token,
    wait::{
        Entry, FailedAttempt, Front, MIN_PAUSE, QueuePosition, REFRESH, Signal, grace,
        watches_after,
    },
};

/// The events that end the sleep of a waiting client.
enum Event {
    Told(Signal),
    Notified,
    Hurried,
    Time,
}

impl Request<'_> {
    /// Waits for a chance to get the lock, until `end` at the latest.
    ///
    /// The client stands in the queue, where a node keeps one, and waits for its turn. The front of
    /// that queue, and a client without a queue, also watch the lock on all nodes: a holder that
    /// crashed, or that does not know the queue, gives no turns.
    ///
    /// `last` is why the last attempt was made, unless something has happened since.
    pub(super) async fn chance(
        &mut self,
        front: &mut Front,
        failure: Option<&FailedAttempt>,
        last: Option<Chance>,
        end: Moment,
    ) -> Result<Chance, LockError> {
        let client = Arc::clone(self.client);
        let clock = &client.nodes.clock;
        let round_trip = client.nodes.round_trip();
        let begun = clock.now();
        let has_quorum = failure.is_none_or(|failure| !failure.no_quorum);
        if !has_quorum || self.wants().tries_once {
            // A client without a quorum must not hold up the other clients.
            front.entry = None;
        } else if front.entry.is_none() && end.since(begun) >= round_trip * 2 {
            front.entry = Some(Box::new(self.entry(front.key())?));
        }
        let pace = self.terms.retry_delay.max(MIN_PAUSE);
        let polls = pace.saturating_add(self.up_to(self.terms.retry_jitter));
        // A node that granted the lock while others refused it says nothing of the holder: only a
        // quorum of nodes can tell when the lock is free. A watch is also needed after a chance
        // that came to nothing.
        let is_split = failure.is_some_and(|failure| failure.granted > 0);
        let misled = is_split || matches!(last, Some(Chance::Turn | Chance::Free));
        // A client that was refused by all nodes waits for the holder to give it the turn. A watch
        // would notify between the release and the `SET`s of the next client, and the two clients
        // would split the votes.
        let mut watch_at = match front.entry {
            Some(_) if !is_split => begun + watches_after(round_trip),
            _ => begun,
        };
        let mut position: Option<QueuePosition> = None;
        let mut looks_free = 0_u32;
        let mut watched = begun;
        let mut say_at = begun;
        loop {
            let now = clock.now();
            if front.entry.is_some() && now >= say_at {
                let joins = position.is_none();
                position = self.say(front).await?;
                if let Some(QueuePosition { ahead, .. }) = position.filter(|_| joins) {
                    metrics::queue_ahead(self.terms.label, ahead);
                }
                // A push that came before the answer says more: a free lock may be on its way to the
                // waiter before this one.
                match front.entry.as_mut().and_then(|entry| entry.take_signal()) {
                    Some(Signal::Turn) => return Ok(Chance::Turn),
                    Some(Signal::Next) => {
                        say_at = clock.now() + grace(round_trip);
                        watch_at = say_at;
                        position = position.map(|position| QueuePosition { ahead: 0, ..position });
                        continue;
                    }
                    Some(Signal::Moved) => continue,
                    None => {}
                }
                match position {
                    None => {
                        front.entry = None;
                        watch_at = now;
                    }
                    Some(QueuePosition { ahead: 0, left: None })
                        if !(front.yields() || misled && say_at == begun) =>
                    {
                        return Ok(Chance::Free);
                    }
                    Some(QueuePosition { ahead, left: None }) if ahead > 0 => {
                        looks_free += 1;
                        if looks_free > 1 {
                            // The front does not take the lock: the other waiters try one after the
                            // other.
                            let turn = u32::try_from(ahead).unwrap_or(u32::MAX);
                            let pause = grace(round_trip).saturating_mul(turn).min(REFRESH);
                            let pause = pause.min(end.since(clock.now()));
                            self.unless_closed(sleep(pause)).await?;
                            return Ok(Chance::Due);
                        }
                    }
                    Some(_) => looks_free = 0,
                }
                let pause = self.refresh(front, position, polls);
                say_at = clock.now() + pause;
            }
            let is_front = position.is_none_or(|it| it.ahead == 0);
            let now = clock.now();
            if is_front && self.watch.is_none() && now >= watch_at {
                self.watch = Some(watch(&client.nodes, front.key()));
                watched = now;
            }
            let armed = self.watch.as_ref().is_some_and(Watch::is_armed);
            if now >= end {
                return Ok(if is_front { Chance::Due } else { Chance::Behind });
            }
            // Where no node pushes, the first client asks from time to time.
            let poll_at = match &self.watch {
                Some(_) if is_front && !armed => watched + polls.max(round_trip * 2),
                _ => Moment::NEVER,
            };
            if now >= poll_at {
                return Ok(Chance::Due);
            }
            let mut wake = end.min(poll_at);
            if is_front && self.watch.is_none() {
                wake = wake.min(watch_at);
            }
            if front.entry.is_some() {
                wake = wake.min(say_at);
            } else {
                wake = wake.min(now + REFRESH);
            }
            let quiet = if armed || front.entry.is_some() { Duration::ZERO } else { pace };
            let hurried = front.hurried(quiet, Duration::ZERO);
            let signal = async {
                match &mut front.entry {
                    Some(entry) => entry.signal().await,
                    None => pending().await,
                }
            };
            let notified = async {
                match &self.watch {
                    Some(watch) => watch.notified().await,
                    None => pending().await,
                }
            };
            let event = self
                .unless_closed(async {
                    tokio::select! {
                        biased;
                        signal = signal => Event::Told(signal),
                        () = notified => Event::Notified,
                        () = hurried => Event::Hurried,
                        () = sleep(wake.since(now)) => Event::Time,
                    }
                })
                .await;
            match event? {
                Event::Told(Signal::Turn) => return Ok(Chance::Turn),
                Event::Told(Signal::Next) => {
                    if let Some(position) = &mut position {
                        position.ahead = 0;
                    }
                    let now = clock.now();
                    say_at = now + grace(round_trip);
                    watch_at = say_at;
                }
                Event::Told(Signal::Moved) => {
                    // The tasks of the nodes may have ended with their runtime (rule 13).
                    client.ensure_running();
                    looks_free = 0;
                    say_at = clock.now();
                }
                Event::Notified => return Ok(Chance::Notified),
                Event::Hurried => return Ok(Chance::Hurried),
                Event::Time => client.ensure_moving(),
            }
        }
    }

    /// An entry for the queue between clients, which no node has yet.
    fn entry(&self, key: &Arc<str>) -> Result<Entry, LockError> {
        let Client { entropy, settings, nodes, .. } = &**self.client;
        let value = token::fresh_value(&**entropy, &settings.client_name)?;
        Ok(Entry::new(nodes, key, value))
    }

    /// Joins the queue between clients, or reports that this client is alive.
    async fn say(&self, front: &mut Front) -> Result<Option<QueuePosition>, LockError> {
        let Some(entry) = &mut front.entry else { return Ok(None) };
        let said = self.unless_closed(entry.say()).await?;
        if said.is_none() {
            telemetry::no_queue(self.resources.name());
        }
        Ok(said)
    }

    /// When the queue is to be asked next.
    fn refresh(&self, front: &Front, position: Option<QueuePosition>, polls: Duration) -> Duration {
        let Some(QueuePosition { ahead, left }) = position else { return REFRESH };
        let is_told = front.entry.as_ref().is_some_and(|entry| entry.is_told());
        let refresh = if is_told {
            REFRESH
        } else {
            // Without pushes, the waiters in front look more often.
            let places = u32::try_from(ahead.saturating_add(1)).unwrap_or(u32::MAX);
            polls.saturating_mul(places).min(REFRESH)
        };
        match left {
            // The key has expired by then, if its holder crashed.
            Some(left) if ahead == 0 => refresh.min(left.saturating_add(MIN_PAUSE)),
            // Another client has its turn, or had it.
            None if ahead == 0 && self.watch.is_none() => {
                refresh.min(grace(self.client.nodes.round_trip()))
            }
            _ => refresh,
        }
    }
}
