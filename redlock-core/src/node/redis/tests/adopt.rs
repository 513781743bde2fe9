//! Locks that pass from one client to another.

use super::*;
use crate::token::Token;

const OLD: &str = "0123456789abcdef0123456789abcdef01234567.old.client";

fn adopt(ttl: Duration) -> Action {
    Action::Adopt { ttl, from: Token::of_value(OLD).unwrap() }
}

#[tokio::test]
async fn a_lock_passes_once_to_a_client_that_knows_its_token_and_is_not_shortened() {
    let mut server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let [old, ours, theirs] = [OLD, CANARY, "other"].map(|value| claim("redlock:a", value));
    assert_eq!(act(&mut *node, &ours, adopt(TTL)).await, Ok(Reply::Missing));
    assert_eq!(server.number("EXISTS redlock:a"), 0, "an adoption resurrects nothing");

    assert_eq!(act(&mut *node, &old, Action::Grant { ttl: 5 * TTL }).await, Ok(Reply::Done));
    assert_eq!(act(&mut *node, &ours, adopt(TTL)).await, Ok(Reply::Done));
    assert_eq!(server.text("GET redlock:a"), CANARY);
    assert!(server.number("PTTL redlock:a") > 240_000, "rule 7: it was shortened");
    assert_eq!(act(&mut *node, &theirs, adopt(TTL)).await, Ok(Reply::Foreign), "once");
    for action in [Action::Extend { ttl: TTL }, RELEASE] {
        assert_eq!(act(&mut *node, &old, action).await, Ok(Reply::Foreign), "it has gone");
    }
    assert_eq!(act(&mut *node, &ours, adopt(TTL)).await, Ok(Reply::Done), "it may ask again");
    assert!(server.number("PTTL redlock:a") > 240_000, "rule 7: it was shortened");
    assert_eq!(act(&mut *node, &ours, adopt(10 * TTL)).await, Ok(Reply::Done));
    assert!(server.number("PTTL redlock:a") > 500_000);
    assert_eq!(act(&mut *node, &ours, RELEASE).await, Ok(Reply::Done));
}

#[tokio::test]
async fn an_adoption_lengthens_a_lock_and_compares_the_whole_token() {
    let mut server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let [old, ours] = [OLD, CANARY].map(|value| claim("redlock:a", value));
    for longer in [format!("{OLD}x"), OLD.replacen('.', "0.", 1), OLD[1..].to_owned()] {
        let other = claim("redlock:a", &longer);
        assert_eq!(act(&mut *node, &other, GRANT).await, Ok(Reply::Done));
        let same = Token::of_value(&longer) == Token::of_value(OLD);
        let expected = if same { Reply::Done } else { Reply::Foreign };
        assert_eq!(act(&mut *node, &ours, adopt(TTL)).await, Ok(expected), "{longer}");
        server.admin("DEL redlock:a");
    }
    assert_eq!(act(&mut *node, &old, GRANT).await, Ok(Reply::Done));
    server.admin("PERSIST redlock:a");
    assert_eq!(act(&mut *node, &ours, adopt(10 * TTL)).await, Ok(Reply::Done));
    assert!(server.number("PTTL redlock:a") > 500_000, "no lock is for ever");
}

#[tokio::test]
async fn a_set_passes_whole_and_the_client_that_has_it_may_ask_again() {
    let mut server = Server::start();
    let mut node = connected(&server.url("", "")).await;
    let [old, ours, theirs] = [OLD, CANARY, "other"].map(|value| {
        let first = Claim::new(&"redlock:a".into(), value.into());
        Arc::new(Claim { rest: ["redlock:b".into()].into(), ..first })
    });
    assert_eq!(act(&mut *node, &old, GRANT).await, Ok(Reply::Done));
    for ttl in [TTL, 10 * TTL] {
        assert_eq!(act(&mut *node, &ours, adopt(ttl)).await, Ok(Reply::Done));
        assert_eq!(act(&mut *node, &theirs, adopt(ttl)).await, Ok(Reply::Foreign), "once");
    }
    for key in ["redlock:a", "redlock:b"] {
        assert!(server.number(&format!("PTTL {key}")) > 500_000, "{key}");
    }
    server.admin("DEL redlock:b");
    let again = act(&mut *node, &ours, adopt(TTL)).await;
    assert_eq!(again, Ok(Reply::Missing), "it resurrects nothing");
    assert_eq!(server.number("EXISTS redlock:b"), 0);
}
