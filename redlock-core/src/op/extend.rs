//! Extending a lock because its holder asks for it.

use std::{sync::Arc, time::Duration};

use super::{no_quorum::no_quorum, unheard::Unheard};
use crate::{
    client::Client,
    error::LockError,
    lease::{End, Hold, Judgement},
};

/// Extends, and waits for the outcome.
pub(crate) async fn extend(
    client: &Client,
    hold: &Arc<Hold>,
    ttl: Duration,
) -> Result<(), LockError> {
    let factor = hold.lease().clock_drift_factor;
    client.settings.check_ttl("the ttl to extend by", ttl, factor)?;
    if let Judgement::Ended(end) = client.leases.judge(hold) {
        return Err(hold.lost_error(end));
    }
    client.ready().await?;
    let begun = client.nodes.clock.now();
    let (mut attempts, mut unheard): (u32, _) = (0, Unheard::new(client));
    let (round, tally) = loop {
        attempts = attempts.saturating_add(1);
        let start = client.nodes.clock.read();
        let Some(round) = client.leases.send_renewal(hold, start, Some(ttl), None) else {
            let end = match client.leases.judge(hold) {
                Judgement::Ended(end) => end,
                Judgement::Valid(_) | Judgement::Doubtful => End::Released,
            };
            return Err(hold.lost_error(end));
        };
        let tally = round.settled(&client.nodes).await;
        match client.leases.judge(hold) {
            Judgement::Ended(end) => return Err(hold.lost_error(end)),
            // The doubt came after the nodes were asked, and what they said does not clear it (rule 2).
            Judgement::Doubtful if tally.reached() => {}
            Judgement::Valid(_) if tally.reached() => return Ok(()),
            Judgement::Valid(_) | Judgement::Doubtful => {
                if !unheard.asks_again(&round.failures(), Duration::MAX).await {
                    break (round, tally);
                }
            }
        }
    };
    let (nodes, resource) = (&client.nodes, hold.resources.name());
    Err(no_quorum(nodes, resource, attempts, begun, tally.yes(), round.failures()))
}

#[cfg(test)]
mod tests {
    use std::future::IntoFuture;

    use futures_util::future::join_all;

    use super::*;
    use crate::{Redlock, testing::nodes};

    const SECOND: Duration = Duration::from_secs(1);

    /// The lock would be extended by no validity at all.
    #[tokio::test(start_paused = true)]
    async fn an_extension_needs_a_ttl_of_which_something_is_left() {
        let redlock = Redlock::in_memory(3);
        let guard = redlock.lock("r").ttl(30 * SECOND).clock_drift_factor(0.99).await.unwrap();
        let error = guard.extend(SECOND / 5).await.unwrap_err();
        assert!(
            error.to_string().contains("the ttl to extend by is 200ms, which leaves"),
            "{error}"
        );
        guard.extend(SECOND).await.unwrap();
    }

    /// The second waits for the answers to the first, and the others wait with it.
    #[tokio::test(start_paused = true)]
    async fn extensions_at_the_same_time_all_succeed() {
        let nodes = nodes(3);
        nodes.iter().for_each(|node| node.slow(SECOND / 100));
        let redlock = Redlock::builder().nodes(&nodes).max_ttl(60 * SECOND).build().unwrap();
        let guard = redlock.lock("r").ttl(10 * SECOND).await.unwrap();
        let others = (0..9).map(|number| redlock.lock(format!("other-{number}")).into_future());
        let (extended, _) = tokio::join!(
            join_all([20, 50, 30, 40].map(|seconds| guard.extend(seconds * SECOND))),
            join_all(others),
        );
        extended.into_iter().for_each(|it| it.unwrap());
        let longest = nodes[0].remaining(&guard.hold().claim().key).unwrap();
        assert!(longest > 49 * SECOND, "{longest:?}");
    }
}
