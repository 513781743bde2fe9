//! Rows 21, 24, 26 to 30: masters that answer with an error. Each is a failure of that node in its
//! own words, never the lock of another client (rule 17), and ends with the trouble.

use redlock_core::{LockError, NodeErrorKind, Redlock, Released};
use redlock_tests::{LIMIT, Nodes, Server, wait_until, within};

use crate::support::{
    JOB, LONG, SECOND, assert_all_failed, brief, failed_nodes, wait_until_down, wait_until_empty,
};

async fn start(count: usize) -> (Nodes, Redlock) {
    start_as(count, &Server::builder()).await
}

async fn start_as(count: usize, kind: &redlock_tests::ServerBuilder) -> (Nodes, Redlock) {
    let nodes = Nodes::start_as(count, kind);
    let client = nodes.client().ttl(LONG).build().unwrap();
    nodes.warm_up(&client).await;
    (nodes, client)
}

/// Nothing is locked while all nodes refuse in these words, and the lock is free afterwards.
async fn refuses(client: &Redlock, words: &str) {
    let error = within("try_lock", client.try_lock("other")).await.unwrap_err();
    assert_all_failed(&error, NodeErrorKind::Server, words);
    assert!(!error.to_string().contains('\n'), "{error}");
}

async fn works(client: &Redlock) {
    let guard = client.lock("other").wait(LIMIT).await.unwrap();
    guard.extend(LONG).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
}

#[tokio::test]
async fn row_21_nodes_without_memory_lock_nothing_but_renew_and_release() {
    let (nodes, client) = start(3).await;
    let guard = client.lock("job").await.unwrap();
    nodes.iter().for_each(|node| node.configure("maxmemory", "1"));
    refuses(&client, "OOM command not allowed").await;
    guard.extend(LONG).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    nodes.iter().for_each(|node| node.configure("maxmemory", "0"));
    works(&client).await;
    wait_until_empty(&nodes).await;
}

