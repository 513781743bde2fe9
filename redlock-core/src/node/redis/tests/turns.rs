//! A node gives the turn to a waiter that is there, and tells whether a turn is out: the waiter that has it may be
//! about to take the lock.

use super::{commands::pair, *};
use crate::node::{Told, queue_keys};

const WAKES: Action = Action::Release { wakes: KeySet::FIRST };
const LIFE: Duration = Duration::from_secs(60);

/// Whether a turn is out, as a client hears that joins the queue before a free lock, and one that looks.
async fn is_out(node: &mut dyn Connection, asks: &Arc<Claim>) -> [bool; 2] {
    let Ok(Reply::Inspected(seen)) = act(node, asks, Action::Inspect { most: 0 }).await else {
        panic!("it looks")
    };
    let join = Action::Join { place: 0, life: LIFE, listens: Listens::Nothing, reads: false };
    let joined = act(node, asks, join).await;
    let Ok(Reply::Queued { ahead: 0, left: None, turn_is_out, .. }) = joined else {
        panic!("{joined:?}")
    };
    assert_eq!(act(node, asks, Action::Leave { again: true }).await, Ok(Reply::Done));
    [turn_is_out, seen.turn_is_out]
}

#[tokio::test]
async fn a_turn_is_out_until_the_waiter_with_it_releases_the_lock_or_leaves() {
    again_if_late(async |stretch| {
        let mut server = Server::start();
        let (mut node, ours, asks) = pair(&server.url("", "")).await;
        let [waits, other] = ["waits", "other"].map(|value| claim("redlock:a", value));
        let join = Action::Join { place: 0, life: LIFE, listens: Listens::Nothing, reads: false };
        assert_eq!(is_out(&mut *node, &asks).await, [false; 2]);
        for leaves in [false, true] {
            assert_eq!(act(&mut *node, &ours, GRANT).await, Ok(Reply::Done));
            assert!(matches!(act(&mut *node, &waits, join).await, Ok(Reply::Queued { .. })));
            stretch.begins();
            let woken = act(&mut *node, &ours, WAKES).await;
            assert!(matches!(woken, Ok(Reply::Woke { deleted: true, .. })), "{woken:?}");
            assert_eq!(is_out(&mut *node, &asks).await, [true; 2]);
            // The waiter that has the turn is no other.
            let again = act(&mut *node, &waits, join).await;
            assert!(matches!(again, Ok(Reply::Queued { turn_is_out: false, .. })), "{again:?}");
            let gone = act(&mut *node, &waits, Action::Leave { again: true }).await;
            assert_eq!(gone, Ok(Reply::Done));
            if leaves {
                let left = act(&mut *node, &waits, Action::Leave { again: false }).await;
                assert_eq!(left, Ok(Reply::Missing));
            } else {
                for has_turn in [false, true] {
                    // Another client may be faster, which leaves the turn as it is.
                    let value = "its value as a holder".to_owned();
                    let holds = Claim { has_turn, ..Claim::new(&"redlock:a".into(), value) };
                    let holds = Arc::new(holds);
                    assert_eq!(is_out(&mut *node, &asks).await, [true; 2]);
                    assert_eq!(act(&mut *node, &holds, GRANT).await, Ok(Reply::Done));
                    assert_eq!(act(&mut *node, &holds, WAKES).await, Ok(Reply::Done));
                }
            }
            stretch.ends();
            assert_eq!(is_out(&mut *node, &asks).await, [false; 2], "{leaves}");
        }
        // So does a reader.
        assert_eq!(act(&mut *node, &ours, GRANT).await, Ok(Reply::Done));
        assert!(matches!(act(&mut *node, &waits, join).await, Ok(Reply::Queued { .. })));
        stretch.begins();
        assert!(matches!(act(&mut *node, &ours, WAKES).await, Ok(Reply::Woke { .. })));
        for has_turn in [false, true] {
            let reader = Claim::new(&"redlock:a".into(), "reads".to_owned());
            let reads = Arc::new(Claim { has_turn, shared: true, ..reader });
            assert_eq!(act(&mut *node, &reads, GRANT).await, Ok(Reply::Done));
            assert_eq!(act(&mut *node, &reads, WAKES).await, Ok(Reply::Done));
            assert_eq!(is_out(&mut *node, &asks).await, [!has_turn; 2]);
        }
        stretch.ends();
        // Locks that are released together share a call.
        for (key, value) in [("redlock:a", &ours), ("redlock:b", &other)] {
            let claim = claim(key, &value.value);
            assert_eq!(act(&mut *node, &claim, GRANT).await, Ok(Reply::Done));
        }
        assert!(matches!(act(&mut *node, &waits, join).await, Ok(Reply::Queued { .. })));
        stretch.begins();
        assert!(matches!(act(&mut *node, &ours, WAKES).await, Ok(Reply::Woke { .. })));
        assert_eq!(act(&mut *node, &ours, GRANT).await, Ok(Reply::Done));
        let beside = claim("redlock:b", &other.value);
        let holds = |has_turn| {
            Arc::new(Claim { has_turn, ..Claim::new(&"redlock:a".into(), ours.value.clone()) })
        };
        let ours = holds(true);
        let answers = batch(&mut *node, &[(&ours, WAKES), (&beside, WAKES)]).await;
        assert_eq!(answers, [Ok(Reply::Done), Ok(Reply::Done)]);
        assert_eq!(is_out(&mut *node, &asks).await, [false; 2]);
        assert_eq!(server.number("DBSIZE"), 0, "nothing stays");
    })
    .await;
}

