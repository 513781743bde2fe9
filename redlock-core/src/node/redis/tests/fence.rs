//! Numbers from the counter beside a lock.

use super::{commands::pair, *};
use crate::node::{Draw, Raise};

const LIFE: Duration = Duration::from_secs(24 * 60 * 60);
const COUNTER: &str = "redlock:a:{redlock:a}:fence";

fn draw(floor: u64, count: u32) -> Draw {
    Draw { floor, count, life: LIFE }
}

fn grant(floor: u64, count: u32) -> Action {
    Action::GrantFenced { ttl: TTL, draw: draw(floor, count) }
}

fn redraw(ttl: Duration, count: u32) -> Action {
    Action::Redraw { ttl, draw: draw(0, count) }
}

fn confirm(from: u64, to: u64) -> Action {
    Action::Confirm(Raise { from, to, life: LIFE })
}

fn numbered(first: u64) -> Result<Reply, NodeError> {
    Ok(Reply::Numbered { first })
}

#[tokio::test]
async fn a_grant_sets_the_lock_and_counts_on_from_the_last_number() {
    let mut server = Server::start();
    let (mut node, ours, theirs) = pair(&server.url("", "")).await;
    assert_eq!(act(&mut *node, &ours, grant(100, 3)).await, numbered(100));
    assert_eq!(act(&mut *node, &theirs, grant(500, 1)).await, Ok(Reply::Foreign));
    assert_eq!(server.text(&format!("GET {COUNTER}")), "102", "a refusal draws nothing");
    assert_eq!(act(&mut *node, &ours, RELEASE).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &theirs, grant(50, 1)).await, numbered(103));
    assert!(server.number("PTTL redlock:a") > 50_000);
    let left = server.number(&format!("PTTL {COUNTER}"));
    assert!((86_000_000..=86_400_000).contains(&left), "{left}");
    assert_eq!(act(&mut *node, &theirs, RELEASE).await, Ok(Reply::Done));
    assert_eq!(server.number("DBSIZE"), 1, "the counter alone");
}

/// What a holder has drawn before is good for the next one in its process. It needs no memory.
#[tokio::test]
async fn a_holder_draws_and_confirms_numbers_without_memory() {
    let mut server = Server::start();
    let (mut node, ours, _) = pair(&server.url("", "")).await;
    let set = Claim {
        rest: ["redlock:b".into()].into(),
        ..Claim::new(&"redlock:c".into(), CANARY.into())
    };
    let set = Arc::new(set);
    for claim in [&ours, &set] {
        server.admin("CONFIG SET maxmemory 0");
        assert_eq!(act(&mut *node, claim, grant(100, 3)).await, numbered(100));
        server.admin("CONFIG SET maxmemory 1");
        assert_eq!(act(&mut *node, claim, redraw(TTL / 2, 2)).await, numbered(103));
        assert_eq!(act(&mut *node, claim, confirm(104, 200)).await, Ok(Reply::Done));
        assert!(server.number(&format!("PTTL {}", claim.key)) > 50_000, "never shortened");
    }
}

#[tokio::test]
async fn numbers_are_exact_as_far_as_they_go_and_a_wrong_clock_does_not_use_them_up() {
    let mut server = Server::start();
    let (mut node, ours, _) = pair(&server.url("", "")).await;
    let now = 1_795_000_000_123_457;
    assert_eq!(act(&mut *node, &ours, grant(now, 1)).await.map(|_| ()), Ok(()));
    server.admin(&format!("DEL {COUNTER} redlock:a"));
    // In the year 2200 by the clock of this client.
    let Ok(Reply::Numbered { first }) =
        act(&mut *node, &ours, grant(7_258_118_400_000_000, 1)).await
    else {
        panic!("refused");
    };
    let redis::Value::Array(time) = server.admin("TIME") else { panic!("no time") };
    let second: u64 = redis::from_redis_value_ref(&time[0]).unwrap();
    assert!(first > second * 1_000_000 && first <= (second + 61) * 1_000_000, "{first}");

    for (last, first) in [("9007199254740989", 9_007_199_254_740_990), ("5", 6)] {
        server.admin("DEL redlock:a");
        server.admin(&format!("SET {COUNTER} {last}"));
        assert_eq!(act(&mut *node, &ours, grant(0, 2)).await, numbered(first));
    }
}

#[tokio::test]
async fn a_counter_that_is_none_fails_and_sets_no_lock() {
    let mut server = Server::start();
    let (mut node, ours, _) = pair(&server.url("", "")).await;
    for (set, told) in [
        (format!("SET {COUNTER} {CANARY}"), "is not a number: a lock or a program"),
        (format!("SET {COUNTER} 9007199254740991"), "is used up: delete it, and what"),
        (format!("SET {COUNTER} 99999999999999999999"), "is used up: delete it, and what"),
        (format!("LPUSH {COUNTER} 1"), "WRONGTYPE"),
    ] {
        server.admin(&set);
        let error = act(&mut *node, &ours, grant(0, 1)).await.unwrap_err();
        assert_eq!(error.kind, NodeErrorKind::Server);
        assert!(error.reason.contains(told), "{error}");
        assert_eq!(server.number("EXISTS redlock:a"), 0);
        server.admin(&format!("DEL {COUNTER}"));
    }
}

