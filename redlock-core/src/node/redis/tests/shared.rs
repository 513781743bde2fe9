//! Several holders: readers of one lock, and permits of one resource.

use super::*;
use crate::node::{KeySet, Told};

pub(super) const SHARE: Action = Action::Grant { ttl: TTL };

pub(super) fn reader(value: &str) -> Arc<Claim> {
    let writer = Claim::new(&"redlock:a".into(), value.to_owned());
    Arc::new(Claim { shared: true, ..writer })
}

#[tokio::test]
async fn readers_share_a_key_that_no_writer_gets_and_each_goes_alone() {
    let mut server = Server::start();
    for query in ["?protocol=resp2", "?protocol=resp3"] {
        let mut node = connected(&server.url("", query)).await;
        let (one, other, writer) = (reader(CANARY), reader("other"), claim("redlock:a", "writer"));
        assert_eq!(act(&mut *node, &one, SHARE).await, Ok(Reply::Done));
        assert_eq!(act(&mut *node, &other, SHARE).await, Ok(Reply::Done));
        assert_eq!(act(&mut *node, &writer, GRANT).await, Ok(Reply::Foreign));
        assert_eq!(server.number("ZCARD redlock:a"), 2);
        for deleted in [true, false] {
            let has_readers = Ok(Reply::HasReaders { deleted });
            assert_eq!(act(&mut *node, &one, RELEASE).await, has_readers);
        }
        assert_eq!(act(&mut *node, &writer, GRANT).await, Ok(Reply::Foreign));
        assert_eq!(act(&mut *node, &other, RELEASE).await, Ok(Reply::Done));
        assert_eq!(server.number("EXISTS redlock:a"), 0);
        assert_eq!(act(&mut *node, &writer, GRANT).await, Ok(Reply::Done));
        for action in [SHARE, Action::Heal { ttl: TTL }, Action::Extend { ttl: TTL }, RELEASE] {
            assert_eq!(act(&mut *node, &one, action).await, Ok(Reply::Foreign), "{action:?}");
        }
        assert_eq!(act(&mut *node, &writer, RELEASE).await, Ok(Reply::Done));
    }
}

/// Under a second name, a server would have a second vote (rule 16).
#[tokio::test]
async fn a_reader_is_given_one_vote_by_a_server() {
    let server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let mut alias = connected(&server.url("", "")).await;
    let reader = reader(CANARY);
    assert_eq!(act(&mut *node, &reader, SHARE).await, Ok(Reply::Done));
    assert_eq!(act(&mut *alias, &reader, SHARE).await, Ok(Reply::Foreign));
    assert_eq!(act(&mut *alias, &reader, RELEASE).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &reader, SHARE).await, Ok(Reply::Done));
}

/// Another reader keeps the key, and with it the entry of the one whose time is over.
#[tokio::test]
async fn a_reader_whose_time_is_over_is_not_there_already() {
    let server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let (short, long) = (reader("short"), reader("long"));
    let brief = Duration::from_millis(50);
    assert_eq!(act(&mut *node, &short, Action::Grant { ttl: brief }).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &long, Action::Heal { ttl: TTL }).await, Ok(Reply::Done));
    tokio::time::sleep(2 * brief).await;
    assert_eq!(act(&mut *node, &short, SHARE).await, Ok(Reply::Done));
}

#[tokio::test]
async fn the_key_lives_as_long_as_its_last_reader_and_each_reader_as_long_as_its_own_time() {
    let mut server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let (short, long) = (reader("short"), reader("long"));
    let brief = Duration::from_millis(200);
    assert_eq!(act(&mut *node, &long, Action::Grant { ttl: 2 * TTL }).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &short, Action::Grant { ttl: brief }).await, Ok(Reply::Done));
    assert!(server.number("PTTL redlock:a") > 100_000, "that of the other one");
    tokio::time::sleep(2 * brief).await;
    let extend = |ttl| Action::Extend { ttl };
    assert_eq!(act(&mut *node, &short, extend(TTL)).await, Ok(Reply::Missing));
    assert_eq!(act(&mut *node, &short, Action::Heal { ttl: TTL }).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &short, extend(brief)).await, Ok(Reply::Done));
    let has_readers = Ok(Reply::HasReaders { deleted: true });
    assert_eq!(act(&mut *node, &long, RELEASE).await, has_readers);
    let left = server.number("PTTL redlock:a");
    assert!((50_000..=60_000).contains(&left), "rule 7: {left}");
    assert_eq!(act(&mut *node, &short, extend(3 * TTL)).await, Ok(Reply::Done));
    assert!(server.number("PTTL redlock:a") > 170_000);
    let rest = Action::Shorten { rest: brief };
    assert_eq!(act(&mut *node, &short, rest).await, has_readers);
    server.wait_for("the key to expire", |server| server.number("EXISTS redlock:a") == 0).await;
    assert_eq!(act(&mut *node, &long, Action::Grant { ttl: brief }).await, Ok(Reply::Done));
    server.wait_for("the key to expire", |server| server.number("EXISTS redlock:a") == 0).await;
}

