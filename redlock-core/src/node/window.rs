//! How many commands may be in flight to one node, or attempts of one client: as many as are answered well within
//! `node_timeout`. Pure.
//!
//! A server takes a few microseconds for a `SET`, and a hundred for the script of a reader on a busy machine. What is
//! sent at once must not depend on that: a crowd that is not answered in time asks again, and the connection is dropped
//! with the renewals on it.

use std::time::Duration;

use tokio::time::Instant;

/// The most commands in flight, or attempts.
pub(crate) const MAX_IN_FLIGHT: usize = 512;

/// Even a slow node is sent this many at once: each write costs as much as several commands.
const MIN_IN_FLIGHT: usize = 16;

#[derive(Debug)]
pub(crate) struct Window {
    least: usize,
    size: usize,
    /// How long the node takes to answer at the least; zero before its first answer.
    distance: Duration,
    /// When it was last made smaller. Batches that were sent before say nothing of the smaller window.
    narrowed: Option<Instant>,
}

impl Default for Window {
    fn default() -> Self {
        Self::of_at_least(MIN_IN_FLIGHT)
    }
}

impl Window {
    /// Of the largest size. It is never narrowed to less than `least`, which is 8 or more.
    pub(crate) fn of_at_least(least: usize) -> Self {
        Self { least, size: MAX_IN_FLIGHT, distance: Duration::ZERO, narrowed: None }
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// How many of them go out as one batch, which is answered as a whole. An answer from time to time shows that a busy
    /// node is alive, and the node works on one batch while the answers to the one before it wake their callers.
    pub(super) fn batch(&self) -> usize {
        self.size / 2
    }

    /// Notes that a batch of so many commands was answered, or its time ran out, so long after it was `sent`. Returns
    /// whether it was late.
    pub(crate) fn answered(
        &mut self,
        commands: usize,
        sent: Instant,
        took: Duration,
        node_timeout: Duration,
    ) -> bool {
        self.note_distance(took);
        let well_within = self.distance + node_timeout.saturating_sub(self.distance) * 2 / 3;
        let is_late = took > well_within || took >= node_timeout;
        if is_late {
            if self.narrowed.is_none_or(|at| sent >= at) {
                self.size = (self.size / 2).max(self.least);
                self.narrowed = Some(sent + took);
            }
        } else if commands >= self.batch() / 2 {
            // A batch that leaves much room says nothing of a larger one.
            self.size = (self.size + self.size / 8).min(MAX_IN_FLIGHT);
        }
        is_late
    }

    /// A path may become longer, so that what was seen long ago counts for less and less.
    fn note_distance(&mut self, took: Duration) {
        let longer = took.saturating_sub(self.distance) / 256;
        self.distance =
            if self.distance.is_zero() { took } else { took.min(self.distance + longer) };
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, future::join_all};
    use tokio::time::sleep_until;

    use super::*;
    use crate::{Redlock, node::intercepted::intercepted, sync::Mutex};

    const TIMEOUT: Duration = Duration::from_millis(50);

    /// What is left after a crowd of so many commands, each of which takes the node this long, and then as many again.
    fn sizes(distance: Duration, each: Duration, rounds: usize) -> Vec<usize> {
        let mut window = Window::default();
        let mut now = Instant::now();
        window.answered(0, now, distance, TIMEOUT);
        let sizes = (0..rounds).map(|_| {
            let size = window.size();
            let took = distance + each * u32::try_from(size).unwrap();
            window.answered(window.batch(), now, took.min(TIMEOUT), TIMEOUT);
            now += took;
            size
        });
        sizes.collect()
    }

    #[test]
    fn a_node_is_sent_what_it_answers_well_within_its_time() {
        const MICROSECOND: Duration = Duration::from_micros(1);
        for distance in [MICROSECOND * 100, MICROSECOND * 40_000] {
            assert_eq!(sizes(distance, MICROSECOND * 5, 99), [MAX_IN_FLIGHT; 99], "{distance:?}");
            let slow = sizes(distance, MICROSECOND * 5000, 99);
            assert_eq!(slow[5..], [MIN_IN_FLIGHT; 94], "{distance:?}");
        }
        let middle = sizes(MICROSECOND * 100, MICROSECOND * 130, 99);
        assert!(middle[2..].iter().all(|it| (110..=330).contains(it)), "{middle:?}");
    }

    #[test]
    fn batches_that_were_sent_together_narrow_it_once_and_it_widens_again() {
        let mut window = Window::default();
        let sent = Instant::now();
        (0..4).for_each(|_| assert!(window.answered(MAX_IN_FLIGHT, sent, TIMEOUT, TIMEOUT)));
        assert_eq!(window.size(), MAX_IN_FLIGHT / 2);
        window.answered(MAX_IN_FLIGHT, sent + TIMEOUT, TIMEOUT, TIMEOUT);
        assert_eq!(window.size(), MAX_IN_FLIGHT / 4);
        for (commands, widens) in [(1, false), (MAX_IN_FLIGHT / 2, true)] {
            (0..20).for_each(|_| assert!(!window.answered(commands, sent, TIMEOUT / 50, TIMEOUT)));
            assert_eq!(window.size() == MAX_IN_FLIGHT, widens);
        }
    }

    /// A crowd takes five locks each from a server that takes a while for each write, and for each command in it.
    async fn crowd(callers: usize, write: Duration, each: Duration) {
        let free_at = Mutex::new(Instant::now());
        let spec = intercepted("a", move |sender, _, commands| {
            let count = u32::try_from(commands.len()).unwrap();
            let sent = sender.send(commands);
            // Timers have a resolution of a millisecond, which small batches would add up.
            let done_at = {
                let mut free_at = free_at.lock();
                *free_at = Instant::now().max(*free_at) + write + each * count;
                *free_at
            };
            async move {
                sleep_until(done_at).await;
                sent.await
            }
            .boxed()
        });
        let redlock = Redlock::builder().wait(Duration::from_secs(60)).over(vec![spec]);
        let held = redlock.lock("held").await.unwrap();
        let callers = (0..callers).map(|caller| {
            let redlock = redlock.clone();
            async move {
                for turn in 0..5 {
                    drop(redlock.lock(format!("{caller}-{turn}")).await.unwrap());
                }
            }
        });
        join_all(callers).await;
        assert!(held.is_valid());
    }

    /// As for the script of a reader.
    #[tokio::test(start_paused = true)]
    async fn a_crowd_gets_its_locks_from_a_node_that_is_slow_for_each_command() {
        crowd(600, Duration::ZERO, Duration::from_micros(300)).await;
    }

    /// In `node_timeout` it answers 25 commands. Attempts that came too late would keep it busy for ever.
    #[tokio::test(start_paused = true)]
    async fn a_crowd_gets_its_locks_from_a_node_that_hardly_answers_one_batch_in_time() {
        crowd(300, Duration::ZERO, Duration::from_millis(2)).await;
        crowd(600, Duration::from_millis(5), Duration::from_micros(50)).await;
    }
}
