//! Which client goes first when several want one lock. Pure.
//!
//! Within a process a lock passes on at once, so a process could keep it for ever. A queue keeps
//! the lock for a span, then deletes the keys and lets other clients in. A client that wakes up to
//! a free lock hesitates less, the longer its queue has waited: then two clients seldom start at
//! the same moment and split the votes.

use std::time::Duration;

use crate::clock::Moment;

/// The shortest pause between attempts: zero delay and zero jitter would spin on the nodes.
pub(crate) const MIN_PAUSE: Duration = Duration::from_millis(1);

/// How long a queue may keep a lock that other clients want too. It is short enough that several
/// processes with holds of 1 ms wait for tenths of a second, and long enough that the few
/// milliseconds of changing clients cost little.
const MIN_SPAN: Duration = Duration::from_millis(20);

/// How long the span becomes when no other client took the lock in between, several times in a row.
const MAX_SPAN: Duration = Duration::from_millis(300);

/// How often a waiter in the queue between processes reports that it is alive, and reads the state
/// of the queue. A lost push delays a waiter by this much.
pub(crate) const REFRESH: Duration = Duration::from_millis(1500);

/// How long an entry in that queue outlives a waiter that has stopped reporting.
pub(super) const LIFE: Duration = Duration::from_secs(5);

/// How long after all connections were lost a client may lack a quorum because they come back one after the
/// other. The pauses between two tries to connect are shorter.
pub(super) const COMES_BACK: Duration = Duration::from_secs(1);

/// How long a node that has refused an entry is not asked again for its sake, and how long a request that every node
/// has refused does not try to join a queue. A server may log each refusal.
pub(crate) const DECLINED: Duration = Duration::from_secs(30);

/// How long a waiter may take to use its turn, where a quorum answers within `round_trip`. Learning
/// of the turn and asking takes one and a half round trips. After that the next waiter checks
/// whether the lock is still free, and the client that released it may take it again.
pub(crate) fn grace(round_trip: Duration) -> Duration {
    round_trip.saturating_mul(4).saturating_add(Duration::from_millis(100))
}

/// How long a node keeps a permit for the waiter that was given its turn (`wake.lua`).
pub(crate) const PROMISE: Duration = Duration::from_secs(1);

/// How long the front of the queue relies on being given its turn, before it also looks at the lock:
/// a holder that does not know the queue gives no turns. It is longer than a
/// hand-over takes, so that short holds cost no watches.
pub(crate) fn watches_after(round_trip: Duration) -> Duration {
    round_trip.saturating_mul(2).saturating_add(Duration::from_millis(10))
}

/// The longest pause after an attempt without a quorum. A request may have a `retry_delay` of an hour; the nodes may
/// be well again before that.
pub(crate) const WITHOUT_QUORUM: Duration = Duration::from_secs(10);

/// How long a queue that has just begun to wait hesitates.
const HESITATION: Duration = Duration::from_millis(1);

/// How many doubtful notifications in a row double the random part: it grows to an eighth of a
/// second.
const MAX_DOUBLINGS: u32 = 7;

/// The most that the random part grows to, or one unit if that is more.
const MAX_RANDOM: Duration = Duration::from_millis(250);

/// A queue that has waited for this long does not hesitate.
const EAGER_AFTER: Duration = Duration::from_millis(60);

/// A lock that stays with one queue.
///
/// While no other client waits, a queue works for longer and longer between two looks at other clients.
/// When other clients wait, half of the waiters of this client get a turn, and then another client
/// does: the tasks of all clients are served about equally, however far the nodes are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Streak {
    /// When the streak began. None until the lock is taken next.
    since: Option<Moment>,
    span: Duration,
    /// How often the lock may still be passed on. None while no other client wants it.
    turns: Option<usize>,
    contended: bool,
}

impl Streak {
    pub(super) fn new() -> Self {
        Self { since: None, span: MIN_SPAN, turns: None, contended: false }
    }

