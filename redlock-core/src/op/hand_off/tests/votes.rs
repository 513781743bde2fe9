//! Which nodes vote for an adoption.

use std::sync::atomic::AtomicUsize;

use futures_util::FutureExt;

use super::*;
use crate::{
    LockGuard,
    node::intercepted::{self, without_run_id},
};

async fn assert_whole_at_the_next_renewal(adopted: LockGuard, nodes: &[MemoryNode]) {
    sleep(TTL).await;
    assert_eq!(adopted.votes(), 3);
    assert_released_everywhere(adopted, nodes).await;
}

async fn assert_released_everywhere(adopted: LockGuard, nodes: &[MemoryNode]) {
    assert_eq!(adopted.release().await.unwrap(), Released::Ours);
    sleep(SECOND).await;
    assert!(are_empty(nodes));
}

/// Its `SET` may have waited for as long as another client had the lock.
#[tokio::test(start_paused = true)]
async fn a_node_that_had_not_confirmed_the_lock_gives_no_vote_for_an_adoption() {
    for (late, tells_run_id) in [(true, true), (false, true), (true, false), (false, false)] {
        let nodes = nodes(3);
        let refuses = Arc::new(AtomicBool::new(false));
        let client = |first| {
            let specs = [first, nodes[1].spec(), nodes[2].spec()];
            let told = |it| if tells_run_id { it } else { without_run_id(it) };
            Redlock::builder().ttl(TTL).over(specs.map(told).to_vec())
        };
        let old = client(without_deletes(&nodes[0], &refuses));
        let new = client(nodes[0].spec());
        for client in [&old, &new] {
            drop(client.lock("warm").await.unwrap());
        }
        sleep(SECOND).await;
        refuses.store(true, SeqCst);
        nodes[0].slow(SECOND / 100);
        let guard = old.lock("r").await.unwrap();
        sleep(if late { Duration::ZERO } else { SECOND / 10 }).await;
        let lease = sent(guard.into_lease());
        sleep(SECOND).await;
        nodes[0].slow(Duration::ZERO);
        nodes[1].remove("redlock:r");
        assert_eq!(nodes[0].keys(), ["redlock:r"], "late or not, it is there");
        let adopted = new.adopt(lease).await;
        if late {
            let Err(LockError::NoQuorum { granted, nodes, .. }) = &adopted else {
                panic!("{adopted:?}")
            };
            assert_eq!((*granted, nodes.len()), (1, 1));
            assert!(nodes[0].to_string().contains("had no answer from it"), "{}", nodes[0]);
        } else {
            assert_eq!(adopted.as_ref().unwrap().votes(), 2);
        }
        drop(adopted);
        sleep(SECOND).await;
        assert!(are_empty(&nodes), "what was taken over is given back");
    }
}

/// Its `SET` runs after the adoption. The key of the giver would keep the adopter from a third vote, and other clients
/// from this node after the release.
#[tokio::test(start_paused = true)]
async fn a_node_that_sets_the_key_after_the_adoption_has_a_vote_again_at_the_next_renewal() {
    for resources in [&["r"][..], &["a", "b"]] {
        let nodes = nodes(3);
        let far = intercepted::far_away("far", &nodes[0], SECOND / 20);
        let old = Redlock::builder().ttl(TTL).over(vec![far, nodes[1].spec(), nodes[2].spec()]);
        let new = client(&nodes);
        for client in [&old, &new] {
            drop(client.lock("warm").await.unwrap());
        }
        sleep(SECOND).await;
        let lease = old.lock_all(resources.iter().copied()).await.unwrap().into_lease();
        let adopted = new.adopt(lease).await.unwrap();
        assert!(nodes[0].keys().is_empty() && adopted.votes() == 2);
        assert_whole_at_the_next_renewal(adopted, &nodes).await;
    }
}

