//! The nodes that a user names: a server, servers behind sentinels, a cluster, or a node inside this
//! process.

use std::fmt;

use super::{
    Context, Credentials, NodeSpec, credentials::Provider, memory::MemoryNode, redis,
    settings::NodeSettings,
};
use crate::error::LockError;

/// An independent Redis master to use as one node of a [`Redlock`](crate::Redlock).
///
/// Made from a URL, or from a [`MemoryNode`](crate::MemoryNode):
///
/// | URL | what it is |
/// |---|---|
/// | `redis://[user[:password]@]host[:port][/database]` | TCP |
/// | `rediss://…` | TCP with TLS; needs the feature `tls-rustls` |
/// | `redis+unix:///path?db=1&user=u&pass=p`, `unix://…` | a Unix socket |
///
#[cfg_attr(feature = "sentinel", doc = "[`Node::sentinel`] is the master that sentinels agree on.")]
#[cfg_attr(feature = "cluster", doc = "[`Node::cluster`] is a Redis Cluster as one node.")]
/// `valkey://`, `valkeys://` and `valkey+unix://` mean the same as those with `redis`. `?protocol=resp2` at the end
/// makes a connection use RESP2 instead of RESP3. [`Builder::build`](crate::Builder::build) checks the URL.
///
/// For TLS the application installs a rustls `CryptoProvider` at start, for example with
/// `rustls::crypto::ring::default_provider().install_default()`. `build()` does not check this. Without a provider, the
/// node stays down, and its error names the missing call.
#[derive(Clone)]
pub struct Node {
    pub(crate) source: Source,
    settings: NodeSettings,
}

#[derive(Clone)]
pub(crate) enum Source {
    Url(String),
    /// The master of this name, as these sentinels name it.
    #[cfg(feature = "sentinel")]
    Sentinel {
        master: String,
        sentinels: Vec<String>,
    },
    /// The cluster to which these servers belong.
    #[cfg(feature = "cluster")]
    Cluster(Vec<String>),
    Memory(MemoryNode),
}

impl Node {
    /// A node at this URL.
    pub fn new(url: impl Into<String>) -> Self {
        Source::Url(url.into()).into()
    }

    /// The master of this name on which most of these sentinels agree, wherever it is.
    ///
    /// The URLs name the sentinels, with their port, which is usually 26379: a URL without a port has that of a server,
    /// 6379. Their scheme, user, password and database are used for the master: if the sentinels are `rediss://`, the
    /// master is reached over TLS. If the sentinels need their own login, give it with
    /// [`sentinel_credentials`](Self::sentinel_credentials).
    ///
    /// The sentinels are asked at every connect, and once a second afterwards. When most of them name
    /// another master, the connection to the old master ends. The new master may lack locks that the
    /// old master granted last, so it sits out like a node that restarted; see
    /// [`Restarts`](crate::Restarts). With [`Restarts::Strict`](crate::Restarts::Strict), a client that
    /// was started after the failover knows about it as well. A client that cannot reach the sentinels stays with
    /// the master that it has.
    ///
    /// ```
    /// # fn main() -> Result<(), redlock_core::LockError> {
    /// use redlock_core::{Node, Redlock};
    ///
    /// let sentinels = ["redis://s1:26379", "redis://s2:26379", "redis://s3:26379"];
    /// let redlock = Redlock::builder().nodes([Node::sentinel("mymaster", sentinels)]).build()?;
    /// # drop(redlock);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "sentinel")]
    #[cfg_attr(docsrs, doc(cfg(feature = "sentinel")))]
    pub fn sentinel<I>(master: impl Into<String>, sentinels: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let sentinels = sentinels.into_iter().map(Into::into).collect();
        Source::Sentinel { master: master.into(), sentinels }.into()
    }

