//! The settings of a node beside its address.

use super::Credentials;
use super::credentials::Provider;

/// The settings of a node beside its address.
#[derive(Clone, Default)]
pub(crate) struct NodeSettings {
    pub(crate) credentials: Option<Provider<Credentials>>,
    #[cfg(feature = "sentinel")]
    pub(crate) sentinel_credentials: Option<Provider<Credentials>>,
    #[cfg(feature = "tls-rustls")]
    pub(crate) tls: TlsSettings,
    /// How many replicas have to acknowledge a vote.
    pub(crate) replicas: usize,
}

/// What to trust, and what to be trusted by.
#[cfg(feature = "tls-rustls")]
#[derive(Clone, Default)]
pub(crate) struct TlsSettings {
    /// PEM. Unset, the machine's own authorities are trusted.
    pub(crate) ca: Option<std::sync::Arc<[u8]>>,
    pub(crate) client: Option<ClientCertificate>,
}

/// Where the certificate of this client comes from.
#[cfg(feature = "tls-rustls")]
#[derive(Clone)]
pub(crate) enum ClientCertificate {
    Fixed(Identification),
    Asked(Provider<Identification>),
}

/// A certificate with its chain, and its private key, both PEM. Has no `Debug`, and must not get one
/// (rule 19).
#[cfg(feature = "tls-rustls")]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Identification {
    pub(crate) certificate: std::sync::Arc<[u8]>,
    pub(crate) key: std::sync::Arc<[u8]>,
}

#[cfg(feature = "tls-rustls")]
impl Identification {
    pub(crate) fn new(certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        Self { certificate: certificate.into().into(), key: key.into().into() }
    }
}

impl NodeSettings {
    /// The first setting that only a server has, by the name of its setter.
    pub(crate) fn of_servers(&self) -> Option<&'static str> {
        if self.credentials.is_some() {
            return Some("credentials");
        }
        if self.replicas > 0 {
            return Some("replicas");
        }
        self.of_sentinels().or_else(|| self.of_tls())
    }

    /// The first setting that only sentinels need.
    pub(crate) fn of_sentinels(&self) -> Option<&'static str> {
        #[cfg(feature = "sentinel")]
        if self.sentinel_credentials.is_some() {
            return Some("sentinel_credentials");
        }
        None
    }

    /// The first setting that needs TLS.
    pub(crate) fn of_tls(&self) -> Option<&'static str> {
        #[cfg(feature = "tls-rustls")]
        {
            if self.tls.ca.is_some() {
                return Some("tls_ca");
            }
            if self.tls.client.is_some() {
                return Some("tls_client");
            }
        }
        None
    }
}
