//! Clients that wait for one lock take turns, however many clients there are and however far the
//! nodes are.

mod leaving;

use tokio::task::JoinSet;

use super::*;

/// The counts of a task that takes the lock again and again.
#[derive(Debug, Clone, Copy, Default)]
struct Turns {
    count: u32,
    longest: Duration,
}

/// Each client has this many tasks. Each task takes the lock, holds it for 1 ms and releases it,
/// until `span` has passed.
async fn take_turns(nodes: &[MemoryNode], tasks: &[usize], span: Duration) -> Vec<Vec<Turns>> {
    take_turns_of(MS, nodes, tasks, span).await
}

/// Each task holds the lock for `hold`.
async fn take_turns_of(
    hold: Duration,
    nodes: &[MemoryNode],
    tasks: &[usize],
    span: Duration,
) -> Vec<Vec<Turns>> {
    let end = Instant::now() + span;
    let mut clients = Vec::new();
    for count in tasks {
        let redlock = Redlock::builder().nodes(nodes).wait(5 * MINUTE).build().unwrap();
        clients.push(join_all((0..*count).map(|_| {
            let redlock = redlock.clone();
            let task = tokio::spawn(async move {
                let mut turns = Turns::default();
                while Instant::now() < end {
                    let begun = Instant::now();
                    let guard = redlock.lock("r").await.unwrap();
                    turns.longest = turns.longest.max(begun.elapsed());
                    sleep(hold).await;
                    guard.release().await.unwrap();
                    turns.count += 1;
                }
                turns
            });
            async { task.await.unwrap() }
        })));
    }
    join_all(clients).await
}

fn all(turns: &[Vec<Turns>]) -> Vec<u32> {
    turns.iter().flatten().map(|it| it.count).collect()
}

/// 1 for equal shares, less for unequal shares.
fn jain(shares: &[u32]) -> f64 {
    let sum: f64 = shares.iter().map(|it| f64::from(*it)).sum();
    let squares: f64 = shares.iter().map(|it| f64::from(*it) * f64::from(*it)).sum();
    sum * sum / (shares.len() as f64 * squares)
}

