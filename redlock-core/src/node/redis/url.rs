//! URLs of nodes: read once, at `build()`, where everything is checked that needs no network.
//!
//! No part of a URL is ever echoed, except the host and port of a URL that has been understood. The
//! other parts may hold a password, and so may any part of a URL that has not been understood (rule
//! 19).

use std::{net::IpAddr, path::PathBuf, sync::Arc};

use redis::{ConnectionAddr, IntoConnectionInfo, ProtocolVersion};
use url::{ParseError, Url};

use crate::{error::LockError, telemetry};

/// What an error calls a URL that it may not name. `build()` puts the place among the nodes there.
pub(crate) const UNNAMED_URL: &str = "the URL of a node";

/// What an error calls a URL whose host seems to be the beginning of its login.
const HALF_OF_A_URL: &str = "the URL of a node (is a / ? # in its password percent-encoded?)";

/// The port of Redis, unless the URL names another.
const DEFAULT_PORT: u16 = 6379;

/// The address of a node, and its login.
pub(super) struct Endpoint {
    /// `host:port`, or the path of a socket.
    pub(super) name: Arc<str>,
    pub(super) address: Address,
    pub(super) login: Login,
    pub(super) protocol: Protocol,
}

#[derive(Debug, Clone, PartialEq, Eq)]
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
    #[cfg_attr(not(unix), allow(dead_code))] // the connector refuses it there
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            #[cfg(feature = "tls-rustls")]
            Self::Tls { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Address {
    pub(super) fn is_tls(&self) -> bool {
        #[cfg(feature = "tls-rustls")]
        return matches!(self, Self::Tls { .. });
        #[cfg(not(feature = "tls-rustls"))]
        false
    }

    /// Whether no other machine can read what goes there.
    pub(super) fn is_private(&self) -> bool {
        match self {
            Self::Tcp { host, .. } => is_loopback(host),
            #[cfg(feature = "tls-rustls")]
            Self::Tls { .. } => true,
            Self::Unix(_) => true,
        }
    }

    /// Another server that is reached in the same way.
    #[cfg(any(feature = "sentinel", feature = "cluster"))]
    pub(super) fn beside(&self, host: String, port: u16) -> Self {
        match self {
            #[cfg(feature = "tls-rustls")]
            Self::Tls { .. } => Self::Tls { host, port },
            _ => Self::Tcp { host, port },
        }
    }

    /// The port, of an address that has one.
    #[cfg(feature = "cluster")]
    pub(super) fn port(&self) -> u16 {
        match self {
            Self::Tcp { port, .. } => *port,
            #[cfg(feature = "tls-rustls")]
            Self::Tls { port, .. } => *port,
            Self::Unix(_) => 0,
        }
    }

    /// The host, of an address that has one.
    #[cfg(feature = "cluster")]
    pub(super) fn host(&self) -> &str {
        match self {
            Self::Tcp { host, .. } => host,
            #[cfg(feature = "tls-rustls")]
            Self::Tls { host, .. } => host,
            Self::Unix(_) => "",
        }
    }
}

/// Has no `Debug`, and must not get one: it has the password (rule 19).
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: i64,
}

impl Login {
    /// What must not be in any message. Empty when there is no password.
    pub(super) fn secret(&self) -> &str {
        self.password.as_deref().unwrap_or_default()
    }
}

/// The version of the protocol to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// RESP3 where the server has it: the URL says nothing.
    Best,
    /// The version that the URL asks for.
    Fixed(ProtocolVersion),
}

/// Reads and checks one URL.
pub(super) fn parse(text: &str) -> Result<Endpoint, LockError> {
    let url = Url::parse(text).map_err(|error| match error {
        _ if text.trim().is_empty() => refuse(UNNAMED_URL, "it is empty"),
        ParseError::RelativeUrlWithoutBase => {
            refuse(UNNAMED_URL, "it has no scheme: redis:// goes before the host")
        }
        error if is_cut_short(text) => refuse(HALF_OF_A_URL, &error.to_string()),
        error => refuse(UNNAMED_URL, &error.to_string()),
    })?;
    match url.scheme() {
        "redis" | "valkey" => tcp(url, false),
        "rediss" | "valkeys" => tcp(url, true),
        "unix" | "redis+unix" | "valkey+unix" => unix(url),
        _ => Err(refuse(
            UNNAMED_URL,
            "it starts with none of redis://, rediss://, redis+unix://, unix://, valkey://, \
             valkeys://, valkey+unix://",
        )),
    }
}

