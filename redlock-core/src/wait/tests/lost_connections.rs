//! What becomes of the waiters when the connections to the nodes are lost while the holder lives.

use std::{future::ready, sync::atomic::AtomicBool};

use super::*;
use crate::{
    Restarts::Trusted,
    error::{NodeError, NodeErrorKind},
    node::intercepted::intercepted,
    sync::Mutex,
};

/// Clients with the usual pauses, which are connected.
async fn clients(nodes: &[MemoryNode], count: usize) -> Vec<Redlock> {
    let builder = || Redlock::builder().nodes(nodes).restarts(Trusted).wait(5 * MINUTE);
    let clients: Vec<_> = (0..count).map(|_| builder().build().unwrap()).collect();
    for client in &clients {
        drop(client.lock("warm").await.unwrap());
    }
    clients
}

/// No connection stands for this long.
async fn reset(nodes: &[MemoryNode], lasts: Duration) {
    nodes.iter().for_each(MemoryNode::stop);
    sleep(lasts).await;
    nodes.iter().for_each(MemoryNode::start);
}

/// The order in which waiters get the lock.
#[derive(Default, Clone)]
struct Served(Arc<Mutex<Vec<usize>>>);

impl Served {
    /// Has a client wait for the lock, and hold it for a moment.
    async fn waits(&self, number: usize, client: &Redlock) -> JoinHandle<()> {
        let (served, client) = (self.clone(), client.clone());
        let task = tokio::spawn(async move {
            let guard = client.lock("r").await.unwrap();
            served.0.lock().push(number);
            sleep(50 * MS).await;
            guard.release().await.unwrap();
        });
        sleep(20 * MS).await;
        task
    }
}

/// A proxy that restarts, or an operator that ends the connections, takes no place away.
#[tokio::test(start_paused = true)]
async fn waiters_whose_connections_are_lost_keep_their_order_and_their_places() {
    for (count, lasts) in [1, 3].into_iter().flat_map(|it| [0, 20, 200, 1000].map(|ms| (it, ms))) {
        let nodes = nodes(count);
        let clients = clients(&nodes, 9).await;
        let guard = clients[0].lock("r").await.unwrap();
        let served = Served::default();
        let mut tasks = Vec::new();
        for (number, client) in clients.iter().enumerate().skip(1).take(6) {
            tasks.push(served.waits(number, client).await);
        }
        sleep(2000 * MS).await;
        reset(&nodes, lasts * MS).await;
        sleep(1500 * MS).await;
        for (number, client) in clients.iter().enumerate().skip(7) {
            tasks.push(served.waits(number, client).await);
        }
        assert!(guard.is_valid());
        drop(guard);
        join_all(tasks).await.into_iter().for_each(Result::unwrap);
        assert_eq!(*served.0.lock(), [1, 2, 3, 4, 5, 6, 7, 8], "{count} nodes, {lasts} ms");
    }
}

/// A cluster stays connected while one of its masters is away. Its pushes are lost with that connection.
#[tokio::test(start_paused = true)]
async fn waiters_for_a_slot_whose_master_is_away_keep_their_order_and_their_places() {
    let times = [20, 200, 1000, 3000, 4000];
    // A front watches the lock of a holder that does not renew it, and follows that of another one.
    for (extends, lasts) in [true, false].into_iter().flat_map(|it| times.map(|ms| (it, ms))) {
        let is_away = Arc::new(AtomicBool::new(false));
        let node = {
            let is_away = Arc::clone(&is_away);
            intercepted("n", move |sender, _, commands| {
                if !is_away.load(SeqCst) {
                    return sender.send(commands);
                }
                let error = NodeError::new(&"n".into(), NodeErrorKind::Down, "a member is away");
                ready(vec![Err(error); commands.len()]).boxed()
            })
        };
        let builder = || Redlock::builder().restarts(Trusted).wait(5 * MINUTE);
        let clients: Vec<_> = (0..9).map(|_| builder().over(vec![node.clone()])).collect();
        for client in &clients {
            drop(client.lock("warm").await.unwrap());
        }
        let guard = clients[0].lock("r").auto_extend(extends).await.unwrap();
        let served = Served::default();
        let mut tasks = Vec::new();
        for (number, client) in clients.iter().enumerate().skip(1).take(6) {
            tasks.push(served.waits(number, client).await);
        }
        sleep(2000 * MS).await;
        is_away.store(true, SeqCst);
        let missed =
            || clients.iter().for_each(|it| it.client().nodes[0].watchers().missed(|_| true));
        missed();
        sleep(lasts * MS).await;
        is_away.store(false, SeqCst);
        sleep(1500 * MS).await;
        for (number, client) in clients.iter().enumerate().skip(7) {
            tasks.push(served.waits(number, client).await);
        }
        drop(guard);
        join_all(tasks).await.into_iter().for_each(Result::unwrap);
        assert_eq!(*served.0.lock(), [1, 2, 3, 4, 5, 6, 7, 8], "{extends} {lasts} ms");
    }
}

