//! The turns of waiters for permits.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{late::Stretch, *};
use crate::node::{Told, queue_keys};

const JOIN: Action = Action::Join { place: 0, life: TTL, listens: Listens::Nothing, reads: false };

/// A question for one free permit of so many.
fn find_of(count: u32) -> Action {
    Action::FindPermits { count, from: 0, most: 1, asker: 1, keeps: Duration::ZERO }
}

fn slot(number: u32, value: &str) -> Arc<Claim> {
    claim(&queue_keys::permit("redlock:a", number), value)
}

/// The answer that names this permit or none, and tells no waiter.
fn free(number: Option<u32>) -> Result<Reply, NodeError> {
    Ok(Reply::Permits { free: Vec::from_iter(number), told: Told::default() })
}

/// Without this, a client that asks at the right moment would take the permit of a waiter.
#[tokio::test]
async fn a_free_permit_is_kept_for_the_waiter_that_has_its_turn() {
    again_if_late(async |stretch| {
        let server = Server::start();
        let mut node = connected(&server.url("", "")).await;
        let find = find_of(1);
        let holder = slot(0, CANARY);
        assert_eq!(act(&mut *node, &holder, GRANT).await, Ok(Reply::Done));
        assert!(matches!(
            act(&mut *node, &slot(0, "waiter"), JOIN).await,
            Ok(Reply::Queued { .. })
        ));
        stretch.begins();
        let release = Action::Release { wakes: KeySet::FIRST };
        assert!(matches!(act(&mut *node, &holder, release).await, Ok(Reply::Woke { .. })));
        assert_eq!(act(&mut *node, &slot(0, "other"), find).await, free(None));
        assert_eq!(act(&mut *node, &slot(0, "waiter"), find).await, free(Some(0)));
        assert_eq!(act(&mut *node, &slot(0, "other"), find).await, free(Some(0)), "it has asked");
    })
    .await;
}

#[tokio::test]
async fn a_turn_that_a_waiter_does_not_use_and_a_permit_that_lies_idle_go_to_the_next_waiter() {
    again_if_late(async |stretch| {
        let mut server = Server::start();
        let mut node = connected(&server.url("", "")).await;
        let find = find_of(2);
        let (first, second) = (slot(1, "first"), slot(1, "second"));
        for number in 0..2 {
            assert_eq!(act(&mut *node, &slot(number, CANARY), GRANT).await, Ok(Reply::Done));
        }
        for waiter in [&first, &second] {
            assert!(matches!(act(&mut *node, waiter, JOIN).await, Ok(Reply::Queued { .. })));
        }
        stretch.begins();
        let release = Action::Release { wakes: KeySet::FIRST };
        assert!(matches!(act(&mut *node, &slot(0, CANARY), release).await, Ok(Reply::Woke { .. })));
        let _ = act(&mut *node, &first, Action::Leave { again: false }).await;
        assert_eq!(act(&mut *node, &slot(1, "other"), find).await, free(None), "it is kept");
        assert_eq!(act(&mut *node, &second, find).await, free(Some(0)));

        assert!(matches!(act(&mut *node, &first, JOIN).await, Ok(Reply::Queued { .. })));
        assert_eq!(act(&mut *node, &slot(1, "other"), find).await, free(Some(0)));
        let queue = "ZCARD redlock:a:{redlock:a}:permit:queue";
        assert_eq!(server.number(queue), 1, "there is no other permit for it");

        // Both permits are free, and no release tells the waiter.
        assert_eq!(act(&mut *node, &slot(1, CANARY), RELEASE).await, Ok(Reply::Done));
        let told = Told::named(&[(0, "turn:first")]);
        let found = Ok(Reply::Permits { free: vec![0], told });
        assert_eq!(act(&mut *node, &slot(0, "other"), find).await, found);
        assert_eq!(act(&mut *node, &slot(0, "other"), GRANT).await, Ok(Reply::Done));
        assert_eq!(act(&mut *node, &slot(1, "third"), find).await, free(None), "it is kept");
        assert_eq!(act(&mut *node, &first, find).await, free(Some(1)));
    })
    .await;
}

