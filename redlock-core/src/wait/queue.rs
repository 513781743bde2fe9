//! The queue before one lock, in this process.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    task::Waker,
    time::Duration,
};

use super::{
    failed_attempt::FailedAttempt,
    pace::{MIN_PAUSE, Streak},
    queued_task::{Hurry, QueuedTask},
    wants::{NoTurn, Wants},
};
use crate::{
    clock::Moment,
    fence::MAX_NUMBERS,
    lease::{Hold, HoldId},
};

/// The tasks of one client that want one lock. The turn of a waiter is a `T`.
#[derive(Debug)]
pub(super) struct Queue<T> {
    pub(super) occupant: Occupant,
    pub(super) waiting: VecDeque<Arc<QueuedTask<T>>>,
    /// Waiters that try only once have come since such waiters were answered last. Long queues seldom have any.
    has_single_tries: bool,
    /// When the request joined that is the front now, or was the last front.
    pub(super) front_since: Moment,
    /// The outcome of the last attempt, and when it was. The waiters behind the front get the same
    /// error.
    last: Option<(Arc<FailedAttempt>, Moment)>,
    /// The front waits for its chance and has asked no node yet.
    pub(super) defers: bool,
    /// The pause after which the front would ask by itself.
    pub(super) pace: Duration,
    /// Tells the front that a waiter behind it would ask earlier than the front does. Most queues are
    /// gone before a front or a waiter needs it.
    hurry: Option<Arc<Hurry>>,
    /// When this queue last had the lock, or began. A queue that has waited for longer hesitates
    /// less.
    pub(super) waiting_since: Moment,
    pub(super) streak: Streak,
}

#[derive(Debug)]
pub(super) enum Occupant {
    /// There is one front: a task has it, or it is on its way to a waiter.
    Asking,
    Held(HoldId, Weak<Hold>),
}

impl<T> Queue<T> {
    /// A queue whose first request has its turn.
    pub(super) fn new(is_contended: bool, now: Moment) -> Self {
        let mut streak = Streak::new();
        if is_contended {
            streak.contended();
        }
        Self {
            occupant: Occupant::Asking,
            waiting: VecDeque::new(),
            has_single_tries: false,
            front_since: now,
            last: None,
            defers: false,
            pace: Duration::ZERO,
            hurry: None,
            waiting_since: now,
            streak,
        }
    }

    /// Takes a waiter in, with this many before it.
    pub(super) fn take_in(&mut self, waiter: &Arc<QueuedTask<T>>, ahead: usize) {
        self.has_single_tries |= waiter.wants.tries_once;
        self.waiting.insert(ahead, Arc::clone(waiter));
    }

    /// Takes a waiter out, if it is there. The waiters stand roughly in the order in which they came, and a crowd may
    /// leave in any order: the search begins near the expected place.
    pub(super) fn take_out(&mut self, waiter: &Arc<QueuedTask<T>>) {
        let near = self.waiting.partition_point(|other| other.since < waiter.since);
        let mut places = (near..self.waiting.len()).chain((0..near).rev());
        if let Some(place) = places.find(|place| Arc::ptr_eq(&self.waiting[*place], waiter)) {
            self.waiting.remove(place);
        }
    }

    pub(super) fn hurry(&mut self) -> &Arc<Hurry> {
        self.hurry.get_or_insert_default()
    }

    pub(super) fn is_held_by(&self, id: HoldId) -> bool {
        matches!(self.occupant, Occupant::Held(holder, _) if holder == id)
    }

    /// How many requests have no lock yet, and when the first of them joined.
    pub(super) fn requests(&self) -> Option<(usize, Moment)> {
        let behind = self.waiting.len();
        match self.occupant {
            Occupant::Asking => Some((behind + 1, self.front_since)),
            Occupant::Held(..) => Some((behind, self.waiting.front()?.since)),
        }
    }

    pub(super) fn attempt_failed(&mut self, failure: &Arc<FailedAttempt>, now: Moment) -> bool {
        self.streak.contended();
        self.last = Some((Arc::clone(failure), now));
        true
    }

    /// Notes that a request of this queue has what it wants, and that others may have some of it, too. The next one may
    /// wait for long before it asks: what the nodes said before is out of date.
    pub(super) fn attempt_succeeded(&mut self) {
        self.last = None;
    }

