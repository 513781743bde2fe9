//! The causes of attempts, and how many of them a request may make: `wait` bounds the whole, and
//! `retry_count` the attempts that no other client caused. Pure.

use std::time::Duration;

use crate::{clock::Moment, settings::Terms, wait::MIN_PAUSE};

/// Why it is worth asking for the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chance {
    /// The client was given the turn. A reader also: it is next, or was near for a while.
    Turn,
    /// This client is the first in the queue, and the queue node says that the lock
    /// is free; or it is a reader, and the node says that it may share the lock.
    Free,
    /// The queue node says that the lock is free, and the clients before this one do not
    /// take it: they may have crashed.
    StandsStill,
    /// The lock became free on a quorum of nodes.
    Notified,
    /// It is time: no node pushes, or this is the last attempt.
    Due,
    /// It is time for an extra attempt before the next retry: the quorum that the last attempt lacked may be back, or
    /// something may be free that no push tells of.
    Again,
    /// A request behind it in this process would have asked by now.
    Hurried,
    /// There is no chance: the time is up, and other clients are before this one.
    Behind,
}

impl Chance {
    /// The name of the cause in traces and metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Free => "free",
            Self::StandsStill => "stands_still",
            Self::Notified => "notified",
            Self::Due => "due",
            Self::Again => "again",
            Self::Hurried => "hurried",
            Self::Behind => "behind",
        }
    }
}

/// The rest of a request's `wait` and of its retries.
///
/// Three things count as a retry: an attempt that was made because it was time; an attempt that
/// came the longest pause or more after the last retry although no holder had released the lock; and
/// every `retry_delay` in the queue of this process. A waiter that other clients wake makes none while it
/// waits: it waits for as long as its retries could take, with the jitter. The time that an attempt takes
/// is no retry: nodes that are slow leave as many retries as nodes that are fast.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retries<'a> {
    terms: &'a Terms,
    /// When the nodes were connected, or connecting had failed. `wait` counts from here.
    begun: Moment,
    /// When the last retry was counted, moved forward by the time that attempts have taken since.
    counted: Moment,
    /// When the last attempt began or ended. The time of an attempt is no part of a retry.
    asks_since: Moment,
    spent: u32,
}

impl<'a> Retries<'a> {
    pub(super) fn new(terms: &'a Terms, begun: Moment) -> Self {
        Self { terms, begun, counted: begun, asks_since: begun, spent: 0 }
    }

    /// How many retries the request may make.
    fn most(&self) -> Option<u32> {
        self.terms.retry_count.filter(|most| *most < u32::MAX)
    }

    /// How many retries were counted.
    pub(super) fn spent(&self) -> u32 {
        self.spent
    }

    /// The pause between attempts where nothing tells the client of a chance, and the time that one retry stands
    /// for in a queue of this process. Zero delay would spin on the nodes.
    pub(super) fn pace(&self) -> Duration {
        self.terms.retry_delay.max(MIN_PAUSE)
    }

    /// The longest pause before a retry.
    fn longest_pause(&self) -> Duration {
        self.pace().saturating_add(self.terms.retry_jitter)
    }

    /// Counts the time since the last retry, which the request has waited in a queue of this process.
    pub(super) fn waited_in_queue(&mut self, now: Moment) {
        self.spend(now.since(self.counted), self.pace());
        (self.counted, self.asks_since) = (now, now);
    }

    /// Notes that an attempt has failed by now.
    pub(super) fn failed(&mut self, now: Moment) {
        self.counted = self.counted + now.since(self.asks_since);
        self.asks_since = now;
    }

    /// The rest of `wait`.
    pub(super) fn left(&self, now: Moment) -> Duration {
        self.terms.wait.saturating_sub(now.since(self.begun))
    }

    /// How long the request may wait for its next attempt: what is left of `wait` and of the retries.
    pub(super) fn limit(&self, now: Moment) -> Duration {
        self.limit_at(self.longest_pause(), now)
    }

    /// How long the request may wait for its turn in a queue of this process.
    pub(super) fn limit_in_queue(&self, now: Moment) -> Duration {
        self.limit_at(self.pace(), now)
    }

