//! A connection for questions to a server that keeps no locks: a sentinel, or a member of a cluster
//! that is asked for the others. redis-rs carries it.

use std::{sync::Arc, time::Duration};

use redis::{
    AsyncConnectionConfig, Pipeline, RedisConnectionInfo, RedisError, ServerError, Value,
    aio::MultiplexedConnection,
};
use tokio::{sync::Mutex, time::Instant};

use super::{
    dial::Dialer,
    failure::is_login,
    reply,
    transport::CloseReason,
    url::{Address, Login},
};
use crate::node::{Credentials, credentials::Provider};

/// A connection to one server, opened at need and kept.
pub(super) struct Line {
    pub(super) address: Address,
    open: Mutex<Option<Open>>,
}

#[derive(Clone)]
struct Open {
    redis: MultiplexedConnection,
    close_reason: CloseReason,
    /// When the first question without an answer was asked.
    asked: Option<Instant>,
}

/// How to open a [`Line`].
pub(super) struct Access<'a> {
    pub(super) dialer: &'a Dialer,
    /// Asked for user and password.
    pub(super) credentials: Option<&'a Provider<Credentials>>,
    /// The login of the URL.
    pub(super) login: &'a Login,
    /// Only a server that wants a login gets that of the URL.
    pub(super) login_at_need: bool,
    /// How long the answer may take, and the connection before it.
    pub(super) limit: Duration,
}

impl Line {
    pub(super) fn new(address: Address) -> Self {
        Self { address, open: Mutex::default() }
    }

    /// The answers to these questions. A broken connection is replaced at the next question, and one
    /// that does not answer as well. Dropping the future gives up the answers alone.
    pub(super) async fn ask(
        &self,
        questions: &Pipeline,
        access: &Access<'_>,
    ) -> Result<Vec<Value>, String> {
        let asking = async {
            let mut line = self.line(access).await?;
            let asked = line.redis.send_packed_commands(questions, 0, questions.len()).await;
            let mut open = self.open.lock().await;
            match asked {
                Ok(answers) => {
                    open.iter_mut().for_each(|line| line.asked = None);
                    Ok(answers)
                }
                Err(_) => {
                    *open = None;
                    Err(line.close_reason.reason().to_string())
                }
            }
        };
        let answered = tokio::time::timeout(access.limit, asking).await;
        answered.unwrap_or_else(|_| Err(format!("no answer within {:?}", access.limit)))
    }

    async fn line(&self, access: &Access<'_>) -> Result<Open, String> {
        let mut open = self.open.lock().await;
        let hangs = |it: &Open| it.asked.is_some_and(|asked| asked.elapsed() >= access.limit);
        let mut line = match open.take().filter(|it| !hangs(it)) {
            Some(line) => line,
            None => self.dial(access).await?,
        };
        line.asked = line.asked.or_else(|| Some(Instant::now()));
        *open = Some(line.clone());
        Ok(line)
    }

    async fn dial(&self, access: &Access<'_>) -> Result<Open, String> {
        let login = match access.credentials {
            Some(provider) => {
                let Credentials { user, password } =
                    provider.ask("the provider of the credentials").await?;
                let user = (!user.is_empty()).then_some(user);
                Some(Login { user, password: Some(password), ..access.login.clone() })
            }
            None if access.login_at_need => None,
            None => Some(access.login.clone()),
        };
        let first = self.dial_with(access, login.as_ref()).await;
        match first {
            Err(Refusal::Server(error)) if login.is_none() && is_login(&error) => {
                let second = self.dial_with(access, Some(access.login)).await;
                second.map_err(|it| it.explain(access.login.secret()))
            }
            other => {
                let secret = login.as_ref().map(Login::secret).unwrap_or_default();
                other.map_err(|it| it.explain(secret))
            }
        }
    }

    async fn dial_with(&self, access: &Access<'_>, login: Option<&Login>) -> Result<Open, Refusal> {
        let close_reason = CloseReason::default();
        let stream = access.dialer.dial(&self.address, close_reason.clone()).await?;
        let mut info = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(password) = login.and_then(|it| it.password.as_ref()) {
            info = info.set_password(password);
        }
        if let Some(user) = login.and_then(|it| it.user.as_ref()) {
            info = info.set_username(user);
        }
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let (mut redis, driver) = MultiplexedConnection::new_with_config(&info, stream, config)
            .await
            .map_err(|error| Refusal::of(error, &close_reason))?;
        // Ends when the connection is dropped, and with its runtime.
        tokio::spawn(driver);
        // A server that wants a login says so at the first command.
        redis::cmd("PING")
            .exec_async(&mut redis)
            .await
            .map_err(|error| Refusal::of(error, &close_reason))?;
        Ok(Open { redis, close_reason, asked: None })
    }
}

enum Refusal {
    Server(ServerError),
    Other(Arc<str>),
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self::Other(reason.into())
    }
}

impl Refusal {
    fn of(error: RedisError, close_reason: &CloseReason) -> Self {
        match ServerError::try_from(error) {
            Ok(error) => Self::Server(error),
            Err(_) => Self::Other(close_reason.reason()),
        }
    }

    fn explain(self, secret: &str) -> String {
        match self {
            Self::Server(error) => reply::explain(&error, secret),
            Self::Other(reason) => reason.to_string(),
        }
    }
}
