//! Why a connection could not be opened.

use std::sync::Arc;

use redis::ServerError;

use super::{server_error, url::Login};
use crate::error::{Cause, NodeError, NodeErrorKind};

/// Why a connection could not be opened.
pub(super) struct Failure {
    pub(super) reason: Arc<str>,
    pub(super) kind: FailureKind,
}

/// What another try may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// Nothing that is known.
    Other,
    /// User and password were refused: there may be newer ones.
    Login,
    /// The server is a replica.
    Replica,
    /// The server said that it does not know, or does not allow, `HELLO` or RESP3.
    NoHello,
    /// It hung up at `HELLO`. Some proxies do that when they get an unknown command.
    HungUp,
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self { reason: reason.into(), kind: FailureKind::Other }
    }
}

impl Failure {
    /// The server is a replica, as this reason says.
    pub(super) fn replica(reason: String) -> Self {
        Self { reason: reason.into(), kind: FailureKind::Replica }
    }

    /// The same with another `clause` that says what to look at.
    pub(super) fn and(self, clause: &str) -> Self {
        Self { reason: format!("{}; {clause}", self.reason).into(), ..self }
    }

    /// The error of the node with this name.
    pub(super) fn of_node(self, name: &Arc<str>) -> NodeError {
        let cause = match self.kind {
            FailureKind::Replica => Cause::Replica,
            FailureKind::Login => Cause::Login,
            FailureKind::Other | FailureKind::NoHello | FailureKind::HungUp => Cause::Other,
        };
        NodeError { cause, ..NodeError::new(name, NodeErrorKind::Down, self.reason) }
    }

    /// A server's own error, about something that it was asked for with this login.
    pub(super) fn of(error: &ServerError, login: &Login) -> Self {
        let kind = if is_login(error) { FailureKind::Login } else { FailureKind::Other };
        Self { reason: server_error::explain(error, login.secret()).into(), kind }
    }
}

/// Whether a server refuses user and password, or misses them.
fn is_login(error: &ServerError) -> bool {
    matches!(error.code(), "NOAUTH" | "WRONGPASS")
        // The words of servers before Redis 6.
        || error.details().is_some_and(|text| text.starts_with("invalid password"))
}
