//! Nodes whose queue refuses a waiter, for a moment or for good.

use super::*;

/// Three nodes whose user may not run the scripts of the queue, and how often they have refused them.
fn without_queues() -> (Vec<NodeSpec>, Arc<AtomicUsize>) {
    let joins = Arc::new(AtomicUsize::new(0));
    let node = |name: &'static str| {
        let joins = Arc::clone(&joins);
        intercepted(name, move |sender, _, commands| {
            if !commands.iter().any(|it| matches!(it.action, Action::Join { .. })) {
                return sender.send(commands);
            }
            joins.fetch_add(commands.len(), SeqCst);
            let refused = NodeError::new(&name.into(), NodeErrorKind::Server, "NOPERM");
            ready(vec![Err(refused); commands.len()]).boxed()
        })
    };
    (["a", "b", "c"].map(node).into(), joins)
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_each_node_refuses_is_not_asked_for_at_each_pause() {
    let (nodes, joins) = without_queues();
    let [holder, ours] = [(); 2].map(|()| Redlock::builder().over(nodes.clone()));
    let _held = holder.lock("r").ttl(3000 * MS).await.unwrap();
    // Each renewal has it ask, and pause once more.
    ours.lock("r").wait(20_000 * MS).await.unwrap_err();
    assert_eq!(joins.load(SeqCst), 3);
    ours.lock("r").wait(40_000 * MS).await.unwrap_err();
    assert_eq!(joins.load(SeqCst), 9, "it asks once more after a while");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_each_node_refuses_that_is_up_is_not_asked_for_at_each_pause() {
    let (mut nodes, joins) = without_queues();
    let down = MemoryNode::new();
    nodes[2] = down.spec();
    let [holder, ours] = [(); 2].map(|()| Redlock::builder().over(nodes.clone()));
    for client in [&holder, &ours] {
        drop(client.lock("warm").await.unwrap());
    }
    down.stop();
    let _held = holder.lock("r").ttl(3000 * MS).await.unwrap();
    ours.lock("r").wait(20_000 * MS).await.unwrap_err();
    assert_eq!(joins.load(SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_set_does_not_ask_for_the_queues_of_its_other_keys_where_each_node_has_refused_one() {
    let (nodes, joins) = without_queues();
    let [holder, ours] = [(); 2].map(|()| Redlock::builder().over(nodes.clone()));
    let keys: Vec<String> = (0..12).map(|number| format!("key {number:02}")).collect();
    let held = holder.lock(&*keys[0]).await.unwrap();
    let set = tokio::spawn(ours.lock_all(keys).wait(MINUTE).into_future());
    sleep(5000 * MS).await;
    drop(held);
    drop(set.await.unwrap().unwrap());
    assert_eq!(joins.load(SeqCst), 3);
}

/// A node whose queue answers so while it `refuses`.
fn refusing(refuses: &Arc<AtomicBool>, answer: Result<Reply, NodeError>) -> NodeSpec {
    let joins = |action| matches!(action, Action::Join { .. });
    answering("a", &MemoryNode::new(), refuses, joins, answer)
}

fn error(kind: NodeErrorKind, cause: Cause) -> NodeError {
    NodeError { cause, ..NodeError::new(&"a".into(), kind, "refused") }
}

/// A script of another program keeps the only node busy for a moment.
#[tokio::test(start_paused = true)]
async fn waiters_keep_their_places_while_the_queue_node_refuses_for_a_moment() {
    let refuses = Arc::new(AtomicBool::new(false));
    let node = refusing(&refuses, Err(error(NodeErrorKind::Server, Cause::Passing)));
    let clients: [_; 4] = std::array::from_fn(|_| {
        Redlock::builder().wait(MINUTE).retry_delay(MINUTE).over(vec![node.clone()])
    });
    for redlock in &clients {
        drop(redlock.lock("warm").await.unwrap());
    }
    let guard = clients[0].lock("r").await.unwrap();
    let first = waiting(&clients[1], MINUTE).await;
    let second = waiting(&clients[2], MINUTE).await;
    refuses.store(true, SeqCst);
    sleep(10_000 * MS).await;
    refuses.store(false, SeqCst);
    sleep(1600 * MS).await;
    let third = waiting(&clients[3], MINUTE).await;
    assert_eq!(waiters(&clients[0]).await, 3);
    drop(guard);
    for next in [first, second, third] {
        drop(timeout(50 * MS, next).await.unwrap().unwrap().unwrap());
    }
}

/// Its login lapses, or it is a replica for a moment. A release gives the turn on that node, and on no other one.
#[tokio::test(start_paused = true)]
async fn a_waiter_comes_back_to_a_node_that_has_refused_it() {
    for (cause, comes_back) in
        [(Cause::Login, 2000), (Cause::Replica, 2000), (Cause::Other, 32_000)]
    {
        let refuses = Arc::new(AtomicBool::new(false));
        let refused = Err(error(NodeErrorKind::Server, cause));
        let mut nodes = vec![refusing(&refuses, refused)];
        nodes.extend(self::nodes(2).iter().map(MemoryNode::spec));
        let [holder, ours] = [(); 2].map(|()| Redlock::builder().over(nodes.clone()));
        for client in [&holder, &ours] {
            drop(client.lock("warm").await.unwrap());
        }
        let name = (0..100).map(|it| format!("r-{it}")).find(|name| {
            let nodes = &ours.client().nodes;
            queue_node(nodes, &format!("redlock:{name}")) == Some(0)
        });
        let name = name.unwrap();
        let guard = holder.lock(&*name).await.unwrap();
        refuses.store(true, SeqCst);
        let front = tokio::spawn(ours.lock(&*name).wait(MINUTE).into_future());
        sleep(2000 * MS).await;
        refuses.store(false, SeqCst);
        sleep(comes_back * MS).await;
        assert_eq!(holder.inspect(&*name).await.unwrap().waiting().len(), 1, "{cause:?}");
        drop(guard);
        drop(timeout(50 * MS, front).await.unwrap().unwrap().unwrap());
    }
}

/// It is as with a master of a cluster that is away for a moment, while the other masters are there.
#[tokio::test(start_paused = true)]
async fn a_report_that_was_not_sent_is_made_up_for() {
    let refuses = Arc::new(AtomicBool::new(false));
    let node = refusing(&refuses, Err(error(NodeErrorKind::Down, Cause::Other)));
    let [holder, ours] = [(); 2].map(|()| Redlock::builder().over(vec![node.clone()]));
    let guard = holder.lock("r").await.unwrap();
    drop(ours.lock("warm").await.unwrap());
    let mut entry = entry_of(&ours, 1);
    refuses.store(true, SeqCst);
    assert_eq!(entry.report().await, Report::Unanswered);
    refuses.store(false, SeqCst);
    assert_eq!(position(&mut entry).await.ahead, 0);
    drop(guard);
    assert_eq!(timeout(50 * MS, entry.signal()).await, Ok(Signal::Turn), "it does not listen");
}

/// It has had no turn. Two clients would ask for the lock at once, and split the votes.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_no_queue_has_taken_passes_no_turn_on() {
    let refused = || Err(error(NodeErrorKind::Server, Cause::Other));
    for (answer, has_turn, passes_on) in [
        (Ok(Reply::Full), false, false),
        (refused(), false, false),
        // The queue has taken it before.
        (Ok(Reply::Full), true, true),
        (refused(), true, true),
        // It may have.
        (Err(error(NodeErrorKind::Timeout, Cause::Other)), false, true),
    ] {
        let refuses = Arc::new(AtomicBool::new(false));
        let node = refusing(&refuses, answer.clone());
        let [holder, ours, other] = [(); 3].map(|()| Redlock::builder().over(vec![node.clone()]));
        for client in [&holder, &ours, &other] {
            drop(client.lock("warm").await.unwrap());
        }
        let (mut entry, mut behind) = (entry_of(&ours, 1), entry_of(&other, 2));
        if has_turn {
            let held = holder.lock("r").await.unwrap();
            assert_eq!(position(&mut entry).await.ahead, 0);
            drop(held);
            assert_eq!(entry.signal().await, Signal::Turn);
        }
        assert_eq!(position(&mut behind).await.ahead, 0);
        refuses.store(true, SeqCst);
        for _ in 0..2 {
            assert!(!matches!(entry.report().await, Report::At(_)));
        }
        drop(entry);
        sleep(100 * MS).await;
        let told = behind.take_signal();
        assert_eq!(told, passes_on.then_some(Signal::Turn), "{answer:?} {has_turn}");
    }
}

/// The node that cannot be reached keeps the entry, and a waiter that let go of its place would lose it.
#[tokio::test(start_paused = true)]
async fn a_place_on_a_node_that_cannot_be_reached_is_kept_where_the_others_refuse() {
    for (kind, expected) in
        [(NodeErrorKind::Down, Report::Unanswered), (NodeErrorKind::Server, Report::NoQueue)]
    {
        let refuses = Arc::new(AtomicBool::new(false));
        let mut nodes = vec![refusing(&refuses, Err(error(kind, Cause::Other)))];
        let others = refusing(&refuses, Err(error(NodeErrorKind::Server, Cause::Other)));
        nodes.extend([others.clone(), others]);
        let redlock = Redlock::builder().over(nodes);
        drop(redlock.lock("warm").await.unwrap());
        refuses.store(true, SeqCst);
        assert_eq!(entry(&redlock).report().await, expected);
    }
}
