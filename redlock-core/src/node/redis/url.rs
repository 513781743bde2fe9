//! URLs of nodes: read once, at `build()`, where everything is checked that needs no network.
//!
//! No part of a URL is ever echoed, except the host and port of one that has been understood: the
//! rest may hold a password, and so may any part of one that has not (rule 19).

use std::{net::IpAddr, path::PathBuf, sync::Arc};

use redis::{ConnectionAddr, IntoConnectionInfo, ProtocolVersion};
use url::Url;

use crate::error::LockError;

/// Where Redis listens unless the URL says otherwise.
const DEFAULT_PORT: u16 = 6379;

/// Where a node is and how to log in there.
pub(super) struct Endpoint {
    /// `host:port`, or the path of a socket.
    pub(super) name: Arc<str>,
    pub(super) address: Address,
    pub(super) login: Login,
    pub(super) protocol: Protocol,
}

pub(super) enum Address {
    Tcp {
        host: String,
        port: u16,
    },
    #[cfg(feature = "tls-rustls")]
    Tls {
        host: String,
        port: u16,
    },
    Unix(PathBuf),
}

/// Has no `Debug`, and must not get one: it has the password (rule 19).
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: i64,
}

/// Which version of the protocol to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// RESP3 where the server has it: the URL says nothing.
    Best,
    /// The one that the URL asks for.
    Fixed(ProtocolVersion),
}

/// Reads and checks one URL.
pub(super) fn parse(text: &str) -> Result<Endpoint, LockError> {
    let url = Url::parse(text).map_err(|error| refuse("the URL of a node", &error.to_string()))?;
    match url.scheme() {
        "redis" | "valkey" => tcp(url, false),
        "rediss" | "valkeys" => tcp(url, true),
        "unix" | "redis+unix" | "valkey+unix" => unix(url),
        _ => Err(refuse(
            "the URL of a node",
            "it starts with none of redis://, rediss://, redis+unix://, unix://, valkey://, \
             valkeys://",
        )),
    }
}

fn tcp(mut url: Url, tls: bool) -> Result<Endpoint, LockError> {
    let port = url.port().unwrap_or(DEFAULT_PORT);
    let name: Arc<str> = match url.host() {
        // Names of hosts have no case, and one node must have one name.
        Some(host) => format!("{host}:{port}").to_ascii_lowercase().into(),
        None => return Err(refuse("the URL of a node", "it has no host")),
    };
    let subject = subject(&url, &name);
    let no = |problem: &str| Err(refuse(&subject, problem));

    if port == 0 {
        return no("the port is 0: a port is 1 to 65535");
    }
    match url.fragment() {
        None => {}
        Some("insecure") => {
            return no("#insecure would accept any server's certificate, and a lock that an \
                       impostor can grant is none: let this machine trust the certificate");
        }
        Some(_) => return no("it has a #: percent-encode it as %23 in a password"),
    }
    if url.query_pairs().any(|(key, _)| key != "protocol") {
        return no("it has a parameter other than ?protocol=resp2 or resp3: user, password and \
                   database go before it, as in redis://user:password@host:6379/1");
    }
    if !is_database(url.path().trim_matches('/')) {
        return no("the path is not the number of a database, as in /1");
    }
    if tls && !cfg!(feature = "tls-rustls") {
        return no("TLS needs the feature `tls-rustls`: redlock-core = { version = \"..\", \
                   features = [\"tls-rustls\"] } in Cargo.toml, or redis:// without TLS");
    }

    let protocol = protocol(&url, &subject)?;
    // redis-rs knows the scheme of TLS only with a TLS feature of its own. Ours is the stream
    // below it, see `tls`; to redis-rs the two look alike.
    let _ = url.set_scheme("redis");
    let (address, login) = understood(url, &subject)?;
    let ConnectionAddr::Tcp(host, port) = address else {
        return no("it is not the address of a server");
    };
    if login.password.is_some() && !tls && !is_loopback(&host) {
        tracing::warn!(node = %name, "the password goes over the network unencrypted; use rediss://");
    }
    #[cfg(feature = "tls-rustls")]
    if tls {
        return Ok(Endpoint { name, address: Address::Tls { host, port }, login, protocol });
    }
    Ok(Endpoint { name, address: Address::Tcp { host, port }, login, protocol })
}

