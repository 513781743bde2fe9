//! Reports that are sent before their waiter waits for the answers.

use super::{Entry, is_refused};
use crate::{node::Reply, quorum::NodeQuestion};

impl Entry {
    /// Sends the next report ahead, without waiting for its answer, unless there is something to hear before it.
    pub(crate) fn ask_ahead(&mut self) {
        let Some(node) = self.queue_node(&[]) else { return };
        let is_asked = self.unanswered.as_ref().is_some_and(|it| it.awaits(node));
        if self.ahead.is_some() || is_asked || self.wake.has_any() {
            return;
        }
        if self.node != Some(node) {
            self.move_to(node);
        }
        self.taken.insert(node);
        let report = self.report_to_send();
        self.ahead = Some(NodeQuestion::ask(&self.nodes, node, report));
    }

    /// Whether a report was sent ahead, whose answer is yet to be taken.
    pub(crate) fn has_asked_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    /// Drops the answer to the report that was sent ahead. Only the place in it is still of use. Returns whether the
    /// entry had a place before, or has its turn.
    pub(crate) fn gives_up_answer(&mut self) -> bool {
        let is_new = self.place == 0;
        if let Some(question) = self.ahead.take() {
            match question.try_answer() {
                Some(Ok(Reply::Queued { place, .. })) => self.place = place,
                Some(answer) => {
                    self.reports = 0;
                    if is_new && is_refused(&answer) {
                        self.taken.remove(&question.node());
                    }
                }
                None => self.unanswered = Some(question),
            }
        }
        !is_new || self.has_turn()
    }
}
