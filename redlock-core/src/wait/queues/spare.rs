//! Permits that a task takes for the tasks behind it.

use super::Queues;
use crate::wait::{turn::Front, wants::Wants};

impl Queues {
    /// How many of the next tasks in this line are content with a permit as this request gets it.
    pub(crate) fn served_with(&self, line: &str, wants: Wants) -> usize {
        let count = |it: &mut super::Queue<Front>| {
            it.waiting.iter().take_while(|next| next.wants.shares_permits_with(&wants)).count()
        };
        self.with_queue(line, count).unwrap_or_default()
    }

    /// Gives the next task in this line a turn with a permit, as this request got it. The turn comes back when there is
    /// no such task.
    #[must_use]
    pub(crate) fn give_spare(&self, line: &str, wants: Wants, turn: Front) -> Option<Front> {
        self.locked(line, |inner| {
            let Some(queue) = inner.by_key.get_mut(line) else { return Some(turn) };
            let suits = |next: &Wants| next.shares_permits_with(&wants);
            match queue.waiting.pop_front_if(|next| suits(&next.wants)) {
                Some(next) => {
                    inner.wakes.extend(next.give(Ok(turn)));
                    None
                }
                None => Some(turn),
            }
        })
    }
}
