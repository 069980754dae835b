//! Keeps the options that all nodes of a client share: TLS, client name and credentials.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use super::tls::Tls;
use super::tls::TlsOptions;
use crate::error::Result;
use crate::node::credentials::{Ask, Provider};

/// The options of the client, before a node adds those of its URL.
pub(crate) struct Shared {
    /// The TLS options of `rediss://` nodes.
    pub(crate) options: TlsOptions,
    /// The name of the connections.
    pub(crate) client_name: Option<String>,
    /// Supplies the login for URLs without one.
    pub(crate) provider: Option<Provider>,
    /// The time limit of one attempt to connect.
    pub(super) connect_timeout: Duration,
    /// The loaded TLS configurations. Most nodes share the same one.
    read: RefCell<Vec<(TlsOptions, Tls)>>,
}

impl Shared {
    /// Creates the shared options without reading a file.
    pub(crate) fn new(
        options: TlsOptions,
        client_name: Option<String>,
        source: Option<Arc<dyn Ask>>,
        connect_timeout: Duration,
    ) -> Self {
        let provider = source.map(Provider::new);
        Self { options, client_name, provider, connect_timeout, read: RefCell::default() }
    }

    /// Returns the TLS configuration of the client combined with the options of a URL. `url` names the node in errors.
    pub(super) fn tls(&self, added: &TlsOptions, url: &str) -> Result<Tls> {
        let options = self.options.merged(added, url)?;
        let mut read = self.read.borrow_mut();
        if let Some((_, tls)) = read.iter().find(|(known, _)| *known == options) {
            return Ok(tls.clone());
        }
        let tls = Tls::load(&options)?;
        read.push((options, tls.clone()));
        Ok(tls)
    }

    /// Whether the certificate of some node is not verified.
    pub(crate) fn unverified(&self) -> bool {
        self.read.borrow().iter().any(|(options, _)| !options.verifies())
    }
}
