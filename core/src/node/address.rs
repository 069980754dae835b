//! Node URLs: which kind of node each names, and how they are written without their password.
//!
//! It reads text and touches no network. What is wrong is told by the rule that was broken: the text itself is
//! not quoted, as a password may stand in any part of a URL that somebody got wrong.

use std::time::Duration;

use super::memory::Memory;
use super::redis::{Given, Route, Seeds, Shared, cleaned, invalid_url, misread};
use crate::error::Result;

/// Where a node is, and as whom to go there.
#[derive(Clone)]
pub(crate) enum Address {
    /// `memory://` and a name, or none.
    Memory(Memory),
    /// A server, and how to find it.
    Redis(Route),
    /// A Redis Cluster.
    Cluster(Seeds),
}

impl Address {
    /// What the URL says, or the rule it broke.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let text = &*cleaned(text);
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(invalid_url(text, "it has no scheme: write redis:// before host and port"));
        };
        if let Some(rule) = misread(scheme, rest) {
            return Err(invalid_url(text, rule));
        }
        match scheme {
            // What has a meaning in every other URL has none here: somebody takes it for one.
            "memory" if rest.contains(['@', '?', '#']) => {
                Err(invalid_url(text, "a name in memory has no @, ? or #"))
            }
            // `memory://` and `memory:///` are the same: a node of this client's own.
            "memory" => Ok(Self::Memory(Memory::called(rest.trim_end_matches('/')))),
            // Valkey's own schemes are Redis' by another name.
            "redis" | "rediss" | "valkey" | "valkeys" | "unix" => {
                Route::to_server(text).map(Self::Redis)
            }
            "redis+sentinel" | "rediss+sentinel" => Route::by_sentinels(text).map(Self::Redis),
            // Named, so that nobody looks for the mistake in the rest of the URL.
            "redis+cluster" | "rediss+cluster" => Seeds::parse(text).map(Self::Cluster),
            _ => Err(invalid_url(text, "its scheme is unknown")),
        }
    }

    /// Whether TLS options are needed to get there.
    ///
    /// Their files are read only where one needs them.
    pub(crate) fn is_tls(&self) -> bool {
        match self {
            Self::Memory(_) => false,
            Self::Redis(route) => route.is_tls(),
            Self::Cluster(seeds) => seeds.is_tls(),
        }
    }

    /// The same place, reached with the options that all nodes of a client share.
    pub(crate) fn with(self, shared: &Shared) -> Result<Self> {
        match self {
            Self::Redis(route) => route.with(shared).map(Self::Redis),
            Self::Cluster(seeds) => seeds.with(shared).map(Self::Cluster),
            // No wire, nothing to secure, and nobody to whom to give a name.
            memory @ Self::Memory(_) => Ok(memory),
        }
    }

    /// The deadline of one vote, where the URL has one.
    pub(crate) fn node_timeout(&self) -> Option<&Given<Duration>> {
        match self {
            Self::Redis(route) => route.node_timeout(),
            Self::Cluster(seeds) => seeds.node_timeout(),
            Self::Memory(_) => None,
        }
    }

    /// How long an attempt to connect may take, where the URL says so.
    pub(crate) fn connect_timeout(&self) -> Option<&Given<Duration>> {
        match self {
            Self::Redis(route) => route.parameters().connect_timeout.as_ref(),
            Self::Cluster(seeds) => seeds.connect_timeout(),
            Self::Memory(_) => None,
        }
    }

    /// The URL without its password: what errors, logs and `repr` show, and what tells two nodes apart.
    pub(crate) fn redacted(&self) -> String {
        match self {
            Self::Memory(memory) => memory.url(),
            Self::Redis(route) => route.redacted(),
            Self::Cluster(seeds) => seeds.redacted(),
        }
    }

    /// What makes two entries of a node list one node: the place and the database, whoever logs in.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::Memory(memory) => memory.url(),
            Self::Redis(route) => route.identity(),
            Self::Cluster(seeds) => seeds.identity(),
        }
    }
}
