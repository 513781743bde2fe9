//! A request that tries once looks whether other clients wait, where some did a moment ago.

use std::sync::Arc;

use super::{Fronts, Request};
use crate::{
    error::LockError,
    node::{Action, Claim, Job, Reply},
    quorum::answer_of,
    wait::{NoTurn, grace, queue_node},
};

impl Request<'_> {
    /// Refuses the request while other clients wait in a queue that it would pass.
    pub(super) async fn look(&mut self, fronts: &mut Fronts) -> Result<(), LockError> {
        for front in fronts.each().filter(|front| front.stands_back()) {
            if self.others_go_first(front.key()).await? {
                return Err(self.no_turn(&NoTurn::Busy));
            }
        }
        Ok(())
    }

    /// Asks whether clients in this queue go before a request that has no place there: no client gives it the turn.
    /// Several clients that only try once would take the lock from the first waiter again and again: of each
    /// release, only the client that releases hears that another one waits.
    pub(super) async fn others_go_first(&self, line: &Arc<str>) -> Result<bool, LockError> {
        let (nodes, queues) = (&self.client.nodes, &self.client.queues);
        let Some(node) = queue_node(nodes, line) else { return Ok(false) };
        if queues.yields_unseen(line, self.now()) {
            return Ok(true);
        }
        let claim = Arc::new(Claim::new(line, String::new()));
        let looks = answer_of(nodes, node, Job::new(&claim, Action::Inspect));
        let seen = self.unless_closed(looks).await?;
        let now = self.now();
        Ok(match seen {
            Ok(Reply::Seen(seen)) => {
                queues.yields_to(line, &seen, now, now + grace(nodes.round_trip()))
            }
            _ => queues.turn_of_others(line, now).is_some(),
        })
    }
}
