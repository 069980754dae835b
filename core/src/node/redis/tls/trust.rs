//! Whom to trust, who we are, and which name the server must prove.
//!
//! Files are read once, when the client is made, so that a wrong one is an error there and not at the first
//! lock. What is in a file, or in what should have been a path, is never shown: it may be a key.

use std::io;
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{
    self, AlertDescription, CertificateError, ClientConfig, InconsistentKeys, RootCertStore,
    crypto::ring,
};

use super::options::TlsOptions;
use super::papers::{certificates, private_key};
use super::pem::Pem;
use super::unverified::Unverified;
use crate::error::{Error, Result};
use crate::spelling::spelled;

/// Options, read and checked.
#[derive(Clone)]
pub(crate) struct Tls {
    /// Shared by all connections, which is what lets them resume sessions.
    pub(crate) config: Arc<ClientConfig>,
    /// Instead of the URL's host.
    server_name: Option<ServerName<'static>>,
}

impl Tls {
    /// Reads the files, and says which rule one broke.
    pub(crate) fn load(options: &TlsOptions) -> Result<Self> {
        options.check()?;
        let server_name = options.server_name.as_deref().map(name).transpose()?;
        let config = options
            .config
            .as_ref()
            .map_or_else(|| configured(options), |own| Ok(Arc::clone(own)))?;
        Ok(Self { config, server_name })
    }

    /// The name the server at `host` must prove.
    pub(crate) fn name_for(&self, host: &str) -> Result<ServerName<'static>> {
        // A certificate knows no zones, which are this machine's.
        let host = host.split('%').next().unwrap_or(host);
        self.server_name.clone().map_or_else(|| name(host), Ok)
    }
}

/// What the files say, as rustls wants it.
fn configured(options: &TlsOptions) -> Result<Arc<ClientConfig>> {
    // The provider is named, not taken from the process: another library may have installed its own, or
    // none.
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::invalid(format!("TLS: {error}")))?;
    let config = match &options.ca {
        _ if !options.verifies() => {
            config.dangerous().with_custom_certificate_verifier(Arc::new(Unverified::by(provider)))
        }
        Some(path) => config.with_root_certificates(trust_in(path)?),
        None => config.with_root_certificates(system_trust()?),
    };
    let config = match (&options.cert, &options.key) {
        (None, None) => config.with_no_client_auth(),
        (Some(cert), Some(key)) => {
            let chain = certificates("tls_cert", cert)?;
            let secret = private_key("tls_key", key)?;
            config.with_client_auth_cert(chain, secret).map_err(|error| unfit(&error, cert, key))?
        }
        _ => return Err(TlsOptions::apart()),
    };
    Ok(Arc::new(config))
}

/// Which of the two cannot be used, and why.
fn unfit(error: &rustls::Error, cert: &Pem, key: &Pem) -> Error {
    use rustls::Error as Bad;
    match error {
        Bad::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            let cert = spelled("tls_cert");
            let why = format!(
                "it is not the key of the first certificate in {cert}: give the one that was made for it"
            );
            key.unreadable("tls_key", &why)
        }
        // So it says that it knows no such key.
        Bad::General(why) => key.unreadable("tls_key", why),
        other => cert.unreadable("tls_cert", &other.to_string()),
    }
}

/// The options that the texts below name.
const OPTIONS: [&str; 4] = ["tls_ca", "tls_cert", "tls_key", "tls_server_name"];

/// Why a TLS connection could not be made, in words.
pub(crate) fn explained(error: &io::Error) -> String {
    // The cause is inside: what is around it only says that the handshake failed.
    let refused = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let why = match refused {
        Some(rustls::Error::InvalidCertificate(certificate)) => explained_certificate(certificate),
        Some(rustls::Error::AlertReceived(alert)) => explained_alert(*alert),
        Some(rustls::Error::InvalidMessage(_)) => {
            "the server does not speak TLS on this port: use its TLS port, or a URL without TLS"
        }
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the server closed the connection during the handshake: is this its TLS port?"
        }
        _ => "",
    };
    let why =
        OPTIONS.iter().fold(why.to_owned(), |why, option| why.replace(option, &spelled(option)));
    if why.is_empty() { format!("TLS: {error}") } else { format!("TLS: {why} ({error})") }
}

/// Why the server refused the handshake; empty for what explains itself. By TLS 1.3 it says so after the handshake.
fn explained_alert(alert: AlertDescription) -> &'static str {
    use AlertDescription as Bad;
    match alert {
        Bad::CertificateRequired => {
            "the server requires a client certificate: give tls_cert and tls_key"
        }
        Bad::HandshakeFailure => {
            "the server refused the handshake: it may require a client certificate (tls_cert and tls_key)"
        }
        Bad::BadCertificate
        | Bad::UnsupportedCertificate
        | Bad::CertificateRevoked
        | Bad::CertificateExpired
        | Bad::CertificateUnknown
        | Bad::UnknownCA => {
            "the server does not accept the client certificate: check tls_cert and who issued it"
        }
        _ => "",
    }
}

/// The usual mistakes, with their remedy; empty for what explains itself.
fn explained_certificate(error: &CertificateError) -> &'static str {
    use CertificateError as Bad;
    match error {
        Bad::Expired | Bad::ExpiredContext { .. } => {
            "the server's certificate has expired, or this machine's clock is wrong"
        }
        Bad::NotValidYet | Bad::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet, or this machine's clock is wrong"
        }
        Bad::UnknownIssuer => {
            "the server's certificate was issued by nobody who is trusted: name its CA with tls_ca"
        }
        // Before the other names: it looks as if the name were wrong.
        Bad::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "the server's certificate has no subjectAltName, and a common name (CN) alone does not count"
        }
        Bad::NotValidForName | Bad::NotValidForNameContext { .. } => {
            "the server's certificate is for another name: tls_server_name says which one is right"
        }
        Bad::InvalidPurpose | Bad::InvalidPurposeContext { .. } => {
            "the server's certificate is not for servers (extendedKeyUsage)"
        }
        // The library tells these two by their debug text only.
        Bad::Other(other) if format!("{other:?}").contains("UnsupportedCertVersion") => {
            "the server's certificate is of version 1: version 3, with a subjectAltName, is needed"
        }
        Bad::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the server's certificate is that of a CA: it needs one of its own, issued by the CA"
        }
        _ => "",
    }
}

/// The name that certificates must carry.
fn name(text: &str) -> Result<ServerName<'static>> {
    ServerName::try_from(text.to_owned()).map_err(|_| {
        let option = spelled("tls_server_name");
        Error::invalid(format!("{option} is no name that a certificate can carry"))
    })
}

/// These and no others: whoever names a CA of its own wants nobody else's word.
fn trust_in(ca: &Pem) -> Result<RootCertStore> {
    let mut trust = RootCertStore::empty();
    for certificate in certificates("tls_ca", ca)? {
        let added = trust.add(certificate);
        added.map_err(|error| ca.unreadable("tls_ca", &error.to_string()))?;
    }
    Ok(trust)
}

/// What the machine trusts. Some of it may be unreadable, as long as something is left.
fn system_trust() -> Result<RootCertStore> {
    let mut trust = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    trust.add_parsable_certificates(found.certs);
    if let (true, Some(error)) = (trust.is_empty(), found.errors.first()) {
        let text = format!("TLS: the system's trusted certificates cannot be read: {error}");
        return Err(Error::invalid(text));
    }
    if trust.is_empty() {
        let option = spelled("tls_ca");
        return Err(Error::invalid(format!(
            "TLS: the system has no trusted certificates; name your own with {option}"
        )));
    }
    Ok(trust)
}