/// It keeps the value of the giver, which no renewal and no release of the adopter would find.
#[tokio::test(start_paused = true)]
async fn a_node_that_missed_the_adoption_has_a_vote_again_at_the_next_renewal() {
    for (resources, is_renewed) in [(&["r"][..], true), (&["a", "b"], true), (&["r"], false)] {
        let nodes = nodes(3);
        let old = client(&nodes);
        let adopts = |action| matches!(action, Action::Adopt { .. });
        let unreached =
            NodeError::new(&nodes[0].name().into(), NodeErrorKind::Disconnected, "reset");
        let misses = answering("misses", &nodes[0], &Arc::new(true.into()), adopts, Err(unreached));
        let new = Redlock::builder().over(vec![misses, nodes[1].spec(), nodes[2].spec()]);
        for client in [&old, &new] {
            drop(client.lock("warm").await.unwrap());
        }
        sleep(SECOND).await;
        let lease = old.lock_all(resources.iter().copied()).await.unwrap().into_lease();
        let adopted = new.adopt(sent(lease)).await.unwrap();
        assert_eq!(adopted.votes(), 2);
        if is_renewed {
            assert_whole_at_the_next_renewal(adopted, &nodes).await;
        } else {
            assert_released_everywhere(adopted, &nodes).await;
        }
    }
}

/// The release of the adopter withdraws the question from a node that is not connected yet.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_not_asked_before_the_release_keeps_nothing_of_the_giver() {
    let nodes = nodes(3);
    let late = intercepted::slow_to_connect("late", &nodes[0], SECOND / 50);
    let new = Redlock::builder().over(vec![late, nodes[1].spec(), nodes[2].spec()]);
    let lease = client(&nodes).lock("r").await.unwrap().into_lease();
    assert_released_everywhere(new.adopt(lease).await.unwrap(), &nodes).await;
}

/// The others gave the lock long before.
#[tokio::test(start_paused = true)]
async fn a_node_that_misses_the_adoption_after_the_others_gave_the_lock_votes_again() {
    for kind in [NodeErrorKind::Server, NodeErrorKind::Timeout] {
        let (nodes, deletes) = (nodes(3), Arc::new(AtomicUsize::new(0)));
        let seen = Arc::clone(&deletes);
        let name: Arc<str> = nodes[0].name().into();
        let misses = intercepted::spec("misses", &nodes[0], true, move |sender, _, commands| {
            let error = NodeError::new(&name, kind, "it has much to do");
            match commands[0].action {
                Action::Adopt { .. } => {}
                // The first one is refused, too, and none gives a turn: the lock stays taken.
                Action::Release { wakes } if commands[0].claim.key.ends_with('r') => {
                    let before = seen.fetch_add(1, SeqCst);
                    assert!(wakes.is_none() || before > 1);
                    if before > 0 {
                        return sender.send(commands);
                    }
                }
                _ => return sender.send(commands),
            }
            async move {
                sleep(SECOND / 100).await;
                commands.iter().map(|_| Err(error.clone())).collect()
            }
            .boxed()
        });
        let new = Redlock::builder().over(vec![misses, nodes[1].spec(), nodes[2].spec()]);
        drop(new.lock("warm").await.unwrap());
        let lease = client(&nodes).lock("r").await.unwrap().into_lease();
        let adopted = new.adopt(lease).await.unwrap();
        assert_eq!(nodes[0].keys(), ["redlock:r"], "it has yet to answer");
        sleep(2 * SECOND).await;
        assert_eq!(deletes.load(SeqCst), 2);
        assert_whole_at_the_next_renewal(adopted, &nodes).await;
    }
}

/// A delete of the value of the giver would overtake the question.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_slow_to_answer_an_adoption_gives_its_vote() {
    for connects in [true, false] {
        let nodes = nodes(3);
        let slow = if connects {
            intercepted::slow_to_connect("slow", &nodes[0], SECOND / 50)
        } else {
            intercepted::far_away("slow", &nodes[0], SECOND / 50)
        };
        let new = Redlock::builder().over(vec![slow, nodes[1].spec(), nodes[2].spec()]);
        let lease = client(&nodes).lock("r").auto_extend(false).await.unwrap().into_lease();
        let adopted = new.adopt(lease).await.unwrap();
        assert_eq!(adopted.votes(), 2);
        sleep(SECOND).await;
        assert_eq!(adopted.votes(), 3, "{connects}");
    }
}

