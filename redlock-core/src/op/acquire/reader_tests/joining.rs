//! Readers that wait beside readers with the lock, and are told that they may share it.

use super::*;

const MS: Duration = Duration::from_millis(1);

/// The writer releases the lock between the refusal of the far reader and its place in the queue.
#[tokio::test(start_paused = true)]
async fn a_reader_that_joins_the_queue_behind_a_writer_that_has_gone_shares_the_lock() {
    let nodes = nodes(3);
    let far = nodes.iter().map(|node| far_away(node.name(), node, 50 * MS)).collect();
    let far = Redlock::builder().ttl(TTL).node_timeout(SECOND).over(far);
    let [holder, near] = [(); 2].map(|()| client(&nodes));
    for client in [&holder, &near, &far] {
        drop(client.lock("warm").await.unwrap());
    }
    sleep(SECOND).await;
    let writer = holder.lock("r").await.unwrap();
    let first = tokio::spawn(near.lock("r").shared().into_future());
    sleep(SECOND).await;
    let second = tokio::spawn(far.lock("r").shared().into_future());
    sleep(60 * MS).await;
    drop(writer);
    let released = Instant::now();
    let _first = first.await.unwrap().unwrap();
    drop(second.await.unwrap().unwrap());
    assert!(released.elapsed() < SECOND / 2, "{:?}", released.elapsed());
}

/// The set waits for its other lock. Its barrier before this one has expired, and readers come all the time.
#[tokio::test(start_paused = true)]
async fn a_reader_behind_a_set_that_waits_for_another_lock_shares_this_one() {
    let nodes = nodes(3);
    let [holder, ours, theirs] = [(); 3].map(|()| client(&nodes));
    let _other = holder.lock("b").await.unwrap();
    let reader = holder.lock("a").shared().await.unwrap();
    let set = tokio::spawn(theirs.lock_all(["a", "b"]).wait(60 * SECOND).into_future());
    sleep(SECOND).await;
    drop(reader);
    sleep(100 * MS).await;
    let waits = tokio::spawn(ours.lock("a").shared().wait(60 * SECOND).into_future());
    sleep(100 * MS).await;
    let comes_and_goes = async {
        loop {
            if let Ok(guard) = holder.try_lock("a").shared().await {
                tokio::spawn(async move {
                    sleep(50 * MS).await;
                    drop(guard);
                });
            }
            sleep(5 * MS).await;
        }
    };
    let begun = Instant::now();
    let shares = tokio::select! {
        shares = waits => shares.unwrap().unwrap(),
        () = comes_and_goes => unreachable!(),
    };
    assert!(begun.elapsed() < 12 * SECOND, "{:?}", begun.elapsed());
    assert!(!set.is_finished());
    drop(shares);
}

/// A writer is before it. New readers wait behind that writer, too.
#[tokio::test(start_paused = true)]
async fn a_reader_behind_a_writer_that_waits_for_readers_waits() {
    let nodes = nodes(3);
    let [holder, ours, theirs] = [(); 3].map(|()| client(&nodes));
    let reader = holder.lock("r").shared().await.unwrap();
    let writer = tokio::spawn(theirs.lock("r").wait(60 * SECOND).into_future());
    sleep(SECOND).await;
    let waits = tokio::spawn(ours.lock("r").shared().wait(60 * SECOND).into_future());
    sleep(20 * SECOND).await;
    assert!(!writer.is_finished() && !waits.is_finished());
    drop(reader);
    drop(writer.await.unwrap().unwrap());
    drop(waits.await.unwrap().unwrap());
}
