//! Implements TLS for `rediss://`: the options of clients and URLs, and the configuration built from them.

#[cfg(feature = "tls")]
mod certificate;
#[cfg(feature = "tls")]
mod errors;
mod options;
#[cfg(feature = "tls")]
mod trust;
#[cfg(feature = "tls")]
mod verifiers;

#[cfg(feature = "tls")]
pub(crate) use errors::{PLAIN, fault};
pub(crate) use options::one;
pub use options::{DefaultTrust, Pem, TlsOptions};
#[cfg(feature = "tls")]
pub(crate) use trust::Tls;

/// The loaded TLS options, which cannot exist in a build without the feature `tls`.
#[cfg(not(feature = "tls"))]
#[derive(Clone)]
pub(crate) struct Tls(std::convert::Infallible);

#[cfg(not(feature = "tls"))]
impl Tls {
    /// Returns an error that names the missing feature.
    pub(crate) fn load(_: &TlsOptions) -> crate::error::Result<Self> {
        Err(crate::error::Error::invalid(
            "a node uses TLS, which this build of redlock-native does not include. Enable its feature `tls`",
        ))
    }
}
