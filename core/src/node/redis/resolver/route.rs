//! Parses the URL of a node that has one server at a time: a fixed one, or the primary that sentinels report.
//!
//! Plain data, which a forked child may use too. Each host of a `redis+sentinel://` URL follows the rules of a
//! `redis://` URL, so that names, ports and passwords mean the same in both.

use std::sync::Arc;
use std::time::Duration;

use url::{Url, form_urlencoded};

use super::super::endpoint::{Endpoint, Place};
use super::super::query::Parameters;
use super::super::shared::Shared;
use super::super::url_rules::{invalid_url, without_zone};
use crate::error::Result;
use crate::node::Fault;

/// The default port of sentinels.
const PORT: u16 = 26_379;
/// The error for a URL without a service name in its path.
const NO_SERVICE: &str = "it has no service name. Write redis+sentinel://host,host/service";

/// How a node finds its server, according to its URL.
#[derive(Clone)]
pub(crate) struct Route {
    /// The server and the login to use there. Its address is a placeholder if sentinels report it.
    pub(super) server: Endpoint,
    /// The service whose primary is the server. `None` if the URL names the server.
    pub(super) service: Option<Service>,
}

/// A service, and the sentinels that know its primary.
#[derive(Clone)]
pub(super) struct Service {
    /// The name of the service at the sentinels.
    pub(super) name: String,
    /// In the order of the URL. There is at least one.
    pub(super) sentinels: Vec<Endpoint>,
}

impl Route {
    /// Creates the route to a fixed server.
    pub(crate) fn to(server: Endpoint) -> Self {
        Self { server, service: None }
    }

    /// Parses the URL of a single server. An error names the violated rule.
    pub(crate) fn to_server(text: &str) -> Result<Self> {
        Endpoint::parse(text).map(Self::to)
    }

    /// Parses a URL that names sentinels. An error names the violated rule.
    pub(crate) fn by_sentinels(text: &str) -> Result<Self> {
        parse(text).map_err(|rule| invalid_url(text, &rule))
    }

    /// Whether the connections need TLS options.
    pub(crate) fn is_tls(&self) -> bool {
        self.server.is_tls()
    }

    /// Applies the options that all nodes of a client share.
    pub(crate) fn with(mut self, shared: &Shared) -> Result<Self> {
        for sentinel in self.service.iter_mut().flat_map(|service| &mut service.sentinels) {
            *sentinel = sentinel.clone().with(shared)?;
        }
        Ok(Self { server: self.server.with(shared)?.asking(shared)?, ..self })
    }

    /// Returns the parameters of the URL, except those for sentinels.
    pub(crate) fn parameters(&self) -> &Parameters {
        &self.server.parameters
    }

    /// Returns the time limit of one attempt to connect, including the search for the server.
    pub(in super::super) fn connect_timeout(&self) -> Duration {
        self.server.connect_timeout
    }

    /// Returns the URL without users and passwords.
    pub(crate) fn redacted(&self) -> String {
        let Some(service) = &self.service else { return self.server.redacted() };
        let db = if self.server.db == 0 { String::new() } else { format!("/{}", self.server.db) };
        self.url(service, &service.hosts(), &db)
    }

    /// Returns what identifies the node in a node list: the server, or the service and its sentinels in any order.
    pub(crate) fn identity(&self) -> String {
        let Some(service) = &self.service else { return self.server.identity() };
        let mut hosts = service.hosts();
        hosts.iter_mut().for_each(|host| host.make_ascii_lowercase());
        hosts.sort();
        self.url(service, &hosts, &format!("/{}", self.server.db))
    }

    /// Formats the URL for messages, without users, passwords and parameters.
    fn url(&self, service: &Service, hosts: &[String], db: &str) -> String {
        let scheme = if self.is_tls() { "rediss" } else { "redis" };
        format!("{scheme}+sentinel://{}/{}{db}", hosts.join(","), service.name)
    }

    /// Removes all passwords of this route from the error text of a server or sentinel.
    pub(in super::super) fn redact(&self, text: &str) -> String {
        // All sentinels have the same password. It is removed before the text is shortened, which could leave a part of
        // it.
        match &self.service {
            Some(service) => self.server.redact(&service.sentinels[0].without_password(text)),
            None => self.server.redact(text),
        }
    }

    /// Redacts the server's text in an error.
    pub(in super::super) fn redact_fault(&self, fault: Fault) -> Fault {
        fault.redacted(|text| self.redact(text))
    }
}

impl Service {
    /// Whether this number of sentinels is a majority. A minority may be on the wrong side of a partition.
    pub(super) fn is_majority(&self, count: usize) -> bool {
        count > self.sentinels.len() / 2
    }

    /// Returns the sentinels in the form of a URL.
    fn hosts(&self) -> Vec<String> {
        self.sentinels.iter().map(Endpoint::authority).collect()
    }
}

/// Parses a URL by rules that URL parsers lack: several hosts, and a service in the path.
fn parse(text: &str) -> std::result::Result<Route, String> {
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let scheme = if scheme.starts_with("rediss") { "rediss" } else { "redis" };
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
    let (login, query) = sentinel_login(query)?;
    let sentinels = hosts.iter().map(|host| sentinel(scheme, host, &login));
    let sentinels: Vec<_> = sentinels.collect::<std::result::Result<_, _>>()?;
    // Applies the rules for logins, databases and parameters. The address is replaced by the reported one.
    let server = Endpoint::read(&format!("{scheme}://{user}{}{db}{query}", hosts[0]))?;
    // TLS, address family and client name are the same for sentinels and servers.
    let alike = |sentinel| Endpoint { parameters: Arc::clone(&server.parameters), ..sentinel };
    let sentinels = sentinels.into_iter().map(alike).collect();
    Ok(Route { service: Some(Service { name: name.to_owned(), sentinels }), server })
}

/// The user and password for the sentinels.
type Login = (Option<String>, Option<String>);

/// Splits the query into the login for the sentinels and the rest.
fn sentinel_login(query: &str) -> std::result::Result<(Login, String), &'static str> {
    let is_login = |pair: &&str| {
        pair.starts_with("sentinel_username=") || pair.starts_with("sentinel_password=")
    };
    let pairs = query.trim_start_matches('?').split('&').filter(|pair| !pair.is_empty());
    let (login, rest): (Vec<_>, Vec<_>) = pairs.partition(is_login);
    let (mut user, mut password) = (None, None);
    for (name, value) in form_urlencoded::parse(login.join("&").as_bytes()) {
        if value.is_empty() {
            return Err("sentinel_username or sentinel_password is empty");
        }
        let field = if name == "sentinel_username" { &mut user } else { &mut password };
        *field = Some(value.into_owned());
    }
    if user.is_some() && password.is_none() {
        return Err("it has a sentinel_username without a sentinel_password");
    }
    let rest = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    Ok(((user, password), rest))
}

/// Parses one sentinel by the rules of `redis://`.
fn sentinel(
    scheme: &str,
    host: &str,
    (user, password): &Login,
) -> std::result::Result<Endpoint, String> {
    let url = format!("{scheme}://{host}");
    let endpoint = Endpoint::read(&url)?;
    let (plain, _) = without_zone(&url)?;
    let port = Url::parse(&plain).ok().and_then(|url| url.port()).unwrap_or(PORT);
    let (Place::Tcp(host, _) | Place::Tls(host, _)) = &endpoint.place else {
        return Err("a sentinel must be a host and a port".into());
    };
    let endpoint = endpoint.at(host.clone(), port);
    Ok(Endpoint { username: user.clone(), password: password.clone(), ..endpoint })
}
