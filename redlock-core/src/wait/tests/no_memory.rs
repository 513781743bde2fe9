//! The node that would keep the queue has no memory left: another node keeps it, for all clients.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::{
    node::{NodeSpec, fnv1a, intercepted::without_memory},
    sync::Mutex,
};

/// Five nodes, any of which may have no memory left.
struct World {
    nodes: Vec<MemoryNode>,
    full: Vec<Arc<AtomicBool>>,
    specs: Vec<NodeSpec>,
    commands: Arc<AtomicUsize>,
}

impl World {
    fn new() -> Self {
        let (nodes, commands) = (nodes(5), Arc::default());
        nodes.iter().for_each(|node| node.slow(MS / 4));
        let full: Vec<_> = nodes.iter().map(|_| Arc::<AtomicBool>::default()).collect();
        let each = nodes.iter().zip(&full);
        let specs = each.map(|(it, full)| without_memory(it.name(), it, full, &commands)).collect();
        Self { nodes, full, specs, commands }
    }

    async fn clients(&self, count: usize) -> Vec<Redlock> {
        let builder = || Redlock::builder().wait(5 * MINUTE).retry_delay(MINUTE);
        let clients: Vec<_> = (0..count).map(|_| builder().over(self.specs.clone())).collect();
        for client in &clients {
            drop(client.lock("warm").await.unwrap());
        }
        clients
    }

    fn has_no_memory(&self, node: usize, is_full: bool) {
        self.full[node].store(is_full, SeqCst);
    }

    /// How many waiters stand in the queue on this node, to a client that knows no other node.
    async fn waiters(&self, node: usize) -> usize {
        let alone = client(std::slice::from_ref(&self.nodes[node]));
        alone.inspect("r").await.unwrap().waiting().len()
    }

    /// How often one client takes the lock after another in three seconds, how many commands there are meanwhile,
    /// and how often the client takes it that takes it least. Each takes it for a moment, and does something
    /// else for some time.
    async fn pace(&self, clients: &[Redlock], pause: Duration) -> (usize, usize, usize) {
        let end = Instant::now() + 3000 * MS;
        let holders = Arc::<Mutex<Vec<usize>>>::default();
        let before = self.commands.load(SeqCst);
        let tasks = clients.iter().enumerate().map(|(number, client)| {
            let (client, holders) = (client.clone(), Arc::clone(&holders));
            tokio::spawn(async move {
                while Instant::now() < end {
                    let guard = client.lock("r").await.unwrap();
                    holders.lock().push(number);
                    sleep(MS).await;
                    drop(guard);
                    sleep(pause).await;
                }
            })
        });
        join_all(tasks.collect::<Vec<_>>()).await.into_iter().for_each(Result::unwrap);
        let holders = holders.lock();
        let times = |client| holders.iter().filter(|it| **it == client).count();
        let changes = holders.windows(2).filter(|it| it[0] != it[1]).count();
        let commands = self.commands.load(SeqCst) - before;
        (changes, commands, (0..clients.len()).map(times).min().unwrap())
    }
}

/// Each release would ask the node where no waiter stands, and each turn would last until another client looks for
/// itself.
#[tokio::test(start_paused = true)]
async fn a_queue_goes_on_at_its_pace_while_its_node_has_no_memory() {
    for pause in [Duration::ZERO, 2 * MS] {
        let world = World::new();
        let clients = world.clients(8).await;
        let (usual, commands, _) = world.pace(&clients, pause).await;
        let best = queue_node_of(&clients[0]);
        for is_full in [true, false] {
            world.has_no_memory(best, is_full);
            // The clients hear of it one after the other.
            let (changes, _, least) = world.pace(&clients, pause).await;
            assert!(changes > usual * 4 / 5, "{changes} in a row, {usual} as a rule");
            assert!(least > usual / 16, "one client had it {least} times");
            let (changes, asked, least) = world.pace(&clients, pause).await;
            assert!(changes > usual * 9 / 10, "{changes} in a row, {usual} as a rule");
            assert!(least > usual / 10, "one client had it {least} times");
            let (each, as_a_rule) = (asked * 100 / changes, commands * 100 / usual);
            assert!(each <= as_a_rule + 10, "{each} commands, {as_a_rule} as a rule");
            assert!(clients.iter().all(|it| (queue_node_of(it) == best) != is_full));
        }
    }
}