/// It was silent for too long, and hears so late that the queue went on without it.
#[tokio::test]
async fn a_waiter_whose_entry_was_dropped_leaves_the_turn_of_another_one_alone() {
    again_if_late(async |stretch| {
        let server = Server::start();
        let (redis, ours, asks) = pair(&server.url("", "")).await;
        let connector = crate::MemoryNode::new().spec().connector;
        let memory = driven(within(connector.connect(&Arc::default())).await.unwrap().0);
        let [silent, waits, behind] =
            ["silent", "waits", "behind"].map(|it| claim("redlock:a", it));
        for mut node in [redis, memory] {
            let join =
                |life| Action::Join { place: 0, life, listens: Listens::Nothing, reads: false };
            assert_eq!(act(&mut *node, &ours, GRANT).await, Ok(Reply::Done));
            let short = Duration::from_millis(2);
            for (waiter, life) in [(&silent, short), (&waits, LIFE), (&behind, LIFE)] {
                let queued = act(&mut *node, waiter, join(life)).await;
                assert!(matches!(queued, Ok(Reply::Queued { .. })), "{queued:?}");
                tokio::time::sleep(2 * short).await;
            }
            stretch.begins();
            let woken = act(&mut *node, &ours, WAKES).await;
            assert!(matches!(woken, Ok(Reply::Woke { deleted: true, .. })), "{woken:?}");
            let left = act(&mut *node, &silent, Action::Leave { again: false }).await;
            stretch.ends();
            assert!(matches!(left, Ok(Reply::Unwoken { deleted: false, .. })), "{left:?}");
            let gone = act(&mut *node, &behind, Action::Leave { again: false }).await;
            assert_eq!(gone, Ok(Reply::Done), "it waits still");
            assert_eq!(is_out(&mut *node, &asks).await, [true; 2]);
        }
    })
    .await;
}

/// The permit is deleted by then, and its holder must not hear that it had none.
#[tokio::test]
async fn a_permit_is_released_beside_a_companion_of_another_type() {
    let mut server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let permit = queue_keys::permit("redlock:a", 0);
    let [holds, waits] = ["holds", "waits"].map(|value| claim(&permit, value));
    let join = Action::Join { place: 0, life: LIFE, listens: Listens::Nothing, reads: false };
    assert_eq!(act(&mut *node, &holds, GRANT).await, Ok(Reply::Done));
    assert!(matches!(act(&mut *node, &waits, join).await, Ok(Reply::Queued { .. })));
    server.admin(&format!("SET {}:given x", queue_keys::prefix(&permit)));
    let woken = act(&mut *node, &holds, WAKES).await;
    assert!(matches!(woken, Ok(Reply::Woke { deleted: true, .. })), "{woken:?}");
}