    fn limit_at(&self, pause: Duration, now: Moment) -> Duration {
        let left = self.left(now);
        let Some(most) = self.most() else { return left };
        let retries = pause.saturating_mul(most.saturating_sub(self.spent));
        left.min((self.counted + retries).since(now))
    }

    /// Counts an attempt that is made for this reason. `has_news` when a node has pushed something.
    ///
    /// An attempt that another client's action caused, or that follows nothing new, is no retry before the
    /// longest pause is over. It does not put a retry off.
    pub(super) fn note(&mut self, chance: Chance, has_news: bool, now: Moment) {
        let (longest, since) = (self.longest_pause(), now.since(self.counted));
        if matches!(chance, Chance::Due | Chance::StandsStill) {
            self.spend(since.max(longest), longest);
            self.counted = now;
        } else if since >= longest && (chance != Chance::Notified || !has_news) {
            let pauses = self.spend(since, longest);
            // What is left over is part of the next one.
            self.counted = self.counted + longest.saturating_mul(pauses);
        }
        self.asks_since = now;
    }

    /// Counts one retry for every `pause` that has passed, and returns how many have. A task that runs late has not
    /// made more retries than it may.
    fn spend(&mut self, span: Duration, pause: Duration) -> u32 {
        let pauses = u32::try_from(span.as_nanos() / pause.as_nanos()).unwrap_or(u32::MAX);
        let spent = self.spent.saturating_add(pauses);
        self.spent = self.most().map_or(spent, |most| spent.min(most));
        pauses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Redlock, options::LockOptions};

