//! Locks with names that read like the queues of readers and of permits of another lock.

use std::{future::IntoFuture, time::Duration};

use tokio::time::sleep;

use crate::{MemoryNode, Redlock, testing::nodes};

const SECOND: Duration = Duration::from_secs(1);

fn client(nodes: &[MemoryNode]) -> Redlock {
    Redlock::builder().nodes(nodes).build().unwrap()
}

/// The lease would be renewed and released under the wrong key, and the holder of the right one is not asked.
#[tokio::test(start_paused = true)]
async fn the_lease_of_one_lock_is_not_handed_to_a_reader_or_to_a_permit_of_another() {
    let nodes = nodes(3);
    let (ours, other) = (client(&nodes), client(&nodes));
    let writer = other.lock("r").await.unwrap();
    let held = ours.lock("r\0readers").await.unwrap();
    let reader = tokio::spawn(ours.lock("r").shared().into_future());
    sleep(Duration::from_millis(1)).await;
    drop(held);
    sleep(SECOND).await;
    assert!(!reader.is_finished(), "a reader beside the writer");
    drop(writer);
    assert!(reader.await.unwrap().unwrap().is_valid());

    let permit = other.lock("p").permits(1).await.unwrap();
    let held = ours.lock("p:{redlock:p}:permit").await.unwrap();
    let second = tokio::spawn(ours.lock("p").permits(1).into_future());
    sleep(Duration::from_millis(1)).await;
    drop(held);
    sleep(SECOND).await;
    assert!(!second.is_finished(), "a second holder of the only permit");
    drop(permit);
    assert!(second.await.unwrap().unwrap().is_valid());
}

/// A writer in the place of a reader would have a queue of its own, which no release would end.
#[tokio::test(start_paused = true)]
async fn a_writer_of_one_lock_does_not_get_the_turn_of_a_reader_of_another() {
    let nodes = nodes(3);
    let (ours, other) = (client(&nodes), client(&nodes));
    let writer = other.lock("r").await.unwrap();
    let reader = tokio::spawn(ours.lock("r").shared().into_future());
    sleep(Duration::from_millis(1)).await;
    let writers = [(); 3].map(|()| {
        let request = ours.lock("r\0readers");
        tokio::spawn(async move { drop(request.await.unwrap()) })
    });
    sleep(Duration::from_millis(1)).await;
    drop(writer);
    drop(reader.await.unwrap().unwrap());
    for writer in writers {
        writer.await.unwrap();
    }
    sleep(SECOND).await;
    assert!(ours.client().queues.is_empty());
}
