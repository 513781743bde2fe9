//! Ending in order: bodies first, then their locks, then the clean-up (rule 13).

use std::{sync::Arc, time::Duration};

use crate::{
    background::in_runtime,
    bug::{Bug, planted},
    client::Client,
    node::NodeHandle,
    op::release,
};

/// How long locks may take to go once their bodies were told (api.md: grace plus 2 s).
const LAST: Duration = Duration::from_secs(2);

/// How often to ask the nodes whether they are done.
const LOOK: Duration = Duration::from_millis(5);

pub(crate) async fn shutdown(client: &Arc<Client>, grace: Duration) {
    client.ensure_running();
    client.close();
    if planted(Bug::ShutdownReleasesFirst) {
        client.registry.all().iter().for_each(|hold| release::delete_everywhere(hold));
    }
    if in_runtime() {
        let _ = tokio::time::timeout(grace, client.registry.until(<[_]>::is_empty)).await;
    }
    release::end_all(client, false);
    finish(client).await;
}

pub(crate) async fn release_all(client: &Arc<Client>) {
    client.ensure_running();
    release::end_all(client, true);
    finish(client).await;
}

/// Waits until the bodies that were told have gone and every node that answers has confirmed;
/// outside a runtime, where nobody can wait, it is left to the background.
async fn finish(client: &Client) {
    if !in_runtime() {
        return;
    }
    let finished = async {
        client
            .registry
            .until(|holds| !holds.iter().any(|hold| hold.is_body() && hold.is_over()))
            .await;
        while !client.nodes.iter().all(NodeHandle::is_drained) {
            tokio::time::sleep(LOOK).await;
        }
    };
    let _ = tokio::time::timeout(LAST, finished).await;
}
