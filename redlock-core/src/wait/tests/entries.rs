//! Places in the queue between clients.

use super::*;

/// A node pushes a key once, and it has pushed the key for this turn already.
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_turn_crossed_its_report_hears_of_its_next_turn() {
    let nodes = nodes(3);
    let [ours, holder, next] = [client(&nodes), client(&nodes), client(&nodes)];
    let guard = holder.lock("r").await.unwrap();
    drop(ours.lock("warm").await.unwrap());
    drop(next.lock("warm").await.unwrap());
    let value = "waiter".to_owned();
    let mut entry = Entry::new(&ours.client().nodes, &"redlock:r".into(), value, || ());
    assert_eq!(entry.report().await.unwrap().ahead, 0);
    nodes.iter().for_each(|node| node.slow(10 * MS));
    let released = tokio::spawn(guard.release());
    sleep(5 * MS).await;
    // The release takes the entry out, and the report puts it back.
    assert_eq!(entry.report().await.unwrap().left, None);
    assert_eq!(entry.take_signal(), Some(Signal::Turn));
    assert!(!entry.has_turn());
    assert_eq!(released.await.unwrap().unwrap(), Released::Ours);

    let guard = next.try_lock("r").await.unwrap();
    entry.report().await.unwrap();
    drop(guard);
    assert_eq!(timeout(MINUTE, entry.signal()).await, Ok(Signal::Turn));
}
