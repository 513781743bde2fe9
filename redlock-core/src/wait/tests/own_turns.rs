//! A turn that a client gives is its own, or that of another client. A node does not push to a client what that client
//! does: the answer names the waiter.

use super::*;

/// Tasks of a client that hold the lock all the time, as readers and as writers.
fn reads_and_writes(redlock: &Redlock, tasks: usize) -> Vec<JoinHandle<()>> {
    let task = |number: usize| {
        let redlock = redlock.clone();
        tokio::spawn(async move {
            loop {
                let request = redlock.lock("r").wait(5 * MINUTE);
                let reads = number.is_multiple_of(2);
                let guard = if reads { request.shared() } else { request }.await.unwrap();
                sleep(5 * MS).await;
                guard.release().await.unwrap();
            }
        })
    };
    (0..tasks).map(task).collect()
}

/// Each of its turns is one that the near client gave, whose tasks are there long before it.
#[tokio::test(start_paused = true)]
async fn a_far_writer_gets_its_turns_beside_a_near_client_that_reads_and_writes() {
    for tasks in [2, 4, 8] {
        let nodes = nodes(3);
        let far = far_client(&nodes, 20 * MS);
        drop(far.lock("warm").await.unwrap());
        let near = reads_and_writes(&client(&nodes), tasks);
        sleep(100 * MS).await;
        for _ in 0..10 {
            let begun = Instant::now();
            drop(far.lock("r").await.unwrap());
            let took = begun.elapsed();
            assert!(took < 600 * MS, "{tasks} tasks: {took:?}");
        }
        near.iter().for_each(|task| task.abort());
    }
}

/// A request that only tries has the request before it ask, which may be behind another client.
#[tokio::test(start_paused = true)]
async fn a_request_that_only_tries_takes_no_turn_through_the_request_before_it() {
    for is_next in [true, false] {
        let nodes = nodes(3);
        let [holder, other, ours] = [(); 3].map(|()| client(&nodes));
        for redlock in [&other, &ours] {
            drop(redlock.lock("warm").await.unwrap());
        }
        let held = holder.lock("r").await.unwrap();
        let mut ahead: Vec<_> = (0..if is_next { 1 } else { 2 }).map(|_| entry(&other)).collect();
        for entry in &mut ahead {
            assert!(matches!(entry.report().await, Report::At(_)));
        }
        let waits = waiting(&ours, MINUTE).await;
        sleep(10 * MS).await;
        drop(held);
        sleep(MS).await;
        assert_eq!(ahead[0].take_signal(), Some(Signal::Turn));
        let tries = || ours.try_lock("r").retry_delay(MS).into_future();
        for _ in 0..10 {
            assert!(tries().await.unwrap_err().is_held());
            sleep(MS).await;
        }
        assert!(!waits.is_finished());
        // Those before it have gone.
        drop(ahead);
        let begun = Instant::now();
        drop(waits.await.unwrap().unwrap());
        assert!(begun.elapsed() < 10 * MS, "{:?}", begun.elapsed());
    }
}

/// Tasks of a client without a quorum would pass the turn round without a pause.
#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_without_a_quorum_tells_no_task_of_its_own() {
    for (has_quorum, is_ours, told) in [
        (true, true, Some(Signal::Turn)),
        (false, true, None),
        (true, false, Some(Signal::Turn)),
        (false, false, Some(Signal::Turn)),
    ] {
        let nodes = nodes(3);
        let [holder, ours, theirs] = [(); 3].map(|()| client(&nodes));
        drop(theirs.lock("warm").await.unwrap());
        let first = with_turn(&holder, &ours).await;
        let mut next = entry(if is_ours { &ours } else { &theirs });
        assert!(matches!(next.report().await, Report::At(_)));
        if has_quorum {
            drop(first);
        } else {
            first.leave_to_others();
        }
        sleep(10 * MS).await;
        assert_eq!(next.take_signal(), told, "{has_quorum} {is_ours}");
    }
}
