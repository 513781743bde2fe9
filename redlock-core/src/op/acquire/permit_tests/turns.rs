//! Waiters for permits: whose turn it is, and what they ask the nodes meanwhile.

use super::*;

#[tokio::test(start_paused = true)]
async fn waiters_get_the_permits_in_order_and_no_two_have_the_same() {
    let nodes = nodes(3);
    let clients = [client(&nodes), client(&nodes), client(&nodes)];
    let inside = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
    let work = |number: usize| {
        let (client, inside) = (clients[number % 3].clone(), Arc::clone(&inside));
        tokio::spawn(async move {
            let guard = client.lock("r").permits(3).wait(600 * SECOND).await.unwrap();
            inside.1.fetch_max(inside.0.fetch_add(1, SeqCst) + 1, SeqCst);
            sleep(SECOND).await;
            assert!(guard.is_valid());
            inside.0.fetch_sub(1, SeqCst);
            guard.release().await.unwrap();
        })
    };
    let begun = Instant::now();
    join_all((0..30).map(work)).await.into_iter().for_each(|it| it.unwrap());
    assert_eq!(inside.1.load(SeqCst), 3);
    // Ten turns of a second each, if no permit lies idle.
    assert!(begun.elapsed() < 14 * SECOND, "{:?}", begun.elapsed());
    sleep(SECOND).await;
    assert!(are_empty(&nodes) && clients.iter().all(|it| it.client().queues.is_empty()));
}

/// An outage is no holder, for a request behind another one as well.
#[tokio::test(start_paused = true)]
async fn a_request_that_tries_once_behind_a_waiter_is_told_of_an_outage() {
    let nodes = nodes(3);
    let client = client(&nodes);
    drop(client.lock("r").permits(3).await.unwrap());
    nodes[1..].iter().for_each(MemoryNode::hang);
    let waits = tokio::spawn(client.lock("r").permits(3).wait(60 * SECOND).into_future());
    sleep(10 * SECOND).await;
    let error = client.try_lock("r").permits(3).await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    waits.abort();
}

/// Each client wants all of the permits all the time.
#[tokio::test(start_paused = true)]
async fn clients_that_want_more_than_there_is_have_equal_shares() {
    const EACH: usize = 4;
    let ms = Duration::from_millis;
    let nodes = nodes(3);
    nodes.iter().for_each(|node| node.slow(ms(2)));
    let end = Instant::now() + 20 * SECOND;
    let work = |client: Redlock| async move {
        let mut turns = 0;
        while Instant::now() < end {
            let guard = client.lock("r").permits(4).wait(60 * SECOND).await.unwrap();
            sleep(ms(10)).await;
            guard.release().await.unwrap();
            turns += 1;
        }
        turns
    };
    let clients: Vec<_> = (0..4).map(|_| client(&nodes)).collect();
    let tasks = clients.iter().flat_map(|it| (0..EACH).map(|_| tokio::spawn(work(it.clone()))));
    let turns: Vec<u64> =
        join_all(tasks.collect::<Vec<_>>()).await.into_iter().map(Result::unwrap).collect();
    let all: u64 = turns.iter().sum();
    // Each hold takes 10 ms, with three round trips of 2 ms in between.
    assert!(all > 4 * 20_000 / 20, "{turns:?}");
    let (least, most) = (turns.iter().min().unwrap(), turns.iter().max().unwrap());
    assert!(most - least < all / 160, "{turns:?}");
}

/// The permit is released while both are about to ask.
#[tokio::test(start_paused = true)]
async fn a_request_goes_behind_those_that_wait_in_its_process() {
    let ms = Duration::from_millis;
    let nodes = nodes(3);
    let (one, other) = (client(&nodes), client(&nodes));
    let held = other.lock("r").permits(1).await.unwrap();
    let first = tokio::spawn(one.lock("r").permits(1).wait(60 * SECOND).into_future());
    sleep(SECOND).await;
    nodes.iter().for_each(|node| node.slow(ms(20)));
    drop(held);
    // The nodes free the permit and give the turn now. The first of the two has yet to hear of it.
    sleep(ms(10)).await;
    let second = tokio::spawn(one.lock("r").permits(1).wait(60 * SECOND).into_future());
    sleep(SECOND).await;
    assert!(first.is_finished() && !second.is_finished());
    drop(first.await.unwrap().unwrap());
    drop(timeout(SECOND, second).await.unwrap().unwrap().unwrap());
}

