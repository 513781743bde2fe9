//! Opens a connection that is ready for commands to an address.

use std::{
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::{BoxFuture, Fuse, FusedFuture, FutureExt, select_ok};
use redis::{
    AsyncConnectionConfig, ErrorKind, Pipeline, ProtocolVersion, RedisConnectionInfo, RedisError,
    ServerError, Value, aio::MultiplexedConnection, io::tcp::socket2,
};
use tokio::net::TcpStream;

#[cfg(feature = "tls-rustls")]
use super::tls::Trust;
use super::{
    connection::RedisConnection,
    exchange::Exchange,
    info, reply,
    transport::{self, CloseReason, NOT_REDIS, Transport},
    url::{Address, Endpoint, Login, Protocol},
};
use crate::{
    error::{NodeError, NodeErrorKind},
    node::{Connection, Connector, Identity, Opened, Watchers},
};

/// A client notices within half a minute that the host of an idle connection has gone.
const IDLE_BEFORE_PROBES: Duration = Duration::from_secs(15);
const BETWEEN_PROBES: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;
/// The same limit for a busy connection, where Linux would send again for a quarter of an hour.
/// Timeouts find shorter hangs (rule 15).
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// The hash of no script.
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

/// Opens connections to the server of one URL.
pub(super) struct RedisConnector {
    endpoint: Endpoint,
    /// The server has refused RESP3 and taken RESP2: there is no use in asking again.
    only_resp2: AtomicBool,
    #[cfg(feature = "tls-rustls")]
    trust: Trust,
}

/// Why a connection could not be opened.
struct Failure {
    reason: Arc<str>,
    hello: Hello,
}

/// How a server answered `HELLO 3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hello {
    /// It answered, or was not asked: there was another failure.
    Understood,
    /// It said that it does not know, or does not allow, the command or RESP3.
    Refused,
    /// It hung up. Some proxies do that when they get an unknown command.
    HungUp,
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self { reason: reason.into(), hello: Hello::Understood }
    }
}

impl Connector for RedisConnector {
    fn connect(&self, watchers: &Arc<Watchers>) -> BoxFuture<'_, Result<Opened, NodeError>> {
        let watchers = Arc::clone(watchers);
        Box::pin(async move {
            match self.open(&watchers).await {
                Ok((connection, identity)) => {
                    Ok((Box::new(connection) as Box<dyn Connection>, identity))
                }
                Err(Failure { reason, .. }) => {
                    Err(NodeError::new(&self.endpoint.name, NodeErrorKind::Down, reason))
                }
            }
        })
    }
}

