//! Parses the URL of a node: a server, a service whose primary sentinels report, or a cluster.
//!
//! It knows all passwords of a node, and removes them from the error texts of servers ([`Route::redact`]).
//!
//! Plain data, which a forked child may use too. Each host of a `redis+sentinel://` or `redis+cluster://` URL follows
//! the rules of a `redis://` URL, so that names, ports and passwords mean the same in all.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use url::form_urlencoded;

use super::SharedSettings;
use super::checks::check_escapes;
use super::query::yes;
use crate::error::Result;
use crate::node::Fault;
use crate::node::address_map::AddressMap;
use crate::node::redis::io::endpoint::Parameters;
use crate::node::redis::io::endpoint::ServerAddress;
use crate::node::redis::io::endpoint::{Endpoint, PeerAddr};
use crate::text::shown;

const PORT: &str = "26379";
const NO_SERVICE: &str = "it has no service name. Write redis+sentinel://host,host/service";

/// How a node finds its server, according to its URL.
#[derive(Clone)]
pub(crate) struct Route {
    /// The server and the login to use there. Its address is a placeholder if sentinels or a cluster report it.
    pub(crate) server: Endpoint,
    /// The service whose primary is the server, if sentinels report it.
    pub(crate) service: Option<Service>,
    /// Servers of one cluster with the same login. Any of them knows all the others. Empty without a cluster.
    seeds: Vec<Endpoint>,
    /// Who announces the address of the server. `None` if the URL names it.
    pub(crate) announced_by: Option<Arc<str>>,
    /// Where this client reaches servers that announce another address.
    address_map: Option<AddressMap>,
}

/// A service, and the sentinels that know its primary.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) name: String,
    /// In the order of the URL. There is at least one.
    pub(crate) sentinels: Vec<Endpoint>,
}

impl Route {
    pub(crate) fn to(server: Endpoint) -> Self {
        let (service, seeds) = (None, Vec::new());
        Self { server, service, seeds, announced_by: None, address_map: None }
    }

    /// Returns the route to another server of the cluster, with the same login and options.
    pub(crate) fn at(&self, address: &ServerAddress) -> Self {
        let is_given = self.seeds().any(|seed| seed == *address);
        let announced_by = address.announced_by.clone().filter(|_| !is_given);
        let (server, address_map) =
            (self.server.at(address.host.to_string(), address.port), self.address_map.clone());
        Self { announced_by, address_map, ..Self::to(server) }
    }

    /// Returns where this client reaches a server. Only an announced address is mapped.
    pub(crate) async fn reached(&self, server: Endpoint) -> std::result::Result<Endpoint, Fault> {
        let map = self.address_map.as_ref().filter(|_| self.announced_by.is_some());
        let (Some(map), PeerAddr::Tcp(host, port) | PeerAddr::Tls(host, port)) =
            (map, &server.address)
        else {
            return Ok(server);
        };
        let (host, port) = map.reached((host.clone(), *port)).await?;
        Ok(server.at(host, port))
    }

    /// Whether sentinels or the servers of a cluster announce addresses.
    pub(crate) fn is_announced(&self) -> bool {
        self.service.is_some() || !self.seeds.is_empty()
    }

    pub(crate) fn seeds(&self) -> impl Iterator<Item = ServerAddress> {
        self.seeds.iter().filter_map(|seed| match &seed.address {
            PeerAddr::Tcp(host, port) | PeerAddr::Tls(host, port) => {
                Some(ServerAddress::new(host, *port))
            }
            PeerAddr::Unix(_) => None,
        })
    }

    /// Parses the URL of a single server. Returns the violated rule as an error.
    pub(crate) fn to_server(text: &str) -> std::result::Result<Self, String> {
        Endpoint::parse(text).map(Self::to)
    }

    /// Whether any of its connections uses TLS. Sentinels may differ from their servers.
    pub(crate) fn is_tls(&self) -> bool {
        let sentinels = self.service.iter().flat_map(|service| &service.sentinels);
        sentinels.chain([&self.server]).any(Endpoint::is_tls)
    }

    /// Applies the options that all nodes of a client share.
    pub(crate) fn with(mut self, shared: &SharedSettings) -> Result<Self> {
        for sentinel in self.service.iter_mut().flat_map(|service| &mut service.sentinels) {
            *sentinel = sentinel.clone().with(shared)?;
        }
        let address_map = shared.address_map.clone();
        Ok(Self { server: self.server.with(shared)?.asking(shared)?, address_map, ..self })
    }

    /// Returns the parameters of the URL, except those for sentinels.
    pub(crate) fn parameters(&self) -> &Parameters {
        &self.server.parameters
    }

