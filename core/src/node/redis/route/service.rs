//! What Sentinel keeps alive, as a `redis+sentinel://` URL names it: which sentinels, which service, whom to be there.
//!
//! Each host is read by the rules of `redis://`, so that a name, a port, a password means the same in both.

use std::sync::Arc;
use std::time::Duration;

use url::{Url, form_urlencoded};

use super::super::endpoint::{Endpoint, Place};
use super::super::query::Parameters;
use super::super::shared::Shared;
use super::super::url_rules::without_zone;
use super::word::Word;

/// Sentinels' own port, where a URL names none.
const PORT: u16 = 26_379;

/// A service, and the sentinels that know where it is.
#[derive(Clone)]
pub(crate) struct Service {
    /// As the sentinels call it.
    pub(super) name: String,
    /// In the order of the URL; one at least.
    pub(super) sentinels: Vec<Endpoint>,
    /// The server's user, password and database, wherever it is.
    server: Endpoint,
}

/// The parts of a URL that no parser of single hosts reads.
struct Parts<'a> {
    tls: bool,
    /// With the @ behind it.
    user: &'a str,
    /// Each with its port, where one is given.
    hosts: Vec<&'a str>,
    name: &'a str,
    /// With the / before it.
    db: &'a str,
    query: &'a str,
}

impl Service {
    /// What the URL says, or the rule it broke.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let parts = Parts::of(text)?;
        let (own, query) = own_parameters(parts.query)?;
        let scheme = if parts.tls { "rediss" } else { "redis" };
        let hosts = parts.hosts.iter();
        let sentinels = hosts.map(|host| sentinel(scheme, host, &own));
        let sentinels: Vec<_> = sentinels.collect::<Result<_, _>>()?;
        // Its rules for users, passwords, databases and parameters; where it is, sentinels say.
        let server = format!("{scheme}://{}{}{}{query}", parts.user, parts.hosts[0], parts.db);
        let server = Endpoint::read(&server)?;
        // TLS, family and name are the same on the way to either.
        let alike = |sentinel| Endpoint { parameters: Arc::clone(&server.parameters), ..sentinel };
        let sentinels = sentinels.into_iter().map(alike).collect();
        Ok(Self { name: parts.name.to_owned(), sentinels, server })
    }

    /// The server that a sentinel has named.
    pub(super) fn server(&self, word: &Word) -> Endpoint {
        let (host, port) = (word.host.clone(), word.port);
        let place = if self.is_tls() { Place::Tls(host, port) } else { Place::Tcp(host, port) };
        Endpoint { place, ..self.server.clone() }
    }

    /// Whether sentinels and servers are reached by TLS.
    pub(super) fn is_tls(&self) -> bool {
        self.server.is_tls()
    }

    /// The same service, reached with the options that all nodes of a client share.
    pub(super) fn with(self, shared: &Shared) -> crate::error::Result<Self> {
        let sentinels = self.sentinels.into_iter().map(|sentinel| sentinel.with(shared));
        let sentinels = sentinels.collect::<crate::error::Result<_>>()?;
        Ok(Self { sentinels, server: self.server.with(shared)?.asking(shared)?, ..self })
    }

    /// What stands after the ? of the URL and is not for the sentinels alone.
    pub(super) fn parameters(&self) -> &Parameters {
        &self.server.parameters
    }

    /// How long an attempt to connect may take, to find the server included.
    pub(super) fn connect_timeout(&self) -> Duration {
        self.server.connect_timeout
    }

    /// The URL without users and passwords.
    pub(super) fn redacted(&self) -> String {
        let db = if self.server.db == 0 { String::new() } else { format!("/{}", self.server.db) };
        let hosts: Vec<_> = self.sentinels.iter().map(Endpoint::authority).collect();
        self.url(&hosts, &db)
    }

    /// Two nodes of one service are one, in whatever order their sentinels are listed.
    pub(super) fn identity(&self) -> String {
        let mut hosts: Vec<_> = self.sentinels.iter().map(Endpoint::authority).collect();
        hosts.iter_mut().for_each(|host| host.make_ascii_lowercase());
        hosts.sort();
        self.url(&hosts, &format!("/{}", self.server.db))
    }

    /// As messages show it: without users, passwords and parameters.
    fn url(&self, hosts: &[String], db: &str) -> String {
        let scheme = if self.is_tls() { "rediss" } else { "redis" };
        format!("{scheme}+sentinel://{}/{}{db}", hosts.join(","), self.name)
    }

    /// A server's or a sentinel's own words as everybody may see them.
    pub(super) fn redact(&self, words: &str) -> String {
        // All sentinels have one password. Before the cut, which could leave a part of it.
        self.server.redact(&self.sentinels[0].without_password(words))
    }
}

impl<'a> Parts<'a> {
    /// The parts of the text, by rules that no URL parser knows: several hosts, and a service for a path.
    fn of(text: &'a str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        if rest.contains('#') {
            return Err("what follows the # is unknown");
        }
        let (rest, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (authority, path) = rest.split_once('/').ok_or(NO_SERVICE)?;
        let (user, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        // Else the hosts before the @ would be taken for a password.
        if user.contains(',') {
            return Err(
                "a user or a password has a comma (write %2C), or a host but the first has one",
            );
        }
        let hosts: Vec<_> = hosts.split(',').collect();
        if hosts.contains(&"") {
            return Err("it names no sentinel, or has a comma too many");
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        let (name, db) = path.split_at(path.find('/').unwrap_or(path.len()));
        if name.is_empty() {
            return Err(NO_SERVICE);
        }
        // Sentinel's own rule for names.
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')) {
            return Err("the service after the hosts has letters, digits, . - and _ alone");
        }
        Ok(Self { tls: scheme.starts_with("rediss"), user, hosts, name, db, query })
    }
}

/// A Sentinel's primary has a name, which is the path.
const NO_SERVICE: &str = "it names no service: write redis+sentinel://host,host/service";

/// Whom to be at the sentinels: user and password.
type Own = (Option<String>, Option<String>);

/// What the query says of the sentinels, and the rest of it.
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

/// One sentinel, by the rules of `redis://`.
fn sentinel(scheme: &str, host: &str, (user, password): &Own) -> Result<Endpoint, String> {
    let url = format!("{scheme}://{host}");
    let endpoint = Endpoint::read(&url)?;
    let (plain, _) = without_zone(&url)?;
    let port = Url::parse(&plain).ok().and_then(|url| url.port()).unwrap_or(PORT);
    let place = match endpoint.place {
        Place::Tcp(host, _) => Place::Tcp(host, port),
        Place::Tls(host, _) => Place::Tls(host, port),
        Place::Unix(_) => return Err("a sentinel is a host and a port".into()),
    };
    Ok(Endpoint { place, username: user.clone(), password: password.clone(), ..endpoint })
}