fn tcp(mut url: Url, tls: bool) -> Result<Endpoint, LockError> {
    let port = url.port().unwrap_or(DEFAULT_PORT);
    let name: Arc<str> = match url.host() {
        // Names of hosts have no case, and one node must have one name.
        Some(host) => format!("{host}:{port}").to_ascii_lowercase().into(),
        None => return Err(refuse(UNNAMED_URL, "it has no host")),
    };
    let subject = subject(&url, &name);
    let no = |problem: &str| Err(refuse(&subject, problem));

    // It is no part of any host. The list was not taken apart.
    if name.contains(',') {
        return no("its host has a comma: each node is a URL of its own");
    }
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
        // The URL is right: an example of one would mislead.
        return Err(LockError::config(format!(
            "{subject} cannot be used: TLS needs the feature `tls-rustls`: redlock-core = {{ version = \"..\", \
             features = [\"tls-rustls\"] }} in Cargo.toml, or redis:// without TLS"
        )));
    }

    let protocol = protocol(&url, &subject)?;
    // redis-rs knows the scheme of TLS only with a TLS feature of its own. Ours is the stream
    // below it, see `tls`; to redis-rs the two look alike.
    let _ = url.set_scheme("redis");
    let (address, login) = understood(url, &subject)?;
    let ConnectionAddr::Tcp(host, port) = address else {
        return no("it is not the address of a server");
    };
    let address = match tls {
        #[cfg(feature = "tls-rustls")]
        true => Address::Tls { host, port },
        _ => Address::Tcp { host, port },
    };
    if login.password.is_some() && !address.is_private() {
        telemetry::unencrypted(&name);
    }
    Ok(Endpoint { name, address, login, protocol })
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
    if url
        .query_pairs()
        .any(|(key, value)| key == "db" && (value.is_empty() || !is_database(&value)))
    {
        return no("db is not the number of a database, as in ?db=1");
    }
    let pairs = url.query().into_iter().flat_map(|query| query.split('&'));
    if pairs
        .filter_map(|it| it.split_once('='))
        .any(|(key, value)| matches!(key, "user" | "pass") && value.contains('+'))
    {
        return no(
            "a + in user or pass is read as a space there: write %2B for a plus, and %20 for a space",
        );
    }
    if !url.path().starts_with('/') || url.path() == "/" {
        return no("it has no path of a socket");
    }

    let protocol = protocol(&url, subject)?;
    let (address, login) = understood(url, subject)?;
    let ConnectionAddr::Unix(path) = address else {
        return no("it is not the path of a socket");
    };
    let name: Arc<str> = path.display().to_string().into();
    // The name is part of messages, which have one line.
    if name.chars().any(char::is_control) {
        return no("the path of the socket has a control character");
    }
    Ok(Endpoint { name, address: Address::Unix(path), login, protocol })
}

/// redis-rs takes the URL apart, because users know the forms that it accepts.
fn understood(url: Url, subject: &str) -> Result<(ConnectionAddr, Login), LockError> {
    // After the checks above, it has two reasons left to refuse a URL.
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
    // redis-rs would log in without a user, and the text in the user's place is usually the
    // password.
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

/// Whether a URL that is none has an `@` behind what was taken for its host and port, as in [`subject`].
fn is_cut_short(text: &str) -> bool {
    let rest = text.split_once("//").map_or(text, |(_, rest)| rest);
    rest.find(['/', '?', '#']).is_some_and(|end| rest[end..].contains('@'))
}

/// Names the node. An `@` behind the host and port means that these are really the user and half of
/// a password with an unescaped slash: such a URL is not named.
fn subject(url: &Url, name: &str) -> String {
    let rest = [Some(url.path()), url.query(), url.fragment()];
    if rest.into_iter().flatten().any(|part| part.contains('@')) {
        return HALF_OF_A_URL.to_owned();
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
mod tests;
