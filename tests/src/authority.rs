//! Certificates for servers and clients of a test.

use std::fmt;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};

/// An authority that signs certificates.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its private key, both PEM.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The certificate.
    pub pem: String,
    /// Its private key.
    pub key: String,
}

impl Authority {
    /// An authority of this name.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    /// The authority's own certificate.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for these hosts.
    pub fn certificate(&self, hosts: &[&str]) -> Certificate {
        self.sign(params(hosts))
    }

    /// A certificate for these hosts whose time is over.
    pub fn expired(&self, hosts: &[&str]) -> Certificate {
        let mut params = params(hosts);
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Certificate { pem: certificate.pem(), key: key.serialize_pem() }
    }
}

fn params(hosts: &[&str]) -> CertificateParams {
    let mut params =
        CertificateParams::new(hosts.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>())
            .unwrap();
    params.distinguished_name.push(DnType::CommonName, "a test");
    params
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}