impl RedisConnector {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            only_resp2: AtomicBool::new(false),
            #[cfg(feature = "tls-rustls")]
            trust: Trust::default(),
        }
    }

    #[cfg(all(test, feature = "tls-rustls"))]
    pub(super) fn trusting(endpoint: Endpoint, trust: Trust) -> Self {
        Self { trust, ..Self::new(endpoint) }
    }

    /// RESP3 is tried first: a server pushes to such a connection. RESP2 does all that locks need.
    /// Where `HELLO` is missing (Redis before 6, a proxy), only the push is lost.
    async fn open(&self, watchers: &Arc<Watchers>) -> Result<(RedisConnection, Identity), Failure> {
        match self.endpoint.protocol {
            Protocol::Fixed(version) => self.open_as(version, watchers).await,
            Protocol::Best if self.only_resp2.load(Ordering::Relaxed) => {
                self.open_as(ProtocolVersion::RESP2, watchers).await
            }
            Protocol::Best => {
                let hello = match self.open_as(ProtocolVersion::RESP3, watchers).await {
                    Err(failure) if failure.hello != Hello::Understood => failure.hello,
                    outcome => return outcome,
                };
                let connection = self.open_as(ProtocolVersion::RESP2, watchers).await?;
                // A server that hung up may just have been restarting.
                self.only_resp2.store(hello == Hello::Refused, Ordering::Relaxed);
                Ok(connection)
            }
        }
    }

    /// Sends, for RESP3, `HELLO 3 [AUTH user password]`, then `[SELECT database]`, `PING`, three
    /// `INFO`s, `EVALSHA` and `CLIENT TRACKING`; for RESP2 `[AUTH [user] password]` and the same
    /// without `CLIENT TRACKING`. No `CLIENT SETINFO`.
    async fn open_as(
        &self,
        version: ProtocolVersion,
        watchers: &Arc<Watchers>,
    ) -> Result<(RedisConnection, Identity), Failure> {
        let Endpoint { name, login, .. } = &self.endpoint;
        let close_reason = CloseReason::default();
        let (lent, loan) = transport::lend(self.dial(close_reason.clone()).await?);

        let mut info = RedisConnectionInfo::default().set_skip_set_lib_name();
        if version != ProtocolVersion::RESP2 {
            // redis-rs says HELLO by itself.
            info = info.set_protocol(version);
            if let Some(password) = &login.password {
                info = info.set_password(password);
            }
            if let Some(user) = &login.user {
                info = info.set_username(user);
            }
        }
        // The caller bounds the time: that of connecting by dropping the future, that of each
        // answer by itself.
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let (redis, driver) = MultiplexedConnection::new_with_config(&info, lent, config)
            .await
            .map_err(|error| hello_failure(error, &close_reason, login))?;
        let driver = Box::pin(driver.fuse());
        let mut introduction = Introduction { redis, driver, close_reason: close_reason.clone() };
        let (identity, tracks) = introduction.greet(login, version).await?;
        // When it is not polled any more, redis-rs leaves the transport open.
        drop(introduction);
        let Some(transport) = loan.take_back() else { return Err(NOT_REDIS.to_owned().into()) };
        let watchers = tracks.then(|| Arc::clone(watchers));
        let exchange = Exchange::new(Arc::clone(name), transport, close_reason, watchers);
        Ok((RedisConnection::new(exchange), identity))
    }

    async fn dial(&self, close_reason: CloseReason) -> Result<Transport, String> {
        // Tokio panics in a runtime that was built without IO, and its message says what to do.
        let dialled = AssertUnwindSafe(self.dial_or_panic(close_reason)).catch_unwind().await;
        dialled.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            Err(format!("connecting panicked: {}", text.unwrap_or("it does not say why")))
        })
    }

    async fn dial_or_panic(&self, close_reason: CloseReason) -> Result<Transport, String> {
        match &self.endpoint.address {
            Address::Tcp { host, port } => {
                Ok(Transport::new(tcp(host, *port).await?, close_reason))
            }
            #[cfg(feature = "tls-rustls")]
            Address::Tls { host, port } => {
                let tcp = tcp(host, *port).await?;
                Ok(Transport::new(self.trust.secure(host, tcp).await?, close_reason))
            }
            #[cfg(unix)]
            Address::Unix(path) => match tokio::net::UnixStream::connect(path).await {
                Ok(stream) => Ok(Transport::new(stream, close_reason)),
                Err(error) => Err(error.to_string()),
            },
            #[cfg(not(unix))]
            Address::Unix(_) => Err("there are no Unix sockets on this platform".to_owned()),
        }
    }
}

/// Connects to all addresses of the host at once and takes the first that answers: one dead
/// address of two would otherwise use up the whole time.
async fn tcp(host: &str, port: u16) -> Result<TcpStream, String> {
    let addresses = tokio::net::lookup_host((host, port))
        .await
        .map_err(|error| format!("cannot resolve {host}: {error}"))?;
    let attempts: Vec<_> = addresses.map(|address| Box::pin(TcpStream::connect(address))).collect();
    if attempts.is_empty() {
        return Err(format!("cannot resolve {host}: it has no address"));
    }
    let (stream, _) = select_ok(attempts).await.map_err(|error| error.to_string())?;

    let set = || {
        // Nagle's algorithm would hold a small command back until the previous command is
        // acknowledged.
        stream.set_nodelay(true)?;
        let socket = socket2::SockRef::from(&stream);
        socket.set_tcp_keepalive(
            &socket2::TcpKeepalive::new()
                .with_time(IDLE_BEFORE_PROBES)
                .with_interval(BETWEEN_PROBES)
                .with_retries(PROBES),
        )?;
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
        std::io::Result::Ok(())
    };
    set().map_err(|error| error.to_string())?;
    Ok(stream)
}

/// A connection that redis-rs uses until the identity of the server is known.
struct Introduction<D> {
    redis: MultiplexedConnection,
    driver: Pin<Box<Fuse<D>>>,
    close_reason: CloseReason,
}