fn unix(url: Url) -> Result<Endpoint, LockError> {
    let subject = "the URL of a Unix socket";
    let no = |problem: &str| Err(refuse(subject, problem));

    if !cfg!(unix) {
        return no("there are no Unix sockets on this platform");
    }
    // A user without a host is no URL.
    if url.host().is_some() {
        return no("there is something between // and /: the path of the socket follows three \
                   slashes, user and password come behind it");
    }
    if url.fragment().is_some() {
        return no("it has a #: percent-encode it as %23");
    }
    if url.query_pairs().any(|(key, _)| !matches!(&*key, "db" | "user" | "pass" | "protocol")) {
        return no("it has a parameter other than db, user, pass and protocol");
    }
    if url.query_pairs().any(|(key, value)| key == "db" && !is_database(&value)) {
        return no("db is not the number of a database, as in ?db=1");
    }
    if !url.path().starts_with('/') || url.path() == "/" {
        return no("it has no path of a socket");
    }

    let protocol = protocol(&url, subject)?;
    let (address, login) = understood(url, subject)?;
    let ConnectionAddr::Unix(path) = address else {
        return no("it is not the path of a socket");
    };
    let name = path.display().to_string().into();
    Ok(Endpoint { name, address: Address::Unix(path), login, protocol })
}

/// Lets redis-rs take the URL apart: its forms are the ones that people know.
fn understood(url: Url, subject: &str) -> Result<(ConnectionAddr, Login), LockError> {
    // The checks before this have left it two reasons to say no.
    let info = url.into_connection_info().map_err(|_| {
        refuse(
            subject,
            "it is a wildcard address (0.0.0.0, ::), or its user or password is not UTF-8 when \
             percent-decoded",
        )
    })?;
    let settings = info.redis_settings();
    let login = Login {
        user: settings.username().map(str::to_owned),
        password: settings.password().map(str::to_owned),
        database: settings.db(),
    };
    // redis-rs would log in as nobody, and what is taken for a user is as a rule the password.
    if login.password.is_none() && login.user.as_deref().is_some_and(|user| user != "default") {
        return Err(refuse(
            subject,
            "it has a user and no password: a password alone is written with a colon before it, \
             as in redis://:password@host:6379",
        ));
    }
    Ok((info.addr().clone(), login))
}

fn protocol(url: &Url, subject: &str) -> Result<Protocol, LockError> {
    let mut protocol = Protocol::Best;
    for (key, value) in url.query_pairs() {
        if key == "protocol" {
            protocol = Protocol::Fixed(match &*value {
                "2" | "resp2" => ProtocolVersion::RESP2,
                "3" | "resp3" => ProtocolVersion::RESP3,
                _ => return Err(refuse(subject, "protocol is neither resp2 nor resp3")),
            });
        }
    }
    Ok(protocol)
}

fn is_database(text: &str) -> bool {
    text.is_empty() || (text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u32>().is_ok())
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Names the node, unless there is an `@` behind what was taken for its host and port: then that
/// was the user and half of a password with an unescaped slash in it.
fn subject(url: &Url, name: &str) -> String {
    let rest = [Some(url.path()), url.query(), url.fragment()];
    if rest.into_iter().flatten().any(|part| part.contains('@')) {
        return "the URL of a node (is a / ? # in its password percent-encoded?)".to_owned();
    }
    format!("the URL of node {name}")
}

fn refuse(subject: &str, problem: &str) -> LockError {
    LockError::config(format!(
        "{subject} cannot be used: {problem}; write it like redis://127.0.0.1:6379, \
         redis://user:password@db.example:6379/1 or redis+unix:///run/redis.sock?db=1"
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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

        let login = read("unix:///run/redis.sock?db=2&user=us&pass=p%40ss").login;
        assert_eq!(login.user.as_deref(), Some("us"));
        assert_eq!(login.password.as_deref(), Some("p@ss"));
        assert_eq!(login.database, 2);
    }

    #[test]
    fn a_wish_for_a_protocol_is_kept() {
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
    fn what_cannot_work_is_refused_with_what_is_wrong() {
        for (url, wrong) in [
            ("", "relative URL"),
            ("127.0.0.1:6379", "relative URL"),
            ("localhost:6379", "starts with none of redis://"),
            ("http://127.0.0.1:6379", "starts with none of redis://"),
            ("redis://127.0.0.1:65536", "invalid port"),
            ("redis://127.0.0.1:port", "invalid port"),
            ("redis://127.0.0.1:0", "port is 0"),
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
        for url in ["redis://u:1/x@cache.example", "redis://u:1?x@a", "redis://u:1#x@a"] {
            let problem = self::problem(url);
            assert!(problem.contains("percent-encoded?") && !problem.contains("u:1"), "{problem}");
        }
    }

    #[cfg(not(feature = "tls-rustls"))]
    #[test]
    fn tls_without_the_feature_names_the_feature() {
        for url in ["rediss://db.example:6380", "valkeys://db.example:6380"] {
            let problem = problem(url);
            assert!(problem.contains("db.example:6380"), "{problem}");
            assert!(problem.contains("`tls-rustls`"), "{problem}");
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
    struct Events(Arc<parking_lot::Mutex<Vec<String>>>);

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
}
