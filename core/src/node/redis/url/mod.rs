//! Parses the URL of a node: `redis://`, `rediss://` and `unix://` here, several hosts in [`route`].
//!
//! The result is the address of a server, and the login to use there. This module opens no connection. It knows the
//! password, so it also redacts the error texts of servers.

pub(super) mod query;
pub(super) mod route;

use std::borrow::Cow;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo};
use url::{Host, Url, form_urlencoded};

use super::io::tls::{Tls, TlsOptions, one};
use crate::error::{Error, Result};
use crate::node::Fault;
use crate::node::credentials::{Ask, Credentials, Granted, Provider};
use crate::text::spelled;
use query::{CLIENT_NAME, Parameters};

/// The address of a server, and the login to use there.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: PeerAddr,
    /// The address of the server, if another connection to the same server is open.
    pub(crate) known: Option<SocketAddr>,
    /// `None` for the user `default`, or for no login without a password.
    pub(crate) username: Option<String>,
    /// Never shown, see `Route::redact`.
    pub(crate) password: Option<String>,
    /// Selected at connect. A connection starts with database 0.
    pub(crate) db: i64,
    pub(crate) parameters: Arc<Parameters>,
    pub(crate) client_name: String,
    pub(crate) connect_timeout: Duration,
    /// Supplies the login, if it is not in the URL.
    pub(crate) provider: Option<Provider>,
    /// The TLS configuration, set once the client's options are loaded.
    pub(crate) tls: Option<Tls>,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum PeerAddr {
    /// A host, by name or address, and a port.
    Tcp(String, u16),
    Tls(String, u16),
    Unix(PathBuf),
}

/// The default time limit of one attempt to connect: name lookup, TCP, TLS, login and handshake. A name lookup that
/// takes longer continues, and later attempts join it.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait for credentials. The connection must fit into the same attempt.
const ASKING: Duration = Duration::from_millis(1500);

impl Endpoint {
    /// Parses the URL, which may be a part of another one. Returns the violated rule as an error.
    pub(crate) fn parse(text: &str) -> std::result::Result<Self, String> {
        let (text, zone) = without_zone(text)?;
        // The error of the parser contains no part of the URL.
        let mut url = Url::parse(&text).map_err(|error| {
            format!("{error}. Write @, :, / and similar characters in a password as %40, %3A, %2F")
        })?;
        check(&url)?;
        // The parser supports TLS schemes only with its own TLS library. The URLs differ in the scheme only.
        let tls = matches!(url.scheme(), "rediss" | "valkeys");
        if tls && url.set_scheme("redis").is_err() {
            return Err("its scheme is unknown".into());
        }
        let parameters = query::read(url.query().unwrap_or_default())?;
        url.set_query(None);
        // Uses the rules of the `redis` crate for hosts, ports and databases, so that a URL means the same as
        // elsewhere.
        let path = !matches!(url.path(), "" | "/");
        let info = url.into_connection_info().ok().filter(|info| info.redis_settings().db() >= 0);
        let info = info.ok_or("the path after the host must be a database number, 0 or more")?;
        let settings = info.redis_settings();
        let host =
            |host: &str| zone.map_or_else(|| host.to_owned(), |zone| format!("{host}%{zone}"));
        let address = match info.addr() {
            ConnectionAddr::Tcp(name, port) if tls => PeerAddr::Tls(host(name), *port),
            ConnectionAddr::Tcp(name, port) => PeerAddr::Tcp(host(name), *port),
            ConnectionAddr::Unix(path) => PeerAddr::Unix(path.clone()),
            _ => return Err("its kind of connection is not supported".into()),
        };
        let path = path && !matches!(address, PeerAddr::Unix(_));
        let this = Self {
            username: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            db: settings.db(),
            address,
            known: None,
            client_name: CLIENT_NAME.to_owned(),
            connect_timeout: CONNECT_TIMEOUT,
            provider: None,
            tls: None,
            parameters: Arc::new(parameters),
        };
        this.with_parameters(path)
    }

    /// Combines the parameters with the rest of the URL. They must not contradict it. `path` means that the path
    /// contains a database.
    fn with_parameters(mut self, path: bool) -> std::result::Result<Self, String> {
        let Parameters { db, username, password, family, tls_by, .. } = (*self.parameters).clone();
        if path && db.is_some_and(|db| db != self.db) {
            return Err(
                "its path and its parameter db name different databases. Write only one".to_owned()
            );
        }
        self.db = db.unwrap_or(self.db);
        let twice = (username.is_some() && self.username.is_some())
            || (password.is_some() && self.password.is_some());
        if twice {
            return Err("a user or a password appears before the @ and after the ?. Write it once"
                .to_owned());
        }
        self.username = self.username.or(username);
        self.password = self.password.or(password);
        // Some clients then log in without a user, and redis-cli takes it for the password.
        if self.username.is_some() && self.password.as_deref().is_none_or(str::is_empty) {
            return Err(
                "it has a user without a password. Write user:pass@host, or :pass@host for a password without a user"
                    .to_owned(),
            );
        }
        if let (Some(by), false) = (tls_by, self.is_tls()) {
            return Err(format!("its parameter {by} needs TLS. Use rediss://"));
        }
        if family.is_some() && matches!(self.address, PeerAddr::Unix(_)) {
            return Err("a Unix socket has no address family. Remove the parameter".to_owned());
        }
        Ok(self)
    }

