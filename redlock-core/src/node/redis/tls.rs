//! TLS by rustls, below redis-rs: its own has no way to tell that an idle connection broke (see
//! `connection`), and panics where no `CryptoProvider` is installed (rule 18).

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, timeout},
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::CryptoProvider,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

use super::tls_errors;
use crate::{
    error::LockError,
    node::settings::{ClientCertificate, Identification, TlsSettings},
    sync::Mutex,
};

/// How often the machine's authorities are read again at most.
const BETWEEN_READS: Duration = Duration::from_secs(60);

/// The certificates that this client trusts, and the certificate that it shows.
pub(super) struct Tls {
    roots: Roots,
    client: Option<ClientCertificate>,
    /// How long the provider of the client certificate may take.
    limit: Duration,
    connect_timeout: Duration,
    /// Kept while the client trusts and shows the same certificates, because it has the sessions to resume.
    ready: Mutex<Option<Ready>>,
}

/// The authorities that this client trusts.
enum Roots {
    Given(Arc<RootCertStore>),
    OfThisMachine(Mutex<Machine>),
}

#[derive(Default)]
struct Machine {
    /// They are read at the first connection and then kept, until none of them has signed a server's certificate.
    kept: Option<Arc<RootCertStore>>,
    /// When they were found to be of no use last.
    dropped: Option<Instant>,
}

struct Ready {
    roots: Arc<RootCertStore>,
    shown: Option<Identification>,
    config: Arc<ClientConfig>,
}

impl Tls {
    /// Reads what is known already. The error names the setting that cannot be used.
    pub(super) fn new(
        settings: TlsSettings,
        limit: Duration,
        connect_timeout: Duration,
    ) -> Result<Self, LockError> {
        let TlsSettings { ca, client } = settings;
        let roots = ca.as_deref().map(roots_of).transpose()?;
        if let Some(ClientCertificate::Fixed(identification)) = &client {
            read(identification).map_err(|why| LockError::config(format!("tls_client: {why}")))?;
        }
        let roots = roots.map_or_else(|| Roots::OfThisMachine(Mutex::default()), Roots::Given);
        Ok(Self { roots, client, limit, connect_timeout, ready: Mutex::new(None) })
    }

    /// Shakes hands with `host`, whose certificate must be trusted.
    pub(super) async fn secure<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: &str,
        tcp: S,
    ) -> Result<TlsStream<S>, String> {
        let config = self.config().await?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| "the host is no name that a certificate could have".to_owned())?;
        let secured = TlsConnector::from(config).connect(name, tcp);
        // A little before the caller gives up, so that the reason is known.
        let secured = timeout(self.connect_timeout / 10 * 9, secured).await.map_err(|_| {
            "TLS: the server takes the connection and does not answer the handshake: it hangs, or this is not its port for TLS"
        })?;
        secured.map_err(|error| {
            if tls_errors::is_of_unknown_authority(&error) {
                self.read_again();
            }
            tls_errors::explain(&error).unwrap_or_else(|| format!("TLS: {error}"))
        })
    }

    /// Has the next connection read the machine's authorities: there may be a new one since they were read.
    fn read_again(&self) {
        let Roots::OfThisMachine(machine) = &self.roots else { return };
        let mut machine = machine.lock();
        if machine.dropped.is_none_or(|it| it.elapsed() >= BETWEEN_READS) {
            *machine = Machine { kept: None, dropped: Some(Instant::now()) };
        }
    }

    async fn roots(&self) -> Result<Arc<RootCertStore>, String> {
        let machine = match &self.roots {
            Roots::Given(roots) => return Ok(Arc::clone(roots)),
            Roots::OfThisMachine(machine) => machine,
        };
        let kept = machine.lock().kept.clone();
        if let Some(roots) = kept {
            return Ok(roots);
        }
        // No lock is held across an await: the runtime of the task that has it may stand still.
        let read = trusted_by_this_machine().await?;
        Ok(Arc::clone(machine.lock().kept.get_or_insert(read)))
    }

    /// The settings for the next connection.
    async fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let shown = match &self.client {
            None => None,
            Some(ClientCertificate::Fixed(identification)) => Some(identification.clone()),
            Some(ClientCertificate::Asked(provider)) => {
                Some(provider.ask("TLS: the provider of the client certificate", self.limit).await?)
            }
        };
        let roots = self.roots().await?;
        let mut ready = self.ready.lock();
        let is_same = |it: &&Ready| it.shown == shown && Arc::ptr_eq(&it.roots, &roots);
        if let Some(ready) = ready.as_ref().filter(is_same) {
            return Ok(Arc::clone(&ready.config));
        }
        let config = Arc::new(build(Arc::clone(&roots), shown.as_ref())?);
        *ready = Some(Ready { roots, shown, config: Arc::clone(&config) });
        Ok(config)
    }
}

