//! The effects of commands on a server, and the answers to them.

use super::*;
use crate::node::Told;

const OTHER: &str = "somebody-else";

pub(super) async fn pair(url: &str) -> (Box<dyn Connection>, Arc<Claim>, Arc<Claim>) {
    (connected(url).await, claim("redlock:a", CANARY), claim("redlock:a", OTHER))
}

#[tokio::test]
async fn a_lock_is_granted_once_and_released_by_its_holder_alone() {
    let server = Server::start();
    for query in ["", "?protocol=resp2", "?protocol=resp3"] {
        let (mut node, ours, theirs) = pair(&server.url("", query)).await;
        assert_eq!(act(&mut *node, &ours, GRANT).await, Ok(Reply::Done));
        assert_eq!(act(&mut *node, &theirs, GRANT).await, Ok(Reply::Foreign));
        assert_eq!(act(&mut *node, &ours, GRANT).await, Ok(Reply::Foreign), "NX, not owned");
        assert_eq!(act(&mut *node, &theirs, RELEASE).await, Ok(Reply::Foreign));
        assert_eq!(act(&mut *node, &ours, RELEASE).await, Ok(Reply::Done));
        assert_eq!(act(&mut *node, &ours, RELEASE).await, Ok(Reply::Missing));
    }
}

#[tokio::test]
async fn a_grant_expires() {
    let mut server = Server::start();
    let (mut node, ours, _) = pair(&server.url("", "")).await;
    let ttl = Duration::from_nanos(1);
    assert_eq!(act(&mut *node, &ours, Action::Grant { ttl }).await, Ok(Reply::Done));
    server.wait_for("the key to expire", |server| server.number("EXISTS redlock:a") == 0).await;

    assert_eq!(act(&mut *node, &ours, GRANT).await, Ok(Reply::Done));
    let left = server.number("PTTL redlock:a");
    assert!((1..=60_000).contains(&left), "{left}");
}

#[tokio::test]
async fn an_extension_has_three_outcomes_and_never_shortens() {
    let mut server = Server::start();
    let (mut node, ours, theirs) = pair(&server.url("", "")).await;
    let longer = Action::Extend { ttl: 10 * TTL };
    let shorter = Action::Extend { ttl: TTL };
    assert_eq!(act(&mut *node, &ours, longer).await, Ok(Reply::Missing));
    assert_eq!(server.number("EXISTS redlock:a"), 0, "an extension resurrects nothing");

    assert_eq!(act(&mut *node, &ours, GRANT).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &theirs, longer).await, Ok(Reply::Foreign));
    assert!(server.number("PTTL redlock:a") <= 60_000);
    assert_eq!(act(&mut *node, &ours, longer).await, Ok(Reply::Done));
    assert!(server.number("PTTL redlock:a") > 60_000);
    assert_eq!(act(&mut *node, &ours, shorter).await, Ok(Reply::Done));
    assert!(server.number("PTTL redlock:a") > 60_000, "rule 7: it was shortened");

    assert_eq!(server.number("PERSIST redlock:a"), 1);
    let for_ever = Ok(Reply::There { left: Duration::MAX });
    assert_eq!(act(&mut *node, &ours, shorter).await, for_ever);
    assert!(server.number("PTTL redlock:a") > 0, "a lock that never expires");
}

#[tokio::test]
async fn shorten_keeps_a_key_for_the_rest_and_deletes_it_when_there_is_none() {
    let mut server = Server::start();
    let (mut node, ours, theirs) = pair(&server.url("", "")).await;
    let shorten = |rest| Action::Shorten { rest };
    assert_eq!(act(&mut *node, &ours, shorten(TTL)).await, Ok(Reply::Missing));
    assert_eq!(act(&mut *node, &ours, Action::Grant { ttl: 10 * TTL }).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &theirs, shorten(Duration::ZERO)).await, Ok(Reply::Foreign));
    assert!(server.number("PTTL redlock:a") > 60_000);
    assert_eq!(act(&mut *node, &ours, shorten(TTL)).await, Ok(Reply::Done));
    assert!((1..=60_000).contains(&server.number("PTTL redlock:a")));
    assert_eq!(act(&mut *node, &ours, shorten(Duration::ZERO)).await, Ok(Reply::Done));
    assert_eq!(server.number("EXISTS redlock:a"), 0);
}

