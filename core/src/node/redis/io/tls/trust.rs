//! Builds the TLS configuration from the options.
//!
//! It consists of the trusted certificates, the client certificate, and the name that the server must prove. Files are
//! read once, when the client is created, so that a wrong file is an error there and not at the first lock. The content
//! of a file, or of a value that should have been a path, is never shown. It may be a key.

use std::borrow::Cow;
use std::fmt::Display;
use std::fs;
use std::sync::Arc;

use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, InconsistentKeys, RootCertStore};

use super::errors::has_old_version;
use super::options::{DefaultTrust, Held, Pem, TlsOptions};
use super::verifiers::{Trusted, Unverified};
use crate::error::{Error, Result};
use crate::text::spelled;

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
        Some(ca) => {
            let trusted = trust_in(ca, provider)?;
            config.dangerous().with_custom_certificate_verifier(Arc::new(trusted))
        }
        None => config.with_root_certificates(default_trust(options.default_trust.as_ref())?),
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
        Bad::InvalidCertificate(error) if has_old_version(error) => cert.unreadable(
            "tls_cert",
            "it has version 1, but version 3 is required. Make another one, for example with -extfile or -copy_extensions \
             copy of `openssl x509 -req`",
        ),
        other => cert.unreadable("tls_cert", &other.to_string()),
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
fn trust_in(ca: &Pem, provider: Arc<CryptoProvider>) -> Result<Trusted> {
    let (mut trust, given) = (RootCertStore::empty(), certificates("tls_ca", ca)?);
    let unusable = |error: &dyn Display| ca.unreadable("tls_ca", &error.to_string());
    for certificate in &given {
        trust.add(certificate.clone()).map_err(|error| unusable(&error))?;
    }
    let issued =
        WebPkiServerVerifier::builder_with_provider(Arc::new(trust), Arc::clone(&provider));
    let issued = issued.build().map_err(|error| unusable(&error))?;
    Ok(Trusted { issued, given, provider })
}

/// Returns what is trusted without `tls_ca`: the certificates that the caller's language trusts, or those of the
/// system.
fn default_trust(default: Option<&DefaultTrust>) -> Result<RootCertStore> {
    let mut trust = RootCertStore::empty();
    if let Some(DefaultTrust { roots, .. }) = default {
        let roots = CertificateDer::pem_slice_iter(roots);
        trust.add_parsable_certificates(roots.filter_map(std::result::Result::ok));
    }
    if trust.is_empty() || default.is_some_and(|default| default.with_system) {
        let found = rustls_native_certs::load_native_certs();
        trust.add_parsable_certificates(found.certs);
        if let (true, Some(error)) = (trust.is_empty(), found.errors.first()) {
            return Err(no_trust(&format!(
                "cannot read the system's trusted certificates: {error}"
            )));
        }
    }
    if trust.is_empty() {
        return Err(no_trust("the system has no trusted certificates"));
    }
    Ok(trust)
}

/// The error of a system without trusted certificates, as in many container images.
fn no_trust(why: &str) -> Error {
    let option = spelled("tls_ca");
    Error::invalid(format!(
        "{why}. Set {option} to the CA of the server, install the system's package (ca-certificates), or set \
         SSL_CERT_FILE to a PEM file"
    ))
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