#[tokio::test]
async fn a_reader_with_the_lock_passes_its_turn_on_and_the_next_waiter_keeps_its_place() {
    let mut server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let (one, other, writer) = (reader(CANARY), reader("other"), claim("redlock:a", "writer"));
    let join = Action::Join { place: 0, life: TTL, listens: Listens::Nothing, reads: false };
    let woke = |deleted, words: &[&str]| {
        let words: Vec<_> = words.iter().map(|word| (0, *word)).collect();
        Ok(Reply::Woke { deleted, told: Told::named(&words) })
    };
    let queue = "ZCARD redlock:a:{redlock:a}:queue";
    for reader in [&one, &other, &writer] {
        act(&mut *node, reader, join).await.unwrap();
    }
    // A writer has the lock.
    assert_eq!(act(&mut *node, &claim("redlock:a", "held"), GRANT).await, Ok(Reply::Done));
    assert_eq!(
        act(&mut *node, &claim("redlock:a", "none"), Action::Leave { again: false }).await,
        Ok(Reply::Unwoken { deleted: false, told: Told::default() })
    );
    let release = Action::Release { wakes: KeySet::FIRST };
    assert_eq!(
        act(&mut *node, &claim("redlock:a", "held"), release).await,
        woke(true, &[&format!("turn:{CANARY}"), "next:other"])
    );
    assert_eq!(server.number(queue), 2, "the first reader has its turn");
    assert_eq!(act(&mut *node, &one, SHARE).await, Ok(Reply::Done));
    assert_eq!(
        act(&mut *node, &one, Action::Leave { again: false }).await,
        woke(false, &["turn:other", "next:writer"])
    );
    assert_eq!(act(&mut *node, &other, SHARE).await, Ok(Reply::Done));
    let monitor = server.monitor();
    assert_eq!(
        act(&mut *node, &other, Action::Leave { again: false }).await,
        woke(true, &["turn:writer"])
    );
    let told = monitor.set_inside(&mut server);
    assert_eq!(told.last().unwrap(), "redlock:a:{redlock:a}:turn:writer", "{told:?}");
    assert_eq!(server.number(queue), 1, "the writer");
    let has_readers = Ok(Reply::HasReaders { deleted: true });
    assert_eq!(act(&mut *node, &one, release).await, has_readers);
    assert_eq!(act(&mut *node, &other, release).await, woke(true, &["turn:writer"]));
    assert_eq!(server.number(queue), 0);
    assert_eq!(act(&mut *node, &writer, GRANT).await, Ok(Reply::Done));
}

/// The waiter that is told that it has the turn says nothing more if it has crashed.
#[tokio::test]
async fn a_reader_with_the_lock_passes_over_waiters_that_are_late_and_tells_those_behind() {
    again_if_late(async |stretch| {
        let mut server = Server::start();
        let mut node = connected(&server.url("", "")).await;
        let join = Action::Join { place: 0, life: TTL, listens: Listens::Nothing, reads: false };
        assert_eq!(act(&mut *node, &reader(CANARY), SHARE).await, Ok(Reply::Done));
        let names = ["first", "second", "third", "fourth", "fifth"];
        for (leaver, late, expected) in [
            // It had its turn.
            ("none", &[] as &[&str], "turn:first next:second"),
            ("first", &[], "turn:second next:third"),
            ("none", &["first", "third"], "turn:second next:third"),
            // The one with the turn may have crashed, and those behind it, too.
            ("none", &names, "turn:first next:second near:third near:fourth"),
            // Those before it may have crashed.
            ("second", &[], "next:third"),
            ("second", &["third"], "next:fourth"),
            ("third", &["fourth", "fifth"], "next:fourth near:fifth"),
            ("fifth", &[], ""),
        ] {
            for waiter in names {
                act(&mut *node, &claim("redlock:a", waiter), join).await.unwrap();
            }
            stretch.begins();
            for waiter in late {
                server.admin(&format!("PEXPIRE redlock:a:{{redlock:a}}:alive:{waiter} 2000"));
            }
            let monitor = server.monitor();
            let leave = Action::Leave { again: false };
            let left = act(&mut *node, &claim("redlock:a", leaver), leave).await.unwrap();
            stretch.ends();
            let told = monitor.set_inside(&mut server);
            let told = told.iter().filter_map(|key| key.strip_prefix("redlock:a:{redlock:a}:"));
            let told: Vec<_> = told.filter(|key| !key.ends_with(leaver)).collect();
            assert_eq!(told.join(" "), expected, "{leaver} {late:?}");
            assert_eq!(matches!(left, Reply::Woke { .. }), expected.starts_with("turn"));
            let stay = names.len() - usize::from(leaver != "none");
            assert_eq!(server.number("ZCARD redlock:a:{redlock:a}:queue"), stay as i64);
            server.admin("DEL redlock:a:{redlock:a}:queue");
        }
    })
    .await;
}

