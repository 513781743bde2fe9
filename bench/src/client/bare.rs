//! The least work that is still Redlock, over redis-rs: SET to all nodes, wait for a quorum;
//! compare-and-delete to all, wait for a quorum. One connection a node, one command at a time.

use std::{fmt, sync::Arc};

use futures_util::{
    future::join_all,
    stream::{FuturesUnordered, StreamExt},
};
use redis::{Client as RedisClient, Cmd, IntoConnectionInfo, Value, aio::MultiplexedConnection};

use super::{
    Client, Failure, TTL,
    polling::{self, DELETE, Token, quorum},
};

#[derive(Clone)]
pub(super) struct Bare {
    nodes: Arc<[MultiplexedConnection]>,
    delete: Arc<str>,
}

#[derive(Debug)]
pub(super) struct Held {
    resource: String,
    token: Token,
}

impl fmt::Debug for Bare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bare").field("nodes", &self.nodes.len()).finish_non_exhaustive()
    }
}

impl Bare {
    /// Asks every node; true once a quorum says yes.
    async fn ask(&self, command: &Cmd, yes: fn(&Value) -> bool) -> bool {
        let mut answers: FuturesUnordered<_> = self
            .nodes
            .iter()
            .cloned()
            .map(|mut node| async move { node.send_packed_command(command).await })
            .collect();
        let (mut granted, mut refused) = (0, 0);
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(answer) if yes(&answer) => granted += 1,
                Ok(_) | Err(_) => refused += 1,
            }
            if granted >= quorum(self.nodes.len()) {
                return true;
            }
            if refused > self.nodes.len() - quorum(self.nodes.len()) {
                return false;
            }
        }
        false
    }

    async fn set(&self, held: &Held) -> bool {
        let mut set = redis::cmd("SET");
        set.arg(&held.resource).arg(&held.token).arg("NX").arg("PX").arg(TTL.as_millis() as u64);
        self.ask(&set, |answer| matches!(answer, Value::Okay)).await
    }

    async fn delete(&self, held: &Held) -> bool {
        let mut delete = redis::cmd("EVALSHA");
        delete.arg(&*self.delete).arg(1).arg(&held.resource).arg(&held.token);
        self.ask(&delete, |answer| matches!(answer, Value::Int(1))).await
    }
}

impl Client for Bare {
    type Held = Held;

    async fn open(urls: &[String]) -> Self {
        let connect = async |url: &String| {
            let info = url.as_str().into_connection_info()?;
            let tcp = info.tcp_settings().clone().set_nodelay(true);
            let client = RedisClient::open(info.set_tcp_settings(tcp))?;
            let mut node = client.get_multiplexed_async_connection().await?;
            let hash: String =
                redis::cmd("SCRIPT").arg("LOAD").arg(DELETE).query_async(&mut node).await?;
            redis::RedisResult::Ok((node, hash))
        };
        let nodes: Vec<_> = join_all(urls.iter().map(connect)).await;
        let nodes: Result<Vec<_>, _> = nodes.into_iter().collect();
        let nodes = nodes.unwrap_or_else(|error| panic!("cannot connect to {urls:?}: {error}"));
        let delete = nodes.first().map(|(_, hash)| hash.as_str().into()).expect("there are nodes");
        Self { nodes: nodes.into_iter().map(|(node, _)| node).collect(), delete }
    }

    async fn ready(&self) {}

    async fn lock(&self, resource: &str) -> Result<Held, Failure> {
        loop {
            let held = Held { resource: resource.to_owned(), token: polling::token() };
            if self.set(&held).await {
                return Ok(held);
            }
            self.delete(&held).await;
            polling::pause().await;
        }
    }

    async fn release(&self, held: Held) -> Result<(), Failure> {
        if self.delete(&held).await { Ok(()) } else { Err("no quorum confirmed it".to_owned()) }
    }
}
