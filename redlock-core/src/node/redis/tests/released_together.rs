//! The releases of several locks in one call, and the answer to each of them.

use super::{commands::pair, *};
use crate::node::Told;

#[tokio::test]
async fn locks_that_are_released_together_are_answered_one_by_one() {
    let mut server = Server::start();
    let (mut node, ours, theirs) = pair(&server.url("", "")).await;
    let [list, missing, other] = ["list", "missing", "other"].map(|key| claim(key, CANARY));
    server.admin("RPUSH list x");
    for claim in [&theirs, &other] {
        assert_eq!(act(&mut *node, claim, GRANT).await, Ok(Reply::Done));
    }
    let commands = [&ours, &list, &missing, &other].map(|claim| (claim, RELEASE));
    let answers = batch(&mut *node, &commands).await;
    let expected = [Reply::Foreign, Reply::Foreign, Reply::Missing, Reply::Done];
    assert_eq!(answers, expected.map(Ok));
    assert_eq!([server.number("EXISTS redlock:a"), server.number("EXISTS other")], [1, 0]);
}

/// Locks that are released together share one look for waiters.
#[tokio::test]
async fn a_waiter_gets_its_turn_when_its_lock_is_released_together_with_others() {
    let server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let locks = ["redlock:a", "redlock:b", "redlock:c"].map(|key| claim(key, CANARY));
    let join = Action::Join { place: 0, life: TTL, listens: Listens::Nothing, reads: false };
    let wakes = Action::Release { wakes: KeySet::FIRST };
    let woke = Ok(Reply::Woke { deleted: true, told: Told::named(&[(0, "turn:waiter")]) });
    let waiter = claim("redlock:b", "waiter");
    // The locks whose queues this node keeps.
    for kept in [[wakes; 3], [RELEASE, wakes, RELEASE], [wakes, RELEASE, wakes]] {
        for lock in &locks {
            assert_eq!(act(&mut *node, lock, GRANT).await, Ok(Reply::Done));
        }
        assert!(matches!(act(&mut *node, &waiter, join).await, Ok(Reply::Queued { .. })));
        let [a, b, c] = &locks;
        let answers = batch(&mut *node, &[(a, kept[0]), (b, kept[1]), (c, kept[2])]).await;
        let expected = if kept[1] == wakes { woke.clone() } else { Ok(Reply::Done) };
        assert_eq!(answers, [Ok(Reply::Done), expected, Ok(Reply::Done)]);
    }
    assert_eq!(
        act(&mut *node, &waiter, Action::Leave { again: false }).await,
        Ok(Reply::Done),
        "it still waits"
    );
}

#[tokio::test]
async fn a_set_and_a_lock_that_are_released_together_are_answered_one_by_one() {
    let mut server = Server::start();
    let (mut node, ours, _) = pair(&server.url("", "")).await;
    let rest = ["c", "d"].map(Into::into).into();
    let set = Arc::new(Claim { rest, ..Claim::new(&"b".into(), CANARY.to_owned()) });
    for there in [true, false] {
        for claim in [&ours, &set] {
            assert_eq!(act(&mut *node, claim, GRANT).await, Ok(Reply::Done));
        }
        if !there {
            server.admin("DEL c");
        }
        let answers = batch(&mut *node, &[(&ours, RELEASE), (&set, RELEASE)]).await;
        let expected = if there { Reply::Done } else { Reply::Missing };
        assert_eq!(answers, [Ok(Reply::Done), Ok(expected)]);
        assert_eq!(server.number("DBSIZE"), 0);
    }
    assert_eq!(act(&mut *node, &set, GRANT).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &set, RELEASE).await, Ok(Reply::Done), "alone");
}

#[tokio::test]
async fn a_lock_that_is_released_twice_at_once_was_there_once() {
    let mut server = Server::start();
    let (mut node, ours, _) = pair(&server.url("", "")).await;
    let other = claim("other", CANARY);
    for claim in [&ours, &other] {
        assert_eq!(act(&mut *node, claim, GRANT).await, Ok(Reply::Done));
    }
    let answers = batch(&mut *node, &[(&ours, RELEASE), (&other, RELEASE), (&ours, RELEASE)]).await;
    assert_eq!(answers, [Ok(Reply::Done), Ok(Reply::Done), Ok(Reply::Missing)]);
    assert_eq!(server.number("DBSIZE"), 0);
}

/// A cluster of one node has all slots and takes them only one by one.
#[tokio::test]
async fn locks_of_different_slots_are_released_by_calls_of_their_own() {
    let mut server = Server::start_with(&["--cluster-enabled", "yes"]);
    server.admin("CLUSTER ADDSLOTSRANGE 0 16383");
    server
        .wait_for("the slots", |server| server.text("CLUSTER INFO").contains("cluster_state:ok"))
        .await;
    let mut node = connected(&server.url("", "")).await;
    let locks = ["a", "b", "c"].map(|key| claim(key, CANARY));
    for _ in 0..2 {
        let [a, b, c] = [&locks[0], &locks[1], &locks[2]].map(|it| (it, GRANT));
        assert_eq!(batch(&mut *node, &[a, b, c]).await, [const { Ok(Reply::Done) }; 3]);
        let [a, b, c] = [&locks[0], &locks[1], &locks[2]].map(|it| (it, RELEASE));
        assert_eq!(batch(&mut *node, &[a, b, c]).await, [const { Ok(Reply::Done) }; 3]);
    }
    assert_eq!(server.number("DBSIZE"), 0);
}

/// A release must not fail because the user may not look for waiters.
#[tokio::test]
async fn a_user_that_may_not_see_queues_releases_its_locks() {
    let mut server = Server::start();
    server.admin(&format!("ACL SETUSER locks on >{CANARY} ~redlock:* +@all -exists -zrange"));
    let mut node = connected(&server.url(&format!("locks:{CANARY}@"), "")).await;
    let locks = ["redlock:a", "redlock:b"].map(|key| claim(key, CANARY));
    let wakes = Action::Release { wakes: KeySet::FIRST };
    for released in [&locks[..1], &locks] {
        for lock in released {
            assert_eq!(act(&mut *node, lock, GRANT).await, Ok(Reply::Done));
        }
        let commands: Vec<_> = released.iter().map(|lock| (lock, wakes)).collect();
        let answers = batch(&mut *node, &commands).await;
        assert!(answers.iter().all(|it| *it == Ok(Reply::Done)), "{answers:?}");
        assert_eq!(server.number("DBSIZE"), 0);
    }
}