impl<D: Future<Output = ()>> Introduction<D> {
    /// Logs in (RESP2; RESP3 has done it with `HELLO`) and chooses the database. Makes sure that
    /// the server serves: a server that has too many clients, loads its data or wants a password is
    /// down, and says why. Asks for the server's identity before its first vote (rule 16), and
    /// whether it pushes changes of keys.
    async fn greet(
        &mut self,
        login: &Login,
        version: ProtocolVersion,
    ) -> Result<(Identity, bool), Failure> {
        let mut greeting = Pipeline::new();
        if let (Some(password), ProtocolVersion::RESP2) = (&login.password, version) {
            let auth = greeting.cmd("AUTH");
            if let Some(user) = &login.user {
                auth.arg(user);
            }
            auth.arg(password);
        }
        if login.database != 0 {
            greeting.cmd("SELECT").arg(login.database);
        }
        greeting.cmd("PING");
        let answers = self.ask(&greeting).await?;
        if let Some(error) = answers.iter().find_map(refusal) {
            return Err(reply::explain(error, secret(login)).into());
        }
        // Sent on its own: a server that hangs up with unread input may discard its reason with it.
        // If INFO is refused, the identity stays unknown, and the node is used all the same. If
        // tracking is refused, waiters ask for the lock from time to time.
        let mut questions = info::questions();
        // No lock can be released without scripts, so a server that runs none is found out here.
        questions.cmd("EVALSHA").arg(NO_SCRIPT).arg(0);
        if version != ProtocolVersion::RESP2 {
            questions.cmd("CLIENT").arg("TRACKING").arg("ON").arg("OPTIN").arg("NOLOOP");
        }
        let answers = self.ask(&questions).await?;
        let tracks = answers.last() == Some(&Value::Okay);
        let identity = info::read(&answers)?;
        if let Some(error) = answers.get(info::QUESTIONS).and_then(refuses_scripts) {
            return Err(reply::explain(error, secret(login)).into());
        }
        Ok((identity, tracks))
    }

    async fn ask(&mut self, commands: &Pipeline) -> Result<Vec<Value>, Failure> {
        let mut asked = pin!(self.redis.send_packed_commands(commands, 0, commands.len()));
        let answers = tokio::select! {
            biased;
            answers = &mut asked => answers,
            // The driver may have handed out the answers as its last act.
            () = &mut self.driver => asked.await,
        };
        if let Ok(answers) = answers {
            return Ok(answers);
        }
        if !self.driver.is_terminated() {
            self.driver.as_mut().await;
        }
        // A transport that ended would have said so before: redis-rs gave it up.
        self.close_reason.set(NOT_REDIS);
        Err(Failure { reason: self.close_reason.reason(), hello: Hello::Understood })
    }
}

/// Why `HELLO` failed, and whether RESP2 is worth a try.
fn hello_failure(error: RedisError, close_reason: &CloseReason, login: &Login) -> Failure {
    if error.kind() == ErrorKind::RESP3NotSupported {
        let reason = "this server does not know HELLO, and so no RESP3".into();
        return Failure { reason, hello: Hello::Refused };
    }
    match ServerError::try_from(error) {
        Ok(error) => {
            // Any other error is about the command itself, in words that differ from proxy to
            // proxy.
            let full =
                error.details().is_some_and(|text| text.starts_with("max number of clients"));
            let hello = match error.code() {
                "NOAUTH" | "WRONGPASS" => Hello::Understood,
                _ if full => Hello::Understood,
                _ => Hello::Refused,
            };
            Failure { reason: reply::explain(&error, secret(login)).into(), hello }
        }
        Err(error) if error.kind() == ErrorKind::Parse => NOT_REDIS.to_owned().into(),
        Err(error) if error.is_io_error() => {
            Failure { reason: close_reason.reason(), hello: Hello::HungUp }
        }
        Err(error) => error.category().to_owned().into(),
    }
}

/// The secrets that must not be in any message. Empty when there is no password.
fn secret(login: &Login) -> &str {
    login.password.as_deref().unwrap_or_default()
}

fn refusal(answer: &Value) -> Option<&ServerError> {
    match answer {
        Value::ServerError(error) => Some(error),
        _ => None,
    }
}

/// Why the server runs no scripts, by its answer to a call for a script that it does not have. An
/// answer about a passing state, such as being busy, does not count.
fn refuses_scripts(answer: &Value) -> Option<&ServerError> {
    refusal(answer).filter(|error| matches!(error.code(), "ERR" | "NOPERM"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sockets_send_at_once_and_find_out_about_dead_hosts() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let stream = tcp("127.0.0.1", port).await.unwrap();
        assert!(stream.nodelay().unwrap());
        let socket = socket2::SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        #[cfg(target_os = "linux")]
        {
            assert_eq!(socket.tcp_keepalive_time().unwrap(), IDLE_BEFORE_PROBES);
            assert_eq!(socket.tcp_user_timeout().unwrap(), Some(UNACKNOWLEDGED));
        }
    }
}
