//! What operators do, on real servers.

use std::time::Duration;

use redlock_core::{LockState, Redlock};
use redlock_tests::{Nodes, wait_until};

fn client(name: &str, nodes: &Nodes) -> Redlock {
    Redlock::builder()
        .nodes(nodes.urls())
        .client_name(name)
        .node_timeout(Duration::from_secs(5))
        .ttl(Duration::from_secs(15))
        .wait(Duration::from_secs(60))
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_lock_is_looked_at_and_taken_away() {
    let nodes = Nodes::start(3);
    let [holder, operator, next] = ["holder", "operator", "next"].map(|it| client(it, &nodes));
    let guard = holder.lock("r").await.unwrap();
    let waits = tokio::spawn({
        let next = next.clone();
        async move { next.lock("r").await }
    });
    wait_until("a client in the queue", async || {
        let status = operator.inspect("r").await.unwrap();
        status.waiting().iter().map(|it| it.client_name()).eq(["next"])
    })
    .await;
    let valid = guard.validity();
    let status = operator.inspect("r").await.unwrap();
    assert_eq!(status.holder(), Some("holder"));
    let left = status.remaining();
    assert!(left > Duration::ZERO && left <= Duration::from_secs(15), "{left:?}");

    operator.force_release("r").await.unwrap();
    let was_renewed = guard.validity() > valid;
    let status = operator.inspect("r").await.unwrap();
    assert_eq!(status.holder(), Some("operator"), "no client gets it before its time is over");
    assert!(status.remaining() <= left || was_renewed, "{:?} of {left:?}", status.remaining());
    assert!(!waits.is_finished());
    guard.lost().await;
    operator.force_release_now("r").await.unwrap();
    let guard = waits.await.unwrap().unwrap();
    assert_eq!(operator.inspect("r").await.unwrap().holder(), Some("next"));
    guard.release().await.unwrap();
    let status = operator.inspect("r").await.unwrap();
    assert!(status.holder().is_none() && status.remaining().is_zero(), "{status:?}");
}

#[tokio::test]
async fn a_lock_of_another_library_is_seen_and_deleted() {
    let nodes = Nodes::start(1);
    let operator = client("operator", &nodes);
    for value in ["a-secret-token", "\u{e9}\u{0}", ""] {
        nodes[0].command(&["SET", "redlock:r", value]);
        let status = operator.inspect("r").await.unwrap();
        assert_eq!((status.holder(), status.remaining()), (None, Duration::MAX));
        assert!(matches!(status.nodes()[0].state, LockState::Held { holder: None, .. }));
        assert!(!format!("{status:?}").contains("secret"));
        operator.force_release_now("r").await.unwrap();
        assert!(operator.inspect("r").await.unwrap().remaining().is_zero());
    }
    // A key of another type is no lock.
    nodes[0].command(&["RPUSH", "redlock:r", "x"]);
    let status = operator.inspect("r").await.unwrap();
    let LockState::Unknown { error, .. } = &status.nodes()[0].state else { panic!("{status:?}") };
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
}
