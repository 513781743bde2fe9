//! Places in the queue before a lock, as a server gives them.

use super::*;
use crate::node::queue_keys;

const LIFE: Duration = Duration::from_secs(60);

/// Joins at a place, or at the end. Returns the place and how many stand before it.
async fn joined(node: &mut dyn Connection, waiter: &Arc<Claim>, place: u64) -> (u64, u64) {
    let join = Action::Join { place, life: LIFE, listens: Listens::Nothing };
    match act(node, waiter, join).await {
        Ok(Reply::Queued { place, ahead, .. }) => (place, ahead),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_waiter_keeps_its_place_and_a_newcomer_stands_behind_all() {
    const FUTURE: u64 = 9_000_000_000_000_000;
    let mut server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let [first, second, third] = ["a", "b", "c"].map(|value| claim("redlock:a", value));
    let queue = queue_keys::queue("redlock:a");
    let (place, ahead) = joined(&mut *node, &first, 0).await;
    assert_eq!((joined(&mut *node, &second, 0).await.1, ahead), (1, 0));

    // A node that has forgotten it gives it the place that it had.
    assert_eq!(server.number(&format!("ZREM {queue} a")), 1);
    assert_eq!(joined(&mut *node, &first, place).await, (place, 0));
    assert_eq!(joined(&mut *node, &first, 0).await, (place, 0), "it says that it is alive");

    // The clock of the node was ahead when this one came.
    server.admin(&format!("ZADD {queue} {FUTURE} late"));
    assert_eq!(joined(&mut *node, &third, 0).await, (FUTURE + 1, 3));

    // Waiters that have died count no more, as far as they are at the front.
    let alive = |waiter| format!("redlock:a:{{redlock:a}}:alive:{waiter}");
    assert_eq!(server.number(&format!("DEL {}", alive("a"))), 1);
    assert_eq!(joined(&mut *node, &third, FUTURE + 1).await.1, 2);
    assert_eq!(server.number(&format!("DEL {}", alive("b"))), 1);
    assert_eq!(joined(&mut *node, &third, FUTURE + 1).await.1, 0);
}

#[tokio::test]
async fn a_queue_has_a_limited_number_of_places() {
    let mut server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let [waits, comes] = ["waits", "comes"].map(|value| claim("redlock:a", value));
    joined(&mut *node, &waits, 0).await;
    let others: String = (1..10_000).map(|number| format!(" 1 other-{number}")).collect();
    server.admin(&format!("ZADD {}{others}", queue_keys::queue("redlock:a")));
    let join = Action::Join { place: 0, life: LIFE, listens: Listens::Nothing };
    assert_eq!(act(&mut *node, &comes, join).await, Ok(Reply::Full));
    joined(&mut *node, &waits, 0).await;
}