#[tokio::test]
async fn a_batch_answers_each_command_in_its_place() {
    let mut server = Server::start();
    server.admin("LPUSH redlock:list x");
    for query in ["?protocol=resp2", "?protocol=resp3"] {
        let (mut node, ours, theirs) = pair(&server.url("", query)).await;
        let list = claim("redlock:list", CANARY);
        let answers = batch(
            &mut *node,
            &[
                (&ours, GRANT),
                (&theirs, GRANT),
                (&list, RELEASE),
                (&theirs, RELEASE),
                (&ours, Action::Extend { ttl: TTL }),
                (&ours, RELEASE),
                (&ours, RELEASE),
            ],
        )
        .await;
        let expected = [
            Reply::Done,
            Reply::Foreign,
            Reply::Foreign,
            Reply::Foreign,
            Reply::Done,
            Reply::Done,
            Reply::Missing,
        ];
        assert_eq!(answers, expected.map(Ok));
        assert_eq!(batch(&mut *node, &[]).await, []);
    }
    assert_eq!(server.number("LLEN redlock:list"), 1, "a key of another program was touched");
}

#[tokio::test]
async fn once_warm_a_grant_and_a_release_are_one_command_each() {
    let mut server = Server::start();
    let (mut node, ours, _) = pair(&server.url("", "")).await;
    for _ in 0..2 {
        assert_eq!(act(&mut *node, &ours, GRANT).await, Ok(Reply::Done));
        assert_eq!(act(&mut *node, &ours, RELEASE).await, Ok(Reply::Done));
    }
    let monitor = server.monitor();
    assert_eq!(act(&mut *node, &ours, GRANT).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &ours, RELEASE).await, Ok(Reply::Done));
    assert_eq!(monitor.sent(&mut server), ["SET", "EVALSHA"]);
}

#[tokio::test]
async fn a_forgotten_script_costs_one_eval_and_no_answer() {
    let mut server = Server::start();
    let (mut node, ours, _) = pair(&server.url("", "")).await;
    let other = claim("redlock:b", CANARY);
    let monitor = server.monitor();
    for action in [Action::Extend { ttl: TTL }, RELEASE] {
        assert_eq!(act(&mut *node, &ours, action).await, Ok(Reply::Missing));
    }
    assert_eq!(monitor.sent(&mut server), ["EVAL", "EVAL"], "with their sources");
    server.admin("SCRIPT FLUSH");

    let monitor = server.monitor();
    let commands = [(&ours, GRANT), (&ours, Action::Extend { ttl: TTL }), (&other, GRANT)];
    assert_eq!(batch(&mut *node, &commands).await, [const { Ok(Reply::Done) }; 3]);
    let commands = [(&ours, RELEASE), (&other, RELEASE), (&other, GRANT)];
    assert_eq!(
        batch(&mut *node, &commands).await,
        // The grant was tried before the release could be sent again in full: the order in which
        // commands ran is the order of their answers.
        [Ok(Reply::Done), Ok(Reply::Done), Ok(Reply::Foreign)]
    );
    assert_eq!(
        monitor.sent(&mut server),
        ["SET", "EVALSHA", "SET", "EVAL", "EVALSHA", "SET", "EVAL"],
        "locks that are released together share one call"
    );
}

