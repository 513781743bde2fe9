//! The first words with a server: which server it is, and what it does for this client.

use std::pin::{Pin, pin};

use futures_util::future::{Fuse, FusedFuture};
use redis::{Pipeline, ProtocolVersion, ServerError, Value, aio::MultiplexedConnection};

use super::{
    abilities::Abilities,
    failure::{Failure, FailureKind},
    info, server_error,
    transport::{CloseReason, NOT_REDIS},
    url::Login,
};
use crate::node::Identity;

/// What a server is asked beside its identity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// Which native commands it runs.
    pub(super) native: bool,
    /// Whether it waits for replicas.
    pub(super) replicas: bool,
}

/// What a server has told.
pub(super) struct Met {
    pub(super) identity: Identity,
    pub(super) abilities: Abilities,
    /// It pushes changes of keys.
    pub(super) tracks: bool,
    /// It can be told to answer nothing.
    pub(super) mutes: bool,
}

/// A connection that redis-rs uses until the identity of the server is known.
pub(super) struct Handshake<D> {
    pub(super) redis: MultiplexedConnection,
    pub(super) driver: Pin<Box<Fuse<D>>>,
    pub(super) close_reason: CloseReason,
}

impl<D: Future<Output = ()>> Handshake<D> {
    /// Logs in (RESP2; RESP3 has done it with `HELLO`) and chooses the database. Makes sure that
    /// the server serves: a server that has too many clients, loads its data or wants a password is
    /// down, and says why.
    pub(super) async fn greet(
        &mut self,
        login: &Login,
        version: ProtocolVersion,
    ) -> Result<(), Failure> {
        let is_logged_in = version != ProtocolVersion::RESP2;
        let mut answers = self.ask(&greeting(login, is_logged_in, true)).await?;
        if login.user.is_some() && answers.iter().find_map(refusal).is_some_and(knows_no_users) {
            answers = self.ask(&greeting(login, is_logged_in, false)).await?;
        }
        match answers.iter().find_map(refusal) {
            Some(error) => Err(Failure::of(error, login)),
            None => Ok(()),
        }
    }

    /// Asks for the server's identity before its first vote (rule 16), which commands it runs for this
    /// client, and whether it pushes changes of keys.
    ///
    /// Sent on its own: a server that hangs up with unread input may discard its reason with it. If
    /// `INFO` is refused, the identity stays unknown, and the node is used all the same. If tracking is
    /// refused, waiters ask for the lock from time to time.
    pub(super) async fn learn(
        &mut self,
        login: &Login,
        version: ProtocolVersion,
        asked: Asked,
    ) -> Result<Met, Failure> {
        let mut questions = info::questions();
        Abilities::ask(&mut questions, asked.native);
        if asked.replicas {
            questions.cmd("WAIT").arg(0).arg(1);
        }
        if version != ProtocolVersion::RESP2 {
            if asked.native {
                // Every connection begins with `REPLY ON`. A proxy that shares its connections to the server is not
                // asked to change that: such a proxy cannot track.
                questions.cmd("CLIENT").arg("REPLY").arg("ON");
            }
            questions.cmd("CLIENT").arg("TRACKING").arg("ON").arg("OPTIN").arg("NOLOOP");
            // `CACHING` works only behind `TRACKING`, and a user may have permission for `TRACKING` alone. If the next
            // command reads a key, one push comes that no waiter needs.
            questions.cmd("CLIENT").arg("CACHING").arg("YES");
        }
        let answers = self.ask(&questions).await?;
        let tracks = answers.last() == Some(&Value::Okay);
        let mutes = asked.native && tracks && answers.iter().rev().nth(2) == Some(&Value::Okay);
        let identity = info::read(&answers).map_err(Failure::replica)?;
        let answers = answers.get(info::QUESTIONS..).unwrap_or_default();
        let count = Abilities::questions(asked.native);
        // No lock can be released without scripts or a native command for it, so a server that has
        // neither is found out here.
        let abilities = Abilities::read(answers.get(..count).unwrap_or_default())
            .map_err(|error| Failure::of(error, login))?;
        if asked.replicas
            && let Some(error) = answers.get(count).and_then(refusal)
        {
            let why = server_error::explain(error, login.secret());
            return Err(format!("replicas(..) needs WAIT, which this server refuses: {why}").into());
        }
        Ok(Met { identity, abilities, tracks, mutes })
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
        Err(Failure { reason: self.close_reason.reason(), kind: FailureKind::Other })
    }
}

/// The login, the database, and the question whether the server serves.
fn greeting(login: &Login, is_logged_in: bool, names_user: bool) -> Pipeline {
    let mut greeting = Pipeline::new();
    if let (Some(password), false) = (&login.password, is_logged_in) {
        let auth = greeting.cmd("AUTH");
        if let Some(user) = login.user.as_ref().filter(|_| names_user) {
            auth.arg(user);
        }
        auth.arg(password);
    }
    if login.database != 0 {
        greeting.cmd("SELECT").arg(login.database);
    }
    greeting.cmd("PING");
    greeting
}

/// A server before Redis 6 has a password and no users. Providers print a user in the URL all the same.
fn knows_no_users(error: &ServerError) -> bool {
    error.details().is_some_and(|text| text.starts_with("wrong number of arguments for 'auth'"))
}

fn refusal(answer: &Value) -> Option<&ServerError> {
    match answer {
        Value::ServerError(error) => Some(error),
        _ => None,
    }
}
