//! Waiting for all locks of a set.
//!
//! A set waits in the queue before each of its keys, in the order of the keys, which is the same in
//! all clients. It waits in a queue once it is the first in the queue of the key before, and keeps its
//! places. When the set is the first in all queues, it asks for all locks at once. So sets that
//! overlap never wait for each other in a circle. A place before a free lock is kept for a moment only: the other
//! clients go past a set that waits for another lock for longer.
//!
//! Most of the other locks are often free. One after the other, each would take a round trip, so the set joins several
//! queues at once, and leaves those in which it is not to wait yet.

use std::{convert::Infallible, ops::Range, time::Duration};

use futures_util::future::{join, join_all, pending};

use super::{fronts::Fronts, request::Request, retries::Chance, wait_terms::Pause};
use crate::{
    clock::Moment,
    error::LockError,
    op::watch::Watch,
    timer::{sleep, timeout},
    wait::{Entry, Front, MIN_PAUSE, REFRESH, Report, grace},
};

/// The keys that a set asks about ahead, all at once: twice as many each time that they are free, and half as many each
/// time that it has to wait for one of them.
struct Ahead {
    count: usize,
    /// The last of their places; zero before any.
    last: usize,
    /// Until then, the answer to a report that was sent ahead serves as the answer to the next report. Later it is
    /// out of date.
    until: Moment,
}

/// Half of the keys that a set asks about ahead at first.
const FIRST_AHEAD: usize = 4;

impl Ahead {
    /// The places to ask about now that there was a chance at this one.
    fn after(&mut self, place: usize, now: Moment, round_trip: Duration) -> Option<Range<usize>> {
        let is_late = self.last > 0 && now >= self.until;
        if place < self.last && !is_late {
            return None;
        }
        self.count = if is_late { self.count / 2 } else { self.count * 2 }.max(1);
        self.last = place + self.count;
        self.until = now + round_trip.max(MIN_PAUSE) * 2;
        Some(place + 1..self.last + 1)
    }
}

impl Request<'_> {
    /// Waits for the turns before the other keys, with the first one in hand.
    pub(super) async fn other_turns(&mut self, mut first: Front) -> Result<Fronts, LockError> {
        let round_trip = self.client.nodes.round_trip();
        let mut rest: Vec<Front> = Vec::with_capacity(self.rest.len());
        for key in self.rest.clone() {
            rest.last().unwrap_or(&first).defers();
            // The tasks before this one may have left it places in the queues between clients.
            let fronts = std::iter::once(&mut first).chain(&mut rest);
            let kept = fronts.filter(|it| it.entry.is_some()).map(|front| {
                front.follow_lock(false);
                keep_entry(&mut front.entry, Duration::ZERO, round_trip)
            });
            let kept = join_all(kept);
            let now = self.now();
            let turn = tokio::select! {
                biased;
                turn = self.turn(&key, now) => turn?,
                never = async { kept.await; pending::<Infallible>().await } => match never {},
            };
            rest.push(turn);
        }
        let mut fronts = Fronts::several(first, rest);
        fronts.each().for_each(|front| front.asks());
        Ok(fronts)
    }

    /// Waits for a chance to get all locks, until the end of the pause at the latest: for a chance to get the
    /// first, then the second, and so on. The places before the other keys are kept meanwhile.
    pub(super) async fn chances(
        &mut self,
        fronts: &mut Fronts,
        pause: Pause<'_>,
    ) -> Result<Chance, LockError> {
        let round_trip = self.client.nodes.round_trip();
        let places = fronts.len();
        let mut has_waited = false;
        let mut ahead = Ahead { count: FIRST_AHEAD, last: 0, until: pause.begun };
        let mut chance = Chance::Due;
        if let Some(failure) = pause.failure.filter(|it| it.no_quorum) {
            fronts.each().for_each(|front| self.leave_without_quorum(front, failure));
        }
        for place in 0..places {
            let is_last = place + 1 == places;
            // A lock before the last one is believed when it looks free: the last attempt may have been
            // refused because of another lock of the set. If every lock looks free, and the last attempt
            // already followed from such answers, the first answer for the last lock is doubted.
            let last = pause.last.filter(|_| is_last && !has_waited);
            let begun = self.now();
            let (Some(front), others) = fronts.split(place) else { continue };
            chance = tokio::select! {
                biased;
                chance = self.chance(front, Pause { last, ..pause }) => chance?,
                never = keep_places(others, ahead.until.since(begun), round_trip) => match never {},
            };
            let has_news = || self.watch.as_deref().is_some_and(Watch::has_news);
            has_waited |= match chance {
                Chance::Turn => true,
                Chance::Notified if has_news() => true,
                Chance::Notified | Chance::Free => self.now().since(begun) >= grace(round_trip),
                Chance::StandsStill
                | Chance::Due
                | Chance::Again
                | Chance::Hurried
                | Chance::Behind => break,
            };
            if !is_last {
                self.watch = None;
                front.follow_lock(false);
            }
            if let Some(next) = ahead.after(place, self.now(), round_trip) {
                let mut next = fronts.each().take(next.end).skip(next.start);
                next.try_for_each(|front| self.ask_ahead(front, &pause))?;
            }
        }
        Ok(chance)
    }
}