    /// Formats the URL in a canonical form, without user, password and database.
    fn address_text(&self) -> String {
        let scheme = match &self.address {
            PeerAddr::Tcp(..) => "redis",
            PeerAddr::Tls(..) => "rediss",
            PeerAddr::Unix(_) => "unix",
        };
        format!("{scheme}://{}", self.authority())
    }

    /// Returns host and port, or the path, which follow the scheme.
    pub(crate) fn authority(&self) -> String {
        match &self.address {
            // An IPv6 address, without the brackets that the parser removed.
            PeerAddr::Tcp(host, port) | PeerAddr::Tls(host, port) if host.contains(':') => {
                format!("[{}]:{port}", host.replace('%', "%25"))
            }
            PeerAddr::Tcp(host, port) | PeerAddr::Tls(host, port) => format!("{host}:{port}"),
            PeerAddr::Unix(path) => path.display().to_string(),
        }
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(self.address, PeerAddr::Tls(..))
    }

    /// Applies the options that all nodes of a client share.
    pub(crate) fn with(mut self, shared: &Shared) -> Result<Self> {
        let url = self.redacted();
        self.connect_timeout = shared.connect_timeout;
        if self.is_tls() {
            self.tls = Some(shared.tls(&self.parameters.tls, &url)?);
        }
        if let Some(given) = &self.parameters.client_name {
            one(shared.client_name.as_ref(), Some(&given.value), (given.by, "client_name", &url))?;
            self.client_name.clone_from(&given.value);
        } else if let Some(name) = &shared.client_name {
            self.client_name.clone_from(name);
        }
        Ok(self)
    }

    /// Sets the provider of credentials, which is called at each connect.
    pub(crate) fn asking(mut self, shared: &Shared) -> Result<Self> {
        self.provider.clone_from(&shared.provider);
        if self.provider.is_none() || (self.username.is_none() && self.password.is_none()) {
            return Ok(self);
        }
        Err(Error::invalid(format!(
            "{} is set, but node {} has a user or a password in its URL. Use only one of them",
            spelled("credentials"),
            self.redacted()
        )))
    }

