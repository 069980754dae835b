//! Parses `redis+cluster://` and `rediss+cluster://` URLs, which name the first servers of a cluster to ask.
//!
//! The format is `redis+cluster://[user:pass@]host[:port],host[:port]`. Each host follows the rules of a `redis://`
//! URL, and all of them have the same login. This module opens no connection.

use super::super::endpoint::{Endpoint, Place};
use super::super::query::Parameters;
use super::super::redirects::Address;
use super::super::resolver::Route;
use super::super::shared::Shared;
use super::super::url_rules::invalid_url;
use crate::error::Result;

/// Servers of one cluster with the same login. Any of them knows all the others.
#[derive(Clone)]
pub(crate) struct Seeds(Vec<Endpoint>);

impl Seeds {
    /// Parses the URL. An error names the violated rule.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let alone = if scheme.starts_with("rediss") { "rediss" } else { "redis" };
        let (place, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        // The last `@`, because the user and password before it may contain any characters.
        let (login, hosts) = place.split_at(place.rfind('@').map_or(0, |at| at + 1));
        if login.trim_end_matches('@').contains('@') && login.contains(',') {
            return Err(invalid_url(
                text,
                "its user and password must appear once, before the first host",
            ));
        }
        let endpoints = hosts.split(',').map(|host| {
            if host.is_empty() {
                return Err(invalid_url(text, "it has no host"));
            }
            // The rules of a single host, with errors that show the given scheme.
            Endpoint::read(&format!("{alone}://{login}{host}{path}"))
                .map_err(|rule| invalid_url(text, &rule))
        });
        let seeds = endpoints.collect::<Result<Vec<_>>>()?;
        if seeds.iter().any(|seed| seed.db != 0) {
            return Err(invalid_url(text, "a Redis Cluster has only database 0"));
        }
        Ok(Self(seeds))
    }

    /// Whether the servers need TLS options.
    pub(crate) fn is_tls(&self) -> bool {
        self.0.iter().any(Endpoint::is_tls)
    }

    /// Applies the options that all nodes of a client share.
    pub(crate) fn with(self, shared: &Shared) -> Result<Self> {
        self.0
            .into_iter()
            .map(|seed| seed.with(shared)?.asking(shared))
            .collect::<Result<_>>()
            .map(Self)
    }

    /// Returns the parameters of the URL.
    pub(crate) fn parameters(&self) -> &Parameters {
        &self.0[0].parameters
    }

    /// Returns the URL without user and password.
    pub(crate) fn redacted(&self) -> String {
        self.joined(&self.0.iter().map(Endpoint::redacted).collect::<Vec<_>>())
    }

    /// Returns what identifies the node in a node list: its hosts in any order.
    ///
    /// If two lists name different hosts of one cluster, `run_ids` detects it at connect.
    pub(crate) fn identity(&self) -> String {
        let mut all: Vec<String> =
            self.0.iter().map(|seed| seed.redacted().to_lowercase()).collect();
        all.sort();
        all.dedup();
        self.joined(&all)
    }

    /// Returns one URL with all hosts for messages, without users and passwords.
    fn joined(&self, urls: &[String]) -> String {
        let hosts = urls.iter().filter_map(|url| Some(url.split_once("://")?.1));
        let scheme = if self.is_tls() { "rediss" } else { "redis" };
        format!("{scheme}+cluster://{}", hosts.collect::<Vec<_>>().join(","))
    }

    /// Returns the route to the first server of the URL.
    pub(crate) fn route(&self) -> Route {
        // There is at least one, because an empty list of hosts is refused.
        Route::to(self.0[0].clone())
    }

    /// Returns the addresses of the seeds.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Address> {
        self.0.iter().filter_map(|seed| match &seed.place {
            Place::Tcp(host, port) | Place::Tls(host, port) => Some(Address::new(host, *port)),
            Place::Unix(_) => None,
        })
    }

    /// Returns another server of the cluster, with the same login and options.
    pub(super) fn at(&self, address: &Address) -> Endpoint {
        self.0[0].at(address.host.to_string(), address.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeds(url: &str) -> Seeds {
        Seeds::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn each_seed_is_parsed_like_a_url() {
        let two = seeds("redis+cluster://me:p%2C@Host,[::1]:7001");
        assert_eq!(two.redacted(), "redis+cluster://Host:6379,[::1]:7001");
        let places: Vec<_> = two.addresses().collect();
        assert_eq!(places, [Address::new("host", 6379), Address::new("::1", 7001)]);
        let third = two.at(&Address::new("third", 7));
        assert_eq!(third.redacted(), "redis://third:7");
        assert_eq!(third.password.as_deref(), Some("p,"));
        let tls = seeds("rediss+cluster://:s3cret,@h1");
        assert!(tls.is_tls() && tls.redacted() == "rediss+cluster://h1:6379");
        assert_eq!(
            seeds("redis+cluster://b,A/0").identity(),
            seeds("redis+cluster://a,B").identity()
        );
    }

    #[test]
    fn invalid_seed_errors_state_the_rule() {
        for (url, rule) in [
            ("redis+cluster://", "it has no host"),
            ("redis+cluster://a,,b", "it has no host"),
            ("redis+cluster://a/1", "only database 0"),
            ("redis+cluster://a,b:x", "invalid port"),
            ("redis+cluster://s3cret@a", "user without a password"),
        ] {
            let error = Seeds::parse(url).err().unwrap().to_string();
            assert!(
                error.contains(rule) && error.contains("(redis+cluster://...)"),
                "{url}: {error}"
            );
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
