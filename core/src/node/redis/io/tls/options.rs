//! Defines the TLS options of clients and URLs, and how the two are combined.
//!
//! Other modules read the files. The content of a file, or of a value that should have been a path, is never shown.

use std::fmt;
use std::path::{Path, PathBuf};
#[cfg(feature = "tls")]
use std::sync::Arc;

#[cfg(feature = "tls")]
use tokio_rustls::rustls::ClientConfig;

use crate::error::{Error, Result};
use crate::text::{shown, spelled};

/// The options of TLS connections: trusted certificates, a client certificate, and a server name. All are optional.
///
/// Certificates and keys are PEM, as the path of a file or as bytes: [`Pem`].
///
/// ```
/// use redlock::{Redlock, TlsOptions};
/// let tls = TlsOptions::new().ca("no-such-ca.pem").server_name("redis.test");
/// let client = Redlock::builder(["rediss://10.0.0.7"]).tls(tls).build();
/// assert_eq!(client.unwrap_err().kind(), redlock::ErrorKind::Invalid); // files are read here
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "Builder::tls gives them to a client"]
pub struct TlsOptions {
    pub(crate) ca: Option<Pem>,
    pub(crate) cert: Option<Pem>,
    pub(crate) key: Option<Pem>,
    pub(crate) server_name: Option<String>,
    pub(crate) verify: Option<bool>,
    pub(crate) default_trust: Option<DefaultTrust>,
    pub(super) config: Option<OwnConfig>,
}

impl TlsOptions {
    /// Creates options that trust the system's certificates and use no client certificate. The server must have a
    /// certificate for the URL's host.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the trusted certificates, instead of those of the system: of CAs, or of servers.
    ///
    /// A server that presents one of them itself is trusted while it is valid, whatever its name, version and purpose.
    pub fn ca(mut self, ca: impl Into<Pem>) -> Self {
        self.ca = Some(ca.into());
        self
    }

    /// Sets the certificate chain of the client, if the server requires one. Needs [`key`](Self::key).
    pub fn cert(mut self, cert: impl Into<Pem>) -> Self {
        self.cert = Some(cert.into());
        self
    }

    /// Sets the private key of [`cert`](Self::cert).
    pub fn key(mut self, key: impl Into<Pem>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the name that the server's certificate must have, instead of the URL's host. It is also sent as SNI.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Sets whether the server's certificate is verified. Default: true.
    ///
    /// With `false`, any server is trusted and receives the password. Use it only in a network without other users.
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = Some(verify);
        self
    }

    /// Uses a [`rustls`](crate::rustls) configuration of the program, with its provider, trust, certificate and
    /// versions. It can only be combined with [`server_name`](Self::server_name).
    ///
    /// ```
    /// use redlock::rustls::{ClientConfig, RootCertStore, crypto::ring};
    /// use redlock::{Redlock, TlsOptions};
    /// use std::sync::Arc;
    /// let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
    ///     .with_safe_default_protocol_versions()
    ///     .unwrap()
    ///     .with_root_certificates(RootCertStore::empty())
    ///     .with_no_client_auth();
    /// let tls = TlsOptions::new().config(config);
    /// assert!(Redlock::builder(["rediss://10.0.0.7"]).tls(tls).build().is_ok());
    /// ```
    #[cfg(feature = "tls")]
    pub fn config(mut self, config: impl Into<Arc<ClientConfig>>) -> Self {
        self.config = Some(OwnConfig(config.into()));
        self
    }
}

/// What a language trusts without `tls_ca`, instead of the system's certificates. It is not an option of the user.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultTrust {
    /// Certificates in PEM. Without any, those of the system are trusted.
    pub roots: Vec<u8>,
    /// Whether those of the system are trusted too.
    pub with_system: bool,
}

/// A configuration of the program. Its address is all that can be compared, and its content is not shown.
#[cfg(feature = "tls")]
#[derive(Clone)]
pub(super) struct OwnConfig(pub(super) Arc<ClientConfig>);

#[cfg(feature = "tls")]
impl PartialEq for OwnConfig {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(feature = "tls")]
impl Eq for OwnConfig {}

#[cfg(feature = "tls")]
impl fmt::Debug for OwnConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// There is none in a build without TLS.
#[cfg(not(feature = "tls"))]
type OwnConfig = std::convert::Infallible;

