//! Clients that reach the node with the queue of the permits, and no quorum.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::node::intercepted::without_memory;

/// The name of a resource whose queue the first node keeps.
fn kept_by_first(client: &Redlock) -> String {
    (0..1000).map(|number| format!("r{number}")).find(|it| is_kept_by_first(client, it)).unwrap()
}

/// That node knows that all permits are taken. An outage is no holder all the same.
#[tokio::test(start_paused = true)]
async fn a_request_without_a_quorum_says_so_although_all_permits_are_taken() {
    let fails: [fn(&MemoryNode, &AtomicBool); 3] =
        [|node, _| node.stop(), |node, _| node.hang(), |_, is_full| is_full.store(true, SeqCst)];
    for (number, fails) in fails.into_iter().enumerate() {
        for count in [1, 4] {
            let nodes = nodes(3);
            let is_full = Arc::new(AtomicBool::new(false));
            let counted = Arc::default();
            let mut specs: Vec<_> = nodes.iter().map(MemoryNode::spec).collect();
            for (spec, node) in specs.iter_mut().zip(&nodes).skip(1) {
                *spec = without_memory(node.name(), node, &is_full, &counted);
            }
            let [ours, early] = [(); 2].map(|()| Redlock::builder().ttl(TTL).over(specs.clone()));
            let theirs = client(&nodes);
            drop(ours.lock("warm").await.unwrap());
            let name = kept_by_first(&ours);
            let held = (0..count).map(|_| theirs.lock(&name).permits(count).into_future());
            let _held = try_join_all(held).await.unwrap();
            let request = |client: &Redlock| client.lock(&name).permits(count);
            let early = tokio::spawn(request(&early).wait(20 * SECOND).into_future());
            sleep(SECOND).await;
            nodes[1..].iter().for_each(|node| fails(node, &is_full));
            sleep(SECOND).await;
            let waits = tokio::spawn(request(&ours).wait(60 * SECOND).into_future());
            sleep(3 * SECOND).await;
            for wait in [Duration::ZERO, 5 * SECOND] {
                let error = request(&ours).wait(wait).await.unwrap_err();
                assert!(matches!(error, LockError::NoQuorum { .. }), "{number} {wait:?}: {error}");
            }
            waits.abort();
            // It had joined the queue before. That nodes have no memory is known once they are asked for a key.
            let error = early.await.unwrap().unwrap_err();
            let is_known = !is_full.load(SeqCst);
            assert!(matches!(error, LockError::NoQuorum { .. }) || !is_known, "{number}: {error}");
        }
    }
}