#[tokio::test]
async fn a_node_confirms_only_what_it_has_given_to_this_lock_last() {
    let mut server = Server::start();
    let (mut node, ours, theirs) = pair(&server.url("", "")).await;
    assert_eq!(act(&mut *node, &ours, confirm(7, 9)).await, Ok(Reply::Missing));
    assert_eq!(act(&mut *node, &ours, grant(5, 3)).await, numbered(5));
    assert_eq!(act(&mut *node, &theirs, confirm(7, 20)).await, Ok(Reply::Foreign));
    assert_eq!(act(&mut *node, &ours, confirm(5, 20)).await, Ok(Reply::Foreign), "not its last");
    assert_eq!(act(&mut *node, &ours, confirm(7, 20)).await, Ok(Reply::Done));
    assert_eq!(server.text(&format!("GET {COUNTER}")), "20");
    assert_eq!(act(&mut *node, &ours, confirm(7, 30)).await, Ok(Reply::Foreign), "once");
    // The counter was lost, another client drew numbers, and the first client set the lock again:
    // the value alone proves nothing.
    let heal = Action::Heal { ttl: TTL };
    assert_eq!(act(&mut *node, &ours, RELEASE).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &theirs, grant(0, 1)).await, numbered(21));
    assert_eq!(act(&mut *node, &theirs, RELEASE).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &ours, heal).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &ours, confirm(20, 40)).await, Ok(Reply::Foreign));
    assert_eq!(server.text(&format!("GET {COUNTER}")), "21");
}

#[tokio::test]
async fn drawing_again_renews_the_lock_and_never_shortens_it() {
    let mut server = Server::start();
    let (mut node, ours, theirs) = pair(&server.url("", "")).await;
    assert_eq!(act(&mut *node, &ours, redraw(TTL, 2)).await, Ok(Reply::Missing));
    assert_eq!(act(&mut *node, &ours, grant(5, 1)).await, numbered(5));
    assert_eq!(act(&mut *node, &theirs, redraw(TTL, 2)).await, Ok(Reply::Foreign));
    assert_eq!(act(&mut *node, &ours, redraw(10 * TTL, 2)).await, numbered(6));
    assert!(server.number("PTTL redlock:a") > 500_000);
    assert_eq!(act(&mut *node, &ours, redraw(TTL, 1)).await, numbered(8));
    assert!(server.number("PTTL redlock:a") > 500_000);
}

#[tokio::test]
async fn scripts_that_a_server_has_forgotten_run_once() {
    let mut server = Server::start();
    let (mut node, ours, _) = pair(&server.url("", "")).await;
    let all = [grant(5, 3), redraw(TTL, 3), confirm(10, 20), RELEASE];
    let batch =
        async |node: &mut dyn Connection| batch(node, &all.map(|action| (&ours, action))).await;
    let _warm = batch(&mut *node).await;
    server.admin(&format!("DEL {COUNTER}"));
    server.admin("SCRIPT FLUSH");
    // The release follows the grant. A grant that is sent again would set a lock that nothing
    // removes.
    let answers = batch(&mut *node).await;
    let error = answers[0].as_ref().unwrap_err();
    assert!(error.reason.starts_with("NOSCRIPT") && !error.may_have_run, "{error}");
    assert_eq!(server.number("DBSIZE"), 0);

    server.admin("SCRIPT FLUSH");
    for (action, reply) in all.into_iter().zip([
        Reply::Numbered { first: 5 },
        Reply::Numbered { first: 8 },
        Reply::Done,
        Reply::Done,
    ]) {
        assert_eq!(act(&mut *node, &ours, action).await, Ok(reply), "{action:?}");
    }
    assert_eq!(server.text(&format!("GET {COUNTER}")), "20");
}

#[tokio::test]
async fn a_user_without_permission_for_the_time_is_told_what_is_missing() {
    let mut server = Server::start();
    let user = |rest: &str| format!("ACL SETUSER locks on >{CANARY} resetkeys ~redlock:* {rest}");
    let login = format!("locks:{CANARY}@");
    server.admin(&user("+@all -time"));
    let (mut node, ours, _) = pair(&server.url(&login, "")).await;
    let error = act(&mut *node, &ours, grant(5, 1)).await.unwrap_err();
    assert_eq!(error.kind, NodeErrorKind::Server);
    assert!(error.reason.contains("+time for a fencing token"), "{error}");
    assert_eq!(server.number("DBSIZE"), 0);

    let least = "-@all +hello +auth +ping +set +get +del +pexpire +pttl +eval +evalsha +time";
    server.admin(&user(least));
    let (mut node, ours, _) = pair(&server.url(&login, "")).await;
    assert_eq!(act(&mut *node, &ours, grant(5, 3)).await, numbered(5));
    assert_eq!(act(&mut *node, &ours, redraw(TTL, 3)).await, numbered(8));
    assert_eq!(act(&mut *node, &ours, confirm(10, 20)).await, Ok(Reply::Done));
}
