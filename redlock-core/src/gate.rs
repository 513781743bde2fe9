//! Lets in as many attempts as the nodes can answer in time.
//!
//! If all callers asked at once, the answers would come too late. An attempt that comes too late costs more than one
//! in time: its keys are deleted, and it is made again. So a crowd would keep nodes busy that serve none of it.

use std::time::Duration;

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

use crate::{
    node::Window,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};
/// The fewest attempts at once. So many share the timeout even of nodes that take milliseconds for each.
const MIN_ATTEMPTS: usize = 8;

pub(crate) struct Gate {
    places: Semaphore,
    /// How many places are to go as soon as attempts leave them: the window was narrowed meanwhile.
    surplus: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    window: Window,
    /// How many attempts of a crowd were answered in time, since the last late one or the last change of the window.
    answered: usize,
}

/// An attempt that was let in. Dropping this leaves the place to the next one.
pub(crate) struct Admitted<'a>(&'a Gate);

impl Default for Gate {
    fn default() -> Self {
        let window = Window::of_at_least(MIN_ATTEMPTS);
        Self {
            places: Semaphore::new(window.size()),
            surplus: AtomicUsize::new(0),
            state: Mutex::new(State { window, answered: 0 }),
        }
    }
}

impl Gate {
    /// `None` if too many attempts are in progress, or others have waited for longer.
    pub(crate) fn try_enter(&self) -> Option<Admitted<'_>> {
        self.places.try_acquire().ok().map(|place| self.admitted(place))
    }

    /// Waits for a place. Attempts are let in in the order in which they came.
    pub(crate) async fn enter(&self) -> Option<Admitted<'_>> {
        // It is never closed.
        self.places.acquire().await.ok().map(|place| self.admitted(place))
    }

    /// The place is given back by hand: a permit takes more room in each request.
    fn admitted(&self, place: SemaphorePermit<'_>) -> Admitted<'_> {
        place.forget();
        Admitted(self)
    }
}

impl Admitted<'_> {
    /// Notes that the nodes have answered after so long, or that their time is over.
    pub(crate) fn answered(&self, took: Duration, node_timeout: Duration) {
        let Self(gate) = self;
        let now = Instant::now();
        let since = now.checked_sub(took).unwrap_or(now);
        let mut state = gate.state.lock();
        let before = state.window.size();
        if gate.places.available_permits() < before / 2 {
            state.answered += 1;
        }
        let answered = state.answered;
        let is_late = state.window.answered(answered, since, took, node_timeout);
        let size = state.window.size();
        if is_late || size != before {
            state.answered = 0;
        }
        // With the state locked: of two changes, the later one follows.
        if size < before {
            let taken = gate.places.forget_permits(before - size);
            gate.surplus.fetch_add(before - size - taken, Ordering::AcqRel);
        } else if size > before {
            let kept = take(&gate.surplus, size - before);
            gate.places.add_permits(size - before - kept);
        }
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if take(&self.0.surplus, 1) == 0 {
            self.0.places.add_permits(1);
        }
    }
}

/// Takes as much as there is, and at most so much.
fn take(from: &AtomicUsize, most: usize) -> usize {
    let taken = |there: usize| there.min(most);
    let before = from.fetch_update(Ordering::AcqRel, Ordering::Acquire, |there| {
        (there > 0).then(|| there - taken(there))
    });
    before.map_or(0, taken)
}

#[cfg(test)]
mod tests {
    use std::iter::from_fn;

    use tokio::time::advance;

    use super::*;
    use crate::node::MAX_IN_FLIGHT;

    const TIMEOUT: Duration = Duration::from_millis(50);
    const NEAR: Duration = Duration::from_millis(1);

    fn all(gate: &Gate) -> Vec<Admitted<'_>> {
        from_fn(|| gate.try_enter()).collect()
    }

    /// Crowds of as many attempts as there are places, which are answered after so long. Returns how many they were.
    async fn crowds(gate: &Gate, took: Duration, count: usize) -> Vec<usize> {
        let mut sizes = Vec::new();
        for _ in 0..count {
            let crowd = all(gate);
            advance(took).await;
            crowd.iter().for_each(|it| it.answered(took, TIMEOUT));
            sizes.push(crowd.len());
        }
        sizes
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_that_come_late_leave_fewer_places_and_those_in_time_give_them_back() {
        let gate = Gate::default();
        assert_eq!(crowds(&gate, NEAR, 3).await, [MAX_IN_FLIGHT; 3]);
        let halves = [512, 256, 128, 64, 32, 16, 8, 8, 8];
        assert_eq!(crowds(&gate, TIMEOUT, 9).await, halves);
        let widens = crowds(&gate, NEAR, 99).await;
        assert!(widens.is_sorted() && widens[1] > MIN_ATTEMPTS, "{widens:?}");
        assert_eq!(widens.last(), Some(&MAX_IN_FLIGHT));
        assert_eq!(gate.places.available_permits(), MAX_IN_FLIGHT);
    }

    #[tokio::test(start_paused = true)]
    async fn one_attempt_at_a_time_says_nothing_of_a_crowd() {
        let gate = Gate::default();
        crowds(&gate, TIMEOUT, 9).await;
        for _ in 0..99 {
            let admitted = gate.try_enter().unwrap();
            advance(NEAR).await;
            admitted.answered(NEAR, TIMEOUT);
        }
        assert_eq!(all(&gate).len(), MIN_ATTEMPTS);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_began_after_the_gate_narrowed_narrows_it_again() {
        let gate = Gate::default();
        let admitted = gate.try_enter().unwrap();
        for (took, size) in [(4 * TIMEOUT, 256), (4 * TIMEOUT, 256), (TIMEOUT, 128)] {
            admitted.answered(took, TIMEOUT);
            assert_eq!(gate.state.lock().window.size(), size);
            advance(TIMEOUT).await;
        }
    }

    /// The places of attempts in progress go as they end, unless the gate widens before that.
    #[tokio::test(start_paused = true)]
    async fn places_that_are_taken_go_later() {
        let gate = Gate::default();
        let mut crowd = all(&gate);
        advance(TIMEOUT).await;
        crowd[0].answered(TIMEOUT, TIMEOUT);
        let half = MAX_IN_FLIGHT / 2;
        crowd.truncate(half);
        assert!(gate.try_enter().is_none());
        crowd.truncate(half / 2);
        assert_eq!(all(&gate).len(), half / 2, "those that were cancelled as well");
        drop(crowd);
        assert_eq!(all(&gate).len(), half);
        let crowd = all(&gate);
        advance(TIMEOUT).await;
        crowd[0].answered(TIMEOUT, TIMEOUT);
        (0..half / 4).for_each(|_| crowd[0].answered(NEAR, TIMEOUT));
        assert!(gate.try_enter().is_none(), "more are in progress than there are places");
        drop(crowd);
        assert_eq!(all(&gate).len(), half / 2 + half / 16);
    }
}
