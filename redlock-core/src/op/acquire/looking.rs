//! A request that tries once looks whether other clients wait, where some did a moment ago.

use std::sync::Arc;

use super::{Fronts, Request};
use crate::{
    error::LockError,
    node::{Action, Claim, Job, Reply},
    quorum::answer_of,
    wait::{NoTurn, queue_node},
};

impl Request<'_> {
    /// Refuses the request while other clients wait in a queue that it would pass. It has no place there, so no
    /// client gives it the turn. Several clients that only try once would take the lock from the first waiter again
    /// and again: of each release, only the client that releases hears that another one waits.
    pub(super) async fn look(&mut self, fronts: &mut Fronts) -> Result<(), LockError> {
        let nodes = &self.client.nodes;
        for front in fronts.each().filter(|front| front.stands_back()) {
            let Some(node) = queue_node(nodes, front.key()) else { continue };
            let claim = Arc::new(Claim::new(front.key(), String::new()));
            let is_busy = front.yields_unseen() || {
                let looks = answer_of(nodes, node, Job::new(&claim, Action::Inspect));
                match self.unless_closed(looks).await? {
                    Ok(Reply::Seen(seen)) => front.yields_to(&seen),
                    _ => front.turn_of_others().is_some(),
                }
            };
            if is_busy {
                return Err(self.no_turn(&NoTurn::Busy));
            }
        }
        Ok(())
    }
}
