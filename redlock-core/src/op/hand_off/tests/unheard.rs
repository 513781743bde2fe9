//! Adoptions that are asked again, because no task has read the answers.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use futures_util::FutureExt;

use super::*;
use crate::{
    error::{Cause, NodeError, NodeErrorKind},
    node::{Action, intercepted},
};

/// This node, whose answer to the first adoption is not heard. It has run it if it `runs` it.
fn unheard_once(node: &MemoryNode, runs: bool) -> NodeSpec {
    let (name, is_asked) = (node.spec().name, AtomicBool::new(false));
    intercepted::spec(&name.clone(), node, true, move |sender, _, commands| {
        let adopts = commands.iter().any(|it| matches!(it.action, Action::Adopt { .. }));
        if !adopts || is_asked.swap(true, SeqCst) {
            return sender.send(commands);
        }
        let error = NodeError::new(&name, NodeErrorKind::Server, "it was not heard");
        let error = NodeError { cause: Cause::Unheard, may_have_run: runs, ..error };
        let unheard = commands.iter().map(|_| Err(error.clone())).collect();
        let answers = sender.send(if runs { commands } else { Vec::new() });
        async move {
            answers.await;
            unheard
        }
        .boxed()
    })
}

/// All nodes have the new value but one, which comes round at the second question.
#[tokio::test(start_paused = true)]
async fn an_adoption_that_was_not_heard_is_asked_again_and_released_on_every_node() {
    for resources in [&["r"][..], &["a", "b"]] {
        let nodes = nodes(3);
        let specs = (0..3).map(|at| unheard_once(&nodes[at], at > 0)).collect();
        let (clock, entropy) = (Arc::new(TokioClock), Arc::new(OsEntropy));
        let new = Redlock::builder().build_over(specs, Vec::new(), clock, entropy).unwrap();
        let old = client(&nodes);
        drop(old.lock("warm").await.unwrap());
        let lease = old.lock_all(resources.iter().copied()).await.unwrap().into_lease();
        let second = copy(&lease);
        let guard = new.adopt(lease).await.unwrap();
        sleep(SECOND).await;
        assert_eq!(guard.votes(), 3);
        assert_eq!(reason(client(&nodes).adopt(second).await), LostReason::Refused);
        sleep(TTL).await;
        assert!(guard.is_valid(), "it renews itself");
        assert_eq!(guard.release().await.unwrap(), Released::Ours);
        sleep(SECOND).await;
        assert!(are_empty(&nodes), "the release has not reached the node that was asked last");
    }
}

#[tokio::test(start_paused = true)]
async fn an_adoption_is_not_asked_again_once_the_client_is_closed() {
    let nodes = nodes(3);
    let specs = nodes.iter().map(|node| unheard_once(node, true)).collect();
    let (clock, entropy) = (Arc::new(TokioClock), Arc::new(OsEntropy));
    let new = Redlock::builder().build_over(specs, Vec::new(), clock, entropy).unwrap();
    let old = client(&nodes);
    for client in [&old, &new] {
        drop(client.lock("warm").await.unwrap());
    }
    nodes.iter().for_each(|node| node.slow(SECOND / 100));
    let lease = old.lock("r").await.unwrap().into_lease();
    let (adopted, ()) = tokio::join!(new.adopt(lease), async {
        sleep(SECOND / 100).await;
        new.shutdown(Duration::ZERO).await;
    });
    assert!(matches!(adopted, Err(LockError::ShuttingDown { .. })), "{adopted:?}");
    sleep(SECOND).await;
    assert!(are_empty(&nodes), "what it had taken over is given back");
}

/// What was not heard counts from when it was asked, and the old validity has no second end (rule 7).
#[tokio::test(start_paused = true)]
async fn an_adoption_is_asked_again_for_as_long_as_the_old_validity_lasts() {
    let nodes = nodes(3);
    let specs = nodes.iter().map(|node| {
        let name = node.spec().name;
        intercepted::spec(&name.clone(), node, true, move |sender, _, commands| {
            let adopts = commands.iter().any(|it| matches!(it.action, Action::Adopt { .. }));
            let error = NodeError::new(&name, NodeErrorKind::Server, "it was not heard");
            let error = NodeError { cause: Cause::Unheard, may_have_run: true, ..error };
            let unheard: Vec<_> = commands.iter().map(|_| Err(error.clone())).collect();
            let answers = sender.send(commands);
            async move {
                if !adopts {
                    return answers.await;
                }
                answers.await;
                sleep(TTL / 4).await;
                unheard
            }
            .boxed()
        })
    });
    let (clock, entropy) = (Arc::new(TokioClock), Arc::new(OsEntropy));
    let builder = Redlock::builder().ttl(TTL).node_timeout(TTL / 3);
    let new = builder.build_over(specs.collect(), Vec::new(), clock, entropy).unwrap();
    let old = client(&nodes);
    drop(old.lock("warm").await.unwrap());
    let lease = old.lock("r").await.unwrap().into_lease();
    let begun = Instant::now();
    let error = new.adopt(lease).await.unwrap_err();
    let LockError::NoQuorum { attempts, granted: 0, .. } = error else { panic!("{error:?}") };
    assert_eq!(attempts, 4, "{:?}", begun.elapsed());
    sleep(SECOND).await;
    assert!(are_empty(&nodes), "what it may have taken over is given back");
}