/// A report would put the client into the queue again, and the permit that is kept for it would lie idle.
#[tokio::test(start_paused = true)]
async fn a_turn_that_came_while_the_client_asked_is_used_without_a_report() {
    let nodes = nodes(3);
    let (ours, held) = none_left(&nodes).await;
    let client = ours.client();
    let terms = terms(client, &LockOptions::default().permits(1));
    let (mut request, mut front) = permit_request(client, &terms, 1);
    let (end, full) = (request.begun + 60 * SECOND, FailedAttempt::full());
    let chance = joins_queue(&mut request, &mut front).await;
    assert!(!request.find_number(&mut front).await.unwrap());
    held.release().await.unwrap();
    sleep(SECOND / 2).await;
    let begun = Instant::now();
    let chance = pauses(&mut request, &mut front, &full, Some(chance), end).await;
    assert_eq!((chance, begun.elapsed()), (Chance::Turn, Duration::ZERO));
    assert!(request.find_number(&mut front).await.unwrap(), "it is kept for this client");
}

/// A node does not push to a client what that client has caused, and the keys of the turn are written then.
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_own_client_gave_it_the_turn_hears_of_its_next_turn() {
    for by_question in [false, true] {
        let nodes = nodes(3);
        let (ours, theirs) = (client(&nodes), client(&nodes));
        drop(ours.lock("warm").await.unwrap());
        let permit = |it: &Redlock| it.lock("r").permits(3).auto_extend(false).into_future();
        let held = try_join_all([permit(&theirs), permit(&theirs)]).await.unwrap();
        let own = permit(&ours).await.unwrap();
        let client = ours.client();
        let taken: Vec<_> = theirs.client().leases.registry.all();
        let [first, second] = [0, 1].map(|it: usize| Arc::clone(&taken[it].claim().key));
        let terms = terms(client, &LockOptions::default().permits(3));
        let (mut request, mut front) = permit_request(client, &terms, 3);
        // That of a permit which stays taken.
        request.key = first;
        let (end, full) = (request.begun + 60 * SECOND, FailedAttempt::full());
        let chance = joins_queue(&mut request, &mut front).await;
        assert!(!request.find_number(&mut front).await.unwrap());
        let mut last = chance;
        if by_question {
            // The node has forgotten two of the permits, and gives the turn for the second when it is asked.
            let queue_node = queue_node(&client.nodes, &request.key).unwrap();
            let own = &client.leases.registry.all()[0].claim().key;
            assert!(nodes[queue_node].remove(&second) && nodes[queue_node].remove(own));
            assert!(request.find_number(&mut front).await.unwrap());
        } else {
            own.release().await.unwrap();
            last = pauses(&mut request, &mut front, &full, Some(last), end).await;
            assert_eq!(last, Chance::Turn);
            // It was refused in its turn: a permit may have been released before it was back.
            last = pauses(&mut request, &mut front, &full, Some(last), end).await;
            assert_eq!(last, Chance::Again);
        }
        let release = async {
            sleep(SECOND / 2).await;
            drop(held);
            Instant::now()
        };
        let chance = pauses(&mut request, &mut front, &full, Some(last), end);
        let (chance, released) = tokio::join!(chance, release);
        assert_eq!((chance, released.elapsed()), (Chance::Turn, Duration::ZERO));
    }
}