impl TlsOptions {
    /// Returns the names of the options that are set, in order.
    fn given(&self) -> impl Iterator<Item = &'static str> {
        [
            ("tls_ca", self.ca.is_some()),
            ("tls_cert", self.cert.is_some()),
            ("tls_key", self.key.is_some()),
            ("tls_server_name", self.server_name.is_some()),
            ("tls_verify", self.verify.is_some()),
            ("tls_config", self.config.is_some()),
        ]
        .into_iter()
        .filter_map(|(option, given)| given.then_some(option))
    }

    /// Returns an error if options are set although no node uses TLS.
    ///
    /// Ignoring them would suggest that the connection is secure.
    pub(crate) fn check_unused(&self) -> Result<()> {
        match self.given().next() {
            None => Ok(()),
            Some(option) => Err(Error::invalid(format!(
                "{} is set, but no node uses TLS. Write rediss:// instead of redis://",
                spelled(option)
            ))),
        }
    }

    /// Whether any option sets the trust or the client certificate.
    pub(crate) fn says_whom_to_trust(&self) -> bool {
        self.given().any(|option| option != "tls_server_name")
    }

    /// Whether the server's certificate is verified.
    pub(crate) fn verifies(&self) -> bool {
        self.verify != Some(false)
    }

    /// Checks the options as far as possible without reading a file.
    pub(super) fn check(&self) -> Result<()> {
        let conflicts = |option: &&str| !matches!(*option, "tls_config" | "tls_server_name");
        if let (Some(_), Some(option)) = (&self.config, self.given().find(conflicts)) {
            return Err(Error::invalid(format!(
                "{} is set together with {}, but already includes it. Remove one of them",
                spelled("tls_config"),
                spelled(option)
            )));
        }
        if self.cert.is_some() != self.key.is_some() {
            return Err(Self::apart());
        }
        if self.ca.is_some() && !self.verifies() {
            return Err(Error::invalid(format!(
                "{} is set, but {} is off, so the CA is never used. Remove one of them",
                spelled("tls_ca"),
                spelled("tls_verify")
            )));
        }
        Ok(())
    }

    /// The error for a certificate without its key, or the reverse.
    pub(super) fn apart() -> Error {
        let (cert, key) = (spelled("tls_cert"), spelled("tls_key"));
        Error::invalid(format!("{cert} and {key} must be set together"))
    }

    /// Combines the client's options with those of a URL. `url` names the node in errors.
    pub(crate) fn merged(&self, added: &Self, url: &str) -> Result<Self> {
        let path = |ours: &Option<Pem>, theirs: &Option<Pem>, by, name| {
            one(ours.as_ref(), theirs.as_ref(), by, name, url)
        };
        Ok(Self {
            ca: path(&self.ca, &added.ca, "ssl_ca_certs", "tls_ca")?,
            cert: path(&self.cert, &added.cert, "ssl_certfile", "tls_cert")?,
            key: path(&self.key, &added.key, "ssl_keyfile", "tls_key")?,
            verify: one(
                self.verify.as_ref(),
                added.verify.as_ref(),
                "ssl_cert_reqs",
                "tls_verify",
                url,
            )?,
            ..self.clone()
        })
    }
}

/// Combines an option with the URL parameter of the same meaning. Different values are an error, so that neither is
/// ignored.
pub(crate) fn one<T: Clone + PartialEq>(
    option: Option<&T>,
    parameter: Option<&T>,
    by: &str,
    name: &str,
    url: &str,
) -> Result<Option<T>> {
    match (option, parameter) {
        (Some(ours), Some(theirs)) if ours != theirs => Err(Error::invalid(format!(
            "{} and the parameter {by} of node {url} differ. Use only one of them",
            spelled(name)
        ))),
        (None, theirs) => Ok(theirs.cloned()),
        (ours, _) => Ok(ours.cloned()),
    }
}

/// The path of a PEM file, or its content as bytes. Text and paths are paths, and bytes are PEM.
///
/// ```
/// use redlock::{Pem, TlsOptions};
/// let file: Pem = "certs/ca.pem".into();
/// let bytes: Pem = std::env::var("REDIS_CA").unwrap_or_default().into_bytes().into();
/// let tls = TlsOptions::new().ca(file);
/// # let _ = (bytes, tls);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Pem(pub(super) Held);

/// The two kinds of PEM input.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Held {
    /// The path of a file, which is read when the client is created.
    File(PathBuf),
    /// The content of a PEM file.
    Bytes(Vec<u8>),
}

impl Pem {
    /// Returns the path, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Held::File(path) => Some(path),
            Held::Bytes(_) => None,
        }
    }

    /// Returns the bytes, if it is not a path. They may contain a key, so do not show them.
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.0 {
            Held::File(_) => None,
            Held::Bytes(bytes) => Some(bytes),
        }
    }

    /// The error for an unusable value of this option. The most common mistake is a pasted key instead of its path.
    pub(super) fn unreadable(&self, option: &str, why: &str) -> Error {
        let option = spelled(option);
        Error::invalid(match &self.0 {
            Held::Bytes(_) => {
                format!("cannot use the bytes of {option}: {why}. Pass a path as text")
            }
            Held::File(path) if path.to_string_lossy().contains("-----BEGIN") => {
                format!(
                    "{option} is the text of a PEM file. Pass the path of the file, or the text as bytes"
                )
            }
            Held::File(path) => format!("cannot use {option} ({}): {why}", shown_path(path)),
        })
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Held::File(path) => f.write_str(&shown_path(path)),
            Held::Bytes(_) => f.write_str("bytes"),
        }
    }
}

/// Formats the path for errors. A text that does not look like a path may be a misplaced secret and is not shown.
fn shown_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    let ending = path.extension().is_some_and(|ending| ending.len() <= 4);
    let named = ending && text.len() <= 200 && !text.contains(char::is_control);
    if named || path.exists() { shown(&text) } else { "no file".to_owned() }
}

macro_rules! from {
    ($($held:ident($type:ty)),*) => {
        $(impl From<$type> for Pem {
            fn from(value: $type) -> Self {
                Self(Held::$held(value.into()))
            }
        })*
    };
}

from!(File(PathBuf), File(&PathBuf), File(&Path), File(String), File(&String), File(&str));
from!(Bytes(Vec<u8>), Bytes(&[u8]));

// The type of `include_bytes!`.
impl<const N: usize> From<&[u8; N]> for Pem {
    fn from(bytes: &[u8; N]) -> Self {
        Self(Held::Bytes(bytes.to_vec()))
    }
}
