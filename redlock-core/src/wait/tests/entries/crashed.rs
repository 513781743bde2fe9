//! Waiters behind others that have crashed, or are late to report.

use super::*;

/// Clients that were killed say nothing, and the first that is alive looks for itself.
#[tokio::test(start_paused = true)]
async fn waiters_that_crashed_together_do_not_hold_the_others_up() {
    for (crashed, most) in [(1, 120), (2, 400), (3, 600), (10, 3500)] {
        let nodes = nodes(5);
        nodes.iter().for_each(|node| node.slow(MS / 4));
        let [holder, killed, ours] = [client(&nodes), client(&nodes), client(&nodes)];
        let held = holder.lock("r").await.unwrap();
        drop(killed.lock("warm").await.unwrap());
        for number in 0..crashed {
            let mut entry = entry_of(&killed, number);
            assert_eq!(position(&mut entry).await.ahead, number);
            std::mem::forget(entry);
        }
        let waits = waiting(&ours, 5 * MINUTE).await;
        // A while after they said that they are alive.
        sleep(1000 * MS).await;
        let begun = Instant::now();
        drop(held);
        drop(waits.await.unwrap().unwrap());
        let elapsed = begun.elapsed();
        assert!(elapsed < most * MS, "{elapsed:?} after {crashed} crashed");
    }
}

/// A reader that has the lock passes its turn on to the next waiter, which says nothing more.
#[tokio::test(start_paused = true)]
async fn a_reader_behind_a_waiter_that_crashed_shares_the_lock() {
    for (crashed, silent_for, most) in [
        (0, 1000, 10),
        (1, 0, 120),
        (1, 1000, 120),
        (1, 3000, 120),
        (2, 1000, 600),
        (2, 3000, 120),
        (3, 1000, 600),
    ] {
        let nodes = nodes(3);
        let [holder, killed] = [client(&nodes), client(&nodes)];
        let held = holder.lock("r").await.unwrap();
        drop(killed.lock("warm").await.unwrap());
        let mut reads = Vec::new();
        for number in 0..4 {
            let reader = client(&nodes);
            reads.push(tokio::spawn(reader.lock("r").shared().into_future()));
            sleep(MS).await;
            if number == 0 {
                for number in 0..crashed {
                    let mut entry = entry_of(&killed, number);
                    assert_eq!(position(&mut entry).await.ahead, number + 1);
                    std::mem::forget(entry);
                }
            }
        }
        sleep(silent_for * MS).await;
        let begun = Instant::now();
        drop(held);
        let reading = join_all(reads).await;
        let elapsed = begun.elapsed();
        assert!(elapsed < most * MS, "{elapsed:?} after {crashed} crashed {silent_for} ms ago");
        drop(reading);
    }
}

/// A waiter that is told that it is near still hears that it is next: otherwise its next report would take a
/// turn that was just given for one that is not used.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_told_that_it_is_near_hears_that_it_is_next() {
    let nodes = nodes(3);
    let ours = client(&nodes);
    let mut held = client(&nodes).lock("r").await.unwrap();
    drop(ours.lock("warm").await.unwrap());
    let mut entries: Vec<Entry> = (0..6).map(|number| entry_of(&ours, number)).collect();
    for entry in &mut entries {
        position(entry).await;
    }
    // A while after they said that they are alive.
    sleep(1000 * MS).await;
    let [turn, next, near] = [Signal::Turn, Signal::Next, Signal::Near].map(Some);
    for told in [
        [turn, next, near, near, None, None],
        [None, turn, next, None, near, None],
        [None, None, turn, next, None, near],
    ] {
        drop(held);
        sleep(MS).await;
        let heard: Vec<_> = entries.iter_mut().map(Entry::take_signal).collect();
        assert_eq!(heard, told);
        // Another client does not know that others wait.
        held = client(&nodes).try_lock("r").await.unwrap_or_else(|error| panic!("{error}"));
    }
}

/// It may be alive on a busy machine. It keeps its place, and a turn is not lost.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_late_to_report_is_passed_over_and_keeps_its_place() {
    let nodes = nodes(3);
    let ours = client(&nodes);
    let mut held = client(&nodes).lock("r").await.unwrap();
    drop(ours.lock("warm").await.unwrap());
    let (mut late, mut other) = (entry_of(&ours, 1), entry_of(&ours, 2));
    position(&mut late).await;
    sleep(2600 * MS).await;
    assert_eq!(position(&mut other).await.ahead, 1);
    for (entry, place) in [(&mut other, 2), (&mut late, 1)] {
        assert_eq!(waiters(&ours).await, place);
        drop(held);
        sleep(MS).await;
        assert_eq!(entry.take_signal(), Some(Signal::Turn));
        // Another client does not know that others wait.
        held = client(&nodes).try_lock("r").await.unwrap_or_else(|error| panic!("{error}"));
    }
}
