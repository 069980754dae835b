//! Builds the TLS configuration from the options.
//!
//! It consists of the trusted certificates, the client certificate, and the name that the server must prove. Files are
//! read once, when the client is created, so that a wrong file is an error there and not at the first lock. The content
//! of a file, or of a value that should have been a path, is never shown. It may be a key.

use std::borrow::Cow;
use std::sync::Arc;
use std::{fs, io};

use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    self, AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct,
    InconsistentKeys, RootCertStore, SignatureScheme,
};

use super::options::{Held, Pem, TlsOptions};
use crate::error::{Error, Result};
use crate::text::{spelled, with_spelled};

/// The loaded and checked options.
#[derive(Clone)]
pub(crate) struct Tls {
    /// Shared by all connections, so that they can resume TLS sessions.
    pub(crate) config: Arc<ClientConfig>,
    /// Replaces the URL's host.
    server_name: Option<ServerName<'static>>,
}

impl Tls {
    /// Loads the options. An error names the violated rule.
    pub(crate) fn load(options: &TlsOptions) -> Result<Self> {
        options.check()?;
        let server_name = options.server_name.as_deref().map(name).transpose()?;
        let config = options
            .config
            .as_ref()
            .map_or_else(|| configured(options), |own| Ok(Arc::clone(&own.0)))?;
        Ok(Self { config, server_name })
    }

    /// Returns the name that the certificate of the server at `host` must have.
    pub(crate) fn name_for(&self, host: &str) -> Result<ServerName<'static>> {
        // Certificates contain no zones, which are local to this machine.
        let host = host.split('%').next().unwrap_or(host);
        self.server_name.clone().map_or_else(|| name(host), Ok)
    }
}

/// Builds the rustls configuration from the files.
fn configured(options: &TlsOptions) -> Result<Arc<ClientConfig>> {
    // Names the provider explicitly, because another library may have installed a different one for the process, or
    // none is installed.
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::invalid(format!("TLS: {error}")))?;
    let config = match &options.ca {
        _ if !options.verifies() => {
            config.dangerous().with_custom_certificate_verifier(Arc::new(Unverified { provider }))
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

/// Returns an error that names the unusable one of certificate and key.
fn unfit(error: &rustls::Error, cert: &Pem, key: &Pem) -> Error {
    use rustls::Error as Bad;
    match error {
        Bad::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            let cert = spelled("tls_cert");
            let why = format!(
                "it is not the key of the first certificate in {cert}. Pass the matching key"
            );
            key.unreadable("tls_key", &why)
        }
        // rustls reports an unknown kind of key this way.
        Bad::General(why) => key.unreadable("tls_key", why),
        other => cert.unreadable("tls_cert", &other.to_string()),
    }
}

/// The options that the texts below name.
const OPTIONS: [&str; 4] = ["tls_ca", "tls_cert", "tls_key", "tls_server_name"];

/// Explains why a TLS connection could not be opened.
pub(crate) fn explained(error: &io::Error) -> String {
    // The outer error only reports that the handshake failed.
    let refused = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let why = match refused {
        Some(rustls::Error::InvalidCertificate(certificate)) => explained_certificate(certificate),
        Some(rustls::Error::AlertReceived(alert)) => explained_alert(*alert),
        Some(rustls::Error::InvalidMessage(_)) => {
            "the server does not use TLS on this port. Use its TLS port, or a URL without TLS"
        }
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the server closed the connection during the handshake. Check that this is its TLS port"
        }
        _ => "",
    };
    let why = with_spelled(why, &OPTIONS);
    if why.is_empty() { format!("TLS: {error}") } else { format!("TLS: {why} ({error})") }
}

/// Explains an alert of the server. Empty if the alert explains itself. With TLS 1.3 it may arrive after the handshake.
fn explained_alert(alert: AlertDescription) -> &'static str {
    use AlertDescription as Bad;
    match alert {
        Bad::CertificateRequired => {
            "the server requires a client certificate. Set tls_cert and tls_key"
        }
        Bad::HandshakeFailure => {
            "the server refused the handshake. It may require a client certificate (tls_cert and tls_key)"
        }
        Bad::BadCertificate
        | Bad::UnsupportedCertificate
        | Bad::CertificateRevoked
        | Bad::CertificateExpired
        | Bad::CertificateUnknown
        | Bad::UnknownCA => {
            "the server does not accept the client certificate. Check tls_cert and its issuer"
        }
        _ => "",
    }
}

