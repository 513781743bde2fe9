//! Readers and writers of one lock, over in-memory nodes.

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::future::{join_all, try_join_all};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::barrier::Barrier;
use crate::{
    LockError, LockHandle, LostReason, MemoryNode, Redlock, Released, Restarts,
    testing::{are_empty, nodes},
};

const TTL: Duration = Duration::from_secs(9);
const SECOND: Duration = Duration::from_secs(1);

fn client(nodes: &[MemoryNode]) -> Redlock {
    Redlock::builder().nodes(nodes).ttl(TTL).restarts(Restarts::Trusted).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn readers_hold_a_lock_together_and_exclude_writers() {
    let nodes = nodes(3);
    let clients = [client(&nodes), client(&nodes)];
    let ask = |number: usize| clients[number % 2].lock("r").shared().into_future();
    let readers = try_join_all((0..10).map(ask)).await.unwrap();
    assert!(readers.iter().all(|reader| reader.is_valid() && reader.votes() >= 2));
    for client in &clients {
        assert!(client.try_lock("r").await.unwrap_err().is_held());
        assert!(client.try_lock("r").fenced().await.unwrap_err().is_held());
        assert!(client.lock_all(["r", "s"]).wait(SECOND).await.unwrap_err().is_held());
    }
    for (number, reader) in readers.into_iter().enumerate() {
        assert!(clients[0].try_lock("r").await.is_err(), "{number} of 10 have gone");
        assert_eq!(reader.release().await.unwrap(), Released::Ours);
    }
    sleep(SECOND).await;
    assert!(are_empty(&nodes));
    let writer = clients[0].lock("r").await.unwrap();
    assert!(clients[1].try_lock("r").shared().await.unwrap_err().is_held());
    assert!(clients[0].try_lock("r").shared().await.unwrap_err().is_held());
    drop(writer);
}

/// Each has an expiry of its own: that of a reader that crashed does not keep the others.
#[tokio::test(start_paused = true)]
async fn a_reader_that_is_not_renewed_expires_alone() {
    let nodes = nodes(3);
    let (one, other) = (client(&nodes), client(&nodes));
    let crashed = one.lock("r").shared().auto_extend(false).await.unwrap();
    let alive = other.lock("r").shared().await.unwrap();
    crashed.lost().await;
    sleep(100 * TTL).await;
    assert!(alive.is_valid() && alive.votes() == 3);
    assert_eq!(alive.release().await.unwrap(), Released::Ours);
    let writer = other.lock("r").await.unwrap();
    assert!(writer.is_valid());
    assert_eq!(crashed.release().await.unwrap(), Released::AlreadyLost);
    assert!(writer.is_valid() && writer.votes() == 3);
}

#[tokio::test(start_paused = true)]
async fn a_lock_whose_only_reader_crashed_is_free_after_its_ttl() {
    let nodes = nodes(3);
    let crashed = client(&nodes).lock("r").shared().auto_extend(false).await.unwrap();
    let begun = Instant::now();
    drop(client(&nodes).lock("r").wait(10 * TTL).await.unwrap());
    assert!(begun.elapsed() <= TTL + SECOND, "{:?}", begun.elapsed());
    drop(crashed);
}

#[tokio::test(start_paused = true)]
async fn readers_that_waited_for_a_writer_get_the_lock_together() {
    let nodes = nodes(3);
    let clients = [client(&nodes), client(&nodes)];
    let writer = clients[0].lock("r").await.unwrap();
    let together = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
    let reading = (0..8).map(|number| {
        let (request, together) = (clients[number % 2].lock("r").shared(), Arc::clone(&together));
        tokio::spawn(async move {
            let reader = request.wait(60 * SECOND).await.unwrap();
            together.1.fetch_max(together.0.fetch_add(1, SeqCst) + 1, SeqCst);
            sleep(20 * SECOND).await;
            together.0.fetch_sub(1, SeqCst);
            drop(reader);
        })
    });
    let reading: Vec<_> = reading.collect();
    sleep(5 * SECOND).await;
    assert_eq!(together.0.load(SeqCst), 0);
    drop(writer);
    let begun = Instant::now();
    join_all(reading).await.into_iter().for_each(|it| it.unwrap());
    assert_eq!(together.1.load(SeqCst), 8);
    assert!(begun.elapsed() < 25 * SECOND, "{:?}", begun.elapsed());
    sleep(SECOND).await;
    assert!(are_empty(&nodes));
}

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

/// The sign of a writer holds up the readers behind its place, and lets those before it ask.
#[tokio::test(start_paused = true)]
async fn a_reader_tells_the_nodes_its_place_and_a_writer_the_place_of_its_sign() {
    let nodes = nodes(3);
    let (one, other, writer) = (client(&nodes), client(&nodes), client(&nodes));
    drop(writer.lock("warm").await.unwrap());
    let reader = one.lock("r").shared().await.unwrap();
    let raise = |place| {
        let (key, value) = ("redlock:r".into(), "a writer".to_owned());
        Barrier::raise(&writer.client().nodes, &key, place, value)
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

#[tokio::test(start_paused = true)]
async fn a_reader_is_healed_and_lost_like_any_holder() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let readers = [
        redlock.lock("r").shared().await.unwrap(),
        client(&nodes).lock("r").shared().await.unwrap(),
    ];
    for node in &nodes {
        node.restart_empty();
        sleep(TTL).await;
    }
    assert!(readers.iter().all(|reader| reader.is_valid() && reader.votes() == 3));
    nodes.iter().for_each(MemoryNode::clear);
    let writer = client(&nodes).lock("r").await.unwrap();
    for reader in &readers {
        timeout(TTL, reader.lost()).await.unwrap();
    }
    assert!(writer.is_valid());
    drop(readers);
    sleep(SECOND).await;
    assert_eq!(writer.release().await.unwrap(), Released::Ours);
}

#[tokio::test(start_paused = true)]
async fn an_operator_takes_a_lock_from_its_readers() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let readers =
        [redlock.lock("r").shared().await.unwrap(), redlock.lock("r").shared().await.unwrap()];
    let status = redlock.inspect("r").await.unwrap();
    assert_eq!(status.holder(), None);
    assert!(status.remaining() > TTL - SECOND);
    redlock.force_release("r").await.unwrap();
    for reader in &readers {
        timeout(TTL, reader.lost()).await.unwrap();
        let error = reader.extend(TTL).await.unwrap_err();
        assert!(matches!(error, LockError::Lost { reason: LostReason::Refused, .. }), "{error}");
    }
    sleep(TTL).await;
    let reader = redlock.lock("r").shared().await.unwrap();
    redlock.force_release_now("r").await.unwrap();
    drop(redlock.try_lock("r").await.unwrap());
    drop(reader);
}

#[tokio::test(start_paused = true)]
async fn a_min_hold_keeps_a_reader() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    drop(redlock.lock("r").shared().min_hold(20 * SECOND).await.unwrap());
    sleep(15 * SECOND).await;
    assert!(redlock.try_lock("r").await.unwrap_err().is_held());
    drop(redlock.try_lock("r").shared().await.unwrap());
    sleep(6 * SECOND).await;
    drop(redlock.try_lock("r").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn readers_join_each_other_and_writers_and_a_writer_does_not_join_readers() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let inside = async |_: &LockHandle| {
        let begun = Instant::now();
        let writes = redlock.lock("r").wait(60 * SECOND).run(async |_: &LockHandle| ()).await;
        let reads = redlock.lock("r").shared().run(async |_: &LockHandle| ()).await;
        let bare = redlock.lock("r").shared().wait(60 * SECOND).await.map(drop);
        assert_eq!(begun.elapsed(), Duration::ZERO);
        (writes.is_ok(), reads.is_ok(), bare.is_ok())
    };
    assert_eq!(redlock.lock("r").shared().run(inside).await.unwrap(), (false, true, false));
    assert_eq!(redlock.lock("r").run(inside).await.unwrap(), (true, true, false));
}

#[tokio::test(start_paused = true)]
async fn what_readers_cannot_have_is_refused() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    for request in [redlock.lock("r").shared().fenced(), redlock.lock_all(["r", "s"]).shared()] {
        let error = request.await.unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error}");
    }
    let error = redlock
        .lead("r")
        .shared()
        .run::<(), _, _>(|_| async { std::ops::ControlFlow::Break(()) })
        .await
        .unwrap_err();
    assert!(matches!(error, LockError::Config { .. }), "{error}");

    let lease = redlock.lock("r").shared().await.unwrap().into_lease();
    assert!(client(&nodes).adopt(lease).await.unwrap_err().is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_dropped_at_any_await_leaves_nothing() {
    for (held, polls) in
        [false, true].into_iter().flat_map(|held| (0..12).map(move |it| (held, it)))
    {
        let nodes = nodes(3);
        let redlock = client(&nodes);
        drop(redlock.lock("warm").await.unwrap());
        let writer = if held { Some(redlock.lock("r").await.unwrap()) } else { None };
        nodes.iter().for_each(|node| node.slow(Duration::from_millis(3)));
        let reading = redlock.lock("r").shared().into_future();
        let _ = timeout(Duration::from_millis(polls), reading).await;
        drop(writer);
        sleep(SECOND).await;
        assert!(are_empty(&nodes), "{held} {polls}");
        drop(client(&nodes).try_lock("r").await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn no_queue_is_kept_of_readers_that_have_gone() {
    let nodes = nodes(3);
    let redlock = client(&nodes);
    let reader = redlock.lock("r").shared().await.unwrap();
    assert!(redlock.client().queues.is_empty(), "readers do not stand in each other's way");
    drop(reader);
    let writer = redlock.lock("r").await.unwrap();
    let waiting = [redlock.lock("r").shared(), redlock.lock("r").shared()]
        .map(|request| tokio::spawn(request.wait(2 * SECOND).into_future()));
    for waiting in waiting {
        assert!(waiting.await.unwrap().unwrap_err().is_held());
    }
    drop(writer);
    assert!(redlock.client().queues.is_empty());
}