#[tokio::test]
async fn the_commands_of_callers_that_left_run_in_order() {
    let mut server = Server::start();
    let (mut node, ours, theirs) = pair(&server.url("", "")).await;
    assert_eq!(act(&mut *node, &ours, RELEASE).await, Ok(Reply::Missing));
    server.admin("SCRIPT FLUSH");
    server.pause();
    // Neither a SET nor the release that cleans up after it may depend on a task that waits, and
    // the one must not overtake the other (rule 5). The server knows no script any more: the EVAL
    // goes out as well.
    send_and_leave(&mut *node, &[(&ours, GRANT)]);
    send_and_leave(&mut *node, &[(&ours, RELEASE), (&theirs, RELEASE)]);
    let last = node.sender().send(vec![command(&(&theirs, GRANT))]);
    let (last, ()) = tokio::join!(within(last), async { server.resume() });
    assert_eq!(last, [Ok(Reply::Foreign)], "the first grant ran, and before this");

    within(async {
        while act(&mut *node, &theirs, GRANT).await != Ok(Reply::Done) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_command_that_was_never_asked_for_is_not_sent() {
    let mut server = Server::start();
    let (mut node, ours, theirs) = pair(&server.url("", "")).await;
    drop(node.sender().send(vec![command(&(&ours, GRANT))]));
    assert_eq!(act(&mut *node, &theirs, GRANT).await, Ok(Reply::Done));
    assert_eq!(server.text("GET redlock:a"), OTHER);
}

#[tokio::test]
async fn a_database_is_one_of_its_own() {
    let mut server = Server::start();
    for query in ["?protocol=resp2", "?protocol=resp3"] {
        let (mut node, ours, _) = pair(&server.url("", &format!("/3{query}"))).await;
        assert_eq!(act(&mut *node, &ours, GRANT).await, Ok(Reply::Done));
        assert_eq!(server.number("EXISTS redlock:a"), 0);
        server.admin("SELECT 3");
        assert_eq!(server.number("EXISTS redlock:a"), 1);
        server.admin("FLUSHALL");
        server.admin("SELECT 0");
    }
}

#[tokio::test]
async fn a_full_server_grants_nothing_but_extends_and_releases() {
    let mut server = Server::start();
    let (mut node, ours, _) = pair(&server.url("", "")).await;
    assert_eq!(act(&mut *node, &ours, GRANT).await, Ok(Reply::Done));
    server.admin("CONFIG SET maxmemory 1");
    let error = act(&mut *node, &claim("redlock:b", CANARY), GRANT).await.unwrap_err();
    assert_eq!(error.kind, NodeErrorKind::Server);
    assert!(error.reason.starts_with("OOM command not allowed"), "{error}");
    let extend = Action::Extend { ttl: 10 * TTL };
    assert_eq!(act(&mut *node, &ours, extend).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &ours, RELEASE).await, Ok(Reply::Done));
}

#[tokio::test]
async fn a_replica_fails_and_says_that_it_is_one() {
    let mut server = Server::start();
    let (mut node, ours, _) = pair(&server.url("", "")).await;
    assert_eq!(act(&mut *node, &ours, GRANT).await, Ok(Reply::Done));
    // The replica's master is not there, and the replica goes on serving its data.
    server.admin("REPLICAOF 127.0.0.1 1");
    for action in [GRANT, RELEASE, Action::Shorten { rest: TTL }] {
        let error = act(&mut *node, &ours, action).await.unwrap_err();
        assert_eq!(error.kind, NodeErrorKind::Server);
        assert!(error.reason.starts_with("READONLY"), "{error}");
        assert!(error.reason.contains("is a replica"), "{error}");
        assert_eq!(error.cause, Cause::Replica);
    }
}

#[tokio::test]
async fn a_member_of_a_cluster_fails_and_says_what_is_needed() {
    let server = Server::start_with(&["--cluster-enabled", "yes"]);
    let (mut node, ours, _) = pair(&server.url("", "")).await;
    for action in [GRANT, RELEASE] {
        let error = act(&mut *node, &ours, action).await.unwrap_err();
        assert_eq!(error.kind, NodeErrorKind::Server);
        assert!(error.reason.starts_with("CLUSTERDOWN"), "{error}");
        assert!(error.reason.contains("independent masters"), "{error}");
    }
}

#[tokio::test]
async fn a_list_of_another_program_is_held_and_not_ours_to_release() {
    let mut server = Server::start();
    server.admin("LPUSH redlock:a x");
    let (mut node, ours, _) = pair(&server.url("", "")).await;
    assert_eq!(act(&mut *node, &ours, GRANT).await, Ok(Reply::Foreign));
    for action in [Action::Extend { ttl: TTL }, RELEASE, Action::Shorten { rest: TTL }] {
        assert_eq!(act(&mut *node, &ours, action).await, Ok(Reply::Foreign));
    }
    assert_eq!(server.number("LLEN redlock:a"), 1);
}

#[tokio::test]
async fn a_user_with_the_least_permissions_can_do_everything() {
    let mut server = Server::start();
    let user = format!(
        "ACL SETUSER locks on >{CANARY} resetkeys ~redlock:* resetchannels -@all +hello +auth \
         +ping +set +get +del +pexpire +pttl +eval +evalsha"
    );
    server.admin(&user);
    for query in ["", "?protocol=resp2", "?protocol=resp3"] {
        server.admin("SCRIPT FLUSH");
        let login = format!("locks:{CANARY}@");
        let (mut node, ours, _) = pair(&server.url(&login, query)).await;
        for action in
            [GRANT, Action::Extend { ttl: 10 * TTL }, Action::Shorten { rest: TTL }, RELEASE]
        {
            for _warm in 0..2 {
                let reply = act(&mut *node, &ours, action).await;
                assert!(reply.is_ok(), "{action:?}: {reply:?}");
            }
        }
        within(node.ping()).await.unwrap();
    }
}

#[tokio::test]
async fn a_missing_permission_is_named() {
    let mut server = Server::start();
    server.admin(&format!("ACL SETUSER locks on >{CANARY} ~redlock:* +@all -set -pexpire"));
    let (mut node, ours, _) = pair(&server.url(&format!("locks:{CANARY}@"), "")).await;

    let error = act(&mut *node, &ours, GRANT).await.unwrap_err();
    assert_eq!(error.kind, NodeErrorKind::Server);
    assert!(error.reason.starts_with("NOPERM") && error.reason.contains("'set'"), "{error}");

    server.admin(&format!("SET redlock:a {CANARY}"));
    let error = act(&mut *node, &ours, Action::Extend { ttl: TTL }).await.unwrap_err();
    assert!(error.reason.contains("+pexpire"), "{error}");

    let error = act(&mut *node, &claim("other:a", CANARY), RELEASE).await.unwrap_err();
    assert!(error.reason.starts_with("NOPERM") && error.reason.contains("key"), "{error}");
}

/// The first waiter in a queue gets the turn, and the waiter behind it is told that it is next.
#[tokio::test]
async fn a_release_gives_the_turn_to_the_first_that_is_alive() {
    let mut server = Server::start();
    let (mut node, ours, _) = pair(&server.url("", "")).await;
    let waiters = ["first", "second", "third"].map(|waiter| claim("redlock:a", waiter));
    let life = Duration::from_secs(60);
    let join = Action::Join { place: 0, life, listens: Listens::Nothing, reads: false };
    assert_eq!(act(&mut *node, &ours, GRANT).await, Ok(Reply::Done));
    for (ahead, waiter) in waiters.iter().enumerate() {
        let Ok(Reply::Queued { ahead: told, left: Some(left), .. }) =
            act(&mut *node, waiter, join).await
        else {
            panic!("{ahead}");
        };
        assert!(told == ahead as u64 && left <= TTL);
    }
    // The waiter has been silent for as long as an entry lives.
    server.admin("DEL redlock:a:{redlock:a}:alive:first");
    let wakes = Action::Release { wakes: KeySet::FIRST };
    assert_eq!(
        act(&mut *node, &ours, wakes).await,
        Ok(Reply::Woke {
            deleted: true,
            told: Told::named(&[(0, "turn:second"), (0, "next:third")])
        })
    );
    let queue = "redlock:a:{redlock:a}:queue";
    assert_eq!(server.number(&format!("ZCARD {queue}")), 1);
    // A leave that is sent once more has passed its turn on already.
    let again = Action::Leave { again: true };
    let unwoken = Ok(Reply::Unwoken { deleted: false, told: Told::default() });
    assert_eq!(act(&mut *node, &waiters[1], again).await, unwoken);
    // The waiter with the turn goes away, and the next waiter gets the turn.
    assert_eq!(
        act(&mut *node, &waiters[1], Action::Leave { again: false }).await,
        Ok(Reply::Woke { deleted: false, told: Told::named(&[(0, "turn:third")]) })
    );
    assert_eq!(server.number(&format!("EXISTS {queue}")), 0);
    assert_eq!(
        act(&mut *node, &waiters[2], Action::Leave { again: false }).await,
        Ok(Reply::Missing)
    );
    assert_eq!(act(&mut *node, &ours, wakes).await, Ok(Reply::Missing));
    assert_eq!(server.number("DBSIZE"), 0, "nothing stays");
}
