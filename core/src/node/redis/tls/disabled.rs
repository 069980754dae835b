//! Replaces the TLS configuration if the feature `tls` is off.
//!
//! A `rediss://` node is then an error when the client is created.

use std::convert::Infallible;

use super::options::TlsOptions;
use crate::error::{Error, Result};

/// The loaded TLS options, which cannot exist in this build.
#[derive(Clone)]
pub(crate) struct Tls(Infallible);

impl Tls {
    /// Returns an error that names the missing feature.
    pub(crate) fn load(_: &TlsOptions) -> Result<Self> {
        Err(Error::invalid(
            "a node uses TLS, which this build of redlock-native does not include. Enable its feature `tls`",
        ))
    }
}
