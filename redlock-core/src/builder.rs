//! Building a client. `build()` reports every mistake that it can find without a connection.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{
    client::Client,
    clock::{Clock, SystemClock, TokioClock},
    drift::drift,
    error::LockError,
    metrics,
    node::{
        Context, Node, NodeHandle, NodeSpec, Restarts, Source, memory::MemoryNode,
        redis::UNNAMED_URL,
    },
    options::{LockOptions, call_settings},
    redlock::Redlock,
    settings::{Settings, client_settings},
    token::{Entropy, OsEntropy, ascii_name},
};

/// The longest ttl that can be configured: far inside what Redis takes for an expiry.
const MAX_CONFIGURABLE_TTL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Configures a [`Redlock`]; see [`Redlock::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    nodes: Vec<Node>,
    settings: Settings,
    clock: Option<Arc<dyn Clock>>,
}

macro_rules! call_setters {
    (
        of_client { $($(#[$doc:meta])* $name:ident: $type:ty $(= $default:expr)?;)* }
        of_call { $($_:tt)* }
    ) => {
        /// The settings that calls may change.
        impl Builder {
            $(
                $(#[$doc])*
                pub fn $name(mut self, $name: $type) -> Self {
                    self.settings.defaults = self.settings.defaults.$name($name);
                    self
                }
            )*
        }
    };
}

call_settings!(call_setters);

macro_rules! client_setters {
    ($(
        $(#[$doc:meta])*
        $name:ident: $type:ty = $default:expr, set by ($argument:ident: $from:ty) => $set:expr;
    )*) => {
        /// The settings that only a client has.
        impl Builder {
            $(
                $(#[$doc])*
                pub fn $name(mut self, $argument: $from) -> Self {
                    self.settings.$name = $set;
                    self
                }
            )*
        }
    };
}

client_settings!(client_setters);

impl Builder {
    pub(crate) fn new() -> Self {
        Self { nodes: Vec::new(), settings: Settings::default(), clock: None }
    }

    /// The nodes: independent masters, usually 5, 3 or 1. Another call adds nodes. All clients must name the same
    /// nodes.
    pub fn nodes<I>(mut self, nodes: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<Node>,
    {
        self.nodes.extend(nodes.into_iter().map(Into::into));
        self
    }

    /// Checks the settings and builds the client. It opens no connection: that happens on first use. So a service can
    /// start while its nodes are down. [`Redlock::connect`] fails in that case.
    ///
    /// # Errors
    ///
    /// [`LockError::Config`] with the wrong value and what to use instead: no nodes, the same
    /// node twice, a URL that cannot be parsed, settings that cannot work together.
    pub fn build(self) -> Result<Redlock, LockError> {
        let memory: Vec<_> = self
            .nodes
            .iter()
            .filter_map(|node| match &node.source {
                Source::Memory(node) => Some(node.clone()),
                _ => None,
            })
            .collect();
        let clock = self.clock.clone().unwrap_or_else(|| -> Arc<dyn Clock> {
            // In-memory nodes use tokio's clock, so their leases are judged by the same clock (rule
            // 2).
            if memory.len() == self.nodes.len() {
                Arc::new(TokioClock)
            } else {
                Arc::new(SystemClock)
            }
        });
        // A ttl that is too long would overflow in what nodes are told.
        check(&self.settings)?;
        let entropy: Arc<dyn Entropy> = Arc::new(OsEntropy);
        let context = context(&self.settings, &clock, &entropy);
        let count = self.nodes.len();
        let nodes = self.nodes.iter().cloned().zip(1..);
        let specs = nodes
            .map(|(node, place)| node.spec(&context).map_err(|error| placed(error, place, count)))
            .collect::<Result<_, _>>()?;
        self.build_over(specs, memory, clock, entropy)
    }

    /// Checks everything, and builds the client over these nodes.
    pub(crate) fn build_over(
        self,
        specs: Vec<NodeSpec>,
        memory: Vec<MemoryNode>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Redlock, LockError> {
        check(&self.settings)?;
        if specs.is_empty() {
            return Err(LockError::config(
                "no nodes: give at least one, such as redis://127.0.0.1:6379",
            ));
        }
        let client = assemble(self.settings, specs, memory, clock, entropy);
        check_distinct(&client.nodes)?;
        Ok(Redlock::from_client(Arc::new(client)))
    }

    /// The defaults over new nodes inside this process. No setting can be wrong.
    pub(crate) fn in_memory(count: usize) -> Redlock {
        let settings = Self::new().settings;
        let memory: Vec<_> = (0..count.max(1)).map(|_| MemoryNode::new()).collect();
        let specs = memory.iter().map(MemoryNode::spec).collect();
        let (clock, entropy) = (Arc::new(TokioClock), Arc::new(OsEntropy));
        Redlock::from_client(Arc::new(assemble(settings, specs, memory, clock, entropy)))
    }

    #[cfg(test)]
    pub(crate) fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// A client of nodes that have no URL.
    #[cfg(test)]
    pub(crate) fn over(self, specs: Vec<NodeSpec>) -> Redlock {
        let clock = self.clock.unwrap_or_else(|| Arc::new(TokioClock));
        let client = assemble(self.settings, specs, Vec::new(), clock, Arc::new(OsEntropy));
        Redlock::from_client(Arc::new(client))
    }
}

fn assemble(
    settings: Settings,
    specs: Vec<NodeSpec>,
    memory: Vec<MemoryNode>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
) -> Client {
    let context = context(&settings, &clock, &entropy);
    let nodes = specs.into_iter().map(|spec| NodeHandle::new(spec, context.clone())).collect();
    metrics::describe();
    Client::new(settings, nodes, memory, clock, entropy)
}

/// The settings that nodes need.
fn context(settings: &Settings, clock: &Arc<dyn Clock>, entropy: &Arc<dyn Entropy>) -> Context {
    Context {
        clock: Arc::clone(clock),
        entropy: Arc::clone(entropy),
        node_timeout: settings.node_timeout,
        connect_timeout: settings.connect_timeout,
        restarts: settings.restarts,
        sits_out: settings.max_ttl + drift(settings.max_ttl, settings.clock_drift_factor()),
    }
}

/// Tells of which of several nodes this is the error: the URL may not be named.
fn placed(error: LockError, place: usize, count: usize) -> LockError {
    match error {
        LockError::Config { problem } if count > 1 => {
            LockError::config(match problem.strip_prefix(UNNAMED_URL) {
                Some(rest) => format!("the URL of node {place} of {count}{rest}"),
                None => format!("node {place} of {count}: {problem}"),
            })
        }
        error => error,
    }
}

/// Refuses settings that cannot work, whatever the nodes are.
pub(crate) fn check(settings: &Settings) -> Result<(), LockError> {
    for (what, value) in
        [("node_timeout", settings.node_timeout), ("connect_timeout", settings.connect_timeout)]
    {
        if value.is_zero() {
            return Err(LockError::config(format!("{what} is zero: use a positive duration")));
        }
    }
    if settings.max_ttl > MAX_CONFIGURABLE_TTL {
        return Err(LockError::config(format!(
            "max_ttl is {:?}: use at most 365 days, usually a minute",
            settings.max_ttl
        )));
    }
    settings.terms(&LockOptions::new()).map(drop)
}

/// Refuses two names for one server, which would make a quorum of one. Hosts are in lower case
/// already, and the path of a socket is case-sensitive.
pub(crate) fn check_distinct(nodes: &[NodeHandle]) -> Result<(), LockError> {
    let mut seen = BTreeSet::new();
    match nodes.iter().find(|node| !seen.insert(node.name())) {
        None => Ok(()),
        Some(twice) => Err(LockError::config(format!(
            "the node {} is given twice: every node must be an independent server",
            twice.name()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{MemoryNode, Redlock};

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_node_that_restarted_sits_out_for_the_drift_that_its_client_allows_for() {
        let node = MemoryNode::new();
        let redlock = Redlock::builder().nodes([&node]).clock_drift_factor(0.5).build().unwrap();
        redlock.lock("r").await.unwrap().release().await.unwrap();
        node.restart_empty();
        redlock.try_lock("r").await.unwrap_err();
        tokio::time::sleep(SECOND).await;
        let left = redlock.health().await[0].sits_out.unwrap();
        // Half of `max_ttl` more.
        assert!(left > 88 * SECOND, "{left:?}");
    }

    #[test]
    fn a_server_is_named_once_in_whatever_case_its_host_is() {
        let build = |nodes: [&str; 2]| Redlock::builder().nodes(nodes).build();
        let error = build(["redis://cache:6379/1", "redis://:pass@CACHE"]).unwrap_err();
        assert!(error.to_string().contains("cache:6379 is given twice"), "{error}");
        assert!(build(["unix:///run/a.sock", "unix:///run/A.sock"]).is_ok());
    }
}
