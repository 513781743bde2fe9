//! A real server with a certificate of its own.

use rcgen::{CertificateParams, KeyPair};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use super::*;
use crate::node::{
    Connector,
    redis::{connector::RedisConnector, tls::Trust, url},
};

/// A server with TLS on a second port, and the certificate to trust.
struct Secure {
    server: Server,
    port: u16,
    roots: RootCertStore,
}

impl Secure {
    fn start() -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();

        let mut server = Server::start();
        server.write("server.crt", &certificate.pem());
        server.write("server.key", &key.serialize_pem());
        let port = server::free_port();
        for setting in [
            "tls-cert-file server.crt",
            "tls-key-file server.key",
            "tls-auth-clients no",
            &format!("tls-port {port}"),
        ] {
            server.admin(&format!("CONFIG SET {setting}"));
        }
        Self { server, port, roots }
    }

    fn url(&self, host: &str, query: &str) -> String {
        format!("rediss://{host}:{}{query}", self.port)
    }

    /// A connector that trusts `roots` instead of what this machine trusts.
    fn connector(&self, url: &str, roots: RootCertStore) -> RedisConnector {
        let config =
            ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
        RedisConnector::trusting(url::parse(url).unwrap(), Trust::of(config))
    }
}

#[tokio::test]
async fn a_trusted_server_is_spoken_to_and_its_end_noticed() {
    for query in ["", "?protocol=resp2"] {
        let mut secure = Secure::start();
        let connector = secure.connector(&secure.url("localhost", query), secure.roots.clone());
        let (node, _) =
            within(connector.connect(&Arc::default())).await.unwrap_or_else(|e| panic!("{e}"));
        let mut node = driven(node);
        let claim = claim("redlock:a", CANARY);
        assert_eq!(act(&mut *node, &claim, GRANT).await, Ok(Reply::Done));
        assert_eq!(act(&mut *node, &claim, RELEASE).await, Ok(Reply::Done));

        let closed = node.closed();
        secure.server.kill();
        assert_eq!(within(closed).await.kind, NodeErrorKind::Disconnected);
    }
}

#[tokio::test]
async fn an_impostor_is_refused() {
    let secure = Secure::start();
    let other = Secure::start();
    for (host, roots, why) in [
        ("localhost", other.roots.clone(), "invalid peer certificate"),
        ("127.0.0.1", secure.roots.clone(), "not valid for name"),
    ] {
        let connector = secure.connector(&secure.url(host, ""), roots);
        let error = within(connector.connect(&Arc::default()))
            .await
            .err()
            .expect("an impostor was trusted");
        assert_eq!(error.kind, NodeErrorKind::Down);
        assert!(error.reason.starts_with("TLS: "), "{error}");
        assert!(error.reason.contains(why), "{error}");
    }
}

#[tokio::test]
async fn without_a_crypto_provider_the_remedy_is_named() {
    let server = Server::start();
    let reason = refusal(&format!("rediss://localhost:{}", server.port)).await;
    assert!(reason.contains("install_default()"), "{reason}");
}