#[tokio::test(start_paused = true)]
async fn many_clients_of_one_task_are_served_in_turn() {
    let mut paces = Vec::new();
    for clients in [4, 16, 64] {
        for delay in [0, 5] {
            let nodes = distant(delay);
            let turns = take_turns(&nodes, &vec![1; clients], 5000 * MS).await;
            let sink = all(&turns);
            let sum: u32 = sink.iter().sum();
            let fair = jain(&sink);
            assert!(fair > 0.95, "{clients} clients at {delay} ms: {fair:.2} {sink:?}");
            let longest = turns.iter().flatten().map(|it| it.longest).max().unwrap();
            let pace = f64::from(sum) / 5.0;
            let most = Duration::from_secs_f64(2.0 * clients as f64 / pace);
            assert!(longest <= most, "{clients} clients at {delay} ms: {longest:?} of {most:?}");
            paces.push((clients, delay, sum));
        }
    }
    for (clients, delay, sum) in &paces {
        let (_, _, few) = paces.iter().find(|(few, at, _)| *few == 4 && at == delay).unwrap();
        assert!(f64::from(*sum) > 0.9 * f64::from(*few), "{clients} at {delay} ms: {paces:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_single_task_gets_its_share_beside_many_at_any_distance() {
    for delay in [0, 3, 20] {
        for many in [2, 8] {
            let nodes = distant(delay);
            let turns = take_turns(&nodes, &[many, 1], 8000 * MS).await;
            let (busy, single) = (&turns[0], turns[1][0]);
            let most = busy.iter().map(|it| it.count).max().unwrap();
            assert!(2 * single.count >= most, "{many} tasks at {delay} ms: {turns:?}");
            let longest = turns.iter().flatten().map(|it| it.longest).max().unwrap();
            assert!(longest < 1000 * MS, "{many} tasks at {delay} ms: {longest:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn clients_that_never_wait_let_a_waiter_in() {
    for (delay, count) in [(0, 1), (5, 1), (20, 1), (0, 64), (5, 16), (20, 16)] {
        let nodes = distant(delay);
        let mut looping = JoinSet::new();
        for _ in 0..count {
            let client = client(&nodes);
            looping.spawn(async move {
                loop {
                    match client.try_lock("r").await {
                        Ok(guard) => {
                            sleep(MS).await;
                            drop(guard);
                        }
                        Err(error) => {
                            assert!(error.is_held(), "{error}");
                            sleep(MS).await;
                        }
                    }
                }
            });
        }
        sleep(1000 * MS).await;
        let waits = client(&nodes);
        for turn in 0..10 {
            let begun = Instant::now();
            drop(
                waits
                    .lock("r")
                    .await
                    .unwrap_or_else(|error| panic!("{delay} {count} {turn}: {error}")),
            );
            let waited = begun.elapsed();
            // Each of them finds out for itself that a client waits.
            let most = if turn == 0 { 5000 * MS } else { 1000 * MS };
            assert!(waited < most, "{waited:?} at {delay} ms beside {count} clients, turn {turn}");
            sleep(100 * MS).await;
        }
        assert!(looping.try_join_next().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn clients_that_never_wait_let_a_waiter_for_a_permit_in() {
    for (delay, permits, count) in [(0, 2, 20), (2, 2, 20), (5, 2, 20), (5, 10, 30)] {
        let nodes = distant(delay);
        let mut looping = JoinSet::new();
        for number in 0..count {
            let client = client(&nodes);
            looping.spawn(async move {
                loop {
                    match client.try_lock("r").permits(permits).await {
                        Ok(guard) => {
                            sleep(20 * MS).await;
                            drop(guard);
                        }
                        Err(error) => assert!(error.is_held(), "{error}"),
                    }
                    sleep(MS + number * MS / 4).await;
                }
            });
        }
        sleep(1000 * MS).await;
        let waits = client(&nodes);
        for turn in 0..20 {
            let begun = Instant::now();
            drop(waits.lock("r").permits(permits).wait(MINUTE).await.unwrap());
            let waited = begun.elapsed();
            // Each of them finds out for itself that a client waits.
            assert!(waited < 5000 * MS, "{waited:?} at {delay} ms, {permits} permits, turn {turn}");
            sleep(100 * MS).await;
        }
        assert!(looping.try_join_next().is_none());
    }
}

/// The far client needs several times as long to use its turn as the near one needs to ask again.
#[tokio::test(start_paused = true)]
async fn a_far_client_gets_its_turns_beside_a_near_one() {
    for (delay, hold) in [(10, 1), (10, 100), (20, 20), (20, 100), (20, 1000)] {
        let nodes = nodes(3);
        let far = far_client(&nodes, delay * MS);
        let near = client(&nodes);
        drop(far.lock("warm").await.unwrap());
        let looping = tokio::spawn(async move {
            loop {
                let guard = near.lock("r").await.unwrap();
                sleep(hold * MS).await;
                guard.release().await.unwrap();
            }
        });
        sleep(50 * MS).await;
        for _ in 0..5 {
            let begun = Instant::now();
            drop(far.lock("r").await.unwrap());
            // It comes while the other holds the lock, and has the next turn.
            let most = hold * MS * 2 + delay * MS * 10;
            assert!(begun.elapsed() < most, "{delay} ms, {hold} ms: {:?}", begun.elapsed());
        }
        assert!(!looping.is_finished());
        looping.abort();
    }
}

/// The end of each `wait` is no chance to take the other's turn.
#[tokio::test(start_paused = true)]
async fn a_far_client_gets_its_turns_beside_a_near_one_with_a_short_wait() {
    let nodes = nodes(3);
    let far = far_client(&nodes, 20 * MS);
    let near = client(&nodes);
    drop(far.lock("warm").await.unwrap());
    let looping = tokio::spawn(async move {
        loop {
            if let Ok(guard) = near.lock("r").wait(10 * MS).await {
                sleep(100 * MS).await;
                guard.release().await.unwrap();
            }
        }
    });
    sleep(50 * MS).await;
    for _ in 0..5 {
        let begun = Instant::now();
        drop(far.lock("r").await.unwrap());
        assert!(begun.elapsed() < 400 * MS, "{:?}", begun.elapsed());
    }
    looping.abort();
}

#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_wait_leaves_another_client_its_turn() {
    let nodes = nodes(3);
    let ours = client(&nodes);
    let _theirs = client(&nodes).lock("r").await.unwrap();
    let front = waiting(&ours, MINUTE).await;
    sleep(10_000 * MS).await;
    let now = ours.client().nodes.clock.now();
    ours.client().queues.others_wait(&"redlock:r".into(), now, now + 100 * MS);
    let hurried = || ours.try_lock("r").retry_delay(10 * MS).into_future();
    assert!(hurried().now_or_never().unwrap().unwrap_err().is_held());
    sleep(100 * MS).await;
    assert!(hurried().now_or_never().is_none(), "the turn is over: it asks");
    assert!(!front.is_finished());
}

/// The front dies with its process: here, its task is never polled again, and its connections end.
#[tokio::test(start_paused = true)]
async fn a_front_that_died_costs_the_next_waiter_a_moment() {
    let nodes = nodes(5);
    let holder = client(&nodes);
    let guard = holder.lock("r").await.unwrap();
    let dead = client(&nodes);
    let mut front = Box::pin(dead.lock("r").into_future());
    assert!((&mut front).now_or_never().is_none());
    sleep(5 * MS).await;
    assert!((&mut front).now_or_never().is_none(), "it joins");
    sleep(5 * MS).await;
    let next = waiting(&client(&nodes), MINUTE).await;
    std::mem::forget(front);
    drop(guard);
    drop(timeout(500 * MS, next).await.unwrap().unwrap().unwrap());
}

/// The answer to a release may come after the next request of this client, which must not take the
/// lock from the client that has its turn.
#[tokio::test(start_paused = true)]
async fn a_client_that_waited_itself_yields_from_the_moment_of_its_release() {
    let nodes = nodes(3);
    let (ours, theirs) = (client(&nodes), client(&nodes));
    let yields = || {
        let client = ours.client();
        client.queues.turn_of_others("redlock:r", client.nodes.clock.now()).is_some()
    };
    drop(ours.lock("r").await.unwrap());
    assert!(!yields(), "no other client was there");
    sleep(10 * MS).await;

    let guard = theirs.lock("r").await.unwrap();
    let next = waiting(&ours, MINUTE).await;
    drop(guard);
    let guard = next.await.unwrap().unwrap();
    drop(guard);
    assert!(yields(), "no node has answered yet");
    sleep(10 * MS).await;
    assert!(!yields(), "no client waits");
}

/// The place among the clients belongs to the client, not to the task that took it.
#[tokio::test(start_paused = true)]
async fn a_front_that_goes_away_leaves_its_place_among_the_clients_to_the_next_task() {
    let nodes = nodes(5);
    let [holder, ours, theirs] = [(); 3].map(|()| client(&nodes));
    let guard = holder.lock("r").await.unwrap();
    let front = waiting(&ours, MINUTE).await;
    let next = waiting(&ours, MINUTE).await;
    let other = waiting(&theirs, MINUTE).await;
    front.abort();
    sleep(10 * MS).await;
    drop(guard);
    let next = timeout(20 * MS, next).await.unwrap().unwrap().unwrap();
    assert!(!other.is_finished());
    drop(next);
    drop(timeout(20 * MS, other).await.unwrap().unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn clients_take_turns_whichever_node_is_down() {
    for down in 0..5 {
        let nodes = nodes(5);
        nodes[down].stop();
        let turns = all(&take_turns(&nodes, &[1; 4], 2000 * MS).await);
        assert!(jain(&turns) > 0.95, "without node {down}: {turns:?}");
        assert!(turns.iter().sum::<u32>() > 1500, "without node {down}: {turns:?}");
    }
}

/// A quorum answers long before the other nodes do. The first clients queue before the node that is to
/// keep the queue is connected. Each of two queues then has a front, and with holds this long
/// a front that loses one race to the other loses them all.
#[tokio::test(start_paused = true)]
async fn clients_take_turns_although_some_nodes_are_far() {
    // A different node keeps the queue each time.
    for _ in 0..8 {
        let nodes = nodes(5);
        for (node, delay) in nodes.iter().zip([1, 1, 1, 20, 20]) {
            node.slow(Duration::from_millis(delay));
        }
        let second = 1000 * MS;
        let turns = take_turns_of(second, &nodes, &[1; 3], 60 * second).await;
        let shares = all(&turns);
        assert!(jain(&shares) > 0.95, "{shares:?}");
        let longest = turns.iter().flatten().map(|it| it.longest).max().unwrap();
        assert!(longest < 6 * second, "{longest:?}");
    }
}

/// A whole rotation takes longer than a client remembers by itself that other clients wait.
#[tokio::test(start_paused = true)]
async fn no_client_starves_in_a_crowd_of_distant_ones() {
    for delay in [10, 20] {
        let nodes = distant(delay);
        let turns = all(&take_turns(&nodes, &[1; 160], 60_000 * MS).await);
        let (least, most) = (turns.iter().min().unwrap(), turns.iter().max().unwrap());
        assert!(2 * least >= *most, "at {delay} ms: {turns:?}");
    }
}