/// The task that had no answer gets a permit as soon as the nodes are back. The next one waits behind another client and
/// asks nothing.
#[tokio::test(start_paused = true)]
async fn an_outage_is_over_for_requests_behind_a_task_that_has_a_permit() {
    let nodes = nodes(3);
    let builder = || Redlock::builder().nodes(&nodes).ttl(60 * SECOND);
    let [ours, theirs] = [(); 2].map(|()| builder().build().unwrap());
    drop(ours.lock("warm").await.unwrap());
    let name = kept_by_first(&ours);
    let request = |client: &Redlock| client.lock(&name).permits(2).wait(60 * SECOND);
    let mut held = try_join_all([(); 2].map(|()| request(&theirs).into_future())).await.unwrap();
    nodes[1..].iter().for_each(MemoryNode::hang);
    let first = tokio::spawn(request(&ours).into_future());
    sleep(SECOND).await;
    let second = tokio::spawn(request(&ours).into_future());
    sleep(10 * SECOND).await;
    let error = request(&ours).wait(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    // The other client comes when no release gives it the turn.
    drop(held.pop());
    sleep(SECOND).await;
    let queue_name = queue_keys::permit(&ours.client().key(&name), 0);
    let value = format!("{:040}.other", 1);
    let mut other =
        Entry::new(&theirs.client().nodes, &queue_keys::queue_name(&queue_name).into(), value);
    assert!(matches!(other.report().await, Report::At(_)));
    nodes[1..].iter().for_each(MemoryNode::resume);
    let _first = timeout(3 * SECOND, first).await.unwrap().unwrap().unwrap();
    sleep(SECOND).await;
    for wait in [Duration::ZERO, SECOND] {
        let error = request(&ours).wait(wait).await.unwrap_err();
        assert!(error.is_held(), "{wait:?}: {error}");
    }
    assert!(!second.is_finished());
}

/// They would leave a free permit alone, one after the other.
#[tokio::test(start_paused = true)]
async fn clients_without_a_quorum_hold_up_no_client_that_has_one() {
    for had_quorum in [false, true] {
        let nodes = nodes(3);
        let [holder, healthy] = [client(&nodes), client(&nodes)];
        drop(healthy.lock("warm").await.unwrap());
        // They know two of the nodes by another way, which breaks.
        let others = self::nodes(2);
        let seen = [nodes[0].clone(), others[0].clone(), others[1].clone()];
        let cut_off: Vec<_> = (0..5).map(|_| client(&seen)).collect();
        for client in &cut_off {
            drop(client.lock("warm").await.unwrap());
        }
        let name = kept_by_first(&healthy);
        let request =
            |client: &Redlock| client.lock(&name).permits(2).wait(60 * SECOND).into_future();
        let mut held = try_join_all([request(&holder), request(&holder)]).await.unwrap();
        let breaks = async {
            others.iter().for_each(MemoryNode::stop);
            sleep(SECOND).await;
        };
        let wait = async {
            let waits = cut_off.iter().map(|client| tokio::spawn(request(client)));
            let waits: Vec<_> = waits.collect();
            sleep(5 * SECOND).await;
            waits
        };
        let waits = if had_quorum {
            let waits = wait.await;
            breaks.await;
            waits
        } else {
            breaks.await;
            wait.await
        };
        sleep(5 * SECOND).await;
        for _ in 0..8 {
            let next = tokio::spawn(request(&healthy));
            sleep(SECOND).await;
            drop(held.pop());
            let begun = Instant::now();
            held.insert(0, next.await.unwrap().unwrap());
            assert_eq!(begun.elapsed(), Duration::ZERO, "{had_quorum}");
        }
        waits.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// A request that was not sent because too many others are on their way tells nothing of the nodes.
#[tokio::test(start_paused = true)]
async fn only_an_attempt_that_was_sent_has_the_next_one_sent_while_all_permits_are_taken() {
    for was_asked in [true, false] {
        let nodes = nodes(3);
        let (ours, _held) = none_left(&nodes).await;
        let client = ours.client();
        let terms = terms(client, &LockOptions::new().permits(1));
        let (mut request, mut front) = permit_request(client, &terms, 1);
        let failure = FailedAttempt { no_quorum: true, was_asked, ..FailedAttempt::full() };
        front.failed(&Arc::new(failure));
        let outcome = request.ask_for_permits(&mut Fronts::one(front)).await.unwrap();
        assert_eq!(outcome.err().map(|it| it.was_asked), Some(was_asked));
    }
}

/// A permit is kept for a waiter with its turn for a second. No waiter that lives waits for much longer.
#[tokio::test(start_paused = true)]
async fn waiters_for_permits_that_crashed_do_not_hold_the_others_up() {
    for crashed in [1, 2] {
        let nodes = nodes(3);
        let [holder, killed, ours] = [(); 3].map(|()| client(&nodes));
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(holder.lock("r").permits(3).await.unwrap());
        }
        drop(killed.lock("warm").await.unwrap());
        let taken = Arc::clone(&held[1].hold().claim().key);
        for number in 0..crashed {
            let all = &killed.client().nodes;
            let mut entry = Entry::new(all, &taken, format!("{number:040}.waiter"));
            assert!(matches!(entry.report().await, Report::At(it) if it.ahead == number));
            std::mem::forget(entry);
        }
        let waits = tokio::spawn(ours.lock("r").permits(3).wait(60 * SECOND).into_future());
        sleep(SECOND).await;
        let begun = Instant::now();
        drop(held.remove(0));
        drop(waits.await.unwrap().unwrap());
        assert!(begun.elapsed() < SECOND * 5 / 4, "{crashed}: {:?}", begun.elapsed());
    }
}
