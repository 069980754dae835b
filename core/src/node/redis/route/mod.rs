//! Finds the server of a node: a fixed one that the URL names, or the primary that sentinels name.
//!
//! [`Route`] holds the parsed URL as plain data, which a forked child may use too. [`Finder`] holds what one node has
//! learned from sentinels. Every attempt to connect asks it again.

mod known;
mod sentinel;
mod sentinels;
mod service;
mod word;

use std::future::pending;
use std::result::Result as Either;
use std::time::Duration;

use tokio::sync::watch;

use super::endpoint::Endpoint;
use super::query::{Given, Parameters};
use super::shared::Shared;
use super::url_rules::invalid_url;
use crate::error::Result;
use crate::node::Fault;
use sentinels::Sentinels;
use service::Service;
use word::Word;

/// How a node finds its server, according to its URL.
#[derive(Clone)]
pub(crate) enum Route {
    /// Always the same server.
    Fixed(Endpoint),
    /// The primary that the sentinels name.
    Sentinel(Box<Service>),
}

impl Route {
    /// Parses the URL of a single server. An error names the violated rule.
    pub(crate) fn to_server(text: &str) -> Result<Self> {
        Endpoint::parse(text).map(Self::Fixed)
    }

    /// Parses a URL that names sentinels. An error names the violated rule.
    pub(crate) fn by_sentinels(text: &str) -> Result<Self> {
        let service = Service::parse(text).map_err(|rule| invalid_url(text, &rule))?;
        Ok(Self::Sentinel(Box::new(service)))
    }

    /// Whether the connections need TLS options.
    pub(crate) fn is_tls(&self) -> bool {
        match self {
            Self::Fixed(endpoint) => endpoint.is_tls(),
            Self::Sentinel(service) => service.is_tls(),
        }
    }

    /// Applies the options that all nodes of a client share.
    pub(crate) fn with(self, shared: &Shared) -> Result<Self> {
        match self {
            Self::Fixed(endpoint) => endpoint.with(shared)?.asking(shared).map(Self::Fixed),
            Self::Sentinel(service) => service.with(shared).map(Box::new).map(Self::Sentinel),
        }
    }

    /// Returns the deadline of one vote, if the URL sets it.
    pub(crate) fn node_timeout(&self) -> Option<&Given<Duration>> {
        self.parameters().node_timeout.as_ref()
    }

    /// Returns the parameters of the URL.
    pub(crate) fn parameters(&self) -> &Parameters {
        match self {
            Self::Fixed(endpoint) => &endpoint.parameters,
            Self::Sentinel(service) => service.parameters(),
        }
    }

    /// Returns the time limit of one attempt to connect.
    pub(super) fn connect_timeout(&self) -> Duration {
        match self {
            Self::Fixed(endpoint) => endpoint.connect_timeout,
            Self::Sentinel(service) => service.connect_timeout(),
        }
    }

    /// Returns the URL without users and passwords.
    pub(crate) fn redacted(&self) -> String {
        match self {
            Self::Fixed(endpoint) => endpoint.redacted(),
            Self::Sentinel(service) => service.redacted(),
        }
    }

    /// Returns what identifies the node in a node list.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::Fixed(endpoint) => endpoint.identity(),
            Self::Sentinel(service) => service.identity(),
        }
    }

    /// Removes all passwords of this route from a server's error text.
    pub(super) fn redact(&self, words: &str) -> String {
        match self {
            Self::Fixed(endpoint) => endpoint.redact(words),
            Self::Sentinel(service) => service.redact(words),
        }
    }

    /// Redacts the server's text in an error.
    pub(super) fn redact_fault(&self, fault: Fault) -> Fault {
        fault.redacted(|words| self.redact(words))
    }
}

/// What one node knows about the location of its server.
pub(super) enum Finder {
    /// A fixed server.
    Fixed(Endpoint),
    /// The reports of the sentinels.
    Sentinel(Sentinels),
}

/// The server to connect to.
#[derive(Clone)]
pub(super) struct Found {
    /// The address and login of the server.
    pub(super) endpoint: Endpoint,
    /// The report of the sentinels, or `None` if the URL names the server.
    primary: Option<Word>,
}

impl Found {
    /// Returns how long it has been the primary, at least. `None` without sentinels.
    pub(super) fn primary_for(&self) -> Option<Duration> {
        self.primary.as_ref().map(|word| word.since)
    }
}

impl Finder {
    /// Creates a finder that has asked no sentinel yet. Above the age `old`, the age of a primary does not matter.
    pub(super) fn new(route: &Route, old: Duration) -> Self {
        match route {
            Route::Fixed(endpoint) => Self::Fixed(endpoint.clone()),
            Route::Sentinel(service) => Self::Sentinel(Sentinels::of(Service::clone(service), old)),
        }
    }

    /// Returns the current server.
    pub(super) async fn find(&self) -> Either<Found, Fault> {
        match self {
            Self::Fixed(endpoint) => Ok(Found { endpoint: endpoint.clone(), primary: None }),
            Self::Sentinel(sentinels) => {
                let word = sentinels.find().await?;
                Ok(Found { endpoint: sentinels.server(&word), primary: Some(word) })
            }
        }
    }

    /// Returns a receiver for later changes of the server.
    pub(super) fn news(&self) -> News {
        News(match self {
            Self::Fixed(_) => None,
            Self::Sentinel(sentinels) => Some(sentinels.news()),
        })
    }
}

/// Waits until the sentinels name another server.
pub(super) struct News(Option<watch::Receiver<Option<Word>>>);

impl News {
    /// Waits for the next change. Dropping the future loses none.
    pub(super) async fn any(&mut self) {
        let told = match &mut self.0 {
            Some(told) => told.changed().await.is_ok(),
            None => false,
        };
        // Without sentinels, or after the node is dropped, the server never changes.
        if !told {
            pending::<()>().await;
        }
    }

    /// Waits until the server has changed. Returns an error that names the new one.
    pub(super) async fn left(&mut self, found: &Found) -> Fault {
        while !self.has_left(found) {
            self.any().await;
        }
        let place = self.0.as_ref().and_then(|told| told.borrow().as_ref().map(Word::place));
        let place = place.unwrap_or_default();
        Fault::new(format!("the sentinels report another primary, {place}"))
    }

    /// Whether the sentinels name another server by now.
    pub(super) fn has_left(&self, found: &Found) -> bool {
        let (Some(told), Some(primary)) = (&self.0, &found.primary) else { return false };
        told.borrow().as_ref().is_some_and(|word| !word.is_at(primary))
    }
}
