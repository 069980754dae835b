//! The TLS options of a client, and of a URL's parameters: what they are, and how the two go together.
//!
//! Files are read elsewhere; what is in one, or in what should have been a path, is never shown.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::spelling::spelled;
use crate::text::shown;

/// PEM files and a name for TLS connections; everything is optional.
///
/// ```
/// use redlock::{Redlock, TlsOptions};
/// let tls = TlsOptions { ca: Some("no-such-ca.pem".into()), ..TlsOptions::default() };
/// let client = Redlock::builder(["rediss://10.0.0.7"]).tls(tls).build();
/// assert_eq!(client.unwrap_err().kind(), redlock::ErrorKind::Invalid); // files are read here
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// The certificates to trust instead of the system's.
    pub ca: Option<PathBuf>,
    /// The client's certificate chain, where the server asks for one; needs `key`.
    pub cert: Option<PathBuf>,
    /// The private key of `cert`.
    pub key: Option<PathBuf>,
    /// The name the server's certificate must carry (and SNI asks for) instead of the URL's host.
    pub server_name: Option<String>,
    /// Whether the server must prove who it is; default it must. With `Some(false)` whoever answers is believed, and
    /// hears the password: only for a network that nobody else is in.
    pub verify: Option<bool>,
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |path: &Option<PathBuf>| path.as_deref().map(shown_path);
        f.debug_struct("TlsOptions")
            .field("ca", &named(&self.ca))
            .field("cert", &named(&self.cert))
            .field("key", &named(&self.key))
            .field("server_name", &self.server_name)
            .field("verify", &self.verify)
            .finish()
    }
}

impl TlsOptions {
    /// Where no node is reached by TLS: whoever gave options thought otherwise.
    ///
    /// Ignored, they would have it believe that the connection is secured.
    pub(crate) fn check_unused(&self) -> Result<()> {
        let given = [
            ("tls_ca", self.ca.is_some()),
            ("tls_cert", self.cert.is_some()),
            ("tls_key", self.key.is_some()),
            ("tls_server_name", self.server_name.is_some()),
            ("tls_verify", self.verify.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((option, _)) => Err(Error::invalid(format!(
                "{} is given, but no node is reached by TLS: write rediss:// instead of redis://",
                spelled(option)
            ))),
        }
    }

    /// Whether the server must prove who it is.
    pub(crate) fn verifies(&self) -> bool {
        self.verify != Some(false)
    }

    /// What can be said of them before a file is read.
    pub(super) fn check(&self) -> Result<()> {
        if self.cert.is_some() != self.key.is_some() {
            return Err(Self::apart());
        }
        if self.ca.is_some() && !self.verifies() {
            return Err(Error::invalid(format!(
                "{} is given and {} is off: a CA that nobody is asked for secures nothing. Leave one out",
                spelled("tls_ca"),
                spelled("tls_verify")
            )));
        }
        Ok(())
    }

    /// A certificate without its key, or the reverse.
    pub(super) fn apart() -> Error {
        let (cert, key) = (spelled("tls_cert"), spelled("tls_key"));
        Error::invalid(format!("{cert} and {key} belong together: give both or none"))
    }

    /// The client's, and what a URL's parameters add to them; `url`: the node, for messages.
    pub(super) fn merged(&self, added: &Self, url: &str) -> Result<Self> {
        let by = |parameter, option| (parameter, option, url);
        Ok(Self {
            ca: one(self.ca.as_ref(), added.ca.as_ref(), by("ssl_ca_certs", "tls_ca"))?,
            cert: one(self.cert.as_ref(), added.cert.as_ref(), by("ssl_certfile", "tls_cert"))?,
            key: one(self.key.as_ref(), added.key.as_ref(), by("ssl_keyfile", "tls_key"))?,
            server_name: self.server_name.clone(),
            verify: one(
                self.verify.as_ref(),
                added.verify.as_ref(),
                by("ssl_cert_reqs", "tls_verify"),
            )?,
        })
    }
}

/// What an option and a URL's parameter say together: neither is ignored.
pub(super) fn one<T: Clone + PartialEq>(
    option: Option<&T>,
    parameter: Option<&T>,
    (by, name, url): (&str, &str, &str),
) -> Result<Option<T>> {
    match (option, parameter) {
        (Some(ours), Some(theirs)) if ours != theirs => Err(Error::invalid(format!(
            "{} and the parameter {by} of node {url} say different things: give one of them",
            spelled(name)
        ))),
        (None, theirs) => Ok(theirs.cloned()),
        (ours, _) => Ok(ours.cloned()),
    }
}

/// Whatever does not look like the path of a file may be a secret that was put into the wrong place.
pub(super) fn shown_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    let ending = path.extension().is_some_and(|ending| ending.len() <= 4);
    let named = ending && text.len() <= 200 && !text.contains(char::is_control);
    if named || path.exists() { shown(&text) } else { "no file".to_owned() }
}
