//! A connection that ends in another way than the connection below it.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{Connection, Sender};
use crate::error::NodeError;

/// A connection whose end is that of `end`, and which is `connection` in everything else.
#[cfg_attr(not(feature = "sentinel"), allow(dead_code))] // called by `sentinel` alone
pub(super) fn ending_by<F>(connection: Box<dyn Connection>, end: F) -> Box<dyn Connection>
where
    F: FnMut(&mut dyn Connection) -> BoxFuture<'static, NodeError> + Send + 'static,
{
    Box::new(EndingBy { connection, end })
}

struct EndingBy<F> {
    connection: Box<dyn Connection>,
    end: F,
}

impl<F> Connection for EndingBy<F>
where
    F: FnMut(&mut dyn Connection) -> BoxFuture<'static, NodeError> + Send + 'static,
{
    fn sender(&self) -> Arc<dyn Sender> {
        self.connection.sender()
    }

    fn has_pushes(&self) -> bool {
        self.connection.has_pushes()
    }

    fn ping(&mut self) -> BoxFuture<'static, Result<(), NodeError>> {
        self.connection.ping()
    }

    fn closed(&mut self) -> BoxFuture<'static, NodeError> {
        (self.end)(&mut *self.connection)
    }
}
