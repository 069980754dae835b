//! How a node finds its server: a URL names one for good.
//!
//! [`Route`] is what is written in the URL, plain data that a forked child may use too; [`Finder`] is what one
//! node has learnt on the way. Each attempt to connect asks it anew.

use super::endpoint::Endpoint;
use super::tls::Tls;
use crate::error::Result;
use crate::node::Fault;

/// How a node finds its server, as its URL says.
#[derive(Clone)]
pub(crate) enum Route {
    /// One server, always the same.
    Fixed(Endpoint),
}

impl Route {
    /// What the URL of a single server says, or the rule it broke.
    pub(crate) fn to_server(text: &str) -> Result<Self> {
        Endpoint::parse(text).map(Self::Fixed)
    }

    /// Whether TLS options are needed to get there.
    pub(crate) fn is_tls(&self) -> bool {
        match self {
            Self::Fixed(endpoint) => endpoint.is_tls(),
        }
    }

    /// The same way, with these TLS options.
    pub(crate) fn with_tls(self, tls: &Tls) -> Self {
        match self {
            Self::Fixed(endpoint) => Self::Fixed(endpoint.with_tls(tls)),
        }
    }

    /// The URL without users and passwords.
    pub(crate) fn redacted(&self) -> String {
        match self {
            Self::Fixed(endpoint) => endpoint.redacted(),
        }
    }

    /// What makes two entries of a node list one node.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::Fixed(endpoint) => endpoint.identity(),
        }
    }

    /// A server's own words as everybody may see them: without any password of this way.
    pub(super) fn redact(&self, words: &str) -> String {
        match self {
            Self::Fixed(endpoint) => endpoint.redact(words),
        }
    }

    /// The fault with the server's own words redacted.
    pub(super) fn redact_fault(&self, fault: Fault) -> Fault {
        fault.redacted(|words| self.redact(words))
    }
}

/// What one node has learnt of its way.
pub(super) struct Finder {
    route: Route,
}

/// Where to connect now.
pub(super) struct Found {
    /// The server.
    pub(super) endpoint: Endpoint,
}

impl Finder {
    /// Nothing was learnt yet, and nobody is asked.
    pub(super) fn new(route: Route) -> Self {
        Self { route }
    }

    /// Where the server is at this moment.
    #[allow(clippy::unused_async, reason = "other ways than a fixed one have to ask")]
    pub(super) async fn find(&self) -> std::result::Result<Found, Fault> {
        match &self.route {
            Route::Fixed(endpoint) => Ok(Found { endpoint: endpoint.clone() }),
        }
    }
}