/// Keeps the places of the set before the keys that it does not wait for now. It leaves a queue that it has joined ahead
/// if it does not get to that key soon. Requests behind them that try only once are refused: an attempt of the set would say
/// nothing of that lock alone, and could take the turn of another client. Cancel safe.
async fn keep_places(fronts: Vec<&mut Front>, soon: Duration, round_trip: Duration) -> Infallible {
    join_all(fronts.into_iter().map(|front| keep_place(front, soon, round_trip))).await;
    pending().await
}

async fn keep_place(front: &mut Front, soon: Duration, round_trip: Duration) {
    let refusing = front.refusing_single_tries();
    join(refusing, keep_entry(&mut front.entry, soon, round_trip)).await;
}

async fn keep_entry(entry: &mut Option<Box<Entry>>, soon: Duration, round_trip: Duration) {
    if entry.as_deref().is_some_and(Entry::has_asked_ahead) {
        sleep(soon).await;
        entry.take_if(|entry| !entry.gives_up_answer());
    }
    let Some(entry) = entry else { return };
    // A turn that came has taken the entry out of the queue. The set often needs it no more.
    let mut pause = if entry.has_turn() { round_trip * 2 } else { REFRESH };
    loop {
        let _ = timeout(pause, entry.signal()).await;
        if entry.report().await == Report::NoQueue {
            // No node keeps it. The set joins again when it waits there next.
            return;
        }
        pause = REFRESH;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::IntoFuture,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering::SeqCst},
        },
    };

    use tokio::time::Instant;

    use super::*;
    use crate::{
        MemoryNode, Redlock,
        error::{NodeError, NodeErrorKind},
        node::intercepted::{answering, far_away},
        op::acquire::testing::{first_request, terms},
        options::LockOptions,
        testing::nodes,
        wait::{FailedAttempt, queue_node},
    };

    const MS: Duration = Duration::from_millis(1);
    const MINUTE: Duration = Duration::from_secs(60);
    const ROUND_TRIP: Duration = Duration::from_millis(20);

    async fn clients<const N: usize>(nodes: &[MemoryNode]) -> [Redlock; N] {
        let far = || nodes.iter().map(|it| far_away(it.name(), it, ROUND_TRIP / 2)).collect();
        let clients = [(); N].map(|()| Redlock::builder().wait(MINUTE).over(far()));
        for client in &clients {
            drop(client.lock("warm").await.unwrap());
        }
        clients
    }

    fn keys(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("key {number:02}")).collect()
    }

    #[test]
    fn a_set_asks_about_more_keys_while_they_are_free_and_about_fewer_when_it_waits() {
        let at = |ms: u64| Moment::ORIGIN + Duration::from_millis(ms);
        let mut ahead = Ahead { count: FIRST_AHEAD, last: 0, until: at(500) };
        let mut after = |place, ms| ahead.after(place, at(ms), 10 * MS);
        assert_eq!(after(0, 600), Some(1..9), "it has waited for the first for long");
        assert_eq!(after(1, 610), None);
        assert_eq!(after(8, 619), Some(9..25));
        assert_eq!(after(9, 638), None);
        assert_eq!(after(10, 639), Some(11..19), "it has waited");
        assert_eq!(after(18, 640), Some(19..35));
        for (place, count) in [(19, 8), (20, 4), (21, 2), (22, 1), (23, 1), (24, 1)] {
            let ms = 1000 * u64::try_from(place).unwrap();
            assert_eq!(after(place, ms), Some(place + 1..place + 1 + count));
        }
    }

    /// It must not hold up the other clients.
    #[tokio::test(start_paused = true)]
    async fn a_request_without_a_quorum_joins_no_queue_ahead() {
        let redlock = Redlock::builder().nodes(nodes(3)).wait(MINUTE).build().unwrap();
        drop(redlock.lock("warm").await.unwrap());
        let client = redlock.client();
        let terms = terms(client, &LockOptions::new());
        for no_quorum in [true, false] {
            let (request, mut front) = first_request(client, &terms);
            let failure = FailedAttempt { no_quorum, ..FailedAttempt::full() };
            let (begun, end) = (request.begun, request.begun + MINUTE);
            let pause = Pause { begun, end, failure: Some(&failure), last: None };
            request.ask_ahead(&mut front, &pause).unwrap();
            assert_eq!(front.entry.is_some(), !no_quorum);
        }
    }

    /// It must not hold up the other clients, before any of its keys.
    #[tokio::test(start_paused = true)]
    async fn a_set_that_loses_its_quorum_leaves_all_queues() {
        let nodes = nodes(3);
        let [holder, other] = clients(&nodes).await;
        let is_cut_off = Arc::new(AtomicBool::new(false));
        let kept = queue_node(&other.client().nodes, "redlock:b").unwrap();
        let partly = nodes.iter().enumerate().map(|(index, node)| {
            let failed = NodeError::new(&node.name().into(), NodeErrorKind::Server, "broken");
            answering(node.name(), node, &is_cut_off, move |_| index != kept, Err(failed))
        });
        let ours = Redlock::builder().wait(MINUTE).over(partly.collect());
        drop(ours.lock("warm").await.unwrap());
        let held = holder.lock("b").await.unwrap();
        let set = tokio::spawn(ours.lock_all(["a", "b"]).into_future());
        let waits = async || {
            sleep(2000 * MS).await;
            let mut waits = Vec::new();
            for name in ["a", "b"] {
                waits.push(other.inspect(name).await.unwrap().waiting().len());
            }
            waits
        };
        assert_eq!(waits().await, [1, 1]);
        is_cut_off.store(true, SeqCst);
        // It asks in its turn.
        drop(held);
        // No node that it does not reach hears that it leaves.
        assert_eq!(waits().await[1], 0);
        assert!(!set.is_finished());
    }

    /// The task before it was the first in the queue between clients.
    #[tokio::test(start_paused = true)]
    async fn a_set_keeps_a_place_that_it_inherits_while_it_waits_in_its_process() {
        let nodes = nodes(3);
        let [holder, ours] = clients(&nodes).await;
        let _held = holder.lock("a").await.unwrap();
        let _mine = ours.lock("b").await.unwrap();
        let first = tokio::spawn(ours.lock("a").into_future());
        sleep(500 * MS).await;
        let set = tokio::spawn(ours.lock_all(["a", "b"]).into_future());
        sleep(500 * MS).await;
        first.abort();
        for _ in 0..10 {
            sleep(1000 * MS).await;
            assert_eq!(holder.inspect("a").await.unwrap().waiting().len(), 1);
        }
        assert!(!set.is_finished());
    }

    /// One after the other would be 63 round trips.
    #[tokio::test(start_paused = true)]
    async fn a_set_whose_turn_comes_asks_about_its_other_keys_together() {
        let nodes = nodes(3);
        let [holder, ours] = clients(&nodes).await;
        let held = holder.lock_all(keys(64)).await.unwrap();
        let waits = tokio::spawn(ours.lock_all(keys(64)).into_future());
        sleep(5 * ROUND_TRIP).await;
        drop(held);
        let begun = Instant::now();
        drop(waits.await.unwrap().unwrap());
        // The release, three times the queues of more and more keys, and the attempt.
        assert!(begun.elapsed() <= 6 * ROUND_TRIP, "{:?}", begun.elapsed());
    }

    /// The set waits for one key and then for another. It does not stand in the queues behind that.
    #[tokio::test(start_paused = true)]
    async fn a_set_that_waits_for_a_key_leaves_the_later_ones_to_other_clients() {
        let nodes = nodes(3);
        let [holder, ours, other] = clients(&nodes).await;
        let keys = keys(12);
        let first = holder.lock(&*keys[0]).await.unwrap();
        let second = holder.lock(&*keys[1]).await.unwrap();
        let waits = tokio::spawn(ours.lock_all(keys.clone()).into_future());
        sleep(5 * ROUND_TRIP).await;
        drop(first);
        sleep(5 * ROUND_TRIP).await;
        for key in &keys[2..] {
            let seen = other.inspect(key).await.unwrap();
            assert!(seen.waiting().is_empty(), "{key}");
            assert!(other.try_lock(key.as_str()).await.is_ok(), "{key}");
        }
        let waiting = other.inspect(&keys[1]).await.unwrap();
        assert_eq!(waiting.waiting().len(), 1);
        drop(second);
        let begun = Instant::now();
        drop(waits.await.unwrap().unwrap());
        assert!(begun.elapsed() <= 8 * ROUND_TRIP, "{:?}", begun.elapsed());
    }

    /// A single try for one lock is refused at once. It must not make the set ask for the other lock in the turn of another
    /// client.
    #[tokio::test(start_paused = true)]
    async fn a_set_leaves_the_turn_of_another_client_alone_whatever_its_own_client_tries() {
        let nodes = nodes(3);
        let [holder, ours] = clients(&nodes).await;
        let far = nodes.iter().map(|it| far_away(it.name(), it, ROUND_TRIP)).collect();
        let far = Redlock::builder().wait(MINUTE).over(far);
        let held = holder.lock("a").await.unwrap();
        let theirs = tokio::spawn(far.lock("a").into_future());
        sleep(500 * MS).await;
        let set = tokio::spawn(ours.lock_all(["a", "b"]).into_future());
        sleep(500 * MS).await;
        let tries = async || {
            let tried = timeout(50 * MS, ours.try_lock("b").retry_delay(MS).into_future()).await;
            assert!(tried.unwrap().is_err_and(|error| error.is_held()));
            sleep(MS).await;
        };
        for _ in 0..50 {
            tries().await;
        }
        drop(held);
        while !theirs.is_finished() {
            tries().await;
        }
        let theirs = theirs.await.unwrap().unwrap();
        assert!(!set.is_finished(), "it has taken the turn of the other client");
        drop(theirs);
        drop(set.await.unwrap().unwrap());
    }

    /// The turn for a later key comes while the set looks at the key before.
    #[tokio::test(start_paused = true)]
    async fn a_set_keeps_the_turns_that_come_before_it_looks() {
        for released_after in [5, 12, 16, 22] {
            let nodes = nodes(3);
            let [holder, ours, single] = clients(&nodes).await;
            let keys = keys(6);
            let [first, third, fourth] = [0, 2, 3].map(|it: usize| holder.lock(&*keys[it]));
            let (first, third, fourth) =
                (first.await.unwrap(), third.await.unwrap(), fourth.await.unwrap());
            let set = tokio::spawn(ours.lock_all(keys.clone()).into_future());
            sleep(5 * ROUND_TRIP).await;
            drop(first);
            let begun = Instant::now();
            let single = tokio::spawn(single.lock(&*keys[2]).into_future());
            sleep(released_after * MS).await;
            drop(third);
            sleep(100 * MS - released_after * MS).await;
            drop(fourth);
            drop(set.await.unwrap().unwrap());
            assert!(begun.elapsed() < 200 * MS, "{released_after}: {:?}", begun.elapsed());
            assert!(!single.is_finished());
            drop(single.await.unwrap().unwrap());
        }
    }
}
