//! Where a cluster is first looked for: the rules of `redis+cluster://` and `rediss+cluster://` URLs.
//!
//! `redis+cluster://[user:pass@]host[:port],host[:port]`: each host reads as it would in a URL of its own, with the same
//! user and password. It reads text and opens nothing.

use std::time::Duration;

use super::super::endpoint::{Endpoint, Place};
use super::super::query::Given;
use super::super::shared::Shared;
use super::super::strays::Address;
use super::super::url_rules::invalid_url;
use crate::error::Result;

/// Servers of one cluster: any one that answers tells of all the others. As whom to go there is the same for all.
#[derive(Clone)]
pub(crate) struct Seeds(Vec<Endpoint>);

impl Seeds {
    /// What the URL says, or the rule it broke.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let alone = if scheme.starts_with("rediss") { "rediss" } else { "redis" };
        let (place, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        // The last one: what is before it is a user and a password, whatever they are made of.
        let (login, hosts) = place.split_at(place.rfind('@').map_or(0, |at| at + 1));
        if login.trim_end_matches('@').contains('@') && login.contains(',') {
            return Err(invalid_url(
                text,
                "its user and password stand once, before the first host",
            ));
        }
        let endpoints = hosts.split(',').map(|host| {
            if host.is_empty() {
                return Err(invalid_url(text, "it names no host"));
            }
            // Its own rules, each told in the words of the scheme that was given.
            Endpoint::read(&format!("{alone}://{login}{host}{path}"))
                .map_err(|rule| invalid_url(text, &rule))
        });
        let seeds = endpoints.collect::<Result<Vec<_>>>()?;
        if seeds.iter().any(|seed| seed.db != 0) {
            return Err(invalid_url(text, "a Redis Cluster has the database 0 alone"));
        }
        Ok(Self(seeds))
    }

    /// Whether TLS options are needed to get there.
    pub(crate) fn is_tls(&self) -> bool {
        self.0.iter().any(Endpoint::is_tls)
    }

    /// The same places, reached with the options that all nodes of a client share.
    pub(crate) fn with(self, shared: &Shared) -> Result<Self> {
        self.0
            .into_iter()
            .map(|seed| seed.with(shared)?.asking(shared))
            .collect::<Result<_>>()
            .map(Self)
    }

    /// The deadline of one vote, where the URL has one.
    pub(crate) fn node_timeout(&self) -> Option<&Given<Duration>> {
        self.0.first()?.parameters.node_timeout.as_ref()
    }

    /// How long an attempt to connect may take, where the URL says so.
    pub(crate) fn connect_timeout(&self) -> Option<&Given<Duration>> {
        self.0.first()?.parameters.connect_timeout.as_ref()
    }

    /// The URL without user and password.
    pub(crate) fn redacted(&self) -> String {
        self.joined(&self.0.iter().map(Endpoint::redacted).collect::<Vec<_>>())
    }

    /// What makes two entries of a node list one node: the same hosts, in whatever order.
    ///
    /// That two lists of hosts are one cluster is found out at connect, by the servers' own word (`run_ids`).
    pub(crate) fn identity(&self) -> String {
        let mut all: Vec<String> =
            self.0.iter().map(|seed| seed.redacted().to_lowercase()).collect();
        all.sort();
        all.dedup();
        self.joined(&all)
    }

    /// One URL of all hosts, as messages show it: without users and passwords.
    fn joined(&self, urls: &[String]) -> String {
        let hosts = urls.iter().filter_map(|url| Some(url.split_once("://")?.1));
        let scheme = if self.is_tls() { "rediss" } else { "redis" };
        format!("{scheme}+cluster://{}", hosts.collect::<Vec<_>>().join(","))
    }

    /// The one that was named first.
    pub(super) fn first(&self) -> Endpoint {
        // There is one at least: an empty list of hosts is refused.
        self.0[0].clone()
    }

    /// Where the seeds are.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Address> {
        self.0.iter().filter_map(|seed| match &seed.place {
            Place::Tcp(host, port) | Place::Tls(host, port) => Some(Address::new(host, *port)),
            Place::Unix(_) => None,
        })
    }

    /// Another server of the cluster: reached in the same way, and as the same user.
    pub(super) fn at(&self, address: &Address) -> Endpoint {
        let (host, port) = (address.host.to_string(), address.port);
        let place = if self.is_tls() { Place::Tls(host, port) } else { Place::Tcp(host, port) };
        Endpoint { place, ..self.first() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeds(url: &str) -> Seeds {
        Seeds::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn each_host_reads_as_in_a_url_of_its_own() {
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
    fn what_is_wrong_is_told_in_the_words_that_were_given() {
        for (url, rule) in [
            ("redis+cluster://", "it names no host"),
            ("redis+cluster://a,,b", "it names no host"),
            ("redis+cluster://a/1", "the database 0 alone"),
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