    pub(super) fn acquired(&mut self, hold: &Arc<Hold>, unchallenged: bool, now: Moment) -> bool {
        if unchallenged {
            self.streak.unchallenged();
        }
        self.streak.lock_taken(now, self.waiting.len());
        self.last = None;
        self.defers = false;
        if hold.is_over() {
            return false;
        }
        self.occupant = Occupant::Held(hold.id, Arc::downgrade(hold));
        true
    }

    pub(super) fn known(
        &self,
        wants: Wants,
        now: impl FnOnce() -> Moment,
    ) -> Option<Arc<FailedAttempt>> {
        let (failure, _) = self.last.as_ref()?;
        let is_fresh = !wants.tries_once || self.knows(wants.retry_delay, now());
        is_fresh.then(|| Arc::clone(failure))
    }

    pub(super) fn last_failure(&self) -> Option<Arc<FailedAttempt>> {
        self.last.as_ref().map(|(failure, _)| Arc::clone(failure))
    }

    /// How many requests wait for it: the front, too, once it was refused.
    pub(super) fn waiters(&self) -> usize {
        let front_waits = matches!(self.occupant, Occupant::Asking) && self.last.is_some();
        self.waiting.len() + usize::from(front_waits)
    }

    /// How many wait for it with a token. More than a grant can have numbers for are not counted.
    pub(super) fn waiting_fenced(&self) -> usize {
        let fenced = self.waiting.iter().filter(|waiter| waiter.wants.fenced);
        fenced.take(MAX_NUMBERS as usize).count()
    }

    /// Whether an attempt of its fronts has failed, and none has succeeded since.
    pub(super) fn has_asked(&self) -> bool {
        self.last.is_some()
    }

    /// The answer to a waiter without a turn. What an attempt was told longer ago than `age` is out of date.
    pub(super) fn no_turn(&self, age: Duration, now: Moment) -> NoTurn {
        match (&self.occupant, &self.last) {
            (Occupant::Held(..), _) => NoTurn::HeldHere,
            (Occupant::Asking, Some((failure, at))) if now.since(*at) <= age => {
                NoTurn::Failed(Arc::clone(failure))
            }
            (Occupant::Asking, _) => NoTurn::Busy,
        }
    }

    /// The answer to a waiter that gives up. Where the front has asked no node itself, only an attempt counts that
    /// was made while the waiter waited, or right before.
    pub(super) fn gives_up(&self, waiter: &QueuedTask<T>, now: Moment) -> NoTurn {
        let waited = waiter.wants.retry_delay.max(now.since(waiter.since));
        self.no_turn(if self.defers { waited } else { Duration::MAX }, now)
    }

    /// The answer to a request that finds `max_waiters` before it.
    pub(super) fn no_room(&self) -> NoTurn {
        NoTurn::Full {
            held_here: matches!(self.occupant, Occupant::Held(..)),
            last: self.last.as_ref().map(|(failure, _)| Arc::clone(failure)),
        }
    }

    /// Whether requests that do not wait can be answered with something no older than `age`.
    pub(super) fn knows(&self, age: Duration, now: Moment) -> bool {
        match (&self.occupant, &self.last) {
            (Occupant::Held(..), _) => true,
            (Occupant::Asking, last) => {
                self.defers || last.as_ref().is_some_and(|(_, at)| now.since(*at) < age)
            }
        }
    }

    /// Notes that the front listens and would ask every `pace`. Returns when a waiter behind it
    /// would ask, if one would ask earlier: a place in the queue must not cost a waiter an attempt.
    pub(super) fn listens(&mut self, pace: Duration) -> Option<Moment> {
        self.pace = pace;
        let (_, asked) = self.last.as_ref()?;
        let hurries = self.waiting.iter().filter(|waiter| waiter.wants.hurries(pace));
        let delay = hurries.map(|waiter| waiter.wants.retry_delay.max(MIN_PAUSE)).min()?;
        Some(*asked + delay)
    }

