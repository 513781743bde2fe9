//! Opens connections to the one server of a URL.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{connection::RedisConnection, opener::Opener, url::Address};
use crate::{
    error::NodeError,
    node::{Connection, Connector, Opened, Watchers},
};

/// Opens connections to one server.
pub(super) struct RedisConnector {
    pub(super) name: Arc<str>,
    pub(super) address: Address,
    pub(super) opener: Opener,
}

impl Connector for RedisConnector {
    fn connect(&self, watchers: &Arc<Watchers>) -> BoxFuture<'_, Result<Opened, NodeError>> {
        let watchers = Arc::clone(watchers);
        Box::pin(async move {
            let Self { name, address, opener } = self;
            match opener.open(name, address, &watchers).await {
                Ok((exchange, identity)) => {
                    let connection = RedisConnection::new(exchange);
                    Ok((Box::new(connection) as Box<dyn Connection>, identity))
                }
                Err(failure) => Err(failure.of_node(name)),
            }
        })
    }
}
