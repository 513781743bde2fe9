//! Readers and writers that come all the time: none of them starves.

use super::*;

/// Readers that come all the time, each before the last one has gone.
fn flood(
    clients: &[Redlock],
    resource: &'static str,
    reads: &Arc<AtomicU32>,
) -> Vec<JoinHandle<()>> {
    let reader = |number: usize| {
        let (client, reads) = (clients[number % 2].clone(), Arc::clone(reads));
        tokio::spawn(async move {
            sleep(SECOND * u32::try_from(number).unwrap() / 3).await;
            loop {
                let reader = client.lock(resource).shared().wait(600 * SECOND).await.unwrap();
                sleep(2 * SECOND).await;
                drop(reader);
                reads.fetch_add(1, SeqCst);
            }
        })
    };
    (0..6).map(reader).collect()
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_readers_does_not_starve_a_writer() {
    let nodes = nodes(3);
    let clients = [client(&nodes), client(&nodes), client(&nodes)];
    let reads = Arc::new(AtomicU32::new(0));
    let flood = flood(&clients, "r", &reads);
    sleep(10 * SECOND).await;
    for round in 0..5 {
        let begun = Instant::now();
        let writer = clients[2].lock("r").wait(60 * SECOND).await.unwrap();
        assert!(begun.elapsed() < 8 * SECOND, "{:?} in round {round}", begun.elapsed());
        let before = reads.load(SeqCst);
        sleep(5 * SECOND).await;
        assert_eq!(reads.load(SeqCst), before, "readers beside a writer");
        drop(writer);
        sleep(10 * SECOND).await;
        assert!(reads.load(SeqCst) > before + 6, "the readers go on");
    }
    flood.iter().for_each(|reader| reader.abort());
}

/// The writer began to wait behind a writer. No node tells it that readers have come since.
#[tokio::test(start_paused = true)]
async fn readers_after_a_writer_do_not_starve_a_writer_that_no_node_pushes_to() {
    let nodes = nodes(3);
    let clients = [client(&nodes), client(&nodes)];
    let silent = nodes.iter().map(|node| without_pushes(node.name(), node)).collect();
    let writer = Redlock::builder().over(silent);
    let before = clients[0].lock("r").ttl(30 * SECOND).await.unwrap();
    let writes = tokio::spawn(writer.lock("r").wait(60 * SECOND).into_future());
    sleep(5 * SECOND).await;
    before.release().await.unwrap();
    let begun = Instant::now();
    let reader = clients[1].lock("r").shared().await.unwrap();
    let flood = flood(&clients, "r", &Arc::new(AtomicU32::new(0)));
    sleep(SECOND).await;
    drop(reader);
    drop(writes.await.unwrap().unwrap());
    assert!(begun.elapsed() < 8 * SECOND, "{:?}", begun.elapsed());
    flood.iter().for_each(JoinHandle::abort);
}

/// While a writer has the lock, the barrier of the next one stands nowhere. Where nodes push, they tell it when readers
/// may have come.
#[tokio::test(start_paused = true)]
async fn a_writer_raises_its_barrier_no_more_often_than_it_has_to() {
    for (has_pushes, is_read, at_most) in [(true, false, 2), (false, false, 8), (true, true, 8)] {
        let nodes = nodes(3);
        let raised = Arc::new(AtomicU32::new(0));
        let counted = |node: &MemoryNode| {
            let raised = Arc::clone(&raised);
            overheard(node.name(), node, has_pushes, move |commands| {
                for it in commands {
                    let raises = matches!(it.action, Action::RaiseBarrier { .. });
                    raised.fetch_add(u32::from(raises), SeqCst);
                }
            })
        };
        let writer = Redlock::builder().over(nodes.iter().map(counted).collect());
        let holder = client(&nodes).lock("r").auto_extend(true);
        let _held = if is_read { holder.shared().await } else { holder.await }.unwrap();
        assert!(writer.lock("r").wait(10 * SECOND).await.unwrap_err().is_held());
        let raised = raised.load(SeqCst);
        assert!(raised >= 3 && raised <= 3 * at_most, "{has_pushes} {is_read}: {raised}");
    }
}

/// It has its turn at one lock, and then has to wait for the readers of the other.
#[tokio::test(start_paused = true)]
async fn floods_of_readers_do_not_starve_a_set() {
    let nodes = nodes(3);
    let clients = [client(&nodes), client(&nodes), client(&nodes)];
    let reads = Arc::new(AtomicU32::new(0));
    let floods = ["a", "b", "c"].map(|resource| flood(&clients, resource, &reads));
    sleep(10 * SECOND).await;
    for round in 0..5 {
        let begun = Instant::now();
        let set = clients[2].lock_all(["a", "b", "c"]).wait(60 * SECOND).await.unwrap();
        assert!(begun.elapsed() < 20 * SECOND, "{:?} in round {round}", begun.elapsed());
        let before = reads.load(SeqCst);
        sleep(5 * SECOND).await;
        assert_eq!(reads.load(SeqCst), before, "readers beside a writer");
        drop(set);
        sleep(10 * SECOND).await;
        assert!(reads.load(SeqCst) > before + 18, "the readers go on");
    }
    floods.iter().flatten().for_each(|reader| reader.abort());
}

/// Clients that take a lock for 5 ms again and again for two seconds, each in one task. Returns how often
/// they had it, and their longest wait.
async fn holds(clients: Vec<Redlock>, shared: bool) -> (u32, Duration) {
    let end = Instant::now() + 2 * SECOND;
    let tasks = clients.into_iter().map(|client| {
        tokio::spawn(async move {
            let (mut count, mut longest) = (0, Duration::ZERO);
            while Instant::now() < end {
                let asked = Instant::now();
                let request = client.lock("r").wait(60 * SECOND);
                let guard = if shared { request.shared() } else { request }.await.unwrap();
                longest = longest.max(asked.elapsed());
                sleep(Duration::from_millis(5)).await;
                guard.release().await.unwrap();
                count += 1;
            }
            (count, longest)
        })
    });
    let all = join_all(tasks).await.into_iter().map(Result::unwrap);
    all.fold((0, Duration::ZERO), |(sum, most), (count, longest)| (sum + count, most.max(longest)))
}

/// The set waits for its second lock as it is told to ask, and is refused the first one.
#[tokio::test(start_paused = true)]
async fn a_set_that_was_told_to_ask_has_readers_of_its_first_lock_wait() {
    let nodes = nodes(3);
    let [holder, reader, ours] = [(); 3].map(|()| client(&nodes));
    let _second = holder.lock("b").await.unwrap();
    drop(ours.lock("warm").await.unwrap());
    let set = tokio::spawn(ours.lock_all(["a", "b"]).wait(60 * SECOND).into_future());
    sleep(SECOND).await;
    let _first = reader.lock("a").shared().await.unwrap();
    let hurries = ours.lock("b").retry_delay(Duration::from_millis(10)).wait(Duration::ZERO);
    hurries.await.unwrap_err();
    sleep(SECOND / 2).await;
    let late = reader.lock("a").shared().wait(Duration::ZERO).await;
    assert!(late.is_err_and(|error| error.is_held()));
    set.abort();
}

/// A node tells a client nothing of what the client has done itself, so it matters which clients read and
/// which write.
#[tokio::test(start_paused = true)]
async fn readers_and_writers_take_turns_at_the_pace_of_their_holds() {
    let nodes = nodes(3);
    nodes.iter().for_each(|node| node.slow(Duration::from_millis(1)));
    let several: [_; 6] = std::array::from_fn(|_| client(&nodes));
    for (readers, writers) in
        [(0..4, 4..5), (0..1, 0..1), (0..2, 0..2), (0..1, 1..4), (0..4, 2..6), (0..1, 0..4)]
    {
        let of = |range: &std::ops::Range<usize>, count| {
            let clients = several[range.clone()].iter().cycle().cloned();
            clients.take(count).collect::<Vec<_>>()
        };
        let ((reads, read), (writes, write)) =
            tokio::join!(holds(of(&readers, 12), true), holds(of(&writers, writers.len()), false));
        let told =
            format!("{readers:?} read {reads}: {read:?}, {writers:?} write {writes}: {write:?}");
        assert!(reads >= 300 && writes >= 50, "{told}");
        // Some holds one after the other, and no timer.
        assert!(read < SECOND / 8 && write < SECOND / 8, "{told}");
    }
}

/// Each of its readers that goes tells the writer that the lock may be free, and all but the last are in vain.
#[tokio::test(start_paused = true)]
async fn a_writer_asks_at_once_when_the_last_reader_of_its_client_has_gone() {
    for (delay, gap) in [0, 1].into_iter().flat_map(|delay| [5, 15, 30].map(|gap| (delay, gap))) {
        let nodes = nodes(3);
        nodes.iter().for_each(|node| node.slow(Duration::from_millis(delay)));
        let redlock = client(&nodes);
        for round in 0..20 {
            let readers = (0..8).map(|_| redlock.lock("r").shared().into_future());
            let readers = try_join_all(readers).await.unwrap();
            let writer = tokio::spawn(redlock.lock("r").wait(60 * SECOND).into_future());
            sleep(Duration::from_millis(100 + round)).await;
            for reader in readers {
                sleep(Duration::from_millis(gap)).await;
                reader.release().await.unwrap();
            }
            let begun = Instant::now();
            drop(writer.await.unwrap().unwrap());
            let took = begun.elapsed();
            assert!(took <= Duration::from_millis(2 * delay + 1), "{delay} {gap}: {took:?}");
        }
    }
}

/// Tasks of four clients, of which each reads three times in four and writes else.
#[tokio::test(start_paused = true)]
async fn clients_that_read_and_write_in_turn_wait_for_holds_alone() {
    let nodes = nodes(3);
    nodes.iter().for_each(|node| node.slow(Duration::from_millis(1)));
    let clients: [_; 4] = std::array::from_fn(|_| client(&nodes));
    let end = Instant::now() + 4 * SECOND;
    let turns = Arc::new(AtomicU32::new(0));
    let tasks = (0..16).map(|task: usize| {
        let (client, turns) = (clients[task % 4].clone(), Arc::clone(&turns));
        tokio::spawn(async move {
            let mut longest = Duration::ZERO;
            while Instant::now() < end {
                let (asked, writes) =
                    (Instant::now(), turns.fetch_add(1, SeqCst).is_multiple_of(4));
                let request = client.lock("r").wait(60 * SECOND);
                let guard = if writes { request } else { request.shared() }.await.unwrap();
                longest = longest.max(asked.elapsed());
                sleep(Duration::from_millis(5)).await;
                guard.release().await.unwrap();
            }
            longest
        })
    });
    let longest = join_all(tasks).await.into_iter().map(Result::unwrap).max().unwrap();
    // The holds of the other tasks one after the other, three times over, and no timer.
    assert!(longest < 3 * 16 * Duration::from_millis(7), "{longest:?}");
}

/// The barrier of a writer holds up the readers behind its place, and lets those before it ask.
#[tokio::test(start_paused = true)]
async fn a_reader_tells_the_nodes_its_place_and_a_writer_the_place_of_its_sign() {
    let nodes = nodes(3);
    let (one, other, writer) = (client(&nodes), client(&nodes), client(&nodes));
    drop(writer.lock("warm").await.unwrap());
    let reader = one.lock("r").shared().await.unwrap();
    let raise = |place| {
        let (key, value) = ("redlock:r".into(), "a writer".to_owned());
        Barrier::raise(&writer.client().nodes, &key, place, value, false)
    };
    let before_all = raise(1);
    sleep(SECOND).await;
    let mut waiting = tokio::spawn(other.lock("r").shared().wait(600 * SECOND).into_future());
    assert!(timeout(4 * SECOND, &mut waiting).await.is_err(), "the writer is before it");
    drop(before_all);
    let after_all = raise(u64::MAX / 2048);
    let second = timeout(3 * SECOND, waiting).await.unwrap().unwrap().unwrap();
    assert!(one.try_lock("r").shared().await.unwrap_err().is_held(), "it has no place");
    drop((reader, second, after_all));
    sleep(SECOND).await;
    assert!(are_empty(&nodes));
}

/// They have waited for as long as the reader before them, and ask with its place.
#[tokio::test(start_paused = true)]
async fn readers_that_ask_beside_another_one_go_before_a_writer_behind_its_place() {
    const ROUND_TRIP: Duration = Duration::from_millis(20);
    let nodes = nodes(3);
    nodes.iter().for_each(|node| node.slow(ROUND_TRIP));
    let (one, other, writer) = (client(&nodes), client(&nodes), client(&nodes));
    drop(writer.lock("warm").await.unwrap());
    let _reader = one.lock("r").shared().await.unwrap();
    let raise = |place| {
        let (key, value) = ("redlock:r".into(), "a writer".to_owned());
        Barrier::raise(&writer.client().nodes, &key, place, value, false)
    };
    let before_all = raise(1);
    sleep(SECOND).await;
    let read = |_| tokio::spawn(other.lock("r").shared().wait(600 * SECOND).into_future());
    let waiting: Vec<_> = (0..30).map(read).collect();
    sleep(SECOND).await;
    drop(before_all);
    let _after_all = raise(u64::MAX / 2048);
    while !waiting.iter().any(JoinHandle::is_finished) {
        sleep(ROUND_TRIP / 10).await;
    }
    // One after the other would be a round trip for each.
    let waiting = timeout(12 * ROUND_TRIP, join_all(waiting)).await.unwrap();
    assert!(waiting.into_iter().all(|it| it.unwrap().is_ok()));
}

/// A writer that does not wait any more holds no reader up, and one that crashed for five seconds.
#[tokio::test(start_paused = true)]
async fn readers_go_on_when_a_writer_gives_up() {
    let nodes = nodes(3);
    let (one, other) = (client(&nodes), client(&nodes));
    let reader = one.lock("r").shared().await.unwrap();
    let waiting = tokio::spawn(other.lock("r").wait(600 * SECOND).into_future());
    sleep(5 * SECOND).await;
    assert!(one.try_lock("r").shared().await.unwrap_err().is_held(), "it waits for the readers");
    let behind = tokio::spawn(one.lock("r").shared().wait(600 * SECOND).into_future());
    sleep(5 * SECOND).await;
    assert!(!behind.is_finished());
    waiting.abort();
    let behind = timeout(3 * SECOND, behind).await.unwrap().unwrap().unwrap();
    drop(one.try_lock("r").shared().await.unwrap());
    drop((reader, behind));
    sleep(SECOND).await;
    assert!(are_empty(&nodes));
}

/// The lock is not free before the last of them has gone.
#[tokio::test(start_paused = true)]
async fn a_writer_does_not_ask_for_each_reader_of_its_client_that_goes() {
    let asked = Arc::new(AtomicU32::new(0));
    let nodes = [0, 1, 2].map(|index| {
        let asked = Arc::clone(&asked);
        intercepted(&format!("node-{index}"), move |sender, _, commands| {
            let asks = |it: &Command| matches!(it.action, Action::Grant { .. }) && !it.claim.shared;
            asked.fetch_add(u32::from(commands.iter().any(asks)), SeqCst);
            sender.send(commands)
        })
    });
    let redlock = Redlock::builder().over(nodes.to_vec());
    let readers = (0..8).map(|_| redlock.lock("r").shared().into_future());
    let readers = try_join_all(readers).await.unwrap();
    let writer = tokio::spawn(redlock.lock("r").wait(60 * SECOND).into_future());
    sleep(SECOND).await;
    let before = asked.load(SeqCst);
    for reader in readers {
        sleep(SECOND / 50).await;
        reader.release().await.unwrap();
    }
    drop(writer.await.unwrap().unwrap());
    assert_eq!(asked.load(SeqCst) - before, 3, "each node once");
}