/// What this node answers to clients that look for one of many permits, of which a few are free.
async fn found(
    node: &mut dyn Connection,
    name: &str,
    free: &[u32],
    waiters: usize,
    stretch: &Stretch,
) -> Vec<Result<Reply, NodeError>> {
    const COUNT: u32 = 600;
    let permit = |number, value| claim(&queue_keys::permit(name, number), value);
    let taken = (0..COUNT).filter(|it| !free[1..].contains(it)).map(|it| permit(it, CANARY));
    let taken: Vec<_> = taken.collect();
    let grants: Vec<_> = taken.iter().map(|it| (it, GRANT)).collect();
    assert!(batch(node, &grants).await.iter().all(|it| *it == Ok(Reply::Done)));
    let find = |from, most| Action::FindPermits {
        count: COUNT,
        from,
        most,
        asker: 1,
        keeps: Duration::ZERO,
    };
    let join = Action::Join { place: 0, life: TTL, listens: Listens::Nothing, reads: false };
    for waiter in &["first", "second", "third"][..waiters] {
        let joined = act(node, &permit(0, waiter), join).await;
        assert!(matches!(joined, Ok(Reply::Queued { .. })), "{joined:?}");
    }
    stretch.begins();
    let mut answers = vec![act(node, &permit(0, "other"), find(0, 1)).await];
    let release = Action::Release { wakes: KeySet::FIRST };
    answers.push(act(node, &permit(free[0], CANARY), release).await);
    for (asks, from, most) in
        [("other", 590, 1), ("first", 17, 1), ("other", 17, 32), ("second", 300, 32)]
    {
        answers.push(act(node, &permit(0, asks), find(from, most)).await);
    }
    stretch.ends();
    answers
}

#[tokio::test]
async fn many_permits_are_found_as_a_node_in_memory_finds_them() {
    again_if_late(async |stretch| {
        let server = Server::start();
        let mut node = connected(&server.url("", "")).await;
        let connector = crate::MemoryNode::new().spec().connector;
        let connected = within(connector.connect(&Arc::default())).await;
        let mut memory = driven(connected.unwrap().0);
        for free in
            [&[0][..], &[599], &[20, 4], &[83, 84], &[340, 339, 341], &[16, 17, 18, 19, 590, 599]]
        {
            for waiters in 0..=3 {
                let name = format!("redlock:{free:?}:{waiters}");
                let expected = found(&mut *memory, &name, free, waiters, stretch).await;
                let found = found(&mut *node, &name, free, waiters, stretch).await;
                assert_eq!(found, expected, "{free:?}, {waiters}");
            }
        }
    })
    .await;
}

/// A user that may not write down that it asks sees no other client that asks either.
#[tokio::test]
async fn a_user_that_is_not_seen_is_told_of_one_permit() {
    again_if_late(async |stretch| {
        let mut server = Server::start();
        for (rights, told) in [
            ("", [4, 2]),
            ("-zrange", [4, 4]),
            ("-zremrangebyscore", [4, 2]),
            ("-zadd", [1, 1]),
            ("-zcard", [1, 1]),
            ("-@sortedset", [1, 1]),
        ] {
            server.admin("FLUSHALL");
            server
                .admin(&format!("ACL SETUSER locks reset on >{CANARY} ~redlock:* +@all {rights}"));
            let mut node = connected(&server.url(&format!("locks:{CANARY}@"), "")).await;
            let any = claim(&crate::node::queue_keys::permit("redlock:a", 0), "any");
            stretch.begins();
            for (asker, told) in (1..).zip(told) {
                let keeps = Duration::from_secs(1);
                let find = Action::FindPermits { count: 9, from: 0, most: 4, asker, keeps };
                let Ok(Reply::Permits { free, .. }) = act(&mut *node, &any, find).await else {
                    panic!("{rights}");
                };
                assert_eq!(free.len(), told, "{rights} {asker}");
            }
            stretch.ends();
        }
    })
    .await;
}

/// What a client was told of is not hidden from others for longer than it takes, whatever the clock does.
#[tokio::test]
async fn permits_that_a_client_was_told_of_are_kept_for_a_moment_and_no_longer() {
    let mut server = Server::start();
    for rights in ["", "-zremrangebyscore"] {
        server.admin("FLUSHALL");
        server.admin(&format!("ACL SETUSER locks reset on >{CANARY} ~redlock:* +@all {rights}"));
        let mut node = connected(&server.url(&format!("locks:{CANARY}@"), "")).await;
        let any = claim(&crate::node::queue_keys::permit("redlock:a", 0), "any");
        let keeps = Duration::from_micros(1);
        let find = Action::FindPermits { count: 2, from: 0, most: 2, asker: 1, keeps };
        // As from before the clock was set back, and of a client that knows of more permits.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        let coming = "redlock:a:{redlock:a}:permit:coming";
        server.admin(&format!("ZADD {coming} 9000000000000000 0 {} 7", now + 900_000));
        server.admin("ZADD redlock:a:{redlock:a}:permit:given 9000000000000 waiter");
        for _ in 0..3 {
            let both = Reply::Permits { free: vec![0, 1], told: Told::default() };
            assert_eq!(act(&mut *node, &any, find).await, Ok(both), "{rights}");
        }
    }
}
