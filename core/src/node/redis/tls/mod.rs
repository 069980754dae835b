//! Implements TLS for `rediss://`: the options of clients and URLs, and the configuration built from them.

#[cfg(not(feature = "tls"))]
mod disabled;
mod options;
mod pem;
#[cfg(feature = "tls")]
mod pem_reader;
#[cfg(feature = "tls")]
mod trust;
#[cfg(feature = "tls")]
mod unverified;

#[cfg(not(feature = "tls"))]
pub(crate) use disabled::Tls;
pub use options::TlsOptions;
pub(super) use options::one;
pub use pem::Pem;
#[cfg(feature = "tls")]
pub(crate) use trust::Tls;
#[cfg(feature = "tls")]
pub(super) use trust::explained;