    /// The Redis Cluster to which these servers belong, as one node.
    ///
    /// Each lock is kept by the master of its slot. `MOVED` and `ASK` are followed. The user and
    /// password of the first URL are used for all servers.
    ///
    /// If a master fails, a replica takes over its slots. The replica may lack locks, so new locks in these slots are
    /// refused, as by a node that sits out; see [`Restarts`](crate::Restarts). Slots that move from one master to
    /// another keep their locks, and stay in use. The last slots of a master that is emptied may sit out as well: it
    /// looks like a master that has failed.
    ///
    /// ```
    /// # fn main() -> Result<(), redlock_core::LockError> {
    /// use redlock_core::{Node, Redlock};
    ///
    /// let cluster = Node::cluster(["redis://c1:7000", "redis://c2:7000"]);
    /// let redlock = Redlock::builder().nodes([cluster]).build()?;
    /// # drop(redlock);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "cluster")]
    #[cfg_attr(docsrs, doc(cfg(feature = "cluster")))]
    pub fn cluster<I>(servers: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Source::Cluster(servers.into_iter().map(Into::into).collect()).into()
    }

    /// Trusts the certificates that this authority has signed, and no others. `pem` holds one or more
    /// certificates. Needs a `rediss://` URL. Default: the authorities that this machine trusts, or
    /// those that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
    ///
    /// ```
    /// # fn node(pem: Vec<u8>) -> redlock_core::Node {
    /// redlock_core::Node::new("rediss://10.0.0.1:6379").tls_ca(pem)
    /// # }
    /// ```
    #[cfg(feature = "tls-rustls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls-rustls")))]
    #[must_use]
    pub fn tls_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.settings.tls.ca = Some(pem.into().into());
        self
    }

    /// Sends this certificate to the server. `certificate` is PEM with its chain, and `key` is its private
    /// key. Needs a `rediss://` URL. Replaces a provider that was set before.
    ///
    /// ```
    /// # fn node(cert_pem: Vec<u8>, key_pem: Vec<u8>) -> redlock_core::Node {
    /// redlock_core::Node::new("rediss://10.0.0.1:6379").tls_client(cert_pem, key_pem)
    /// # }
    /// ```
    #[cfg(feature = "tls-rustls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls-rustls")))]
    #[must_use]
    pub fn tls_client(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        use super::settings::{ClientCertificate, Identification};
        let identification = Identification::new(certificate, key);
        self.settings.tls.client = Some(ClientCertificate::Fixed(identification));
        self
    }

    /// Asks for the client's certificate and its private key (PEM) at every connect, so that a
    /// certificate can be replaced while locks are held. Connections that are open stay open.
    ///
    /// The provider has the same time to answer as that of [`credentials`](Self::credentials). It runs in the task of
    /// the node, so it must not block. While it fails, the node is down, with the reason of the provider.
    ///
    /// ```
    /// # async fn read(path: &str) -> std::io::Result<Vec<u8>> { std::fs::read(path) }
    /// # fn node() -> redlock_core::Node {
    /// redlock_core::Node::new("rediss://10.0.0.1:6379").tls_client_with(|| async {
    ///     let certificate = read("/run/certs/client.crt").await?;
    ///     Ok((certificate, read("/run/certs/client.key").await?))
    /// })
    /// # }
    /// ```
    #[cfg(feature = "tls-rustls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls-rustls")))]
    #[must_use]
    pub fn tls_client_with<F, Fut, C, K>(mut self, provider: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(C, K), Box<dyn std::error::Error + Send + Sync>>>
            + Send
            + 'static,
        C: Into<Vec<u8>>,
        K: Into<Vec<u8>>,
    {
        use super::settings::{ClientCertificate, Identification};
        let provider = Provider::new(move || {
            let asked = provider();
            async move {
                let (certificate, key) = asked.await?;
                Ok(Identification::new(certificate, key))
            }
        });
        self.settings.tls.client = Some(ClientCertificate::Asked(provider));
        self
    }

    /// Asks for user and password at every connect, and again when the server reports that they have
    /// expired (`NOAUTH`, `WRONGPASS`). Replaces user and password of the URL.
    ///
    /// No lock is lost when a password changes: open connections stay open, and the next connection
    /// uses the new password. While the provider fails, the node is down, with the reason of the provider. It runs in
    /// the task of the node, so it must not block.
    ///
    /// The provider has nine tenths of `connect_timeout` to answer, and the server has what is left. Behind sentinels,
    /// it is the same part of half of `connect_timeout`, and in a cluster of a third of it.
    ///
    /// ```
    /// use redlock_core::{Credentials, Node};
    ///
    /// # async fn token() -> Result<String, std::io::Error> { Ok("t".to_owned()) }
    /// let node = Node::new("redis://10.0.0.1:6379")
    ///     .credentials(|| async { Ok(Credentials::new("app", token().await?)) });
    /// # drop(node);
    /// ```
    #[must_use]
    pub fn credentials<F, Fut>(mut self, provider: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Credentials, Box<dyn std::error::Error + Send + Sync>>>
            + Send
            + 'static,
    {
        self.settings.credentials = Some(Provider::new(provider));
        self
    }

    /// Like [`credentials`](Self::credentials), for the sentinels of [`Node::sentinel`].
    ///
    /// ```
    /// use redlock_core::{Credentials, Node};
    ///
    /// let node = Node::sentinel("mymaster", ["redis://s1:26379"])
    ///     .sentinel_credentials(|| async { Ok(Credentials::new("watch", "pass")) });
    /// # drop(node);
    /// ```
    #[cfg(feature = "sentinel")]
    #[cfg_attr(docsrs, doc(cfg(feature = "sentinel")))]
    #[must_use]
    pub fn sentinel_credentials<F, Fut>(mut self, provider: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Credentials, Box<dyn std::error::Error + Send + Sync>>>
            + Send
            + 'static,
    {
        self.settings.sentinel_credentials = Some(Provider::new(provider));
        self
    }

    /// A grant, a renewal or the confirmation of a fencing token counts as a failed vote unless this
    /// many replicas acknowledge it (`WAIT`). Default: 0, which does not ask.
    ///
    /// The replicas have two fifths of `node_timeout` for it. While a server waits for its replicas, it
    /// runs no other command of this client, so a replica that is down delays all of them by that much.
    ///
    /// A failover then loses fewer locks, but it can still lose some: a replica that did not acknowledge
    /// may be promoted, and a replica that did may restart without its data.
    ///
    /// ```
    /// let node = redlock_core::Node::new("redis://10.0.0.1:6379").replicas(1);
    /// # drop(node);
    /// ```
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.settings.replicas = replicas;
        self
    }

    pub(crate) fn spec(self, context: &Context) -> Result<NodeSpec, LockError> {
        let Self { source, settings } = self;
        let only_servers = settings.of_servers();
        match source {
            Source::Url(url) => redis::spec(&url, settings, context),
            #[cfg(feature = "sentinel")]
            Source::Sentinel { master, sentinels } => {
                redis::sentinel_spec(&master, &sentinels, settings, context)
            }
            #[cfg(feature = "cluster")]
            Source::Cluster(servers) => redis::cluster_spec(&servers, settings, context),
            Source::Memory(node) => match only_servers {
                None => Ok(node.spec()),
                Some(setting) => Err(LockError::config(format!(
                    "a node in memory has no {setting}: leave it out, or name a server"
                ))),
            },
        }
    }
}

impl fmt::Debug for Node {
    /// Never prints the URL: it may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Memory(node) => node.fmt(f),
            #[cfg(feature = "sentinel")]
            Source::Sentinel { master, .. } => {
                f.debug_struct("Node").field("master", master).finish_non_exhaustive()
            }
            _ => f.debug_struct("Node").finish_non_exhaustive(),
        }
    }
}

impl From<Source> for Node {
    fn from(source: Source) -> Self {
        Self { source, settings: NodeSettings::default() }
    }
}

impl From<&str> for Node {
    fn from(url: &str) -> Self {
        Self::new(url)
    }
}

impl From<String> for Node {
    fn from(url: String) -> Self {
        Self::new(url)
    }
}

impl From<&String> for Node {
    fn from(url: &String) -> Self {
        Self::new(url.as_str())
    }
}

impl From<MemoryNode> for Node {
    fn from(node: MemoryNode) -> Self {
        Source::Memory(node).into()
    }
}

impl From<&MemoryNode> for Node {
    fn from(node: &MemoryNode) -> Self {
        Source::Memory(node.clone()).into()
    }
}
