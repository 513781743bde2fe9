//! Opens connections to servers with the settings of one node: a single server, the master behind
//! sentinels, or the members of a cluster.

use std::{sync::Arc, time::Duration};

use futures_util::future::{FusedFuture, FutureExt};
use redis::{
    AsyncConnectionConfig, ErrorKind, ProtocolVersion, RedisConnectionInfo, RedisError,
    ServerError, aio::MultiplexedConnection,
};

use super::{
    acknowledged::Wait,
    dial::Dialer,
    exchange::{Exchange, Setup},
    failure::{Failure, FailureKind},
    frame::MAX_GREETING,
    handshake::{Asked, Handshake},
    loan::{self, Allowance},
    transport::{CloseReason, NOT_REDIS},
    url::{Address, Login, Protocol},
};
use crate::{
    node::{Credentials, Identity, Watchers, credentials::Provider},
    sync::atomic::{AtomicBool, Ordering},
};

/// What to look at when a server hangs up and has said nothing.
const SAYS_NOTHING: &str = "a server that speaks TLS needs rediss://";

/// Opens connections with the settings of one node.
pub(super) struct Opener {
    pub(super) dialer: Dialer,
    /// The login of the URL.
    pub(super) login: Login,
    /// Asked for user and password instead of those of the URL.
    pub(super) credentials: Option<Provider<Credentials>>,
    pub(super) protocol: Protocol,
    /// The server hung up during the questions of the last handshake, perhaps because it was asked for native commands.
    pub(super) asks_no_native: AtomicBool,
    /// How many replicas have to acknowledge a vote.
    pub(super) replicas: usize,
    pub(super) node_timeout: Duration,
    /// How long it may take to open a connection.
    pub(super) limit: Duration,
    /// The servers are members of a cluster: they tell where a key is.
    pub(super) is_cluster: bool,
}

impl Opener {
    /// Opens a connection that is ready for commands. `name` is what errors call the server.
    pub(super) async fn open(
        &self,
        name: &Arc<str>,
        address: &Address,
        watchers: &Arc<Watchers>,
    ) -> Result<(Exchange, Identity), Failure> {
        let login = self.login().await?;
        match self.open_with(&login, name, address, watchers).await {
            Err(failure) if failure.kind == FailureKind::Login && self.credentials.is_some() => {
                // They may have changed between the answer of the provider and that of the server.
                let newer = self.login().await?;
                if newer == login {
                    return Err(failure);
                }
                self.open_with(&newer, name, address, watchers).await
            }
            outcome => outcome,
        }
    }

    /// The login for the next connection.
    async fn login(&self) -> Result<Login, Failure> {
        let Some(provider) = &self.credentials else { return Ok(self.login.clone()) };
        Ok(self.login.told_by(provider, self.limit).await?)
    }

    /// RESP3 is tried first: a server pushes to such a connection. RESP2 does all that locks need.
    /// Where `HELLO` is missing (Redis before 6, a proxy), only the push is lost.
    async fn open_with(
        &self,
        login: &Login,
        name: &Arc<str>,
        address: &Address,
        watchers: &Arc<Watchers>,
    ) -> Result<(Exchange, Identity), Failure> {
        let open_as = |version| self.open_as(version, login, name, address, watchers);
        match self.protocol {
            Protocol::Fixed(version) => open_as(version).await,
            // Each time anew: another server may be there by now, or the one before was just restarting.
            Protocol::Best => match open_as(ProtocolVersion::RESP3).await {
                Err(Failure { kind: FailureKind::NoHello | FailureKind::HungUp, .. }) => {
                    open_as(ProtocolVersion::RESP2).await
                }
                outcome => outcome,
            },
        }
    }