    /// Answers the waiters that try only once.
    pub(super) fn answer_single_tries(&mut self, now: Moment, wakes: &mut Vec<Waker>) {
        if !std::mem::take(&mut self.has_single_tries) {
            return;
        }
        let mut answered = Vec::new();
        self.waiting.retain(|waiter| {
            if waiter.wants.tries_once {
                answered.push(Arc::clone(waiter));
            }
            !waiter.wants.tries_once
        });
        for waiter in answered {
            wakes.extend(waiter.give(Err(self.no_turn(waiter.wants.retry_delay, now))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Redlock, options::LockOptions};

    #[test]
    fn waiters_that_try_once_are_answered_whenever_they_come_and_the_others_stay() {
        let redlock = Redlock::in_memory(1);
        let waiter = |wait| {
            let options = LockOptions::new().wait(wait);
            let terms = redlock.client().settings.terms(&options).unwrap();
            QueuedTask::<()>::new(Wants::new(&terms, false), Moment::ORIGIN)
        };
        let mut queue = Queue::new(false, Moment::ORIGIN);
        let [first, last] = [Duration::from_secs(1); 2].map(waiter);
        queue.take_in(&first, 0);
        queue.take_in(&last, 1);
        for ahead in [1, 0, 2] {
            let once = waiter(Duration::ZERO);
            queue.take_in(&once, ahead);
            queue.answer_single_tries(Moment::ORIGIN, &mut Vec::new());
            assert!(matches!(once.take(), Some(Err(NoTurn::Busy))), "{ahead}");
            // This one gives up before.
            let gone = waiter(Duration::ZERO);
            queue.take_in(&gone, 1);
            for _ in 0..2 {
                queue.take_out(&gone);
                assert_eq!(queue.waiting.len(), 2);
            }
            queue.answer_single_tries(Moment::ORIGIN, &mut Vec::new());
            assert!(gone.take().is_none());
            let left: Vec<_> = queue.waiting.iter().map(Arc::as_ptr).collect();
            assert_eq!(left, [&first, &last].map(Arc::as_ptr));
        }
        assert!(first.take().is_none() && last.take().is_none());
    }

    #[test]
    fn a_waiter_is_told_of_no_attempt_that_is_out_of_date() {
        let at = |ms| Moment::ORIGIN + Duration::from_millis(ms);
        let redlock = Redlock::in_memory(1);
        let options = LockOptions::new().retry_delay(Duration::from_millis(20));
        let terms = redlock.client().settings.terms(&options).unwrap();
        let mut queue = Queue::new(false, at(0));
        assert!(matches!(queue.no_turn(Duration::MAX, at(9)), NoTurn::Busy));
        queue.attempt_failed(&Arc::new(FailedAttempt::full()), at(100));
        // When it joined and gave up, and whether the front has asked no node itself.
        for (since, until, defers, is_told) in [
            (90, 120, false, true),
            (900, 990, false, true),
            (90, 120, true, true),
            (110, 120, true, true),
            (110, 990, true, false),
            (100, 990, true, true),
        ] {
            queue.defers = defers;
            let waiter = QueuedTask::<()>::new(Wants::new(&terms, false), at(since));
            let no_turn = queue.gives_up(&waiter, at(until));
            assert_eq!(matches!(no_turn, NoTurn::Failed(_)), is_told, "{since} {until} {defers}");
        }
        for (until, is_told) in [(119, true), (121, false)] {
            let no_turn = queue.no_turn(terms.retry_delay, at(until));
            assert_eq!(matches!(no_turn, NoTurn::Failed(_)), is_told, "{until}");
        }
    }

    /// A request that comes back stands where it was, before some that came earlier.
    #[test]
    fn a_waiter_is_taken_out_wherever_it_stands() {
        let redlock = Redlock::in_memory(1);
        let terms = redlock.client().settings.terms(&LockOptions::new()).unwrap();
        let waiter = |since| {
            let since = Moment::ORIGIN + Duration::from_millis(since);
            QueuedTask::<()>::new(Wants::new(&terms, false), since)
        };
        let sinces = [30, 5, 5, 1, 9, 9, 2, 30, 7, 8];
        for gone in 0..sinces.len() {
            let mut queue = Queue::new(false, Moment::ORIGIN);
            let waiters = sinces.map(waiter);
            for (ahead, waiter) in waiters.iter().enumerate() {
                queue.take_in(waiter, ahead);
            }
            for _ in 0..2 {
                queue.take_out(&waiters[gone]);
                let left: Vec<_> = queue.waiting.iter().map(Arc::as_ptr).collect();
                let others = waiters.iter().enumerate().filter(|(place, _)| *place != gone);
                assert_eq!(left, others.map(|(_, it)| Arc::as_ptr(it)).collect::<Vec<_>>());
            }
        }
    }
}
