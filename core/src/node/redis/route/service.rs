//! Parses `redis+sentinel://` URLs: the sentinels, the service, and the login for its server.
//!
//! Each host follows the rules of a `redis://` URL, so that names, ports and passwords mean the same in both.

use std::sync::Arc;
use std::time::Duration;

use url::{Url, form_urlencoded};

use super::super::endpoint::{Endpoint, Place};
use super::super::query::Parameters;
use super::super::shared::Shared;
use super::super::url_rules::without_zone;
use super::word::Word;

/// The default port of sentinels.
const PORT: u16 = 26_379;

/// A service, and the sentinels that know its primary.
#[derive(Clone)]
pub(crate) struct Service {
    /// The name of the service at the sentinels.
    pub(super) name: String,
    /// In the order of the URL. There is at least one.
    pub(super) sentinels: Vec<Endpoint>,
    /// The login and database of the server. Its address comes from the sentinels.
    server: Endpoint,
}

/// The parts of a URL that a parser for a single host cannot read.
struct Parts<'a> {
    tls: bool,
    /// Includes the trailing `@`.
    user: &'a str,
    /// Each with its port, if the URL has one.
    hosts: Vec<&'a str>,
    name: &'a str,
    /// Includes the leading `/`.
    db: &'a str,
    query: &'a str,
}

impl Service {
    /// Parses the URL. An error names the violated rule.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let parts = Parts::of(text)?;
        let (own, query) = own_parameters(parts.query)?;
        let scheme = if parts.tls { "rediss" } else { "redis" };
        let hosts = parts.hosts.iter();
        let sentinels = hosts.map(|host| sentinel(scheme, host, &own));
        let sentinels: Vec<_> = sentinels.collect::<Result<_, _>>()?;
        // Applies the rules for logins, databases and parameters. The address is a placeholder, because it comes from
        // the sentinels.
        let server = format!("{scheme}://{}{}{}{query}", parts.user, parts.hosts[0], parts.db);
        let server = Endpoint::read(&server)?;
        // TLS, address family and client name are the same for sentinels and servers.
        let alike = |sentinel| Endpoint { parameters: Arc::clone(&server.parameters), ..sentinel };
        let sentinels = sentinels.into_iter().map(alike).collect();
        Ok(Self { name: parts.name.to_owned(), sentinels, server })
    }

    /// Returns the server that a sentinel reported.
    pub(super) fn server(&self, word: &Word) -> Endpoint {
        let (host, port) = (word.host.clone(), word.port);
        let place = if self.is_tls() { Place::Tls(host, port) } else { Place::Tcp(host, port) };
        Endpoint { place, ..self.server.clone() }
    }

    /// Whether sentinels and servers are connected by TLS.
    pub(super) fn is_tls(&self) -> bool {
        self.server.is_tls()
    }

    /// Applies the options that all nodes of a client share.
    pub(super) fn with(self, shared: &Shared) -> crate::error::Result<Self> {
        let sentinels = self.sentinels.into_iter().map(|sentinel| sentinel.with(shared));
        let sentinels = sentinels.collect::<crate::error::Result<_>>()?;
        Ok(Self { sentinels, server: self.server.with(shared)?.asking(shared)?, ..self })
    }

    /// Returns the parameters of the URL, except those for the sentinels.
    pub(super) fn parameters(&self) -> &Parameters {
        &self.server.parameters
    }

    /// Returns the time limit of one attempt to connect, including the search for the server.
    pub(super) fn connect_timeout(&self) -> Duration {
        self.server.connect_timeout
    }

    /// Returns the URL without users and passwords.
    pub(super) fn redacted(&self) -> String {
        let db = if self.server.db == 0 { String::new() } else { format!("/{}", self.server.db) };
        let hosts: Vec<_> = self.sentinels.iter().map(Endpoint::authority).collect();
        self.url(&hosts, &db)
    }

    /// Returns what identifies the node in a node list: the service and its sentinels in any order.
    pub(super) fn identity(&self) -> String {
        let mut hosts: Vec<_> = self.sentinels.iter().map(Endpoint::authority).collect();
        hosts.iter_mut().for_each(|host| host.make_ascii_lowercase());
        hosts.sort();
        self.url(&hosts, &format!("/{}", self.server.db))
    }

    /// Formats the URL for messages, without users, passwords and parameters.
    fn url(&self, hosts: &[String], db: &str) -> String {
        let scheme = if self.is_tls() { "rediss" } else { "redis" };
        format!("{scheme}+sentinel://{}/{}{db}", hosts.join(","), self.name)
    }

    /// Redacts the error text of a server or sentinel.
    pub(super) fn redact(&self, words: &str) -> String {
        // All sentinels have the same password. It is removed before the text is shortened, which could leave a part of
        // it.
        self.server.redact(&self.sentinels[0].without_password(words))
    }
}

