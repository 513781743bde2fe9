//! Votes that count once replicas have them ([`Node::replicas`](crate::Node::replicas)).
//!
//! A server answers a `WAIT` when enough replicas have all earlier writes of this connection, and runs
//! no later command of the connection until then. So one `WAIT` is in flight at a time: it stands for
//! all votes that were answered before it, and the votes behind it get the next one together.

use std::{sync::Arc, time::Duration};

use redis::Value;

use super::{batch::Batch, reply, server_error};
use crate::node::{Action, Reply};

/// How many replicas have to acknowledge a vote, and how long they may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) replicas: usize,
    pub(super) within: Duration,
}

/// The votes of one connection that wait for replicas.
pub(super) struct Acknowledged {
    wait: Wait,
    /// Votes that the server itself has given.
    held: Vec<Held>,
    /// A `WAIT` is in flight.
    in_flight: bool,
    /// A vote was asked for since that `WAIT`.
    again: bool,
}

struct Held {
    batch: Arc<Batch>,
    place: usize,
    reply: Reply,
}

/// A vote with the words for why it does not count, if it does not.
pub(super) type Judged = (Arc<Batch>, usize, Result<Reply, String>);

impl Acknowledged {
    pub(super) fn new(wait: Wait) -> Self {
        Self { wait, held: Vec::new(), in_flight: false, again: false }
    }

    /// A command for a vote was sent. Returns the `WAIT` to send behind it, if it is time for that.
    pub(super) fn asked(&mut self) -> Option<Wait> {
        self.again = self.in_flight;
        if self.in_flight {
            return None;
        }
        self.in_flight = true;
        Some(self.wait)
    }

    /// Whether this answer is a vote that has to wait.
    pub(super) fn concerns(action: Action, reply: &Reply) -> bool {
        needs(action) && matches!(reply, Reply::Done | Reply::There { .. } | Reply::Numbered { .. })
    }

    pub(super) fn hold(&mut self, batch: &Arc<Batch>, place: usize, reply: Reply) {
        self.held.push(Held { batch: Arc::clone(batch), place, reply });
    }

    /// The answer to the `WAIT` in flight. Returns the votes that it stands for, and the next `WAIT`
    /// to send, if votes were asked for since.
    pub(super) fn answered(&mut self, answer: &Value) -> (Vec<Judged>, Option<Wait>) {
        let problem = match answer {
            Value::Int(count)
                if usize::try_from(*count).is_ok_and(|it| it >= self.wait.replicas) =>
            {
                None
            }
            Value::Int(count) => Some(format!(
                "{count} of the {} replicas that have to acknowledge it have done so within {:?}",
                self.wait.replicas, self.wait.within
            )),
            Value::ServerError(error) => Some(server_error::explain(error, "")),
            other => Some(reply::unexpected(other, "a number of replicas")),
        };
        let judged = std::mem::take(&mut self.held).into_iter().map(|it| {
            let verdict = problem.clone().map_or(Ok(it.reply), Err);
            (it.batch, it.place, verdict)
        });
        self.in_flight = false;
        let next = if std::mem::take(&mut self.again) { self.asked() } else { None };
        (judged.collect(), next)
    }

    /// The places of the votes of this batch that wait.
    #[cfg(feature = "cluster")]
    pub(super) fn held_of(&self, batch: &Arc<Batch>) -> impl Iterator<Item = usize> {
        self.held.iter().filter(|it| Arc::ptr_eq(&it.batch, batch)).map(|it| it.place)
    }

    /// The votes that no answer will come for.
    pub(super) fn abandon(&mut self) -> Vec<(Arc<Batch>, usize)> {
        std::mem::take(&mut self.held).into_iter().map(|it| (it.batch, it.place)).collect()
    }
}

/// Whether this action asks for something that must not be lost in a failover.
pub(super) fn needs(action: Action) -> bool {
    matches!(
        action,
        Action::Grant { .. }
            | Action::GrantFenced { .. }
            | Action::Adopt { .. }
            | Action::Heal { .. }
            | Action::Extend { .. }
            | Action::Redraw { .. }
            | Action::Confirm(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Claim, Command};

    const WAIT: Wait = Wait { replicas: 2, within: Duration::from_millis(20) };

    fn batch() -> Arc<Batch> {
        let claim = Arc::new(Claim::new(&"k".into(), "v".to_owned()));
        let action = Action::Grant { ttl: Duration::from_secs(1) };
        Batch::new(vec![Command { claim, action }])
    }

    #[test]
    fn one_wait_stands_for_all_votes_before_it() {
        let mut votes = Acknowledged::new(WAIT);
        assert_eq!(votes.asked(), Some(WAIT));
        assert_eq!(votes.asked(), None, "one is in flight");
        votes.hold(&batch(), 0, Reply::Done);
        let (judged, next) = votes.answered(&Value::Int(2));
        assert!(matches!(&judged[..], [(_, 0, Ok(Reply::Done))]));
        assert_eq!(next, Some(WAIT), "for the votes behind the first");
        assert_eq!(votes.answered(&Value::Int(2)).1, None);
        assert_eq!(votes.asked(), Some(WAIT));
    }

    #[test]
    fn too_few_replicas_fail_the_vote_and_say_how_many_there_were() {
        for (answer, words) in [
            (Value::Int(1), "1 of the 2 replicas"),
            (Value::Int(-1), "-1 of the 2"),
            (Value::Nil, "answered nil"),
        ] {
            let mut votes = Acknowledged::new(WAIT);
            assert!(votes.asked().is_some());
            votes.hold(&batch(), 0, Reply::Done);
            let (judged, _) = votes.answered(&answer);
            let [(_, 0, Err(why))] = &judged[..] else { panic!("{answer:?} is a vote") };
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn only_votes_wait_and_refusals_do_not() {
        let grant = Action::Grant { ttl: Duration::from_secs(1) };
        assert!(Acknowledged::concerns(grant, &Reply::Done));
        assert!(!Acknowledged::concerns(grant, &Reply::Foreign));
        assert!(!Acknowledged::concerns(
            Action::Release { wakes: Default::default() },
            &Reply::Done
        ));
    }
}