/// The turn that it passes on is for another client. Clients without a quorum that asked again each time, or tasks of
/// such a client, would pass the turn round without a pause.
#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_without_a_quorum_does_not_ask_again_at_once() {
    let nodes = nodes(3);
    let [ours, theirs, next] = [client(&nodes), client(&nodes), client(&nodes)];
    drop(ours.lock("warm").await.unwrap());
    let held = theirs.lock("r").permits(1).await.unwrap();
    let client = ours.client();
    let terms = terms(client, &LockOptions::default().permits(1));
    let (mut request, mut front) = permit_request(client, &terms, 1);
    let (end, full) = (request.begun + 60 * SECOND, FailedAttempt::full());
    let chance = joins_queue(&mut request, &mut front).await;
    let mut own = Entry::new(&client.nodes, front.key(), format!("{:040}.task", 1));
    assert!(matches!(own.report().await, Report::At(_)));
    let waiting = tokio::spawn(next.lock("r").permits(1).wait(60 * SECOND).into_future());
    sleep(SECOND / 2).await;
    let queue_node = queue_node(&client.nodes, &request.key).unwrap();
    held.release().await.unwrap();
    nodes
        .iter()
        .enumerate()
        .filter(|(index, _)| *index != queue_node)
        .for_each(|(_, it)| it.stop());
    sleep(SECOND / 10).await;
    assert_eq!(own.take_signal(), Some(Signal::Next));
    let begun = Instant::now();
    let failure = FailedAttempt { no_quorum: true, ..full };
    let chance = pauses(&mut request, &mut front, &failure, Some(chance), end).await;
    assert!(begun.elapsed() >= SECOND / 10, "{chance:?} after {:?}", begun.elapsed());
    assert_eq!(own.take_signal(), None);
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_takes_the_permit_at_once_when_its_turn_comes() {
    let nodes = nodes(3);
    let (one, other) = (client(&nodes), client(&nodes));
    for _ in 0..20 {
        let held = one.lock("r").permits(1).await.unwrap();
        let waiting = other.lock("r").permits(1).wait(60 * SECOND).into_future();
        let release = async {
            sleep(SECOND).await;
            drop(held);
            Instant::now()
        };
        let (permit, released) = tokio::join!(waiting, release);
        assert_eq!(released.elapsed(), Duration::ZERO);
        drop(permit.unwrap());
    }
}

/// The queue node is trusted although it restarted empty, so that to it all permits look free.
#[tokio::test(start_paused = true)]
async fn waiters_do_not_pass_the_turn_round_at_a_node_that_knows_no_permits() {
    let nodes = nodes(3);
    let trusting = || Redlock::builder().nodes(&nodes).ttl(60 * SECOND).restarts(Restarts::Trusted);
    let clients = [(); 12].map(|()| trusting().build().unwrap());
    for client in &clients {
        drop(client.lock("warm").await.unwrap());
    }
    let holder = &clients[0];
    let permit = |it: &Redlock, name: &str| it.lock(name).permits(8);
    let names = (0..50).map(|number| format!("r{number}"));
    let taken = names.flat_map(|name| [(); 8].map(|()| permit(holder, &name)));
    let taken = try_join_all(taken.map(IntoFuture::into_future)).await.unwrap();
    nodes[0].restart_empty();
    sleep(SECOND).await;
    let mut held = taken.into_iter().filter(|it| is_kept_by_first(holder, it.resource()));
    let released = held.next().unwrap();
    let _kept: Vec<_> = held.collect();
    let name = released.resource().to_owned();
    nodes.iter().for_each(|node| node.slow(SECOND / 1000));
    let waiting = clients[1..].iter().map(|it| permit(it, &name).wait(5 * SECOND).into_future());
    let release = async {
        sleep(SECOND / 2).await;
        // It gives the first turn.
        drop(released);
    };
    let (outcomes, ()) = tokio::join!(join_all(waiting), release);
    let refused: Vec<_> = outcomes.iter().filter_map(|it| it.as_ref().err()).collect();
    assert_eq!(refused.len(), 10);
    for error in refused {
        let LockError::Held { attempts, .. } = error else { panic!("{error}") };
        assert!(*attempts < 200, "{attempts} in 5 s");
    }
}

/// It asks nothing until the queue moves. A report after which it listens again is three commands.
#[tokio::test(start_paused = true)]
async fn a_waiter_behind_the_front_sends_at_most_one_command_a_second() {
    let sent = Arc::new(AtomicUsize::new(0));
    let nodes = ["a", "b", "c"].map(|name| {
        let sent = Arc::clone(&sent);
        intercepted(name, move |sender, _, commands| {
            for command in commands.iter().filter(|it| it.claim.value.ends_with("behind")) {
                let listens = match command.action {
                    Action::Join { listens, .. } => listens != Listens::Nothing,
                    _ => false,
                };
                sent.fetch_add(if listens { 3 } else { 1 }, SeqCst);
            }
            sender.send(commands)
        })
    });
    let [holder, front, behind] = ["holder", "front", "behind"]
        .map(|name| Redlock::builder().client_name(name).over(nodes.to_vec()));
    let _held = holder.lock("r").permits(1).await.unwrap();
    for client in [&front, &behind] {
        let request = client.lock("r").permits(1).wait(300 * SECOND);
        tokio::spawn(request.into_future());
        sleep(SECOND).await;
    }
    sent.store(0, SeqCst);
    sleep(30 * SECOND).await;
    let sent = sent.load(SeqCst);
    assert!((10..=30).contains(&sent), "{sent}");
}