impl<'a> Parts<'a> {
    /// Splits the URL by rules that URL parsers lack: several hosts, and a service in the path.
    fn of(text: &'a str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        if rest.contains('#') {
            return Err("it must not have a part after a #");
        }
        let (rest, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (authority, path) = rest.split_once('/').ok_or(NO_SERVICE)?;
        let (user, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        // Otherwise the hosts before the `@` would be taken for a password.
        if user.contains(',') {
            return Err(
                "a user or a password contains a comma (write %2C), or appears after the first host",
            );
        }
        let hosts: Vec<_> = hosts.split(',').collect();
        if hosts.contains(&"") {
            return Err("it has no sentinel, or one comma too many");
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        let (name, db) = path.split_at(path.find('/').unwrap_or(path.len()));
        if name.is_empty() {
            return Err(NO_SERVICE);
        }
        // Sentinel's rule for names.
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')) {
            return Err(
                "the service name after the hosts must have only letters, digits, '.', '-' and '_'",
            );
        }
        Ok(Self { tls: scheme.starts_with("rediss"), user, hosts, name, db, query })
    }
}

/// The error for a URL without a service name in its path.
const NO_SERVICE: &str = "it has no service name. Write redis+sentinel://host,host/service";

/// The user and password for the sentinels.
type Own = (Option<String>, Option<String>);

/// Splits the query into the login for the sentinels and the rest.
fn own_parameters(query: &str) -> Result<(Own, String), &'static str> {
    let query = query.trim_start_matches('?');
    let own = |pair: &&str| {
        pair.starts_with("sentinel_username=") || pair.starts_with("sentinel_password=")
    };
    let (mine, rest): (Vec<_>, Vec<_>) =
        query.split('&').filter(|pair| !pair.is_empty()).partition(own);
    let (mut user, mut password) = (None, None);
    for (name, value) in form_urlencoded::parse(mine.join("&").as_bytes()) {
        let place = if name == "sentinel_username" { &mut user } else { &mut password };
        *place = Some(value.into_owned()).filter(|value| !value.is_empty());
        if place.is_none() {
            return Err("sentinel_username or sentinel_password is empty");
        }
    }
    if user.is_some() && password.is_none() {
        return Err("it has a sentinel_username without a sentinel_password");
    }
    let rest = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    Ok(((user, password), rest))
}

/// Parses one sentinel by the rules of `redis://`.
fn sentinel(scheme: &str, host: &str, (user, password): &Own) -> Result<Endpoint, String> {
    let url = format!("{scheme}://{host}");
    let endpoint = Endpoint::read(&url)?;
    let (plain, _) = without_zone(&url)?;
    let port = Url::parse(&plain).ok().and_then(|url| url.port()).unwrap_or(PORT);
    let place = match endpoint.place {
        Place::Tcp(host, _) => Place::Tcp(host, port),
        Place::Tls(host, _) => Place::Tls(host, port),
        Place::Unix(_) => return Err("a sentinel must be a host and a port".into()),
    };
    Ok(Endpoint { place, username: user.clone(), password: password.clone(), ..endpoint })
}
