//! Which URLs are understood, and which are refused with which words.

use proptest::prelude::*;

use super::*;
use crate::Redlock;

fn read(url: &str) -> Endpoint {
    parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn problem(url: &str) -> String {
    match parse(url) {
        Ok(endpoint) => panic!("{url} was taken for {}", endpoint.name),
        Err(LockError::Config { problem }) => problem,
        Err(other) => panic!("{url}: {other:?}"),
    }
}

#[test]
fn the_name_is_host_and_port_or_the_path() {
    for (url, name) in [
        ("redis://127.0.0.1:7101", "127.0.0.1:7101"),
        ("redis://127.0.0.1", "127.0.0.1:6379"),
        ("redis://Cache.Example:7101/", "cache.example:7101"),
        ("redis://[::1]:7101/2", "[::1]:7101"),
        ("valkey://user:pass@cache.example/2?protocol=resp3", "cache.example:6379"),
        ("redis+unix:///run/redis.sock?db=1&user=u&pass=p", "/run/redis.sock"),
        ("unix:///run/redis.sock", "/run/redis.sock"),
        ("valkey+unix:///run/redis.sock", "/run/redis.sock"),
    ] {
        assert_eq!(&*read(url).name, name, "{url}");
    }
}

#[test]
fn the_host_is_what_a_resolver_takes() {
    let Address::Tcp { host, port } = read("redis://[::1]:7101").address else {
        panic!("not TCP");
    };
    assert_eq!((&*host, port), ("::1", 7101));
}

#[test]
fn logins_are_decoded() {
    let login = read("redis://us%40er:p%40ss%23%2F@127.0.0.1/3").login;
    assert_eq!(login.user.as_deref(), Some("us@er"));
    assert_eq!(login.password.as_deref(), Some("p@ss#/"));
    assert_eq!(login.database, 3);

    let login = read("redis://:pass@127.0.0.1").login;
    assert_eq!((login.user, login.password.as_deref()), (None, Some("pass")));

    let login = read("unix:///run/redis.sock?db=2&user=us&pass=p%40s%2Bs").login;
    assert_eq!(login.user.as_deref(), Some("us"));
    assert_eq!(login.password.as_deref(), Some("p@s+s"));
    assert_eq!(login.database, 2);
}

#[test]
fn the_protocol_version_of_the_url_is_kept() {
    use ProtocolVersion::{RESP2, RESP3};
    for (query, protocol) in [
        ("", Protocol::Best),
        ("?protocol=resp2", Protocol::Fixed(RESP2)),
        ("?protocol=2", Protocol::Fixed(RESP2)),
        ("?protocol=resp3", Protocol::Fixed(RESP3)),
    ] {
        assert_eq!(read(&format!("redis://127.0.0.1/{query}")).protocol, protocol);
        assert_eq!(read(&format!("unix:///run/redis.sock{query}")).protocol, protocol);
    }
}

#[test]
fn urls_that_cannot_work_are_refused_with_the_reason() {
    for (url, wrong) in [
        ("", "it is empty"),
        ("unix:///run/a%0Ab.sock", "control character"),
        ("127.0.0.1:6379", "no scheme: redis:// goes before"),
        ("localhost:6379", "starts with none of redis://"),
        ("http://127.0.0.1:6379", "starts with none of redis://"),
        ("redis://127.0.0.1:65536", "invalid port"),
        ("redis://127.0.0.1:port", "invalid port"),
        ("redis://127.0.0.1:0", "port is 0"),
        ("redis://a,b,c", "each node is a URL of its own"),
        ("redis://a:6379,b:6379", "URL of a node"),
        ("redis://:6379", "empty host"),
        ("redis://", "no host"),
        ("redis:///1", "no host"),
        ("redis:127.0.0.1", "no host"),
        ("redis://0.0.0.0", "wildcard"),
        ("redis://[::]", "wildcard"),
        ("redis://127.0.0.1/one", "number of a database"),
        ("redis://127.0.0.1/-1", "number of a database"),
        ("redis://127.0.0.1/+1", "number of a database"),
        ("redis://127.0.0.1/1/2", "number of a database"),
        ("redis://127.0.0.1/99999999999", "number of a database"),
        ("redis://127.0.0.1?db=1", "parameter other than"),
        ("redis://127.0.0.1?protocol=resp4", "neither resp2 nor resp3"),
        ("redis://127.0.0.1#insecure", "#insecure"),
        ("redis://127.0.0.1#x", "%23"),
        ("redis://%ff:x@127.0.0.1", "UTF-8"),
        ("redis://password@127.0.0.1", "with a colon before it"),
        ("unix://run/redis.sock", "three slashes"),
        ("unix:///", "no path"),
        ("unix:redis.sock", "no path"),
        ("unix:///run/redis.sock?db=one", "number of a database"),
        ("unix:///run/redis.sock?db=", "number of a database"),
        ("unix:///run/redis.sock?pass=a+b", "%2B for a plus"),
        ("unix:///run/redis.sock?user=a+b&pass=c", "%2B for a plus"),
        ("unix:///run/redis.sock?password=x", "other than db, user, pass"),
        ("unix:///run/redis.sock?protocol=4", "neither resp2 nor resp3"),
        ("unix:///run/redis.sock#x", "%23"),
    ] {
        let problem = problem(url);
        assert!(problem.contains(wrong), "{url}: {problem}");
        assert!(problem.contains("redis://127.0.0.1:6379"), "no example: {problem}");
    }
}

#[test]
fn the_node_is_named_unless_its_name_may_be_half_of_a_password() {
    let problem = problem("redis://Cache.Example:7101/one");
    assert!(problem.starts_with("the URL of node cache.example:7101 "), "{problem}");
    for url in [
        "redis://u:1/x@cache.example",
        "redis://u:1?x@a",
        "redis://u:1#x@a",
        // These are not even URLs.
        "redis://:se/cret@host",
        "redis://u:se/cret@host",
        "rediss://:/se@host",
        "redis://:se#cret@host",
        "redis://u:se?cret@host:6379/1",
    ] {
        let problem = self::problem(url);
        assert!(problem.contains("percent-encoded?"), "{problem}");
        for part in ["u:1", "se/", "se#", "se?", "cret"] {
            assert!(!problem.contains(part), "{problem}");
        }
    }
    let problem = self::problem("redis://:6379/1");
    assert!(!problem.contains("percent-encoded"), "it has no password: {problem}");
}

#[test]
fn of_several_nodes_an_error_tells_which() {
    let problem = |urls: &[&str]| match Redlock::builder().nodes(urls.iter().copied()).build() {
        Err(LockError::Config { problem }) => problem,
        other => panic!("{other:?}"),
    };
    let (good, bad) = ("redis://127.0.0.1:7101", "127.0.0.1:7102");
    assert!(problem(&[bad]).starts_with("the URL of a node cannot be used"));
    assert!(problem(&[good, bad]).starts_with("the URL of node 2 of 2 cannot be used: it has no"));
    let problem = problem(&[good, "redis://127.0.0.1:7102/one", good]);
    assert!(problem.starts_with("node 2 of 3: the URL of node 127.0.0.1:7102 "), "{problem}");
}

#[cfg(not(feature = "tls-rustls"))]
#[test]
fn tls_without_the_feature_names_the_feature() {
    for url in ["rediss://db.example:6380", "valkeys://db.example:6380"] {
        let problem = problem(url);
        assert!(problem.contains("db.example:6380"), "{problem}");
        assert!(problem.contains("`tls-rustls`"), "{problem}");
        assert!(!problem.contains("write it like"), "{problem}");
    }
}

#[cfg(feature = "tls-rustls")]
#[test]
fn tls_is_taken_and_insecure_tls_is_not() {
    for url in ["rediss://db.example:6380/1", "valkeys://db.example:6380"] {
        let endpoint = read(url);
        assert!(matches!(endpoint.address, Address::Tls { port: 6380, .. }));
        assert_eq!(&*endpoint.name, "db.example:6380");
    }
    let problem = problem("rediss://db.example:6380/#insecure");
    assert!(problem.contains("impostor"), "{problem}");
}

#[test]
fn passwords_stay_out_of_every_error() {
    for url in [
        "redis://user:canary@127.0.0.1:65536",
        "redis://user:canary@127.0.0.1:0",
        "redis://user:canary@",
        "redis://:canary#x@127.0.0.1",
        "redis://user:1/canary@127.0.0.1",
        "redis://canary:1/2@127.0.0.1",
        "redis://canary:1?2@127.0.0.1",
        "redis://canary:1#2@127.0.0.1",
        "redis://canary@127.0.0.1",
        "redis://user:canary@0.0.0.0",
        "redis://user:canary@127.0.0.1/one",
        "redis://user:canary@127.0.0.1?pass=canary",
        "redis://user:canary@127.0.0.1#insecure",
        "rediss://user:canary@127.0.0.1#insecure",
        "http://user:canary@127.0.0.1",
        "canary",
        "canary:x",
        "unix://:canary@/run/redis.sock",
        "unix:///run/redis.sock?pass=canary&db=one",
        "unix:///run/redis.sock?password=canary",
    ] {
        let problem = problem(url);
        assert!(!problem.contains("canary"), "{url}: {problem}");
    }
}

#[test]
fn a_password_in_clear_text_is_warned_of_once() {
    // While only one subscriber is alive, tracing asks it once whether any subscriber wants an
    // event, and does so on the thread that meets the event first. A thread that does not listen
    // would answer for all threads.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    for (url, warnings) in [
        ("redis://:canary@db.example:7101", 1),
        ("redis://:canary@10.0.0.1", 1),
        ("redis://db.example", 0),
        ("redis://:canary@127.0.0.1", 0),
        ("redis://:canary@[::1]", 0),
        ("redis://:canary@LocalHost", 0),
        ("unix:///run/redis.sock?pass=canary", 0),
    ] {
        let events = Events::default();
        tracing::subscriber::with_default(events.clone(), || drop(parse(url)));
        let events = events.0.lock();
        assert_eq!(events.len(), warnings, "{url}: {events:?}");
        for event in &*events {
            assert!(event.contains("rediss://") && !event.contains("canary"), "{event}");
        }
    }
}

/// Keeps the text of every event.
#[derive(Clone, Default)]
struct Events(Arc<crate::sync::Mutex<Vec<String>>>);

impl tracing::Subscriber for Events {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = String::new();
        event.record(&mut |_: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            text.push_str(&format!("{value:?} "));
        });
        self.0.lock().push(text);
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

proptest! {
    #[test]
    fn no_text_breaks_the_parser(text in "(redis|unix|valkey)?:?/{0,3}[ -~]{0,40}") {
        let _ = parse(&text);
    }

    #[test]
    fn a_password_survives_encoding(password in "[!-~]{1,24}") {
        let encoded: String = password.bytes().map(|b| format!("%{b:02X}")).collect();
        let login = read(&format!("redis://:{encoded}@127.0.0.1")).login;
        prop_assert_eq!(login.password, Some(password));
    }
}
