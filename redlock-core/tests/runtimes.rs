//! A client outlives the runtime that its tasks run on (rule 13), and is used without one.

use std::time::Duration;

use redlock_core::{MemoryNode, Redlock};
use tokio::{runtime::Runtime, time::sleep};

fn nodes() -> [MemoryNode; 3] {
    std::array::from_fn(|_| MemoryNode::new())
}

fn client(nodes: &[MemoryNode]) -> Redlock {
    // Longer than any machine is slow: what these tests wait for must not come from the clock.
    let (ttl, wait) = (Duration::from_secs(60), Duration::from_secs(30));
    Redlock::builder().nodes(nodes).ttl(ttl).wait(wait).build().unwrap()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_release_that_is_under_way_when_its_runtime_ends_is_sent_again() {
    let nodes = nodes();
    let redlock = client(&nodes);
    let first = runtime();
    first.block_on(async {
        let guard = redlock.lock("r").await.unwrap();
        nodes.iter().for_each(MemoryNode::hang);
        drop(guard);
        tokio::task::yield_now().await; // the deletes leave
    });
    drop(first);
    nodes.iter().for_each(MemoryNode::resume);
    let _ = runtime().block_on(async { redlock.lock("r").await.unwrap() });
}

#[test]
fn who_waits_on_a_living_runtime_goes_on_when_that_of_the_tasks_ends() {
    let nodes = nodes();
    let (redlock, other) = (client(&nodes), client(&nodes));
    let (of_tasks, of_other) = (runtime(), runtime());
    of_tasks.block_on(async { drop(redlock.lock("warm").await.unwrap()) });
    let held = of_other.block_on(async { other.lock("r").await.unwrap() });
    let waiter = std::thread::spawn({
        let redlock = redlock.clone();
        move || runtime().block_on(async { redlock.lock("r").await.map(drop) })
    });
    of_tasks.block_on(async { sleep(Duration::from_millis(300)).await });
    drop(of_tasks);
    of_other.block_on(async { held.release().await.unwrap() });
    waiter.join().unwrap().unwrap();
}
