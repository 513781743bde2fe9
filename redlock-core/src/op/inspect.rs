//! The operations of operators: look at a lock, and take it away from its holder.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;

use super::{no_quorum::no_quorum, unheard::Unheard};
use crate::{
    client::Client,
    error::{LockError, NodeError, NodeErrorKind},
    node::{Action, Claim, Job, Reply},
    quorum::{Tally, Twins, Vote, answer_of},
    resources::check,
    runtime::check_runtime,
    status::LockStatus,
    telemetry,
    wait::queue_node,
};

/// Asks every node what it knows of the lock, and waits for all of them.
pub(crate) async fn inspect(client: &Client, resource: &str) -> Result<LockStatus, LockError> {
    check(resource)?;
    client.ready().await?;
    let key = client.key(resource);
    let claim = Arc::new(Claim::new(&key, String::new()));
    let mut unheard = Unheard::new(client);
    let answers = loop {
        let answers = ask_all(client, &claim, |_| Action::Inspect { most: 0 }).await;
        let failures: Vec<_> =
            answers.iter().filter_map(|(_, answer)| answer.as_ref().err().cloned()).collect();
        if !unheard.asks_again(&failures, Duration::MAX).await {
            break answers;
        }
    };
    check_runtime()?;
    let seen = answers.into_iter().map(|(name, answer)| {
        let seen = match answer {
            Ok(Reply::Inspected(seen)) => Ok(seen),
            Err(error) => Err(error),
            Ok(_) => Err(NodeError::new(
                &name,
                NodeErrorKind::Server,
                "this answer is to another question",
            )),
        };
        (name, seen)
    });
    Ok(LockStatus::of(seen.collect(), queue_node(&client.nodes, &key)))
}

/// Takes the lock away from its holder, which loses it at its next renewal. The keys stay for the rest
/// of their time, so that no other client gets the lock before the holder's time is over.
pub(crate) async fn force_release(client: &Client, resource: &str) -> Result<(), LockError> {
    take_away(client, resource, |_| Action::TakeAway).await
}

/// Deletes the lock, whichever client holds it.
pub(crate) async fn force_release_now(client: &Client, resource: &str) -> Result<(), LockError> {
    let key = client.key(resource);
    // Looked up as the nodes are asked: before they are connected, none keeps the queue.
    let wakes = |node| queue_node(&client.nodes, &key) == Some(node);
    take_away(client, resource, |node| Action::Clear { wakes: wakes(node) }).await
}

async fn take_away(
    client: &Client,
    resource: &str,
    action: impl Fn(usize) -> Action,
) -> Result<(), LockError> {
    check(resource)?;
    client.ready().await?;
    let nodes = &client.nodes;
    let begun = nodes.clock.now();
    // No client has this value, so no client can renew or release a key that has it.
    let value = client.fresh_value()?;
    let claim = Arc::new(Claim::new(&client.key(resource), value));
    let mut unheard = Unheard::new(client);
    let (tally, failures) = loop {
        let (tally, failures) = take_away_once(client, &claim, &action).await;
        // A lock that a quorum has given up may be that of the next holder already.
        if tally.answered() || !unheard.asks_again(&failures, Duration::MAX).await {
            break (tally, failures);
        }
    };
    telemetry::forced(resource, tally.yes(), nodes.len());
    if tally.answered() {
        return Ok(());
    }
    Err(no_quorum(nodes, resource, 1, begun, tally.yes(), failures))
}

async fn take_away_once(
    client: &Client,
    claim: &Arc<Claim>,
    action: impl Fn(usize) -> Action,
) -> (Tally, Vec<NodeError>) {
    let mut tally = Tally::new(client.nodes.len());
    let mut failures = Vec::new();
    for (_, answer) in ask_all(client, claim, action).await {
        match answer {
            Ok(Reply::Done | Reply::Woke { deleted: true, .. }) => tally.count(Vote::Yes),
            Ok(_) => tally.count(Vote::No),
            Err(error) => {
                tally.count(Vote::Failed);
                failures.push(error);
            }
        }
    }
    (tally, failures)
}

/// The answer of each node, beside its name. All nodes are asked and waited for, not a quorum of them:
/// a lock that stays on some nodes may block other clients for long.
async fn ask_all(
    client: &Client,
    claim: &Arc<Claim>,
    action: impl Fn(usize) -> Action,
) -> Vec<(Arc<str>, Result<Reply, NodeError>)> {
    let nodes = &client.nodes;
    let twins = Twins::of(nodes);
    let answers = (0..nodes.len()).map(|index| {
        let job = Job::new(claim, action(index));
        let refusal = twins.refusal(nodes, index);
        async move {
            match refusal {
                Some(refusal) => Err(refusal),
                None => answer_of(nodes, index, job).await,
            }
        }
    });
    let mut answers = join_all(answers).await;
    // Two names may have shown that they are one server as they were asked: it has one vote (rule 16).
    let twins = Twins::preferring(nodes, |index| answers.get(index).is_some_and(Result::is_ok));
    for (index, answer) in answers.iter_mut().enumerate() {
        if answer.is_ok()
            && let Some(refusal) = twins.refusal(nodes, index)
        {
            *answer = Err(refusal);
        }
    }
    let names = nodes.names.iter().map(Arc::clone);
    names.zip(answers).collect()
}