#[tokio::test]
async fn the_last_reader_gives_the_turn_to_the_first_waiter() {
    let server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let (one, other, writer) = (reader(CANARY), reader("other"), claim("redlock:a", "writer"));
    let join = Action::Join { place: 0, life: TTL, listens: Listens::Nothing, reads: false };
    let wakes = Action::Release { wakes: KeySet::FIRST };
    for reader in [&one, &other] {
        assert_eq!(act(&mut *node, reader, SHARE).await, Ok(Reply::Done));
    }
    assert!(matches!(act(&mut *node, &writer, join).await, Ok(Reply::Queued { ahead: 0, .. })));
    for deleted in [true, false] {
        let has_readers = Ok(Reply::HasReaders { deleted });
        assert_eq!(act(&mut *node, &one, wakes).await, has_readers);
    }
    assert_eq!(
        act(&mut *node, &other, wakes).await,
        Ok(Reply::Woke { deleted: true, told: Told::named(&[(0, "turn:writer")]) })
    );
}

#[tokio::test]
async fn an_operator_sees_that_a_lock_has_readers_and_takes_it_from_them() {
    let mut server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let (one, operator) = (reader(CANARY), claim("redlock:a", "operator"));
    assert_eq!(act(&mut *node, &one, SHARE).await, Ok(Reply::Done));
    let Ok(Reply::Inspected(seen)) = act(&mut *node, &operator, Action::Inspect { most: 0 }).await
    else {
        panic!("not seen");
    };
    assert!(seen.value.as_ref().is_some_and(|value| value.client_name().is_none()));
    assert!(seen.left > TTL / 2);
    assert_eq!(act(&mut *node, &operator, Action::TakeAway).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &one, Action::Extend { ttl: TTL }).await, Ok(Reply::Foreign));
    assert!(server.number("PTTL redlock:a") > 50_000);
    let clear = Action::Clear { wakes: false };
    assert_eq!(act(&mut *node, &operator, clear).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &one, SHARE).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &operator, clear).await, Ok(Reply::Done));
    assert_eq!(server.number("DBSIZE"), 0);
}

#[tokio::test]
async fn a_node_finds_a_permit_that_is_free_there_and_tells_when_there_is_none() {
    let server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let permit = |number: u32| claim(&crate::node::queue_keys::permit("redlock:a", number), CANARY);
    let find =
        |from| Action::FindPermits { count: 3, from, most: 1, asker: 1, keeps: Duration::ZERO };
    let free = |number: Option<u32>| {
        Ok(Reply::Permits { free: Vec::from_iter(number), told: Told::default() })
    };
    assert_eq!(act(&mut *node, &permit(0), find(2)).await, free(Some(2)));
    for (number, next) in [(2, 0), (0, 1)] {
        assert_eq!(act(&mut *node, &permit(number), GRANT).await, Ok(Reply::Done));
        assert_eq!(act(&mut *node, &permit(0), find(number)).await, free(Some(next)));
    }
    assert_eq!(act(&mut *node, &permit(1), GRANT).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &permit(0), find(1)).await, free(None));
    assert_eq!(act(&mut *node, &permit(2), RELEASE).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &permit(0), find(0)).await, free(Some(2)));
}

#[tokio::test]
async fn a_node_does_not_look_at_each_permit() {
    const COUNT: u32 = 1024;
    let mut server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let slot = |number: u32| crate::node::queue_keys::permit("redlock:a", number);
    let any = claim(&slot(0), CANARY);
    let find = Action::FindPermits {
        count: COUNT,
        from: COUNT - 2,
        most: 1,
        asker: 1,
        keeps: Duration::ZERO,
    };
    for number in 0..COUNT {
        server.admin(&format!("SET {} taken", slot(number)));
    }
    server.admin("CONFIG RESETSTAT");
    assert_eq!(
        act(&mut *node, &any, find).await,
        Ok(Reply::Permits { free: vec![], told: Told::default() })
    );
    let looks =
        ["eval 1", "exists 12", "pexpire 1", "time 1", "zadd 1", "zcount 1", "zrange 1", "zrem 1"];
    assert_eq!(server.commands_run(), [&looks[..], &["zremrangebyscore 2"]].concat());
    for free in [COUNT - 1, 0, 1, 517, COUNT - 3] {
        server.admin(&format!("DEL {}", slot(free)));
        assert_eq!(
            act(&mut *node, &any, find).await,
            Ok(Reply::Permits { free: vec![free], told: Told::default() })
        );
        server.admin(&format!("SET {} taken", slot(free)));
    }
}