/// They would ask the node that refuses them first at each report, and could not rely on the next node.
#[tokio::test(start_paused = true)]
async fn waiters_behind_a_node_without_memory_stay_quiet() {
    let world = World::new();
    let clients = world.clients(5).await;
    let best = queue_node_of(&clients[0]);
    let guard = clients[0].lock("r").await.unwrap();
    let mut tasks = Vec::new();
    for redlock in &clients[1..] {
        tasks.push(waiting(redlock, 10 * MINUTE).await);
    }
    let [usual, asked] = [false, true].map(|is_full| {
        let (world, clients) = (&world, &clients);
        async move {
            world.has_no_memory(best, is_full);
            sleep(20_000 * MS).await;
            let other = queue_node_of(&clients[1]);
            assert_eq!(other != best, is_full);
            assert_eq!(world.waiters(other).await, 4);
            let before = world.commands.load(SeqCst);
            sleep(2 * MINUTE).await;
            world.commands.load(SeqCst) - before
        }
    });
    let (usual, asked) = (usual.await, asked.await);
    assert_eq!(world.waiters(best).await, 0);
    assert!(asked < usual * 5 / 4, "{asked} commands, {usual} as a rule");

    // They hear nothing of it, and ask once more after a while.
    world.has_no_memory(best, false);
    sleep(MINUTE).await;
    assert_eq!(world.waiters(best).await, 4);
    drop(guard);
    for next in tasks {
        drop(timeout(50 * MS, next).await.unwrap().unwrap().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn where_all_nodes_have_no_memory_clients_still_agree_on_one() {
    let world = World::new();
    let clients = world.clients(2).await;
    let best = queue_node_of(&clients[0]);
    let guard = clients[0].lock("r").await.unwrap();
    (0..5).for_each(|node| world.has_no_memory(node, true));
    clients[1].try_lock("r").await.unwrap_err();
    assert_eq!(queue_node_of(&clients[1]), best);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_without_memory_may_keep_queues_on_a_new_connection() {
    let world = World::new();
    let clients = world.clients(1).await;
    let best = queue_node_of(&clients[0]);
    world.has_no_memory(best, true);
    drop(clients[0].lock("r").await.unwrap());
    assert_ne!(queue_node_of(&clients[0]), best);
    // It is another process then, which may have another rank.
    world.nodes[best].stop();
    world.has_no_memory(best, false);
    world.nodes[best].start();
    sleep(5000 * MS).await;
    let redlock = Redlock::builder().over(world.specs.clone());
    drop(redlock.lock("warm").await.unwrap());
    sleep(1000 * MS).await;
    assert_eq!(queue_node_of(&clients[0]), queue_node_of(&redlock));
    assert!(!clients[0].client().nodes[best].refuses(fnv1a(b"redlock:r")));
}

/// They tell at once that the key is missing, which it stays.
#[tokio::test(start_paused = true)]
async fn nodes_that_all_have_no_memory_are_asked_at_the_pace_of_the_request() {
    let world = World::new();
    let [holder] = world.clients(1).await.try_into().unwrap();
    let builder = Redlock::builder().wait(5 * MINUTE).retry_delay(5000 * MS);
    let redlock = builder.over(world.specs.clone());
    drop(redlock.lock("warm").await.unwrap());
    let held = holder.lock("r").await.unwrap();
    (0..5).for_each(|node| world.has_no_memory(node, true));
    drop(held);
    let before = world.commands.load(SeqCst);
    let waits = waiting(&redlock, 5 * MINUTE).await;
    sleep(MINUTE).await;
    // Twelve attempts, and seven in the first seconds. Each asks five nodes, and watches them.
    let asked = world.commands.load(SeqCst) - before;
    assert!(asked < 20 * 5 * 3, "{asked} commands");
    (0..5).for_each(|node| world.has_no_memory(node, false));
    drop(timeout(6000 * MS, waits).await.unwrap().unwrap().unwrap());
}

/// Where a minority takes keys, each attempt is news to the other clients.
#[tokio::test(start_paused = true)]
async fn clients_do_not_wake_each_other_while_a_majority_has_no_memory() {
    let world = World::new();
    let clients = world.clients(8).await;
    (0..3).for_each(|node| world.has_no_memory(node, true));
    let before = world.commands.load(SeqCst);
    let takes = |client: Redlock| async move { drop(client.lock("r").await.unwrap()) };
    let waits: Vec<_> = clients.iter().map(|it| tokio::spawn(takes(it.clone()))).collect();
    sleep(MINUTE).await;
    // Each asks every ten seconds, and seven times before, whatever its `retry_delay` is.
    let asked = world.commands.load(SeqCst) - before;
    assert!(asked < 8 * 15 * 5 * 3, "{asked} commands");
    (0..3).for_each(|node| world.has_no_memory(node, false));
    for task in timeout(15_000 * MS, join_all(waits)).await.unwrap() {
        task.unwrap();
    }
}

/// However long they had none at another time.
#[tokio::test(start_paused = true)]
async fn a_client_asks_soon_after_nodes_that_had_no_memory_for_a_moment() {
    for for_long_before in [false, true] {
        let world = World::new();
        let all = |is_full| (0..5).for_each(|node| world.has_no_memory(node, is_full));
        let [ours, holder] = world.clients(2).await.try_into().unwrap();
        let mut waits = None;
        if for_long_before {
            all(true);
            waits = Some(waiting(&ours, 5 * MINUTE).await);
            sleep(20_000 * MS).await;
            all(false);
        }
        let held = holder.lock("r").await.unwrap();
        let waits = match waits {
            Some(waits) => waits,
            None => waiting(&ours, 5 * MINUTE).await,
        };
        sleep(15_000 * MS).await;
        all(true);
        drop(held);
        sleep(300 * MS).await;
        all(false);
        let took = timeout(900 * MS, waits).await;
        assert!(took.is_ok(), "for long before: {for_long_before}");
        drop(took.unwrap().unwrap().unwrap());
    }
}

/// The request asks every ten seconds, which is not what its retries are.
#[tokio::test(start_paused = true)]
async fn retries_last_as_long_as_ever_while_all_nodes_have_no_memory() {
    type Ask = fn(LockRequest) -> LockRequest;
    let (lock, reader, permit): (Ask, Ask, Ask) = (|it| it, |it| it.shared(), |it| it.permits(1));
    let count = 4;
    let asks = [(60_000, lock), (11_000, lock), (5000, lock), (60_000, reader), (1600, reader)];
    for (delay, ask) in asks.into_iter().chain([(60_000, permit), (1600, permit)]) {
        let world = World::new();
        let builder = Redlock::builder().wait(Duration::MAX).retry_count(count);
        let builder = builder.retry_delay(delay * MS).retry_jitter(Duration::ZERO);
        let ours = builder.over(world.specs.clone());
        drop(ours.lock("warm").await.unwrap());
        (0..5).for_each(|node| world.has_no_memory(node, true));
        let begun = Instant::now();
        let error = ask(ours.lock("r")).await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        let took = begun.elapsed();
        let least = delay * MS * (count - 1);
        assert!(took > least && took < delay * MS * (count + 1), "{delay} ms: {took:?}");
    }
}

/// The first one, which asks seldom, does not hear at once that the nodes are well.
#[tokio::test(start_paused = true)]
async fn a_request_that_asks_often_is_not_held_up_by_one_that_asks_seldom() {
    let world = World::new();
    let [ours] = world.clients(1).await.try_into().unwrap();
    let all = |is_full| (0..5).for_each(|node| world.has_no_memory(node, is_full));
    all(true);
    let seldom = tokio::spawn({
        let ours = ours.clone();
        async move { drop(ours.lock("r").await.unwrap()) }
    });
    for _ in 0..3 {
        sleep(21_000 * MS).await;
        let often = ours.lock("r").retry_delay(200 * MS).wait(1000 * MS).await;
        assert!(often.unwrap_err().is_unavailable());
    }
    all(false);
    drop(ours.lock("r").retry_delay(200 * MS).wait(1000 * MS).await.unwrap());
    seldom.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_set_is_asked_for_as_soon_as_one_lock() {
    let world = World::new();
    let [ours] = world.clients(1).await.try_into().unwrap();
    (0..5).for_each(|node| world.has_no_memory(node, true));
    let locks = (0..10).map(|number| format!("lock {number}"));
    let set = tokio::spawn(ours.lock_all(locks).wait(5 * MINUTE).into_future());
    sleep(20_000 * MS).await;
    (0..5).for_each(|node| world.has_no_memory(node, false));
    drop(timeout(12_000 * MS, set).await.unwrap().unwrap().unwrap());
}

/// The front asks as often as it may. A request behind it that has no delay either would have it ask at each moment.
#[tokio::test(start_paused = true)]
async fn requests_without_a_delay_do_not_hurry_each_other() {
    let [one, three] = [1, 3].map(|tasks| async move {
        let world = World::new();
        let [ours] = world.clients(1).await.try_into().unwrap();
        (0..5).for_each(|node| world.has_no_memory(node, true));
        let before = world.commands.load(SeqCst);
        let asks = || tokio::spawn(ours.lock("r").retry_delay(Duration::ZERO).into_future());
        let asks: Vec<_> = (0..tasks).map(|_| asks()).collect();
        sleep(10_000 * MS).await;
        asks.iter().for_each(JoinHandle::abort);
        world.commands.load(SeqCst) - before
    });
    let (one, three) = (one.await, three.await);
    assert!(three < 2 * one, "{three} commands, {one} of one task");
}
