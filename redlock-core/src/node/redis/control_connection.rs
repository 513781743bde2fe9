//! A connection for questions to a server that keeps no locks: a sentinel, or a member of a cluster
//! that is asked for the others. redis-rs carries it.

use std::{sync::Arc, time::Duration};

use futures_util::future::{FusedFuture, FutureExt};
use redis::{
    AsyncConnectionConfig, Pipeline, ProtocolVersion, RedisConnectionInfo, Value,
    aio::MultiplexedConnection,
};
use tokio::{runtime::Id, time::timeout};

use super::{
    failure::{Failure, FailureKind},
    frame::MAX_TOPOLOGY,
    handshake::Handshake,
    loan::{self, Allowance},
    opener::Opener,
    server_error,
    transport::{CloseReason, NOT_REDIS, RUNTIME_ENDED},
    url::{Address, Login},
};
use crate::{
    error::Cause,
    node::{Credentials, credentials::Provider},
    runtime::here,
    sync::Mutex,
};

/// A connection to one server, opened at need and kept.
pub(super) struct ControlConnection {
    pub(super) address: Address,
    /// The questions that are being asked have it, one after the other.
    open: Mutex<SharedConnection>,
}

/// The connection, if there is one.
type SharedConnection = Arc<tokio::sync::Mutex<Option<Connected>>>;

struct Connected {
    redis: MultiplexedConnection,
    close_reason: CloseReason,
    /// How much the server may send until the next question.
    allowance: Arc<Allowance>,
    /// The runtime that reads it. The connection ends with it.
    runtime: Option<Id>,
}

impl Connected {
    async fn ask(&mut self, questions: &Pipeline) -> Result<Vec<Value>, String> {
        self.allowance.renew(MAX_TOPOLOGY);
        let answered = self.redis.send_packed_commands(questions, 0, questions.len()).await;
        answered.map_err(|_| {
            // A transport that ended would have said so before: redis-rs gave it up. The runtime goes on, as it runs
            // this question.
            self.close_reason.set(NOT_REDIS);
            self.close_reason.reason().to_string()
        })
    }
}

/// How to open a [`ControlConnection`].
pub(super) struct ControlAccess {
    /// Its dialer opens the connections.
    pub(super) opener: Arc<Opener>,
    /// Asked for user and password.
    pub(super) credentials: Option<Provider<Credentials>>,
    /// The login of the URL.
    pub(super) login: Login,
    /// Only a server that wants a login gets that of the URL.
    pub(super) login_at_need: bool,
    /// How long the answer may take, and the connection before it.
    pub(super) limit: Duration,
}

impl ControlConnection {
    pub(super) fn new(address: Address) -> Self {
        Self { address, open: Mutex::default() }
    }

    /// The answers to these questions. A connection that is found broken is replaced at once. So is one whose login has
    /// expired, and a connection of another runtime, because that may have ended. A connection that did not answer in time is replaced at the next
    /// question.
    ///
    /// Dropping the future gives up only the answers. The question goes on in a task of its own. Otherwise a caller
    /// that leaves because it has heard enough from other servers would make a healthy connection look like one that
    /// hangs.
    pub(super) async fn ask(
        self: &Arc<Self>,
        questions: &Arc<Pipeline>,
        access: &Arc<ControlAccess>,
    ) -> Result<Vec<Value>, String> {
        let kept = Arc::clone(&self.open.lock());
        let mut has_turn = false;
        let asking = async {
            let mut open = Arc::clone(&kept).lock_owned().await;
            has_turn = true;
            let (connection, questions) = (Arc::clone(self), Arc::clone(questions));
            let access = Arc::clone(access);
            let asking = tokio::spawn(async move {
                let asking = connection.ask_over(&mut open, &questions, &access);
                let answered = timeout(access.limit, asking).await;
                if answered.is_err() {
                    *open = None;
                }
                answered
            });
            asking.await
        };
        match timeout(access.limit, asking).await {
            Ok(Ok(Ok(answers))) => return answers,
            Ok(Err(_)) => return Err(RUNTIME_ENDED.to_owned()),
            Ok(Ok(Err(_))) | Err(_) => {}
        }
        if !has_turn {
            // The question before has had its time, so its task stands still with its runtime.
            let mut current = self.open.lock();
            if Arc::ptr_eq(&current, &kept) {
                *current = SharedConnection::default();
            }
        }
        Err(format!("no answer within {:?}", access.limit))
    }

    async fn ask_over(
        &self,
        open: &mut Option<Connected>,
        questions: &Pipeline,
        access: &ControlAccess,
    ) -> Result<Vec<Value>, String> {
        if let Some(connection) = open.take().filter(|connection| connection.runtime == here())
            && let Ok(answers) = open.insert(connection).ask(questions).await
            // The login may have expired since. The next connection asks for the present one.
            && !answers.iter().any(|it| server_error::cause(it) == Cause::Login)
        {
            return Ok(answers);
        }
        *open = None;
        let mut connection = self.dial(access).await?;
        let answers = connection.ask(questions).await?;
        *open = Some(connection);
        Ok(answers)
    }

    async fn dial(&self, access: &ControlAccess) -> Result<Connected, String> {
        let login = match &access.credentials {
            Some(provider) => Some(access.login.told_by(provider, access.limit).await?),
            None if access.login_at_need => None,
            None => Some(access.login.clone()),
        };
        let first = self.dial_with(access, login.as_ref()).await;
        match first {
            Err(failure) if login.is_none() && failure.kind == FailureKind::Login => {
                self.dial_with(access, Some(&access.login)).await
            }
            other => other,
        }
        .map_err(|failure| failure.reason.to_string())
    }

    async fn dial_with(
        &self,
        access: &ControlAccess,
        login: Option<&Login>,
    ) -> Result<Connected, Failure> {
        let close_reason = CloseReason::default();
        let stream = access.opener.dialer.dial(&self.address, close_reason.clone()).await?;
        let info = RedisConnectionInfo::default().set_skip_set_lib_name();
        let allowance = Allowance::of(MAX_TOPOLOGY);
        // Nothing takes it back: it ends with the driver.
        let (lent, _) = loan::lend(stream, &allowance);
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let (redis, driver) = MultiplexedConnection::new_with_config(&info, lent, config)
            .await
            .map_err(|_| close_reason.reason().to_string())?;
        let driver = Box::pin(driver.fuse());
        let mut handshake =
            Handshake { redis: redis.clone(), driver, close_reason: close_reason.clone() };
        // It keeps no locks, so that the database is that of the nodes alone.
        let login = Login { database: 0, ..login.cloned().unwrap_or_default() };
        // A server that wants a login says so at the first command.
        handshake.greet(&login, ProtocolVersion::RESP2).await?;
        if handshake.driver.is_terminated() {
            return Err(close_reason.reason().to_string().into());
        }
        // Ends when the connection is dropped, and with its runtime.
        tokio::spawn(handshake.driver);
        Ok(Connected { redis, close_reason, allowance, runtime: here() })
    }
}