#[tokio::test]
async fn a_client_is_told_of_its_share_of_the_permits() {
    again_if_late(async |stretch| {
        const ASKERS: &str = "EXISTS redlock:a:{redlock:a}:permit:askers";
        let mut server = Server::start();
        let mut node = connected(&server.url("", "")).await;
        let slot = |number: u32, value| {
            claim(&crate::node::queue_keys::permit("redlock:a", number), value)
        };
        let find =
            |most| Action::FindPermits { count: 9, from: 7, most, asker: 1, keeps: Duration::ZERO };
        let join = Action::Join { place: 0, life: TTL, listens: Listens::Nothing, reads: false };
        let free =
            |numbers: &[u32]| Ok(Reply::Permits { free: numbers.to_vec(), told: Told::default() });
        assert_eq!(act(&mut *node, &slot(8, CANARY), GRANT).await, Ok(Reply::Done));
        let (one, other) = (slot(0, "one"), slot(0, "other"));
        assert_eq!(act(&mut *node, &one, find(3)).await, free(&[7, 0, 1]));
        assert_eq!(act(&mut *node, &one, find(20)).await, free(&[7, 0, 1, 2, 3, 4, 5, 6]));
        let other_finds =
            Action::FindPermits { count: 9, from: 7, most: 1, asker: 2, keeps: Duration::ZERO };
        stretch.begins();
        assert_eq!(act(&mut *node, &other, other_finds).await, free(&[7]));
        for (most, share) in [(3, &[7, 0, 1][..]), (20, &[7, 0, 1, 2])] {
            assert_eq!(act(&mut *node, &one, find(most)).await, free(share), "two clients ask");
        }
        stretch.ends();
        server.wait_for("that to be long ago", |server| server.number(ASKERS) == 0).await;
        assert!(matches!(act(&mut *node, &one, join).await, Ok(Reply::Queued { .. })));
        assert_eq!(act(&mut *node, &one, find(3)).await, free(&[7, 0, 1]), "it waits itself");
        assert_eq!(server.number("ZCARD redlock:a:{redlock:a}:permit:queue"), 1, "and has no turn");
        stretch.begins();
        let told = Told::named(&[(0, "turn:one")]);
        let given = Ok(Reply::Permits { free: vec![7, 0, 1], told });
        assert_eq!(act(&mut *node, &other, find(3)).await, given, "the other waits");
        let release = Action::Release { wakes: KeySet::FIRST };
        assert!(matches!(act(&mut *node, &one, join).await, Ok(Reply::Queued { .. })));
        assert!(matches!(act(&mut *node, &slot(8, CANARY), release).await, Ok(Reply::Woke { .. })));
        assert_eq!(act(&mut *node, &other, find(20)).await, free(&[7, 8, 0, 1]), "it has its turn");
        let all = free(&[7, 8, 0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(act(&mut *node, &one, find(20)).await, all, "it has its turn itself");
    })
    .await;
}

/// A script looks at several at once, and at some of them one by one.
#[tokio::test]
async fn a_node_tells_of_each_permit_that_is_free_and_of_no_other() {
    const COUNT: u32 = 60;
    let mut server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let slot = |number: u32| crate::node::queue_keys::permit("redlock:a", number);
    for period in 2..12 {
        let is_taken = |number: &u32| number.is_multiple_of(period) || number % period > 8;
        (0..COUNT).filter(is_taken).for_each(|it| {
            server.admin(&format!("SET {} taken", slot(it)));
        });
        for from in [0, 1, COUNT / 2, COUNT - 1] {
            let free = (0..COUNT).map(|it| (from + it) % COUNT).filter(|it| !is_taken(it));
            let find = Action::FindPermits {
                count: COUNT,
                from,
                most: COUNT,
                asker: 1,
                keeps: Duration::ZERO,
            };
            let found = act(&mut *node, &claim(&slot(0), CANARY), find).await;
            assert_eq!(
                found,
                Ok(Reply::Permits { free: free.collect(), told: Told::default() }),
                "{period} {from}"
            );
        }
        server.admin("FLUSHDB");
    }
}
