//! How a node finds its server: its URL names one for good, or sentinels who know where it is.
//!
//! [`Route`] is what is written in the URL, plain data that a forked child may use too; [`Finder`] is what one
//! node has learnt on the way. Each attempt to connect asks it anew.

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

/// How a node finds its server, as its URL says.
#[derive(Clone)]
pub(crate) enum Route {
    /// One server, always the same.
    Fixed(Endpoint),
    /// The primary that sentinels name.
    Sentinel(Box<Service>),
}

impl Route {
    /// What the URL of a single server says, or the rule it broke.
    pub(crate) fn to_server(text: &str) -> Result<Self> {
        Endpoint::parse(text).map(Self::Fixed)
    }

    /// What a URL that names sentinels says, or the rule it broke.
    pub(crate) fn by_sentinels(text: &str) -> Result<Self> {
        let service = Service::parse(text).map_err(|rule| invalid_url(text, &rule))?;
        Ok(Self::Sentinel(Box::new(service)))
    }

    /// Whether TLS options are needed to get there.
    pub(crate) fn is_tls(&self) -> bool {
        match self {
            Self::Fixed(endpoint) => endpoint.is_tls(),
            Self::Sentinel(service) => service.is_tls(),
        }
    }

    /// The same way, with the options that all nodes of a client share.
    pub(crate) fn with(self, shared: &Shared) -> Result<Self> {
        match self {
            Self::Fixed(endpoint) => endpoint.with(shared)?.asking(shared).map(Self::Fixed),
            Self::Sentinel(service) => service.with(shared).map(Box::new).map(Self::Sentinel),
        }
    }

    /// The deadline of one vote, where the URL has one.
    pub(crate) fn node_timeout(&self) -> Option<&Given<Duration>> {
        self.parameters().node_timeout.as_ref()
    }

    /// What stands after the ? of the URL.
    pub(crate) fn parameters(&self) -> &Parameters {
        match self {
            Self::Fixed(endpoint) => &endpoint.parameters,
            Self::Sentinel(service) => service.parameters(),
        }
    }

    /// How long an attempt to connect may take.
    pub(super) fn connect_timeout(&self) -> Duration {
        match self {
            Self::Fixed(endpoint) => endpoint.connect_timeout,
            Self::Sentinel(service) => service.connect_timeout(),
        }
    }

    /// The URL without users and passwords.
    pub(crate) fn redacted(&self) -> String {
        match self {
            Self::Fixed(endpoint) => endpoint.redacted(),
            Self::Sentinel(service) => service.redacted(),
        }
    }

    /// What makes two entries of a node list one node.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::Fixed(endpoint) => endpoint.identity(),
            Self::Sentinel(service) => service.identity(),
        }
    }

    /// A server's own words as everybody may see them: without any password of this way.
    pub(super) fn redact(&self, words: &str) -> String {
        match self {
            Self::Fixed(endpoint) => endpoint.redact(words),
            Self::Sentinel(service) => service.redact(words),
        }
    }

    /// The fault with the server's own words redacted.
    pub(super) fn redact_fault(&self, fault: Fault) -> Fault {
        fault.redacted(|words| self.redact(words))
    }
}

/// What one node has learnt of its way.
pub(super) enum Finder {
    /// There is nothing to learn.
    Fixed(Endpoint),
    /// What the sentinels have said so far.
    Sentinel(Sentinels),
}

/// Where to connect now.
#[derive(Clone)]
pub(super) struct Found {
    /// The server.
    pub(super) endpoint: Endpoint,
    /// What the sentinels said of it; `None`: the URL itself names it, whatever it is.
    primary: Option<Word>,
}

impl Found {
    /// For how long it has been the primary, at least; `None`: nobody says that it is one.
    pub(super) fn primary_for(&self) -> Option<Duration> {
        self.primary.as_ref().map(|word| word.since)
    }
}

impl Finder {
    /// Nothing was learnt yet, and nobody is asked. `old`: from which age on a primary's age does not matter.
    pub(super) fn new(route: &Route, old: Duration) -> Self {
        match route {
            Route::Fixed(endpoint) => Self::Fixed(endpoint.clone()),
            Route::Sentinel(service) => Self::Sentinel(Sentinels::of(Service::clone(service), old)),
        }
    }

    /// Where the server is at this moment.
    pub(super) async fn find(&self) -> Either<Found, Fault> {
        match self {
            Self::Fixed(endpoint) => Ok(Found { endpoint: endpoint.clone(), primary: None }),
            Self::Sentinel(sentinels) => {
                let word = sentinels.find().await?;
                Ok(Found { endpoint: sentinels.server(&word), primary: Some(word) })
            }
        }
    }

    /// Word that the server is another one now, from here on.
    pub(super) fn news(&self) -> News {
        News(match self {
            Self::Fixed(_) => None,
            Self::Sentinel(sentinels) => Some(sentinels.news()),
        })
    }
}

/// Waits for word that the server is another one.
pub(super) struct News(Option<watch::Receiver<Option<Word>>>);

impl News {
    /// Ends at each news. Dropped, it loses none.
    pub(super) async fn any(&mut self) {
        let told = match &mut self.0 {
            Some(told) => told.changed().await.is_ok(),
            None => false,
        };
        // Without sentinels, or without the node, there is none.
        if !told {
            pending::<()>().await;
        }
    }

    /// Ends once the server is another one than this; the fault says which.
    pub(super) async fn left(&mut self, found: &Found) -> Fault {
        while !self.has_left(found) {
            self.any().await;
        }
        let place = self.0.as_ref().and_then(|told| told.borrow().as_ref().map(Word::place));
        let place = place.unwrap_or_default();
        Fault::new(format!("the sentinels name another primary, {place}"))
    }

    /// Whether the server is another one than this by now.
    pub(super) fn has_left(&self, found: &Found) -> bool {
        let (Some(told), Some(primary)) = (&self.0, &found.primary) else { return false };
        told.borrow().as_ref().is_some_and(|word| !word.is_at(primary))
    }
}
