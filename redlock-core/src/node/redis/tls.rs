//! TLS by rustls, below redis-rs: its own has no way to tell that an idle connection broke (see
//! `connection`), and panics where no `CryptoProvider` is installed (rule 18).

use std::{io, sync::Arc};

use tokio::{net::TcpStream, sync::OnceCell};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider, pki_types::ServerName},
};

/// The certificates that this client trusts. They are read at the first connection and then kept,
/// sessions to resume included.
#[derive(Default)]
pub(super) struct Trust(OnceCell<Arc<ClientConfig>>);

impl Trust {
    /// Shakes hands with `host`, whose certificate must be trusted by this machine.
    pub(super) async fn secure(
        &self,
        host: &str,
        tcp: TcpStream,
    ) -> Result<TlsStream<TcpStream>, String> {
        let config = self.0.get_or_try_init(load).await?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| "the host is no name that a certificate could have".to_owned())?;
        TlsConnector::from(Arc::clone(config))
            .connect(name, tcp)
            .await
            .map_err(|error| format!("TLS: {error}"))
    }

    #[cfg(test)]
    pub(super) fn of(config: ClientConfig) -> Self {
        Self(OnceCell::new_with(Some(Arc::new(config))))
    }
}

async fn load() -> Result<Arc<ClientConfig>, String> {
    // Not at `build()`: the application may install its provider later than that.
    let Some(provider) = CryptoProvider::get_default() else {
        return Err("TLS: no rustls CryptoProvider is installed: call, for one, \
                    rustls::crypto::ring::default_provider().install_default() at start"
            .to_owned());
    };
    let roots = tokio::task::spawn_blocking(trusted_roots)
        .await
        .map_err(io::Error::from)
        .and_then(|roots| roots)
        .map_err(|error| format!("TLS: {error}"))?;
    let config = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// The certificates that this machine trusts, or those that `SSL_CERT_FILE` and `SSL_CERT_DIR`
/// name: a private server usually has a private authority.
fn trusted_roots() -> io::Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
        return Err(io::Error::other(format!(
            "this machine trusts no certificates{why}; install ca-certificates or set SSL_CERT_FILE"
        )));
    }
    Ok(roots)
}