fn build(
    roots: Arc<RootCertStore>,
    shown: Option<&Identification>,
) -> Result<ClientConfig, String> {
    // Not at `build()`: the application may install its provider later than that.
    let Some(provider) = CryptoProvider::get_default() else {
        return Err("TLS: no rustls CryptoProvider is installed: call, for one, \
                    rustls::crypto::ring::default_provider().install_default() at start"
            .to_owned());
    };
    let config = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(roots);
    let Some(shown) = shown else { return Ok(config.with_no_client_auth()) };
    let (chain, key) = read(shown).map_err(|why| format!("TLS: the client certificate: {why}"))?;
    config.with_client_auth_cert(chain, key).map_err(|error| {
        format!("TLS: the client certificate and its private key do not work together: {error}")
    })
}

/// Reads a certificate with its chain, and its key. The error holds nothing of them (rule 19).
fn read(
    identification: &Identification,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), &'static str> {
    let chain = certificates(&identification.certificate)
        .ok_or("the certificate is not PEM with -----BEGIN CERTIFICATE-----")?;
    let key = PrivateKeyDer::from_pem_slice(&identification.key)
        .map_err(|_| "the private key is not PEM with -----BEGIN PRIVATE KEY-----")?;
    Ok((chain, key))
}

/// The certificates in a PEM, at least one.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
    (!found.is_empty()).then_some(found)
}

fn roots_of(pem: &[u8]) -> Result<Arc<RootCertStore>, LockError> {
    let found = certificates(pem).ok_or_else(|| {
        LockError::config("tls_ca: it is not PEM with -----BEGIN CERTIFICATE-----")
    })?;
    let mut roots = RootCertStore::empty();
    for (index, certificate) in found.into_iter().enumerate() {
        roots.add(certificate).map_err(|error| {
            LockError::config(format!("tls_ca: certificate {} in it: {error}", index + 1))
        })?;
    }
    Ok(Arc::new(roots))
}

/// The certificates that this machine trusts, or those that `SSL_CERT_FILE` and `SSL_CERT_DIR`
/// name.
async fn trusted_by_this_machine() -> Result<Arc<RootCertStore>, String> {
    tokio::task::spawn_blocking(trusted_roots)
        .await
        .map_err(io::Error::from)
        .and_then(|roots| roots)
        .map(Arc::new)
        .map_err(|error| format!("TLS: {error}"))
}

fn trusted_roots() -> io::Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
        return Err(io::Error::other(format!(
            "this machine trusts no certificates{why}; give the server's authority with tls_ca, \
             install ca-certificates or set SSL_CERT_FILE"
        )));
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that no authority knows is dialled once a second.
    #[tokio::test(start_paused = true)]
    async fn the_authorities_of_the_machine_are_read_once_a_minute_at_most() {
        let tls = Tls::new(TlsSettings::default(), BETWEEN_READS, BETWEEN_READS).unwrap();
        let Roots::OfThisMachine(machine) = &tls.roots else { panic!("none were given") };
        let reads = || {
            machine.lock().kept = Some(Arc::new(RootCertStore::empty()));
            tls.read_again();
            machine.lock().kept.is_none()
        };
        assert!(reads());
        assert!(!reads());
        tokio::time::advance(BETWEEN_READS - Duration::from_secs(1)).await;
        assert!(!reads());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(reads());
        assert!(!reads());
    }
    /// A server has the time of a whole connection for it, also where the rest has less.
    #[tokio::test(start_paused = true)]
    async fn a_handshake_that_is_not_answered_ends_before_the_time_to_connect_is_over() {
        let limit = Duration::from_secs(5);
        let roots = Arc::new(RootCertStore::empty());
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(Arc::clone(&roots))
            .with_no_client_auth();
        let ready = Ready { roots: Arc::clone(&roots), shown: None, config: Arc::new(config) };
        let tls = Tls {
            roots: Roots::Given(roots),
            ready: Mutex::new(Some(ready)),
            ..Tls::new(TlsSettings::default(), limit, 2 * limit).unwrap()
        };
        let (ours, _silent) = tokio::io::duplex(1 << 16);
        let begun = Instant::now();
        let why = tls.secure("localhost", ours).await.unwrap_err();
        assert!(why.contains("does not answer the handshake"), "{why}");
        assert_eq!(begun.elapsed(), Duration::from_secs(9));
    }
}