    fn at(ms: u64) -> Moment {
        Moment::ORIGIN + Duration::from_millis(ms)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Waits for 10 s, and tries again three times, every 100 ms.
    fn terms() -> Terms {
        let options = LockOptions::new().wait(ms(10_000)).retry_count(3).retry_delay(ms(100));
        let options = options.retry_jitter(Duration::ZERO);
        Redlock::in_memory(1).client().settings.terms(&options).unwrap()
    }

    #[test]
    fn the_largest_count_sets_no_limit() {
        let terms = Terms { wait: Duration::MAX, retry_count: Some(u32::MAX), ..terms() };
        let mut retries = Retries::new(&terms, at(0));
        for now in [0, 1 << 42] {
            assert_eq!(retries.limit(at(now)), Duration::MAX.saturating_sub(ms(now)));
            assert_eq!(retries.limit_in_queue(at(now)), retries.limit(at(now)));
            retries.waited_in_queue(at(now));
        }
    }

    #[test]
    fn the_jitter_of_a_pause_spends_no_retries() {
        for (retry_delay, pauses) in [(0, [201, 1, 90]), (100, [300, 100, 299])] {
            let terms = Terms { retry_delay: ms(retry_delay), retry_jitter: ms(200), ..terms() };
            let mut retries = Retries::new(&terms, at(0));
            let longest = retry_delay.max(1) + 200;
            assert_eq!(retries.limit(at(0)), ms(3 * longest));
            let mut now = 0;
            for (pause, made) in pauses.into_iter().zip(1..) {
                now += pause;
                retries.note(Chance::Due, false, at(now));
                assert_eq!(retries.spent(), made, "{retry_delay} ms");
            }
            assert_eq!(retries.limit(at(now)), Duration::ZERO);
            // A waiter that nothing wakes in all this time asks once more at the end of it.
            let mut told = Retries::new(&terms, at(0));
            told.note(Chance::Due, false, at(3 * longest));
            assert_eq!(told.spent(), 3);
            // In the queue of this process there are no pauses.
            let mut queued = Retries::new(&terms, at(0));
            assert_eq!(queued.limit_in_queue(at(0)), ms(3 * retry_delay.max(1)));
            queued.waited_in_queue(at(2 * retry_delay.max(1)));
            assert_eq!(queued.spent(), 2);
        }
    }

    #[test]
    fn what_counts_as_a_retry() {
        for (chance, has_news, now, counted) in [
            (Chance::Due, false, 1, 1),
            (Chance::Due, false, 350, 3),
            (Chance::StandsStill, false, 1, 1),
            (Chance::Turn, true, 99, 0),
            (Chance::Turn, true, 100, 1),
            (Chance::Free, false, 99, 0),
            (Chance::Free, false, 250, 2),
            (Chance::Hurried, false, 100, 1),
            (Chance::Again, false, 99, 0),
            (Chance::Again, false, 100, 1),
            (Chance::Notified, true, 5000, 0),
            (Chance::Notified, false, 99, 0),
            (Chance::Notified, false, 100, 1),
        ] {
            let terms = terms();
            let mut retries = Retries::new(&terms, at(0));
            retries.note(chance, has_news, at(now));
            assert_eq!(retries.spent(), counted, "{chance:?} {has_news} {now}");
        }
    }

    /// Turns that nearer clients take first must not use up the time that the retries could take.
    #[test]
    fn attempts_that_others_caused_leave_the_time_of_the_retries() {
        for (retry_delay, longest) in [(0, 101), (200, 300)] {
            let retry_jitter = ms(100);
            let terms = Terms { retry_delay: ms(retry_delay), retry_jitter, ..terms() };
            let mut retries = Retries::new(&terms, at(0));
            retries.note(Chance::Free, false, at(0));
            for now in [1, longest - 1] {
                retries.note(Chance::Turn, true, at(now));
            }
            assert_eq!(retries.spent(), 0, "{retry_delay} ms");
            for made in 1..=3 {
                retries.note(Chance::Turn, true, at(u64::from(made) * longest));
                assert_eq!(retries.spent(), made, "{retry_delay} ms");
            }
        }
    }

    #[test]
    fn an_attempt_that_counts_for_nothing_does_not_put_a_retry_off() {
        let terms = terms();
        let mut retries = Retries::new(&terms, at(0));
        retries.note(Chance::Turn, true, at(90));
        retries.note(Chance::Turn, true, at(100));
        assert_eq!(retries.spent(), 1);
    }

    #[test]
    fn the_time_of_an_attempt_is_no_retry() {
        let terms = terms();
        let mut retries = Retries::new(&terms, at(0));
        retries.failed(at(500));
        assert_eq!((retries.spent(), retries.limit(at(500))), (0, ms(300)));
        retries.note(Chance::Due, false, at(600));
        retries.failed(at(900));
        assert_eq!((retries.spent(), retries.limit(at(950))), (1, ms(150)));
        assert_eq!(retries.left(at(950)), ms(9050), "it is part of `wait`");
    }

    #[test]
    fn no_more_retries_are_counted_than_are_allowed() {
        let terms = terms();
        let mut late = Retries::new(&terms, at(0));
        late.note(Chance::Due, false, at(5000));
        let mut late_in_queue = Retries::new(&terms, at(0));
        late_in_queue.waited_in_queue(at(5000));
        assert_eq!([late.spent(), late_in_queue.spent()], [3, 3]);
    }

    #[test]
    fn every_delay_in_the_queue_is_a_retry() {
        let terms = terms();
        let mut retries = Retries::new(&terms, at(0));
        assert_eq!(retries.limit_in_queue(at(0)), ms(300));
        retries.waited_in_queue(at(250));
        assert_eq!((retries.spent(), retries.limit(at(250))), (2, ms(100)));
        retries.note(Chance::Due, false, at(350));
        assert_eq!(retries.limit(at(350)), Duration::ZERO);
    }

    #[test]
    fn the_time_in_each_queue_counts_once_and_an_attempt_before_it_does_not() {
        let terms = terms();
        let mut set = Retries::new(&terms, at(0));
        set.waited_in_queue(at(150));
        set.waited_in_queue(at(250));
        assert_eq!((set.spent(), set.limit(at(250))), (2, ms(100)));
        let mut reader = Retries::new(&terms, at(0));
        reader.failed(at(500));
        assert_eq!(reader.limit(at(500)), ms(300), "the queue behind another reader");
        reader.waited_in_queue(at(600));
        assert_eq!(reader.spent(), 1);
    }

    #[test]
    fn wait_bounds_the_whole_request() {
        let terms = Terms { retry_count: None, ..terms() };
        let retries = Retries::new(&terms, at(0));
        assert_eq!(retries.limit(at(0)), ms(10_000));
        assert_eq!(retries.limit(at(9990)), ms(10));
        assert_eq!(retries.left(at(10_001)), Duration::ZERO);
    }
}