    /// Notes that the queue has the lock, and that `waiting` of its tasks wait for it.
    pub(super) fn lock_taken(&mut self, now: Moment, waiting: usize) {
        if self.since.is_none() {
            self.since = Some(now);
            self.turns = self.contended.then_some(waiting / 2);
        }
    }

    /// Whether the lock may be passed on.
    pub(super) fn may_go_on(&self, now: Moment) -> bool {
        let in_time = self.since.is_none_or(|since| now.since(since) < self.span);
        in_time && self.turns != Some(0)
    }

    /// Notes that the lock was passed on.
    pub(super) fn handed_on(&mut self) {
        self.turns = self.turns.map(|turns| turns.saturating_sub(1));
    }

    /// Ends the streak: the queue lets other clients in, and then may begin a new one.
    pub(super) fn begin_anew(&mut self) {
        self.since = None;
        self.turns = None;
    }

    /// Notes that the queue let other clients in, and that none came.
    pub(super) fn unchallenged(&mut self) {
        self.contended = false;
        self.span = (self.span * 2).min(MAX_SPAN);
    }

    /// Notes that another client has the lock, or waits for it.
    pub(super) fn contended(&mut self) {
        self.contended = true;
        self.span = MIN_SPAN;
    }

    pub(super) fn is_contended(&self) -> bool {
        self.contended
    }
}

/// How long to hesitate after a watch has notified a waiter, or the turn for a permit has come.
#[derive(Debug, Default)]
pub(crate) struct WakeBackoff {
    /// The number of doubtful notifications in a row.
    in_vain: u32,
    /// The number of notifications in a row, each after an attempt without a quorum.
    without_quorum: u32,
}

impl WakeBackoff {
    /// Notes a notification after an attempt without a quorum.
    pub(crate) fn notified_without_quorum(&mut self) {
        self.without_quorum = self.without_quorum.saturating_add(1);
    }

    /// Notes an attempt that a quorum has answered.
    pub(crate) fn had_quorum(&mut self) {
        self.without_quorum = 0;
    }

    /// How long no notification counts after an attempt without a quorum. Nodes that refuse to set a key tell all
    /// the same that it is missing, and those that set it tell of the attempts of other clients. The first
    /// notification counts at once, as the nodes may be back. The time grows to `most`.
    pub(crate) fn deaf_for(&self, round_trip: Duration, most: Duration) -> Duration {
        let times = match self.without_quorum {
            0 => return Duration::ZERO,
            idle => 4_u32.saturating_pow(idle),
        };
        round_trip.max(MIN_PAUSE).saturating_mul(times).min(most)
    }

