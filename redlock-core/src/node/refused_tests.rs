//! Deletes that a node refuses.

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::FutureExt;
use tokio::time::sleep;

use super::{Action, intercepted::intercepted};
use crate::{NodeError, NodeErrorKind, Redlock};

/// A server that is busy with a script, or cannot write to its disk, answers with an error. The key would stay for its
/// ttl (rule 5).
#[tokio::test(start_paused = true)]
async fn a_delete_that_is_refused_is_sent_again() {
    let deletes = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&deletes);
    let spec = intercepted("a:1", move |sender, _, commands| {
        let is_delete = |action| matches!(action, Action::Release { .. });
        let is_refused =
            commands.iter().any(|it| is_delete(it.action)) && seen.fetch_add(1, SeqCst) == 0;
        if is_refused {
            let error = NodeError::new(&"a:1".into(), NodeErrorKind::Server, "MISCONF");
            return ready(vec![Err(error); commands.len()]).boxed();
        }
        sender.send(commands)
    });
    let redlock = Redlock::builder().ttl(Duration::from_secs(60)).over(vec![spec]);
    drop(redlock.lock("r").await.unwrap());
    sleep(Duration::from_millis(500)).await;
    assert!(redlock.try_lock("r").await.unwrap_err().is_held(), "the key is there");
    sleep(Duration::from_secs(6)).await;
    assert!(redlock.try_lock("r").await.is_ok());
}
