//! Permits that one task takes for the tasks behind it.

use tokio::task::JoinHandle;

use super::*;

const MS: Duration = Duration::from_millis(1);

/// Takes one of 16 permits, keeps it for a moment and releases it, again and again until `end`. Returns how often.
async fn works(client: Redlock, name: String, end: Instant) -> u32 {
    let mut turns = 0;
    while Instant::now() < end {
        let guard = client.lock(name.as_str()).permits(16).wait(60 * SECOND).await.unwrap();
        assert!(guard.is_valid());
        sleep(MS).await;
        guard.release().await.unwrap();
        turns += 1;
    }
    turns
}

/// One after the other would be one in three round trips.
#[tokio::test(start_paused = true)]
async fn the_tasks_of_a_client_get_free_permits_together() {
    for tasks in [16, 24, 64] {
        let nodes = nodes(5);
        nodes.iter().for_each(|node| node.slow(2 * MS));
        let redlock = client(&nodes);
        let end = Instant::now() + SECOND;
        let tasks: Vec<_> =
            (0..tasks).map(|_| tokio::spawn(works(redlock.clone(), "r".to_owned(), end))).collect();
        let turns: Vec<u32> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
        let all: u32 = turns.iter().sum();
        let (least, most) = (turns.iter().min().unwrap(), turns.iter().max().unwrap());
        assert!(all > 1000, "{all}");
        assert!(most - least <= most / 2, "{turns:?}");
        sleep(SECOND).await;
        assert!(are_empty(&nodes));
    }
}

/// One at a time would be one in three round trips for each client.
#[tokio::test(start_paused = true)]
async fn clients_that_share_permits_keep_them_in_use() {
    for count in [1, 2, 8] {
        let nodes = nodes(3);
        let far = || nodes.iter().map(|it| far_away(it.name(), it, 10 * MS)).collect();
        let clients: Vec<_> = (0..count).map(|_| Redlock::builder().ttl(TTL).over(far())).collect();
        let end = Instant::now() + 5 * SECOND;
        let tasks = clients.iter().map(|it| {
            (0..128 / count).map(|_| tokio::spawn(keeps(it.clone(), end))).collect::<Vec<_>>()
        });
        let mut each = Vec::new();
        for tasks in tasks.collect::<Vec<_>>() {
            let turns: Vec<u32> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
            each.push(turns.iter().sum::<u32>());
        }
        // Each permit is in use for ten round trips, and changes hands in three or a few more.
        let all: u32 = each.iter().sum();
        assert!(all > 64 * 25 * 10 / 16, "{each:?}");
        let (least, most) = (each.iter().min().unwrap(), each.iter().max().unwrap());
        assert!(least * 2 > *most, "{each:?}");
        sleep(SECOND).await;
        assert!(are_empty(&nodes));
    }
}

/// A client that has many tasks would take all that is free whenever the other one is not in the queue: while that one
/// asks, and while it has its turn.
#[tokio::test(start_paused = true)]
async fn a_client_that_wants_permits_now_and_then_gets_its_share_beside_a_crowd() {
    for (sits_out, delay, tasks) in
        [(false, 2, 40), (false, 2, 8), (false, 12, 8), (false, 12, 1), (true, 2, 8)]
    {
        let [(alone, _), (few, crowd)] = [
            beside_a_crowd(sits_out, delay, tasks, 0).await,
            beside_a_crowd(sits_out, delay, tasks, 40).await,
        ];
        let what = format!("{few} beside {crowd}, {alone} alone: {sits_out} {delay} {tasks}");
        assert!(few * 4 > alone, "{what}");
        // One that is far away is out of the queue most of the time, and then so is the other. One task alone takes no
        // more than this.
        let share = if delay > 2 { 12 } else { 3 };
        assert!(few * share > crowd || few * 3 > alone, "{what}");
    }
}

