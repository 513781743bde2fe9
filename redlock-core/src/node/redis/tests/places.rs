//! Places in the queue before a lock, as a server gives them.

use super::*;
use crate::node::queue_keys;

const LIFE: Duration = Duration::from_secs(60);

/// Joins at a place, or at the end. Returns the place and how many stand before it.
async fn joined(node: &mut dyn Connection, waiter: &Arc<Claim>, place: u64) -> (u64, u64) {
    let join = Action::Join { place, life: LIFE, listens: Listens::Nothing, reads: false };
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
    let join = Action::Join { place: 0, life: LIFE, listens: Listens::Nothing, reads: false };
    assert_eq!(act(&mut *node, &comes, join).await, Ok(Reply::Full));
    joined(&mut *node, &waits, 0).await;
}

/// Where ten thousand wait, the server would do nothing else for a long time at each look.
#[tokio::test]
async fn a_look_reads_no_more_of_a_queue_than_it_asks_for_and_an_operator_sees_all() {
    const COUNT: usize = 700;
    let mut server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let names: Vec<_> = (0..COUNT).map(|it| format!("waiter-{it}")).collect();
    let waiters: Vec<_> = names.iter().map(|it| claim("redlock:a", it)).collect();
    let join = Action::Join { place: 0, life: LIFE, listens: Listens::Nothing, reads: false };
    batch(&mut *node, &waiters.iter().map(|it| (it, join)).collect::<Vec<_>>()).await;
    let dead = [0, 1, 2, 4, 300, 400, 699];
    let alive = (0..COUNT).filter(|it| !dead.contains(it)).map(|it| names[it].as_str());
    let alive: Vec<_> = alive.collect();
    for gone in [&[][..], &dead] {
        for waiter in gone {
            let key = format!("redlock:a:{{redlock:a}}:alive:waiter-{waiter}");
            assert_eq!(server.number(&format!("DEL {key}")), 1);
        }
        let expected = if gone.is_empty() {
            names.iter().map(String::as_str).collect()
        } else {
            alive.clone()
        };
        for most in [1, 2, 5, 256, 600, COUNT as u64, 0] {
            server.admin("CONFIG RESETSTAT");
            let looks = claim("redlock:a", "");
            let Ok(Reply::Inspected(seen)) =
                act(&mut *node, &looks, Action::Inspect { most }).await
            else {
                panic!("it looks")
            };
            let seen: Vec<_> = seen.waiting.iter().map(|it| it.0.as_str()).collect();
            let count = if most == 0 { COUNT } else { most as usize };
            assert_eq!(seen, expected[..count.min(expected.len())], "{most}");
            if most == 1 && gone.is_empty() {
                let run = server.commands_run();
                assert!(run.contains(&"zrange 1".to_owned()), "{run:?}");
                assert!(
                    run.contains(&"exists 2".to_owned()),
                    "of the waiter and of the turn: {run:?}"
                );
            }
        }
    }
}