/// Explains common certificate errors and how to fix them. Empty if the error explains itself.
fn explained_certificate(error: &CertificateError) -> &'static str {
    use CertificateError as Bad;
    match error {
        Bad::Expired
        | Bad::ExpiredContext { .. }
        | Bad::NotValidYet
        | Bad::NotValidYetContext { .. } => {
            "the server's certificate has expired or is not valid yet, or this machine's clock is wrong"
        }
        Bad::UnknownIssuer => {
            "the issuer of the server's certificate is not trusted. Set tls_ca to its CA"
        }
        // Checked before the other names, because it looks like a wrong name.
        Bad::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "the server's certificate has no subjectAltName, and a common name (CN) is not enough"
        }
        Bad::NotValidForName | Bad::NotValidForNameContext { .. } => {
            "the server's certificate is for another name. Set tls_server_name to the expected name"
        }
        Bad::InvalidPurpose | Bad::InvalidPurposeContext { .. } => {
            "the server's certificate is not for servers (extendedKeyUsage)"
        }
        // rustls distinguishes these two only in their debug text.
        Bad::Other(other) if format!("{other:?}").contains("UnsupportedCertVersion") => {
            "the server's certificate has version 1, but version 3 with a subjectAltName is required"
        }
        Bad::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the server's certificate is that of a CA. The server needs a separate certificate, issued by the CA"
        }
        _ => "",
    }
}

/// Parses the name that the certificate must have.
fn name(text: &str) -> Result<ServerName<'static>> {
    ServerName::try_from(text.to_owned()).map_err(|_| {
        let option = spelled("tls_server_name");
        Error::invalid(format!("{option} is not a name that a certificate can have"))
    })
}

/// Trusts only these certificates. A program that names its CA trusts no other.
fn trust_in(ca: &Pem) -> Result<RootCertStore> {
    let mut trust = RootCertStore::empty();
    for certificate in certificates("tls_ca", ca)? {
        let added = trust.add(certificate);
        added.map_err(|error| ca.unreadable("tls_ca", &error.to_string()))?;
    }
    Ok(trust)
}

/// Loads the certificates that the system trusts. Unreadable ones are ignored as long as some remain.
fn system_trust() -> Result<RootCertStore> {
    let mut trust = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    trust.add_parsable_certificates(found.certs);
    if let (true, Some(error)) = (trust.is_empty(), found.errors.first()) {
        let text = format!("cannot read the system's trusted certificates: {error}");
        return Err(Error::invalid(text));
    }
    if trust.is_empty() {
        let option = spelled("tls_ca");
        return Err(Error::invalid(format!(
            "the system has no trusted certificates. Set {option}"
        )));
    }
    Ok(trust)
}

/// The UTF-8 byte-order mark. It must be removed, or the first PEM block is skipped silently.
const MARK: &[u8] = b"\xef\xbb\xbf";
/// The byte-order marks of UTF-16.
const WIDE: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];
/// The markers of an encrypted key, in its first or second line.
const ENCRYPTED: [&[u8]; 2] = [b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED"];

/// Returns all certificates of a file in order. A file without any is an error, because it would trust no server.
fn certificates(option: &str, pem: &Pem) -> Result<Vec<CertificateDer<'static>>> {
    let none = || pem.unreadable(option, "it contains no PEM certificate");
    let read = text(option, pem)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read).collect();
    found.ok().filter(|found| !found.is_empty()).ok_or_else(none)
}

/// Returns the first private key.
fn private_key(option: &str, pem: &Pem) -> Result<PrivateKeyDer<'static>> {
    let read = text(option, pem)?;
    PrivateKeyDer::from_pem_slice(&read).map_err(|_| {
        let has = |words: &&[u8]| read.windows(words.len()).any(|part| part == *words);
        let why = if ENCRYPTED.iter().any(has) {
            "the private key in it is encrypted, and passphrases are not supported. Decrypt it (openssl pkey) and \
             restrict access to the file"
        } else {
            "it contains no PEM private key"
        };
        pem.unreadable(option, why)
    })
}

/// Returns the content without a byte-order mark.
fn text<'a>(option: &str, pem: &'a Pem) -> Result<Cow<'a, [u8]>> {
    let read = match &pem.0 {
        Held::File(path) => fs::read(path)
            .map(Cow::from)
            .map_err(|error| pem.unreadable(option, &error.to_string()))?,
        Held::Bytes(bytes) => Cow::from(bytes),
    };
    if WIDE.iter().any(|mark| read.starts_with(mark)) {
        return Err(pem.unreadable(option, "it is in UTF-16. Save it as UTF-8"));
    }
    Ok(if read.starts_with(MARK) { Cow::from(read[MARK.len()..].to_vec()) } else { read })
}

/// Accepts every certificate, if `tls_verify` is off.
///
/// The signatures of the handshake are still verified, so the peer owns the key of its certificate. The identity in the
/// certificate is not checked.
#[derive(Debug)]
struct Unverified {
    /// The algorithms for signatures, which are still verified.
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