/// It would be owed one for each adoption while it is away (rule 18).
#[tokio::test(start_paused = true)]
async fn a_node_that_is_down_is_owed_no_delete_for_an_adoption() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    new.lock("warm").await.unwrap().release().await.unwrap();
    sleep(SECOND).await;
    nodes[0].stop();
    sleep(SECOND).await;
    let mut adopted = Vec::new();
    for resource in ["a", "b", "c"] {
        let lease = old.lock(resource).await.unwrap().into_lease();
        adopted.push(new.adopt(lease).await.unwrap());
    }
    assert!(new.health().await.iter().all(|node| node.pending_cleanups == 0));
}

/// It has the key of the giver for certain. A delete would cost the adopter this node.
#[tokio::test(start_paused = true)]
async fn a_node_that_has_set_the_key_keeps_it_though_it_missed_the_last_renewal() {
    let nodes = nodes(3);
    let old = client(&nodes);
    let guard = old.lock("r").await.unwrap();
    sleep(SECOND).await;
    nodes[0].hang();
    sleep(TTL / 3 + SECOND / 2).await;
    drop(guard.into_lease());
    nodes[0].resume();
    sleep(SECOND).await;
    assert_eq!(nodes[0].keys(), ["redlock:r"]);
}

/// To clients that know the server by one name alone, it would be one vote less.
#[tokio::test(start_paused = true)]
async fn a_server_that_was_asked_under_one_of_its_names_has_confirmed_the_lock() {
    let nodes = nodes(2);
    let alias = NodeSpec { name: "alias".into(), ..nodes[0].spec() };
    let specs = vec![nodes[0].spec(), nodes[1].spec(), alias];
    let old = Redlock::builder().over(specs);
    drop(old.lock("warm").await.unwrap());
    let lease = old.lock("r").await.unwrap().into_lease();
    assert_eq!(client(&nodes).adopt(lease).await.unwrap().votes(), 2);
}

/// While a client connects to a server under a second name, nothing shows yet that it is the same server.
#[tokio::test(start_paused = true)]
async fn a_server_with_two_names_has_one_vote_for_an_adoption() {
    for is_first in [true, false] {
        let nodes = nodes(2);
        let lease = client(&nodes).lock("r").await.unwrap().into_lease();
        nodes[1].remove("redlock:r");
        let (at_once, late) =
            (nodes[0].spec(), intercepted::slow_to_connect("late", &nodes[0], SECOND / 100));
        let mut specs = vec![at_once, nodes[1].spec(), late];
        if !is_first {
            specs.swap(0, 2);
        }
        let new = Redlock::builder().over(specs);
        let Err(LockError::NoQuorum { granted, nodes, .. }) = new.adopt(lease).await else {
            panic!("one server is no quorum");
        };
        let twin = nodes.iter().find(|it| it.kind == NodeErrorKind::Twin).unwrap();
        assert!(granted == 1 && twin.may_have_run, "{nodes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_vote_for_an_adoption_renews_the_lock_with_the_others() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    drop(new.lock("warm").await.unwrap());
    let guard = old.lock("r").await.unwrap();
    nodes[0].hang();
    sleep(TTL / 2).await;
    // It had confirmed the lock, and has not answered the last renewal.
    let lease = guard.into_lease();
    nodes[0].resume();
    sleep(SECOND).await;
    let adopted = new.adopt(lease).await.unwrap();
    sleep(SECOND / 10).await;
    assert_eq!(adopted.votes(), 2);
    assert_whole_at_the_next_renewal(adopted, &nodes).await;
}

/// A node that may have forgotten locks may also remember one that was handed on before.
#[tokio::test(start_paused = true)]
async fn a_node_that_sits_out_gives_no_vote_for_an_adoption() {
    let nodes = nodes(3);
    let (old, new) = (client(&nodes), client(&nodes));
    drop(new.lock("warm").await.unwrap());
    let lease = old.lock("r").await.unwrap().into_lease();
    for node in &nodes[..2] {
        node.stop();
        node.start();
    }
    sleep(SECOND).await;
    let error = new.adopt(lease).await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("it restarted"), "{error}");
}