/// How often the tasks of a client take a permit for a moment, beside so many tasks of another client, and how often
/// those take one. The client has its answers after `delay`, and the other one after 2 ms.
async fn beside_a_crowd(sits_out: bool, delay: u32, tasks: usize, others: usize) -> (u32, u32) {
    let nodes = nodes(3);
    nodes.iter().for_each(|node| node.slow(2 * MS));
    let crowd = client(&nodes);
    let far = nodes.iter().map(|it| far_away(it.name(), it, (delay - 2) * MS / 2)).collect();
    let few = Redlock::builder().ttl(TTL).over(far);
    for client in [&crowd, &few] {
        drop(client.lock("warm").await.unwrap());
    }
    let mut names = (0..1000).map(|number| format!("r{number}"));
    let is_kept = |it: &String| is_kept_by_first(&crowd, it) && is_kept_by_first(&few, it);
    let name = names.find(is_kept).unwrap();
    if sits_out {
        nodes[0].restart_empty();
        sleep(SECOND).await;
    }
    let end = Instant::now() + 3 * SECOND;
    let work = |client: &Redlock, tasks: usize| {
        let each = |_| tokio::spawn(works(client.clone(), name.clone(), end));
        (0..tasks).map(each).collect::<Vec<_>>()
    };
    let (crowd, few) = (work(&crowd, others), work(&few, tasks));
    let sum = async |tasks| -> u32 { join_all(tasks).await.into_iter().map(Result::unwrap).sum() };
    let crowd = sum(crowd).await;
    (sum(few).await, crowd)
}

/// It has its answers six times as late. Each permit that it was told of would be taken before its commands come.
#[tokio::test(start_paused = true)]
async fn a_client_that_is_far_away_gets_its_permits_beside_a_crowd_that_is_near() {
    let run = |groups: &'static [(usize, u32)]| async move {
        let nodes = nodes(3);
        let end = Instant::now() + 5 * SECOND;
        let mut all = Vec::new();
        for (tasks, delay) in groups {
            let far = nodes.iter().map(|it| far_away(it.name(), it, *delay * MS / 2)).collect();
            let client = Redlock::builder().ttl(TTL).over(far);
            drop(client.lock("warm").await.unwrap());
            all.push((0..*tasks).map(|_| tokio::spawn(keeps(client.clone(), end))).collect());
        }
        let mut each = Vec::new();
        for tasks in all {
            let tasks: Vec<JoinHandle<u32>> = tasks;
            each.push(join_all(tasks).await.into_iter().map(Result::unwrap).sum::<u32>());
        }
        each
    };
    for (alone, beside) in [
        (&[(16, 12)][..], &[(128, 2), (16, 12)][..]),
        (&[(1, 12)], &[(128, 2), (1, 12)]),
        (&[(16, 40)], &[(128, 2), (16, 40)]),
    ] {
        let (alone, beside) = (run(alone).await, run(beside).await);
        assert!(beside[1] * 5 > alone[0], "{beside:?}, {alone:?} alone");
        assert!(alone[0] > 50 || beside[1] * 3 > 2 * alone[0], "{beside:?}, {alone:?} alone");
    }
}

/// The queue node is near, and the others are far away. A permit is back long before they could have answered.
#[tokio::test(start_paused = true)]
async fn a_permit_is_kept_until_its_key_is_there_and_no_longer() {
    let nodes = nodes(3);
    let near = |index| if index == 0 { MS } else { 20 * MS };
    let far = || {
        let each = nodes.iter().enumerate();
        each.map(|(index, it)| far_away(it.name(), it, near(index))).collect()
    };
    let clients = [(); 2].map(|()| Redlock::builder().ttl(TTL).over(far()));
    for client in &clients {
        drop(client.lock("warm").await.unwrap());
    }
    let mut names = (0..1000).map(|number| format!("r{number}"));
    let name = names.find(|it| is_kept_by_first(&clients[0], it)).unwrap();
    let end = Instant::now() + 5 * SECOND;
    let tasks = clients.iter().flat_map(|it| (0..40).map(|_| works(it.clone(), name.clone(), end)));
    let turns = join_all(tasks.map(tokio::spawn).collect::<Vec<_>>()).await;
    let all: u32 = turns.into_iter().map(Result::unwrap).sum();
    assert!(all > 1000, "{all}");
}

/// The holder has a quorum of near nodes, and the queue node is far away: the key is back before the node expects
/// it. The waiter that has the turn for it finds it.
#[tokio::test(start_paused = true)]
async fn a_waiter_finds_the_permit_of_its_turn_although_another_client_was_told_of_it() {
    let nodes = nodes(3);
    let client = |delays: [u32; 3]| {
        let each = nodes.iter().zip(delays);
        let far = each.map(|(it, ms)| far_away(it.name(), it, ms * MS / 2)).collect();
        Redlock::builder().ttl(TTL).node_timeout(SECOND).wait(60 * SECOND).over(far)
    };
    let [holder, first, second] = [[2, 2, 2], [100, 2, 2], [2, 100, 100]].map(client);
    for client in [&holder, &first, &second] {
        for _ in 0..8 {
            drop(client.lock("warm").await.unwrap());
            sleep(SECOND).await;
        }
    }
    let mut names = (0..1000).map(|number| format!("r{number}"));
    let name = names.find(|it| is_kept_by_first(&holder, it)).unwrap();
    let held = holder.lock(&*name).permits(1).await.unwrap();
    let takes = |client: &Redlock| {
        let permit = client.lock(&*name).permits(1).into_future();
        tokio::spawn(async move {
            drop(permit.await.unwrap());
            Instant::now()
        })
    };
    let first = takes(&first);
    sleep(SECOND).await;
    let second = takes(&second);
    sleep(3 * SECOND).await;
    drop(held);
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert!(second - first < 300 * MS, "{:?}", second - first);
}

