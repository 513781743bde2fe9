//! What a request makes of the permits that a node has found.

use std::iter;

use futures_util::FutureExt;

use super::*;
use crate::{
    node::{
        Command, NodeSpec, Reply, Told,
        intercepted::{overheard, without_memory},
    },
    sync::Mutex,
    wait::{PendingTurn, Wants},
};

const MS: Duration = Duration::from_millis(1);
const ROUND_TRIP: Duration = Duration::from_millis(20);

/// The numbers that each of the nodes says that it has found, unless there are none.
type Found = Arc<Mutex<Vec<u32>>>;

/// Nodes that answer after a `ROUND_TRIP`, and for the permit with the number 1 a quarter later.
fn nodes_that_find() -> (Found, Vec<NodeSpec>) {
    let found = Found::default();
    let node = |name| {
        let found = Arc::clone(&found);
        intercepted(name, move |sender, _, commands| {
            let found = Arc::clone(&found);
            let finds = |action| matches!(action, Action::FindPermits { .. });
            let finds: Vec<_> = commands.iter().map(|it| finds(it.action)).collect();
            let is_late = commands.iter().any(|it| it.claim.key.ends_with(":permit:1"));
            let answers = sender.send(commands);
            Box::pin(async move {
                sleep(if is_late { ROUND_TRIP * 5 / 4 } else { ROUND_TRIP }).await;
                let mut answers = answers.await;
                let free = found.lock().clone();
                let lies = answers.iter_mut().zip(finds).filter(|(_, finds)| *finds);
                if !free.is_empty() {
                    lies.for_each(|(it, _)| {
                        *it = Ok(Reply::Permits { free: free.clone(), told: Told::default() })
                    });
                }
                answers
            })
        })
    };
    let nodes = ["a", "b", "c"].map(node).into();
    (found, nodes)
}

async fn warm_client(nodes: &[NodeSpec]) -> Redlock {
    let redlock = Redlock::builder().ttl(TTL).over(nodes.to_vec());
    drop(redlock.lock("warm").await.unwrap());
    redlock
}

/// A task behind the front of this queue that wants a permit on these terms.
fn behind(client: &Client, front: &Front, options: &LockOptions) -> PendingTurn {
    let (wants, now) = (Wants::new(&terms(client, options), false), client.nodes.clock.now());
    let Joined::Waiting(pending) = client.queues.join(front.key(), wants, now) else {
        panic!("it is not behind the front");
    };
    pending
}

/// What is left of a permit after round trips that are long must suit the next task.
#[tokio::test(start_paused = true)]
async fn a_request_has_a_permit_found_for_each_task_behind_it_that_could_use_it() {
    let (_, nodes) = nodes_that_find();
    let redlock = warm_client(&nodes).await;
    let client = redlock.client();
    for (ttl, count) in [(TTL, 2), (ROUND_TRIP * 8 + MS, 2), (ROUND_TRIP * 8 - MS, 0)] {
        let options = LockOptions::new().permits(9).ttl(ttl);
        let terms = terms(client, &options);
        let (mut request, mut front) = permit_request(client, &terms, 9);
        let fewer = options.clone().permits(8);
        let _behind = [&options, &options, &fewer, &options].map(|it| behind(client, &front, it));
        assert!(request.find_number(&mut front).await.unwrap());
        assert_eq!(request.permits.unwrap().spare.len(), count, "{ttl:?}");
    }
}

/// The permit was found free, and another client was faster.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_refused_its_permit_has_the_first_one_of_those_for_other_tasks() {
    let (found, nodes) = nodes_that_find();
    let [redlock, other] = [warm_client(&nodes).await, warm_client(&nodes).await];
    let permits = (0..3).map(|_| other.lock("r").permits(3).into_future());
    let mut held = try_join_all(permits).await.unwrap();
    let permit = || redlock.lock("r").permits(3).wait(60 * SECOND).into_future();
    let first = tokio::spawn(permit());
    sleep(SECOND).await;
    let second = tokio::spawn(permit());
    sleep(SECOND).await;
    let is_second = |guard: &crate::LockGuard| guard.hold().claim().key.ends_with(":2");
    let released = held.remove(held.iter().position(is_second).unwrap());
    *found.lock() = vec![0, 2];
    drop(released);
    let first = timeout(SECOND, first).await.unwrap().unwrap().unwrap();
    assert!(is_second(&first) && !second.is_finished());
    found.lock().clear();
    drop(first);
    drop(timeout(SECOND, second).await.unwrap().unwrap().unwrap());
}