/// A reader is a member of a sorted set, and a lock that is adopted has another value: a server without memory
/// refuses both commands by themselves.
#[tokio::test]
async fn row_21_readers_permits_sets_and_leases_outlive_a_lack_of_memory() {
    let (nodes, client) = start(3).await;
    let reader = client.lock("read").shared().await.unwrap();
    let kept = client.lock("kept").shared().min_hold(SECOND).await.unwrap();
    let permit = client.lock("permit").permits(2).await.unwrap();
    let set = client.lock_all(["a", "b"]).await.unwrap();
    let lease = client.lock("moved").await.unwrap().into_lease();
    let leases = client.lock_all(["c", "d"]).await.unwrap().into_lease();
    nodes.iter().for_each(|node| node.configure("maxmemory", "1"));
    let adopted = client.adopt(lease).await.unwrap();
    let set_adopted = client.adopt(leases).await.unwrap();
    for guard in [reader, kept, permit, set, adopted, set_adopted] {
        let name = guard.resource().to_owned();
        guard.extend(LONG).await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Ours, "{name}");
    }
    nodes.iter().for_each(|node| node.configure("maxmemory", "0"));
    works(&client).await;
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_21_one_node_without_memory_changes_nothing() {
    let (nodes, client) = start(3).await;
    nodes[0].configure("maxmemory", "1");
    works(&client).await;
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_24_masters_that_miss_their_replicas_say_so() {
    let (nodes, client) = start(3).await;
    nodes.iter().for_each(|node| node.configure("min-replicas-to-write", "3"));
    refuses(&client, "NOREPLICAS").await;
    nodes.iter().for_each(|node| node.configure("min-replicas-to-write", "0"));
    works(&client).await;
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_24_nodes_that_miss_their_master_say_so() {
    let nodes = Nodes::start(3);
    let client = brief(&nodes);
    nodes.warm_up(&client).await;
    for node in nodes.iter() {
        node.configure("replica-serve-stale-data", "no");
        node.configure("replica-read-only", "no");
        node.command(&["REPLICAOF", "127.0.0.1", "1"]);
    }
    refuses(&client, "MASTERDOWN").await;
    nodes.iter().for_each(|node| drop(node.command(&["REPLICAOF", "NO", "ONE"])));
    let guard = client.lock("other").wait(LIMIT).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_26_nodes_that_are_busy_with_a_script_fail_and_the_script_goes_on() {
    let (nodes, client) = start(3).await;
    let mut scripts: Vec<_> = nodes[..2].iter().map(Server::busy).collect();
    wait_until("they say so", async || {
        let error = within("try_lock", client.try_lock("other")).await.unwrap_err();
        failed_nodes(&error).iter().all(|node| node.reason.contains("BUSY"))
    })
    .await;
    assert!(scripts.iter_mut().all(redlock_tests::Busy::still_runs), "a script was killed");
    // One busy node changes nothing.
    scripts.pop();
    works(&client).await;
    drop(scripts);
    works(&client).await;
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_27_a_missing_or_wrong_password_is_told_without_it() {
    let nodes = Nodes::start_as(3, &Server::builder().password("canary-right"));
    let accept = |password: &str| {
        for node in nodes.iter() {
            node.command(&["ACL", "SETUSER", "default", "resetpass", password]);
        }
    };
    for (login, words, mended) in
        [("", "NOAUTH", "nopass"), (":canary-wrong@", "WRONGPASS", ">canary-wrong")]
    {
        accept(">canary-right");
        let urls = nodes.iter().map(|node| format!("redis://{login}{}", node.address()));
        let client = redlock_tests::patient(urls).build().unwrap();
        let error = within("try_lock", client.try_lock("job")).await.unwrap_err();
        assert_all_failed(&error, NodeErrorKind::Down, words);
        let shown = format!("{error} {error:?} {client:?} {:?}", client.health().await);
        assert!(!shown.contains("canary"), "{shown}");
        // The node is tried again, so an operator can repair it without a restart.
        accept(mended);
        works(&client).await;
    }
}

#[tokio::test]
async fn row_28_a_missing_permission_is_named() {
    let user = |rest: &[&'static str]| {
        let mut rules = vec!["locks", "on", ">canary", "~redlock:*", "+@all"];
        rules.extend(rest);
        Server::builder().user(&rules)
    };
    let client = |nodes: &Nodes| {
        let urls = nodes.iter().map(|node| format!("redis://locks:canary@{}", node.address()));
        redlock_tests::patient(urls).ttl(LONG).build().unwrap()
    };

    let nodes = Nodes::start_as(3, &user(&["-pexpire"]));
    let mute = client(&nodes);
    // All of them are asked, not the first two alone.
    nodes.warm_up(&mute).await;
    // For a shorter time than the later requests ask for: a node does not set again what a key has
    // already.
    let guard = mute.lock("job").ttl(LONG / 2).await.unwrap();
    let error = guard.extend(LONG).await.unwrap_err();
    // The words of Redis 7.0 for a command that a script may not call, and the remedy.
    assert_all_failed(&error, NodeErrorKind::Server, "can't run this command");
    assert_all_failed(&error, NodeErrorKind::Server, "+pexpire");
    assert!(guard.is_valid(), "it is unknown, not lost");
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;

    let nodes = Nodes::start_as(3, &user(&["-set"]));
    let error = client(&nodes).try_lock("job").await.unwrap_err();
    assert_all_failed(&error, NodeErrorKind::Server, "NOPERM");
    assert_all_failed(&error, NodeErrorKind::Server, "'set'");
    assert!(nodes.are_empty() && !error.to_string().contains("canary"));
}

#[tokio::test]
async fn row_29_forgotten_scripts_are_not_noticed() {
    let (nodes, client) = start(3).await;
    let guard = client.lock("job").await.unwrap();
    let forget = || nodes.iter().for_each(|node| drop(node.command(&["SCRIPT", "FLUSH"])));
    forget();
    guard.extend(LONG).await.unwrap();
    wait_until("all nodes have extended it", async || guard.votes() == 3).await;
    forget();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_30_nodes_that_cannot_save_lock_nothing_and_leave_a_release_unconfirmed() {
    let (nodes, client) = start_as(3, &Server::builder().argument(&["--save", "3600 1"])).await;
    let guard = client.lock("job").ttl(15 * SECOND).await.unwrap();
    wait_until("all nodes hold the lock", async || nodes.holding(JOB) == 3).await;
    nodes.iter().for_each(Server::break_saving);
    refuses(&client, "MISCONF").await;
    let error = guard.release().await.unwrap_err();
    assert_all_failed(&error, NodeErrorKind::Server, "MISCONF");
    // No client can delete it. It expires.
    wait_until_empty(&nodes).await;
    nodes.iter().for_each(|node| node.configure("stop-writes-on-bgsave-error", "no"));
    works(&client).await;
}

#[tokio::test]
async fn row_33_nodes_that_take_no_more_clients_say_so() {
    let nodes = Nodes::start(3);
    // One connection is the harness's.
    nodes.iter().for_each(|node| node.configure("maxclients", "1"));
    let client = nodes.client().build().unwrap();
    let error: LockError = within("try_lock", client.try_lock("job")).await.unwrap_err();
    assert_all_failed(&error, NodeErrorKind::Down, "max number of clients reached");
    wait_until_down(&client, &nodes[0].address(), "max number of clients reached").await;
    nodes.iter().for_each(|node| node.configure("maxclients", "1000"));
    works(&client).await;
    wait_until_empty(&nodes).await;
}
