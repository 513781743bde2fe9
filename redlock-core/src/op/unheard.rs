//! Asks the nodes again where no task has read what they said: the tasks of the nodes have ended with their
//! runtime, or stand still on it (rule 13).

use std::time::Duration;

use crate::{
    client::Client,
    error::{Cause, NodeError},
    timer::{sleep, timeout},
};

/// How often one question is asked again. Each time, a runtime has ended meanwhile, or stands still.
const MAX_AGAIN: u32 = 8;

/// A question that may have to be asked again.
pub(super) struct Unheard<'c> {
    client: &'c Client,
    asked_again: u32,
}

impl<'c> Unheard<'c> {
    pub(super) fn new(client: &'c Client) -> Self {
        Self { client, asked_again: 0 }
    }

    /// Whether to ask again, because no task has read the answers. Starts the tasks again or takes them over, and
    /// waits for their connections, for about `left` at most. False if `left` is zero.
    pub(super) async fn asks_again(&mut self, failures: &[NodeError], left: Duration) -> bool {
        let Self { client, asked_again } = self;
        let nodes = &client.nodes;
        if failures.is_empty() || *asked_again == MAX_AGAIN || left.is_zero() {
            return false;
        }
        *asked_again += 1;
        if failures.iter().any(|failure| failure.cause == Cause::Unheard) {
            client.ensure_running();
        } else {
            let now = nodes.clock.now();
            let late_at = nodes.late_at(now).filter(|at| at.since(now) < left);
            let Some(late_at) = late_at else { return false };
            sleep(late_at.since(now)).await;
            if !nodes.ensure_moving(nodes.clock.now()) {
                return false;
            }
        }
        // The question finds out whether there is a quorum.
        let _ = timeout(left, nodes.wait_until_ready()).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryNode, NodeErrorKind, Redlock};

    #[tokio::test(start_paused = true)]
    async fn an_unheard_question_is_asked_again_while_there_is_time_and_no_other() {
        let redlock = Redlock::builder().nodes([&MemoryNode::new()]).build().unwrap();
        let failed = NodeError::new(&"n".into(), NodeErrorKind::Timeout, "it did not answer");
        let unheard = NodeError { cause: Cause::Unheard, ..failed.clone() };
        let mut asks = Unheard::new(redlock.client());
        let second = Duration::from_secs(1);
        assert!(!asks.asks_again(&[], second).await);
        assert!(!asks.asks_again(std::slice::from_ref(&failed), second).await, "its task goes on");
        let unheard = [failed, unheard];
        assert!(!asks.asks_again(&unheard, Duration::ZERO).await, "the time is over");
        assert!(asks.asks_again(&unheard, second).await);
        let mut times = 0;
        while asks.asks_again(&unheard, second).await {
            times += 1;
            assert!(times <= MAX_AGAIN, "it goes on for ever");
        }
    }
}
