//! What all nodes of a client share on their way to a server: TLS options, a name, and credentials.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use super::tls::Tls;
use super::tls::TlsOptions;
use crate::error::Result;
use crate::node::credentials::{Ask, Provider};

/// The client's options, before each node adds what its URL says.
pub(crate) struct Shared {
    /// Whom `rediss://` nodes must be, and who we are to them.
    pub(crate) options: TlsOptions,
    /// How connections are called.
    pub(crate) client_name: Option<String>,
    /// Who says as whom to log in, where no URL does.
    pub(crate) provider: Option<Provider>,
    /// How long an attempt to connect may take.
    pub(super) connect_timeout: Duration,
    /// What was read already: most nodes need the same files.
    read: RefCell<Vec<(TlsOptions, Tls)>>,
}

impl Shared {
    /// No file is read yet.
    pub(crate) fn new(
        options: TlsOptions,
        client_name: Option<String>,
        source: Option<Arc<dyn Ask>>,
        connect_timeout: Duration,
    ) -> Self {
        let provider = source.map(Provider::new);
        Self { options, client_name, provider, connect_timeout, read: RefCell::default() }
    }

    /// The client's TLS with what a URL adds to it; `url`: the node, for messages.
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

    /// Whether some node is not asked who it is.
    pub(crate) fn unverified(&self) -> bool {
        self.read.borrow().iter().any(|(options, _)| !options.verifies())
    }
}