/// A client that takes permits in a loop does not keep the others out.
#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_at_once_goes_behind_those_that_wait() {
    let nodes = nodes(3);
    let greedy = client(&nodes);
    let looping: Vec<_> = (0..2)
        .map(|_| {
            let client = greedy.clone();
            tokio::spawn(async move {
                loop {
                    let guard = client.lock("r").permits(2).wait(600 * SECOND).await.unwrap();
                    sleep(SECOND).await;
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    sleep(10 * SECOND).await;
    let other = client(&nodes);
    for _ in 0..5 {
        let begun = Instant::now();
        drop(other.lock("r").permits(2).wait(60 * SECOND).await.unwrap());
        assert!(begun.elapsed() < 5 * SECOND, "{:?}", begun.elapsed());
        sleep(SECOND).await;
    }
    looping.iter().for_each(|it| it.abort());
}

/// It has released a permit to a waiter, and lets waiters go first for a while. That client had its turn for the permit
/// that it keeps, or has released since.
#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_wait_gets_a_permit_that_is_free() {
    for keeps_it in [true, false] {
        let nodes = nodes(3);
        let [ours, theirs, next] = [client(&nodes), client(&nodes), client(&nodes)];
        let held = ours.lock("r").permits(2).await.unwrap();
        let other = theirs.lock("r").permits(2).await.unwrap();
        let waiting = tokio::spawn(next.lock("r").permits(2).wait(60 * SECOND).into_future());
        sleep(SECOND / 2).await;
        held.release().await.unwrap();
        let its_permit = waiting.await.unwrap().unwrap();
        assert!(ours.try_lock("r").permits(2).await.unwrap_err().is_held());
        let _kept = Some(its_permit).filter(|_| keeps_it);
        drop(other);
        sleep(SECOND / 2).await;
        drop(ours.try_lock("r").permits(2).await.unwrap());
    }
}

/// The node knows of that permit until its key is there.
#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_wait_leaves_a_permit_to_a_client_that_is_far_away() {
    const MS: Duration = Duration::from_millis(1);
    for delay in [20, 80, 160] {
        let nodes = nodes(3);
        let far = nodes.iter().map(|node| far_away(node.name(), node, delay * MS)).collect();
        let next = Redlock::builder().ttl(TTL).node_timeout(SECOND).over(far);
        let ours = client(&nodes);
        let held = ours.lock("r").permits(1).await.unwrap();
        let waiting = tokio::spawn(next.lock("r").permits(1).wait(60 * SECOND).into_future());
        sleep(2 * SECOND).await;
        held.release().await.unwrap();
        for _ in 0..1000 {
            let tried = ours.try_lock("r").permits(1).await;
            assert!(tried.as_ref().is_err_and(LockError::is_held), "{delay}: {tried:?}");
            sleep(MS).await;
        }
        assert!(waiting.is_finished());
    }
}

/// Of two waiters with a turn, one is refused: the node told both of the same free permit. Before it is back in the
/// queue, all permits are released, and no release finds it there.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_refused_in_its_turn_looks_again_soon() {
    let nodes = nodes(5);
    nodes.iter().for_each(|node| node.slow(SECOND / 200));
    let client = || Redlock::builder().nodes(&nodes).wait(60 * SECOND).build().unwrap();
    let holder = client();
    let _kept = holder.lock("r").permits(3).await.unwrap();
    let end = Instant::now() + 30 * SECOND;
    let mut turns = tokio::task::JoinSet::new();
    for number in 0..4_u32 {
        let client = client();
        turns.spawn(async move {
            let (mut count, mut longest) = (0_u32, Duration::ZERO);
            while Instant::now() < end {
                sleep((count * (7 + 6 * number) % 20) * SECOND / 1000).await;
                let begun = Instant::now();
                let permit = client.lock("r").permits(3).await.unwrap();
                longest = longest.max(begun.elapsed());
                sleep(SECOND / 500).await;
                permit.release().await.unwrap();
                count += 1;
            }
            longest
        });
    }
    let longest = turns.join_all().await;
    assert!(longest.iter().all(|it| *it < SECOND), "{longest:?}");
}
