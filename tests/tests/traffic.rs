//! What a lock costs its nodes, as MONITOR counts it.

use std::time::Duration;

use redlock_core::LockHandle;
use redlock_tests::{Command, Nodes, wait_until};

/// What clients sent; what a script calls inside counts as part of the script.
fn sent(commands: Vec<Command>) -> Vec<Command> {
    commands.into_iter().filter(|command| !command.is_inside_script()).collect()
}

/// One SET that grants, one script that compares and deletes, and nothing else.
fn assert_one_set_and_one_delete(commands: Vec<Command>, key: &str) {
    let shown = commands.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let sent = sent(commands);
    let [set, delete] = &sent[..] else { panic!("more or less than two commands:\n{shown}") };
    assert_eq!(set.name(), "SET", "{shown}");
    let options: Vec<_> = set.words[3..].iter().map(|word| word.to_uppercase()).collect();
    assert!(options.contains(&"NX".to_owned()) && options.contains(&"PX".to_owned()), "{shown}");
    assert_eq!(set.words[1], key, "{shown}");
    assert_eq!(delete.name(), "EVALSHA", "{shown}");
    assert!(delete.words.contains(&key.to_owned()), "{shown}");
}

#[tokio::test]
async fn a_lock_and_its_release_are_one_set_and_one_delete_on_each_node() {
    let nodes = Nodes::start(5);
    // Nothing is renewed meanwhile, however slow the machine is.
    let client = nodes.client().ttl(Duration::from_secs(60)).build().unwrap();
    nodes.warm_up(&client).await;

    let monitors: Vec<_> = nodes.iter().map(|node| node.monitor()).collect();
    let guard = client.lock("job").await.unwrap();
    guard.release().await.unwrap();
    wait_until("all nodes have released", async || nodes.are_empty()).await;
    for monitor in monitors {
        assert_one_set_and_one_delete(monitor.finish(), "redlock:job");
    }

    let monitors: Vec<_> = nodes.iter().map(|node| node.monitor()).collect();
    client.lock("job").run(async |_: &LockHandle| ()).await.unwrap();
    wait_until("all nodes have released", async || nodes.are_empty()).await;
    for monitor in monitors {
        assert_one_set_and_one_delete(monitor.finish(), "redlock:job");
    }
}

#[tokio::test]
async fn one_connection_a_node_serves_many_locks() {
    let nodes = Nodes::start(3);
    let client = nodes.client().build().unwrap();
    nodes.warm_up(&client).await;
    let locks = (0..50).map(|i| {
        let client = client.clone();
        tokio::spawn(async move {
            client.lock(format!("job:{i}")).await.unwrap().release().await.unwrap();
        })
    });
    for lock in locks.collect::<Vec<_>>() {
        lock.await.unwrap();
    }
    for node in nodes.iter() {
        assert_eq!(node.clients().len(), 1, "{:?}", node.clients());
    }
}