/// It gives its place up once it has a permit, and not before: the release that gave it the turn has taken it out
/// of the queue.
#[tokio::test(start_paused = true)]
async fn a_request_keeps_its_place_among_other_clients_until_it_has_a_permit() {
    let (found, nodes) = nodes_that_find();
    let [redlock, other] = [warm_client(&nodes).await, warm_client(&nodes).await];
    let client = redlock.client();
    for (taken, keeps) in [(true, true), (false, false)] {
        let permits = (0..3).map(|_| other.lock("r").permits(3).into_future());
        let held = try_join_all(permits).await.unwrap();
        let terms = terms(client, &LockOptions::new().permits(3));
        let (mut request, mut front) = permit_request(client, &terms, 3);
        joins_queue(&mut request, &mut front).await;
        if !taken {
            drop(held);
            sleep(SECOND).await;
        }
        *found.lock() = vec![0, 1];
        let mut fronts = Fronts::one(front);
        // The permit of the task behind it is not there yet.
        let asks = timeout(ROUND_TRIP * 17 / 8, request.ask_for_permits(&mut fronts)).await;
        assert!(asks.is_err());
        assert_eq!(fronts.first.entry.is_some(), keeps);
        found.lock().clear();
        drop(fronts);
        sleep(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_comes_a_moment_later_is_given_to_the_next_task_that_wants_such_a_one() {
    let (found, nodes) = nodes_that_find();
    let redlock = warm_client(&nodes).await;
    let client = redlock.client();
    let options = LockOptions::new().permits(3);
    for leaves in [false, true] {
        let terms = terms(client, &options);
        let (mut request, front) = permit_request(client, &terms, 3);
        let next = behind(client, &front, &options);
        // It knows no permit with the number 1.
        let last = behind(client, &front, &LockOptions::new().permits(1));
        *found.lock() = vec![0, 1];
        let mut fronts = Fronts::one(front);
        let asks = request.ask_for_permits(&mut fronts);
        let stays = async {
            sleep(ROUND_TRIP).await;
            (!leaves).then_some(next)
        };
        let (granted, next) = tokio::join!(asks, stays);
        assert!(granted.unwrap().is_ok());
        let given = next.and_then(|it| it.turn(Duration::ZERO).now_or_never().unwrap().ok());
        assert_ne!(given.is_some(), leaves);
        if let Some(mut given) = given {
            let in_transit = given.take_lease(request.wants()).unwrap();
            assert!(in_transit.lease.claim.permit, "no client can adopt it");
        }
        assert!(last.turn(Duration::ZERO).now_or_never().unwrap().is_err());
        drop(fronts);
        sleep(SECOND).await;
    }
}

/// Both were refused before the one went behind the other, and the permit of the one is of no use to the other.
#[tokio::test(start_paused = true)]
async fn a_task_that_was_refused_before_it_waited_for_its_turn_asks_at_once() {
    let (_, nodes) = nodes_that_find();
    let [redlock, other] = [warm_client(&nodes).await, warm_client(&nodes).await];
    let permits = (0..2).map(|_| other.lock("r").permits(2).into_future());
    let held = try_join_all(permits).await.unwrap();
    let permit = |ttl| redlock.lock("r").permits(2).ttl(ttl).wait(60 * SECOND).into_future();
    let [first, second] = [TTL, TTL / 2].map(|ttl| tokio::spawn(permit(ttl)));
    sleep(SECOND).await;
    held.into_iter().for_each(drop);
    let _first = first.await.unwrap().unwrap();
    let begun = Instant::now();
    let _second = second.await.unwrap().unwrap();
    // One question to find a permit, and one to take it.
    assert!(begun.elapsed() < 3 * ROUND_TRIP, "{:?}", begun.elapsed());
}

/// The task was late to take it.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_given_a_permit_too_late_goes_back_to_its_place() {
    let (_, nodes) = nodes_that_find();
    let [redlock, other] = [warm_client(&nodes).await, warm_client(&nodes).await];
    let held = other.lock("r").permits(1).await.unwrap();
    let permit = || redlock.lock("r").permits(1).wait(60 * SECOND).into_future();
    let first = tokio::spawn(permit());
    sleep(SECOND).await;
    let second = tokio::spawn(permit());
    sleep(SECOND).await;
    let third = tokio::spawn(permit());
    sleep(SECOND).await;
    let client = redlock.client();
    let terms = terms(client, &LockOptions::new().permits(1));
    let now = client.nodes.clock.now();
    let request = Request::new(client, Resources::One("s".to_owned()), &terms, now, now);
    let queue_name: Arc<str> = queue_keys::queue_name(&queue_keys::permit("redlock:r", 0)).into();
    for _ in 0..3 {
        let key = queue_keys::permit(&request.key, 0).into();
        let Granted { in_transit, .. } = request.ask_for_spare(key).await.unwrap();
        sleep(TTL / 2).await;
        let turn = client.queues.alone(&"another".into(), client.nodes.clock.now()).unwrap();
        client.queues.give_permit(&queue_name, request.wants(), turn.with(in_transit));
        assert_eq!(client.queues.served_with(&queue_name, request.wants(), 9), 1);
        sleep(SECOND).await;
        assert_eq!(client.queues.served_with(&queue_name, request.wants(), 9), 2, "it is back");
        let requests: usize = redlock.waiting().iter().map(crate::Waiting::requests).sum();
        assert_eq!(requests, 3);
    }
    drop(held);
    drop(timeout(SECOND, first).await.unwrap().unwrap().unwrap());
    let second = timeout(SECOND, second).await.unwrap().unwrap().unwrap();
    assert!(!third.is_finished());
    drop(second);
    drop(timeout(SECOND, third).await.unwrap().unwrap().unwrap());
}

/// The task that it is for would have no answer, or too late a one.
#[tokio::test(start_paused = true)]
async fn a_permit_for_another_task_is_asked_for_only_where_that_makes_sense() {
    #[derive(Debug, PartialEq)]
    enum Case {
        Plain,
        Crowd,
        Closed,
        InVain,
    }
    for case in [Case::Plain, Case::Crowd, Case::Closed, Case::InVain] {
        let (nodes, sent) = (nodes(3), Arc::new(AtomicUsize::new(0)));
        let counted = |it: &MemoryNode| without_memory(it.name(), it, &Arc::default(), &sent);
        let redlock = warm_client(&nodes.iter().map(counted).collect::<Vec<_>>()).await;
        let client = redlock.client();
        let mut crowd = Vec::new();
        match case {
            Case::Plain => {}
            Case::Crowd => crowd.extend(iter::from_fn(|| client.gate.try_enter())),
            Case::Closed => redlock.shutdown(Duration::ZERO).await,
            Case::InVain => nodes[1..].iter().for_each(MemoryNode::restart_empty),
        }
        sleep(SECOND).await;
        sent.store(0, SeqCst);
        let (terms, now) = (terms(client, &LockOptions::new()), client.nodes.clock.now());
        let request = Request::new(client, Resources::One("r".to_owned()), &terms, now, now);
        let granted = request.ask_for_spare(Arc::clone(&request.key)).await;
        let is_plain = case == Case::Plain;
        assert_eq!((granted.is_some(), sent.load(SeqCst) > 0), (is_plain, is_plain), "{case:?}");
        drop(crowd);
    }
}

/// The keys of the attempt are on the nodes for a moment, and a waiter finds them there.
#[tokio::test(start_paused = true)]
async fn an_attempt_at_a_permit_that_is_cancelled_gives_the_turn() {
    let ms = Duration::from_millis;
    let nodes = nodes(3);
    let far = nodes.iter().map(|node| far_away(node.name(), node, ms(50))).collect();
    let far = Redlock::builder().node_timeout(SECOND).over(far);
    let near = client(&nodes);
    for client in [&far, &near] {
        drop(client.lock("warm").await.unwrap());
    }
    sleep(SECOND).await;
    let attempt = tokio::spawn(far.lock("r").permits(1).wait(60 * SECOND).into_future());
    sleep(ms(51)).await;
    let waits = tokio::spawn(near.lock("r").permits(1).wait(60 * SECOND).into_future());
    sleep(ms(9)).await;
    attempt.abort();
    let begun = Instant::now();
    drop(waits.await.unwrap().unwrap());
    assert!(begun.elapsed() < ms(300), "{:?}", begun.elapsed());
}

/// It had its turn. Its release gives the turn to the next one, and its departure must not give another one.
#[tokio::test(start_paused = true)]
async fn an_attempt_at_a_permit_that_is_cancelled_in_its_turn_gives_one_turn() {
    let ms = Duration::from_millis;
    let nodes = nodes(3);
    let far = nodes.iter().map(|node| far_away(node.name(), node, ms(50))).collect();
    let far = Redlock::builder().node_timeout(SECOND).over(far);
    let asked = Arc::new(AtomicU32::new(0));
    let last = nodes.iter().map(|node| {
        let asked = Arc::clone(&asked);
        overheard(node.name(), node, true, move |commands| {
            let asks = |it: &&Command| matches!(it.action, Action::FindPermits { .. });
            let asks = commands.iter().filter(asks).count();
            asked.fetch_add(asks.try_into().unwrap(), SeqCst);
        })
    });
    let last = Redlock::builder().over(last.collect());
    let [holder, next] = [(); 2].map(|()| client(&nodes));
    for client in [&far, &holder, &next, &last] {
        drop(client.lock("warm").await.unwrap());
    }
    let held = holder.lock("r").permits(1).await.unwrap();
    let mut waits = Vec::new();
    for client in [&far, &next, &last] {
        let request = client.lock("r").permits(1).wait(60 * SECOND);
        waits.push(tokio::spawn(request.into_future()));
        sleep(SECOND).await;
    }
    drop(held);
    // It has asked which permit is free, and its `SET`s are there. Their answers are on their way.
    sleep(ms(180)).await;
    let before = asked.load(SeqCst);
    waits.remove(0).abort();
    let next = timeout(SECOND / 2, waits.remove(0)).await.unwrap().unwrap().unwrap();
    assert_eq!(asked.load(SeqCst), before, "the last one was not told of a turn");
    drop(next);
    drop(waits.remove(0).await.unwrap().unwrap());
}
