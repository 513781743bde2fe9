//! A request that tries once looks whether other clients wait, where some did a moment ago.

use std::sync::Arc;

use futures_util::{StreamExt, stream::FuturesUnordered};

use super::{Fronts, Request};
use crate::{
    error::LockError,
    node::{Action, Claim, Job, Reply},
    quorum::answer_of,
    wait::{NoTurn, grace, queue_node},
};

impl Request<'_> {
    /// Refuses the request while other clients wait in a queue that it would pass. A set looks at all of its queues at
    /// once: a request that does not wait takes one round trip for that.
    pub(super) async fn look(&mut self, fronts: &mut Fronts) -> Result<(), LockError> {
        let passed = fronts.each().filter(|front| front.stands_back());
        let queue_names: Vec<_> = passed.map(|front| Arc::clone(front.key())).collect();
        let now = self.now();
        let mut is_busy =
            queue_names.iter().any(|queue_name| self.client.queues.yields_unseen(queue_name, now));
        let mut looks = FuturesUnordered::new();
        if !is_busy {
            looks.extend(queue_names.iter().map(|queue_name| self.others_go_first(queue_name)));
        }
        while !is_busy && let Some(others_go_first) = looks.next().await {
            is_busy = others_go_first?;
        }
        drop(looks);
        if is_busy { Err(self.no_turn(&NoTurn::Busy)) } else { Ok(()) }
    }

    /// Asks whether clients in this queue go before this request. The request has no place there, so no client gives it
    /// the turn. Without this look, clients that only try once would take the lock from the first waiter again and
    /// again: after a release, only the client that released the lock is told that another one waits.
    pub(super) async fn others_go_first(&self, queue_name: &Arc<str>) -> Result<bool, LockError> {
        let (nodes, queues) = (&self.client.nodes, &self.client.queues);
        let Some(node) = queue_node(nodes, queue_name) else { return Ok(false) };
        if queues.yields_unseen(queue_name, self.now()) {
            return Ok(true);
        }
        // Of the clients that wait, the first is enough: a queue may be long.
        let claim = Arc::new(Claim::new(queue_name, String::new()));
        let looks = answer_of(nodes, node, Job::new(&claim, Action::Inspect { most: 1 }));
        let seen = self.unless_closed(looks).await?;
        let now = self.now();
        Ok(match seen {
            Ok(Reply::Inspected(seen)) => {
                queues.yields_to(queue_name, &seen, now, now + grace(nodes.round_trip()))
            }
            _ => queues.turn_of_others(queue_name, now).is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use crate::{Redlock, testing::nodes};

    #[tokio::test(start_paused = true)]
    async fn a_set_looks_at_all_of_its_queues_at_once() {
        const FAR: Duration = Duration::from_millis(10);
        let nodes = nodes(3);
        let redlock = Redlock::builder().nodes(&nodes).build().unwrap();
        drop(redlock.lock("warm").await.unwrap());
        nodes.iter().for_each(|node| node.slow(FAR));
        let names = (0..20).map(|it| it.to_string());
        let client = redlock.client();
        let now = client.nodes.clock.now();
        for name in names.clone() {
            client.queues.others_wait(&client.key(&name), now, now);
        }
        let begun = Instant::now();
        drop(redlock.lock_all(names).wait(Duration::ZERO).await.unwrap());
        assert!((2 * FAR..6 * FAR).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }
}