/// Takes one of 64 permits for a fifth of a second, again and again until `end`. Returns how often.
async fn keeps(client: Redlock, end: Instant) -> u32 {
    let mut turns = 0;
    while Instant::now() < end {
        let guard = client.lock("r").permits(64).wait(60 * SECOND).await.unwrap();
        sleep(200 * MS).await;
        guard.release().await.unwrap();
        turns += 1;
    }
    turns
}

/// A task knows the permits by number, and of fewer permits than the task before it.
#[tokio::test(start_paused = true)]
async fn a_permit_is_given_to_no_task_that_wants_it_on_other_terms() {
    let nodes = nodes(3);
    let (redlock, other) = (client(&nodes), client(&nodes));
    let held: Vec<_> =
        try_join_all((0..8).map(|_| other.lock("r").permits(8).into_future())).await.unwrap();
    let mut waiting = Vec::new();
    for (count, ttl) in [(8, TTL), (2, TTL), (8, TTL / 2), (8, TTL)] {
        let request = redlock.lock("r").permits(count).ttl(ttl).wait(60 * SECOND);
        waiting.push(tokio::spawn(request.into_future()));
        sleep(MS).await;
    }
    held.into_iter().for_each(drop);
    let guards = timeout(SECOND, join_all(waiting)).await.unwrap();
    let guards: Vec<_> = guards.into_iter().map(|it| it.unwrap().unwrap()).collect();
    assert_eq!(redlock.held().len(), 4);
    let numbers: Vec<u32> = guards
        .iter()
        .map(|guard| {
            let claim = guard.hold().claim();
            claim.key.rsplit(':').next().unwrap().parse().unwrap()
        })
        .collect();
    assert!(numbers[1] < 2, "{numbers:?}");
    let left = nodes[0].remaining(&guards[2].hold().claim().key).unwrap();
    assert!(left <= TTL / 2, "{left:?}");
}

/// Tasks leave while one of them asks for its own permit and for theirs.
#[tokio::test(start_paused = true)]
async fn permits_that_were_asked_for_together_are_given_back_at_any_await() {
    enum Leaves {
        All,
        AllButTheFirst,
        Client,
    }
    use Leaves::{All, AllButTheFirst, Client};
    for (leaves, wait) in
        [All, AllButTheFirst, Client].iter().flat_map(|it| (0..16).map(move |ms| (it, ms)))
    {
        let nodes = nodes(3);
        let (redlock, other) = (client(&nodes), client(&nodes));
        let permits = || (0..8).map(|_| other.lock("r").permits(8).into_future());
        let held = try_join_all(permits()).await.unwrap();
        let permit = || redlock.lock("r").permits(8).wait(60 * SECOND).into_future();
        let tasks: Vec<_> = (0..6).map(|_| tokio::spawn(permit())).collect();
        sleep(SECOND).await;
        nodes.iter().for_each(|node| node.slow(3 * MS));
        held.into_iter().for_each(drop);
        sleep(wait * MS).await;
        match leaves {
            All => tasks.iter().for_each(JoinHandle::abort),
            AllButTheFirst => tasks[1..].iter().for_each(JoinHandle::abort),
            Client => redlock.shutdown(Duration::ZERO).await,
        }
        for (place, task) in tasks.into_iter().enumerate() {
            let guard = task.await;
            assert!(place > 0 || !matches!(leaves, AllButTheFirst) || guard.unwrap().is_ok());
        }
        sleep(SECOND).await;
        assert!(are_empty(&nodes), "after {wait} ms");
        assert!(redlock.client().queues.is_empty());
        let all = timeout(SECOND, try_join_all(permits())).await;
        assert_eq!(all.unwrap().unwrap().len(), 8, "after {wait} ms");
    }
}
