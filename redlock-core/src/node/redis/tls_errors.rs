//! Which check of TLS has failed, in words, and what to do about it.

use std::io;

use tokio_rustls::rustls::{AlertDescription, Error};

/// Says which check failed. `None` for an error that is not of TLS.
pub(super) fn explain(error: &io::Error) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    let advice = match error {
        Error::InvalidCertificate(why) => {
            // The variants that carry more came later, and their names begin alike.
            servers(&format!("{why:?}"))
        }
        Error::NoCertificatesPresented => "the server shows no certificate",
        Error::AlertReceived(alert) => clients(*alert),
        _ => "",
    };
    if advice.is_empty() {
        return Some(format!("TLS: {error}"));
    }
    Some(format!("TLS: {advice} ({error})"))
}

/// Whether the server's certificate is signed by an authority that is not trusted. A new authority may have the name of
/// an old one.
pub(super) fn is_of_unknown_authority(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|it| it.downcast_ref::<Error>());
    let Some(Error::InvalidCertificate(why)) = error else { return false };
    let why = format!("{why:?}");
    ["UnknownIssuer", "BadSignature"].iter().any(|it| why.starts_with(it))
}

/// Why this client refuses the server's certificate.
fn servers(why: &str) -> &'static str {
    let advices = [
        (
            "UnknownIssuer",
            "no authority that this client trusts has signed the server's certificate: give the \
             right authority with tls_ca, or let this machine trust it",
        ),
        ("Expired", "the server's certificate has expired"),
        ("NotValidYet", "the server's certificate is not valid yet: is a clock wrong?"),
        (
            "NotValidForName",
            "the server's certificate is not for the host of this URL: name the server as its certificate does. In a cluster, or \
             behind sentinels, let the servers announce that name",
        ),
        ("Revoked", "the server's certificate was revoked"),
        ("BadSignature", "the signature of the server's certificate is wrong"),
        ("InvalidPurpose", "the server's certificate is not meant for servers"),
        ("BadEncoding", "the server's certificate cannot be read"),
    ];
    advices
        .iter()
        .find(|(name, _)| why.starts_with(name))
        .map_or("the server's certificate was refused", |(_, advice)| advice)
}

/// Why the server refuses this client's certificate. Other alerts speak for themselves.
fn clients(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::CertificateRequired | AlertDescription::NoCertificate => {
            "the server wants a client certificate: give it with tls_client"
        }
        AlertDescription::UnknownCA => {
            "no authority that the server trusts has signed the client certificate"
        }
        AlertDescription::CertificateExpired => "the client certificate has expired",
        AlertDescription::CertificateRevoked => "the client certificate was revoked",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::DecryptError => "the server refuses the client certificate",
        AlertDescription::HandshakeFailure => {
            "the server refuses to shake hands: with TLS 1.2, this is how it asks for a client \
             certificate"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use tokio_rustls::rustls::CertificateError;

    use super::*;

    #[test]
    fn each_check_has_words_of_its_own() {
        let told = |error: Error| explain(&io::Error::other(error)).unwrap();
        for (why, words) in [
            (CertificateError::UnknownIssuer, "no authority that this client trusts"),
            (CertificateError::Expired, "has expired"),
            (CertificateError::NotValidYet, "not valid yet"),
            (CertificateError::NotValidForName, "not for the host"),
            (CertificateError::Revoked, "was revoked"),
            (CertificateError::BadSignature, "signature"),
            (CertificateError::ApplicationVerificationFailure, "was refused"),
        ] {
            let told = told(Error::InvalidCertificate(why));
            assert!(told.starts_with("TLS: ") && told.contains(words), "{told}");
        }
        for (alert, words) in [
            (AlertDescription::CertificateRequired, "wants a client certificate"),
            (AlertDescription::UnknownCA, "has signed the client certificate"),
            (AlertDescription::CertificateExpired, "client certificate has expired"),
        ] {
            let told = told(Error::AlertReceived(alert));
            assert!(told.contains(words), "{told}");
        }
        let other = told(Error::AlertReceived(AlertDescription::InternalError));
        assert!(other.starts_with("TLS: ") && !other.contains("certificate"), "{other}");
    }

    #[test]
    fn errors_of_the_operating_system_are_none_of_tls() {
        assert_eq!(explain(&io::Error::from(io::ErrorKind::ConnectionReset)), None);
        assert_eq!(explain(&io::Error::other("anything")), None);
    }
}
