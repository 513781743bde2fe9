//! What is known of TLS before a server is asked. Connections are tested in the suite `tls`, whose
//! process has a `CryptoProvider`: here is none.

use rcgen::{CertificateParams, KeyPair};

use super::*;
use crate::Node;

#[tokio::test]
async fn without_a_crypto_provider_the_remedy_is_named() {
    let server = Server::start();
    let reason = refusal(&format!("rediss://localhost:{}", server.port)).await;
    assert!(reason.contains("install_default()"), "{reason}");
}

#[test]
fn settings_that_cannot_be_used_are_refused_by_build() {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap();
    let (certificate, key) = (certificate.pem(), key.serialize_pem());
    let tls = || Node::new("rediss://localhost");
    let plain = || Node::new("redis://localhost");
    let refused = |node: Node| {
        let error = crate::Redlock::builder().nodes([node]).build().unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error:?}");
        error.to_string()
    };
    for (node, words) in [
        (tls().tls_ca(CANARY), "tls_ca: it is not PEM"),
        (tls().tls_ca(""), "tls_ca: it is not PEM"),
        (tls().tls_client(CANARY, &*key), "the certificate is not PEM"),
        (tls().tls_client(&*certificate, CANARY), "the private key is not PEM"),
        (plain().tls_ca(&*certificate), "tls_ca on node localhost:6379: it needs a URL"),
        (plain().tls_client(&*certificate, &*key), "tls_client on node localhost:6379"),
        (plain().tls_client_with(|| async { Ok(("", "")) }), "tls_client on node"),
    ] {
        let error = refused(node);
        assert!(error.contains(words), "{error}");
        assert!(!error.contains(CANARY), "{error}");
    }
    assert!(crate::Redlock::builder().nodes([tls().tls_ca(&*certificate)]).build().is_ok());
}
