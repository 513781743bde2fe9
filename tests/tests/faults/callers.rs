//! Rows 38 to 40 and 42: callers that leave, panic, abort, outlive their runtime, and come in
//! crowds. Dropping a future at each of its awaits is also the suite `cancellation`, under every fault.

use std::{future::IntoFuture, time::Duration};

use redlock_core::{LockError, LockHandle, Redlock, Released, redlock};
use redlock_tests::{Flow, LIMIT, Nodes, Peer, drop_after_every_poll, history::History, within};

use crate::support::{
    JOB, LONG, SECOND, behind_proxies, forget_calls, wait_until_empty, wait_until_set,
};

#[tokio::test]
async fn row_38_a_dropped_future_leaves_no_key_and_no_task_wherever_it_is_dropped() {
    let nodes = Nodes::start(3);
    let client = nodes.client().ttl(LONG).build().unwrap();
    // Cold as well: the first of these opens the connections.
    let guard = drop_after_every_poll(async || client.lock("lock").into_future()).await.unwrap();
    drop(guard);
    wait_until_empty(&nodes).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let warm = tasks();

    let body = async |_: &LockHandle| tokio::task::yield_now().await;
    drop_after_every_poll(async || client.lock("run").wait(LIMIT).run(body)).await.unwrap();
    wait_until_empty(&nodes).await;

    let released =
        drop_after_every_poll(async || client.lock("release").wait(LIMIT).await.unwrap().release())
            .await;
    assert_eq!(released.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;

    let guard = client.lock("extend").await.unwrap();
    drop_after_every_poll(async || guard.extend(LONG)).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;
    assert_eq!(tasks(), warm, "a task for something that was dropped is left");
}

#[tokio::test]
async fn row_38_a_future_dropped_while_its_commands_are_on_the_way_leaves_no_key() {
    let (nodes, proxies, client) = behind_proxies(3, 2 * SECOND).await;
    let delay = Duration::from_millis(5);
    proxies.iter().for_each(|proxy| proxy.both(Flow::Delay(delay)));
    for milliseconds in 0..=12 {
        let limit = Duration::from_millis(milliseconds);
        let _ = tokio::time::timeout(limit, client.try_lock(format!("job:{milliseconds}"))).await;
    }
    wait_until_empty(&nodes).await;

    // The requests arrive, and no client ever hears of it.
    proxies.iter().for_each(|proxy| proxy.both(Flow::Pass));
    nodes.warm_up(&client).await;
    forget_calls(&nodes);
    proxies.iter().for_each(|proxy| proxy.replies(Flow::Discard));
    let lock = tokio::spawn(client.try_lock("unheard").into_future());
    wait_until_set(&nodes).await;
    lock.abort();
    proxies.iter().for_each(|proxy| proxy.replies(Flow::Pass));
    wait_until_empty(&nodes).await;
}

#[derive(Debug, PartialEq)]
enum Failed {
    Lock(String),
    Job,
}

impl From<LockError> for Failed {
    fn from(error: LockError) -> Self {
        Self::Lock(error.to_string())
    }
}

#[redlock(resource = "job", client = *client)]
async fn fails(client: &Redlock, nodes: &Nodes) -> Result<(), Failed> {
    assert!(nodes.holding(JOB) >= 2);
    Err(Failed::Job)?;
    Ok(())
}

#[redlock(resource = "job", client = *client)]
async fn panics(client: &Redlock) -> Result<(), Failed> {
    panic!("in an annotated function");
}

#[tokio::test]
async fn row_39_a_panic_releases_and_goes_on() {
    let nodes = Nodes::start(3);
    let client = nodes.client().ttl(LONG).build().unwrap();
    let guard = client.lock("job").await.unwrap();
    let task = tokio::spawn(async move {
        let _guard = guard;
        panic!("while a guard is held");
    });
    assert!(task.await.unwrap_err().is_panic());
    wait_until_empty(&nodes).await;

    let run = {
        let client = client.clone();
        async move {
            client.lock("job").run(async |_: &LockHandle| panic!("in a body")).await.unwrap();
        }
    };
    let annotated = {
        let client = client.clone();
        async move { panics(&client).await.unwrap() }
    };
    for (task, words) in
        [(tokio::spawn(run), "in a body"), (tokio::spawn(annotated), "in an annotated function")]
    {
        let panic = within("a task", task).await.unwrap_err().into_panic();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&words));
        wait_until_empty(&nodes).await;
    }
}

