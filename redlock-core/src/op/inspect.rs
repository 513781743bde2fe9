//! The operations of operators: look at a lock, and take it away from its holder.

use std::{mem, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    client::Client,
    error::{LockError, NodeError, NodeErrorKind},
    node::{Action, Claim, Job, Reply, ReplySink, deliver},
    quorum::{Round, Tally, ask, twin},
    resources::check,
    runtime::check_runtime,
    status::LockStatus,
    telemetry,
    timer::timeout,
    token,
    wait::queue_node,
};

/// Asks every node what it knows of the lock, and waits for all of them.
pub(crate) async fn inspect(client: &Client, resource: &str) -> Result<LockStatus, LockError> {
    check(resource)?;
    client.ready().await?;
    let nodes = &client.nodes;
    let key = client.key(resource);
    let answers = Answers::new(nodes.len());
    let claim = Arc::new(Claim::new(&key, String::new()));
    let job = Job::new(&claim, Action::Inspect);
    deliver(ask(nodes, &answers, nodes.clock.now(), |_| Some(job.clone())));
    // Each command is bounded where it is sent. This limit is for the case that no task is left to
    // send it.
    let _ = timeout(nodes.give_up_after(), answers.complete()).await;
    check_runtime()?;
    let given = answers.take();
    let named = nodes.iter().zip(given).enumerate().map(|(index, (node, given))| {
        let missing = || NodeError::new(node.name(), NodeErrorKind::Timeout, "it did not answer");
        let seen = match given {
            // Two names may have shown that they are one server when they were asked: it has one vote
            // (rule 16).
            Some(Ok(Reply::Seen(seen))) => twin(nodes, index).map_or(Ok(seen), Err),
            Some(Err(error)) => Err(error),
            Some(Ok(_)) | None => Err(missing()),
        };
        (Arc::clone(node.name()), seen)
    });
    Ok(LockStatus::of(named.collect(), queue_node(nodes, &key)))
}

/// Takes the lock away from its holder, which loses it at its next renewal. The keys stay for the rest
/// of their time, so that no other client gets the lock before the holder's time is over.
pub(crate) async fn force_release(client: &Client, resource: &str) -> Result<(), LockError> {
    take_away(client, resource, |_| Action::TakeAway).await
}

/// Deletes the lock, whichever client holds it.
pub(crate) async fn force_release_now(client: &Client, resource: &str) -> Result<(), LockError> {
    let queue = queue_node(&client.nodes, &client.key(resource));
    take_away(client, resource, |node| Action::Clear { wakes: queue == Some(node) }).await
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
    let value = token::fresh_value(&*client.entropy, &client.settings.client_name)?;
    let claim = Arc::new(Claim::new(&client.key(resource), value));
    // All nodes are asked, not a quorum of them: a lock that stays on some nodes may block other
    // clients for long.
    let round = Round::new(nodes.len(), Tally::is_complete);
    deliver(ask(nodes, &round, begun, |node| Some(Job::new(&claim, action(node)))));
    let tally = round.settled(nodes, nodes.give_up_after()).await;
    telemetry::forced(resource, tally.yes(), nodes.len());
    if tally.answered() {
        return Ok(());
    }
    check_runtime()?;
    Err(LockError::NoQuorum {
        resource: resource.to_owned(),
        attempts: 1,
        waited: nodes.clock.now().since(begun),
        granted: tally.yes(),
        quorum: nodes.quorum(),
        nodes: round.failures(),
    })
}

/// The answers of all nodes.
struct Answers {
    given: Mutex<Vec<Option<Result<Reply, NodeError>>>>,
    changed: Notify,
}

impl Answers {
    fn new(nodes: usize) -> Arc<Self> {
        let given = std::iter::repeat_with(|| None).take(nodes).collect();
        Arc::new(Self { given: Mutex::new(given), changed: Notify::new() })
    }

    async fn complete(&self) {
        while !self.given.lock().iter().all(Option::is_some) {
            self.changed.notified().await;
        }
    }

    fn take(&self) -> Vec<Option<Result<Reply, NodeError>>> {
        mem::take(&mut self.given.lock())
    }
}

impl ReplySink for Answers {
    fn receive(self: Arc<Self>, node: usize, result: Result<Reply, NodeError>) {
        if let Some(slot @ None) = self.given.lock().get_mut(node) {
            *slot = Some(result);
        }
        self.changed.notify_one();
    }
}