    /// A fixed part, which shrinks to nothing for a queue that has `waited` for long enough, and the
    /// upper bound of a random part. Both follow the `round_trip` to the nodes: clients that ask
    /// within one round trip of each other split the votes.
    ///
    /// A notification is `doubtful` in three cases. It says nothing new: the key reads as missing,
    /// as it also does on a server that has no memory left for the key. It came at once. Or the
    /// last attempt failed although perhaps no client holds the lock: the notification may come
    /// from other clients that try in vain. Each doubtful notification in a row doubles the random
    /// part.
    ///
    /// The turn for a permit is doubtful when the one before it was in vain, too. A node that has forgotten
    /// the permits believes that they are free and gives the next turn with each question, so that the
    /// waiters would pass it round without a pause.
    pub(crate) fn hesitation(
        &mut self,
        doubtful: bool,
        waited: Duration,
        round_trip: Duration,
    ) -> (Duration, Duration) {
        self.in_vain = if doubtful { (self.in_vain + 1).min(MAX_DOUBLINGS) } else { 0 };
        let eager = (waited.as_secs_f64() / EAGER_AFTER.as_secs_f64()).min(1.0);
        let unit = round_trip.max(Duration::from_millis(1));
        let random = unit * ((1 << self.in_vain) - 1);
        (HESITATION.max(round_trip).mul_f64(1.0 - eager), random.min(MAX_RANDOM.max(unit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::ORIGIN + Duration::from_millis(ms)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_span_grows_while_no_other_client_comes_and_shrinks_at_once() {
        let mut streak = Streak::new();
        assert!(streak.may_go_on(at(1000)), "it begins with the lock");
        streak.lock_taken(at(0), 9);
        streak.lock_taken(at(15), 9);
        assert!(streak.may_go_on(at(19)) && !streak.may_go_on(at(20)));
        for _ in 0..10 {
            streak.unchallenged();
        }
        streak.begin_anew();
        streak.lock_taken(at(20), 9);
        assert!(streak.may_go_on(at(319)) && !streak.may_go_on(at(320)));
        streak.contended();
        streak.begin_anew();
        streak.lock_taken(at(320), 9);
        assert!(streak.may_go_on(at(339)) && !streak.may_go_on(at(340)));
    }

    #[test]
    fn half_of_the_waiters_of_this_client_are_served_before_another_client() {
        for (waiting, served) in [(0, 0), (1, 0), (2, 1), (3, 1), (9, 4)] {
            let mut streak = Streak::new();
            streak.contended();
            streak.lock_taken(at(0), waiting);
            for _ in 0..served {
                assert!(streak.may_go_on(at(1)), "{waiting}");
                streak.handed_on();
                streak.lock_taken(at(1), 100);
            }
            assert!(!streak.may_go_on(at(1)), "{waiting}");
        }
    }

    #[test]
    fn the_queue_that_has_waited_longest_goes_first() {
        let delay = |waited| WakeBackoff::default().hesitation(false, waited, ms(0)).0;
        assert_eq!(delay(Duration::ZERO), HESITATION);
        assert_eq!(delay(EAGER_AFTER / 2), HESITATION / 2);
        assert_eq!(delay(EAGER_AFTER), Duration::ZERO);
        assert_eq!(delay(Duration::MAX), Duration::ZERO);
        let far = WakeBackoff::default().hesitation(false, Duration::ZERO, ms(40)).0;
        assert_eq!(far, ms(40), "closer together, they split the votes");
    }

    #[test]
    fn each_vain_notification_in_a_row_lengthens_the_pause() {
        let mut wake_backoff = WakeBackoff::default();
        let mut random = |doubtful| wake_backoff.hesitation(doubtful, EAGER_AFTER, ms(0)).1;
        assert_eq!([true; 3].map(&mut random), [ms(1), ms(3), ms(7)]);
        assert_eq!(random(false), ms(0), "a holder has let go");
        for _ in 0..100 {
            random(true);
        }
        assert_eq!(random(true), ms(127));
        let far = wake_backoff.hesitation(true, EAGER_AFTER, ms(40)).1;
        assert_eq!(far, MAX_RANDOM);
    }

    #[test]
    fn nodes_that_refuse_all_keys_are_asked_less_and_less_often() {
        let mut wake_backoff = WakeBackoff::default();
        assert_eq!(wake_backoff.deaf_for(ms(0), ms(5000)), ms(0));
        let mut deaf_for = |()| {
            wake_backoff.notified_without_quorum();
            wake_backoff.deaf_for(ms(0), ms(5000))
        };
        assert_eq!([(); 7].map(&mut deaf_for), [4, 16, 64, 256, 1024, 4096, 5000].map(ms));
        (0..100).for_each(|_| assert!(deaf_for(()) == ms(5000)));
        wake_backoff.had_quorum();
        assert_eq!(wake_backoff.deaf_for(ms(0), ms(5000)), ms(0));
    }

    #[test]
    fn pauses_for_other_clients_grow_with_the_round_trip() {
        for round_trip in [0, 1, 40].map(ms) {
            // A waiter hears of its turn in half a round trip, and has its answers one round trip
            // later.
            assert!(grace(round_trip) > round_trip * 3 / 2);
            assert!(watches_after(round_trip) > round_trip * 3 / 2);
        }
        assert!(2 * REFRESH < LIFE, "one refresh may be lost");
    }
}
