//! In place of what is made of the options, where the feature `tls` is off: a `rediss://` node is an error when the client is made.

use std::convert::Infallible;

use super::options::TlsOptions;
use crate::error::{Error, Result};

/// Options that were read and checked: there are none.
#[derive(Clone)]
pub(crate) struct Tls(Infallible);

impl Tls {
    /// What a program can do about it.
    pub(crate) fn load(_: &TlsOptions) -> Result<Self> {
        Err(Error::invalid(
            "a node is to be reached by TLS, which this build of redlock-native has not: turn its feature `tls` on",
        ))
    }
}
