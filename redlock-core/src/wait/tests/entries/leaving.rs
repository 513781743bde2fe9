//! Readers that have the lock and leave the queue: whether other clients wait there.

use super::*;

/// The reader that leaves has the lock, and so do those behind it.
#[tokio::test(start_paused = true)]
async fn a_reader_hears_whether_other_clients_wait_behind_it() {
    let node = MemoryNode::new();
    let redlock = Redlock::builder().nodes([&node]).build().unwrap();
    drop(redlock.lock("warm").await.unwrap());
    for others in 0..3 {
        let mut entries: Vec<_> = (0..3).map(|number| entry_of(&redlock, number)).collect();
        for entry in &mut entries[..=others] {
            entry.report().await;
        }
        // The last one leaves: there are others before it, and it has nothing to tell them.
        let told = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&told);
        entries.swap_remove(others).shares(move || tell.store(true, SeqCst));
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(told.load(SeqCst), others == 0, "{others}");
        drop(entries);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_node_that_kept_the_entry_says_whether_other_clients_wait() {
    // A node that restarts has another rank, and may not be the queue node again.
    for _ in 0..100 {
        let nodes = nodes(3);
        let redlock = Redlock::builder().nodes(&nodes).restarts(crate::Restarts::Trusted);
        let redlock = redlock.build().unwrap();
        drop(redlock.lock("warm").await.unwrap());
        let first = &nodes[queue_node_of(&redlock)];
        first.stop();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut ours = entry_of(&redlock, 0);
        ours.report().await;
        let before = ours.pushing_node();
        first.start();
        tokio::time::sleep(Duration::from_secs(2)).await;
        ours.report().await;
        if ours.pushing_node() == before {
            continue;
        }
        let mut other = entry_of(&redlock, 1);
        other.report().await;
        let told = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&told);
        ours.shares(move || tell.store(true, SeqCst));
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(!told.load(SeqCst), "the node before says that no client waits");
        return;
    }
    panic!("no entry has moved");
}