    pub(crate) async fn granted(&self) -> std::result::Result<Option<Granted>, Fault> {
        match &self.provider {
            Some(provider) => provider.get(ASKING).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns another server with the same login and options.
    pub(crate) fn at(&self, host: String, port: u16) -> Self {
        let address =
            if self.is_tls() { PeerAddr::Tls(host, port) } else { PeerAddr::Tcp(host, port) };
        Self { address, known: None, ..self.clone() }
    }

    pub(crate) fn with_login(&self, granted: &Credentials) -> Self {
        let username = granted.username.clone();
        Self { username, password: Some(granted.password.clone()), ..self.clone() }
    }

    /// Returns what identifies the node in a node list: address and database, regardless of the login.
    ///
    /// It cannot detect two names of one server. `run_ids` does that at connect.
    pub(crate) fn identity(&self) -> String {
        let address = self.address_text();
        // Host names ignore case, file names do not.
        let address = if matches!(self.address, PeerAddr::Unix(_)) {
            address
        } else {
            address.to_lowercase()
        };
        format!("{address}/{}", self.db)
    }

    /// Removes the password from a server's text.
    pub(crate) fn without_password(&self, text: &str) -> String {
        let text = match self.password.as_deref() {
            // An empty password is part of every text.
            None | Some("") => text.to_owned(),
            Some(password) => text.replace(password, "***"),
        };
        self.provider.as_ref().map_or_else(|| text.clone(), |provider| provider.redact(&text))
    }

    pub(crate) fn redacted(&self) -> String {
        match self.db {
            // The common form without a database.
            0 => self.address_text(),
            db => format!("{}/{db}", self.address_text()),
        }
    }
}

/// The options that all nodes of a client share: TLS, client name and credentials. A node adds those of its URL.
pub(crate) struct Shared {
    /// The TLS options of `rediss://` nodes.
    pub(crate) options: TlsOptions,
    pub(crate) client_name: Option<String>,
    /// Supplies the login for URLs without one.
    pub(crate) provider: Option<Provider>,
    pub(crate) connect_timeout: Duration,
    /// The loaded TLS configurations. Most nodes share the same one.
    read: RefCell<Vec<(TlsOptions, Tls)>>,
}

impl Shared {
    /// Creates the shared options without reading a file.
    pub(crate) fn new(
        options: TlsOptions,
        client_name: Option<String>,
        source: Option<Arc<Ask>>,
        connect_timeout: Duration,
    ) -> Self {
        let provider = source.map(Provider::new);
        Self { options, client_name, provider, connect_timeout, read: RefCell::default() }
    }

    /// Returns the TLS configuration of the client combined with the options of a URL. `url` names the node in errors.
    pub(crate) fn tls(&self, added: &TlsOptions, url: &str) -> Result<Tls> {
        let options = self.options.merged(added, url)?;
        let mut read = self.read.borrow_mut();
        if let Some((_, tls)) = read.iter().find(|(known, _)| *known == options) {
            return Ok(tls.clone());
        }
        let tls = Tls::load(&options)?;
        read.push((options, tls.clone()));
        Ok(tls)
    }

    /// Whether the certificate of some node is not verified.
    pub(crate) fn unverified(&self) -> bool {
        self.read.borrow().iter().any(|(options, _)| !options.verifies())
    }
}

/// Refuses what the parser accepts and no node can mean. Returns the violated rule.
///
/// Ignoring such a part would suggest that it has an effect.
fn check(url: &Url) -> std::result::Result<(), &'static str> {
    let unix = url.scheme() == "unix";
    let hosts = url.host_str().is_some_and(|host| !host.is_empty());
    if hosts && unix {
        return Err("a socket path has no host. Write three slashes");
    }
    if !hosts && !unix {
        return Err("it has no host");
    }
    // Otherwise the end of the password would be resolved as a host, and shown in errors.
    if url.host_str().is_some_and(|host| host.contains('%')) {
        return Err("its host contains a %. Do not write the @ before the host as %40");
    }
    if url.fragment().is_some() {
        return Err("it must not have a part after a #");
    }
    if url.host_str().is_some_and(is_wildcard) {
        return Err(
            "its host stands for all addresses of a server. Write one of them, such as 127.0.0.1",
        );
    }
    let texts =
        [url.username(), url.password().unwrap_or_default(), url.query().unwrap_or_default()];
    texts.into_iter().try_for_each(check_escapes)
}

/// Whether the host is a spelling of the address that a server uses to listen on all its addresses.
fn is_wildcard(host: &str) -> bool {
    // Parsed once more, because with a scheme that the parser does not know, an IPv4 address is a name.
    match Host::parse(host) {
        Ok(Host::Ipv4(address)) => address.is_unspecified(),
        Ok(Host::Ipv6(address)) => {
            address.is_unspecified()
                || address.to_ipv4_mapped().is_some_and(|v4| v4.is_unspecified())
        }
        Ok(Host::Domain(name)) => name == "*",
        Err(_) => false,
    }
}

/// Refuses a user, a password or a query whose decoded text is not UTF-8. The parser would replace such bytes.
fn check_escapes(text: &str) -> std::result::Result<(), &'static str> {
    let odd = |word: Cow<'_, str>| word.contains(char::REPLACEMENT_CHARACTER);
    if form_urlencoded::parse(text.as_bytes()).any(|(name, value)| odd(name) || odd(value)) {
        return Err(
            "a user, a password or a parameter is not UTF-8. Write each character beyond ASCII as the % escapes of \
             its UTF-8 bytes",
        );
    }
    Ok(())
}

/// Refuses several hosts. The parser would take them for one name, and the first ones with a login for a password.
fn check_one_host(login: &str, place: &str) -> std::result::Result<(), &'static str> {
    if place.contains(',') {
        return Err(
            "it names several hosts. Pass a list with one URL per node, redis+sentinel://host,host/service for \
             sentinels, or redis+cluster://host,host for a cluster",
        );
    }
    let earlier = login.strip_suffix('@').unwrap_or_default();
    if earlier.split_once('@').is_some_and(|(_, behind)| behind.contains(',')) {
        return Err(
            "it names several hosts with logins. Pass a list with one URL per node (write @ in a password as %40)",
        );
    }
    Ok(())
}

/// Returns a URL with one host in the form that the parser accepts, and the host's zone.
///
/// The parser supports neither zones of IPv6 addresses (`[fe80::1%25eth0]`, RFC 6874) nor names beyond ASCII.
fn without_zone(text: &str) -> std::result::Result<(Cow<'_, str>, Option<&str>), String> {
    let Some((scheme, rest)) = text.split_once("://") else { return Ok((text.into(), None)) };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    let (login, place) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    check_one_host(login, place)?;
    if let Some((address, port)) = place.strip_prefix('[').and_then(|place| place.split_once(']')) {
        let Some((address, zone)) = address.split_once('%') else { return Ok((text.into(), None)) };
        let zone = zone.strip_prefix("25").filter(|zone| !zone.is_empty()).unwrap_or(zone);
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if zone.is_empty() || !zone.chars().all(plain) {
            return Err(
                "the zone of its IPv6 address is not the name or number of an interface".into()
            );
        }
        return Ok((format!("{scheme}://{login}[{address}]{port}{behind}").into(), Some(zone)));
    }
    let (host, port) = place.split_at(place.rfind(':').unwrap_or(place.len()));
    if host.is_ascii() {
        return Ok((text.into(), None));
    }
    match Host::parse(host) {
        Ok(Host::Domain(host)) => {
            Ok((format!("{scheme}://{login}{host}{port}{behind}").into(), None))
        }
        _ => Err("its host is not a valid name".into()),
    }
}