    /// Returns the time limit of one attempt to connect, including the search for the server.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.server.connect_timeout
    }

    pub(crate) fn shown_url(&self) -> String {
        let db = if self.server.db == 0 { String::new() } else { format!("/{}", self.server.db) };
        self.url(&self.hosts(), &db).unwrap_or_else(|| self.server.shown_url())
    }

    /// Returns what identifies the node in a node list: its hosts in any order, the service and the database.
    ///
    /// If two lists name different hosts of one cluster, `run_ids` detects it at connect.
    pub(crate) fn identity(&self) -> String {
        let mut hosts = self.hosts();
        hosts.iter_mut().for_each(|host| host.make_ascii_lowercase());
        hosts.sort();
        hosts.dedup();
        let db = format!("/{}", self.server.db);
        self.url(&hosts, &db).unwrap_or_else(|| self.server.identity())
    }

    fn hosts(&self) -> Vec<String> {
        let hosts = self.service.as_ref().map_or(&self.seeds, |service| &service.sentinels);
        hosts.iter().map(Endpoint::authority).collect()
    }

    /// Formats a URL with several hosts for messages, without users, passwords and parameters.
    fn url(&self, hosts: &[String], db: &str) -> Option<String> {
        let scheme = if self.server.is_tls() { "rediss" } else { "redis" };
        let hosts = Some(hosts.join(",")).filter(|hosts| !hosts.is_empty())?;
        Some(match &self.service {
            Some(service) => format!("{scheme}+sentinel://{hosts}/{}{db}", service.name),
            None => format!("{scheme}+cluster://{hosts}"),
        })
    }

    /// Removes all passwords of this route from the error text of a server or sentinel.
    pub(crate) fn redact(&self, text: &str) -> String {
        // All sentinels have the same password. One password may contain the other one, so the longer one is removed
        // first. Both are removed before the text is shortened, which could leave a part of them.
        let sentinel = self.service.as_ref().map(|service| &service.sentinels[0]);
        let mut endpoints: Vec<&Endpoint> = sentinel.into_iter().chain([&self.server]).collect();
        endpoints
            .sort_by_key(|endpoint| Reverse(endpoint.password.as_ref().map_or(0, String::len)));
        let without = |text: String, endpoint: &&Endpoint| endpoint.without_password(&text);
        shown(&endpoints.iter().fold(text.to_owned(), without))
    }

    pub(crate) fn redact_fault(&self, fault: Fault) -> Fault {
        fault.redacted(|text| self.redact(text))
    }
}

impl Service {
    /// Whether this number of sentinels is a majority. A minority may be on the wrong side of a partition.
    pub(crate) fn is_majority(&self, count: usize) -> bool {
        count > self.sentinels.len() / 2
    }
}

/// Splits a URL with several hosts. Returns the scheme of each host alone, and what follows the scheme.
fn one_server_scheme(text: &str) -> (&'static str, &str) {
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let is_tls = scheme.starts_with("rediss") || scheme.starts_with("valkeys");
    (if is_tls { "rediss" } else { "redis" }, rest)
}