#[tokio::test]
async fn row_39_an_error_of_the_body_releases_and_is_the_result() {
    let nodes = Nodes::start(3);
    let client = nodes.client().ttl(LONG).build().unwrap();
    assert_eq!(fails(&client, &nodes).await, Err(Failed::Job));
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_39_a_process_that_aborts_leaves_its_lock_to_the_ttl() {
    let nodes = Nodes::start(3);
    let program = env!("CARGO_BIN_EXE_redlock-process");
    let arguments = ["abort".to_owned(), "job".to_owned()].into_iter().chain(nodes.urls());
    let mut holder = Peer::start(program, arguments);
    assert_eq!(holder.line().await, "held");
    assert!(!holder.end().await, "it ended well");
    let client = nodes.client().build().unwrap();
    let guard = client.lock("job").wait(LIMIT).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Ours);
    wait_until_empty(&nodes).await;
}

#[tokio::test]
async fn row_40_a_guard_dropped_outside_the_runtime_releases() {
    let nodes = Nodes::start(3);
    let client = nodes.client().ttl(LONG).build().unwrap();
    let guard = client.lock("job").await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    wait_until_empty(&nodes).await;
}

#[test]
fn row_40_a_guard_that_outlives_its_runtime_is_dropped_without_a_panic() {
    let nodes = Nodes::start(3);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let client = nodes.client().ttl(LONG).build().unwrap();
    let guards = first.block_on(async {
        [client.lock("job").await.unwrap(), client.lock("unpolled").await.unwrap()]
    });
    drop(first);
    let [guard, unpolled] = guards;
    assert!(guard.is_valid(), "the clock needs no runtime");
    drop(guard);
    // Never polled.
    drop(unpolled.release());
    // Owed deletes are sent as soon as the client is used on another runtime.
    runtime().block_on(async {
        assert_eq!(client.health().await.len(), 3);
        wait_until_empty(&nodes).await;
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_42_a_hundred_contenders_all_get_the_lock_one_at_a_time() {
    let nodes = Nodes::start(3);
    let history = History::new();
    let clients: Vec<Redlock> = (0..4)
        .map(|_| {
            let client = nodes.client().ttl(LONG).wait(10 * LIMIT);
            let client = client.retry_delay(Duration::from_millis(20));
            client.retry_jitter(Duration::from_millis(40)).build().unwrap()
        })
        .collect();
    for client in &clients {
        nodes.warm_up(client).await;
    }
    nodes[0].command(&["CONFIG", "RESETSTAT"]);
    let contenders: Vec<_> = (0..100)
        .map(|number| {
            let (client, history) = (clients[number % clients.len()].clone(), history.clone());
            tokio::spawn(async move {
                let guard = client.lock("job").await.unwrap();
                let mut recording = history.begin("job", &number.to_string());
                tokio::time::sleep(Duration::from_millis(1)).await;
                assert!(recording.confirm(|| guard.is_valid()));
                drop(recording);
                assert_eq!(guard.release().await.unwrap(), Released::Ours);
            })
        })
        .collect();
    for contender in contenders {
        within("a contender", contender).await.unwrap();
    }
    assert_eq!(history.holds().len(), 100);
    history.assert_exclusive();
    println!("{} attempts for 100 locks", nodes[0].calls("set"));
    wait_until_empty(&nodes).await;
}