/// Two of three nodes hang for a moment. Nothing is pushed for as long as the holder has the lock.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_held_is_known_to_be_held_once_the_nodes_are_well_again() {
    let usual = Duration::from_millis(200);
    for (extends, ttl, delay) in
        [(true, 30_000, usual), (false, 290_000, usual), (false, 290_000, 5 * MINUTE)]
    {
        let nodes = nodes(3);
        let builder = Redlock::builder().nodes(&nodes).restarts(Trusted).max_ttl(5 * MINUTE);
        let builder = || builder.clone().retry_delay(delay);
        let [holder, ours, other] = [(); 3].map(|()| builder().wait(5 * MINUTE).build().unwrap());
        for client in [&ours, &other] {
            drop(client.lock("warm").await.unwrap());
        }
        let guard = holder.lock("r").auto_extend(extends).ttl(ttl * MS).await.unwrap();
        nodes[1..].iter().for_each(MemoryNode::hang);
        let front = waiting(&ours, 5 * MINUTE).await;
        sleep(60 * MS).await;
        nodes[1..].iter().for_each(MemoryNode::resume);
        if delay > MINUTE {
            // It asks after ten seconds, and not at once.
            sleep(10_000 * MS).await;
        }
        for _ in 0..3 {
            sleep(1000 * MS).await;
            let error = ours.lock("r").wait(1000 * MS).await.unwrap_err();
            assert!(error.is_held(), "{error}");
            assert_eq!(holder.inspect("r").await.unwrap().waiting().len(), 1);
        }
        drop(guard);
        drop(timeout(1000 * MS, front).await.unwrap().unwrap().unwrap());
    }
}

/// It can tell a node that it leaves, and must not hold up the clients that have a quorum.
#[tokio::test(start_paused = true)]
async fn a_client_that_reaches_a_minority_again_keeps_no_place() {
    let nodes = nodes(3);
    let clients = clients(&nodes, 2).await;
    let _guard = clients[0].lock("r").await.unwrap();
    let _waits = waiting(&clients[1], 5 * MINUTE).await;
    sleep(2000 * MS).await;
    let queue_node = queue_node_of(&clients[1]);
    nodes.iter().for_each(MemoryNode::stop);
    sleep(100 * MS).await;
    nodes[queue_node].start();
    sleep(4000 * MS).await;
    let alone = client(std::slice::from_ref(&nodes[queue_node]));
    assert_eq!(alone.inspect("r").await.unwrap().waiting().len(), 0);
}

/// They kept their places meanwhile.
#[tokio::test(start_paused = true)]
async fn waiters_that_lacked_a_quorum_ask_once_when_the_nodes_are_back() {
    let nodes = nodes(3);
    let clients = clients(&nodes, 3).await;
    let _guard = clients[0].lock("r").await.unwrap();
    for client in &clients[1..] {
        drop(waiting(client, 5 * MINUTE).await);
    }
    sleep(2000 * MS).await;
    nodes.iter().for_each(MemoryNode::stop);
    sleep(1000 * MS).await;
    for client in &clients[1..] {
        let error = client.lock("r").wait(100 * MS).await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
    }
    nodes.iter().for_each(MemoryNode::start);
    sleep(3000 * MS).await;
    for client in &clients[1..] {
        let error = client.lock("r").wait(100 * MS).await.unwrap_err();
        assert!(error.is_held(), "{error}");
    }
}