/// Parses a URL that names servers of a cluster, with one login. Returns the violated rule as an error.
pub(crate) fn parse_cluster(text: &str) -> std::result::Result<Route, String> {
    let (scheme, rest) = one_server_scheme(text);
    let (place, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    // The last `@`, because the user and password before it may contain any characters.
    let (login, hosts) = place.split_at(place.rfind('@').map_or(0, |at| at + 1));
    if login.trim_end_matches('@').contains('@') && login.contains(',') {
        return Err("its user and password must appear once, before the first host".into());
    }
    let seeds = hosts.split(',').map(|host| {
        if host.is_empty() {
            return Err("it has no host".to_owned());
        }
        Endpoint::parse(&format!("{scheme}://{login}{host}{path}"))
    });
    let seeds = seeds.collect::<std::result::Result<Vec<_>, _>>()?;
    if seeds.iter().any(|seed| seed.db != 0) {
        return Err("a Redis Cluster has only database 0".into());
    }
    Ok(Route { seeds: seeds.clone(), ..Route::to(seeds[0].clone()) })
}

/// Parses a URL that names sentinels, by rules that URL parsers lack: several hosts, and a service in the path. Returns
/// the violated rule as an error.
pub(crate) fn parse_service(text: &str) -> std::result::Result<Route, String> {
    let (scheme, rest) = one_server_scheme(text);
    if rest.contains('#') {
        return Err("it must not have a part after a #".into());
    }
    let (rest, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
    let (authority, path) = rest.split_once('/').ok_or(NO_SERVICE)?;
    let (user, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    // Otherwise the hosts before the `@` would be taken for a password.
    if user.contains(',') {
        let rule =
            "a user or a password contains a comma (write %2C), or appears after the first host";
        return Err(rule.into());
    }
    let hosts: Vec<_> = hosts.split(',').collect();
    if hosts.contains(&"") {
        return Err("it has no sentinel, or one comma too many".into());
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    let (name, db) = path.split_at(path.find('/').unwrap_or(path.len()));
    if name.is_empty() {
        return Err(NO_SERVICE.into());
    }
    // Sentinel's rule for names.
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')) {
        let rule =
            "the service name after the hosts must have only letters, digits, '.', '-' and '_'";
        return Err(rule.into());
    }
    let (own, query) = sentinel_parameters(query)?;
    let tls = scheme == "rediss";
    let sentinels = hosts.iter().map(|host| sentinel(host, &own, own.tls.unwrap_or(tls)));
    let sentinels: Vec<_> = sentinels.collect::<std::result::Result<_, _>>()?;
    // The parameters of TLS apply to both, so they are valid if one of the two uses it.
    let scheme = if own.tls == Some(true) { "rediss" } else { scheme };
    // Applies the rules for logins, databases and parameters. The address is replaced by the reported one.
    let server = Endpoint::parse(&format!("{scheme}://{user}{}{db}{query}", hosts[0]))?;
    let server = server.with_tls(tls);
    // TLS options, address family and client name are the same for sentinels and servers.
    let alike = |sentinel| Endpoint { parameters: Arc::clone(&server.parameters), ..sentinel };
    let sentinels = sentinels.into_iter().map(alike).collect();
    let service = Some(Service { name: name.to_owned(), sentinels });
    let announced_by = Some(format!("the sentinels of {name}").into());
    Ok(Route { service, announced_by, ..Route::to(server) })
}

/// The parameters of a URL that are only for its sentinels.
#[derive(Default)]
struct SentinelParameters {
    username: Option<String>,
    /// Never shown.
    password: Option<String>,
    /// Whether they use TLS, if not as the servers do.
    tls: Option<bool>,
}

/// Splits a query into the parameters for sentinels and the rest.
fn sentinel_parameters(query: &str) -> std::result::Result<(SentinelParameters, String), String> {
    const SENTINEL_PARAMETERS: [&str; 3] =
        ["sentinel_username", "sentinel_password", "sentinel_tls"];
    let is_own =
        |pair: &&str| SENTINEL_PARAMETERS.contains(&pair.split('=').next().unwrap_or_default());
    check_escapes(query)?;
    let pairs = query.trim_start_matches('?').split('&').filter(|pair| !pair.is_empty());
    let (given, rest): (Vec<_>, Vec<_>) = pairs.partition(is_own);
    let mut own = SentinelParameters::default();
    for (name, value) in form_urlencoded::parse(given.join("&").as_bytes()) {
        if value.is_empty() {
            return Err(format!("its parameter {name} is empty. Remove it"));
        }
        let is_repeated = match &*name {
            "sentinel_username" => own.username.replace(value.into_owned()).is_some(),
            "sentinel_password" => own.password.replace(value.into_owned()).is_some(),
            _ => {
                let tls = yes(&value).ok_or("its parameter sentinel_tls must be true or false")?;
                own.tls.replace(tls).is_some()
            }
        };
        if is_repeated {
            return Err(format!("its parameter {name} is repeated"));
        }
    }
    if own.username.is_some() && own.password.is_none() {
        return Err("it has a sentinel_username without a sentinel_password".to_owned());
    }
    let rest = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    Ok((own, rest))
}

fn sentinel(
    host: &str,
    own: &SentinelParameters,
    tls: bool,
) -> std::result::Result<Endpoint, String> {
    // The brackets of an IPv6 address contain colons too.
    let colon = if host.rfind(':') > host.rfind(']') { "" } else { ":" };
    let port = if colon == ":" || host.ends_with(':') { PORT } else { "" };
    let endpoint = Endpoint::parse(&format!("redis://{host}{colon}{port}"))?.with_tls(tls);
    let (username, password) = (own.username.clone(), own.password.clone());
    Ok(Endpoint { username, password, ..endpoint })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Address;

    fn seeds(url: &str) -> Route {
        parse_cluster(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn no_part_of_a_password_that_contains_another_one_is_shown() {
        for url in [
            "redis+sentinel://:redis-7f3a@host/main?sentinel_password=redis",
            "redis+sentinel://:redis@host/main?sentinel_password=redis-7f3a",
        ] {
            let route = parse_service(url).unwrap();
            assert_eq!(route.redact("got redis-7f3a and redis"), "got *** and ***");
        }
    }

    #[test]
    fn each_seed_is_parsed_like_a_url() {
        let two = seeds("redis+cluster://me:p%2C@Host,[::1]:7001");
        assert_eq!(two.shown_url(), "redis+cluster://Host:6379,[::1]:7001");
        let places: Vec<_> = two.seeds().collect();
        assert_eq!(places, [ServerAddress::new("host", 6379), ServerAddress::new("::1", 7001)]);
        let third = two.at(&ServerAddress::new("third", 7));
        assert_eq!(third.shown_url(), "redis://third:7");
        assert_eq!(third.server.password.as_deref(), Some("p,"));
        let tls = seeds("rediss+cluster://:s3cret,@h1");
        assert!(tls.is_tls() && tls.shown_url() == "rediss+cluster://h1:6379");
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
            let error = Address::parse(url).err().unwrap().to_string();
            assert!(
                error.contains(rule) && error.contains("(redis+cluster://...)"),
                "{url}: {error}"
            );
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
