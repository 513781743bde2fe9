//! Nodes over TLS: the authorities to trust, and the certificate to show.

use std::{io, path::Path};

use redlock_core::Node;
use tokio_rustls::rustls::crypto::ring;

use crate::{
    args::Tls,
    exit::{Failure, USAGE},
};

/// The nodes, with what the command line says about TLS.
pub(crate) fn secured(nodes: impl Iterator<Item = Node>, tls: &Tls) -> Result<Vec<Node>, Failure> {
    // The library leaves the choice of a TLS provider to the application, which is this program. An
    // error means that a provider is installed already.
    let _ = ring::default_provider().install_default();
    let ca =
        tls.tls_ca.as_deref().map(|file| read("--tls-ca or REDLOCK_TLS_CA", file)).transpose()?;
    let shown = match (&tls.tls_cert, &tls.tls_key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
        (Some(_), None) => {
            return Err(Failure::new(USAGE, "--tls-cert needs its --tls-key or REDLOCK_TLS_KEY"));
        }
        (None, Some(_)) => {
            return Err(Failure::new(USAGE, "--tls-key needs its --tls-cert or REDLOCK_TLS_CERT"));
        }
    };
    if let Some((certificate, key)) = &shown {
        // A wrong path is told at once, and not as a node that is down.
        read("--tls-cert or REDLOCK_TLS_CERT", certificate)?;
        read("--tls-key or REDLOCK_TLS_KEY", key)?;
    }
    let secure = |mut node: Node| {
        if let Some(ca) = &ca {
            node = node.tls_ca(&**ca);
        }
        if let Some(shown) = shown.clone() {
            // A command may run for longer than a certificate is good for.
            node = node.tls_client_with(move || {
                let (certificate, key) = shown.clone();
                async move { Ok((std::fs::read(certificate)?, std::fs::read(key)?)) }
            });
        }
        node
    };
    Ok(nodes.map(secure).collect())
}

/// `named`: what names the file.
fn read(named: &str, file: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(file).map_err(|error: io::Error| {
        Failure::new(USAGE, format!("{named}: cannot read {}: {error}", file.display()))
    })
}