    /// Sends, for RESP3, `HELLO 3 [AUTH user password]`, then `[SELECT database]`, `PING`, and the
    /// questions of [`Handshake`]; for RESP2 `[AUTH [user] password]` and the same. No
    /// `CLIENT SETINFO`.
    async fn open_as(
        &self,
        version: ProtocolVersion,
        login: &Login,
        name: &Arc<str>,
        address: &Address,
        watchers: &Arc<Watchers>,
    ) -> Result<(Exchange, Identity), Failure> {
        let close_reason = CloseReason::default();
        let dialled = self.dialer.dial(address, close_reason.clone()).await?;
        let allowance = Allowance::of(MAX_GREETING);
        let (lent, loan) = loan::lend(dialled, &allowance);
        let explained = |failure: Failure| {
            let is_plain = matches!(address, Address::Tcp { .. });
            if is_plain && allowance.is_whole(MAX_GREETING) {
                failure.and(SAYS_NOTHING)
            } else {
                failure
            }
        };

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
            .map_err(|error| explained(hello_failure(error, &close_reason, login, &allowance)))?;
        let driver = Box::pin(driver.fuse());
        let mut handshake = Handshake { redis, driver, close_reason: close_reason.clone() };
        handshake.greet(login, version).await.map_err(explained)?;
        let native = !self.asks_no_native.load(Ordering::Relaxed);
        let asked = Asked { native, replicas: self.replicas > 0 };
        let met = handshake.learn(login, version, asked).await;
        if met.is_err() {
            // Some proxies hang up at an unknown command, so the next try is the other way round. A server that
            // has answered knows why it is of no use: all members of a cluster would lose their native commands
            // because one is a replica.
            let hung_up = handshake.driver.is_terminated();
            self.asks_no_native.store(native && hung_up, Ordering::Relaxed);
        }
        let met = met?;
        // When it is not polled any more, redis-rs leaves the transport open.
        drop(handshake);
        let Some(transport) = loan.take_back() else { return Err(NOT_REDIS.to_owned().into()) };
        let setup = Setup {
            node: Arc::clone(name),
            transport,
            close_reason,
            watchers: met.tracks.then(|| Arc::clone(watchers)),
            mutes: met.mutes,
            abilities: met.abilities,
            wait: (self.replicas > 0)
                .then(|| Wait { replicas: self.replicas, within: self.node_timeout * 2 / 5 }),
            is_member: self.is_cluster,
        };
        Ok((Exchange::new(setup), met.identity))
    }
}

/// Why `HELLO` failed, and whether RESP2 is worth a try.
fn hello_failure(
    error: RedisError,
    close_reason: &CloseReason,
    login: &Login,
    allowance: &Allowance,
) -> Failure {
    if error.kind() == ErrorKind::RESP3NotSupported {
        let reason = "this server does not know HELLO, and so no RESP3".into();
        return Failure { reason, kind: FailureKind::NoHello };
    }
    match ServerError::try_from(error) {
        Ok(error) => {
            // Any other error is about the command itself, in words that differ from proxy to
            // proxy.
            let full =
                error.details().is_some_and(|text| text.starts_with("max number of clients"));
            // The login was in the command. A proxy that takes it in `AUTH` alone has not looked at it.
            let was_overheard = error.code() == "NOAUTH" && login.password.is_some();
            let mut failure = Failure::of(&error, login);
            if failure.kind == FailureKind::Other && !full || was_overheard {
                failure.kind = FailureKind::NoHello;
            }
            failure
        }
        Err(error) if error.kind() == ErrorKind::Parse => NOT_REDIS.to_owned().into(),
        Err(error) if error.is_io_error() => {
            // A server that sends too much would send as much again.
            let kind = if allowance.is_spent() { FailureKind::Other } else { FailureKind::HungUp };
            Failure { reason: close_reason.reason(), kind }
        }
        Err(error) => error.category().to_owned().into(),
    }
}

impl Login {
    /// This login with the credentials that the provider gives within `limit`. The error says what failed, in one line.
    pub(super) async fn told_by(
        &self,
        provider: &Provider<Credentials>,
        limit: Duration,
    ) -> Result<Self, String> {
        let Credentials { user, password } =
            provider.ask("the provider of the credentials", limit).await?;
        let user = (!user.is_empty()).then_some(user);
        Ok(Self { user, password: Some(password), database: self.database })
    }
}