/// A waiter that has missed a report may be alive: it keeps its place.
#[tokio::test]
async fn a_release_passes_over_waiters_that_are_late() {
    again_if_late(async |stretch| {
        let mut server = Server::start();
        let (mut node, ours, _) = pair(&server.url("", "")).await;
        let waiters = ["first", "second", "third"].map(|waiter| claim("redlock:a", waiter));
        let join = Action::Join {
            place: 0,
            life: Duration::from_secs(60),
            listens: Listens::Nothing,
            reads: false,
        };
        for waiter in &waiters {
            act(&mut *node, waiter, join).await.unwrap();
        }
        let alive = "redlock:a:{redlock:a}:alive:";
        stretch.begins();
        server.admin(&format!("PEXPIRE {alive}first 2000"));
        for (words, left, late) in [
            ([(0, "turn:second"), (0, "next:first")], "first third", "third"),
            ([(0, "turn:first"), (0, "next:third")], "third", "none"),
        ] {
            assert_eq!(act(&mut *node, &ours, GRANT).await, Ok(Reply::Done));
            let woke = act(&mut *node, &ours, Action::Release { wakes: KeySet::FIRST }).await;
            assert_eq!(woke, Ok(Reply::Woke { deleted: true, told: Told::named(&words) }));
            stretch.ends();
            let queue = server.admin("ZRANGE redlock:a:{redlock:a}:queue 0 -1");
            let queue: Vec<String> = redis::from_redis_value(queue).unwrap();
            assert_eq!(queue.join(" "), left);
            stretch.begins();
            server.admin(&format!("PEXPIRE {alive}{late} 2000"));
        }
    })
    .await;
}

/// Each hears once through each of its keys, and has yet to hear that it is next.
#[tokio::test]
async fn a_release_tells_three_that_wait_when_the_first_may_have_crashed() {
    again_if_late(async |stretch| {
        let mut server = Server::start();
        let (mut node, ours, _) = pair(&server.url("", "")).await;
        let join = Action::Join {
            place: 0,
            life: Duration::from_millis(5000),
            listens: Listens::Nothing,
            reads: false,
        };
        for (first_lives_for, expected) in [
            (4600, "turn:first next:second near:third near:fourth"),
            (60_000, "turn:first next:second"),
        ] {
            stretch.begins();
            for waiter in ["first", "second", "third", "fourth", "fifth"] {
                act(&mut *node, &claim("redlock:a", waiter), join).await.unwrap();
            }
            server.admin(&format!("PEXPIRE redlock:a:{{redlock:a}}:alive:first {first_lives_for}"));
            assert_eq!(act(&mut *node, &ours, GRANT).await, Ok(Reply::Done));
            let monitor = server.monitor();
            act(&mut *node, &ours, Action::Release { wakes: KeySet::FIRST }).await.unwrap();
            stretch.ends();
            let told = monitor.set_inside(&mut server);
            let told = told.iter().filter_map(|key| key.strip_prefix("redlock:a:{redlock:a}:"));
            // The first waiter hears its turn. Its other keys are written so that the server forgets them.
            let expected = format!("queue:turn near:first next:first {expected}");
            assert_eq!(told.collect::<Vec<_>>().join(" "), expected);
            server.admin("DEL redlock:a:{redlock:a}:queue");
        }
    })
    .await;
}

/// It would stay for as long as no waiter joins it again.
#[tokio::test]
async fn a_waiter_that_may_not_set_its_key_leaves_no_queue_behind() {
    let mut server = Server::start();
    server.admin(&format!("ACL SETUSER locks on >{CANARY} ~redlock:* +@all -set"));
    let (mut node, ours, _) = pair(&server.url(&format!("locks:{CANARY}@"), "")).await;
    let join = Action::Join { place: 0, life: LIFE, listens: Listens::Nothing, reads: false };
    let error = act(&mut *node, &ours, join).await.unwrap_err();
    assert_eq!(error.kind, NodeErrorKind::Server, "{error}");
    assert_eq!(server.number("DBSIZE"), 0);
}
